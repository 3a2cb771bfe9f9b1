"""Functions of stacks of Gram matrices by products alone, for GPUs.

A GPU takes hundreds of products in the time of one batch of eigendecompositions. The sign and the
inverse root of a symmetric matrix are limits of iterations with products only (Newton-Schulz). Each
step is scaled such that eigenvalues from ``low`` to 1 come as close to 1 as a cubic polynomial can
bring them (Chen and Chow, 2014), which multiplies small ones by 2.6 instead of 1.5.

Arguments are tensors of torch: a product and a sum in one call save a third of the time.
"""

import math
from typing import Any

from naim3l._arrays import namespace_of

# Directions whose squared singular value differs from the squared threshold t^2 by less than this
# share of t^2 are neither kept nor removed completely. Thresholding leaves nearly nothing of them
# in any case: an error of at most this share of t.
RESOLVED = 1e-5
# Share of the norm below which singular values may be missing in a trace norm.
LEAST_ROOT = 1e-5
# Convergence is quadratic: if the smallest eigenvalue is this close to 1, one more step has all
# digits.
CLOSE = 1e-8
# Products that find the direction of an eigenvalue far above the others, and the largest relative
# error of the eigenvalue.
LEVEL_STEPS, LEVEL_ERROR = 8, 1e-14
# Largest relative error of an inverse root; beyond it, eigenvalues are computed.
WORST_ROOT = 1e-7


def shrink_gram(K: Any, threshold: float) -> Any:
    """``T`` such that ``A T`` is the singular value thresholding of ``A``, given ``K = A'A``.

    With the projection ``P = (I + sign(K - t^2 I)) / 2`` on the directions that are kept, the
    matrix ``C = K P + t^2 (I - P)`` has no eigenvalue below ``t^2``, and T is
    ``P (I - t C^(-1/2))``.

    Parameters
    ----------
    K : tensor of shape (n_matrices, n, n)
    threshold : float
        Above 0.
    """
    square = threshold**2
    K, u, largest, level = _level(K)
    scale = _bound(K).clamp(min=square)
    low = square / float(scale.max())
    P = _add_identity(sign(_add_identity(K / scale, -square / scale), RESOLVED * low) / 2, 0.5)
    KP = K @ P
    C = _add_identity((KP + KP.mT) / 2 - square * P, square)
    # The bound of the largest eigenvalue counts all of the n eigenvalues t^2.
    root, error = inverse_root(C, math.sqrt(low / (1 + low * math.sqrt(C.shape[-1]))))
    T = P - threshold * (P @ root)
    good = error <= WORST_ROOT  # false for NaN, too
    if not bool(good.all()):
        T = T.where(good, _shrink_by_eigenvalues(K, threshold))
    gain = _shrinkage(largest, threshold) - _shrinkage(level, threshold)
    return (T + T.mT) / 2 + gain * (u * u.mT)


def trace_norm_of_gram(K: Any) -> Any:
    """Trace norm of each ``A``, given ``K = A'A``, (n_matrices,).

    This is the trace of ``K (K + d^2 I)^(-1/2)``, which is too low by at most ``d`` for each
    singular value, and by ``d^2 / (2 s)`` for those above; ``d`` is ``LEAST_ROOT`` times the norm
    of all but the largest.
    """
    K, _, largest, level = _level(K)
    scale = _bound(K)
    scale = scale.where(scale > 0, 1.0)
    root, _ = inverse_root(_add_identity(K.clone(), LEAST_ROOT**2 * scale), LEAST_ROOT)
    return (K * root).sum(dim=(-2, -1)) + (largest.sqrt() - level.sqrt())[..., 0, 0]


def sign(M: Any, low: float) -> Any:
    """Sign of symmetric matrices whose eigenvalues are between -1 and 1, (n_matrices, n, n).

    Eigenvalues closer to 0 than ``low`` end between -1 and 1.
    """
    for rho in _scalings(low):
        M = _next(M, M, M @ M, rho)
    return (M + M.mT) / 2


