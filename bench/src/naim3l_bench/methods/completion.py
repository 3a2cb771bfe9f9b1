"""The two stages of lrMMC: a low-rank representation of all views, and completion of labels."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from naim3l.extend import singular_value_threshold, trace_norm
from naim3l_bench.arrays import Mask, Matrix


@dataclass(frozen=True)
class CommonRepresentation:
    """First stage: views as products of a matrix of low rank and a map to each view.

    ``lam/sqrt(n) |B|_* + 1/n sum_v |X_v - B T_v|^2 + ridge |T|^2``, with the sum over the rows that
    have the view, of n samples.

    Attributes
    ----------
    features : list of ndarray, each of shape (n_samples, n_features_v)
        ``X_v``, zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_samples)
    lam, ridge : float
    """

    features: list[Matrix]
    present: Mask
    lam: float
    ridge: float

    def objective(self, B: Matrix, T: list[Matrix]) -> float:
        """Value at ``B`` (n_samples, rank) and ``T_v`` (rank, n_features_v) of all views."""
        loss, _ = self.loss_and_gradient(B, T)
        penalty = sum(float(np.vdot(T_v, T_v)) for T_v in T)
        return self.trace_weight * float(trace_norm(B)) + loss + self.ridge * penalty

    @property
    def trace_weight(self) -> float:
        """Factor of the trace norm, which grows like the root of the number of samples."""
        return self.lam / np.sqrt(self.present.shape[1])

    def loss_and_gradient(self, B: Matrix, T: list[Matrix]) -> tuple[float, Matrix]:
        """The squared residuals of present rows over n, and their gradient in ``B``."""
        n_samples, loss, gradient = len(B), 0.0, np.zeros_like(B)
        for X_v, has_view, T_v in zip(self.features, self.present, T, strict=True):
            residual = (B @ T_v - X_v) * has_view[:, None]
            loss += float(np.vdot(residual, residual)) / n_samples
            gradient += (2 / n_samples) * (residual @ T_v.T)
        return loss, gradient

    def solve_T(self, B: Matrix) -> list[Matrix]:
        """The minimiser over ``T`` for fixed ``B``."""
        ridge = self.ridge * len(B) * np.eye(B.shape[1])
        T = []
        for X_v, has_view in zip(self.features, self.present, strict=True):
            B_v = B[has_view]
            T.append(np.linalg.solve(B_v.T @ B_v + ridge, B_v.T @ X_v[has_view]))
        return T

    def shrink_B(self, B: Matrix, T: list[Matrix], n_steps: int) -> Matrix:
        """``B`` after proximal gradient steps for fixed ``T``; none raises the objective."""
        curvature = 2 / len(B) * np.linalg.eigvalsh(sum(T_v @ T_v.T for T_v in T))[-1]
        if curvature <= 0:
            return np.zeros_like(B)
        for _ in range(n_steps):
            _, gradient = self.loss_and_gradient(B, T)
            B = singular_value_threshold(B - gradient / curvature, self.trace_weight / curvature)
        return B


@dataclass(frozen=True)
class LabelCompletion:
    """Second stage, MC-1: a low-rank matrix close to labels, representation and a column of ones.

    ``lam |Z|_* + 1/(2 n_x) |Z_B - B|^2 + label_weight/n_y sum P log(1 + exp(-Y Z_Y))`` over
    ``Z = [Z_Y, Z_B, 1]``, with n_x numbers in ``B`` and n_y known labels.

    Attributes
    ----------
    Y, P : ndarray of shape (n_samples, n_labels)
        Signed labels, 0 where unknown, and their weights.
    B : ndarray of shape (n_samples, rank)
    label_weight : float
    """

    Y: Matrix
    P: Matrix
    B: Matrix
    label_weight: float

    def start(self) -> tuple[Matrix, float]:
        """``[Y, B, 1]``, (n_samples, n_labels + rank + 1), in rank 1, and its singular value."""
        Z = np.hstack([self.Y, self.B, np.ones((len(self.B), 1))])
        squares, vectors = np.linalg.eigh(Z.T @ Z)
        nearest = np.outer(Z @ vectors[:, -1], vectors[:, -1])
        nearest[:, -1] = 1
        return nearest, float(np.sqrt(squares[-1]))

    @property
    def step(self) -> float:
        """Step length at which the loss is majorised."""
        of_labels = 3.8 * self._n_known / (self.label_weight * max(self.P.max(), 1e-300))
        return float(min(of_labels, self.B.size))

    @property
    def _n_known(self) -> int:
        return max(int(np.count_nonzero(self.Y)), 1)

    def loss_and_gradient(self, Z: Matrix) -> tuple[float, Matrix]:
        """The objective without its first term, and its gradient in ``Z``."""
        c = self.Y.shape[1]
        margin = self.Y * Z[:, :c]
        residual = Z[:, c:-1] - self.B
        by_label = self.label_weight / self._n_known * self.P
        loss = float(np.vdot(by_label, np.logaddexp(0, -margin)))
        loss += float(np.vdot(residual, residual)) / (2 * self.B.size)
        of_ones = np.zeros((len(Z), 1))
        gradient = [-by_label * self.Y * expit(-margin), residual / self.B.size, of_ones]
        return loss, np.hstack(gradient)

    def objective(self, Z: Matrix, lam: float) -> float:
        return lam * float(trace_norm(Z)) + self.loss_and_gradient(Z)[0]

    def shrink(self, Z: Matrix, lam: float) -> Matrix:
        """A proximal gradient step, after which the last column is set to 1 again."""
        _, gradient = self.loss_and_gradient(Z)
        Z = singular_value_threshold(Z - self.step * gradient, self.step * lam)
        Z[:, -1] = 1
        return Z
