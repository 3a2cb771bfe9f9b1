"""Sums over rows, by fold, which stand for the rows of a view and add up over chunks of them.

Two facts make them exact. The loss and the high-rank term depend on the rows only through Gram
matrices. And the multipliers of the low-rank term stay in the span of the rows ``X_k``, so that
these can be replaced by their triangular factor: ``X_k = QR`` with orthonormal ``Q``, which does
not change singular values. Factors, unlike Gram matrices, keep all digits of the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import ArrayFields, Mask, Matrix, as_dense, distinct
from naim3l._threads import blas_threads, limited_blas, thread_map
from naim3l.problem.feature_blocks import Features, append_ones

# Numbers of the rows from which one label after the other is gathered, so that they fit in a cache.
BLOCK_NUMBERS = 500_000
# Sparse rows with a larger share of stored numbers are multiplied as dense ones, which is faster.
SPARSE_SHARE = 0.05
# Rows that are factored at a time, relative to the number of columns.
FACTORED_ROWS = 8


@dataclass(frozen=True)
class ViewStatistics:
    """Statistics of the rows of one view, with d columns and c labels, for solvers."""

    gram: Matrix  # X'X, (d, d)
    known_grams: Matrix  # X' diag(P_k) X with the weights of label k in the loss, (c, d, d)
    positive_gram: Matrix  # sum_k X_k'X_k, (d, d)
    targets: Matrix  # X'(P * Y), (d, c)
    weight: float  # of all known labels in the loss: their number, if all weights are 1
    n_positives: int
    factors: Matrix  # R_k'R_k = X_k'X_k of all labels, stacked; the rows if there are at most d
    heights: NDArray[np.intp]  # rows of each factor, (c,)
    # X'X (c, d, d) and number (c,) of the free rows of each label, if they are known: those with
    # label k unknown and no observed positive. `naim3l.problem.boundedness` needs them.
    free_grams: Matrix | None = None
    n_free: NDArray[np.intp] | None = None


@dataclass(frozen=True)
class LabelCounts(ArrayFields):
    """Numbers of entries of each label in each fold, (n_folds, n_labels): known, and yes."""

    n_known: NDArray[np.intp]
    n_positives: NDArray[np.intp]

    @classmethod
    def of(
        cls, Y: NDArray[Any], folds: NDArray[np.int8] | None = None, *, n_folds: int = 0
    ) -> "LabelCounts":
        """Counts of some rows, as in `RowStatistics.of`."""
        held = _cells(Y, folds)
        known = [held == fold for fold in range(max(n_folds, 1))]
        return cls(
            np.array([here.sum(axis=0) for here in known]),
            np.array([(here & (Y > 0)).sum(axis=0) for here in known]),
        )

    def combine(self, other: "LabelCounts") -> "LabelCounts":
        """Counts of the rows of both."""
        return LabelCounts(self.n_known + other.n_known, self.n_positives + other.n_positives)

    def minus(self, other: "LabelCounts") -> "LabelCounts":
        """Counts of these rows without others."""
        return LabelCounts(self.n_known - other.n_known, self.n_positives - other.n_positives)

    @property
    def only(self) -> Mask:
        """Whether all of a label's positives are in one fold, (n_folds, n_labels)."""
        return (self.n_positives > 0) & (self.n_positives == self.n_positives.sum(axis=0))


