"""Samples that several views describe, for methods that need to know which rows are one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from naim3l._arrays import Mask, Matrix, as_dense
from naim3l.problem.base import consecutive_slices
from naim3l.problem.feature_blocks import FEWER_COLUMNS, Features, refuse_beyond
from naim3l.problem.rows import Problem, loss_weights


@dataclass(frozen=True)
class AlignedRows:
    """Features and labels of samples, each of which has at least one view.

    Attributes
    ----------
    features : list of ndarray, each of shape (n_samples, n_features_v)
        Zero in the rows of samples that lack the view.
    present : bool ndarray of shape (n_views, n_samples)
        Whether a sample has a view.
    Y : ndarray of shape (n_samples, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    positive_weight : float
        Weight of an observed positive in the loss, relative to that of a negative.
    groups : ndarray of int, of shape (n_samples,), optional
        Number of the id of each sample, if ids repeat.
    """

    features: list[Matrix]
    present: Mask
    Y: Matrix
    positive_weight: float = 1.0
    groups: Any = None

    @classmethod
    def from_problem(cls, problem: Problem) -> "AlignedRows":
        """Samples of a problem of one wide table; those without any view are not among them."""
        assert problem.samples is not None
        kept, sample_of = np.unique(problem.samples, return_inverse=True)
        widths = [X_v.shape[1] for X_v in problem.features]
        refuse_beyond(
            f"{len(kept)} rows of {sum(widths)} columns, of which a method that needs aligned rows "
            "stores every number",
            8 * len(kept) * sum(widths),
            f"Use {FEWER_COLUMNS}, which keeps the leading components of each view.",
        )
        features, present = [], np.zeros((len(widths), len(kept)), dtype=bool)
        for v, (X_v, rows) in enumerate(zip(problem.features, problem.row_slices, strict=True)):
            present[v, sample_of[rows]] = True
            features.append(spread(X_v, present[v], widths[v]))
        labels, weight = problem.labels_of_samples[kept], problem.positive_weight
        (groups,) = problem.groups_of_blocks
        return cls(features, present, labels, weight, None if groups is None else groups[kept])

    @property
    def known(self) -> Mask:
        """Whether a label is known, (n_samples, n_labels)."""
        return self.Y != 0

    @property
    def P(self) -> Matrix:
        """Weight of each entry in the loss, (n_samples, n_labels): 0 if the label is unknown."""
        return loss_weights(self.Y, self.positive_weight)

    @property
    def widths(self) -> list[int]:
        """Number of features of each view."""
        return [X_v.shape[1] for X_v in self.features]

    def with_labels(self, Y: Matrix) -> "AlignedRows":
        """The same samples with other labels, (n_samples, n_labels)."""
        return replace(self, Y=Y)

    def means(self) -> Matrix:
        """Mean of each column over the samples that have its view, (n_features of all views,)."""
        pairs = zip(self.features, self.present.sum(axis=1), strict=True)
        return np.concatenate([X_v.sum(axis=0) / n for X_v, n in pairs])

    def concatenated(self, fill: Matrix) -> Matrix:
        """Columns of all views side by side, with ``fill`` in place of missing views."""
        return concatenate_views(self.features, self.present, fill)

    def as_scores(self) -> Problem:
        """The labels as a problem with the identity as features, so that weights are scores."""
        n, identity = len(self.Y), sparse.eye_array(len(self.Y), format="csr")
        same: Any = {"samples": np.arange(n), "groups": self.groups}
        return Problem([identity], [self.Y], fit_intercept=False, **same)


def concatenate_views(features: Sequence[Matrix], present: Mask, fill: Matrix) -> Matrix:
    """Columns (n_rows, n_features of all views) side by side, with ``fill`` for missing views.

    ``features`` have shapes (n_rows, n_features_v), ``present`` has shape (n_views, n_rows).
    """
    X = np.hstack(features)
    slices = consecutive_slices([X_v.shape[1] for X_v in features])
    for columns, has_view in zip(slices, present, strict=True):
        X[~has_view, columns] = fill[columns]
    return X


def spread(rows: Features, present: Mask, n_columns: int) -> Matrix:
    """Dense table (n_rows, n_columns) of the rows that are present, in order; zero elsewhere."""
    table = np.zeros((len(present), n_columns))
    if present.any():
        table[present] = as_dense(rows)
    return table
