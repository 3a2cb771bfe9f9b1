"""Algorithm 1 of the paper, as printed except for the corrected errata."""

import numpy as np

from naim3l._arrays import Matrix, distinct
from naim3l._threads import one_blas_thread
from naim3l.problem.rows import Problem
from naim3l.solvers.base import Callback, SolverResult
from naim3l.solvers.objective import Objective
from naim3l.solvers.thresholding import shrink_labels

DEFAULT_MU = 5.0
# Eigenvalues of (XW)'XW below this count as zero in Algorithm 2, as in the paper's program.
EIGENVALUE_CUTOFF = 0.005
# Number of square matrices of a view's columns that are in memory at the same time.
PAPER_MATRICES = 6
# Scores beyond this multiple of the initial ones mean that Eq. (13) diverges.
DIVERGENCE_FACTOR = 1e8


@one_blas_thread
def solve_paper(
    objective: Objective,
    W: Matrix,
    *,
    mu: float | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    callback: Callback | None = None,
    guarded: bool = False,
    eigenvalue_cutoff: float | None = EIGENVALUE_CUTOFF,
) -> SolverResult:
    """Weights after Algorithm 1 started at ``W``.

    Each iteration takes one step in W (the loss and the high-rank term linearised at the last W),
    one in Z (singular value thresholding, label by label) and one in the multipliers. Without the
    low-rank term, a descent on the loss remains. A ridge term, which the paper does not have,
    enters the W-step exactly and turns the guard on.

    Parameters
    ----------
    objective : Objective
        What to minimise.
    W : ndarray of shape (n_weights, n_labels)
        Start weights.
    mu : float, optional
        Penalty of the constraint ``Z_k = X_k W``; 5 by default. If it is too small, the iterates
        diverge.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop when all entries of W and Z change by less than this; 0 runs all iterations.
    callback : callable, optional
        Called with the record and the weights of each iteration.
    guarded : bool
        Add a proximal term to the W-step in the directions in which the penalty is less than
        twice the curvature of the loss, where the printed algorithm may diverge or never move.
        Always on with a ridge.
    eigenvalue_cutoff : float or None
        Eigenvalues of ``(XW)'XW`` below this count as zero in Algorithm 2; None keeps all
        eigenvalues above rounding error.

    Returns
    -------
    SolverResult
        Its history also has ``surrogate``, the convex majorant of Eq. (11) at the new weights.

    Raises
    ------
    FloatingPointError
        If the iterates grow without bound.

    References
    ----------
    X. Li and S. Chen, "A Concise yet Effective Model for Non-Aligned Incomplete Multi-view
    and Missing Multi-label Learning", IEEE TPAMI 44(10), 2022.
    """
    problem = objective.problem.as_rows()
    mu = DEFAULT_MU if mu is None else mu
    step = _WeightStep(problem, mu, objective.ridge, guarded or objective.ridge > 0)
    threshold = objective.lam / mu if objective.low_rank else 0.0
    XW = problem.multiply(W)
    residual = problem.residual(XW)
    _, high_rank = objective.high_rank_term(W, eigenvalue_cutoff)
    score_limit = DIVERGENCE_FACTOR * (1 + _max_abs(XW))
    Z: Matrix = np.zeros((problem.n_positives, problem.n_labels))
    U = np.zeros_like(Z)  # multipliers divided by mu
    result = SolverResult(W)
    try:
        for n_iter in range(1, max_iter + 1):
            W_old, Z_old = W, Z
            # Eq. (13): terms are summed over labels first, so X' is applied only once.
            R = mu * problem.scatter(Z - U) - residual
            W = step(problem.multiply_transposed(R) + high_rank, W)
            linearised = float(np.vdot(high_rank, W))  # stands for lam ||XW||_* in Eq. (11)
            XW = problem.multiply(W)
            if not _max_abs(XW) <= score_limit:
                raise FloatingPointError(
                    f"solver 'paper' diverged at iteration {n_iter} with mu={mu:g}: its weight "
                    "step linearises the loss and needs a larger penalty. Try "
                    f"mu={max(5.0, 10 * mu):g}, or solver='fast'."
                )
            XW_k = XW[problem.positive_rows]
            U += XW_k
            Z, _ = shrink_labels(problem, U, threshold)  # Eq. (15)
            U -= Z  # Eq. (16)

            residual = problem.residual(XW)
            norm, high_rank = objective.high_rank_term(W, eigenvalue_cutoff)
            change = max(_max_abs(W - W_old), _max_abs(Z - Z_old))
            dual = np.linalg.norm(problem.label_scores_transposed(Z - Z_old))
            fit = objective.fit_terms(W, 0.5 * float(np.vdot(residual, residual)))
            parts = objective.parts(W, fit=fit, label_scores=XW_k, scores_norm=norm)
            XW_k -= Z
            record = parts | {
                "surrogate": parts["objective"] - parts["high_rank"] - linearised,
                "change": change,
                "primal_residual": float(np.linalg.norm(XW_k)),
                "dual_residual": float(mu * dual),
            }
            result.W, result.converged = W, change < tol
            result.history.append(record)
            if callback is not None:
                callback(record, W)
            if result.converged:
                break
    except KeyboardInterrupt:
        result.interrupted = True
    return result