@dataclass(frozen=True)
class RowStatistics(ArrayFields):
    """Statistics of some rows of one view by fold, with d columns, c labels and F folds.

    Without folds, F is 1 and all known entries are in the same fold. All entries count 1; their
    weights in the loss enter only in `view`.
    """

    n_rows: int
    gram: Matrix  # X'X, (d, d)
    known_grams: Matrix  # of the rows in which label k is known, by its fold, (F, c, d, d)
    targets: Matrix  # X'Y of the entries that are held out in each fold, (F, d, c)
    positive_sums: Matrix  # sums of those rows in which label k is yes, (F, d, c)
    factors: Matrix  # triangular factors of those rows, or the rows if few, by fold and label
    heights: NDArray[np.intp]  # rows of each factor, (F, c)
    n_known: NDArray[np.intp]  # known entries, (F, c)
    n_positives: NDArray[np.intp]  # those that are yes
    # X'X of the free rows of each label, see `ViewStatistics`: with all entries, then without those
    # of each fold, (1 + n_folds, c, d, d); (0, c, d, d) if not computed. And their numbers.
    free_grams: Matrix
    n_free: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        X: Features,
        Y: NDArray[Any],
        folds: NDArray[np.int8] | None = None,
        *,
        n_folds: int = 0,
        fit_intercept: bool = False,
        free: bool = False,
    ) -> "RowStatistics":
        """Statistics of a chunk of rows, (n, n_features), with signed labels, (n, c).

        ``folds`` (n, c) are those of `naim3l.problem.sampling.row_folds`. ``fit_intercept``
        appends a column of ones, and ``free`` asks for ``free_grams``.
        """
        held = _cells(Y, folds)
        c, d, n_cells = Y.shape[1], X.shape[1] + fit_intercept, max(n_folds, 1)
        gram, known = np.zeros((d, d), X.dtype), np.zeros((n_cells, c, d, d), X.dtype)
        targets = np.zeros((n_cells, d, c), X.dtype)
        open_grams = np.zeros((1 + n_folds if free else 0, c, d, d), X.dtype)
        n_free = np.zeros(open_grams.shape[:2], dtype=np.intp)
        groups = _rows_by_sets(held, Y, n_folds) if free else [([], np.arange(len(Y)))]
        n_threads = blas_threads()
        with limited_blas():  # products of small blocks: its own threads would wait for each other
            for sets, rows in groups:
                open_in = {s: open_grams[s] for s in sets}
                held_s = held[rows] if sets else held[:0]
                for s in sets:  # set 0 has the unknown entries alone, which are marked by -1
                    n_free[s] += ((held_s < 0) | (held_s == s - 1)).sum(axis=0)
                for X_b, at in _blocks(X, rows, fit_intercept):
                    gram += (gram_b := as_dense(X_b.T @ X_b))
                    Y_b, held_b = Y[at], held[at]
                    for cell in range(n_cells):
                        signs = Y_b * (held_b == cell) if n_cells > 1 else Y_b
                        targets[cell] += X_b.T @ signs.astype(X.dtype)
                    _add_grams(X_b, held_b, gram_b, known, open_in, n_threads)
            cells = (Y > 0) * (held + 1)
            sums, factors = _positives(X, cells, n_cells, fit_intercept, n_threads)
        heights = np.reshape([len(R) for R in factors], (n_cells, c))
        of_rows = gram, known, targets, sums, np.concatenate(factors), heights
        counts = LabelCounts.of(Y, folds, n_folds=n_folds)
        return cls(len(Y), *of_rows, counts.n_known, counts.n_positives, open_grams, n_free)

    @property
    def counts(self) -> LabelCounts:
        return LabelCounts(self.n_known, self.n_positives)

    def combine(self, other: "RowStatistics") -> "RowStatistics":
        """Statistics of the rows of both."""
        both = [split_factors(of.factors, of.heights) for of in (self, other)]
        factors = [triangular(pair) for pair in zip(*both, strict=True)]
        combined: dict[str, Any] = {
            "factors": np.concatenate(factors),
            "heights": np.reshape([len(R) for R in factors], self.heights.shape),
        }
        for name in vars(self).keys() - combined.keys():
            combined[name] = getattr(self, name) + getattr(other, name)
        return RowStatistics(**combined)

    def view(
        self, positive_weight: float = 1.0, *, without: int | None = None, kept: Mask | None = None
    ) -> ViewStatistics:
        """Statistics of all entries, or of those that are not held out in a fold.

        Positives of the labels ``kept`` (c,) stay known in that fold. Their rows still count as
        free, where they have no other positive.
        """
        n_cells, c = self.heights.shape
        folds = [fold for fold in range(n_cells) if fold != without]
        sums_of_rows = self.known_grams, self.targets, self.positive_sums
        by_fold: Any = (*sums_of_rows, self.n_known, self.n_positives)
        known, targets, sums, n_known, n_positives = (
            np.add.reduce([A[fold] for fold in folds]) for A in by_fold
        )
        by_cell = split_factors(self.factors, self.heights)
        pieces = [[by_cell[fold * c + k] for fold in folds] for k in range(c)]
        if without is not None and kept is not None:
            for k in np.flatnonzero(kept):
                pieces[k].append(R := by_cell[without * c + k])
                known[k] += R.T @ R
            targets += kept * self.positive_sums[without]
            sums += kept * self.positive_sums[without]
            n_known += kept * self.n_positives[without]
            n_positives += kept * self.n_positives[without]
        factors = [triangular(of_label) for of_label in pieces]
        rows = np.concatenate(factors)
        if positive_weight != 1:
            for gram, R in zip(known, factors, strict=True):
                gram += (positive_weight - 1) * (R.T @ R)
            targets += (positive_weight - 1) * sums
        weight = float(n_known.sum() + (positive_weight - 1) * n_positives.sum())
        blocks = int(n_positives.sum()), rows, np.array([len(R) for R in factors])
        at = 0 if without is None else 1 + without
        free = [A[at] if len(A) else None for A in (self.free_grams, self.n_free)]
        return ViewStatistics(self.gram, known, rows.T @ rows, targets, weight, *blocks, *free)


def split_factors(factors: Matrix, heights: NDArray[np.intp]) -> list[Matrix]:
    """Factors of all labels, or of the labels of one fold after the other."""
    return np.split(factors, np.cumsum(heights)[:-1])


def triangular(pieces: Sequence[Matrix]) -> Matrix:
    """All rows, or their triangular factor if that is smaller.

    Tall matrices are factored in pieces that fit in a cache, and then the factors of these.
    """
    rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    d = rows.shape[1]
    height = FACTORED_ROWS * d
    while len(rows) >= 2 * height:
        n_whole = len(rows) // height * height
        factors = np.asarray(np.linalg.qr(rows[:n_whole].reshape(-1, height, d), mode="r"))
        rows = np.concatenate([factors.reshape(-1, d), rows[n_whole:]])
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > d else rows


