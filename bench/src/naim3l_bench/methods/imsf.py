"""Incomplete multi-source feature learning: a logistic task for each pattern of available views."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import (
    PARAMETERS,
    AlignedModel,
    AlignedRows,
    Learned,
    Parameter,
    check_number,
    whole_number,
)
from naim3l_bench.arrays import Mask, Matrix, consecutive_slices
from naim3l_bench.methods.alternation import alternate
from naim3l_bench.methods.group_fista import GroupFista
from naim3l_bench.methods.patterns import (
    PatternTasks,
    columns_of_patterns,
    sort_patterns,
    standardisation,
)


def _check_share(name: str, value: Any) -> None:
    check_number(name, value, above=0, or_equal=True)
    if value > 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value!r}: 1 makes all weights zero.")


@dataclass(eq=False, repr=False)
class IMSF(AlignedModel):
    """Logistic regression for each pattern of available views, with common features selected.

    Rows that have the same views form a task with weights of its own, so nothing is filled in. All
    weights of one feature, over the tasks whose pattern contains its view, form a group that is
    zero or not as a whole. For each label, on its own, the method [1]_ minimises ::

        sum_i mean_i log(1 + exp(-y (x w_i + b_i))) + rho sum_g |w_g|_2

    where ``mean_i`` is over the rows of task i in which the label is known. A task with few known
    positives or negatives of a label is left out for this label, see ``min_rows``. ``rho`` is
    ``sparsity`` times the smallest value for which all weights of the label are zero. Features are
    standardised over the rows that have their view. Accelerated proximal gradients (FISTA) solve
    for all labels at once.

    Scores are log-odds. A row is scored by the task of its own pattern. If that was left out for a
    label, the score is the mean of those of the largest patterns of its views: all that were
    trained for the label and are not part of another one that was. Without any, the score is the
    log-odds of the label in all training rows. These rules and ``min_rows`` are ours, as are
    several labels and unknown ones.

    With many views there are many patterns with few rows each, and rare labels are trained in few
    of them. Rows of a task that was left out take no part in others. On rows that have one view
    each, the method is an independent logistic regression with an l1 penalty in each view, which
    makes it a comparison without any coupling.

    Parameters
    ----------
    sparsity : float, default=0.1
        Ratio of ``rho`` to the value that makes all weights zero, from 0 to 1. Increase it when few
        labels are known.
    min_rows : int, default=10
        Number of known positives, and of known negatives, of a label with which a task is always
        trained. With fewer it is trained if it has at least half as many as the best task of the
        label. A task with less than that predicts worse than those of some of its views, which
        have more data. 1 trains all tasks with both values, as published.
    max_iter : int, default=1000
        Largest number of steps. A fit in which some label has not converged by then warns.
    tol : float, default=1e-6
        Relative decrease of a label's objective in a step at which its fit ends.
    views : mapping of str to columns, optional
        Columns of each view: names, positions, a slice or a mask. Other columns are ignored. With
        None all columns are one view.
    transformer, n_components, positive_weight, label_coding, threshold, calibrate, random_state
        As in :class:`naim3l.NAIM3L`. For weights of the columns of a table, give
        ``transformer=None``. The method itself draws no random numbers.

    Attributes
    ----------
    coef_ : ndarray of shape (n_weights, n_labels)
        Weights of standardised features, task after task in the order of ``patterns_``: those of
        the views of the pattern, in the order of ``views_``, and then an intercept.
    patterns_ : bool ndarray of shape (n_patterns, n_views)
        Views of each task: patterns of many views first, then those of many rows.
    trained_ : bool ndarray of shape (n_patterns, n_labels)
        Whether the task was trained for a label.
    mean_, scale_ : ndarray of shape (n_features,)
        Means and standard deviations of the features of all views.
    prior_ : ndarray of shape (n_labels,)
        Log-odds of the labels in all training rows.
    history_ : list of dict
        For each step, the ``objective`` of all labels and the number of ``labels`` that had not
        converged before it.
    converged_ : bool
        Whether each label has converged.
    n_encoded_ : dict of str to int
        Number of features of each view, after its transformer.
    thresholds_, rules_, calibration_, base_rates_, transformers_, views_, label_names_, classes_, \
