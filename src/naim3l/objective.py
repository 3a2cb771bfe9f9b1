"""The objective of the model, its parts and its sub-gradient."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from naim3l.nuclear import trace_norm, trace_norm_subgradient
from naim3l.problem import Problem

Matrix = NDArray[np.floating]


@dataclass(frozen=True)
class ObjectiveParts:
    """Terms of the objective with their factors and signs, so that they add up to it."""

    loss: float
    low_rank: float
    high_rank: float
    ridge: float

    @property
    def total(self) -> float:
        return self.loss + self.low_rank + self.high_rank + self.ridge

    def as_record(self) -> dict[str, float]:
        """Plain dict with the total under ``"objective"``."""
        return {"objective": self.total, **asdict(self)}


@dataclass(frozen=True)
class Objective:
    """What a solver minimises over the stacked weights ``W``.

    ::

        F(W) = 1/2 ||P * (XW - Y)||^2                       loss
             + lam * sum_k ||X_k W||_*                      low_rank
             - lam * ||XW||_*                               high_rank
             + ridge/2 * ||W without intercepts||^2         ridge

    Singular values are counted down to rounding error; the cut-off that the paper's program
    applies belongs to the solver that follows it.

    Parameters
    ----------
    problem : Problem
    lam : float
    low_rank, high_rank : bool
        Leave a term out by False.
    ridge : float
    """

    problem: Problem
    lam: float
    low_rank: bool = True
    high_rank: bool = True
    ridge: float = 0.0

    def parts(
        self,
        W: Matrix,
        XW: Matrix | None = None,
        *,
        residual: Matrix | None = None,
        XW_norm: float | None = None,
    ) -> ObjectiveParts:
        """Terms of ``F(W)``; pass ``XW``, its residual and its trace norm if they are known."""
        problem = self.problem
        if XW is None:
            XW = problem.multiply(W)
        if residual is None:
            residual = problem.residual(XW)
        low_rank = high_rank = 0.0
        if self.low_rank:
            low_rank = problem.sum_labels(trace_norm, problem.gather(XW))
        if self.high_rank:
            high_rank = float(trace_norm(XW)) if XW_norm is None else XW_norm
        return ObjectiveParts(
            loss=0.5 * float(np.vdot(residual, residual)),
            low_rank=self.lam * low_rank,
            high_rank=0.0 - self.lam * high_rank,  # not -0.0
            ridge=float(0.5 * self.ridge * np.sum(W[problem.penalised] ** 2)),
        )

    def value(self, W: Matrix) -> float:
        """``F(W)``."""
        return self.parts(W).total

    def subgradient(self, W: Matrix) -> Matrix:
        """Gradient of ``F`` where it has one, of shape (n_weights, n_labels).

        At a rank-deficient ``X_k W`` the trace norm has many sub-gradients; this takes ``UV'``.
        """
        problem = self.problem
        XW = problem.multiply(W)
        R = problem.residual(XW)
        if self.low_rank:
            U = problem.map_labels(trace_norm_subgradient, problem.gather(XW))
            R = R + self.lam * problem.scatter(U)
        if self.high_rank:
            R = R - self.lam * trace_norm_subgradient(XW)
        return problem.multiply_transposed(R) + self.ridge * problem.penalised[:, None] * W
