"""Views with more columns than rows, rotated to as many columns as their rows span.

Components of the weights outside of the span of the rows do not change scores, and add to the
ridge, so that solutions lie in the span. With ``X = L Q'`` and orthonormal columns in ``Q``,
``W = QM`` runs through it with the same scores, ``XW = LM``, and the same squares: the problem in
``L`` has the same solutions. docs/research/solver.md has the proof.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from naim3l._arrays import Matrix, as_dense
from naim3l._threads import one_blas_thread
from naim3l.problem.feature_blocks import Features

# Numbers of a table that are made dense at a time.
_BLOCK_NUMBERS = 2**22


class Rotation:
    """The rows of a view (n_rows, n_columns) in an orthonormal basis ``Q`` of their span.

    ``L = XQ`` has shape (n_rows, rank), with ``LL' = XX'``; that of a table of zeros, one column.
    ``Q`` has as many rows as the view has columns, and is never formed: a basis of the span are
    some of the rows themselves, ``X_B = R'Q'`` with a triangular ``R``, so that
    ``QM = X_B' (R^-1 M)``. These rows and ``R`` are those of a QR decomposition of ``X'`` with
    pivoting, which, unlike ``XX'``, keeps all digits of small singular values.
    """

    def __init__(self, X: Features) -> None:
        self.X = X
        R, order = _pivoted_factor(X)
        sizes = np.abs(R.diagonal())
        rounding = max(X.shape) * np.finfo(np.float64).eps * sizes[0]
        rank = max(1, int(np.sum(sizes > rounding)))
        L = np.empty((X.shape[0], rank))
        L[order] = R[:rank].T
        self.L = L.astype(X.dtype, copy=False)
        # Rows of zeros span nothing.
        self._R = R[:rank, :rank] if sizes[0] > 0 else np.ones((1, 1))
        self._basis = order[:rank]

    def expand(self, M: Matrix) -> Matrix:
        """``W = QM``: (rank, n_labels) -> (n_columns, n_labels)."""
        W = self._combine(M)
        # Nearly dependent rows cancel each other; the second time adds the digits that this loses.
        return (W + self._combine(M - self.reduce(W))).astype(M.dtype, copy=False)

    def _combine(self, M: Matrix) -> Matrix:
        """``X_B' (R^-1 M)``, (n_columns, n_labels)."""
        A = np.zeros((self.X.shape[0], M.shape[1]))
        A[self._basis] = linalg.solve_triangular(self._R, M, check_finite=False)
        return np.asarray(self.X.T @ A)

    def reduce(self, W: Matrix) -> Matrix:
        """``M = Q'W``, of the component in the span: (n_columns, n_labels) -> (rank, n_labels)."""
        XW = (self.X @ W)[self._basis]
        return np.asarray(linalg.solve_triangular(self._R, XW, trans="T", check_finite=False))


@one_blas_thread  # the same digits for any number of threads: checkpoints depend on them
def _pivoted_factor(X: Features) -> tuple[Matrix, NDArray[np.intp]]:
    """``R`` and the order of the rows in ``X[order].T = QR``, with columns taken in blocks."""
    n_rows = X.shape[0]
    R = np.zeros((n_rows, n_rows))
    if not isinstance(X, np.ndarray):
        # Most columns of a sparse table have at most one entry. Those of a row together are one
        # column with the length of these entries.
        X = X.tocsc()
        n_entries = np.diff(X.indptr)
        squares = X[:, n_entries == 1].power(2).sum(axis=1)
        R, X = np.diag(np.sqrt(np.asarray(squares).ravel())), X[:, n_entries > 1]
    step = max(2 * n_rows, _BLOCK_NUMBERS // n_rows)
    for start in range(0, X.shape[1], step):
        columns = as_dense(X[:, start : start + step].T)
        [R] = linalg.qr(np.vstack([R, columns]), mode="r", overwrite_a=True, check_finite=False)
        R = R[:n_rows]
    [R, order] = linalg.qr(R, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    return R, order
