"""Tables of different people that all know age and sex: what these columns add, and to whom.

A health survey (nhanes_2017, adults): examination, blood, diet and habits, each of different
people, beside age and sex in every table; 12 conditions. A share of the people is set aside; on
them, macro-AUC and Brier score of each table's answers, averaged over tables, and of answers that
are fused over all tables. Means over seeds, with the standard error of the mean.

- naim3l, apart: NAIM3LCV with `Recipe(shared=False)`, so that each table has its own age and sex
- naim3l: NAIM3LCV with its defaults, which learns from them in all tables together
- logistic, own: logistic regression per table, on all of its columns
- logistic, stacked: logistic regression on age and sex of the rows of all tables
- boosting, stacked: HistGradientBoosting on the same, with few leaves and steps
- noise, apart / noise: as the first two, with age and sex of other people, which say nothing

    python benchmarks/shared_columns.py --data DATA
"""

import argparse
import gzip
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from common import print_markdown, progress
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from naim3l import NAIM3LCV, PerViewLogistic, Recipe
from naim3l_bench.studies import (
    ADULT,
    Population,
    brier,
    macro_auc,
    make_study,
    open_population,
)

AGE, SEX = "AgeInYearsAtScreening", "Gender"
SIZES = (150, 900)
# Few leaves and steps, because the default ones fit noise with a few hundred rows.
SMALL = {"learning_rate": 0.05, "max_leaf_nodes": 6, "max_iter": 60, "min_samples_leaf": 20}


def with_age_and_sex(population, folder):
    """The population with both columns in every table."""
    with gzip.open(Path(folder) / "nhanes_2017.tsv.gz", "rt") as file:
        people = pd.read_csv(file, sep="\t", usecols=[AGE, SEX])
    people = people[people[AGE] >= ADULT].reset_index(drop=True)
    views = {view: pd.concat([X, people], axis=1) for view, X in population.views.items()}
    return Population(views, population.labels)


def shuffled(tables, seed):
    """The tables with age and sex of other people."""
    rng = np.random.default_rng(seed)
    found = {}
    for view, X in tables.items():
        other = X[[AGE, SEX]].iloc[rng.permutation(len(X))].reset_index(drop=True)
        found[view] = X.reset_index(drop=True).assign(**{AGE: other[AGE], SEX: other[SEX]})
    return found


def stacked(study, model):
    """Probabilities of new people by a model of age and sex on the rows of all tables."""

    def features(X):
        return np.column_stack([(X[AGE] - 50) / 18, X[SEX] == "Female"]).astype(float)

    X = np.concatenate([features(of) for of in study.X.values()])
    Y = np.concatenate(list(study.Y.values()))
    new = features(next(iter(study.X_test.values())))
    P = np.empty(study.Y_test.shape)
    for k, y in enumerate(Y.T):
        known = np.isfinite(y)
        if len(np.unique(y[known])) < 2:
            P[:, k] = 0.5
            continue
        P[:, k] = model.fit(X[known], y[known] > 0).predict_proba(new)[:, 1]
    return P


def measure(study, seed):
    """Macro-AUC and Brier score by method, of tables and fused."""
    found = {}

    def keep(method, tables, fused=None):
        measures = [[of(study.Y_test, P) for P in tables] for of in (macro_auc, brier)]
        found[method] = [float(np.mean(of)) for of in measures]
        both = () if fused is None else (macro_auc, brier)
        found[method] += [of(study.Y_test, np.asarray(fused)) for of in both]

    def fit(method, features, X, X_test):
        model = NAIM3LCV(features=features, random_state=seed).fit(X, study.Y)
        keep(method, model.predict_proba(X_test).values(), model.fuse(X_test))

    apart = Recipe(shared=False)
    fit("naim3l, apart", apart, study.X, study.X_test)
    fit("naim3l", "auto", study.X, study.X_test)
    logistic = PerViewLogistic(decide="sign").fit(study.X, study.Y)
    keep("logistic, own", [expit(S) for S in logistic.decision_function(study.X_test).values()])
    keep("logistic, stacked", [stacked(study, LogisticRegression())])
    keep("boosting, stacked", [stacked(study, HistGradientBoostingClassifier(**SMALL))])
    noise = shuffled(study.X, seed), shuffled(study.X_test, seed + 1)
    fit("noise, apart", apart, *noise)
    fit("noise", "auto", *noise)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with nhanes_2017.tsv.gz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--known", type=float, default=1.0, help="share of known labels")
    given = parser.parse_args()
    population = with_age_and_sex(open_population("nhanes_2017", given.data), given.data)
    names = ("AUC of tables", "Brier of tables", "AUC fused", "Brier fused")
    for n_rows in SIZES:
        runs = defaultdict(list)
        for seed in range(given.seeds):
            progress(f"{n_rows} rows, seed {seed}")
            study = make_study(population, n_rows, given.known, seed)
            for method, values in measure(study, seed).items():
                runs[method].append(values)
        rows = []
        for method, values in runs.items():
            mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
            shown = [
                f"{m:.2f} ± {e / len(values) ** 0.5:.2f}" for m, e in zip(mean, error, strict=True)
            ]
            cells = dict.fromkeys(names, "") | dict(zip(names, shown, strict=False))
            rows.append({"method": method} | cells)
        title = f"{n_rows} rows per table, {100 * given.known:g} % known, {given.seeds} seeds"
        print_markdown(title, rows)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # columns that are almost empty
    sys.exit(main())