def inverse_root(C: Any, low: float) -> tuple[Any, Any]:
    """``C^(-1/2)`` of positive definite matrices, and its relative error, (n_matrices, 1, 1).

    Parameters
    ----------
    C : tensor of shape (n_matrices, n, n)
    low : float
        Lower bound of the root of the ratio of the smallest eigenvalue to the norm.
    """
    scale, n = _bound(C), C.shape[-1]
    Y = C / scale
    Z = _add_identity(Y.new_zeros(Y.shape), 1.0)
    for rho in _scalings(low):
        ZY = Z @ Y
        Y, Z = _next(Y, Y, ZY, rho), _next(Z, ZY, Z, rho)
    error = _bound(_add_identity(Z @ Y, -1.0)) / math.sqrt(n)
    return Z / scale.sqrt(), error


def _next(M: Any, left: Any, right: Any, rho: float) -> Any:
    """``rho (3 M - rho^2 left right) / 2``."""
    return M.baddbmm(left, right, beta=1.5 * rho, alpha=-(rho**3) / 2)


def _scalings(low: float) -> list[float]:
    """Factors of the steps that bring all eigenvalues from ``low`` to 1 close to 1."""
    found = []
    while 1 - low >= CLOSE:
        rho = math.sqrt(3 / (1 + low + low**2))
        found.append(rho)
        low = rho * low * (3 - rho**2 * low**2) / 2
    return [*found, 1.0]


def _bound(K: Any) -> Any:
    """Upper bound of the largest eigenvalue of each symmetric matrix, (n_matrices, 1, 1)."""
    return K.square().sum(dim=(-2, -1), keepdim=True).sqrt()


def _add_identity(M: Any, factor: Any) -> Any:
    """``M + factor I``, in place."""
    diagonal = M.diagonal(dim1=-2, dim2=-1)
    diagonal += factor if isinstance(factor, float) else factor[..., 0]
    return M


def _level(K: Any) -> tuple[Any, Any, Any, Any]:
    """Matrices whose largest eigenvalue is lowered to the level of the others.

    Scores of a rare label are nearly -1 in all rows, so that one eigenvalue is a thousand times the
    others, and the iterations would have to resolve these. Its direction is found by a few
    products. Where these do not find it, nothing is changed, and largest and level are equal.

    Returns
    -------
    K : tensor of shape (n_matrices, n, n)
    u : tensor of shape (n_matrices, n, 1)
        Direction of the eigenvalue.
    largest, level : tensor of shape (n_matrices, 1, 1)
        The eigenvalue, before and after.
    """
    u = K.sum(dim=-1, keepdim=True)
    for _ in range(LEVEL_STEPS):
        u = K @ (u / _length(u))
    u = u / _length(u)
    Ku = K @ u
    largest = u.mT @ Ku
    rest = K.baddbmm(u * -largest, u.mT)
    level = _bound(rest)
    found = (_length(Ku - largest * u) <= LEVEL_ERROR * largest) & (largest > 2 * level)
    level = level.where(found, largest)
    return K.where(~found, rest + level * (u * u.mT)), u, largest, level


def _length(u: Any) -> Any:
    """Length of each vector (n_matrices, n, 1), above zero."""
    return u.square().sum(dim=-2, keepdim=True).sqrt().clamp(min=1e-300)


def _shrinkage(square: Any, threshold: float) -> Any:
    """Factor of a singular value, given its square."""
    return (1 - threshold / square.clamp(min=threshold**2).sqrt()).clamp(min=0)


def _shrink_by_eigenvalues(K: Any, threshold: float) -> Any:
    eigenvalues, vectors = namespace_of(K).linalg.eigh(K)
    return (vectors * _shrinkage(eigenvalues, threshold)[..., None, :]) @ vectors.mT
