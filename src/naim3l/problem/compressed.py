"""Statistics of the rows of all views, with which the cost of an iteration is independent of rows.

Two facts make this exact. The loss and the high-rank term depend on the rows only through Gram
matrices. And the multipliers of the low-rank term stay in the span of the rows ``X_k``, so that
these can be replaced by their triangular factor: ``X_k = Q R`` with orthonormal ``Q``, which does
not change singular values. Factors, unlike Gram matrices, keep all digits of the rows.

Statistics of parts of the rows combine to those of all rows (``PartStatistics.combine``), so that
they can be computed in chunks, or in parts on different machines.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from naim3l.problem.blocks import (
    LabelBlocks,
    Matrix,
    blas_threads,
    consecutive_slices,
    group_labels,
    map_views,
    thread_map,
)
from naim3l.problem.row_sums import PartStatistics, ViewStatistics
from naim3l.problem.rows import Problem

R = TypeVar("R")

# Rows of blocks that are gathered at a time, so that they are still in a cache when multiplied.
CACHED_ROWS = 1000


class CompressedProblem(LabelBlocks):
    """The statistics of all views, with the products that a solver needs.

    Conventions are those of `Problem`; the block of a label consists of its factors in all views
    instead of its rows.

    Parameters
    ----------
    views : sequence of ViewStatistics
    fit_intercept : bool
        Whether the last column of each view consists of ones.
    n_threads : int, optional
        Number of threads among which labels are divided; by default that of BLAS.
    """

    stacked = True

    def __init__(
        self,
        views: Sequence[ViewStatistics],
        *,
        fit_intercept: bool,
        n_threads: int | None = None,
    ) -> None:
        self.views, self.fit_intercept = list(views), fit_intercept
        self.n_threads = blas_threads() if n_threads is None else n_threads
        self.weight_slices = consecutive_slices(len(view.gram) for view in self.views)
        sizes = np.array([[len(R) for R in view.factors] for view in self.views])
        self.label_slices, self._n_block_rows = _stacked_slices(sizes.sum(axis=0))
        stops = np.array([rows.start for rows in self.label_slices]) + np.cumsum(sizes, axis=0)
        self._rows = [  # rows of each view's factors in the blocks
            np.concatenate([np.arange(a - n, a) for a, n in zip(*of_view, strict=True)])
            for of_view in zip(stops, sizes, strict=True)
        ]
        self._padding = np.setdiff1d(np.arange(self.n_positives), np.concatenate(self._rows))
        self._factors = [np.concatenate(view.factors) for view in self.views]
        self.targets = np.concatenate([view.targets for view in self.views])

    @classmethod
    def from_problem(cls, problem: Problem, chunk_rows: int = 100_000) -> "CompressedProblem":
        """Compressed form of a problem, in one pass over its rows."""

        def compress(v: int) -> ViewStatistics:
            X, Y = problem.X[v], problem.Y[problem.row_slices[v]]
            starts = range(0, max(X.shape[0], 1), chunk_rows)
            chunks = (slice(start, start + chunk_rows) for start in starts)
            parts = (PartStatistics.of(X[chunk], Y[chunk]) for chunk in chunks)
            return reduce(PartStatistics.combine, parts).view(problem.positive_weight)

        views = map_views(compress, len(problem.X), problem.n_threads)
        return cls(views, fit_intercept=problem.fit_intercept, n_threads=problem.n_threads)

    def label_scores(self, W: Matrix) -> Matrix:
        """``R_k W`` of every label: (n_weights, n_labels) -> (n_positives, n_labels)."""
        scores = np.empty((self.n_positives, self.n_labels), dtype=W.dtype)
        scores[self._padding] = 0

        def fill(v: int) -> None:
            scores[self._rows[v]] = self._factors[v] @ W[self.weight_slices[v]]

        self._map_views(fill)
        return scores

    def label_scores_transposed(self, Z: Matrix) -> Matrix:
        """``sum_k R_k' Z_k``: (n_positives, n_labels) -> (n_weights, n_labels)."""

        def multiply(v: int) -> Matrix:
            rows, factors = self._rows[v], self._factors[v]
            product = np.zeros((factors.shape[1], self.n_labels), dtype=Z.dtype)
            for start in range(0, len(rows), CACHED_ROWS):
                at = slice(start, start + CACHED_ROWS)
                product += factors[at].T @ np.take(Z, rows[at], axis=0, mode="clip")
            return product

        return np.concatenate(self._map_views(multiply))

    @property
    def n_positives(self) -> int:
        """Number of rows of all blocks, with those that pad them."""
        return self._n_block_rows

    def _map_views(self, function: Callable[[int], R]) -> list[R]:
        """``function`` of the position of every view, divided among threads if blocks are large."""
        return thread_map(function, range(len(self.views)), self.n_block_threads)

    def multiply_gram(self, W: Matrix) -> Matrix:
        """``X'XW`` for all views, (n_weights, n_labels)."""
        return self.multiply_blocks([view.gram for view in self.views], W)

    @cached_property
    def gram_roots(self) -> list[Matrix] | None:
        """``R`` of each view with ``X'X = RR'``, if weights are fewer than labels."""
        if self.n_weights >= self.n_labels:
            return None
        pairs = [np.linalg.eigh(view.gram) for view in self.views]
        return [vectors * np.sqrt(np.maximum(squares, 0)) for squares, vectors in pairs]

    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        """``sum_k X_k'X_k W`` for all views, (n_weights, n_labels)."""
        return self.multiply_blocks([view.positive_gram for view in self.views], W)

    def multiply_known_grams(self, W: Matrix) -> Matrix:
        """``X'(P * XW)`` for all views, (n_weights, n_labels)."""

        def multiply(v: int) -> Matrix:
            products = self.views[v].known_grams @ W[self.weight_slices[v]].T[:, :, None]
            return products[:, :, 0].T

        return np.concatenate(self._map_views(multiply))

    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        """The loss, up to the rounding error of the labels' own squares, and its gradient."""
        gradient = self.multiply_known_grams(W) - self.targets
        weight = sum(view.weight for view in self.views)
        loss = 0.5 * float(np.vdot(W, gradient - self.targets) + weight)
        return max(0.0, loss), gradient

    @property
    def identity(self) -> list[Any]:
        """Gram matrices and targets, on which no two sets of rows and labels agree by chance."""
        return [*(view.gram for view in self.views), self.targets]

    @property
    def known_labels(self) -> NDArray[np.bool_]:
        """Whether each label is known in some row of each view, (n_views, n_labels)."""
        return np.array([view.known_grams.any(axis=(1, 2)) for view in self.views])

    @property
    def n_observed_positives(self) -> int:
        """Number of labels observed positive, over all rows."""
        return sum(view.n_positives for view in self.views)


def _stacked_slices(sizes: NDArray[np.intp]) -> tuple[list[slice], int]:
    """Slices of labels' blocks of so many rows, and the number of rows of all.

    Blocks of a group follow each other, each padded to the height of the largest, so that their
    stack is a part of the array.
    """
    slices, start = [slice(0, 0)] * len(sizes), 0
    for group in group_labels(sizes, len(sizes)):
        for k in group:
            slices[k] = slice(start, start + int(sizes[k]))
            start += int(sizes[group[0]])
    return slices, start


Form = Problem | CompressedProblem
