"""Method "blend": networks with one head, on unlike features, blended.

Rows of different views are never matched; they are fused for test samples only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from threadpoolctl import threadpool_info

from naim3l.estimators import BlendNAIM3L
from naim3l.extend import KernelMap, LeadingComponents, RootHistogram, make_transformer
from naim3l_bench.outcome import Outcome, Parameters
from naim3l_bench.trials import Trial, measure_overlapping

KERNEL, ROOTS = "kernel components", "fourth roots"
# All rows are landmarks, unless there are more than this.
MOST_LANDMARKS = 4000


@contextmanager
def limited_torch() -> Iterator[None]:
    """Keep torch to the number of threads that joblib gives to the process."""
    import torch

    threads = torch.get_num_threads()
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    torch.set_num_threads(max(blas or [1]))  # joblib's limit, which torch does not see
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def kernel_components(kernel: str, n_components: int) -> Pipeline:
    """Leading components of the rows in the space of a kernel (kernel PCA)."""
    compare = KernelMap(kernel, n_landmarks=MOST_LANDMARKS)
    return make_pipeline(compare, LeadingComponents(n_components))


def fourth_roots(n_components: int) -> Pipeline:
    """Recipe "histogram" with square roots taken twice."""
    keep = LeadingComponents(n_components)
    return make_pipeline(RootHistogram(), RootHistogram(), keep, Normalizer())


def make_members(
    kernel: str, n_kernel_components: int, n_components: int, **network: Any
) -> list[tuple[str, Any]]:
    """Two networks with a shared head each: on components of a kernel, and on roots of counts.

    If the kernel is not one of histograms, the second is on standardised columns.
    """
    from naim3l.deep import DeepNAIM3L

    if KernelMap(kernel).of_histograms:
        second = ROOTS, fourth_roots(n_components)
    else:
        second = "components", make_transformer("scale", "", n_components=n_components)
    features = [(KERNEL, kernel_components(kernel, n_kernel_components)), second]
    options = {"shared_head": True, "lam": 0.0, **network}
    return [(name, DeepNAIM3L(transformer=recipe, **options)) for name, recipe in features]


def run_blend(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """The blend and its members, fused with the overlap that the parameters name."""
    options = dict(parameters)
    overlap = options.pop("overlap")
    model = BlendNAIM3L(make_members(**options), random_state=seed)
    with limited_torch():
        model.fit(trial.X_train, trial.Y_train)
    scores = model.decision_function(trial.X_test)
    curves = {"blend": model.calibration_} | {
        name: {view: of.calibrations[m] for view, of in model.blends_.items()}
        for m, name in enumerate(model.members_)
    }
    measured = {}
    for name, of_view in curves.items():
        found = scores if name == "blend" else model.members_[name].decision_function(trial.X_test)
        log_odds = {view: of_view[view].log_odds(S) for view, S in found.items()}
        measured[name] = measure_overlapping(trial, log_odds, logit(model.base_rates_), overlap)
    weights = {name: np.unique(w).tolist() for name, w in model.weights_.items()}
    return Outcome(scores, {"weights": weights}, model.calibration_, {"members": measured})
