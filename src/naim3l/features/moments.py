"""Moments of the rows of a table, from which recipes are fitted without the rows themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import Normalizer, StandardScaler

from naim3l.features.recipes import (
    DropConstantColumns,
    LeadingComponents,
)

MOST_COLUMNS = 5000  # the scatter of more takes too much memory, in several copies
_BLOCK = 4096  # rows of a sparse table that are made dense at a time


@dataclass(frozen=True)
class Moments:
    """Number, means, scatter and ranges of rows; those of parts can be combined.

    Attributes
    ----------
    n_rows : int
    mean, lowest, highest : ndarray of shape (n_columns,)
    scatter : ndarray of shape (n_columns, n_columns)
        ``(X - mean).T @ (X - mean)``.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.features.moments import Moments
    >>> first, second = Moments.of(np.array([[1.0], [3.0]])), Moments.of(np.array([[5.0]]))
    >>> both = first.combine(second)
    >>> both.mean, both.scatter
    (array([3.]), array([[8.]]))
    """

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Any, where: str = "X") -> "Moments":
        """Moments of an array or sparse table of shape (n_rows, n_columns).

        Raises
        ------
        MemoryError
            If there are more than `MOST_COLUMNS` columns.
        """
        n_rows, n_columns = rows.shape
        if n_columns > MOST_COLUMNS:
            raise MemoryError(
                f"{where}: {n_columns} columns, whose products take "
                f"{n_columns**2 * 8 / 2**30:.1f} GiB for each part that is read at a time (the "
                f"most are {MOST_COLUMNS} columns); leave columns out, or reduce them first, for "
                "example with sklearn.random_projection.SparseRandomProjection."
            )
        if n_rows == 0:
            zeros = np.zeros(n_columns)
            return cls(0, zeros, np.zeros((n_columns, n_columns)), zeros, zeros)
        if sparse.issparse(rows):
            blocks = [cls.of(rows[i : i + _BLOCK].toarray()) for i in range(0, n_rows, _BLOCK)]
            moments = blocks[0]
            for block in blocks[1:]:
                moments = moments.combine(block)
            return moments
        mean = rows.mean(axis=0)
        centred = rows - mean
        rest = centred.mean(axis=0)  # the rounding error of the mean of numbers far from 0
        mean, centred = mean + rest, centred - rest
        return cls(n_rows, mean, centred.T @ centred, rows.min(axis=0), rows.max(axis=0))

    def combine(self, other: "Moments") -> "Moments":
        """Moments of the rows of both (Chan, Golub and LeVeque's update)."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        n_rows = self.n_rows + other.n_rows
        shift = other.mean - self.mean
        share = other.n_rows / n_rows
        return Moments(
            n_rows,
            self.mean + share * shift,
            self.scatter + other.scatter + self.n_rows * share * np.outer(shift, shift),
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest, other.highest),
        )

    def select_columns(self, mask: NDArray[np.bool_]) -> "Moments":
        """Moments of the marked columns."""
        if mask.all():
            return self
        columns = (self.mean[mask], self.scatter[np.ix_(mask, mask)])
        return Moments(self.n_rows, *columns, self.lowest[mask], self.highest[mask])

    def subtract(self, shift: NDArray[np.float64]) -> "Moments":
        """Moments of the rows minus ``shift``, (n_columns,)."""
        ends = self.lowest - shift, self.highest - shift
        return Moments(self.n_rows, self.mean - shift, self.scatter, *ends)

    def divide(self, scale: NDArray[np.float64]) -> "Moments":
        """Moments of the columns divided by ``scale``, (n_columns,), of numbers above 0."""
        scatter = self.scatter / scale / scale[:, None]
        ends = self.lowest / scale, self.highest / scale
        return Moments(self.n_rows, self.mean / scale, scatter, *ends)


def count_fitted_by_moments(steps: Sequence[Any]) -> int:
    """Number of the first of some transformers that moments of the rows are enough to fit."""
    n = 0
    while n < len(steps) and isinstance(steps[n], DropConstantColumns | StandardScaler):
        n += 1
    if n < len(steps) and isinstance(steps[n], LeadingComponents):
        n += 1
    if n < len(steps) and isinstance(steps[n], Normalizer):  # it learns nothing
        n += 1
    return n


def fit_steps(steps: Sequence[Any], moments: Moments) -> None:
    """Fit consecutive transformers to rows of which only the moments are known.

    Parameters
    ----------
    steps : sequence of transformers
        As `count_fitted_by_moments` counts them.
    moments : Moments
        Of the rows that the first step is given.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.features.moments import Moments, fit_steps
    >>> from naim3l.features.recipes import RECIPES
    >>> rows = np.array([[1.0, 7.0], [3.0, 7.0], [8.0, 7.0]])
    >>> recipe = RECIPES["scale"](2)
    >>> fit_steps([step for _, step in recipe.steps], Moments.of(rows))
    >>> recipe.transform(rows).ravel()
    array([-1., -1.,  1.])
    """
    n_columns = len(moments.mean)
    for step in steps:
        step.n_features_in_ = n_columns
        if isinstance(step, DropConstantColumns):
            step.fit_ranges(moments.n_rows, moments.lowest, moments.highest)
            moments = moments.select_columns(step.kept_)
        elif isinstance(step, StandardScaler):
            moments = _fit_scaler(step, moments)
        elif isinstance(step, LeadingComponents):
            ends = moments.lowest, moments.highest
            step.fit_scatter(moments.n_rows, moments.mean, moments.scatter, *ends)
        n_columns = getattr(step, "n_components_", len(moments.mean))


def _fit_scaler(scaler: StandardScaler, moments: Moments) -> Moments:
    """Fit a scaler; the moments of what it gives."""
    n_rows, mean, variance = (
        moments.n_rows,
        moments.mean,
        moments.scatter.diagonal() / moments.n_rows,
    )
    # Like scikit-learn, leave columns as they are whose variance may be rounding alone.
    eps = np.finfo(np.float64).eps
    constant = variance <= n_rows * eps * variance + (n_rows * mean * eps) ** 2
    used = scaler.with_mean or scaler.with_std
    scaler.mean_, scaler.n_samples_seen_ = mean if used else None, np.int64(n_rows)
    scaler.var_ = scaler.scale_ = None
    if scaler.with_std:
        scaler.var_, scaler.scale_ = variance, np.where(constant, 1, np.sqrt(variance))
    if scaler.with_mean:
        moments = moments.subtract(mean)
    return moments if scaler.scale_ is None else moments.divide(scaler.scale_)
