"""iMVWL: labels from non-negative points of incomplete views, for aligned rows."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from naim3l.extend import (
    AlignedModel,
    AlignedRows,
    Learned,
    singular_value_threshold,
    trace_norm,
)
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, ITERATIONS
from naim3l_bench.methods.shared_space import along_bases, by_pattern, rescale


@dataclass(eq=False, repr=False)
class IMVWL(AlignedModel):
    """Non-negative points of incomplete views that determine correlated labels, for aligned rows.

    Each sample has a point ``v >= 0`` in a space of few dimensions, from which every view is
    linear, and so are the labels, 1 or 0, after they are mixed by correlations S of low rank. With
    ``V, U, W >= 0`` the fit minimises ::

        sum_v |X_v - V U_v'|^2 + label_weight |sqrt(P) * (VWS - Y)|^2 + lam |S|_*

    over the rows that have the view, and the labels that are known. ``U`` and ``V`` have
    multiplicative updates, ``W`` projected and ``S`` proximal gradient steps; none of them raises
    the objective. Features are mapped to [0, 1], by the least and the largest value of training
    rows. Complete views and complete labels are special cases.

    Objective and updates are reconstructed from descriptions of the paper, where ``label_weight``
    is alpha and ``lam`` is beta; it does not fix the scales of W and S, so that ``lam`` has little
    effect on a long fit. The paper only labels its own rows. Scores of new rows are ours:
    ``2 VWS - 1``, so that 1/2 becomes 0, with the points of their views, which minimise ::

        sum_v |x_v - U_v v|^2 + noise v' M^-1 v    over v >= 0

    where ``M`` has the second moments of the training points, ``V'V / n``, and ``noise`` is the
    variance of the features about ``V U_v'``, per degree of freedom. It is the most probable point
    if points are normally distributed as those of the training rows. Without this penalty, points
    of rows with few features are large along directions with little evidence, the more so
    the longer the fit.

    Parameters
    ----------
    label_weight : float, default=0.05
        Weight of the labels; greater than 0. With larger values the points fit training labels
        rather than views, and new rows, of which only views are known, are scored worse.
    lam : float, default=0.1
        Weight of the trace norm of the label correlations; greater than 0.
    rank : int, default=50
        Number of dimensions of the common space; at most that of the features is used.
    max_iter : int, default=1000
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=3e-3
        Relative decrease of the objective at which to stop; 0 runs all iterations. The objective
        falls slowly for long. Scores of new rows gain little from that, and with a large
        ``label_weight`` they become worse: the points of training rows then fit their labels, which
        new rows do not have.
    views, features, positive_weight, decide
        As in :class:`naim3l.estimators.FusedRidge`.
    random_state : int, RandomState or None, default=None
        Determines the start, and the folds of held-out entries.

    Attributes
    ----------
    basis_ : ndarray of shape (n_features, rank)
        ``U`` of all views, in the order of ``views_``.
    predictor_ : ndarray of shape (rank, n_labels)
        ``W``.
    correlations_ : ndarray of shape (n_labels, n_labels)
        ``S``.
    penalty_ : ndarray of shape (rank, rank)
        ``noise M^-1``, the penalty of the points of new rows.
    centre_, scale_ : ndarray of shape (n_features,)
        Least values of the features, and the differences from the largest.

    References
    ----------
    Q. Tan, G. Yu, C. Domeniconi, J. Wang and Z. Zhang, "Incomplete Multi-View Weak-Label
    Learning", IJCAI 2018.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "label_weight": [FACTOR],
        "lam": [FACTOR],
        "rank": [COUNT],
    }
    _advice = "Raise tol: scores of new rows gain little from more iterations."
    _shapes: ClassVar[dict[str, str]] = {
        "basis": "dr",
        "predictor": "rc",
        "correlations": "cc",
        "penalty": "rr",
        "centre": "d",
        "scale": "d",
    }

    label_weight: float = 0.05
    _: KW_ONLY
    lam: float = 0.1
    rank: int = 50
    max_iter: int = 1000
    tol: float = 3e-3

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        centre, scale = _to_unit_interval(rows)
        X = rescale(rows.features, rows.present, centre, scale)
        Y = (rows.Y > 0).astype(float)
        objective = WeakLabels(X, rows.present, Y, rows.P, self.label_weight, self.lam)
        at = objective.start(min(self.rank, sum(rows.widths)), rng)

        def update() -> Record:
            nonlocal at
            at, value = objective.step(at)
            return {"objective": value}

        learned = alternate(update, self.max_iter, self.tol)
        learned.arrays = {
            "basis": np.vstack(at.U),
            "predictor": at.W,
            "correlations": at.S,
            "penalty": objective.point_penalty(at),
            "centre": centre,
            "scale": scale,
        }
        return learned

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        X = rescale(features, present, arrays["centre"], arrays["scale"])
        X = [X_v.clip(0, 1) for X_v in X]  # as in training rows
        V = nonnegative_points(arrays["basis"], X, present, arrays["penalty"])
        return 2 * V @ (arrays["predictor"] @ arrays["correlations"]) - 1


