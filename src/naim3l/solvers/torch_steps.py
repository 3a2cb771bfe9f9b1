"""What solver "fast" does on a GPU: thresholding and W-steps by products alone.

A GPU takes hundreds of products in the time of one batch of eigendecompositions, and starting a
small operation takes longer than the operation. Functions of the labels' blocks are therefore
computed from stacks of Gram matrices by products, and the W-step works on all views at once.

The sign and the inverse root of a symmetric matrix are limits of iterations with products only
(Newton-Schulz). Each step is scaled such that eigenvalues from ``low`` to 1 come as close to 1 as a
cubic polynomial can bring them (Chen and Chow, 2014), which multiplies small ones by 2.6 instead of
1.5.
"""

import math
from functools import partial
from typing import Any

from naim3l._arrays import namespace_of, norm
from naim3l.problem.torch_problem import TorchProblem
from naim3l.solvers import weights
from naim3l.solvers.thresholding import shrink_labels, shrink_relaxed, sum_trace_norms
from naim3l.solvers.weights import JITTER, conjugate_gradients, make_weight_step

# Directions whose squared singular value differs from the squared threshold t^2 by less than this
# share of t^2 are neither kept nor removed completely. Thresholding leaves nearly nothing of them
# in any case: an error of at most this share of t.
RESOLVED = 1e-5
# Share of the norm below which singular values may be missing in a trace norm.
LEAST_ROOT = 1e-5
# Convergence is quadratic: one more step has all digits if all eigenvalues are this close to 1.
CLOSE = 1e-8
# Products that find the direction of an eigenvalue far above the others, and the largest relative
# error of the eigenvalue.
LEVEL_STEPS, LEVEL_ERROR = 8, 1e-14
# Largest relative error of an inverse root; beyond it, eigenvalues are computed.
WORST_ROOT = 1e-7
# The preconditioner of a W-step is computed again if mu has changed by more than this factor since.
STALE = 1.5


@shrink_labels.register
def _(problem: TorchProblem, A: Any, threshold: float) -> tuple[Any, float | None]:
    Z = _shrink(problem, A, threshold)
    return Z, sum_trace_norms(problem, A) if threshold else None


@shrink_relaxed.register
def _(
    problem: TorchProblem, B: Any, Z: Any, scores: Any, factors: Any, threshold: float, *_: Any
) -> tuple[Any, Any, float, float, bool]:
    B *= factors[0]
    B += factors[1] * Z
    B += factors[2] * scores
    Z = _shrink(problem, B, threshold)
    return B, Z, norm(scores - Z), norm(Z), True


@sum_trace_norms.register
def _(problem: TorchProblem, A: Any) -> float:
    return problem.sum_grams(trace_norm_of_gram, A)


def _shrink(problem: TorchProblem, A: Any, threshold: float) -> Any:
    shrink = partial(shrink_gram, threshold=threshold)
    return problem.map_grams(shrink, A) if threshold else A.clone()


