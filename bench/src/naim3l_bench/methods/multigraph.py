"""Labels that are smooth on the neighbour graphs of all views."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval

from naim3l.extend import AlignedModel, AlignedRows, Learned
from naim3l_bench.arrays import Mask, Matrix, consecutive_slices
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, ITERATIONS
from naim3l_bench.methods.graphs import neighbor_mean, solve_shifted, view_laplacian

# Weight of the squared scores, which only matters for rows that no path links to a known label.
RIDGE = 1e-4
# Accuracy of each solution of the systems of equations, and the most products that it may take.
CG_TOL, CG_ITERATIONS = 1e-6, 1000
# Least smoothness cost of a view, relative to the largest: without it, a view in which all
# neighbours agree would get all of the weight.
LEAST_COST = 1e-6


@dataclass(eq=False, repr=False)
class MultiGraph(AlignedModel):
    """Scores that are smooth on a graph of nearest neighbours in each view, for aligned rows.

    Scores ``F`` of the training rows and view weights ``theta`` minimise ::

        sum_v theta_v^power tr(F' L_v F) + label_weight |P * (F - Y)|^2 + 1e-4 |F|^2

    where ``theta`` sums to one and ``L_v`` is the normalised Laplacian of the neighbour graph of
    the rows that have view v, divided by their share of all rows. Edges have weights
    ``exp(-d^2 / t)``, with the median squared distance ``t`` of neighbours. Labels are centred at
    their means over known entries. For given ``theta`` each label has its own sparse system,
    because labels are known in different rows; conjugate gradients solve all of them with common
    products. For given ``F``, ``theta_v`` is proportional to ``tr(F' L_v F)^(-1/(power-1))``.

    This is a reconstruction of the method that the paper calls "LabelMe" and describes as a
    combination of views by a multi-graph Laplacian. Neither code nor text of the original is
    public, so its results are not those of "LabelMe". Centred labels, divided Laplacians and the
    scores of new rows are ours. A method of this kind has no function of features: the score of a
    new row is the mean of the scores of its nearest training rows in each view that it has,
    weighted as edges are, and averaged with ``theta``.

    **A model contains the features of all training rows**, and so does its file. Do not pass on
    a file if the rows are confidential.

    Parameters
    ----------
    label_weight : float, default=10.0
        Weight of known labels against smoothness. With small values all of ``theta`` goes to one
        view, and scores to the mean.
    n_neighbors : int, default=10
        Number of neighbours of a row in each graph, and of a new row in each view.
    power : float, default=2.0
        Exponent of view weights, greater than 1. Large values make them equal.
    max_iter : int, default=50
        Largest number of alternations between scores and view weights.
    tol : float, default=1e-4
        Relative decrease of the objective in an alternation at which the fit ends.
    views, features, positive_weight, decide, random_state
        As in :class:`naim3l.estimators.FusedRidge`. The method itself draws no random numbers.

    Attributes
    ----------
    scores_ : ndarray of shape (n_samples, n_labels)
        Scores of the training rows that have a view, relative to ``offset_``.
    offset_ : ndarray of shape (n_labels,)
        Means of the known labels, 1 or -1.
    view_weights_ : ndarray of shape (n_views,)
        ``theta``.
    rows_ : ndarray of shape (n_samples, n_features)
        Features of the training rows in all views; 0 where a row lacks a view.
    present_ : bool ndarray of shape (n_views, n_samples)
        Whether a training row has a view.
    bandwidths_ : ndarray of shape (n_views,)
        ``t`` of each view.
    neighbor_counts_ : ndarray of shape (n_views,)
        Number of neighbours of a new row in each view: ``n_neighbors``, or the number of training
        rows that have the view if it is smaller.
    history_ : list of dict
        The ``objective`` after each alternation; ``n_iter_``, ``converged_`` and ``objective_``
        summarise it.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "label_weight": [FACTOR],
        "n_neighbors": [COUNT],
        "power": [Interval(Real, 1, None, closed="neither")],
    }
    _shapes: ClassVar[dict[str, str]] = {
        "scores": "nc",
        "offset": "c",
        "view_weights": "v",
        "rows": "nd",
        "present": "vn",
        "bandwidths": "v",
        "neighbor_counts": "v",
    }
    _masks = frozenset({"present"})

    label_weight: float = 10.0
    n_neighbors: int = 10
    power: float = 2.0
    max_iter: int = 50
    tol: float = 1e-4

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        laplacians, bandwidths = [], []
        for X_v, has_view in zip(rows.features, rows.present, strict=True):
            laplacian, bandwidth = view_laplacian(X_v, has_view, self.n_neighbors)
            laplacians.append(laplacian / has_view.mean())
            bandwidths.append(bandwidth)
        Y, offset = centred_labels(rows)
        labels = SmoothLabels(laplacians, Y, self.label_weight * rows.P, self.power)
        learned = alternate(labels.update, self.max_iter, self.tol)
        learned.arrays = {
            "scores": labels.F,
            "offset": offset,
            "view_weights": labels.theta,
            "rows": np.hstack(rows.features),
            "present": rows.present,
            "bandwidths": np.array(bandwidths),
            # Learned arrays are floats.
            "neighbor_counts": np.minimum(rows.present.sum(axis=1), float(self.n_neighbors)),
        }
        return learned

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        total = np.zeros((present.shape[1], arrays["scores"].shape[1]))
        columns = consecutive_slices(X_v.shape[1] for X_v in features)
        for v in np.flatnonzero(present.any(axis=1)):
            known = arrays["present"][v]
            total[present[v]] += arrays["view_weights"][v] * neighbor_mean(
                features[v][present[v]],
                arrays["rows"][known, columns[v]],
                arrays["scores"][known],
                int(arrays["neighbor_counts"][v]),
                arrays["bandwidths"][v],
            )
        return total / (arrays["view_weights"] @ present)[:, None] + arrays["offset"]


class SmoothLabels:
    """Scores and view weights, which are updated in turn.

    Attributes
    ----------
    F : ndarray of shape (n_samples, n_labels)
        Scores.
    theta : ndarray of shape (n_views,)
        View weights.
    """

    def __init__(
        self, laplacians: list[sparse.csr_array], Y: Matrix, weights: Matrix, power: float
    ):
        self.laplacians, self.Y, self.weights, self.power = laplacians, Y, weights, power
        self.theta = np.full(len(laplacians), 1 / len(laplacians))
        self.F = np.zeros_like(Y)

    def update(self) -> Record:
        """Scores of the view weights, then view weights of the scores."""
        combined = sum(
            weight * laplacian
            for weight, laplacian in zip(self.theta**self.power, self.laplacians, strict=True)
        )
        F = solve_shifted(
            sparse.csr_array(combined),
            self.weights + RIDGE,
            self.weights * self.Y,
            self.F,
            tol=CG_TOL,
            max_iter=CG_ITERATIONS,
        )
        costs = np.array([np.sum(F * (laplacian @ F)) for laplacian in self.laplacians])
        self.F, self.theta = F, best_view_weights(costs, self.power)
        fit = np.sum(self.weights * (F - self.Y) ** 2) + RIDGE * np.sum(F**2)
        return {"objective": float(self.theta**self.power @ costs + fit)}


def best_view_weights(costs: Matrix, power: float) -> Matrix:
    """Weights (n_views,) that sum to one and minimise ``sum(weights^power * costs)``."""
    if costs.max() <= 0:  # no view tells scores apart
        return np.full(len(costs), 1 / len(costs))
    relative = np.maximum(costs / costs.max(), LEAST_COST) ** (-1 / (power - 1))
    return relative / relative.sum()


def centred_labels(rows: AlignedRows) -> tuple[Matrix, Matrix]:
    """Labels less their means over known entries, 0 where unknown; and the means, (n_labels,)."""
    P = rows.P
    totals = P.sum(axis=0)
    offset = (P * rows.Y).sum(axis=0) / np.where(totals > 0, totals, 1)
    return np.where(rows.known, rows.Y - offset, 0), offset
