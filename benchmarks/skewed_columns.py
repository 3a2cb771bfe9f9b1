"""Logarithms of skewed columns, beside the same columns as they are.

Macro-AUC on samples that were set aside, per table, of `NAIM3LCV` with the default recipe and with
``Recipe(log=False)``: on studies of `naim3l_bench.studies`, and on made-up amounts whose logarithms
are normal and have linear effects.

    python benchmarks/skewed_columns.py --data DATA
"""

import argparse
import os
import warnings

import numpy as np

# Rows of each table, all labels of which are known.
STUDIES = {"nhanes_2017": 900, "birds": 300, "emotions": 300, "yeast": 500, "arxiv2007": 400}
SPREADS = (0.5, 1.0, 2.3)  # of made-up logarithms; with 2.3, amounts range over five decades


def make_amounts(spread, seed, n_columns=12, n_labels=6, n_test=3000):
    """Two tables of amounts, a fifth of which are 0, and samples that are in both."""
    from naim3l_bench.studies import Population

    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(n_test + 2000, 2 * n_columns))
    amounts = np.exp(6 + spread * logs).round(2)
    none = rng.random(logs.shape) < 0.2
    amounts[none], logs[none] = 0, -1.5
    weights = rng.normal(size=(2 * n_columns, n_labels)) / n_columns**0.5
    yes = rng.random((len(logs), n_labels)) < 1 / (1 + np.exp(0.7 - logs @ weights))
    halves = np.split(amounts, 2, axis=1)
    return Population(dict(zip(("first", "second"), halves, strict=True)), yes.astype(float))


def measure(population, n_rows, seed):
    """Columns that become logarithms, and macro-AUC in percent without and with them, by table."""
    from naim3l import NAIM3LCV, Recipe
    from naim3l_bench.studies import macro_auc, make_study

    study, found = make_study(population, n_rows, 1.0, seed), {}
    for log in (False, True):
        model = NAIM3LCV(features=Recipe(log=log), decide="sign", random_state=seed)
        scores = model.fit(study.X, study.Y).decision_function(study.X_test)
        found[log] = {view: macro_auc(study.Y_test, np.asarray(S)) for view, S in scores.items()}
    taken = {view: sum(c.log_shift > 0 for c in of) for view, of in model.columns_.items()}
    return {view: (taken[view], found[False][view], found[True][view]) for view in taken}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True, help="folder with nhanes_2017.tsv.gz and others")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--studies", nargs="*", default=list(STUDIES))
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    from naim3l_bench.studies import open_population

    print("| data | table | columns | as they are | logarithms | difference |")
    print("| --- | --- | --: | --: | --: | --: |")
    for spread in SPREADS:
        runs = [measure(make_amounts(spread, s), 900, s) for s in range(arguments.seeds)]
        print_rows(f"amounts, spread {spread:g}", runs)
    for name in arguments.studies:
        population = open_population(name, arguments.data)
        runs = [measure(population, STUDIES[name], s) for s in range(arguments.seeds)]
        print_rows(name, runs)


def print_rows(name, runs):
    """Means over the seeds, and the standard error of the difference, in Markdown."""
    for view in runs[0]:
        taken, before, after = np.array([run[view] for run in runs]).T
        error = (after - before).std(ddof=1) / len(runs) ** 0.5
        print(
            f"| {name} | {view} | {taken.mean():.0f} | {before.mean():.1f} | {after.mean():.1f} | "
            f"{(after - before).mean():+.2f} ({error:.2f}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
