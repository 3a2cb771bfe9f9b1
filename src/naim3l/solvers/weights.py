"""W-steps: for every label j of every view, the w that solves

(X' diag(P_j) X + ridge I + mu * sum_k X_k'X_k) w = b.
"""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from naim3l._arrays import Matrix, distinct, eigh, namespace_of
from naim3l._threads import free_threads, map_views, one_blas_thread, thread_map
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem

Product = Callable[[Matrix], Matrix]

# A view's sum_k X_k'X_k is inverted only if its condition number is below this.
WORST_CONDITION = 1e8
# Directions with a smaller relative eigenvalue are undetermined and get weight zero.
UNDETERMINED = 1e-12
# Share of the mean eigenvalue that is added to all of them in a preconditioner.
JITTER = 1e-6
# Below this ratio of a matrix to its preconditioner, only rounding error is left.
FLAT = 1e-9
# Products in single precision are accurate enough for steps that may leave this share of the
# residual, if the ridge is at least this share of the rows' mean square per column.
SINGLE_ACCURACY, SINGLE_RIDGE = 1e-3, 1e-4
# Share of the residual that a W-step by conjugate gradients may leave, and its most iterations.
STEP_ACCURACY, MOST_STEPS = 0.03, 200


class WeightStep(Protocol):
    """Solve for all views and labels; ``W`` is the start of an iterative method."""

    ridge: float

    def __call__(self, B: Matrix, mu: float, W: Matrix) -> Matrix: ...


@singledispatch
def make_weight_step(problem: Any, ridge: float, accuracy: float | None = None) -> WeightStep:
    """The W-step for the form of a problem; iterations leave a share ``accuracy`` of residuals."""
    raise TypeError(f"no W-step for {type(problem).__name__}")


class DirectWeightStep:
    """W-step by one diagonalisation, after which each ``mu`` costs two products.

    With ``T`` such that ``T'(X' diag(P_j) X + ridge I) T = diag(alpha)`` and
    ``T' S T = diag(beta)``, the solution is ``T diag(1 / (alpha + mu beta)) T' b``.
    """

    @one_blas_thread
    def __init__(self, problem: StatisticsProblem, ridge: float, accuracy: Any = None) -> None:
        self.slices, self.ridge = problem.weight_slices, ridge
        self.n_threads, self.n_step_threads = problem.n_threads, problem.n_block_threads
        penalised = problem.penalised

        def factor(v: int) -> tuple[Matrix, Matrix, Matrix, NDArray[np.intp]]:
            view = problem.views[v]
            # Labels known in the same rows share one matrix.
            which, inverse = distinct(view.known_grams)
            curvature = view.known_grams[which]
            diagonal = np.arange(len(view.gram))
            curvature[:, diagonal, diagonal] += ridge * penalised[self.slices[v]].T[which]
            return *_diagonalise(curvature, view.positive_gram, self.n_threads), inverse

        self.blocks = map_views(factor, problem.n_views, self.n_threads)

    def __call__(self, B: Matrix, mu: float, W: Matrix) -> Matrix:
        solve = partial(self._solve_view, B, mu)
        return np.concatenate(thread_map(solve, range(len(self.blocks)), self.n_step_threads))

    def _solve_view(self, B: Matrix, mu: float, v: int) -> Matrix:
        T, alpha, beta, inverse = self.blocks[v]
        scale, B_v = 1 / (alpha + mu * beta), B[self.slices[v]]
        if len(T) == 1:
            return T[0] @ (scale[0][:, None] * (T[0].T @ B_v))
        T, scale = (T, scale) if len(T) == len(inverse) else (T[inverse], scale[inverse])
        b = B_v.T[:, None, :]  # one row per label: rows times T is fastest in BLAS
        w = ((b @ T) * scale[:, None, :]) @ np.swapaxes(T, 1, 2)
        return w[:, 0].T


def _diagonalise(C: Matrix, S: Matrix, n_threads: int) -> tuple[Matrix, Matrix, Matrix]:
    """``T`` (n, d, d), ``alpha`` (n, d), ``beta`` (n, d) that diagonalise each C with S."""
    spectrum = np.linalg.eigvalsh(S)
    if spectrum[0] * WORST_CONDITION > spectrum[-1]:
        inverse = linalg.solve_triangular(np.linalg.cholesky(S), np.eye(len(S)), lower=True)
        inverse = inverse.astype(S.dtype)
        alpha, Q = _eigh(inverse @ C @ inverse.T, n_threads)
        return inverse.T @ Q, np.maximum(alpha, 0), np.ones_like(alpha)
    # S is (nearly) singular: scale both by their sum, and leave out what neither determines.
    total, V = _eigh(C + S, n_threads)
    kept = total > UNDETERMINED * total[:, -1:]
    root = V * np.where(kept, 1 / np.sqrt(np.where(kept, total, 1)), 0)[:, None, :]
    beta, Q = _eigh(np.swapaxes(root, 1, 2) @ S @ root, n_threads)
    beta = np.clip(beta, 0, 1)
    return root @ Q, 1 - beta, beta


def _eigh(stack: Matrix, n_threads: int) -> tuple[Matrix, Matrix]:
    """Eigenvalues and eigenvectors of a stack, divided among threads."""
    n_chunks = min(free_threads(n_threads), len(stack))
    if n_chunks == 1:
        return eigh(stack)
    chunks = np.array_split(stack, n_chunks)
    eigenvalues, vectors = zip(*thread_map(eigh, chunks, len(chunks)), strict=True)
    return np.concatenate(eigenvalues), np.concatenate(vectors)


