"""Trace norms and thresholding of the blocks of all labels, exact or nearly so.

Decompositions for thresholding are most of the time of an iteration. Singular vectors turn only a
little from one to the next. In the basis ``V`` of an earlier iteration the Gram matrix
of a block is nearly diagonal, ``V'KV = D + E``, and a function of it is, up to squares of E,
``V (f(D) + F * E) V'`` with the divided differences ``F_ij = (f(d_i) - f(d_j)) / (d_i - d_j)``
(Daleckii and Krein). That takes products alone, and single precision is accurate enough for them.
"""

import math
from functools import cache, singledispatch

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix, inner, norm
from naim3l.problem.base import BaseProblem
from naim3l.solvers.nuclear import singular_value_threshold, threshold_and_basis, trace_norm

N_PROBES = 8
# Singular vectors are not used again where more than this share of what is allowed was neglected.
SOON = 0.5
Bases = dict[int, NDArray[np.float32]]  # singular vectors of each group of labels


def threshold_in_basis(A: Matrix, V: Matrix, threshold: float) -> tuple[Matrix, float]:
    """`singular_value_threshold` to first order, from vectors ``V`` of a matrix near ``A``.

    ``V`` is from `threshold_and_basis`. The second result estimates the norm of what is neglected.
    """
    tall = A.shape[-2] >= A.shape[-1]
    C = np.swapaxes(V, -1, -2) @ (np.swapaxes(A, -1, -2) if tall else A).astype(V.dtype)
    E = C @ np.swapaxes(C, -1, -2)
    E /= threshold**2
    # Singular values divided by the threshold, at least 1, and what their squares lack in 1.
    squares = np.diagonal(E, axis1=-2, axis2=-1).copy()
    s, lacking = np.sqrt(np.maximum(squares, 1)), np.maximum(1 - squares, 0)
    diagonal = np.arange(s.shape[-1])
    E[..., diagonal, diagonal] = 0
    E /= s[..., :, None]
    E /= s[..., None, :]
    # s_i s_j F_ij for f(d) = max(0, 1 - 1 / sqrt(d)). Two values below 1 have no gap, so F = 0; the
    # small number is for equal values above 1.
    gap = abs(s[..., :, None] - s[..., None, :]) + np.finfo(V.dtype).eps
    F = s[..., :, None] + s[..., None, :]
    F *= gap
    F += lacking[..., :, None] + lacking[..., None, :]
    np.divide(gap, F, out=F)
    F *= E
    turned = F @ C
    C *= (1 - 1 / s)[..., None]
    C += turned
    Z = V @ C
    # The second-order part is of the size of E (F * E) C, whose norm a few random columns estimate.
    neglected = norm(E @ (turned @ _probes(C.shape[-1]))) / math.sqrt(N_PROBES)
    return np.swapaxes(Z, -1, -2) if tall else Z, neglected


@cache
def _probes(size: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((size, N_PROBES), dtype=np.float32)


@singledispatch
def shrink_labels(problem: BaseProblem, A: Matrix, threshold: float) -> tuple[Matrix, float | None]:
    """`singular_value_threshold` of every label's block of ``A``, (n_block_rows, n_labels).

    The second result is the sum of the trace norms of these blocks, None if the threshold is 0.
    """
    if threshold == 0:
        return A.copy(), None
    Z = np.empty_like(A)

    def work(group: int, z: Matrix, a: Matrix) -> float:
        z[...], _, norms = threshold_and_basis(a, threshold)
        return float(norms.sum())

    return Z, sum(problem.change_labels(work, [Z], [A]))


def _shrink(
    group: int, A: Matrix, threshold: float, bases: Bases | None, accuracy: float
) -> tuple[Matrix, bool]:
    """`singular_value_threshold` of a stack, and whether it is exact."""
    if threshold == 0:
        return A, True
    if bases is None:
        return singular_value_threshold(A, threshold), True
    if accuracy > 0 and group in bases:
        with np.errstate(all="ignore"):  # then the decomposition is used
            Z, neglected = threshold_in_basis(A, bases[group], threshold)
        allowed = accuracy * norm(Z)
        if not neglected <= SOON * allowed:
            del bases[group]
        if neglected <= allowed:
            return Z, False
    Z, vectors, _ = threshold_and_basis(A, threshold)
    bases[group] = vectors.astype(np.float32)
    return Z, True


@singledispatch
def shrink_relaxed(
    problem: BaseProblem,
    B: Matrix,
    Z: Matrix,
    scores: Matrix,
    factors: tuple[float, float, float],
    threshold: float,
    bases: Bases | None = None,
    accuracy: float = 0.0,
) -> tuple[Matrix, Matrix, float, float, bool]:
    """`shrink_labels` of a combination of three arrays, each of shape (n_block_rows, n_labels).

    Blocks go through all steps one after the other, while they are in a cache. ``bases``, which a
    device does not use, are singular vectors of an earlier iteration; they are replaced where they
    have turned by more than ``accuracy``, relative to the norm of the result, allows.

    The results are ``factors[0] * B + factors[1] * Z + factors[2] * scores``, in the place of
    ``B``; its blocks, shrunken, in the place of ``Z`` unless on a device; the norms of
    ``scores - Z`` and of ``Z``; and whether Z is exact.
    """

    def work(group: int, b: Matrix, z: Matrix, s: Matrix) -> tuple[float, float, bool]:
        b *= factors[0]
        z *= factors[1]
        b += z
        np.multiply(s, factors[2], out=z)
        b += z
        z[...], exact = _shrink(group, b, threshold, bases, accuracy)
        rest = s - z
        return inner(rest, rest), inner(z, z), exact

    found = problem.change_labels(work, [B, Z], [scores])
    distance, size = (math.sqrt(sum(squares[i] for squares in found)) for i in range(2))
    return B, Z, distance, size, all(exact for *_, exact in found)


@singledispatch
def sum_trace_norms(problem: BaseProblem, A: Matrix) -> float:
    """Sum of the trace norms of all labels' blocks of ``A``, (n_block_rows, n_labels)."""
    # Summed in the order of the groups, not in the order in which threads finish.
    return float(sum(problem.change_labels(lambda _, blocks: trace_norm(blocks).sum(), [], [A])))
