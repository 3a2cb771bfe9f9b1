"""Kernel regression per view onto labels that a matrix of label correlations smooths (LVSL)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import AlignedModel, AlignedRows, Learned
from naim3l_bench.arrays import Mask, Matrix, consecutive_slices
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, FACTOR_OR_ZERO, ITERATIONS
from naim3l_bench.methods.graphs import heat_graph, normalized_laplacian, solve_shifted
from naim3l_bench.methods.multigraph import centred_labels

# Least weight of a view: with 0, nothing would determine its targets of unknown labels.
LEAST_WEIGHT = 1e-7
# Accuracy of the targets, and the most products that they may take.
CG_TOL, CG_ITERATIONS = 1e-6, 1000


@dataclass(eq=False, repr=False)
class LVSL(AlignedModel):
    """Kernel regression per view onto targets that the views and the labels share.

    Every view v has features ``X_v`` of its kernel, weights ``B_v``, and targets ``T_v`` for the
    rows that have it. With labels ``Y``, known entries ``P``, a matrix ``C`` of label correlations
    and view weights ``theta`` that sum to one, the objective is ::

        sum_v theta_v/2 (|X_v B_v - T_v|^2 + smoothness tr(T_v' L_v T_v)) + ridge/2 |B|^2
        + agreement/2 (|P * (Y - YC)|^2 + sum_v |P * (T_v - YC)|^2) + low_rank_weight |C|_*
        + view_smoothing/4 n_samples n_labels (|theta|^2 - 1/n_views)

    ``L_v`` is the normalised Laplacian of the neighbour graph of the view. Weights, targets and
    ``theta`` are found exactly in turn, and ``C`` takes a proximal gradient step, so that the
    objective never rises. The score of a row is the mean over its views, with weights ``theta``.

    This is LVSL [1]_ as its published code has it, except for the following. Terms of views that a
    row lacks and of labels that are unknown are left out; the original needs complete data, and
    aligned rows in spite of its title. The first term with ``Y`` is added, because without it
    the objective is lowest when everything is zero. Labels are centred at their means over known
    entries, Laplacians are normalised, and the bandwidths of kernels are those of this package.
    View weights are divided by their sum over the views that a row has.

    With kernel matrices of all rows, time grows with the cube of their number. Kernels are
    therefore represented by landmarks, with time linear in the number of rows;
    ``features=Kernel(n_landmarks=None)`` is the exact method. **Landmarks are stored in the model
    and in its file**: with ``n_landmarks=None``, or in views with no more rows than landmarks, they
    are the training rows themselves.

    Parameters
    ----------
    ridge : float, default=0.1
        Weight of the squared weights, lambda 1 in [1]_; greater than 0. Increase it when few labels
        are known.
    smoothness : float, default=0.001
        Weight of the differences of targets between neighbours, lambda 3 in [1]_.
    agreement : float, default=100.0
        Weight of the differences between targets and labels, lambda 4 in [1]_. Decrease it if
        known labels are often wrong.
    low_rank_weight : float, default=0.001
        Weight of the sum of the singular values of ``C``, lambda 5 in [1]_.
    view_smoothing : float, default=1.0
        How equal view weights are: lambda 2 in [1]_, divided by the number of label entries.
    n_neighbors : int, default=10
        Number of neighbours of a row in the graph of a view.
    max_iter : int, default=200
        Largest number of alternations.
    tol : float, default=1e-4
        Relative decrease of the objective in an alternation at which the fit ends.
    features : default="rbf"
        Kernel of each view, or features of another kind for a linear model, as in
        :class:`naim3l.NAIM3L`.
    views, positive_weight, decide, random_state
        As in :class:`naim3l.estimators.FusedRidge`. The method itself draws no random numbers.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
        Weights ``B`` of the features of all views, in the order of ``views_``.
    offset_ : ndarray of shape (n_labels,)
        Means of the known labels, 1 or -1.
    view_weights_ : ndarray of shape (n_views,)
        ``theta``.
    correlations_ : ndarray of shape (n_labels, n_labels)
        ``C``.
    history_ : list of dict
        The ``objective`` after each alternation; ``n_iter_``, ``converged_`` and ``objective_``
        summarise it.

    References
    ----------
    .. [1] D. Zhao, Q. Gao, Y. Lu, D. Sun. "Non-aligned multi-view multi-label classification via
       learning view-specific labels". IEEE Transactions on Multimedia 25 (2023) 7235-7247.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "ridge": [FACTOR],
        "smoothness": [FACTOR_OR_ZERO],
        "agreement": [FACTOR],
        "low_rank_weight": [FACTOR_OR_ZERO],
        "view_smoothing": [FACTOR],
        "n_neighbors": [COUNT],
    }
    _shapes: ClassVar[dict[str, str]] = {
        "coef": "dc",
        "offset": "c",
        "view_weights": "v",
        "correlations": "cc",
    }

    ridge: float = 0.1
    smoothness: float = 1e-3
    agreement: float = 100.0
    low_rank_weight: float = 1e-3
    view_smoothing: float = 1.0
    n_neighbors: int = 10
    max_iter: int = 200
    tol: float = 1e-4
    features: Any = field(default="rbf", kw_only=True)

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        Y, offset = centred_labels(rows)
        views = [
            ViewRows(X_v[has], Y[has], rows.P[has], self.n_neighbors)
            for X_v, has in zip(rows.features, rows.present, strict=True)
        ]
        spaces = LabelSpaces(views, Y, rows.P, self)
        learned = alternate(spaces.update, self.max_iter, self.tol)
        learned.arrays = {
            "coef": np.vstack(spaces.B),
            "offset": offset,
            "view_weights": spaces.theta,
            "correlations": spaces.C,
        }
        return learned

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        columns = consecutive_slices(X_v.shape[1] for X_v in features)
        parts = zip(arrays["view_weights"], features, columns, strict=True)
        # Features are zero in rows that lack the view.
        total = sum(weight * (X_v @ arrays["coef"][at]) for weight, X_v, at in parts)
        return total / (arrays["view_weights"] @ present)[:, None] + arrays["offset"]


class ViewRows:
    """Rows that have a view, and all that is computed from them once.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
    Y, P : ndarray of shape (n_rows, n_labels)
        Centred labels, and weights of their entries.
    laplacian : CSR array of shape (n_rows, n_rows)
    """

    def __init__(self, X: Matrix, Y: Matrix, P: Matrix, n_neighbors: int):
        self.X, self.Y, self.P = X, Y, P
        self.laplacian = normalized_laplacian(heat_graph(X, n_neighbors)[0])
        self._U, self._sigma, self._Vt = np.linalg.svd(X, full_matrices=False)

    def regress(self, T: Matrix, ridge: float) -> Matrix:
        """Weights (n_features, n_labels) that minimise ``|X B - T|^2 + ridge |B|^2``."""
        shrunk = self._sigma / (self._sigma**2 + ridge)
        return self._Vt.T @ (shrunk[:, None] * (self._U.T @ T))

    def roughness(self, T: Matrix) -> float:
        """``tr(T' L T)``, the differences of targets between neighbours."""
        return float(np.sum(T * (self.laplacian @ T)))


class LabelSpaces:
    """Weights, targets, label correlations and view weights, which are updated in turn.

    Attributes
    ----------
    B : list of ndarray, each of shape (n_features_v, n_labels)
    T : list of ndarray, each of shape (n_rows_v, n_labels)
    C : ndarray of shape (n_labels, n_labels)
    theta : ndarray of shape (n_views,)
    """

    def __init__(self, views: list[ViewRows], Y: Matrix, P: Matrix, options: LVSL):
        self.views, self.Y, self.P, self.options = views, Y, P, options
        self.theta = np.full(len(views), 1 / len(views))
        self.B: list[Matrix] = [np.zeros((view.X.shape[1], Y.shape[1])) for view in views]
        self.T = [view.Y for view in views]
        self.C: Matrix = np.eye(Y.shape[1])
        gram = Y.T @ Y + sum(view.Y.T @ view.Y for view in views)
        self._curvature = options.agreement * P.max() * float(np.linalg.eigvalsh(gram)[-1]) or 1.0

    def update(self) -> Record:
        """Update every block of variables once."""
        options = self.options
        B, T, costs = [], [], []
        for view, theta_v, T_v in zip(self.views, self.theta, self.T, strict=True):
            B_v = view.regress(T_v, options.ridge / theta_v)
            fitted = view.X @ B_v
            T_v = self._targets(view, theta_v, fitted, T_v)
            costs.append(np.sum((fitted - T_v) ** 2) + options.smoothness * view.roughness(T_v))
            B.append(B_v)
            T.append(T_v)
        C, trace_norm = self._correlations(T)
        smoothing = options.view_smoothing * self.Y.size
        theta = smoothed_weights(np.array(costs) / smoothing)
        self.B, self.T, self.C, self.theta = B, T, C, theta
        gaps = sum(np.sum(P * (Y @ C - target) ** 2) for Y, P, target in self._to_agree(T))
        objective = (
            theta @ costs / 2
            + smoothing / 4 * (theta @ theta - 1 / len(theta))
            + options.ridge / 2 * sum(np.sum(B_v**2) for B_v in B)
            + options.agreement / 2 * gaps
            + options.low_rank_weight * trace_norm
        )
        return {"objective": float(objective)}

    def _targets(self, view: ViewRows, theta_v: float, fitted: Matrix, T_v: Matrix) -> Matrix:
        """Targets between what the view predicts and what the labels are."""
        pull = self.options.agreement * view.P
        return solve_shifted(
            theta_v * self.options.smoothness * view.laplacian,
            theta_v + pull,
            theta_v * fitted + pull * (view.Y @ self.C),
            T_v,
            tol=CG_TOL,
            max_iter=CG_ITERATIONS,
        )

    def _correlations(self, T: list[Matrix]) -> tuple[Matrix, float]:
        """Label correlations after a proximal gradient step, and their trace norm."""
        step = 1 / self._curvature
        errors = (Y.T @ (P * (Y @ self.C - target)) for Y, P, target in self._to_agree(T))
        U, sigma, Vt = np.linalg.svd(self.C - step * self.options.agreement * sum(errors))
        sigma = np.maximum(sigma - step * self.options.low_rank_weight, 0)
        return (U * sigma) @ Vt, float(sigma.sum())

    def _to_agree(self, T: list[Matrix]) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """Labels, weights of their entries, and what ``YC`` is to agree with."""
        yield self.Y, self.P, self.Y
        for view, T_v in zip(self.views, T, strict=True):
            yield view.Y, view.P, T_v


def smoothed_weights(costs: Matrix) -> Matrix:
    """Weights (n_views,), at least 1e-7, that sum to one and minimise ``costs @ w + |w|^2 / 2``."""
    free = 1 - LEAST_WEIGHT * len(costs)
    ordered = np.sort(costs)
    levels = (np.cumsum(ordered) + free) / np.arange(1, len(costs) + 1)
    level = levels[np.flatnonzero(ordered < levels)[-1]]
    return LEAST_WEIGHT + np.maximum(level - costs, 0)
