"""Trace norm, its sub-gradient (Algorithm 2) and singular value thresholding.

All three are functions of the singular values of ``A`` alone, applied in the basis of
its singular vectors. They are computed from the smaller of the two Gram matrices, so a
tall ``A`` is never decomposed: with ``A'A = V diag(s^2) V'``, a function that turns each
singular value ``s`` into ``s * w(s)`` is ``A V diag(w(s)) V'``; with fewer rows than
columns it is ``U diag(w(s)) U' A`` from ``AA' = U diag(s^2) U'``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Matrix = NDArray[np.floating]

# Decompositions of this size lose time by using several threads; smaller ones use only one.
ONE_THREAD_SIZES = range(64, 300)
_threads = ThreadpoolController()


def trace_norm(A: Matrix, *, cutoff: float | None = None) -> float:
    """Sum of the singular values of ``A``.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns)
    cutoff : float, optional
        Eigenvalues of the Gram matrix (squared singular values) up to this one count as
        zero. By default the rounding error of the largest.
    """
    if 0 in A.shape:
        return 0.0
    eigenvalues = _limit_threads(np.linalg.eigvalsh, _smaller_gram(A))
    return float(np.sqrt(eigenvalues[eigenvalues > _cutoff(A, eigenvalues, cutoff)]).sum())


def trace_norm_subgradient(A: Matrix, *, cutoff: float | None = None) -> Matrix:
    """Sub-gradient ``UV'`` of the trace norm at ``A``, of the shape of ``A``.

    ``U`` and ``V`` hold the singular vectors of the non-zero singular values only, so the
    result belongs to the sub-differential at rank-deficient matrices too.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns)
    cutoff : float, optional
        Eigenvalues of the Gram matrix (squared singular values) up to this one count as
        zero. By default the rounding error of the largest.
    """

    def inverse_root(eigenvalues: Matrix) -> Matrix:
        kept = eigenvalues > _cutoff(A, eigenvalues, cutoff)
        return np.where(kept, 1 / np.sqrt(np.where(kept, eigenvalues, 1)), 0)

    return _reweight(A, inverse_root)


def singular_value_threshold(A: Matrix, threshold: float) -> Matrix:
    """Proximal point of ``threshold`` times the trace norm at ``A``.

    Each singular value loses ``threshold`` and stops at zero: the ``Z`` that minimises
    ``threshold * ||Z||_* + 1/2 ||Z - A||^2``.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns)
    threshold : float
        Not negative.
    """
    if threshold == 0:
        return A.copy()

    def shrinkage(eigenvalues: Matrix) -> Matrix:
        kept = eigenvalues > threshold**2
        return np.where(kept, 1 - threshold / np.sqrt(np.where(kept, eigenvalues, 1)), 0)

    return _reweight(A, shrinkage)


def _reweight(A: Matrix, weight: Callable[[Matrix], Matrix]) -> Matrix:
    """``A`` with each singular value multiplied by a weight computed from its square."""
    if 0 in A.shape:
        return A.copy()
    eigenvalues, vectors = _limit_threads(np.linalg.eigh, _smaller_gram(A))
    weights = weight(eigenvalues)
    kept = weights != 0  # the others contribute nothing: leave them out of the products
    vectors, weights = vectors[:, kept], weights[kept]
    if A.shape[0] >= A.shape[1]:
        return (A @ vectors * weights) @ vectors.T
    return (vectors * weights) @ (vectors.T @ A)


def _limit_threads(decompose: Callable[[Matrix], Any], gram: Matrix) -> Any:
    if len(gram) not in ONE_THREAD_SIZES:
        return decompose(gram)
    with _threads.limit(limits=1, user_api="blas"):
        return decompose(gram)


def _smaller_gram(A: Matrix) -> Matrix:
    return A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T


def _cutoff(A: Matrix, eigenvalues: Matrix, cutoff: float | None) -> float:
    if cutoff is not None:
        return cutoff
    return float(np.finfo(A.dtype).eps * max(A.shape) * max(eigenvalues[-1], 0.0))
