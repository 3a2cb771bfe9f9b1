"""Features of a view, dense or sparse: their size, their Gram matrices, and a column of ones."""

from typing import TypeAlias

import numpy as np
from scipy import sparse

from naim3l._arrays import Matrix, as_dense

Features: TypeAlias = Matrix | sparse.sparray  # of shape (n_rows, n_columns); sparse ones are CSR

# Gram matrices of views with more columns are computed only if they are no larger than the rows.
GRAM_COLUMNS = 2000


def stored_numbers(X: Features) -> int:
    """Number of stored entries of ``X``, which a product with it reads."""
    return X.size if isinstance(X, np.ndarray) else int(X.nnz)


def has_gram(X: Features) -> bool:
    """Whether ``X'X`` is stored: if it is small, or no larger than ``X`` itself."""
    return X.shape[1] <= GRAM_COLUMNS or X.shape[1] ** 2 <= stored_numbers(X)


def append_ones(X: Features) -> Features:
    """The columns of ``X`` and a column of ones."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if sparse.issparse(X):
        return sparse.hstack([X, ones], format="csr")
    return np.hstack([X, ones])


def weighted_gram(X: Features, weights: Matrix) -> Matrix:
    """``X' diag(w) X``, from the rows whose weight is not zero."""
    rows = np.flatnonzero(weights)
    part, roots = X[rows], np.sqrt(weights[rows].astype(X.dtype))
    if (roots != 1).any():
        part = sparse.diags_array(roots) @ part
    return as_dense(part.T @ part)
