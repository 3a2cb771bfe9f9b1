"""Patterns of available views: rows that have the same views, and the logistic losses of each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from naim3l.extend import AlignedRows
from naim3l_bench.arrays import Mask, Matrix, consecutive_slices


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
