"""iMSF: a logistic task for each pattern of available views, for aligned rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils._param_validation import Interval

from naim3l.extend import AlignedModel, AlignedRows, Learned
from naim3l_bench.arrays import Mask, Matrix, consecutive_slices
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, ITERATIONS


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
    views, features, positive_weight, decide, random_state
        As in :class:`naim3l.estimators.FusedRidge`. For weights of the columns of a table, give
        ``features=None``. The method itself draws no random numbers.

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

    References
    ----------
    .. [1] L. Yuan, Y. Wang, P. M. Thompson, V. A. Narayan, J. Ye. "Multi-source feature learning
       for joint analysis of incomplete multiple heterogeneous neuroimaging data". NeuroImage 61
       (2012) 622-632.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "sparsity": [Interval(Real, 0, 1, closed="both")],
        "min_rows": [COUNT],
    }
    _shapes: ClassVar[dict[str, str]] = {
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


class PatternTasks:
    """Logistic losses of all labels, with one task for each pattern of available views.

    A task's rows have exactly the views of its pattern, and its loss is the mean over its rows in
    which the label is known. Weights of all tasks are stacked, (n_weights, n_labels); the last
    weight of each task is an intercept.

    Attributes
    ----------
    patterns : bool ndarray of shape (n_patterns, n_views)
        Views of each pattern: patterns of many views first, then those of many rows.
    trained : bool ndarray of shape (n_patterns, n_labels)
        Whether a label is known to be yes in at least ``min_rows`` rows of the pattern, and no in
        as many; or in one of each, and at least half as many as in the pattern where there are the
        most. Other tasks are left out.
    groups : CSR array of shape (n_features, n_weights)
        1 where a weight is that of a feature; there is none for intercepts.
    """

    def __init__(self, rows: AlignedRows, mean: Matrix, scale: Matrix, min_rows: int = 1):
        self.patterns, order, counts = sort_patterns(rows.present)
        X = (np.hstack(rows.features)[order] - mean) / scale
        self.row_slices = consecutive_slices(counts)
        self.columns = columns_of_patterns(self.patterns, rows.widths)
        self.weight_slices = consecutive_slices(len(at) + 1 for at in self.columns)
        self.blocks = [
            np.hstack([X[part][:, at], np.ones((len(X[part]), 1))])
            for part, at in zip(self.row_slices, self.columns, strict=True)
        ]
        self.groups = self._make_groups(X.shape[1])
        self.Y, P = rows.Y[order], rows.P[order]
        starts = [part.start for part in self.row_slices]
        totals, yes, n_yes, n_no = (
            np.add.reduceat(A, starts)
            for A in (P, np.where(self.Y > 0, P, 0), 1 * (self.Y > 0), 1 * (self.Y < 0))
        )
        fewer = np.minimum(n_yes, n_no)
        self.trained = fewer >= np.clip(np.ceil(fewer.max(axis=0) / 2), 1, min_rows)
        share = np.divide(self.trained, totals, out=np.zeros(totals.shape), where=totals > 0)
        self.omega = P * np.repeat(share, counts, axis=0)
        self.start = np.zeros((self.weight_slices[-1].stop, self.Y.shape[1]))
        odds = np.divide(yes, totals - yes, out=np.ones(totals.shape), where=self.trained)
        self.start[[at.stop - 1 for at in self.weight_slices]] = np.log(odds)

    def _make_groups(self, n_features: int) -> sparse.csr_array:
        """Which weights belong to which feature."""
        features = np.concatenate(self.columns)
        weights = np.concatenate([np.arange(at.start, at.stop - 1) for at in self.weight_slices])
        size = (n_features, self.weight_slices[-1].stop)
        return sparse.csr_array((np.ones(len(weights)), (features, weights)), shape=size)

    def scores(self, W: Matrix) -> Matrix:
        """Scores of the rows, ordered by pattern."""
        parts = zip(self.blocks, self.weight_slices, strict=True)
        return np.concatenate([X @ W[at] for X, at in parts])

    def losses(self, W: Matrix, labels: Any = slice(None)) -> Matrix:
        """Loss of each label, (n_labels,), where ``W`` has the weights of these labels."""
        margins = self.Y[:, labels] * self.scores(W)
        return np.einsum("ij,ij->j", self.omega[:, labels], np.logaddexp(0, -margins))

    def gradient(self, W: Matrix, labels: Any = slice(None)) -> Matrix:
        """Gradient of the losses, (n_weights, n_labels)."""
        Y = self.Y[:, labels]
        slopes = -self.omega[:, labels] * Y * expit(-Y * self.scores(W))
        parts = zip(self.blocks, self.row_slices, strict=True)
        return np.concatenate([X.T @ slopes[rows] for X, rows in parts])

    def norms(self, W: Matrix) -> Matrix:
        """Norm of the weights of each feature in all tasks, (n_features, n_labels)."""
        return np.sqrt(self.groups @ W**2)

    def prox(self, V: Matrix, thresholds: Matrix) -> Matrix:
        """Weights with the norms of features reduced by the thresholds (n_labels,) of labels.

        They minimise ``1/2 |W - V|^2 + threshold * sum(norms(W))``, column by column.
        """
        norms = self.norms(V)
        kept = np.maximum(1 - thresholds / np.where(norms > 0, norms, 1), 0)
        # Removing the rest leaves intercepts, which are in no group, as they are.
        return V - (self.groups.T @ (1 - kept)) * V

    def largest_penalty(self) -> Matrix:
        """Smallest penalty of each label, (n_labels,), for which all weights are zero."""
        return self.norms(self.gradient(self.start)).max(axis=0)

    def first_curvatures(self) -> Matrix:
        """Inverse step sizes (n_labels,) to start with: the losses' mean curvature over weights."""
        squares = np.concatenate([np.mean(X**2, axis=1) for X in self.blocks])
        totals = np.add.reduceat(
            squares[:, None] * self.omega, [rows.start for rows in self.row_slices]
        )
        curvatures = totals.max(axis=0) / 4
        return np.where(curvatures > 0, curvatures, 1)


