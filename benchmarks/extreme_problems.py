"""Problems at the edge: what becomes of their fits, and whether a lower objective was missed.

    python benchmarks/extreme_problems.py

Sizes, scales, shares of known and positive labels, lam (0.01 to 200) and ridge (0 in two of five)
are drawn at random. Each problem is fitted from the usual start alone, and as `NAIM3L` does it:
refused if nothing limits the scores of a label, and with further starts where coupling is strong.
Other fits from random points then look for a lower objective. A second table has fits with lam as
usual, in which there should be one start, and a third a column that is 1 in a single row.
"""

import argparse
from time import process_time

import numpy as np
from common import make_cases, print_machine, print_table, progress

from naim3l import NAIM3L
from naim3l.problem.boundedness import unlimited_scores
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast, start_again
from naim3l.solvers.objective import Objective

MAX_ITER, LOWER = 200, (1e-3, 1e-2)


def draw(seed, quick):
    """The objective of one problem."""
    rng = np.random.default_rng(seed)
    n_views, n_labels = rng.integers(1, 4), rng.integers(1, 9)
    n_rows = rng.integers(6, 20 if quick else 40, n_views)
    n_features = rng.integers(1, 20 if quick else 50, n_views)
    lam = 10 ** rng.uniform(-2, 2.3)
    ridge = 0.0 if rng.random() < 0.4 else 10 ** rng.uniform(-3, 1)
    known, positive, noise = rng.uniform(0.1, 1), rng.uniform(0.05, 0.6), rng.uniform(0, 3)
    uneven = 1.5 * (rng.random() < 0.3)
    features, labels = [], []
    for n, d in zip(n_rows, n_features, strict=True):
        X = rng.normal(size=(n, d)) * 10 ** (rng.uniform(-1, 1) + uneven * rng.uniform(-1, 1, d))
        scores = X @ rng.normal(size=(d, n_labels))
        scores = scores / scores.std() + noise * rng.normal(size=scores.shape)
        Y = np.where(scores > np.quantile(scores, 1 - positive), 1, -1)
        Y = np.where(rng.random(Y.shape) < known, Y, 0)
        Y[0] = 1
        features.append(X)
        labels.append(Y)
    return Objective(Problem(features, labels), lam, ridge=ridge)


def fit(objective, W=None):
    """The result, or None where the objective falls without bound."""
    try:
        return solve_fast(objective, W, max_iter=MAX_ITER)
    except FloatingPointError:
        return None


def fit_again(objective, first):
    """The result of all starts after the first, and whether there were any."""
    begun = []
    options = {"max_iter": MAX_ITER, "callback": lambda record, W: begun.append(record)}
    try:
        return start_again(objective, first, **options), bool(begun)
    except FloatingPointError:
        return None, True


def lowest_found(objective, size, n_starts, seed):
    """The lowest objective from random points of the size of a fit, and a shrunk ridge solution."""
    rng, shape = np.random.default_rng([1, seed]), objective.problem.targets.shape
    starts = [size * rng.normal(size=shape) for _ in range(n_starts)]
    starts.append(objective.problem.ridge_solutions([objective.ridge + 1])[0])
    found = [fit(objective, W) for W in starts]
    return min([objective.value(of.W) for of in found if of is not None], default=np.inf)


