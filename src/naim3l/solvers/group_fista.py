"""Accelerated proximal gradients for losses with groups of weights, all labels at once."""

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l.problem.patterns import PatternTasks
from naim3l.solvers.result import Record

# Rounding errors of the loss, relative to it, that are no reason for a smaller step.
ROUNDING = 1e-12


class GroupFista:
    """Accelerated proximal gradient of all labels at once, each with its own step and momentum.

    A step that would raise the objective of a label is taken again without momentum, so that the
    objective never rises. A label whose objective no longer falls is left alone.

    Attributes
    ----------
    W : ndarray of shape (n_weights, n_labels)
        Weights after the last step.
    """

    def __init__(self, tasks: PatternTasks, penalties: Matrix, tol: float):
        self.tasks, self.penalties, self.tol = tasks, penalties, tol
        self.W = self.W_old = tasks.start
        self.objectives = self._objectives(self.W, tasks.losses(self.W), penalties)
        self.curvatures = tasks.first_curvatures()
        self.momentum = np.ones(len(penalties))
        self.left = np.arange(len(penalties))

    def step(self) -> Record:
        """One step of every label that has not converged."""
        at = self.left
        W, before, momentum = self.W[:, at], self.objectives[at], self.momentum[at]
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        new, after = self._step_from(W + (momentum - 1) / grown * (W - self.W_old[:, at]), at)
        if (rose := np.flatnonzero(after > before)).size:
            new[:, rose], after[rose] = self._step_from(W[:, rose], at[rose])
            grown[rose] = 1
            rounding = np.flatnonzero(after > before)
            new[:, rounding], after[rounding] = W[:, rounding], before[rounding]
        self.W_old, self.W = self.W, _with_columns(self.W, at, new)
        self.objectives[at], self.momentum[at] = after, grown
        self.left = at[before - after > self.tol * np.abs(before)]
        return {"objective": float(self.objectives.sum()), "labels": len(at)}

    def _step_from(self, S: Matrix, labels: NDArray) -> tuple[Matrix, Matrix]:
        """Weights after a gradient step and the prox, and their objectives.

        The step of a label is shortened until a quadratic function of its length bounds the loss.
        """
        tasks = self.tasks
        losses, gradient = tasks.losses(S, labels), tasks.gradient(S, labels)
        new, new_losses, todo = np.empty_like(S), np.empty_like(losses), np.arange(len(labels))
        while len(todo):
            curvatures = self.curvatures[labels[todo]]
            V = S[:, todo] - gradient[:, todo] / curvatures
            V = tasks.prox(V, self.penalties[labels[todo]] / curvatures)
            moved = V - S[:, todo]
            bound = losses[todo] + np.einsum(
                "ij,ij->j", moved, gradient[:, todo] + curvatures / 2 * moved
            )
            new[:, todo], new_losses[todo] = V, tasks.losses(V, labels[todo])
            todo = todo[new_losses[todo] > bound + ROUNDING * losses[todo]]
            self.curvatures[labels[todo]] *= 2
        return new, self._objectives(new, new_losses, self.penalties[labels])

    def _objectives(self, W: Matrix, losses: Matrix, penalties: Matrix) -> Matrix:
        return losses + penalties * self.tasks.norms(W).sum(axis=0)


def _with_columns(A: Matrix, columns: NDArray, values: Matrix) -> Matrix:
    """A copy of ``A`` with other values in some columns."""
    A = A.copy()
    A[:, columns] = values
    return A
