"""Statistics of rows by fold, which add up over parts of the rows.

Gram matrices of the rows in which a label is known are sums over all rows for every label: they
take most of the time of a fit with many rows. Those rows are gathered and multiplied, so that each
known entry counts once, in whichever fold it is held out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Mask, Matrix
from naim3l.problem.blocks import blas_threads, distinct, limited_blas, thread_map
from naim3l.problem.rows import append_ones, stored_numbers

# Numbers of the rows from which one label after the other is gathered, so that they fit in a cache.
BLOCK_NUMBERS = 250_000
# Sparse rows with a larger share of stored numbers are multiplied as dense ones, which is faster.
SPARSE_SHARE = 0.05
# Rows that are factored at a time, relative to the number of columns.
FACTORED_ROWS = 8


@dataclass(frozen=True)
class ViewStatistics:
    """Statistics of the rows of one view, with d columns and c labels, for solvers.

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
    free_grams : ndarray of shape (c, d, d), or None
        ``X'X`` of the free rows of each label, if they are known: those with label k unknown and
        no observed positive. `naim3l.problem.boundedness` needs them.
    n_free : ndarray of int, of shape (c,), or None
        Number of free rows of each label.
    """

    gram: Matrix
    known_grams: Matrix
    positive_gram: Matrix
    targets: Matrix
    weight: float
    n_positives: int
    factors: list[Matrix]
    free_grams: Matrix | None = None
    n_free: NDArray[np.intp] | None = None


@dataclass(frozen=True)
class LabelCounts:
    """Numbers of entries of each label in each fold, (n_folds, n_labels): known, and yes."""

    known: NDArray[np.intp]
    positives: NDArray[np.intp]

    @classmethod
    def of(
        cls, Y: NDArray[Any], folds: NDArray[np.int8] | None = None, *, n_folds: int = 0
    ) -> "LabelCounts":
        """Counts of some rows; parameters are those of `PartStatistics.of`."""
        held = _cells(Y, folds)
        known = [held == fold for fold in range(max(n_folds, 1))]
        return cls(
            np.array([here.sum(axis=0) for here in known]),
            np.array([(here & (Y > 0)).sum(axis=0) for here in known]),
        )

    def combine(self, other: "LabelCounts") -> "LabelCounts":
        """Counts of the rows of both."""
        return LabelCounts(self.known + other.known, self.positives + other.positives)

    @property
    def only(self) -> Mask:
        """Whether all of a label's positives are in one fold, (n_folds, n_labels)."""
        return (self.positives > 0) & (self.positives == self.positives.sum(axis=0))


