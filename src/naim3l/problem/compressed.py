"""Statistics of the rows of all views, with which the cost of an iteration is independent of rows.

Two facts make this exact. The loss and the high-rank term depend on the rows only through Gram
matrices. And the multipliers of the low-rank term stay in the span of the rows ``X_k``, so that
these can be replaced by their triangular factor: ``X_k = Q R`` with orthonormal ``Q``, which does
not change singular values. Factors, unlike Gram matrices, keep all digits of the rows.

Statistics of parts of the rows combine to those of all rows (``ViewStatistics.combine``), so that
they can be computed in chunks, or in parts on different machines.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.problem.blocks import (
    LabelBlocks,
    Matrix,
    blas_threads,
    consecutive_slices,
    thread_map,
)
from naim3l.problem.rows import Problem, loss_weights

# Number of products of pairs of columns in memory at a time, so that they fit in a cache.
PAIR_NUMBERS = 1_000_000


@dataclass(frozen=True)
class ViewStatistics:
    """Statistics of some rows of one view, with d columns and c labels.

    Attributes
    ----------
    gram : ndarray of shape (d, d)
        ``X'X``.
    known_grams : ndarray of shape (c, d, d)
        ``X' diag(P_k) X``: rows weighted by the weight of label k in the loss.
    positive_gram : ndarray of shape (d, d)
        ``sum_k X_k'X_k``.
    targets : ndarray of shape (d, c)
        ``X'(P * Y)``.
    weight : float
        Total weight of the known labels in the loss: their number, if all weights are 1.
    n_positives : int
        Number of positive labels.
    factors : list of ndarray, c of them, of shape (min(n_k, d), d)
        ``R_k`` with ``R_k'R_k = X_k'X_k``; the rows themselves if there are at most d.
    """

    gram: Matrix
    known_grams: Matrix
    positive_gram: Matrix
    targets: Matrix
    weight: float
    n_positives: int
    factors: list[Matrix]

    @classmethod
    def from_rows(cls, X: Any, Y: NDArray, positive_weight: float = 1.0) -> "ViewStatistics":
        """Statistics of the rows ``X`` (n, d) with labels ``Y`` (n, c): 1, -1, 0 = unknown."""
        P = loss_weights(Y.astype(X.dtype), positive_weight)
        q = (Y > 0).sum(axis=1).astype(X.dtype)
        weighted = sparse.diags_array(q) @ X
        return cls(
            gram=_dense(X.T @ X),
            known_grams=_known_grams(X, P),
            positive_gram=_dense(X.T @ weighted),
            targets=_dense(X.T @ (P * Y)),
            weight=float(P.sum()),
            n_positives=int(np.count_nonzero(Y > 0)),
            factors=_positive_factors(X, Y),
        )

    def combine(self, other: "ViewStatistics") -> "ViewStatistics":
        """Statistics of the rows of both."""
        return ViewStatistics(
            self.gram + other.gram,
            self.known_grams + other.known_grams,
            self.positive_gram + other.positive_gram,
            self.targets + other.targets,
            self.weight + other.weight,
            self.n_positives + other.n_positives,
            [
                _triangular(np.concatenate(pair))
                for pair in zip(self.factors, other.factors, strict=True)
            ],
        )


def combine_all(parts: Iterable[ViewStatistics]) -> ViewStatistics:
    """Statistics of the rows of all parts."""
    return reduce(ViewStatistics.combine, parts)


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
        self.label_slices = consecutive_slices(sizes.sum(axis=0))
        stops = np.array([rows.start for rows in self.label_slices]) + np.cumsum(sizes, axis=0)
        self._rows = [  # rows of each view's factors in the blocks
            np.concatenate([np.arange(a - n, a) for a, n in zip(*of_view, strict=True)])
            for of_view in zip(stops, sizes, strict=True)
        ]
        self._factors = [np.concatenate(view.factors) for view in self.views]
        self.targets = np.concatenate([view.targets for view in self.views])

    @classmethod
    def from_problem(cls, problem: Problem, chunk_rows: int = 100_000) -> "CompressedProblem":
        """Compressed form of a problem, in one pass over its rows."""
        views = []
        for X, rows in zip(problem.X, problem.row_slices, strict=True):
            parts = _chunks(X, problem.Y[rows], problem.positive_weight, chunk_rows)
            views.append(combine_all(parts))
        return cls(views, fit_intercept=problem.fit_intercept, n_threads=problem.n_threads)

    def label_scores(self, W: Matrix) -> Matrix:
        """``R_k W`` of every label: (n_weights, n_labels) -> (n_positives, n_labels)."""
        scores = np.empty((self.n_positives, self.n_labels), dtype=W.dtype)
        for factors, rows, weights in self._parts():
            scores[rows] = factors @ W[weights]
        return scores

    def label_scores_transposed(self, Z: Matrix) -> Matrix:
        """``sum_k R_k' Z_k``: (n_positives, n_labels) -> (n_weights, n_labels)."""
        return np.concatenate([factors.T @ Z[rows] for factors, rows, _ in self._parts()])

    def _parts(self) -> Iterator[tuple[Matrix, NDArray[np.intp], slice]]:
        return zip(self._factors, self._rows, self.weight_slices, strict=True)

    def multiply_gram(self, W: Matrix) -> Matrix:
        """``X'XW`` for all views, (n_weights, n_labels)."""
        return self._multiply_blocks([view.gram for view in self.views], W)

    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        """``sum_k X_k'X_k W`` for all views, (n_weights, n_labels)."""
        return self._multiply_blocks([view.positive_gram for view in self.views], W)

    def _multiply_blocks(self, blocks: list[Matrix], W: Matrix) -> Matrix:
        pairs = zip(blocks, self.weight_slices, strict=True)
        return np.concatenate([block @ W[weights] for block, weights in pairs])

    def multiply_known_grams(self, W: Matrix) -> Matrix:
        """``X'(P * XW)`` for all views, (n_weights, n_labels)."""
        pairs = zip(self.views, self.weight_slices, strict=True)
        return np.concatenate(
            [(view.known_grams @ W[weights].T[:, :, None])[:, :, 0].T for view, weights in pairs]
        )

    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        """The loss, up to the rounding error of the labels' own squares, and its gradient."""
        gradient = self.multiply_known_grams(W) - self.targets
        weight = sum(view.weight for view in self.views)
        loss = 0.5 * float(np.vdot(W, gradient - self.targets) + weight)
        return max(0.0, loss), gradient

    @property
    def known_labels(self) -> NDArray[np.bool_]:
        """Whether each label is known in some row of each view, (n_views, n_labels)."""
        return np.array([view.known_grams.any(axis=(1, 2)) for view in self.views])

    @property
    def n_observed_positives(self) -> int:
        """Number of labels observed positive, over all rows."""
        return sum(view.n_positives for view in self.views)