def _cells(Y: NDArray[Any], folds: NDArray[np.int8] | None) -> NDArray[np.int8]:
    """Fold of each known entry, which is 0 without folds; -1 of the others."""
    return -(Y == 0).view(np.int8) if folds is None else np.where(Y != 0, folds, np.int8(-1))


def _rows_by_sets(
    held: NDArray[np.int8], Y: NDArray[Any], n_folds: int
) -> Iterator[tuple[list[int], NDArray[np.intp]]]:
    """Rows by the sets in which their unknown entries are free.

    Set 0 has all entries, set 1 + f only those outside of fold f. Rows without a positive are
    in all sets, rows whose positives are all in fold f are in set 1 + f.
    """
    first = np.where(Y > 0, held, n_folds).min(axis=1)
    last = np.where(Y > 0, held, -1).max(axis=1)
    yield list(range(1 + n_folds)), np.flatnonzero(last < 0)
    for fold in range(n_folds):
        yield [1 + fold], np.flatnonzero((first == fold) & (last == fold))
    yield [], np.flatnonzero((last >= 0) & ((first < last) | (n_folds == 0)))


def _blocks(
    X: Features, rows: NDArray[np.intp], ones: bool
) -> Iterator[tuple[Features, NDArray[np.intp]]]:
    """A few of the rows at a time, dense unless very sparse, and their positions."""
    keep = sparse.issparse(X) and X.size <= SPARSE_SHARE * X.shape[0] * X.shape[1]
    step = max(1, BLOCK_NUMBERS // max(1, X.shape[1]))
    for start in range(0, len(rows), step):
        at = rows[start : start + step]
        X_b = X[at] if keep else as_dense(X[at])
        yield append_ones(X_b) if ones else X_b, at


def _add_grams(
    X: Features,
    held: NDArray[np.int8],
    whole: Matrix,
    known: Matrix,
    free: dict[int, Matrix],
    n_threads: int,
) -> None:
    """Add ``X'X`` of the rows in which each label is known, by their fold, and is unknown.

    ``held`` (n, c) are folds, -1 of unknown entries, which are free in all given sets; those of a
    fold are in the set after it. ``whole`` is ``X'X`` of all rows.
    """
    columns, gather = np.ascontiguousarray(held.T), _Gathering(X)
    _, which = distinct(columns)

    def gram_of(rows: NDArray[np.intp]) -> Matrix:
        if len(rows) == X.shape[0]:
            return whole
        some = gather(rows)
        return as_dense(some.T @ some)

    def add(labels: NDArray[np.intp]) -> None:
        column, unknown = columns[labels[0]], whole
        for cell, grams in enumerate(known):
            if len(rows := np.flatnonzero(column == cell)):
                gram = gram_of(rows)
                unknown = unknown - gram
                for stack in [grams, *([free[1 + cell]] if 1 + cell in free else [])]:
                    stack[labels] += gram
        rows = np.flatnonzero(column < 0) if free else column[:0]
        if len(rows):
            # Of few rows, the difference would be a rounding error even in a column of zeros.
            gram = gram_of(rows) if 2 * len(rows) <= len(column) else unknown
            for stack in free.values():
                stack[labels] += gram

    thread_map(add, [np.flatnonzero(which == i) for i in range(which.max() + 1)], n_threads)


class _Gathering(local):
    """Some rows of a table, in one array for each thread.

    Workers of dask give memory back to the system at once, and getting it again for every label
    would take half as long as the products. Nothing may refer to one in a circle: if it is left to
    the garbage collector, and that runs while dask takes a profile, Python (3.11.7) hangs.
    """

    def __init__(self, X: Features) -> None:
        self.X, self.rows = X, None if sparse.issparse(X) else np.empty_like(X)

    def __call__(self, rows: NDArray[np.intp]) -> Features:
        if self.rows is None:
            return self.X[rows]
        return np.take(self.X, rows, axis=0, out=self.rows[: len(rows)], mode="clip")


def _positives(
    X: Features, cells: NDArray[np.int8], n_cells: int, ones: bool, n_threads: int
) -> tuple[Matrix, list[Matrix]]:
    """Sums (n_cells, d, c) and factors, by cell and label, of the positive rows.

    ``cells`` (n, c) is 1 + the fold of each positive entry, 0 of all others.
    """
    columns = np.ascontiguousarray(cells.T)
    sums = np.zeros((n_cells, X.shape[1] + ones, len(columns)), dtype=X.dtype)

    def factor(at: tuple[int, int]) -> Matrix:
        rows = as_dense(X[np.flatnonzero(columns[at[1]] == 1 + at[0])])
        rows = append_ones(rows) if ones else rows
        sums[at[0], :, at[1]] = rows.sum(axis=0)
        return triangular([rows])

    return sums, thread_map(factor, np.ndindex(n_cells, len(columns)), n_threads)
