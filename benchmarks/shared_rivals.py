"""Rivals of naim3l on tables that share columns, for shared_tables.py.

Each gets what ours gets: numbers, times of day and categories of each table, age also as a spline,
a strength or a size of trees chosen on held-out rows, base rates of all tables, and one learned
slope of its log-odds. Where too little is known of a label, its answer is the base rate.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

from naim3l_bench.studies import SHARED

AGE = SHARED[0]
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
LEAVES = (3, 8)  # of a tree
TREES = (5, 10, 20, 40, 80)
N_FOLDS = 3


def base_rates(study, seed):
    """Shares of yes among the known entries of all tables, for every sample."""
    P = np.tile(pooled_rates(study), (len(study.Y_test), 1))
    return [P for _ in study.X], P


def of_tables(train, study, seed):
    """A model per table; fused, the mean of its log-odds."""
    rates = pooled_rates(study)
    X, X_test = ({v: with_hours(of) for v, of in t.items()} for t in (study.X, study.X_test))
    scores = [train(X[v], study.Y[v], X_test[v], rates, seed) for v in X]
    return [expit(S) for S in scores], expit(np.mean(scores, axis=0))


def with_hours(table):
    """The table with times of day such as b'23:30' as hours; ours reads them, too."""
    found = table.copy()
    for name in table.select_dtypes(exclude="number"):
        times = table[name].astype(str).str.extract(r"^b'(\d+):(\d+)'$").astype(float)
        if times[0].notna().sum() > 0.5 * table[name].notna().sum():
            found[name] = times[0] + times[1] / 60
    return found


def of_shared(train, study, seed):
    """One model on the shared columns of all tables' rows: the same answer for every table."""
    import pandas as pd

    X = pd.concat([table[list(SHARED)] for table in study.X.values()], ignore_index=True)
    Y = np.vstack(list(study.Y.values()))
    X_test = next(iter(study.X_test.values()))[list(SHARED)]
    P = expit(train(X, Y, X_test, pooled_rates(study), seed))
    return [P for _ in study.X], P


def pooled_rates(study):
    """Share of yes by label in all tables, drawn towards that of all labels by one entry."""
    Y = np.vstack(list(study.Y.values()))
    known = np.isfinite(Y)
    overall = Y[known].mean()
    return (np.nansum(Y, axis=0) + overall) / (known.sum(axis=0) + 1)


def logistic(X, Y, X_test, rates, seed):
    """Log-odds of a logistic regression per label; strength and spline of age are chosen."""

    def fit(encode, of_C, rows, at):
        encoder = encode(X).fit(X.iloc[rows])
        known, new = encoder.transform(X.iloc[rows]), [encoder.transform(of) for of in at]
        for C in of_C:
            model = LogisticRegression(C=C, solver="newton-cholesky")
            yield by_label(model, known, Y[rows], [known, *new])

    encoders = (encode_linear, encode_spline)

    def held_out(rows, at):
        return [of for encode in encoders for of in fit(encode, STRENGTHS, rows, at)]

    def final(choice, rows, at):
        encode, C = encoders[choice // len(STRENGTHS)], STRENGTHS[choice % len(STRENGTHS)]
        return next(fit(encode, [C], rows, at))

    return tuned(held_out, final, X, Y, X_test, rates, seed)


def boosting(X, Y, X_test, rates, seed):
    """Log-odds of boosted trees per label; their size and number are chosen."""

    def fit(leaves, trees, rows, at):
        encoder = encode_codes(X).fit(X.iloc[rows])
        known, new = encoder.transform(X.iloc[rows]), [encoder.transform(of) for of in at]
        n_known = np.isfinite(Y[rows]).sum(axis=0).mean()
        model = HistGradientBoostingClassifier(
            max_iter=max(trees),
            max_leaf_nodes=leaves,
            max_bins=63,
            min_samples_leaf=int(np.clip(n_known / 20, 2, 20)),
            early_stopping=False,
            random_state=seed,
        )
        return by_label(model, known, Y[rows], [known, *new], trees)

    def held_out(rows, at):
        return [of for leaves in LEAVES for of in fit(leaves, TREES, rows, at)]

    def final(choice, rows, at):
        leaves, trees = LEAVES[choice // len(TREES)], TREES[choice % len(TREES)]
        return fit(leaves, [trees], rows, at)[0]

    return tuned(held_out, final, X, Y, X_test, rates, seed)


def tuned(held_out, final, X, Y, X_test, rates, seed):
    """Calibrated log-odds of new rows with the parameters that are best on held-out rows.

    ``held_out(rows, at)`` has a list of scores for each candidate: of ``rows``, on which it is
    trained, and of each table of ``at``.
    """
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=seed).split(Y))
    found = [held_out(rows, [X.iloc[out]]) for rows, out in folds]
    losses, slopes = [], []
    for of_folds in zip(*found, strict=True):
        loss, slope = fit_slope(of_folds, [Y[out] for _, out in folds], rates)
        losses.append(loss)
        slopes.append(slope)
    choice = int(np.argmin(losses))
    trained, new = final(choice, np.arange(len(Y)), [X_test])
    return level(slopes[choice], trained, new, rates)


