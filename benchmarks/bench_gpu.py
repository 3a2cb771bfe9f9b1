"""Fits and a search on a GPU and on the CPU, side by side.

    python benchmarks/bench_gpu.py --data DATA

- A fit of ESPGame's size: 20,770 samples in six views of 50 columns, half of the rows of each view,
  268 labels, 4.7 of them per row, the most frequent of a quarter of the samples and the rarest of
  30, half of them unknown. Reading tables, moving them to the device and moving weights back are
  included; a fit of a small table before it starts the device's libraries.
- The search of a kernel model on Corel5k with six views: bandwidths, two folds, six pairs of lam
  and ridge, the final fit and the calibration, from raw tables.
- Thresholding of a batch of matrices, by products and by eigendecompositions.

Weights are compared after fits of yeast with small tolerances.
Needs torch: ``pip install '.[torch]'``.
"""

import argparse
import warnings
from time import perf_counter

import numpy as np
import torch
from bench_kernel import training_rows
from common import make_cases, number, print_machine, print_markdown, print_table, progress
from sklearn.exceptions import ConvergenceWarning

from naim3l import NAIM3L, NAIM3LCV, Decisions, Kernel
from naim3l.solvers.nuclear import singular_value_threshold
from naim3l.solvers.torch_steps import shrink_gram

TOLS = {"espgame-sized": [1e-4], "yeast": [1e-7, 1e-9]}
SEARCH = {"lams": [0.2, 0.4, 0.8], "ridges": [1.0, 3.0], "cv": 2, "metric": "log-loss", "tol": 1e-3}
DECIDE = Decisions("sign", probabilities=True)


def tables_of(case):
    """Features and labels of a case as tables: 1, 0, NaN = unknown."""
    X = {f"view{v}": features for v, features in enumerate(case.features)}
    Y = {view: np.where(Y == 0, np.nan, Y > 0) for view, Y in zip(X, case.labels, strict=True)}
    return X, Y


def timed_fit(model, X, Y):
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y)
    return perf_counter() - start


def difference(one, other):
    """Largest difference of weights, relative to the largest weight."""
    size = max(np.abs(W).max() for W in other.coef_.values())
    return max(np.abs(one.coef_[v] - W).max() for v, W in other.coef_.items()) / size


def compare_fits(case, tol, arguments):
    """Fits of one case on both devices; a ridge determines the weights that are compared."""
    X, Y = tables_of(case)
    some = [{view: A[:50] for view, A in tables.items()} for tables in (X, Y)]
    models, seconds = [], []
    for device in (arguments.device, "cpu"):
        progress(f"fit, {case.name}, tol {tol:g}, {device}")
        timed_fit(NAIM3L(features=None, ridge=1.0, max_iter=2, device=device), *some)
        ridge = 1.0 if case.name == "yeast" else "auto"
        limits = {"tol": tol, "max_iter": 5000}
        models.append(NAIM3L(case.lam, ridge=ridge, features=None, **limits, device=device))
        seconds.append(timed_fit(models[-1], X, Y))
    gpu, cpu = models
    row = {
        "tol": f"{tol:g}",
        "GPU s (iterations)": f"{number(seconds[0])} ({gpu.n_iter_})",
        "CPU s (iterations)": f"{number(seconds[1])} ({cpu.n_iter_})",
        "CPU : GPU": seconds[1] / seconds[0],
        "weights differ": difference(gpu, cpu),
        "objectives differ": abs(gpu.objective_ / cpu.objective_ - 1),
    }
    arguments.table(f"A fit, {case.name}.", [row])


def compare_search(X, Y, arguments):
    rows = []
    for device in (arguments.device, "cpu"):
        progress(f"search, {device}")
        kernel = Kernel("hellinger", arguments.landmarks)
        model = NAIM3LCV(**SEARCH, features=kernel, decide=DECIDE, random_state=0, device=device)
        row = {"device": device, "s": timed_fit(model, X, Y), "lam": f"{model.lam_:g}"}
        row |= {"ridge": f"{model.ridge_:g}", "held-out log-loss": f"{model.best_score_:.5f}"}
        rows.append(row)
    arguments.table("Kernel search on Corel5k, six views, with calibration.", rows)


def compare_thresholding(arguments):
    n = 20 if arguments.quick else 260
    A = torch.randn(n, n + 40, n, dtype=torch.float64, device=arguments.device) - 1
    K, rows = A.mT @ A, []
    exact = singular_value_threshold(A.cpu().numpy(), 2.0)
    for name, function in {
        "products": lambda: A @ shrink_gram(K, 2.0),
        "torch.linalg.eigh": lambda: torch.linalg.eigh(K),
    }.items():
        function()
        _synchronize()
        start = perf_counter()
        result = function()
        _synchronize()
        seconds = perf_counter() - start
        error = None
        if name == "products":
            error = np.abs(result.cpu().numpy() - exact).max() / np.abs(exact).max()
        rows.append({"by": name, "ms": 1000 * seconds, "relative error": error})
    arguments.table(f"Thresholding {n} matrices {n} x {n}.", rows)


def _synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the Corel5k files; generated counts without")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--landmarks", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, as a test")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    if arguments.device == "auto":
        arguments.device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments.table = print_markdown if arguments.markdown else print_table
    print_machine()
    print(f"device: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU here'}")
    compare_thresholding(arguments)
    for case in make_cases(None, arguments.quick, list(TOLS)):
        for tol in TOLS[case.name]:
            compare_fits(case, tol, arguments)
    if arguments.quick:
        arguments.landmarks = 10
    compare_search(*training_rows(arguments.data, arguments.quick), arguments)


if __name__ == "__main__":
    main()
