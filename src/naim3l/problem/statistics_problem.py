"""The problem as sums over its rows, with which an iteration costs the same for any rows."""

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix, distinct, eigh
from naim3l._threads import blas_threads, map_views, thread_map
from naim3l.problem.base import BaseProblem, consecutive_slices, group_labels
from naim3l.problem.boundedness import FreeRows, FreeRowSums
from naim3l.problem.feature_blocks import weighted_gram
from naim3l.problem.ridge import ridges_of_gram
from naim3l.problem.rows import Problem
from naim3l.problem.sufficient_statistics import RowStatistics, ViewStatistics, split_factors

R = TypeVar("R")

# Rows of blocks that are gathered at a time, so that they are still in a cache when multiplied.
CACHED_ROWS = 1000


class StatisticsProblem(BaseProblem):
    """The statistics of all views; blocks of labels are their factors in all views, not rows.

    With ``fit_intercept``, the last column of each view consists of ones. ``rows`` are the rows
    themselves, if they are in memory.
    """

    stacked = True
    rows = None

    def __init__(
        self, views: Sequence[ViewStatistics], *, fit_intercept: bool, rows: Problem | None = None
    ) -> None:
        self.views, self.fit_intercept, self.rows = list(views), fit_intercept, rows
        self.n_threads = blas_threads() if rows is None else rows.n_threads
        self.rotations = [None] * len(self.views) if rows is None else rows.rotations
        self.weight_slices = consecutive_slices([len(view.gram) for view in self.views])
        sizes = np.array([view.heights for view in self.views])
        self.label_slices, self._n_block_rows = _stacked_slices(sizes.sum(axis=0))
        stops = np.array([block.start for block in self.label_slices]) + np.cumsum(sizes, axis=0)
        self._rows = [  # rows of each view's factors in the blocks
            np.concatenate([np.arange(a - n, a) for a, n in zip(*of_view, strict=True)])
            for of_view in zip(stops, sizes, strict=True)
        ]
        self._padding = np.setdiff1d(np.arange(self.n_block_rows), np.concatenate(self._rows))
        self.targets = np.concatenate([view.targets for view in self.views])

    @classmethod
    def of(cls, problem: Problem, chunk_rows: int = 100_000) -> "StatisticsProblem":
        """Statistics of a problem, in one pass over its rows."""

        def collect(v: int) -> ViewStatistics:
            X, Y = problem.X[v], problem.Y[problem.row_slices[v]]
            starts = range(0, max(X.shape[0], 1), chunk_rows)
            chunks = (slice(start, start + chunk_rows) for start in starts)
            found = (RowStatistics.of(X[chunk], Y[chunk]) for chunk in chunks)
            return reduce(RowStatistics.combine, found).view(problem.positive_weight)

        views = map_views(collect, len(problem.X), problem.n_threads)
        return cls(views, fit_intercept=problem.fit_intercept, rows=problem)

    @property
    def n_positives(self) -> int:
        return sum(view.n_positives for view in self.views)

    @property
    def n_block_rows(self) -> int:
        return self._n_block_rows

    @property
    def identity(self) -> list[Any]:
        """Gram matrices and targets, on which no two sets of rows and labels agree by chance."""
        return [*self.grams, self.targets]

    @property
    def known_labels(self) -> Mask:
        return np.array([view.known_grams.any(axis=(1, 2)) for view in self.views])

    # Products.

    def _map_views(self, function: Callable[[int], R]) -> list[R]:
        """``function`` of the position of every view, divided among threads if blocks are large."""
        return thread_map(function, range(self.n_views), self.n_block_threads)

    def label_scores(self, W: Matrix) -> Matrix:
        scores = np.empty((self.n_block_rows, self.n_labels), dtype=W.dtype)
        scores[self._padding] = 0

        def fill(v: int) -> None:
            scores[self._rows[v]] = self.views[v].factors @ W[self.weight_slices[v]]

        self._map_views(fill)
        return scores

    def label_scores_transposed(self, Z: Matrix) -> Matrix:
        def multiply(v: int) -> Matrix:
            rows, factors = self._rows[v], self.views[v].factors
            product = np.zeros((factors.shape[1], self.n_labels), dtype=Z.dtype)
            for start in range(0, len(rows), CACHED_ROWS):
                at = slice(start, start + CACHED_ROWS)
                product += factors[at].T @ np.take(Z, rows[at], axis=0, mode="clip")
            return product

        return np.concatenate(self._map_views(multiply))

    @property
    def grams(self) -> list[Matrix]:
        return [view.gram for view in self.views]

    @property
    def positive_grams(self) -> list[Matrix]:
        return [view.positive_gram for view in self.views]

    @cached_property
    def gram_roots(self) -> list[Matrix] | None:
        if self.n_weights >= self.n_labels:
            return None
        pairs = [eigh(gram) for gram in self.grams]
        return [vectors * np.sqrt(np.maximum(squares, 0)) for squares, vectors in pairs]

    def multiply_gram(self, W: Matrix) -> Matrix:
        return self.multiply_blocks(self.grams, W)

    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        return self.multiply_blocks(self.positive_grams, W)

    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        def multiply(v: int) -> Matrix:  # X'(P * XW) of a view
            products = self.views[v].known_grams @ W[self.weight_slices[v]].T[:, :, None]
            return products[:, :, 0].T

        # Up to the rounding error of the labels' own squares.
        gradient = np.concatenate(self._map_views(multiply)) - self.targets
        weight = sum(view.weight for view in self.views)
        loss = 0.5 * float(np.vdot(W, gradient - self.targets) + weight)
        return max(0.0, loss), gradient

    @np.errstate(over="ignore", invalid="ignore")
    def largest_score(self, W: Matrix) -> float:
        # The root of the sum of all squared scores.
        return float(np.sqrt(np.abs(np.vdot(W, self.multiply_gram(W)))))

    # Ridges.

    @property
    def known_sums(self) -> Matrix:
        """As in `Problem`, if there are intercepts: products with the column of ones."""
        assert self.fit_intercept
        return np.concatenate([view.known_grams[:, :, -1].T for view in self.views])

    def ridge_solutions(self, ridges: Sequence[float]) -> NDArray[np.float64]:
        W = np.zeros((len(ridges), self.n_weights, self.n_labels))
        for view, weights in zip(self.views, self.weight_slices, strict=True):
            first, matrix_of = distinct(view.known_grams)
            for i, k in enumerate(first):
                gram, labels = view.known_grams[k], np.flatnonzero(matrix_of == i)
                if gram.any():
                    W[:, weights, labels] = ridges_of_gram(
                        gram, view.targets[:, labels], ridges, self.fit_intercept
                    )
        return W

    def weighted_positive_gram(self, v: int, factors: Matrix) -> Matrix:
        view = self.views[v]
        return weighted_gram(view.factors, np.repeat(factors, view.heights))

    def label_rows(self, v: int) -> list[Matrix]:
        return split_factors(self.views[v].factors, self.views[v].heights)

    @property
    def knows_free_rows(self) -> bool:
        return self.rows is not None or all(of.free_grams is not None for of in self.views)

    def free_rows(self) -> Sequence[FreeRows | FreeRowSums]:
        if self.rows is not None:
            return self.rows.free_rows([view.known_grams for view in self.views])
        found = []
        for view in self.views:
            assert view.free_grams is not None and view.n_free is not None
            sums = view.known_grams, view.free_grams, view.n_free
            found.append(FreeRowSums(*sums, self.fit_intercept))
        return found


def _stacked_slices(sizes: NDArray[np.intp]) -> tuple[list[slice], int]:
    """Slices of labels' blocks of so many rows, padded as in ``stacked``, and all their rows."""
    slices, start = [slice(0, 0)] * len(sizes), 0
    for group in group_labels(sizes, len(sizes)):
        for k in group:
            slices[k] = slice(start, start + int(sizes[k]))
            start += int(sizes[group[0]])
    return slices, start