def fit_slope(of_folds, truths, rates):
    """Least log-loss on held-out rows over one slope from 0 to 3, and that slope."""

    def loss(slope):
        found = 0.0
        for (trained, new), Y in zip(of_folds, truths, strict=True):
            E = level(slope, trained, new, rates)
            found += np.nansum(np.logaddexp(0, E) - Y * E)
        return found

    best = minimize_scalar(loss, bounds=(0, 3), method="bounded", options={"xatol": 0.03})
    return best.fun, best.x


def level(slope, trained, new, rates):
    """Log-odds with a slope, and means over the training rows that are the base rates."""
    scores, offset = slope * trained, logit(rates)
    for _ in range(8):  # Newton's method, with steps that cannot overshoot far
        P = expit(scores + offset)
        step = (rates - P.mean(axis=0)) / np.maximum((P * (1 - P)).mean(axis=0), 1e-6)
        offset = offset + np.clip(step, -2, 2)
    return slope * new + offset


def by_label(model, X, Y, at, trees=None):
    """Scores (of each table of ``at``) of one model per label, 0 where one value is known only.

    With ``trees``, a list of them for each number of trees.
    """
    found = [[np.zeros((len(of), Y.shape[1])) for of in at] for _ in trees or [0]]
    for k, y in enumerate(Y.T):
        known = np.isfinite(y)
        if len(np.unique(y[known])) < 2:
            continue
        fitted = model.fit(_without_empty(X[known]), y[known])
        for j, of in enumerate(at):
            if trees is None:
                found[0][j][:, k] = fitted.decision_function(of)
                continue
            for i, S in enumerate(fitted.staged_decision_function(of), start=1):
                if i in trees:
                    found[trees.index(i)][j][:, k] = S.ravel()
    return found[0] if trees is None else found


def _without_empty(X):
    """Zeros in columns without any value, which trees refuse."""
    return np.where(np.isnan(X).all(axis=0), 0.0, X)


def columns_of(X):
    """Names of the columns of numbers, and of the others, which are categories."""
    numbers = list(X.select_dtypes("number").columns)
    return numbers, [name for name in X.columns if name not in numbers]


def encode_linear(X):
    """Standardised numbers with indicators of empty cells, and a column for each category."""
    numbers, categories = columns_of(X)
    filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    rare = OneHotEncoder(
        min_frequency=0.02, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    return make_column_transformer((filled, numbers), (rare, categories))


def encode_spline(X):
    """The same with a spline of age."""
    spline = make_pipeline(SplineTransformer(5, degree=3, knots="quantile"), StandardScaler())
    return make_column_transformer((encode_linear(X), list(X.columns)), (spline, [AGE]))


def encode_codes(X):
    """Numbers as they are, and a column for each category."""
    numbers, categories = columns_of(X)
    same = FunctionTransformer()
    rare = OneHotEncoder(
        min_frequency=0.02, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    return make_column_transformer((same, numbers), (rare, categories))


RIVALS = {
    "base rates": base_rates,
    "logistic": lambda study, seed: of_tables(logistic, study, seed),
    "boosting": lambda study, seed: of_tables(boosting, study, seed),
    "logistic, shared": lambda study, seed: of_shared(logistic, study, seed),
    "boosting, shared": lambda study, seed: of_shared(boosting, study, seed),
}