def _to_unit_interval(rows: AlignedRows) -> tuple[Matrix, Matrix]:
    """Least values of all features, and their ranges; 1 for a constant."""
    shown = [X_v[has_view] for X_v, has_view in zip(rows.features, rows.present, strict=True)]
    least = np.concatenate([X_v.min(axis=0) for X_v in shown])
    width = np.concatenate([np.ptp(X_v, axis=0) for X_v in shown])
    return least, np.where(width > 0, width, 1)


# Added to denominators and curvatures, which can be zero.
TINY = 1e-12
# Least factor of a coordinate of a point in an update: zero would be final.
LEAST_FACTOR = 0.1
# Updates of the bases for each of the points: they cost little once the products are known.
BASIS_UPDATES = 5
# Sweeps over the coordinates of new points, and the relative change at which they stop.
SWEEPS, SWEEP_TOL = 200, 1e-5
# Least size of the points along a coordinate, relative to the largest.
SMALLEST = 1e-100
# Added to correlations of the coordinates of points, so that they have an inverse.
JITTER = 1e-6


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


# X_v'V (n_features_v, rank) and V'V (rank, rank) of each view.
Products = list[tuple[Matrix, Matrix]]


@dataclass(frozen=True)
class WeakLabels:
    """The objective of `IMVWL`, and updates of its variables, none of which raises it.

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
        return self.feature_loss(at, self.products(at.V)) + self._of_labels(at)

    def feature_loss(self, at: WeakFactors, products: Products) -> float:
        """``sum_v |X_v - V U_v'|^2`` from the products of the points."""
        loss = self._squares
        for (XV, VV), U_v in zip(products, at.U, strict=True):
            loss += float(np.vdot(VV, U_v.T @ U_v) - 2 * np.vdot(XV, U_v))
        return max(loss, 0.0)

    def label_loss(self, at: WeakFactors) -> float:
        return float(np.vdot(self.P, np.square(at.V @ (at.W @ at.S) - self.Y)))

    def _of_labels(self, at: WeakFactors) -> float:
        return self.label_weight * self.label_loss(at) + self.lam * float(trace_norm(at.S))

    def products(self, V: Matrix) -> Products:
        """``X_v'V`` and ``V'V`` of the rows of each view, from which its basis is updated."""
        return [
            (X_v.T @ V, V[has_view].T @ V[has_view])
            for X_v, has_view in zip(self.features, self.present, strict=True)
        ]

    @cached_property
    def _n_numbers(self) -> float:
        """Number of features of all rows, in the views that they have."""
        return float(self.present.sum(axis=1) @ [X_v.shape[1] for X_v in self.features])

    @cached_property
    def _squares(self) -> float:
        return sum(float(np.vdot(X_v, X_v)) for X_v in self.features)

    def step(self, at: WeakFactors) -> tuple[WeakFactors, float]:
        """All variables updated once, and the objective there."""
        at = self.update_V(at)
        products = self.products(at.V)
        for _ in range(BASIS_UPDATES):
            at = self.update_U(at, products)
        at = self.update_S(self.update_W(at))
        return at, self.feature_loss(at, products) + self._of_labels(at)

    def start(self, rank: int, rng: np.random.RandomState) -> WeakFactors:
        """Uniform factors whose products have the means of features and labels; ``S = I``."""
        n_samples, n_labels = self.Y.shape
        sizes = [X_v.shape[1] for X_v in self.features]
        total = sum(float(X_v.sum()) for X_v in self.features)
        of_features = max(total / self._n_numbers, TINY)
        of_labels = float(np.vdot(self.P, self.Y)) / max(float(self.P.sum()), TINY)
        scale = 2 * np.sqrt(of_features / rank)
        return WeakFactors(
            V=scale * rng.uniform(size=(n_samples, rank)),
            U=[scale * rng.uniform(size=(size, rank)) for size in sizes],
            W=4 * of_labels / (rank * scale) * rng.uniform(size=(rank, n_labels)),
            S=np.eye(n_labels),
        )

    def update_U(self, at: WeakFactors, products: Products) -> WeakFactors:
        """Multiplicative update of the bases, as in non-negative matrix factorisation."""
        parts = zip(products, at.U, strict=True)
        return replace(at, U=[U_v * XV / (U_v @ VV + TINY) for (XV, VV), U_v in parts])

    def update_V(self, at: WeakFactors) -> WeakFactors:
        """Multiplicative update of the points.

        The objective of a row is quadratic, with a matrix A of both signs since ``G = WS`` has
        both. For every ``v > 0`` the diagonal matrix of ``|A| v / v`` is an upper bound of A, and
        the update minimises the majoriser that has it, or stops before where a factor would be too
        small. Without negative entries it is that of non-negative matrix factorisation.
        """
        G = at.W @ at.S
        size = np.abs(G)
        gradient = self.label_weight * (self._residual(at) @ G.T)
        bound = self.label_weight * ((self.P * (at.V @ size)) @ size.T)
        for has_view, U_v in zip(self.present, at.U, strict=True):
            of_view = (at.V @ (U_v.T @ U_v)) * has_view[:, None]
            gradient += of_view
            bound += of_view
        gradient -= along_bases(self.features, at.U)
        return replace(at, V=at.V * np.maximum(1 - gradient / (bound + TINY), LEAST_FACTOR))

    def update_W(self, at: WeakFactors) -> WeakFactors:
        """Projected gradient step of the predictor."""
        gradient = at.V.T @ self._residual(at) @ at.S.T
        curvature = _squared_norm(at.V) * _squared_norm(at.S) * self.P.max() + TINY
        return replace(at, W=np.maximum(at.W - gradient / curvature, 0))

    def update_S(self, at: WeakFactors) -> WeakFactors:
        """Proximal gradient step of the label correlations."""
        gradient = at.W.T @ (at.V.T @ self._residual(at))
        eigenvalues, Q = np.linalg.eigh(at.V.T @ at.V)
        root = np.sqrt(np.maximum(eigenvalues, 0)) * Q  # VW and root'W have the same norm
        curvature = _squared_norm(root.T @ at.W) * self.P.max() + TINY
        threshold = self.lam / (2 * self.label_weight * curvature)
        return replace(at, S=singular_value_threshold(at.S - gradient / curvature, threshold))

    def point_penalty(self, at: WeakFactors) -> Matrix:
        """Penalty (rank, rank) of points of which only views are known: ``noise M^-1``.

        ``M = V'V / n`` has the second moments of the training points. With points of a normal
        distribution that has these moments, and features that differ from ``U_v v`` by noise, the
        most probable point has this penalty. It has the same effect in all units of the points.
        """
        scale = np.sqrt(np.mean(at.V**2, axis=0))
        scale = np.maximum(scale, SMALLEST * scale.max()) if scale.any() else scale + 1
        Z = at.V / scale
        M = Z.T @ Z / len(Z) + JITTER * np.eye(len(scale))
        root = scale[:, None] * np.linalg.cholesky(M)
        noise = max(self._noise(at, root), TINY)
        return noise * np.linalg.inv(M) / np.outer(scale, scale)

    def _noise(self, at: WeakFactors, root: Matrix) -> float:
        """Variance of the differences of features from ``V U_v'``, per degree of freedom.

        The points were fitted to the features. With the penalty ``noise M^-1``, where ``M`` is
        ``root root'``, points have ``sum d / (d + noise)`` degrees of freedom, with the
        eigenvalues d of ``root' (sum_v U_v'U_v) root`` for each row. Bases have one for each
        number.
        """
        loss = self.feature_loss(at, self.products(at.V))
        grams = np.array([U_v.T @ U_v for U_v in at.U])
        patterns, counts = np.unique(self.present, axis=1, return_counts=True)
        spectra = [root.T @ grams[pattern].sum(axis=0) @ root for pattern in patterns.T]
        d = np.maximum(np.linalg.eigvalsh(spectra), 0)
        # About their number less the size of the bases, but positive for any number of rows.
        n_left = self._n_numbers / (1 + sum(U_v.size for U_v in at.U) / self._n_numbers)

        def excess(noise: float) -> float:
            of_points = counts @ (d / (d + noise + TINY)).sum(axis=1)
            return float(noise * (n_left - of_points)) - loss

        # Convex, negative at half of the first number, and positive at twice the second.
        least, most = loss / n_left, (loss + float(counts @ d.sum(axis=1))) / n_left
        return float(brentq(excess, least / 2, 2 * most))

    def _residual(self, at: WeakFactors) -> Matrix:
        """``P * (VWS - Y)``, half the gradient of the label loss in ``VWS``."""
        return self.P * (at.V @ (at.W @ at.S) - self.Y)


