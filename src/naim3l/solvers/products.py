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
RESOLVED = 1e-6
# Share of the largest singular value below which others may be missing in a trace norm.
LEAST_ROOT = 1e-6
# Convergence is quadratic: if the smallest eigenvalue is this close to 1, one more step has all
# digits.
CLOSE = 1e-8
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
    largest = _bound(K).clamp(min=square)
    low = square / float(largest.max())
    P = _add_identity(sign(_add_identity(K / largest, -square / largest), RESOLVED * low) / 2, 0.5)
    KP = K @ P
    C = _add_identity((KP + KP.mT) / 2 - square * P, square)
    # The bound of the largest eigenvalue counts all of the n eigenvalues t^2.
    root, error = inverse_root(C, math.sqrt(low / (1 + low * math.sqrt(C.shape[-1]))))
    T = P - threshold * (P @ root)
    good = error <= WORST_ROOT  # false for NaN, too
    if not bool(good.all()):
        T = T.where(good, _shrink_by_eigenvalues(K, threshold))
    return (T + T.mT) / 2


def trace_norm_of_gram(K: Any) -> Any:
    """Trace norm of each ``A``, given ``K = A'A``, (n_matrices,).

    With ``d`` equal to ``LEAST_ROOT`` times the largest singular value, this is the trace of
    ``K (K + d^2 I)^(-1/2)``, which is too low by at most ``d`` for each singular value.
    """
    largest = _bound(K)
    largest = largest.where(largest > 0, 1.0)
    root, _ = inverse_root(_add_identity(K.clone(), LEAST_ROOT**2 * largest), LEAST_ROOT)
    return (K * root).sum(dim=(-2, -1))


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


def _shrink_by_eigenvalues(K: Any, threshold: float) -> Any:
    eigenvalues, vectors = namespace_of(K).linalg.eigh(K)
    weights = (1 - threshold / eigenvalues.clamp(min=threshold**2).sqrt()).clamp(min=0)
    return (vectors * weights[..., None, :]) @ vectors.mT
