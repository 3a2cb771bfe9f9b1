"""Problems on which solvers are compared."""

import numpy as np
import pytest

from naim3l.problem.rows import Problem


def planted(seed=0, n_rows=150, n_features=(12, 10), n_labels=7, n_latent=5, noise=0.3, known=0.6):
    """Views of different rows whose features and labels depend on a few hidden numbers."""
    rng = np.random.default_rng(seed)
    to_labels = rng.normal(size=(n_latent, n_labels))
    features, labels = [], []
    for d in n_features:
        hidden = rng.normal(size=(n_rows, n_latent))
        X = hidden @ rng.normal(size=(n_latent, d)) / np.sqrt(n_latent)
        features.append(X + noise * rng.normal(size=X.shape))
        signs = np.where(hidden @ to_labels > 0.5, 1, -1)
        labels.append(np.where(rng.random(signs.shape) < known, signs, 0))
    return Problem(features, labels)


def emotions(folder):
    """Real data: each row in one view, its columns scaled, half of its labels unknown."""
    rng, data = np.random.default_rng(0), np.load(folder / "emotions.npz")
    views = [data[name] for name in data.files if name.startswith("view_")][:2]
    shares = np.array_split(rng.permutation(len(data["labels"])), 2)
    features, labels = [], []
    for X, rows in zip(views, shares, strict=True):
        Z = (X[rows] - X[rows].mean(axis=0)) / X[rows].std(axis=0)
        features.append(Z / np.sqrt(Z.shape[1]))
        signs = np.where(data["labels"][rows] > 0, 1, -1)
        labels.append(np.where(rng.random(signs.shape) < 0.5, signs, 0))
    return Problem(features, labels)


@pytest.fixture
def planted_problem():
    return planted()


@pytest.fixture
def real_problem(shared_data):
    return emotions(shared_data)