@dataclass(frozen=True)
class PartStatistics:
    """Statistics of some rows of one view by fold, with d columns, c labels and F folds.

    Without folds, F is 1 and all known entries are in the same fold. All entries count 1; their
    weights in the loss enter only in `view`.

    Attributes
    ----------
    n_rows : int
    gram : ndarray of shape (d, d)
        ``X'X``.
    known_grams : ndarray of shape (F, c, d, d)
        ``X'X`` of the rows in which label k is known, and held out in each fold.
    targets : ndarray of shape (F, d, c)
        ``X'Y`` of the entries that are held out in each fold.
    positive_sums : ndarray of shape (F, d, c)
        Sums of those rows in which label k is yes.
    factors : list of list of ndarray, of shape (min(n_fk, d), d)
        ``factors[f][k]`` is the triangular factor of those rows, or the rows if there are few.
    counts : LabelCounts
    free_grams : ndarray of shape (1 + n_folds, c, d, d), or (0, c, d, d) if not computed
        ``X'X`` of the free rows of each label (see `ViewStatistics`): with all entries, then
        without those of each fold.
    n_free : ndarray of int, of shape (1 + n_folds, c), or (0, c)
        Numbers of free rows.
    """

    n_rows: int
    gram: Matrix
    known_grams: Matrix
    targets: Matrix
    positive_sums: Matrix
    factors: list[list[Matrix]]
    counts: LabelCounts
    free_grams: Matrix
    n_free: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        X: Any,
        Y: NDArray[Any],
        folds: NDArray[np.int8] | None = None,
        *,
        n_folds: int = 0,
        fit_intercept: bool = False,
        free: bool = False,
    ) -> "PartStatistics":
        """Statistics of the rows of one part that have the view.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n, n_features)
        Y : ndarray of shape (n, c)
            1 = yes, -1 = no, 0 = unknown.
        folds : ndarray of int8, of shape (n, c), optional
            Result of `naim3l.problem.sampling.entry_folds`, if there are folds.
        n_folds : int
        fit_intercept : bool
            Append a column of ones.
        free : bool
            Compute ``free_grams``.
        """
        n_threads = blas_threads()
        with limited_blas():  # products of small blocks: its own threads would wait for each other
            return cls._of(X, Y, folds, n_folds, fit_intercept, free, n_threads)

    @classmethod
    def _of(
        cls,
        X: Any,
        Y: NDArray[Any],
        folds: NDArray[np.int8] | None,
        n_folds: int,
        fit_intercept: bool,
        free: bool,
        n_threads: int,
    ) -> "PartStatistics":
        held = _cells(Y, folds)
        c, d, n_cells = Y.shape[1], X.shape[1] + fit_intercept, max(n_folds, 1)
        gram, known = np.zeros((d, d), X.dtype), np.zeros((n_cells, c, d, d), X.dtype)
        targets = np.zeros((n_cells, d, c), X.dtype)
        open_grams = np.zeros((1 + n_folds if free else 0, c, d, d), X.dtype)
        n_free = np.zeros(open_grams.shape[:2], dtype=np.intp)
        groups = _rows_by_sets(held, Y, n_folds) if free else [([], np.arange(len(Y)))]
        for sets, rows in groups:
            for X_b, at in _blocks(X, rows, fit_intercept):
                Y_b, held_b = Y[at], held[at]
                gram += (gram_b := _dense(X_b.T @ X_b))
                for cell in range(-1, n_cells):
                    here = held_b == cell
                    # Unknown entries are free in all sets; those of a fold, in the set without it.
                    open_in = [s for s in sets if cell in (-1, s - 1)]
                    n_free[open_in] += here.sum(axis=0)
                    into = [open_grams[s] for s in open_in]
                    if cell >= 0:
                        into.append(known[cell])
                        targets[cell] += X_b.T @ np.where(here, Y_b, 0).astype(X.dtype)
                    _add_grams(X_b, here, gram_b, into, n_threads, subtract=cell < 0)
        cells = (Y > 0) * (held + 1)
        sums, factors = _positives(X, cells, n_cells, fit_intercept, n_threads)
        counts = LabelCounts.of(Y, folds, n_folds=n_folds)
        return cls(X.shape[0], gram, known, targets, sums, factors, counts, open_grams, n_free)

    def combine(self, other: "PartStatistics") -> "PartStatistics":
        """Statistics of the rows of both."""
        return PartStatistics(
            self.n_rows + other.n_rows,
            self.gram + other.gram,
            self.known_grams + other.known_grams,
            self.targets + other.targets,
            self.positive_sums + other.positive_sums,
            [
                [triangular([R, S]) for R, S in zip(*of_fold, strict=True)]
                for of_fold in zip(self.factors, other.factors, strict=True)
            ],
            self.counts.combine(other.counts),
            self.free_grams + other.free_grams,
            self.n_free + other.n_free,
        )

    def view(
        self,
        positive_weight: float = 1.0,
        *,
        without: int | None = None,
        kept: Mask | None = None,
    ) -> ViewStatistics:
        """Statistics of all entries, or of those that are not held out in a fold.

        Parameters
        ----------
        positive_weight : float
            Weight of an observed positive in the loss, relative to that of a negative.
        without : int, optional
            A fold whose entries are unknown.
        kept : ndarray of bool, of shape (c,), optional
            Labels whose positives in that fold stay known. Their rows still count as free, where
            they have no other positive.
        """
        folds = [fold for fold in range(len(self.factors)) if fold != without]
        known, targets, sums, n_known, n_positives = (
            np.add.reduce([A[fold] for fold in folds])
            for A in (
                self.known_grams,
                self.targets,
                self.positive_sums,
                self.counts.known,
                self.counts.positives,
            )
        )
        parts = [[self.factors[fold][k] for fold in folds] for k in range(len(known))]
        if without is not None and kept is not None:
            for k in np.flatnonzero(kept):
                parts[k].append(R := self.factors[without][k])
                known[k] += R.T @ R
            targets += kept * self.positive_sums[without]
            sums += kept * self.positive_sums[without]
            n_known += kept * self.counts.positives[without]
            n_positives += kept * self.counts.positives[without]
        factors = [triangular(of_label) for of_label in parts]
        rows = np.concatenate(factors)
        if positive_weight != 1:
            for gram, R in zip(known, factors, strict=True):
                gram += (positive_weight - 1) * (R.T @ R)
            targets += (positive_weight - 1) * sums
        at = 0 if without is None else 1 + without
        return ViewStatistics(
            gram=self.gram,
            known_grams=known,
            positive_gram=rows.T @ rows,
            targets=targets,
            weight=float(n_known.sum() + (positive_weight - 1) * n_positives.sum()),
            n_positives=int(n_positives.sum()),
            factors=factors,
            free_grams=self.free_grams[at] if len(self.free_grams) else None,
            n_free=self.n_free[at] if len(self.n_free) else None,
        )