class _WeightStep:
    """Solver of ``(mu * sum_k X_k'X_k + Q + ridge I) W = B + Q W_old``, factored once.

    ``Q`` is zero unless guarded. In one dimension, with curvature h and penalty m, the linearised
    iteration is stable for every threshold if ``Q > h/2 - m/4``; twice that, so the positive part
    of ``X'X - mu/2 * sum_k X_k'X_k``, keeps clear of the edge. Directions whose eigenvalue is
    rounding error are left out, which gives the least-norm solution.
    """

    def __init__(self, problem: Problem, mu: float, ridge: float, guarded: bool) -> None:
        self.blocks = []
        for v, weights in enumerate(problem.weight_slices):
            problem.check_memory(v, PAPER_MATRICES * 8 * (weights.stop - weights.start) ** 2)
            gram = problem.positive_gram(v)
            Q = _positive_part(problem.labelled_gram(v) - mu / 2 * gram) if guarded else None
            # Labels whose intercept the ridge applies to have a matrix of their own.
            which, inverse = distinct(problem.penalised[weights].T)
            for group, k in enumerate(which):
                penalty = ridge * problem.penalised[weights, k].astype(float)
                left = mu * gram + np.diag(penalty)
                eigenvalues, vectors = np.linalg.eigh(left if Q is None else left + Q)
                rounding = np.finfo(np.float64).eps * len(left) * max(eigenvalues[-1], 0.0)
                kept = eigenvalues > rounding
                vectors = vectors[:, kept]
                labels = np.flatnonzero(inverse == group)
                at = np.ix_(np.arange(weights.start, weights.stop), labels)
                self.blocks.append((at, vectors, vectors / eigenvalues[kept], Q))

    def __call__(self, B: Matrix, W_old: Matrix) -> Matrix:
        W = np.empty_like(W_old)
        for at, vectors, scaled, Q in self.blocks:
            right = B[at] if Q is None else B[at] + Q @ W_old[at]
            W[at] = scaled @ (vectors.T @ right)
        return W


def _positive_part(A: Matrix) -> Matrix | None:
    """Projection of a symmetric matrix onto the positive semi-definite ones; None if zero."""
    eigenvalues, vectors = np.linalg.eigh(A)
    kept = eigenvalues > 0
    return (vectors[:, kept] * eigenvalues[kept]) @ vectors[:, kept].T if kept.any() else None


def _max_abs(A: Matrix) -> float:
    return float(max(A.max(initial=0), -A.min(initial=0)))  # does not allocate |A|