def extremes(n_problems, n_starts, quick):
    """Counts by way of fitting."""
    names = ("refused at once", "error in the fit", "not converged", "converged")
    names += tuple(f"of these, a point lower by {share:.1%} exists" for share in LOWER)
    names += ("several starts", "CPU seconds")
    counts = {way: dict.fromkeys(names, 0) for way in ("one start", "as NAIM3L")}
    for seed in range(n_problems):
        progress(f"problem {seed}")
        objective, begun = draw(seed, quick), process_time()
        refused = objective.ridge == 0 and unlimited_scores(objective.problem) is not None
        asked, first = process_time(), fit(objective)
        fitted = process_time()
        again, several = (first, False) if first is None else fit_again(objective, first)
        both = {"one start": (first, False), "as NAIM3L": (None if refused else again, several)}
        seconds = {"one start": fitted - asked, "as NAIM3L": asked - begun}
        if not refused:
            seconds["as NAIM3L"] += process_time() - asked
        results = [result for result, _ in both.values() if result is not None]
        sizes = [float(np.sqrt(np.mean(result.W**2))) for result in results[:1]]
        lowest = [lowest_found(objective, size, n_starts, seed) for size in sizes]
        for way, (result, has_several) in both.items():
            of = counts[way]
            of["CPU seconds"] += seconds[way]
            if way == "as NAIM3L" and refused:
                of["refused at once"] += 1
                continue
            of["several starts"] += has_several
            if result is None:
                of["error in the fit"] += 1
                continue
            of["converged" if result.converged else "not converged"] += 1
            values = [objective.value(of_result.W) for of_result in results]
            value = objective.value(result.W)
            for name, share in zip(names[4:6], LOWER, strict=True):
                of[name] += result.converged and value - min(*lowest, *values) > share * abs(value)
    print_table(
        f"Fits of {n_problems} extreme problems, at most {MAX_ITER} iterations.",
        [{"": name} | {way: counts[way][name] for way in counts} for name in names],
    )


def usual(data, quick):
    """The share that the high-rank term has of all other terms, with lam as usual."""
    rows = []
    for case in make_cases(data, quick, ["yeast", "corel5k-4"]):
        for lam in (0.1, 0.4, 1.6):
            problem = case.objective().problem
            objective = Objective(problem, lam, ridge=problem.bounding_ridge(lam))
            last = solve_fast(objective).history[-1]
            others = last["loss"] + last["low_rank"] + last["ridge"]
            rows.append({"data": case.name, "lam": lam, "share": -last["high_rank"] / others})
    print_table("The high-rank term relative to the others; beyond 0.5, further starts.", rows)


def lone_column(seed, **options):
    """Largest scores of unknown labels: of the row that has a column alone, and of all others."""
    rng = np.random.default_rng(seed)
    X = {v: rng.normal(size=(n, d)) for v, n, d in (("a", 200, 8), ("b", 150, 6))}
    Y = {}
    for v, X_v in X.items():
        signal = X_v[:, :6] @ rng.normal(size=(6, 6)) + rng.normal(size=(len(X_v), 6))
        Y[v] = np.where(rng.random(signal.shape) < 0.5, np.nan, signal > 0.5)
    X["a"] = np.column_stack([X["a"], np.arange(200) == 3])
    Y["a"][3] = [1, *[np.nan] * 5]
    model = NAIM3L(random_state=0, **options).fit(X, Y)
    scores = np.abs(model.decision_function(X)["a"])
    return model.ridge_, scores[3, 1:].max(), np.delete(scores, 3, axis=0).max()


def lone_columns(n_seeds):
    rows = []
    for lam in (0.1, 0.4, 3.0):
        for ridge in ("auto", 0.1):
            found = [lone_column(seed, lam=lam, ridge=ridge) for seed in range(n_seeds)]
            ridges, alone, others = np.transpose(found)
            row = {"lam": lam, "ridge": str(ridge), "ridge_, at most": ridges.max()}
            row |= {"its scores, least": alone.min(), "its scores, largest": alone.max()}
            rows.append(row | {"scores of other rows, largest": others.max()})
    print_table("A column that is 1 in one row, of which one of six labels is known.", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with corel5k_lear4.npz")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument(
        "--starts", type=int, default=2, help="random starts that look for a lower one"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    args = parser.parse_args()
    print_machine()
    extremes(5 if args.quick else args.problems, args.starts, args.quick)
    usual(args.data, args.quick)
    lone_columns(1 if args.quick else 5)


if __name__ == "__main__":
    main()
