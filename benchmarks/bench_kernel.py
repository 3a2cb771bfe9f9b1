"""Kernel fits compared with the linear fit: time by landmarks, by form, and of a search.

    python benchmarks/bench_kernel.py --data DATA

The data are one split of Corel5k with half of the views and labels missing (without --data,
generated counts of that size). The linear fit is the paper's, with 50 components per view. Times
are CPU seconds of complete fits to the default tolerance; features and the bound of ridge="auto"
are timed separately. Rows and statistics are the two forms of a problem that a solver can work on;
an estimate chooses between them. The search is that of NAIM3LCV: bandwidths, two folds, six pairs
of lam and ridge, and the final fit.
"""

import argparse
from time import process_time

import numpy as np
from common import print_machine, print_table, progress

from naim3l import NAIM3L, NAIM3LCV, Kernel, Recipe
from naim3l.problem.cost_model import choose_form, estimate_costs
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective
from naim3l_bench.datasets import open_dataset
from naim3l_bench.trials import draw_challenge, make_trial

LAM, RIDGE = 0.4, 1.0
SETTINGS = {"alpha": 0.5, "beta": 0.5, "aligned": False, "seed": 0}


def training_rows(data, quick):
    """Raw tables and labels of all views."""
    if data is None or quick:
        rng = np.random.default_rng(0)
        n_rows, n_labels, sizes = (200, 12, (30, 20)) if quick else (1750, 260, (100, 1000) * 3)
        X = {f"view{v}": rng.poisson(1.0, (n_rows, d)) * 1.0 for v, d in enumerate(sizes)}
        Y = {view: (rng.random((n_rows, n_labels)) < 0.03) * 1.0 for view in X}
        for labels in Y.values():
            labels[rng.random(labels.shape) < 0.5] = np.nan
        return X, Y
    source = open_dataset("corel5k", data)
    trial = make_trial(source, draw_challenge(source, SETTINGS), features="raw", seed=0)
    return trial.X_train, trial.Y_train


def make_problem(X, Y, n_landmarks=None):
    """Problem with features, by default those of the paper, and the seconds that these took."""
    start = process_time()
    if n_landmarks is None:
        features = [Recipe("paper").fit(table)[1] for table in X.values()]
    else:
        kernel = Kernel("hellinger", n_landmarks=n_landmarks)
        features = [kernel.fit(table).apply(table) for table in X.values()]
    seconds = process_time() - start
    return Problem(features, [np.where(np.isnan(y), 0, 2 * y - 1) for y in Y.values()]), seconds


def timed(problem, lam, ridge, form="auto"):
    start = process_time()
    result = solve_fast(Objective(problem, lam, ridge=ridge), form=form)
    return process_time() - start, result.n_iter


def compare_fits(X, Y, landmarks):
    """Solve times of kernel fits as multiples of the linear fit."""
    progress("linear fit")
    problem, features = make_problem(X, Y)
    timed(problem, LAM, 0.0)  # warms up
    linear, n_iter = timed(problem, LAM, 0.0)
    rows = []

    def add(fit, problem, features, seconds, n_iter, form):
        row = {"fit": fit, "features, s": f"{features:.1f}", "solve, s": f"{seconds:.1f}"}
        row |= {"iterations": n_iter, "solve : linear": f"{seconds / linear:.1f}", "form": form}
        start = process_time()
        problem.bounding_ridge(LAM)
        rows.append(row | {"automatic ridge : solve": (process_time() - start) / seconds})

    add("linear, 50 components", problem, features, linear, n_iter, "")
    for n in landmarks:
        progress(f"{n} landmarks")
        problem, features = make_problem(X, Y, n)
        form = "rows" if choose_form(problem) is problem else "statistics"
        add(f"kernel, {n} landmarks", problem, features, *timed(problem, LAM, RIDGE), form)
    print_table("Kernel fits compared with the linear fit", rows)


def compare_forms(X, Y, columns):
    """Measured and estimated ratios of the two forms."""
    rows = []
    for n in columns:
        progress(f"forms at {n} columns")
        problem, _ = make_problem(X, Y, n)
        costs = estimate_costs(problem)
        on_rows, on_statistics = (
            timed(problem, LAM, RIDGE, form)[0] for form in ("rows", "statistics")
        )
        row = {"columns": n, "rows, s": f"{on_rows:.1f}", "statistics, s": f"{on_statistics:.1f}"}
        row |= {"measured ratio": on_rows / on_statistics}
        rows.append(row | {"estimated ratio": costs["rows"].flops / costs["statistics"].flops})
    print_table("Rows or statistics", rows)


def compare_search(X, Y, n):
    """Time of a search relative to a single fit, both including features."""
    progress("search")
    start = process_time()
    kernel = Kernel("hellinger", n_landmarks=n)
    NAIM3L(LAM, ridge=RIDGE, features=kernel).fit(X, Y)
    single = process_time() - start
    start = process_time()
    pairs = [0.2, 0.4, 0.8], [1.0, 3.0]
    NAIM3LCV(*pairs, cv=2, features=kernel, decide="sign", random_state=0).fit(X, Y)
    search = process_time() - start
    row = {"search": f"{n} landmarks, 6 pairs, 2 folds, 3 bandwidths"}
    row |= {"single fit, s": f"{single:.1f}", "search, s": f"{search:.1f}"}
    print_table("A search with its final fit", [row | {"search : single fit": search / single}])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the Corel5k files")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--landmarks", type=int, nargs="+", default=[150, 300, 600])
    parser.add_argument("--only-fits", action="store_true", help="without forms and search")
    arguments = parser.parse_args()
    print_machine()
    X, Y = training_rows(arguments.data, arguments.quick)
    compare_fits(X, Y, [10, 20] if arguments.quick else arguments.landmarks)
    if arguments.only_fits:
        return
    compare_forms(X, Y, [10] if arguments.quick else [50, 100, 200])
    compare_search(X, Y, 10 if arguments.quick else 300)


if __name__ == "__main__":
    main()
