"""iMVWL: non-negative points and bases of views, whose points also determine the labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from naim3l._arrays import Mask, Matrix
from naim3l.solvers.nuclear import singular_value_threshold, trace_norm
from naim3l.solvers.shared_space import along_bases, by_pattern

# Added to denominators and curvatures, which can be zero.
TINY = 1e-12
# Sweeps over the coordinates of new points, and the relative change at which they stop.
SWEEPS, SWEEP_TOL = 200, 1e-6


@dataclass(frozen=True)
class WeakFactors:
    """The variables: all but ``S`` are non-negative.

    Attributes
    ----------
    V : ndarray of shape (n_samples, rank)
        Points of the samples.
    U : list of ndarray, each of shape (n_features_v, rank)
        Bases of the views.
    W : ndarray of shape (rank, n_labels)
        Predictor of labels from points.
    S : ndarray of shape (n_labels, n_labels)
        Label correlations.
    """

    V: Matrix
    U: list[Matrix]
    W: Matrix
    S: Matrix


@dataclass(frozen=True)
class WeakLabels:
    """Objective and updates, none of which raises it.

    ``sum_v |X_v - V U_v'|^2 + label_weight |sqrt(P) * (VWS - Y)|^2 + lam |S|_*``, the first sum
    over the rows that have the view.

    Attributes
    ----------
    features : list of ndarray, each of shape (n_samples, n_features_v)
        ``X_v``, not negative, and zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_samples)
    Y, P : ndarray of shape (n_samples, n_labels)
        Labels, 1 or 0, and their weights, 0 where they are unknown.
    label_weight, lam : float
    """

    features: list[Matrix]
    present: Mask
    Y: Matrix
    P: Matrix
    label_weight: float
    lam: float

    def objective(self, at: WeakFactors) -> float:
        """Value at the variables."""
        value = self.label_weight * self.label_loss(at)
        for X_v, has_view, U_v in zip(self.features, self.present, at.U, strict=True):
            value += float(np.square(X_v[has_view] - at.V[has_view] @ U_v.T).sum())
        return value + self.lam * float(trace_norm(at.S))

    def label_loss(self, at: WeakFactors) -> float:
        return float(np.vdot(self.P, np.square(at.V @ (at.W @ at.S) - self.Y)))

    def start(self, rank: int, rng: np.random.RandomState) -> WeakFactors:
        """Uniform factors whose products have the means of features and labels; ``S = I``."""
        n_samples, n_labels = self.Y.shape
        sizes = [X_v.shape[1] for X_v in self.features]
        n_numbers = float(self.present.sum(axis=1) @ sizes)
        of_features = max(sum(float(X_v.sum()) for X_v in self.features) / n_numbers, TINY)
        of_labels = float(np.vdot(self.P, self.Y)) / max(float(self.P.sum()), TINY)
        scale = 2 * np.sqrt(of_features / rank)
        return WeakFactors(
            V=scale * rng.uniform(size=(n_samples, rank)),
            U=[scale * rng.uniform(size=(size, rank)) for size in sizes],
            W=4 * of_labels / (rank * scale) * rng.uniform(size=(rank, n_labels)),
            S=np.eye(n_labels),
        )

    def update_U(self, at: WeakFactors) -> WeakFactors:
        """Multiplicative update of the bases, as in non-negative matrix factorisation."""
        U = []
        for X_v, has_view, U_v in zip(self.features, self.present, at.U, strict=True):
            V_v = at.V[has_view]
            U.append(U_v * (X_v[has_view].T @ V_v) / (U_v @ (V_v.T @ V_v) + TINY))
        return replace(at, U=U)

    def update_V(self, at: WeakFactors) -> WeakFactors:
        """Multiplicative update of the points, as in semi-non-negative matrix factorisation.

        ``G = WS`` has both signs. Its positive and negative parts divide the quadratic form of a
        row into two of non-negative matrices, with which the update is one of a majoriser. With
        the parts of products with ``G`` instead, it can raise the objective.
        """
        G = at.W @ at.S
        plus, minus = np.maximum(G, 0), np.maximum(-G, 0)
        PY, by_plus, by_minus = self.P * self.Y, self.P * (at.V @ plus), self.P * (at.V @ minus)
        up = self.label_weight * ((PY + by_minus) @ plus.T + by_plus @ minus.T)
        down = self.label_weight * ((PY + by_minus) @ minus.T + by_plus @ plus.T)
        up += along_bases(self.features, at.U)
        for has_view, U_v in zip(self.present, at.U, strict=True):
            down[has_view] += at.V[has_view] @ (U_v.T @ U_v)
        return replace(at, V=at.V * np.sqrt(up / (down + TINY)))

    def update_W(self, at: WeakFactors) -> WeakFactors:
        """Projected gradient step of the predictor."""
        gradient = at.V.T @ self._residual(at) @ at.S.T
        curvature = _largest(at.V.T @ at.V) * _largest(at.S.T @ at.S) * self.P.max() + TINY
        return replace(at, W=np.maximum(at.W - gradient / curvature, 0))

    def update_S(self, at: WeakFactors) -> WeakFactors:
        """Proximal gradient step of the label correlations."""
        gradient = at.W.T @ (at.V.T @ self._residual(at))
        curvature = _largest(at.W.T @ (at.V.T @ at.V) @ at.W) * self.P.max() + TINY
        threshold = self.lam / (2 * self.label_weight * curvature)
        return replace(at, S=singular_value_threshold(at.S - gradient / curvature, threshold))

    def _residual(self, at: WeakFactors) -> Matrix:
        """``P * (VWS - Y)``, half the gradient of the label loss in ``VWS``."""
        return self.P * (at.V @ (at.W @ at.S) - self.Y)


def nonnegative_points(basis: Matrix, features: Sequence[Matrix], present: Mask) -> Matrix:
    """Points ``v >= 0`` (n_rows, rank) that minimise ``sum_v |x_v - U_v v|^2``.

    Coordinates are minimised in turn, each for all rows with the same views at once.

    Parameters
    ----------
    basis : ndarray of shape (n_features, rank)
        Not negative.
    features : sequence of ndarray, each of shape (n_rows, n_features_v)
        Zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_rows)
    """
    points = np.zeros((present.shape[1], basis.shape[1]))
    for rows, gram, right in by_pattern(basis, features, present):
        points[rows] = _nonnegative_solutions(gram, right)
    return points


def _nonnegative_solutions(gram: Matrix, right: Matrix) -> Matrix:
    """Rows ``z >= 0`` that minimise ``z' gram z / 2 - right' z``; the sweeps never raise it."""
    used = np.flatnonzero(np.diag(gram) > 0)
    Z = np.zeros_like(right)
    for _ in range(SWEEPS):
        change = 0.0
        for j in used:
            new = np.maximum(Z[:, j] - (Z @ gram[j] - right[:, j]) / gram[j, j], 0)
            change = max(change, float(np.abs(new - Z[:, j]).max()))
            Z[:, j] = new
        if change <= SWEEP_TOL * Z.max():
            break
    return Z


def _largest(gram: Matrix) -> float:
    return float(np.linalg.eigvalsh(gram)[-1])