def triangular(parts: Sequence[Matrix]) -> Matrix:
    """All rows, or their triangular factor if that is smaller.

    Tall matrices are factored in pieces that fit in a cache, and then the factors of these.
    """
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    d = rows.shape[1]
    height = FACTORED_ROWS * d
    while len(rows) >= 2 * height:
        n_whole = len(rows) // height * height
        pieces = np.asarray(np.linalg.qr(rows[:n_whole].reshape(-1, height, d), mode="r"))
        rows = np.concatenate([pieces.reshape(-1, d), rows[n_whole:]])
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > d else rows


def _cells(Y: NDArray[Any], folds: NDArray[np.int8] | None) -> NDArray[np.int8]:
    """Fold of each known entry, which is 0 without folds; -1 of the others."""
    return np.where(Y != 0, np.int8(0) if folds is None else folds, np.int8(-1))


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


def _blocks(X: Any, rows: NDArray[np.intp], ones: bool) -> Iterator[tuple[Any, NDArray[np.intp]]]:
    """A few of the rows at a time, dense unless very sparse, and their positions."""
    keep = sparse.issparse(X) and stored_numbers(X) <= SPARSE_SHARE * X.shape[0] * X.shape[1]
    step = max(1, BLOCK_NUMBERS // max(1, X.shape[1]))
    for start in range(0, len(rows), step):
        at = rows[start : start + step]
        X_b = X[at] if keep else _dense(X[at])
        yield append_ones(X_b) if ones else X_b, at


def _add_grams(
    X: Any, masks: Mask, whole: Matrix, into: list[Matrix], n_threads: int, *, subtract: bool
) -> None:
    """Add ``X'X`` of the rows of each label's mask, (n, c), to all given stacks (c, d, d).

    ``whole`` is ``X'X`` of all rows. With ``subtract``, that of few other rows is taken from it,
    which leaves a rounding error of the size of ``whole`` even in a column of zeros.
    """
    if not into:
        return
    masks = np.ascontiguousarray(masks.T)
    _, which = distinct(masks)
    gather = _Gathering(X)

    def gram_of(mask: Mask) -> Matrix:
        rows = np.flatnonzero(mask)
        if len(rows) == X.shape[0]:
            return whole
        from_whole = subtract and 2 * len(rows) > X.shape[0]
        part = gather(np.flatnonzero(~mask) if from_whole else rows)
        gram = _dense(part.T @ part)
        return whole - gram if from_whole else gram

    def add(labels: NDArray[np.intp]) -> None:
        if masks[labels[0]].any():
            gram = gram_of(masks[labels[0]])
            for stack in into:
                for k in labels:
                    stack[k] += gram

    thread_map(add, [np.flatnonzero(which == i) for i in range(which.max() + 1)], n_threads)


class _Gathering(local):
    """Some rows of a table, in one array for each thread.

    Workers of dask give memory back to the system at once, and getting it again for every label
    would take half as long as the products. Nothing may refer to one in a circle: if it is left to
    the garbage collector, and that runs while dask takes a profile, Python (3.11.7) hangs.
    """

    def __init__(self, X: Any) -> None:
        self.X, self.rows = X, None if sparse.issparse(X) else np.empty_like(X)

    def __call__(self, rows: NDArray[np.intp]) -> Any:
        if self.rows is None:
            return self.X[rows]
        return np.take(self.X, rows, axis=0, out=self.rows[: len(rows)], mode="clip")


def _positives(
    X: Any, cells: NDArray[np.int8], n_cells: int, ones: bool, n_threads: int
) -> tuple[Matrix, list[list[Matrix]]]:
    """Sums (n_cells, d, c) and factors, by cell and label, of the positive rows.

    ``cells`` (n, c) is 1 + the fold of each positive entry, 0 of all others.
    """
    columns = np.ascontiguousarray(cells.T)
    sums = np.zeros((n_cells, X.shape[1] + ones, len(columns)), dtype=X.dtype)

    def factor(at: tuple[int, int]) -> Matrix:
        rows = _dense(X[np.flatnonzero(columns[at[1]] == 1 + at[0])])
        rows = append_ones(rows) if ones else rows
        sums[at[0], :, at[1]] = rows.sum(axis=0)
        return triangular([rows])

    found = thread_map(factor, np.ndindex(n_cells, len(columns)), n_threads)
    return sums, [found[i * len(columns) : (i + 1) * len(columns)] for i in range(n_cells)]


def _dense(A: Any) -> Matrix:
    return A.toarray() if sparse.issparse(A) else np.asarray(A)