def shrink_gram(K: Any, threshold: float) -> Any:
    """``T`` such that ``A T`` is the singular value thresholding of ``A``, given ``K = A'A``.

    With the projection ``P = (I + sign(K - t^2 I)) / 2`` on the directions that are kept, the
    matrix ``C = K P + t^2 (I - P)`` has no eigenvalue below ``t^2 > 0``, and T is
    ``P (I - t C^(-1/2))``. ``K`` is (n_matrices, n, n).
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
        eigenvalues, vectors = namespace_of(K).linalg.eigh(K)
        exact = (vectors * _shrinkage(eigenvalues, threshold)[..., None, :]) @ vectors.mT
        T = T.where(good, exact)
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
    """Sign of symmetric matrices of norm up to 1, but for eigenvalues nearer to 0 than ``low``."""
    for rho in _scalings(low):
        M = _next(M, M, M @ M, rho)
    return (M + M.mT) / 2


def inverse_root(C: Any, low: float) -> tuple[Any, Any]:
    """``C^(-1/2)`` of positive definite matrices, and its relative error, (n_matrices, 1, 1).

    ``low`` is a lower bound of the root of the ratio of the smallest eigenvalue to the norm.
    """
    scale = _bound(C)
    Y = C / scale
    Z = _add_identity(Y.new_zeros(Y.shape), 1.0)
    for rho in _scalings(low):
        ZY = Z @ Y
        Y, Z = _next(Y, Y, ZY, rho), _next(Z, ZY, Z, rho)
    error = _bound(_add_identity(Z @ Y, -1.0)) / math.sqrt(C.shape[-1])
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
    """Norm of each matrix, (n_matrices, 1, 1), which no eigenvalue exceeds."""
    return K.square().sum(dim=(-2, -1), keepdim=True).sqrt()


def _add_identity(M: Any, factor: Any) -> Any:
    """``M + factor I``, in place."""
    diagonal = M.diagonal(dim1=-2, dim2=-1)
    diagonal += factor if isinstance(factor, float) else factor[..., 0]
    return M


def _level(K: Any) -> tuple[Any, Any, Any, Any]:
    """Matrices whose largest eigenvalue is lowered to the level of the others.

    Scores of a rare label are nearly -1 in all rows, so that one eigenvalue is a thousand times the
    others, and the iterations would have to resolve these. The other results are its direction
    (n_matrices, n, 1), found by a few products, and its values before and after (n_matrices, 1, 1).
    Where these do not find it, nothing is changed.
    """
    u = K.sum(dim=-1, keepdim=True)
    for _ in range(LEVEL_STEPS):
        u = K @ (u / _bound(u).clamp(min=1e-300))
    u = u / _bound(u).clamp(min=1e-300)
    Ku = K @ u
    largest = u.mT @ Ku
    rest = K.baddbmm(u * -largest, u.mT)
    level = _bound(rest)
    found = (_bound(Ku - largest * u) <= LEVEL_ERROR * largest) & (largest > 2 * level)
    level = level.where(found, largest)
    return K.where(~found, rest + level * (u * u.mT)), u, largest, level


def _shrinkage(square: Any, threshold: float) -> Any:
    """Factor of a singular value, given its square."""
    return (1 - threshold / square.clamp(min=threshold**2).sqrt()).clamp(min=0)


class TorchWeightStep:
    """W-step by conjugate gradients, of all views at once, padded with zeros to one size.

    The preconditioner is that of `naim3l.solvers.weights.IterativeWeightStep`.
    """

    def __init__(self, problem: TorchProblem, ridge: float, accuracy: Any = None) -> None:
        self.ridge, self.mu = ridge, float("nan")
        self.accuracy = weights.STEP_ACCURACY if accuracy is None else accuracy
        heights, self.widths = ([X.shape[axis] for X in problem.X] for axis in (0, 1))
        # (n_views, n_rows, n_weights) of the largest view.
        self.X = problem.Y.new_zeros((len(heights), max(heights), max(self.widths)))
        for padded, X in zip(self.X, problem.X, strict=True):
            padded[: X.shape[0], : X.shape[1]] = X
        self.counts, self.positives = (
            _pad(of_rows, heights) for of_rows in (problem.P, problem.n_positives_of_rows)
        )
        self.penalty = _pad(ridge * problem.penalised, self.widths)
        self.share = float(problem.P.mean())
        self.gram = self.X.mT @ self.X
        self.positive_gram = self.X.mT @ (self.positives * self.X)
        # Padding has a ridge of one, so that its matrix has an inverse.
        ones = problem.Y.new_ones((problem.n_weights, 1))
        self._diagonal = self.penalty.mean(dim=-1) + (_pad(ones, self.widths)[..., 0] == 0)

    def __call__(self, B: Any, mu: float, W: Any) -> Any:
        if not 1 / STALE < mu / self.mu < STALE:
            self.mu, self.inverse = mu, self._precondition(mu)
        row_weights = self.counts + mu * self.positives

        def apply(V: Any) -> Any:
            XV = self.X @ V
            XV *= row_weights
            return (self.penalty * V).baddbmm(self.X.mT, XV)

        start, right = _pad(W, self.widths), _pad(B, self.widths)
        found = conjugate_gradients(
            apply, self.inverse.matmul, right, start, right - apply(start), self.accuracy
        )
        views = zip(found, self.widths, strict=True)
        return namespace_of(found).concat([of_view[:n] for of_view, n in views])

    def _precondition(self, mu: float) -> Any:
        matrix = self.share * self.gram + mu * self.positive_gram
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        diagonal += self._diagonal
        diagonal += JITTER * diagonal.mean(dim=-1, keepdim=True)
        return matrix.inverse()


make_weight_step.register(TorchProblem, TorchWeightStep)


def _pad(A: Any, sizes: list[int]) -> Any:
    """Rows of all views, (n_rows, n), as a stack (n_views, n_rows of the largest, n)."""
    from torch.nn.utils.rnn import pad_sequence

    return pad_sequence(A.split(sizes), batch_first=True)
