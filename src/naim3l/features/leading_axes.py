"""The leading principal axes of rows, without the others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from naim3l._arrays import Matrix
from naim3l._threads import one_blas_thread

# The matrix of products of all pairs of columns, or of rows if these are fewer, is decomposed if it
# has at most this size, or this many times the number of axes; otherwise iterations are faster.
DIRECT_SIZE, DIRECT_TIMES = 500, 16
# Up to this size, the matrix is formed for iterations, too, unless the rows are sparse; these give
# up after one restart for so many rows, as they would take longer than the decomposition.
LARGEST_DIRECT, ROWS_PER_RESTART = 5000, 100
# Rows with a smaller share of numbers that are not zero are treated as sparse, unless the mean of
# a column exceeds this share of its root mean square: centring afterwards then loses digits.
SPARSE_SHARE, LARGEST_MEAN = 0.2, 0.99
LARGEST_RESIDUAL = 1e-12  # of eigenpairs that are used, relative to the largest eigenvalue
CHECK_STEPS = 40  # of Lanczos that look for a larger eigenvalue


class CentredRows:
    """Rows minus their mean, which is not subtracted from sparse rows, but from their products."""

    def __init__(self, X: Any) -> None:
        self.mean = np.asarray(X.mean(axis=0)).ravel()
        self.shift = self.mean  # centred rows are self.X - self.shift
        if sparse.issparse(X):
            self.X = X.sorted_indices()  # the order of which decides the last bits of products
        else:
            self.X = X - self.mean
            rest = self.X.mean(axis=0)  # the rounding error of the mean of numbers far from 0
            self.X -= rest
            self.mean, self.shift = self.mean + rest, np.zeros_like(rest)

    def multiply(self, V: Matrix) -> Matrix:
        """Products with columns, (n_columns, ...) -> (n_rows, ...)."""
        return np.asarray(self.X @ V - self.shift @ V)

    def multiply_transposed(self, U: Matrix) -> Matrix:
        """Products with rows, (n_rows, ...) -> (n_columns, ...)."""
        return np.asarray(self.X.T @ U - np.multiply.outer(self.shift, U.sum(axis=0)))

    def scatter(self) -> Matrix:
        """Products of all pairs of columns, (n_columns, n_columns)."""
        products = self.X.T @ self.X
        if not sparse.issparse(products):
            return np.asarray(products)
        return np.asarray(products.toarray() - len(self) * np.outer(self.shift, self.shift))

    def gram(self) -> Matrix:
        """Products of all pairs of rows, (n_rows, n_rows)."""
        products = self.X @ self.X.T
        if not sparse.issparse(products):
            return np.asarray(products)
        along = self.X @ self.shift
        return np.asarray(products.toarray() - along - along[:, None] + self.shift @ self.shift)

    def __len__(self) -> int:
        return int(self.X.shape[0])


def _iterates(shape: tuple[int, ...], n_axes: int) -> bool:
    return min(shape) > max(DIRECT_SIZE, DIRECT_TIMES * n_axes)


def centred_rows(X: Any, n_axes: int) -> CentredRows:
    """Rows minus their mean, in the form from which so many axes are found fastest."""
    if sparse.issparse(X) or not _iterates(X.shape, n_axes):
        return CentredRows(X)
    if np.count_nonzero(X) > SPARSE_SHARE * X.size:
        return CentredRows(X)
    rows = CentredRows(sparse.csr_array(X))
    largest = LARGEST_MEAN**2 * np.asarray(rows.X.power(2).mean(axis=0)).ravel()
    return rows if (rows.mean**2 <= largest).all() else CentredRows(X)


def leading_axes(rows: CentredRows, n_axes: int) -> tuple[Matrix, Matrix]:
    """Squared singular values (n_axes,), and right singular vectors in rows, largest first."""
    n_rows, n_columns = rows.X.shape
    wide = n_rows < n_columns
    form = rows.gram if wide else rows.scatter
    formed = not sparse.issparse(rows.X) and min(n_rows, n_columns) <= LARGEST_DIRECT
    if formed or not _iterates(rows.X.shape, n_axes):
        squares, U = _leading_pairs(form(), n_axes)
    else:
        found = _iterate(_products(rows), n_axes)
        squares, U = _decompose(form(), n_axes) if found is None else found
    if not wide:
        return squares, U.T.copy()
    # Nearly orthogonal columns, longest first.
    return squares, np.ascontiguousarray(np.linalg.qr(rows.multiply_transposed(U))[0].T)


def _products(rows: CentredRows) -> LinearOperator:
    """The matrix of products of all pairs of columns, or of rows if these are fewer, not formed."""
    n_rows, n_columns = rows.X.shape
    products = [rows.multiply_transposed, rows.multiply]
    first, second = products if n_rows < n_columns else products[::-1]

    def multiply(U: Matrix) -> Matrix:
        return second(first(U))

    shape = (min(n_rows, n_columns),) * 2
    return LinearOperator(shape, multiply, matmat=multiply, dtype=np.float64)


def axes_of_scatter(scatter: Matrix, n_axes: int) -> tuple[Matrix, Matrix]:
    """`leading_axes` of rows of which the products of columns are known."""
    squares, vectors = _leading_pairs(scatter, n_axes)
    return squares, vectors.T.copy()


def _leading_pairs(matrix: Matrix, n_axes: int) -> tuple[Matrix, Matrix]:
    """The largest eigenvalues (n_axes,) of a matrix and their vectors, in columns."""
    found = _iterate(matrix, n_axes) if _iterates(matrix.shape, n_axes) else None
    return _decompose(matrix, n_axes) if found is None else found


@one_blas_thread  # several threads mostly wait for each other
def _decompose(matrix: Matrix, n_axes: int) -> tuple[Matrix, Matrix]:
    last = [len(matrix) - n_axes, len(matrix) - 1]
    squares, vectors = linalg.eigh(matrix, subset_by_index=last)
    return np.maximum(squares[::-1], 0), vectors[:, ::-1]


@one_blas_thread
def _iterate(matrix: Any, n_axes: int) -> tuple[Matrix, Matrix] | None:
    """Eigenpairs by Lanczos iterations, None if these fail or leave one out."""
    size, rng = matrix.shape[0], np.random.default_rng(0)
    n_restarts = 1 + size // ROWS_PER_RESTART if size <= LARGEST_DIRECT else None
    try:
        squares, U = eigsh(matrix, n_axes, which="LA", v0=rng.normal(size=size), maxiter=n_restarts)
    except ArpackError:
        return None
    squares, U = np.maximum(squares[::-1], 0), U[:, ::-1]
    residual = np.linalg.norm(matrix @ U - U * squares, axis=0)
    accurate = residual.max() <= LARGEST_RESIDUAL * squares[0]
    if not (accurate and _is_complete(matrix, squares, U, rng.normal(size=size))):
        return None
    return squares, U


def _is_complete(matrix: Any, squares: Matrix, U: Matrix, start: NDArray[np.float64]) -> bool:
    """Whether no eigenvalue of a matrix is larger than those that were found.

    Lanczos steps from a random start find the largest of the rest. With 40 steps and a size of
    5000, eigenvalues that are larger by 6 % stay unnoticed with a probability below 1e-6 (Kuczynski
    and Wozniakowski, 1992).
    """

    def apply(u: Matrix) -> Matrix:
        u = u.ravel()
        return np.asarray(matrix @ u - U @ (squares * (U.T @ u)))

    rest = LinearOperator(matrix.shape, matvec=apply, dtype=np.float64)
    options: dict[str, Any] = {"ncv": CHECK_STEPS, "tol": 0.1, "return_eigenvectors": False}
    try:
        largest = eigsh(rest, 1, which="LA", v0=start, **options)
    except ArpackError:
        return False
    return bool(largest[0] <= squares[-1] * (1 + 1e-9) + LARGEST_RESIDUAL * squares[0])