Form = Problem | CompressedProblem


def _chunks(
    X: Any, Y: NDArray, positive_weight: float, chunk_rows: int
) -> Iterator[ViewStatistics]:
    for start in range(0, X.shape[0], chunk_rows):
        rows = slice(start, start + chunk_rows)
        yield ViewStatistics.from_rows(X[rows], Y[rows], positive_weight)


def _known_grams(X: Any, P: Matrix) -> Matrix:
    """``X' diag(P_k) X`` of every label, (c, d, d).

    The products of all pairs of columns, which are the same for all labels, are computed for a few
    rows at a time; one matrix product sums them by label.
    """
    n_columns, n_labels = X.shape[1], P.shape[1]
    widths = np.arange(n_columns, 0, -1)
    starts = np.cumsum(widths) - widths
    totals = np.zeros((n_labels, widths.sum()), dtype=X.dtype)
    step = max(1, PAIR_NUMBERS // totals.shape[1])
    pairs = np.empty((min(step, X.shape[0]), totals.shape[1]), dtype=X.dtype)
    for start in range(0, X.shape[0], step):
        rows = _dense(X[start : start + step])
        for a, (at, width) in enumerate(zip(starts, widths, strict=True)):
            np.multiply(rows[:, a:], rows[:, a, None], out=pairs[: len(rows), at : at + width])
        totals += P[start : start + step].T @ pairs[: len(rows)]
    grams = np.empty((n_labels, n_columns, n_columns), dtype=X.dtype)
    first, second = np.triu_indices(n_columns)
    grams[:, first, second] = grams[:, second, first] = totals
    return grams


def _positive_factors(X: Any, Y: NDArray) -> list[Matrix]:
    """``R_k`` of every label, divided among threads."""

    def factor(y: NDArray) -> Matrix:
        return _triangular(_dense(X[np.flatnonzero(y > 0)]))

    return thread_map(factor, Y.T, blas_threads())


def _triangular(rows: Matrix) -> Matrix:
    """The rows, or their triangular factor if that is smaller."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > rows.shape[1] else rows


def _dense(A: Any) -> Matrix:
    return A.toarray() if sparse.issparse(A) else A
