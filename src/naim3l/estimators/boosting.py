"""Gradient boosting of each label in each table by itself, to compare models with.

Trees take the columns as they are: any scale, missing values, and relations that are not linear.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from naim3l._arrays import Matrix, as_dense

# Comparisons leave boosting out if `boosting_cost` is larger.
MOST_SECONDS = 20
# Numbers of trees that are tried; without trees, scores are base rates.
N_TREES = (0, 10, 30, 100)
# With 31 leaves and 255 bins, fits to yeast and two other datasets took twice as long and were not
# more accurate.
SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_iter": N_TREES[-1],
    "max_leaf_nodes": 15,
    "max_bins": 63,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}
# Rates are at least this far from 0 and 1, so that log-odds are finite.
LEAST_RATE = 1e-6
# Seconds of a fit and its predictions, of each square root of rows, and of that times columns. They
# are close to measured times of 30 to 20,000 rows and 2 to 1000 columns: the number of leaves, and
# of different values that are tried as splits, grows with the rows only as long as these are few.
PER_FIT, PER_ROOT, PER_COLUMN = 0.015, 9e-4, 3.7e-5


def boosted_scores(
    tables: Sequence[Any],
    signed: Sequence[NDArray[Any]],
    folds: Sequence[NDArray[Any]],
    rates: NDArray[np.floating],
    *,
    advance: Callable[[], object] = lambda: None,
) -> list[Matrix]:
    """Log-odds of held-out entries by gradient boosting of each label in each table.

    Each label is fitted without the entries of each fold in turn. For the entries of a fold, all
    labels of a table have the number of trees that has the lowest log-loss on the entries of the
    other folds; no trees, that is the base rates, if there are no others.

    Parameters
    ----------
    tables : sequence of ndarray or sparse array, each of shape (n_rows_v, n_columns_v)
        By view; values may be NaN. Sparse tables are made dense.
    signed : sequence of ndarray, each of shape (n_rows_v, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    folds : sequence of ndarray of int, each of shape (n_rows_v, n_labels)
        Fold in which each entry is held out; -1 if in none.
    rates : ndarray of shape (n_labels,) or (n_views, n_labels)
        Shares of positives, in all views or in each. Where the entries outside of a fold have
        only one value, there is no fit, and scores are the log-odds of the rate.
    advance : callable, optional
        Called after each fit, ``len(boosting_fits(tables, signed, folds))`` times.

    Returns
    -------
    list of ndarray, each of shape (n_rows_v, n_labels)
        Log-odds by the fit without the entry's fold; NaN if it is unknown or in no fold.
    """
    found: list[Matrix] = []
    rates_of_views = np.broadcast_to(rates, (len(tables), np.shape(rates)[-1]))
    for table, Y, fold_of, of_view in zip(tables, signed, folds, rates_of_views, strict=True):
        held_out_in = np.where(Y != 0, fold_of, -1)
        stages = _staged_scores(as_dense(table), Y, held_out_in, of_view, advance)
        found.append(_chosen_stages(stages, Y, held_out_in))
    return found


def boosting_fits(
    tables: Sequence[Any], signed: Sequence[NDArray[Any]], folds: Sequence[NDArray[Any]]
) -> list[tuple[int, int]]:
    """Numbers of rows and columns of each fit of `boosted_scores`, which has the same parameters.

    There is a fit for each view, label and fold whose other entries have both values.
    """
    views = zip(tables, signed, folds, strict=True)
    return [
        (len(training), table.shape[1])
        for table, Y, fold_of in views
        for _, _, training in _fits(table, Y, fold_of)
    ]


def boosting_cost(
    tables: Sequence[Any], signed: Sequence[NDArray[Any]], folds: Sequence[NDArray[Any]]
) -> float:
    """Seconds that `boosted_scores` takes, estimated from the shapes of its fits.

    Parameters
    ----------
    tables : sequence of ndarray or sparse array, each of shape (n_rows_v, n_columns_v)
    signed, folds : sequence of ndarray of int, each of shape (n_rows_v, n_labels)
        As for `boosted_scores`.

    Returns
    -------
    float
        Seconds on an idle core; up to twice or half as many were measured.
    """
    shapes = boosting_fits(tables, signed, folds)
    return float(sum(PER_FIT + n**0.5 * (PER_ROOT + PER_COLUMN * d) for n, d in shapes))


def _fits(
    table: Any, Y: NDArray[Any], fold_of: NDArray[Any]
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
    """Label, held-out rows and training rows of each fit, if these have both values."""
    if not table.shape[1]:
        return
    for k, (y, of_label) in enumerate(zip(Y.T, fold_of.T, strict=True)):
        for fold in range(int(of_label.max(initial=-1)) + 1):
            held_out = np.flatnonzero((y != 0) & (of_label == fold))
            training = np.flatnonzero((y != 0) & (of_label != fold))
            if len(held_out) and len(np.unique(y[training])) == 2:
                yield k, held_out, training


def _staged_scores(
    X: Matrix,
    Y: NDArray[Any],
    fold_of: NDArray[Any],
    rates: NDArray[np.floating],
    advance: Callable[[], object],
) -> NDArray[np.float64]:
    """Scores of held-out entries by each of `N_TREES`, (n_stages, n_rows, n_labels), else NaN."""
    constant = logit(np.clip(rates, LEAST_RATE, 1 - LEAST_RATE))
    scores = np.where(fold_of >= 0, constant, np.nan)
    stages = np.repeat(scores[None], len(N_TREES), axis=0)
    # Small tables are not fitted faster by several threads, and many times slower on busy cores.
    with threadpool_limits(limits=1, user_api="openmp"):
        for k, held_out, training in _fits(X, Y, fold_of):
            # With 20 in each leaf, few rows would not make trees; leaves of one row fit noise.
            leaf = int(np.clip(len(training) // 20, 5, 20))
            model = HistGradientBoostingClassifier(**SETTINGS, min_samples_leaf=leaf)
            model.fit(_fill_empty(X[training]), Y[training, k] > 0)
            of_trees = list(model.staged_decision_function(X[held_out]))
            stages[1:, held_out, k] = [of_trees[n_trees - 1] for n_trees in N_TREES[1:]]
            advance()
    return stages


def _fill_empty(X: Matrix) -> Matrix:
    """The given rows, changed to zeros in columns without any value: scikit-learn refuses these."""
    X[:, np.isnan(X).all(axis=0)] = 0
    return X


def _chosen_stages(
    stages: NDArray[np.float64], Y: NDArray[Any], fold_of: NDArray[Any]
) -> NDArray[np.float64]:
    """Scores of each entry by the stage with the lowest log-loss on the entries of other folds.

    A held-out entry has trained the fits without other folds, but no loss of its own counts.
    """
    held_out, scores, losses = fold_of >= 0, stages[0].copy(), -log_expit(Y * stages)
    for fold in range(int(fold_of.max(initial=-1)) + 1):
        own, others = fold_of == fold, held_out & (fold_of != fold)
        best = losses[:, others].sum(axis=1).argmin()  # the fewest trees of those that are equal
        scores[own] = stages[best, own]
    return scores
