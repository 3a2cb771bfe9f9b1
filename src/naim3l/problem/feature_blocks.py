"""Features of a view, dense or sparse: their size, Gram matrices, a column of ones, memory."""

import os
from typing import TypeAlias

import numpy as np
from scipy import sparse

from naim3l._arrays import Matrix, as_dense

# Of shape (n_rows, n_columns); sparse ones are CSR. Their size is that of what they store.
Features: TypeAlias = Matrix | sparse.sparray

# Gram matrices of views with more columns are computed only if they are no larger than the rows.
GRAM_COLUMNS = 2000
FEWER_COLUMNS = "features=Recipe('scale', n_components=...)"  # in messages


def has_gram(X: Features) -> bool:
    """Whether ``X'X`` is stored: if it is small, or no larger than ``X`` itself."""
    return X.shape[1] <= GRAM_COLUMNS or X.shape[1] ** 2 <= X.size


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


def physical_memory() -> int | None:
    """Memory of the machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def refuse_beyond(what: str, n_bytes: float, cure: str, memory: float | None = None) -> None:
    """Refuse what needs more memory than the machine has; ``cure`` says what to do instead.

    ``memory`` is what may be used, if that is not all of the machine's.
    """
    most = physical_memory() if memory is None else memory
    if most is not None and n_bytes > most:
        owner = "this machine has" if memory is None else "it may use"
        raise MemoryError(
            f"{what}: a fit would take about {n_bytes / 2**30:.3g} GiB of memory, and {owner} "
            f"{most / 2**30:.3g}. {cure}"
        )