def nonnegative_points(
    basis: Matrix, features: Sequence[Matrix], present: Mask, penalty: Matrix
) -> Matrix:
    """Points ``v >= 0`` (n_rows, rank) that minimise ``sum_v |x_v - U_v v|^2 + v' penalty v``.

    Coordinates are minimised in turn, each for all rows with the same views at once.

    Parameters
    ----------
    basis : ndarray of shape (n_features, rank)
        Not negative.
    features : sequence of ndarray, each of shape (n_rows, n_features_v)
        Zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_rows)
    penalty : ndarray of shape (rank, rank)
        Positive definite.
    """
    points = np.empty((present.shape[1], basis.shape[1]))
    for rows, gram, right in by_pattern(basis, features, present):
        points[rows] = _nonnegative_solutions(gram + penalty, right)
    return points


def _nonnegative_solutions(gram: Matrix, right: Matrix) -> Matrix:
    """Rows ``z >= 0`` that minimise ``z' gram z / 2 - right' z``; the sweeps never raise it."""
    B = np.ascontiguousarray(right.T)  # a coordinate of all rows lies together
    Z = np.maximum(np.linalg.solve(gram, B), 0)
    left = np.arange(Z.shape[1])
    for _ in range(SWEEPS):
        z, b = Z[:, left], B[:, left]
        for j, g in enumerate(gram):
            z[j] = np.maximum(z[j] + (b[j] - g @ z) / g[j], 0)
        moved = np.abs(z - Z[:, left]).max(axis=0) > SWEEP_TOL * z.max(axis=0)
        Z[:, left] = z
        left = left[moved]
        if not left.size:
            break
    return Z.T


def _squared_norm(A: Matrix) -> float:
    """Square of the largest singular value."""
    gram = A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T
    return float(np.linalg.eigvalsh(gram)[-1])
