"""Accelerated proximal gradients for losses with groups of weights, all labels at once."""

import numpy as np
from numpy.typing import NDArray

from naim3l_bench.arrays import Matrix
from naim3l_bench.methods.alternation import Record
from naim3l_bench.methods.patterns import PatternTasks

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
        """Weights after a gradient step and the prox, and their objectives."""
        losses, gradient = self.tasks.losses(S, labels), self.tasks.gradient(S, labels)
        W, losses = self._search(S, losses, gradient, labels)
        return W, self._objectives(W, losses, self.penalties[labels])

    def _search(
        self, S: Matrix, losses: Matrix, gradient: Matrix, labels: NDArray
    ) -> tuple[Matrix, Matrix]:
        """Weights after the step, and their losses.

        The step of a label is halved until a quadratic function of it bounds the loss.
        """
        curvatures = self.curvatures[labels]
        W = self.tasks.prox(S - gradient / curvatures, self.penalties[labels] / curvatures)
        moved = W - S
        bounds = losses + np.einsum("ij,ij->j", moved, gradient + curvatures / 2 * moved)
        new_losses = self.tasks.losses(W, labels)
        beyond = np.flatnonzero(new_losses > bounds + ROUNDING * losses)
        if beyond.size:
            self.curvatures[labels[beyond]] *= 2
            W[:, beyond], new_losses[beyond] = self._search(
                S[:, beyond], losses[beyond], gradient[:, beyond], labels[beyond]
            )
        return W, new_losses

    def _objectives(self, W: Matrix, losses: Matrix, penalties: Matrix) -> Matrix:
        return losses + penalties * self.tasks.norms(W).sum(axis=0)


def _with_columns(A: Matrix, columns: NDArray, values: Matrix) -> Matrix:
    """A copy of ``A`` with other values in some columns."""
    A = A.copy()
    A[:, columns] = values
    return A
