"""The numbers a solver works on: feature blocks, signed labels, and who is positive for what.

Conventions, stated once. The rows of all views are stacked, so ``Y``, ``P`` and ``XW`` have
shape (n_rows, n_labels). The weights of all views are stacked too: ``W`` has shape
(n_weights, n_labels), and a view's intercept is the last row of its block. The paper's
block-diagonal ``X`` is never formed; ``multiply`` and ``multiply_transposed`` apply it.

The paper's ``X_k`` (rows whose label ``k`` is observed positive) is a choice of stacked
rows. The choices of all labels are laid end to end, label by label: an array of shape
(n_positives, n_labels) holds one matrix for every label, and ``label_slices`` cuts it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

Matrix = NDArray[np.floating]

# Fewer numbers than this in the blocks of all labels: starting threads costs more than it gains.
THREADED_NUMBERS = 100_000
# Blocks with at least this share of the rows of the largest are stacked with it.
STACKED_SHARE = 0.9

# Decorator for functions that divide labels among threads. BLAS then keeps to one: its own
# threads gain nothing on small decompositions, and keep cores busy while they wait.
one_blas_thread = ThreadpoolController().wrap(limits=1, user_api="blas")


class Problem:
    """Feature blocks and labels of all views, with the products that a solver needs.

    Parameters
    ----------
    features : sequence of ndarray or sparse matrix, each of shape (n_rows_v, n_features_v)
    labels : sequence of ndarray, each of shape (n_rows_v, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    fit_intercept : bool
        Append a column of ones to each block.

    Attributes
    ----------
    X : list of ndarray or sparse matrix, each of shape (n_rows_v, n_weights_v)
    Y : ndarray of shape (n_rows, n_labels)
    P : ndarray of bool, of shape (n_rows, n_labels)
        True where the label is known.
    positive_rows : ndarray of int, of shape (n_positives,)
        Stacked row of each observed positive, sorted by label.
    label_slices : list of slice, one per label
        Where in ``positive_rows`` each label lies.
    """

    def __init__(
        self,
        features: Sequence[Matrix | sparse.sparray],
        labels: Sequence[Matrix],
        *,
        fit_intercept: bool = True,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.X = [_append_ones(X_v) if fit_intercept else X_v for X_v in features]
        self.Y = np.concatenate(labels).astype(np.float64)
        self.P = self.Y != 0
        self.row_slices = _consecutive(X_v.shape[0] for X_v in self.X)
        self.weight_slices = _consecutive(X_v.shape[1] for X_v in self.X)
        label_of_positive, self.positive_rows = np.nonzero(self.Y.T > 0)
        counts = np.bincount(label_of_positive, minlength=self.n_labels)
        self.label_slices = _consecutive(counts)

    @property
    def n_rows(self) -> int:
        return self.Y.shape[0]

    @property
    def n_labels(self) -> int:
        return self.Y.shape[1]

    @property
    def n_positives(self) -> int:
        return len(self.positive_rows)

    @property
    def n_weights(self) -> int:
        return self.weight_slices[-1].stop

    @cached_property
    def penalised(self) -> NDArray[np.bool_]:
        """Which rows of ``W`` a ridge applies to, shape (n_weights,): all but intercepts."""
        mask = np.ones(self.n_weights, dtype=bool)
        if self.fit_intercept:
            mask[[weights.stop - 1 for weights in self.weight_slices]] = False
        return mask

    @cached_property
    def _scatter(self) -> sparse.csr_array:
        """Zero-one matrix (n_rows, n_positives) whose transpose selects ``positive_rows``."""
        ones = np.ones(self.n_positives)
        columns = np.arange(self.n_positives)
        shape = (self.n_rows, self.n_positives)
        return sparse.coo_array((ones, (self.positive_rows, columns)), shape=shape).tocsr()

    def multiply(self, W: Matrix) -> Matrix:
        """``XW`` for all rows: (n_weights, n_labels) -> (n_rows, n_labels)."""
        return np.concatenate(
            [X_v @ W[weights] for X_v, weights in zip(self.X, self.weight_slices, strict=True)]
        )

    def multiply_transposed(self, R: Matrix) -> Matrix:
        """``X'R`` for all views: (n_rows, n_labels) -> (n_weights, n_labels)."""
        return np.concatenate(
            [X_v.T @ R[rows] for X_v, rows in zip(self.X, self.row_slices, strict=True)]
        )

    def gather(self, XW: Matrix) -> Matrix:
        """``X_k W`` of every label: (n_rows, n_labels) -> (n_positives, n_labels)."""
        return XW[self.positive_rows]

    def scatter(self, Z: Matrix) -> Matrix:
        """Rows of all labels added up per stacked row; ``multiply_transposed`` of the
        result is ``sum_k X_k' Z_k``.
        """
        return self._scatter @ Z

    def map_labels(self, function: Callable[[Matrix], Matrix], A: Matrix) -> Matrix:
        """``function`` of every label's block of ``A``, for functions that keep the shape.

        Parameters
        ----------
        function : callable
            From a stack of blocks (..., n, n_labels) to one of the same shape. Rows of zeros
            that fill a block up must stay zero, and not change the other rows.
        A : ndarray of shape (n_positives, n_labels)
        """
        result = np.empty_like(A)

        def work(group: NDArray[np.intp]) -> None:
            for k, block in zip(group, function(self._stack(group, A)), strict=True):
                rows = self.label_slices[k]
                result[rows] = block[: rows.stop - rows.start]

        self._run_groups(work, A.size)
        return result

    def sum_labels(self, function: Callable[[Matrix], Matrix], A: Matrix) -> float:
        """Sum over labels of ``function``, from a stack of blocks (..., n, n_labels) to (...)."""
        totals: list[float] = []
        self._run_groups(lambda group: totals.append(function(self._stack(group, A)).sum()), A.size)
        return float(sum(totals))

    @cached_property
    def _label_groups(self) -> list[NDArray[np.intp]]:
        """Labels whose blocks are decomposed together, largest first.

        Blocks of similar size make a stack: small ones cost more in calls than in arithmetic, and
        NumPy lets other threads run only while it decomposes a few matrices at once.
        """
        sizes = np.array([rows.stop - rows.start for rows in self.label_slices])
        groups: list[list[int]] = []
        for k in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
            largest = sizes[groups[-1][0]] if groups else 0
            if groups and sizes[k] >= STACKED_SHARE * largest:
                groups[-1].append(k)
            else:
                groups.append([k])
        return [np.array(group) for group in groups]

    def _stack(self, group: NDArray[np.intp], A: Matrix) -> Matrix:
        """Blocks of some labels as (n_group, n_rows, n_labels), filled up with zeros."""
        slices = [self.label_slices[k] for k in group]
        if len(slices) == 1:
            return A[slices[0]][None]
        height = slices[0].stop - slices[0].start
        stack = np.zeros((len(slices), height, A.shape[1]), dtype=A.dtype)
        for block, rows in zip(stack, slices, strict=True):
            block[: rows.stop - rows.start] = A[rows]
        return stack

    @one_blas_thread
    def _run_groups(self, work: Callable[[NDArray[np.intp]], object], n_numbers: int) -> None:
        """``work`` on every group of labels, shared out among threads."""
        n_threads = effective_n_jobs(-1) if n_numbers >= THREADED_NUMBERS else 1
        if n_threads == 1:
            for group in self._label_groups:
                work(group)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(work, self._label_groups))

    def residual(self, XW: Matrix) -> Matrix:
        """``P * (XW - Y)``, zero where the label is unknown."""
        return np.subtract(XW, self.Y, where=self.P, out=np.zeros_like(XW))

    def positive_grams(self) -> list[Matrix]:
        """``sum_k X_k' X_k`` of each view, (n_weights_v, n_weights_v).

        A row with q observed positives occurs q times, so this is ``X' diag(q) X``.
        """
        return self._weighted_grams((self.Y > 0).sum(axis=1))

    def labelled_grams(self) -> list[Matrix]:
        """``X'X`` of each view over the rows with a known label; bounds the loss's curvature."""
        return self._weighted_grams(self.P.any(axis=1))

    @cached_property
    def grams(self) -> list[Matrix]:
        """``X'X`` of each view, (n_weights_v, n_weights_v)."""
        return self._weighted_grams(np.ones(self.n_rows))

    def multiply_gram(self, W: Matrix) -> Matrix:
        """``X'XW`` for all views, (n_weights, n_labels); rows are not touched."""
        return np.concatenate(
            [
                gram @ W[weights]
                for gram, weights in zip(self.grams, self.weight_slices, strict=True)
            ]
        )

    def _weighted_grams(self, row_weights: NDArray) -> list[Matrix]:
        grams = []
        for X_v, rows in zip(self.X, self.row_slices, strict=True):
            weighted = sparse.diags_array(row_weights[rows].astype(np.float64)) @ X_v
            gram = X_v.T @ weighted
            grams.append(gram.toarray() if sparse.issparse(gram) else gram)
        return grams

    def split_weights(self, W: Matrix) -> tuple[list[Matrix], list[Matrix]]:
        """Coefficients (n_features_v, n_labels) and intercepts (n_labels,) of each view."""
        coefficients, intercepts = [], []
        for weights in self.weight_slices:
            last = weights.stop - 1 if self.fit_intercept else weights.stop
            coefficients.append(W[weights.start : last].copy())
            intercepts.append(W[last].copy() if self.fit_intercept else np.zeros(self.n_labels))
        return coefficients, intercepts


def _append_ones(X: Matrix | sparse.sparray) -> Matrix | sparse.sparray:
    ones = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.hstack([X, ones], format="csr")
    return np.hstack([X, ones])


def _consecutive(sizes: Iterable[int]) -> list[slice]:
    """Slices of the given sizes, one after the other."""
    stops = np.cumsum(list(sizes)).tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
