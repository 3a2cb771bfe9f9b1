"""The objective of the model, its terms and its sub-gradient."""

from collections.abc import Sequence
from dataclasses import dataclass

from naim3l._arrays import Matrix, inner, namespace_of
from naim3l.problem.base import BaseProblem
from naim3l.solvers.base import Record
from naim3l.solvers.nuclear import inverse_root_of_gram
from naim3l.solvers.thresholding import sum_trace_norms


@dataclass(frozen=True)
class Objective:
    """What a solver minimises over the stacked weights ``W``.

    ::

        F(W) = 1/2 sum P * (XW - Y)^2                       loss
             + lam * sum_k ||X_k W||_*                      low_rank
             - lam * ||XW||_*                               high_rank
             + ridge/2 * ||W without intercepts||^2         ridge

    All singular values above rounding error count. The cut-off that the paper's program applies is
    part of solver "paper".

    Parameters
    ----------
    problem : BaseProblem
        Rows and labels, or statistics of them.
    lam : float
        Weight of the low-rank and high-rank terms.
    low_rank, high_rank : bool
        False leaves the term out.
    ridge : float
        Weight of the squared weights.
    """

    problem: BaseProblem
    lam: float
    low_rank: bool = True
    high_rank: bool = True
    ridge: float = 0.0

    def parts(
        self,
        W: Matrix,
        *,
        fit: Sequence[float] | None = None,
        label_scores: Matrix | None = None,
        label_norms: float | None = None,
        scores_norm: float | None = None,
    ) -> Record:
        """``F(W)`` as "objective", and its terms, which include their factors and signs.

        The loss and the ridge term, ``X_k W`` of all labels, the sum of the trace norms of these,
        and the trace norm of ``XW`` can be given if they are known already; all numbers are those
        of all sites.
        """
        problem, low_rank, high_rank = self.problem, 0.0, 0.0
        if self.low_rank and label_norms is not None:
            low_rank = label_norms
        elif self.low_rank:
            blocks = problem.label_scores(W) if label_scores is None else label_scores
            low_rank = sum_trace_norms(problem, blocks)
        if self.high_rank:
            high_rank = self.high_rank_term(W)[0] if scores_norm is None else scores_norm
        loss, ridge = problem.add_up(*self.fit_terms(W)) if fit is None else fit
        low_rank, high_rank = self.lam * low_rank, 0.0 - self.lam * high_rank  # not -0.0
        terms = {"loss": loss, "low_rank": low_rank, "high_rank": high_rank, "ridge": ridge}
        return {"objective": loss + low_rank + high_rank + ridge, **terms}

    def fit_terms(self, W: Matrix, loss: float | None = None) -> tuple[float, float]:
        """The loss, which can be given, and the ridge term, of the own tables."""
        loss = self.problem.loss_and_gradient(W)[0] if loss is None else loss
        return loss, 0.5 * inner(W, self.ridge_gradient(W)) if self.ridge else 0.0

    def value(self, W: Matrix) -> float:
        """``F(W)``."""
        return self.parts(W)["objective"]

    def high_rank_term(
        self, W: Matrix, cutoff: float | None = None, slack: float = 0.0
    ) -> tuple[float, Matrix]:
        """Trace norm of ``XW``, and ``lam X'G`` with its sub-gradient ``G`` (Algorithm 2), or zero.

        Both follow from ``X'XW``: ``(XW)'XW = W'X'XW``, and ``X'G = X'XW T``. With fewer weights
        than labels, ``R'W`` with ``X'X = RR'`` is decomposed, which has the same singular values
        and fewer rows. ``cutoff`` and ``slack`` are those of `inverse_root_of_gram`.
        """
        if not self.high_rank:
            return 0.0, namespace_of(W).zeros_like(W)
        problem, roots = self.problem, self.problem.gram_roots
        if roots is not None:
            RW = problem.multiply_blocks([R.T for R in roots], W)
            scores_norm, T = inverse_root_of_gram(RW @ RW.T, cutoff=cutoff, slack=slack)
            return scores_norm, self.lam * problem.multiply_blocks(roots, T @ RW)
        XXW = problem.multiply_gram(W)
        K = problem.add_gram(W.T @ XXW)
        scores_norm, T = inverse_root_of_gram(K, cutoff=cutoff, slack=slack)
        return scores_norm, self.lam * (XXW @ T)

    def ridge_gradient(self, W: Matrix) -> Matrix:
        """Gradient of the ridge term, (n_weights, n_labels)."""
        return self.ridge * self.problem.penalised * W

    def stationarity(
        self, gradient: Matrix, multipliers: Matrix, high_rank: Matrix
    ) -> tuple[float, float]:
        """Squares that add up over sites, the root of whose ratio is the stationarity residual.

        That is the norm of the gradient of loss and ridge plus ``sum_k X_k' Lambda_k`` minus
        ``lam X'G``, relative to that of ``X'(P * Y)``. It certifies a stationary point if each
        ``Lambda_k`` is lam times a sub-gradient of the trace norm at ``X_k W``, and G one at
        ``XW``, up to feasibility and the concave gap.
        """
        residual, targets = gradient + multipliers - high_rank, self.problem.targets
        return inner(residual, residual), inner(targets, targets)
