"""Metrics of solver "paper" on Corel5k's four LEAR views, and its speed relative to the oracle.

    python benchmarks/corel5k.py DATA/corel5k_lear4.npz --seeds 3

Half of the views' rows and half of the labels of the training samples are hidden and rows are
shuffled (see ``naim3l_bench.challenge.make_challenge``). Features are fitted on training rows only.
Metrics are computed per view on complete test views, then averaged; shown are mean and standard
deviation over seeds.
"""

import argparse
import itertools
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from common import QUICK_ROWS
from sklearn.exceptions import ConvergenceWarning

from naim3l import NAIM3L, Recipe, evaluate
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_paper
from naim3l.solvers.objective import Objective
from naim3l_bench.challenge import make_challenge
from naim3l_bench.datasets import open_npz

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import oracle

METRICS = ("1-HL", "1-RL", "AP", "AUC")


def challenge(data, seed):
    plan = make_challenge(data.labels, len(data.views), alpha=0.5, beta=0.5, random_state=seed)
    return plan.apply(data.views, data.labels)


def metrics(data, n_seeds, lam, max_iter):
    rows = []
    for seed in range(n_seeds):
        trial = challenge(data, seed)
        start = time.perf_counter()
        options = {"solver": "paper", "max_iter": max_iter, "random_state": seed}
        model = NAIM3L(lam, features="paper", **options)
        model.fit(trial.X_train, trial.Y_train)
        seconds = time.perf_counter() - start
        result = evaluate(trial.Y_test, model.decision_function(trial.X_test))
        rows.append([100 * result[name] for name in METRICS])
        shown = "  ".join(f"{name} {x:.2f}" for name, x in zip(METRICS, rows[-1], strict=True))
        state = f"{model.n_iter_} iterations, converged {model.converged_}, {seconds:.0f} s"
        print(f"seed {seed}: {shown}  ({state})", flush=True)
    for name, values in zip(METRICS, np.transpose(rows), strict=True):
        print(f"{name:>5} {values.mean():.2f} ({values.std():.2f})")


def iteration_ratio(data, lam, n_iter=4):
    """Seconds per iteration of the oracle and of solver "paper" from the same start."""
    trial = challenge(data, 0)
    features = [Recipe("paper").fit(X.astype(float))[1] for X in trial.X_train.values()]
    labels = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in trial.Y_train.values()]
    problem = Problem(features, labels)
    W = np.random.default_rng(0).uniform(-1, 1, (problem.n_weights, problem.n_labels))

    start = time.perf_counter()
    result = solve_paper(Objective(problem, lam), W, max_iter=n_iter, tol=0)
    ours = (time.perf_counter() - start) / n_iter
    iterates = oracle.iterate(features, labels, W, lam=lam)
    next(iterates)  # builds its matrices
    start = time.perf_counter()
    *_, (W_oracle, _, _) = itertools.islice(iterates, n_iter - 1)
    naive = (time.perf_counter() - start) / (n_iter - 1)
    start = time.perf_counter()
    oracle.objective(features, labels, W_oracle, lam=lam)
    naive_objective = time.perf_counter() - start
    difference = np.abs(result.W - W_oracle).max() / np.abs(W_oracle).max()
    print(
        f"oracle {naive:.2f} s per iteration, {naive_objective:.2f} s more with the objective; "
        f"paper {ours:.2f} s with it; weights differ by {difference:.0e}"
    )
    print(
        f"oracle : paper per iteration = {(naive + naive_objective) / ours:.1f} with the "
        f"objective, {naive / ours:.1f} without it in the oracle"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lam", type=float, default=0.4)
    parser.add_argument("--quick", action="store_true", help="few rows, to check that it runs")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # the iterations are printed
    data = open_npz(arguments.path)
    if arguments.quick:
        some = data.labels[:QUICK_ROWS]
        data.labels = some[:, some.sum(axis=0) >= 10]
        data.views = {view: X[:QUICK_ROWS] for view, X in data.views.items()}
    iteration_ratio(data, arguments.lam)
    max_iter = 20 if arguments.quick else NAIM3L().max_iter
    metrics(data, arguments.seeds, arguments.lam, max_iter)


if __name__ == "__main__":
    main()
