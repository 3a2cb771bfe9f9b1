"""The W-step on a GPU: conjugate gradients for all views at once.

A GPU spends more time on starting an operation than on the operation itself if it is one of a
single view. Views are therefore padded with zeros to one size and handled as a stack.
"""

from typing import Any

import numpy as np

from naim3l.problem.blocks import consecutive_slices
from naim3l.problem.on_device import DeviceProblem, with_zeros
from naim3l.solvers.weights import JITTER, STEP_ACCURACY, conjugate_gradients

# The preconditioner is computed again if mu has changed by more than this factor since.
STALE = 1.5


class DeviceWeightStep:
    """W-step by conjugate gradients on the rows of all views, on a device.

    The preconditioner is that of `naim3l.solvers.weights.IterativeWeightStep`.

    Parameters
    ----------
    problem : DeviceProblem
    ridge : float
    accuracy : float
        Share of its initial residual that a call may leave.
    """

    def __init__(
        self, problem: DeviceProblem, ridge: float, accuracy: float = STEP_ACCURACY
    ) -> None:
        self.ridge, self.accuracy = ridge, accuracy
        heights = [X.shape[0] for X in problem.X]
        widths = [X.shape[1] for X in problem.X]
        self._columns = _Padding(problem, widths)
        rows = _Padding(problem, heights)
        # (n_views, n_rows, n_weights) of the largest view.
        empty = problem.Y.new_zeros
        self.X = empty((len(heights), max(heights), max(widths)))
        for padded, X in zip(self.X, problem.X, strict=True):
            padded[: X.shape[0], : X.shape[1]] = X
        self.counts, self.positives = rows.pad(problem.P), rows.pad(problem.n_positives_of_rows)
        self.penalty = self._columns.pad(ridge * problem.penalised)
        self.share = float(problem.P.mean())
        self.gram = self.X.mT @ self.X
        self.positive_gram = self.X.mT @ (self.positives * self.X)
        # Padding has a ridge of one, so that its matrix has an inverse.
        ones = problem.Y.new_ones((problem.n_weights, 1))
        self._diagonal = self.penalty.mean(dim=-1) + (self._columns.pad(ones)[..., 0] == 0)
        self.mu, self.inverse = float("nan"), empty(())

    def __call__(self, B: Any, mu: float, W: Any) -> Any:
        if not 1 / STALE < mu / self.mu < STALE:
            self.mu, self.inverse = mu, self._precondition(mu)
        row_weights = self.counts + mu * self.positives

        def apply(V: Any) -> Any:
            XV = self.X @ V
            XV *= row_weights
            return (self.penalty * V).baddbmm(self.X.mT, XV)

        start, right = self._columns.pad(W), self._columns.pad(B)
        found = conjugate_gradients(
            apply, lambda R: self.inverse @ R, right, start, right - apply(start), self.accuracy
        )
        return self._columns.unpad(found)

    def _precondition(self, mu: float) -> Any:
        matrix = self.share * self.gram + mu * self.positive_gram
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        diagonal += self._diagonal
        diagonal += JITTER * diagonal.mean(dim=-1, keepdim=True)
        return matrix.inverse()


class _Padding:
    """Rows of all views as a stack of one height, and back."""

    def __init__(self, problem: DeviceProblem, sizes: list[int]) -> None:
        index = np.full((len(sizes), max(sizes)), sum(sizes))
        for row, at in zip(index, consecutive_slices(sizes), strict=True):
            row[: at.stop - at.start] = np.arange(at.start, at.stop)
        self._index = problem.asarray(index)
        self._inside = problem.asarray(np.flatnonzero(index < sum(sizes)))

    def pad(self, A: Any) -> Any:
        """(n_rows of all views, n) -> (n_views, n_rows of the largest, n)."""
        return with_zeros(A)[self._index]

    def unpad(self, padded: Any) -> Any:
        return padded.flatten(0, 1)[self._inside]