def sort_patterns(present: Mask) -> tuple[Mask, NDArray, NDArray]:
    """Patterns of available views, rows ordered by pattern, and the number of rows of each.

    Parameters
    ----------
    present : bool ndarray of shape (n_views, n_rows)

    Returns
    -------
    patterns : bool ndarray of shape (n_patterns, n_views)
        Those of many views first, then those of many rows.
    order : ndarray of shape (n_rows,)
    counts : ndarray of shape (n_patterns,)
    """
    patterns, pattern_of, counts = np.unique(
        present.T, axis=0, return_inverse=True, return_counts=True
    )
    ranked = np.lexsort((-counts, -patterns.sum(axis=1)))
    order = np.argsort(np.argsort(ranked)[pattern_of.ravel()], kind="stable")
    return patterns[ranked], order, counts[ranked]


def columns_of_patterns(patterns: Mask, widths: list[int]) -> list[NDArray]:
    """Columns of the views of each pattern, among those of all views."""
    return [np.flatnonzero(np.repeat(pattern, widths)) for pattern in patterns]


def standardisation(rows: AlignedRows) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation of each feature over the rows that have its view."""
    parts = [X[has] for X, has in zip(rows.features, rows.present, strict=True)]
    deviations = np.concatenate([X.std(axis=0) for X in parts])
    return rows.means(), np.where(deviations > 0, deviations, 1)


# Rounding errors of the loss, relative to it, that are no reason for a smaller step.
ROUNDING = 1e-12


class GroupFista:
    """Accelerated proximal gradient of all labels at once, each with its own step and momentum.

    A step that would raise the objective of a label is taken again without momentum, so that the
    objective never rises. A label whose objective no longer falls is left alone.

    Attributes
    ----------
    W : ndarray of shape (n_weights, n_labels)
        Weights after the last step.
    """

    def __init__(self, tasks: PatternTasks, penalties: Matrix, tol: float):
        self.tasks, self.penalties, self.tol = tasks, penalties, tol
        self.W = self.W_old = tasks.start
        self.objectives = self._objectives(self.W, tasks.losses(self.W), penalties)
        self.curvatures = tasks.first_curvatures()
        self.momentum = np.ones(len(penalties))
        self.left = np.arange(len(penalties))

    def step(self) -> Record:
        """One step of every label that has not converged."""
        at = self.left
        W, before, momentum = self.W[:, at], self.objectives[at], self.momentum[at]
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        new, after = self._step_from(W + (momentum - 1) / grown * (W - self.W_old[:, at]), at)
        if (rose := np.flatnonzero(after > before)).size:
            new[:, rose], after[rose] = self._step_from(W[:, rose], at[rose])
            grown[rose] = 1
            rounding = np.flatnonzero(after > before)
            new[:, rounding], after[rounding] = W[:, rounding], before[rounding]
        self.W_old, self.W = self.W, _with_columns(self.W, at, new)
        self.objectives[at], self.momentum[at] = after, grown
        self.left = at[before - after > self.tol * np.abs(before)]
        return {"objective": float(self.objectives.sum()), "labels": len(at)}

    def _step_from(self, S: Matrix, labels: NDArray) -> tuple[Matrix, Matrix]:
        """Weights after a gradient step and the prox, and their objectives."""
        losses, gradient = self.tasks.losses(S, labels), self.tasks.gradient(S, labels)
        W, losses = self._search(S, losses, gradient, labels)
        return W, self._objectives(W, losses, self.penalties[labels])

    def _search(
        self, S: Matrix, losses: Matrix, gradient: Matrix, labels: NDArray
    ) -> tuple[Matrix, Matrix]:
        """Weights after the step, and their losses.

        The step of a label is halved until a quadratic function of it bounds the loss.
        """
        curvatures = self.curvatures[labels]
        W = self.tasks.prox(S - gradient / curvatures, self.penalties[labels] / curvatures)
        moved = W - S
        bounds = losses + np.einsum("ij,ij->j", moved, gradient + curvatures / 2 * moved)
        new_losses = self.tasks.losses(W, labels)
        beyond = np.flatnonzero(new_losses > bounds + ROUNDING * losses)
        if beyond.size:
            self.curvatures[labels[beyond]] *= 2
            W[:, beyond], new_losses[beyond] = self._search(
                S[:, beyond], losses[beyond], gradient[:, beyond], labels[beyond]
            )
        return W, new_losses

    def _objectives(self, W: Matrix, losses: Matrix, penalties: Matrix) -> Matrix:
        return losses + penalties * self.tasks.norms(W).sum(axis=0)


def _with_columns(A: Matrix, columns: NDArray, values: Matrix) -> Matrix:
    """A copy of ``A`` with other values in some columns."""
    A = A.copy()
    A[:, columns] = values
    return A
