"""A small dataset for tests of experiments."""

import numpy as np

from naim3l_bench.datasets import MultiView, StoredView


def small_source(n_samples=90, n_labels=5, seed=0):
    """Three views of a few latent factors, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n_samples, 4))
    labels = (latent @ rng.normal(size=(4, n_labels)) > 0.3).astype(int)
    views = {
        f"view{v}": StoredView.in_memory(latent @ rng.normal(size=(4, d)) + rng.normal(size=(1, d)))
        for v, d in enumerate((7, 6, 8))
    }
    return MultiView(views, labels)
