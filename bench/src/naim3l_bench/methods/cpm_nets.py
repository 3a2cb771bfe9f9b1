"""CPM-Nets: incomplete views restored from points that classes attract, for aligned rows."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import AlignedModel, AlignedRows, Learned
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, FACTOR_OR_ZERO, ITERATIONS
from naim3l_bench.methods.mvliv import FactoredViews
from naim3l_bench.methods.shared_space import fold_in, rescale, unit_rows

# Steps on the points in each iteration, as in the paper; and the least share of the decrease that
# the gradient promises with which a step is taken, which is halved at most so often.
N_STEPS, LEAST_DECREASE, N_HALVINGS = 5, 1e-4, 20


@dataclass(eq=False, repr=False)
class CPMNets(AlignedModel):
    """Incomplete views decoded from points that are near those of their class, for aligned rows.

    Each sample has a point ``h`` in a space of few dimensions, from which every view is linear.
    Points with the same label should have larger products with each other than with others: with
    the means ``m_k+`` and ``m_k-`` of the points whose label k is known as yes and as no, without
    the point itself, and the mean ``c_k`` of the known labels, the fit minimises ::

        1/2 sum_v |X_v - H U_v'|^2 + ridge/2 (|H|^2 + |U|^2)
        + lam n/c sum_k 1/n_k sum_i p_ik max(0, 1 - y_ik (h_i'(m_k+ - m_k-) + c_k))

    over the n rows, of which ``n_k`` know label k, with ``p_ik`` the weight of a known label. Views
    are centred and scaled to rows of length 1 on average. In turn, ``U`` is minimised exactly, and
    ``H`` is moved along its gradient, relative to the curvature of the first line.

    The paper has one class for each sample, and a hinge loss between classes; several labels, some
    of them unknown, each with the classes yes and no and the same weight, are an extension made
    here. So are ``c_k``, without which all rare labels would have equal scores, the ridge, and the
    updates, which are steps of Adam there. The decoders are linear, as in the authors' program; the
    paper allows networks. A new row has the point that restores its views best.

    Parameters
    ----------
    lam : float, default=1.0
        Weight of the labels; with 0 the points restore the views alone.
    ridge : float, default=0.5
        Weight of the squared points and decoders; greater than 0.
    rank : int, default=50
        Number of dimensions of the points; at most that of features, or of rows, is used.
    max_iter : int, default=100
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=1e-4
        Relative decrease of the objective at which to stop; 0 runs all iterations.
    views, features, positive_weight, decide
        As in :class:`naim3l.estimators.FusedRidge`.
    random_state : int, RandomState or None, default=None
        Determines the start, and the folds of held-out entries.

    Attributes
    ----------
    basis_ : ndarray of shape (n_features, rank)
        ``U`` of all views, in the order of ``views_``.
    contrasts_ : ndarray of shape (n_labels, rank)
        ``m_k+ - m_k-``, with all points.
    penalties_ : ndarray of shape (rank,)
        Weights of the squared point of a new row, which are ``ridge``.
    label_centre_ : ndarray of shape (n_labels,)
        ``c_k``.
    centre_, scale_ : ndarray of shape (n_features,)
        What is subtracted from features, and by what they are then divided.

    References
    ----------
    C. Zhang, Z. Han, Y. Cui, H. Fu, J. T. Zhou and Q. Hu, "CPM-Nets: Cross Partial Multi-View
    Networks", NeurIPS 2019.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "lam": [FACTOR_OR_ZERO],
        "ridge": [FACTOR],  # with 0, points of rows with few views are not determined
        "rank": [COUNT],
    }
    _fold_tol = 1e-3
    _shapes: ClassVar[dict[str, str]] = {
        "basis": "dr",
        "contrasts": "cr",
        "penalties": "r",
        "label_centre": "c",
        "centre": "d",
        "scale": "d",
    }

    lam: float = 1.0
    _: KW_ONLY
    ridge: float = 0.5
    rank: int = 50
    max_iter: int = 100
    tol: float = 1e-4

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        centre, scale = unit_rows(rows)
        X = rescale(rows.features, rows.present, centre, scale)
        none = np.zeros((len(rows.Y), 0))  # labels are no view here
        views = FactoredViews(X, rows.present, none, none, self.ridge)
        points = LabelledPoints(views, rows.Y, rows.P, self.lam)
        U, C = views.start(self.rank, rng)
        H = views.solve_H(U, C)

        def update() -> Record:
            nonlocal H, U
            moved = H
            for _ in range(N_STEPS):
                moved = points.step(moved, U)
            H, U = moved, views.solve_U(moved)
            return {"objective": points.objective(H, U)}

        learned = alternate(update, self.max_iter, self.tol)
        learned.arrays = {
            "basis": np.vstack(U),
            "contrasts": points.contrasts(H),
            "penalties": np.full(H.shape[1], float(self.ridge)),
            "label_centre": points.label_centre,
            "centre": centre,
            "scale": scale,
        }
        return learned

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        X = rescale(features, present, arrays["centre"], arrays["scale"])
        H = fold_in(arrays["basis"], X, present, np.diag(arrays["penalties"]))
        return H @ arrays["contrasts"].T + arrays["label_centre"]


class LabelledPoints:
    """The objective of `CPMNets` at points ``H`` (n_samples, rank) and decoders ``U``.

    Parameters
    ----------
    views : FactoredViews
        The first line of the objective, without labels.
    Y, P : ndarray of shape (n_samples, n_labels)
        Labels 1, -1 and 0, and the weights of the known ones.
    lam : float
    """

    def __init__(self, views: FactoredViews, Y: Matrix, P: Matrix, lam: float) -> None:
        self.views, self.Y = views, Y
        n_known = np.maximum((Y != 0).sum(axis=0), 1)
        self.weights = lam * len(Y) / Y.shape[1] / n_known * P
        self.label_centre = (P * Y).sum(axis=0) / np.maximum(P.sum(axis=0), 1e-300)
        sides = np.stack([Y == 1, Y == -1]).astype(float)
        both = (sides.sum(axis=1) > 0).all(axis=0)  # a label with one class has no contrast
        self.sides = sides * both  # (2, n_samples, n_labels): whether it is a yes; a no
        self.counts = self.sides.sum(axis=1)  # (2, n_labels)
        others = self.counts[:, None] - self.sides
        # 1 / number of the other points of each class, with a sign for the contrast.
        self.shares = np.divide([[[1.0]], [[-1.0]]], others, where=others > 0, out=0 * others)

    def contrasts(self, H: Matrix) -> Matrix:
        """``m_k+ - m_k-`` of all points, (n_labels, rank)."""
        yes, no = (
            side.T @ H / np.maximum(n, 1)[:, None]
            for side, n in zip(self.sides, self.counts, strict=True)
        )
        return np.asarray(yes - no)

    def scores(self, H: Matrix) -> Matrix:
        """``h_i'(m_k+ - m_k-) + c_k``, each point without itself in the means."""
        squares, found = np.square(H).sum(axis=1)[:, None], self.label_centre
        for side, share in zip(self.sides, self.shares, strict=True):
            found = found + share * (H @ (side.T @ H).T - side * squares)
        return found

    def objective(self, H: Matrix, U: list[Matrix]) -> float:
        """Value at points (n_samples, rank) and the decoders of all views."""
        hinge = np.maximum(0, 1 - self.Y * self.scores(H))
        none = np.zeros((0, H.shape[1]))
        return self.views.objective(H, U, none) + float(np.vdot(self.weights, hinge))

    def label_gradient(self, H: Matrix) -> Matrix:
        """Gradient of the label term, (n_samples, rank), also through the means."""
        slopes = -self.weights * self.Y * (self.Y * self.scores(H) < 1)
        gradient = np.zeros_like(H)
        for side, share in zip(self.sides, self.shares, strict=True):
            pulls = slopes * share
            gradient += pulls @ (side.T @ H) + side @ (pulls.T @ H)
            gradient -= 2 * (pulls * side).sum(axis=1)[:, None] * H
        return gradient

    def step(self, H: Matrix, U: list[Matrix]) -> Matrix:
        """Points of a lower objective, between these and the minimisers of its linearised form."""
        views, rank = self.views, H.shape[1]
        ridge, basis = views.ridge * np.eye(rank), np.vstack(U)
        pull = self.label_gradient(H)
        target = fold_in(basis, views.features, views.present, ridge, pull)
        move, value = target - H, self.objective(H, U)
        # Minus the derivative along the move.
        promised = views.ridge * float(np.vdot(move, move))
        for U_v, has_view in zip(U, views.present, strict=True):
            promised += float(np.square(move[has_view] @ U_v.T).sum())
        for halvings in range(N_HALVINGS):
            factor = 0.5**halvings
            if self.objective(H + factor * move, U) <= value - LEAST_DECREASE * factor * promised:
                return H + factor * move
        return H
