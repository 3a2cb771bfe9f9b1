"""Trace norm, its sub-gradient (Algorithm 2) and singular value thresholding.

All three are functions of the singular values of ``A``, computed from the smaller Gram matrix:
with ``A'A = V diag(s^2) V'``, a function that turns each singular value ``s`` into ``s * w(s)`` is
``A V diag(w(s)) V'``; with fewer rows than columns it is ``U diag(w(s)) U' A`` from
``AA' = U diag(s^2) U'``. Each takes one matrix or a stack of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from naim3l._arrays import Matrix, as_numpy, eigh, namespace_of


def trace_norm(A: Matrix, *, cutoff: float | None = None) -> Any:
    """Sum of the singular values of ``A``.

    Parameters
    ----------
    A : ndarray of shape (..., n_rows, n_columns)
        A matrix or a stack of them.
    cutoff : float, optional
        Eigenvalues of the Gram matrix (squared singular values) up to this one count as
        zero. By default the rounding error of the largest.

    Returns
    -------
    float, or ndarray of shape (...)
        Norm of each matrix.
    """
    if 0 in A.shape[-2:]:
        return np.zeros(A.shape[:-2])[()]
    return _root_sum(A, np.linalg.eigvalsh(_smaller_gram(A)), cutoff)


def trace_norm_subgradient(A: Matrix, *, cutoff: float | None = None) -> Matrix:
    """Sub-gradient ``UV'`` of the trace norm at ``A``, also if ``A`` is rank-deficient.

    ``U`` and ``V`` hold the singular vectors of the non-zero singular values only.

    Parameters
    ----------
    A, cutoff
        As for `trace_norm`.

    Returns
    -------
    ndarray of shape (..., n_rows, n_columns)
        ``UV'`` of each matrix.
    """
    if not A.size:
        return A.copy()
    eigenvalues, vectors = eigh(_smaller_gram(A))
    return _reweight(A, _inverse_root(A, eigenvalues, cutoff), vectors)


def inverse_root_of_gram(
    K: Matrix, *, cutoff: float | None = None, slack: float = 0.0
) -> tuple[float, Matrix]:
    """Trace norm of ``A``, and ``T`` such that ``A @ T`` is its sub-gradient, from ``K = A'A``.

    A sub-gradient turns with the vectors of small singular values, however small these are. With
    ``slack``, it does so less: singular values of ``G = A @ T`` are ``s / sqrt(s^2 + e^2)`` instead
    of 1. As they are below 1, ``<G, B>`` is at most the trace norm of ``B`` for every ``B``, as
    with a sub-gradient; at ``A`` it is below the trace norm by ``slack``, which determines ``e``.
    Eigenvalues up to ``cutoff`` count as zero in ``T``, but not in the norm.
    """
    eigenvalues, vectors = namespace_of(K).linalg.eigh(K)
    weights = _inverse_root(K, eigenvalues, cutoff)
    kept = weights > 0
    if slack > 0:
        weights = weights / (1 + _smoothing(as_numpy(1 / weights[kept]), slack) * weights**2) ** 0.5
    T = (vectors[:, kept] * weights[kept]) @ vectors[:, kept].T
    return float(_root_sum(K, eigenvalues, None)), T


def threshold_of_gram(K: Matrix, threshold: float) -> tuple[Matrix, Matrix]:
    """``T`` such that ``A @ T`` is the thresholding of ``A``, and `trace_norm`, from ``K = A'A``.

    ``K`` is (..., n, n), and so is ``T``.
    """
    eigenvalues, vectors = eigh(K)
    weights, transposed = _shrinkage(eigenvalues, threshold), np.swapaxes(vectors, -1, -2)
    return (vectors * weights[..., None, :]) @ transposed, _root_sum(K, eigenvalues, None)


def singular_value_threshold(A: Matrix, threshold: float) -> Matrix:
    """Proximal point of ``threshold`` times the trace norm at ``A``.

    Each singular value is reduced by ``threshold``, but not below zero. The result is the ``Z``
    that minimises ``threshold * ||Z||_* + 1/2 ||Z - A||^2``.

    Parameters
    ----------
    A : ndarray of shape (..., n_rows, n_columns)
        A matrix or a stack of them.
    threshold : float
        At least 0.

    Returns
    -------
    ndarray of shape (..., n_rows, n_columns)
        ``Z`` of each matrix.
    """
    return threshold_and_basis(A, threshold)[0] if threshold and A.size else A.copy()


def threshold_and_basis(A: Matrix, threshold: float) -> tuple[Matrix, Matrix, Matrix]:
    """`singular_value_threshold`, singular vectors of the shorter side of ``A``, and `trace_norm`.

    The vectors are the columns of (..., n_shorter, n_shorter).
    """
    eigenvalues, vectors = eigh(_smaller_gram(A))
    weights = _shrinkage(eigenvalues, threshold)
    return _reweight(A, weights, vectors), vectors, _root_sum(A, eigenvalues, None)


def _shrinkage(squares: Matrix, threshold: float) -> Matrix:
    """Factors of singular values, given their squares."""
    kept = squares > threshold**2
    return np.where(kept, 1 - threshold / np.sqrt(np.where(kept, squares, 1)), 0)


def _reweight(A: Matrix, weights: Matrix, vectors: Matrix) -> Matrix:
    """``A`` with each singular value multiplied by a weight, 0 or above."""
    # Eigenvalues ascend; leading ones with weight zero in all matrices contribute nothing.
    first = int(np.argmax((weights != 0).any(axis=tuple(range(weights.ndim - 1)))))
    vectors, weights = vectors[..., first:], weights[..., None, first:]
    transposed = np.swapaxes(vectors, -1, -2)
    tall = A.shape[-2] >= A.shape[-1]
    if 2 * vectors.shape[-1] > vectors.shape[-2]:  # then one product with A costs less than two
        root = vectors * np.sqrt(weights)
        T = root @ np.swapaxes(root, -1, -2)  # half the work, as BLAS knows that it is symmetric
        return A @ T if tall else T @ A
    if tall:
        return (A @ vectors * weights) @ transposed
    return (vectors * weights) @ (transposed @ A)


def _smoothing(s: NDArray[np.floating], slack: float) -> float:
    """``e^2`` at which ``sum s (1 - s / sqrt(s^2 + e^2))`` is ``slack``, at most ``max(s)^2``."""
    largest = float(s.max(initial=0.0)) ** 2

    def excess(logarithm: float) -> float:
        return float(np.sum(s - s**2 / np.sqrt(s**2 + largest * 10**logarithm))) - slack

    if excess(0.0) <= 0:
        return largest
    return float(largest * 10 ** brentq(excess, -30, 0, rtol=1e-3)) if excess(-30) < 0 else 0.0


def _root_sum(A: Matrix, eigenvalues: Matrix, cutoff: float | None) -> Any:
    xp, kept = namespace_of(A), _above(A, eigenvalues, cutoff)
    return xp.sum(xp.sqrt(xp.where(kept, eigenvalues, 0.0)), axis=-1)


def _inverse_root(A: Matrix, eigenvalues: Matrix, cutoff: float | None) -> Matrix:
    xp, kept = namespace_of(A), _above(A, eigenvalues, cutoff)
    return xp.where(kept, 1 / xp.sqrt(xp.where(kept, eigenvalues, 1.0)), 0.0)


def _smaller_gram(A: Matrix) -> Matrix:
    At = np.swapaxes(A, -1, -2)
    return At @ A if A.shape[-2] >= A.shape[-1] else A @ At


def _above(A: Matrix, eigenvalues: Matrix, cutoff: float | None) -> Any:
    """Which eigenvalues are above a cut-off, by default the rounding error of the largest."""
    if cutoff is not None:
        return eigenvalues > cutoff
    xp = namespace_of(A)
    rounding = float(xp.finfo(A.dtype).eps) * max(A.shape[-2:])
    return eigenvalues > rounding * xp.clip(eigenvalues[..., -1:], 0, None)