class IterativeWeightStep:
    """W-step by conjugate gradients on the rows, for views with too many columns to factor.

    Views are independent and divided among threads; all labels of a view are solved together. The
    preconditioner replaces the weights of entries in the loss by their mean, so the matrix is the
    same for all labels and is factored once per view and mu. If a view has too many columns, only
    the diagonal is used. The splitting corrects the remaining error of a step, so if a ridge
    determines all directions, products inside of the iterations are in single precision. The
    residual at their start is always exact.
    """

    def __init__(self, problem: Problem, ridge: float, accuracy: float | None = None) -> None:
        self.problem, self.ridge, self.mu = problem, ridge, float("nan")
        self.accuracy = STEP_ACCURACY if accuracy is None else accuracy
        self.counts, self.positives = problem.P, problem.n_positives_of_rows
        self.share = float(self.counts.mean())
        self._single = [self._in_single_precision(v) for v in range(problem.n_views)]

    def _in_single_precision(self, v: int) -> Matrix | None:
        """Rows of a view in float32 if that is accurate enough, and faster."""
        X = self.problem.X[v]
        if sparse.issparse(X) or X.dtype != np.float64 or self.accuracy < SINGLE_ACCURACY:
            return None
        mean_square = float(np.einsum("ij,ij->", X, X)) / X.shape[1]
        return X.astype(np.float32) if self.ridge > SINGLE_RIDGE * mean_square else None

    def __call__(self, B: Matrix, mu: float, W: Matrix) -> Matrix:
        views = range(self.problem.n_views)
        if mu != self.mu:
            self.mu = mu
            _ = self.problem.grams, self.problem.positive_grams  # once, not in every thread
            self.inverses = thread_map(self._precondition, views, self.problem.n_threads)
        solve = partial(self._solve_view, B, W, self.problem.multiply(W))
        return np.concatenate(thread_map(solve, views, self.problem.n_threads))

    def _solve_view(self, B: Matrix, W: Matrix, XW: Matrix, v: int) -> Matrix:
        """Weights of one view, (n_weights_v, n_labels)."""
        X, rows = self.problem.X[v], self.problem.row_slices[v]
        weights = self.problem.weight_slices[v]
        row_weights = self.counts[rows] + self.mu * self.positives[rows]
        penalty = self.ridge * self.problem.penalised[weights].astype(B.dtype)

        R = B[weights] - X.T @ (row_weights * XW[rows]) - penalty * W[weights]
        if (single := self._single[v]) is not None:
            X, row_weights = single, row_weights.astype(np.float32)

        def apply(V: Matrix) -> Matrix:
            XV = X @ V.astype(X.dtype)
            XV *= row_weights
            return X.T @ XV + penalty * V

        start = B[weights], W[weights], R
        return conjugate_gradients(apply, self.inverses[v], *start, self.accuracy)

    def _precondition(self, v: int) -> Product:
        """Approximate inverse of the matrix of all labels of a view."""
        problem, weights = self.problem, self.problem.weight_slices[v]
        gram, positive_gram = problem.grams[v], problem.positive_grams[v]
        penalty = self.ridge * problem.penalised[weights].mean(axis=1, dtype=problem.Y.dtype)
        if gram is None or positive_gram is None:
            row_weights = self.share + self.mu * self.positives[problem.row_slices[v], 0]
            if isinstance(X := problem.X[v], np.ndarray):
                diagonal = np.einsum("ij,ij,i->j", X, X, row_weights) + penalty
            else:
                diagonal = X.multiply(X).T @ row_weights + penalty
            scale = 1 / np.where(diagonal > 0, diagonal, 1)[:, None]
            return lambda R: scale * R
        matrix = self.share * gram + self.mu * positive_gram + np.diag(penalty)
        # Large enough to keep rounding errors small in undetermined directions; the iterations
        # correct its effect on the others.
        share = max(JITTER, 10 * len(matrix) ** 2 * float(np.finfo(matrix.dtype).eps))
        jitter = share * np.trace(matrix) / len(matrix) + np.finfo(matrix.dtype).tiny
        matrix[np.diag_indices_from(matrix)] += jitter
        factor = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        return partial(linalg.cho_solve, factor, check_finite=False)


make_weight_step.register(Problem, IterativeWeightStep)
make_weight_step.register(StatisticsProblem, DirectWeightStep)


def conjugate_gradients(
    apply: Product, precondition: Product, B: Matrix, W: Matrix, R: Matrix, accuracy: float
) -> Matrix:
    """Solutions of ``apply(W) = B``, (..., n, n_labels), column by column.

    Iterations start at ``W``, whose residual is ``R``. A column stops when its residual, in the
    norm of the preconditioner, is ``accuracy`` times the initial one, or rounding error; all
    columns stop after ``MOST_STEPS`` iterations.
    """
    xp = namespace_of(B)

    def of_columns(A: Matrix) -> Matrix:
        return xp.sum(A, axis=-2, keepdims=True)

    D = M = precondition(R)
    rho = of_columns(R * M)
    # The norm of B, which is nearly that of A W.
    rounding = (100 * float(xp.finfo(B.dtype).eps)) ** 2 * abs(of_columns(B * W))
    enough = xp.maximum(rounding, accuracy**2 * rho)
    active = xp.ones_like(rho, dtype=xp.bool)
    for _ in range(MOST_STEPS):
        active &= rho > enough
        if not bool(xp.any(active)):
            break
        AD = apply(D)
        curvature = of_columns(D * AD)
        active &= curvature > FLAT * rho
        step = xp.where(active, rho / xp.where(active, curvature, 1.0), 0.0)
        W = W + step * D
        R = R - step * AD
        M = precondition(R)
        rho, rho_old = of_columns(R * M), rho
        D = M + xp.where(active, rho / xp.where(active, rho_old, 1.0), 0.0) * D
    return W
