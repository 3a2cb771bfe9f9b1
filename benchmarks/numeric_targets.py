"""Variance of numeric targets explained on new rows: ridge per column, alone and in a label space.

Columns of some tables of the health survey are targets, half of them unknown, of others, which have
different people. Ridges and shrinkage are chosen in five folds.

    python benchmarks/numeric_targets.py --data DATA
"""

import argparse

import numpy as np

RIDGES, SHRINKAGES = (1.0, 10.0, 100.0, 1000.0, 10000.0), (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
TASKS = (
    (("blood", "diet"), ("body", "habits")),
    (("body", "blood"), ("diet", "habits")),
    (("diet",), ("body", "blood", "habits")),
)
N_TEST, N_FOLDS = 1500, 5


def draw(tables, targets, inputs, n_rows, seed):
    """Problem of training rows, features of test rows by table, and their targets."""
    import pandas as pd

    from naim3l.problem.rows import Problem

    rng = np.random.default_rng(seed)
    values = pd.concat([tables[name] for name in targets], axis=1)
    values = values.loc[:, values.nunique() > 10]
    order = rng.permutation(len(values))
    test, rest = order[:N_TEST], order[N_TEST:]
    values = ((values - values.iloc[rest].mean()) / values.iloc[rest].std()).clip(-4, 4)
    features, known, of_test = [], [], []
    dealt = np.array_split(rest[: n_rows * len(inputs)], len(inputs))
    for name, rows in zip(inputs, dealt, strict=True):
        of_rows = tables[name].iloc[rows]
        scaled = (tables[name] - of_rows.mean()) / of_rows.std().replace(0, 1).fillna(1)
        X = scaled.fillna(0).clip(-5, 5).to_numpy()
        Y = values.iloc[rows].to_numpy().copy()
        Y[rng.random(Y.shape) < 0.5] = np.nan
        features.append(X[rows])
        of_test.append(X[test])
        known.append(np.nan_to_num(Y))  # 0 is unknown
    return Problem(features, known), of_test, values.iloc[test].to_numpy(), rng


def explained(truth, scores):
    """Share of the variance of the targets, mean over them."""
    known = np.isfinite(truth)
    error, whole = (np.where(known, of, 0).sum(axis=0) for of in ((truth - scores) ** 2, truth**2))
    return float(1 - np.mean(error / whole))


def run(tables, targets, inputs, n_rows, seed):
    """Variance explained by ridge per column, and by the same in a label space, in percent."""
    from naim3l.estimators.subspace import fit_pairs

    problem, of_test, truth, rng = draw(tables, targets, inputs, n_rows, seed)
    pairs = [(ridge, shrinkage) for ridge in RIDGES for shrinkage in SHRINKAGES]
    scale, losses = np.full(problem.n_labels, 0.5), dict.fromkeys(pairs, 0.0)
    fold_of = rng.integers(0, N_FOLDS, problem.n_rows)
    for fold in range(N_FOLDS):
        hidden = (fold_of == fold)[:, None] & (problem.Y != 0)
        fit = fit_pairs(problem.without(hidden), scale, pairs)
        for pair in pairs:
            losses[pair] += ((problem.Y - problem.multiply(fit(pair)))[hidden] ** 2).sum()
    fit, found = fit_pairs(problem, scale, pairs), []
    for used in ([pair for pair in pairs if pair[1] == 0], pairs):
        weights = problem.split_weights(fit(min(used, key=losses.get)))
        of_tables = zip(of_test, *weights, strict=True)
        found.append(100 * np.mean([explained(truth, X @ W + b) for X, W, b in of_tables]))
    return found


def main():
    from naim3l_bench.studies import open_population

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    views = open_population("nhanes_2017", arguments.data).views
    tables = {name: of.select_dtypes("number") for name, of in views.items()}
    print("| targets | from | rows per table | ridge | label space adds |")
    print("| --- | --- | --- | --- | --- |")
    for targets, inputs in TASKS:
        for n_rows in (100, 300, 1000):
            runs = [run(tables, targets, inputs, n_rows, seed) for seed in range(arguments.seeds)]
            ridge, space = np.array(runs).T
            error = (space - ridge).std(ddof=1) / len(runs) ** 0.5
            cells = [", ".join(targets), ", ".join(inputs), str(n_rows), f"{ridge.mean():.2f}"]
            print(f"| {' | '.join(cells)} | {(space - ridge).mean():+.2f} ({error:.2f}) |")


if __name__ == "__main__":
    main()