n_iter_, objective_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    References
    ----------
    .. [1] L. Yuan, Y. Wang, P. M. Thompson, V. A. Narayan, J. Ye. "Multi-source feature learning
       for joint analysis of incomplete multiple heterogeneous neuroimaging data". NeuroImage 61
       (2012) 622-632.

    Examples
    --------
    >>> from naim3l import evaluate, join_views
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l_bench.methods import IMSF
    >>> data = make_unpaired(
    ...     90, n_features=(9, 8), n_labels=4, aligned=True, missing_labels=0.3, random_state=0
    ... )
    >>> wide, views = join_views(data.views)
    >>> wide[:30, views["view1"]] = float("nan")  # rows without this view
    >>> model = IMSF(views=views).fit(wide[:80], data.labels["view0"][:80])
    >>> model.patterns_
    array([[ True,  True],
           [ True, False]])
    >>> scores = model.decision_function(wide[80:])
    >>> evaluate(data.complete_labels["view0"][80:], scores)["AP"] > 0.9
    True
    """

    _schema = PARAMETERS | {
        "sparsity": Parameter(_check_share, (float,)),
        "min_rows": whole_number(at_least=1),
    }
    _shapes = {  # noqa: RUF012
        "coef": "wc",
        "patterns": "pv",
        "trained": "pc",
        "mean": "d",
        "scale": "d",
        "prior": "c",
    }
    _masks = frozenset({"patterns", "trained"})

    sparsity: float = 0.1
    min_rows: int = 10
    max_iter: int = 1000
    tol: float = 1e-6

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        mean, scale = standardisation(rows)
        tasks = PatternTasks(rows, mean, scale, self.min_rows)
        fista = GroupFista(tasks, self.sparsity * tasks.largest_penalty(), self.tol)
        learned = alternate(
            fista.step, self.max_iter, self.tol, has_ended=lambda: not fista.left.size
        )
        learned.arrays = {
            "coef": fista.W,
            "patterns": tasks.patterns,
            "trained": tasks.trained,
            "mean": mean,
            "scale": scale,
            "prior": log_odds(rows.P, rows.Y),
        }
        return learned

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        return score_patterns(arrays, features, present)


def log_odds(P: Matrix, Y: Matrix) -> Matrix:
    """Log-odds of each label over the rows in which it is known, with half a row more of each."""
    yes = np.where(Y > 0, P, 0).sum(axis=0)
    return np.log((yes + 0.5) / (P.sum(axis=0) - yes + 0.5))


def score_patterns(arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask) -> Matrix:
    """Scores (n_rows, n_labels), means over the largest trained patterns of each row's views."""
    X = (np.hstack(features) - arrays["mean"]) / arrays["scale"]
    columns = columns_of_patterns(arrays["patterns"], [part.shape[1] for part in features])
    weights = consecutive_slices(len(at) + 1 for at in columns)
    scores = np.tile(arrays["prior"], (len(X), 1))
    patterns, order, counts = sort_patterns(present)
    for pattern, part in zip(patterns, consecutive_slices(counts), strict=True):
        rows, largest = order[part], largest_trained(arrays["patterns"], arrays["trained"], pattern)
        some = largest.any(axis=0)
        scores[np.ix_(rows, some)] = 0
        shares = largest / np.maximum(largest.sum(axis=0), 1)
        for p in np.flatnonzero(largest.any(axis=1)):
            W = arrays["coef"][weights[p]]
            scores[rows] += shares[p] * (X[rows][:, columns[p]] @ W[:-1] + W[-1])
    return scores


def largest_trained(patterns: Mask, trained: Mask, of: Mask) -> Mask:
    """Trained patterns within a pattern that are not part of another one, (n_patterns, n_labels).

    Parameters
    ----------
    patterns : bool ndarray of shape (n_patterns, n_views)
    trained : bool ndarray of shape (n_patterns, n_labels)
    of : bool ndarray of shape (n_views,)
    """
    trained = trained & ~patterns[:, ~of].any(axis=1, keepdims=True)
    sizes = patterns.sum(axis=1)
    is_part = (1 * patterns) @ patterns.T == sizes[:, None]  # of the pattern of the column
    is_smaller = sizes[:, None] < sizes
    return trained & ~((is_part & is_smaller) @ trained)
