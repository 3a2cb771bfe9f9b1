"""iMVWL: labels from non-negative points of incomplete views, for aligned rows."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import PARAMETERS, AlignedModel, AlignedRows, Learned, in_range, whole_number
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.shared_space import rescale
from naim3l_bench.methods.weak_labels import WeakLabels, nonnegative_points


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
    views : mapping of str to columns, optional
        Columns of each view: names, positions, a slice or a mask. Other columns are ignored. With
        None all columns are one view.
    max_iter : int, default=1000
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=3e-3
        Relative decrease of the objective at which to stop; 0 runs all iterations. The objective
        falls slowly for long. Scores of new rows gain little from that, and with a large
        ``label_weight`` they become worse: the points of training rows then fit their labels, which
        new rows do not have.
    transformer, n_components, positive_weight, label_coding, threshold, calibrate
        As in :class:`naim3l.NAIM3L`.
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
    n_encoded_ : dict of str to int
        Number of features of each view, after its transformer.
    history_ : list of dict
        One record per iteration, with the "objective".
    thresholds_, rules_, calibration_, base_rates_, transformers_, views_, label_names_, classes_, \
n_iter_, converged_, objective_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    References
    ----------
    Q. Tan, G. Yu, C. Domeniconi, J. Wang and Z. Zhang, "Incomplete Multi-View Weak-Label
    Learning", IJCAI 2018.

    Examples
    --------
    >>> from naim3l import evaluate, join_views
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l_bench.methods import IMVWL
    >>> data = make_unpaired(
    ...     60, n_features=(9, 8), n_labels=4, aligned=True, missing_labels=0.3, random_state=0
    ... )
    >>> wide, views = join_views(data.views)
    >>> model = IMVWL(views=views, random_state=0).fit(wide, data.labels["view0"])
    >>> metrics = evaluate(data.complete_labels["view0"], model.decision_function(wide))
    >>> round(metrics["AP"], 2)
    0.99
    """

    _schema = PARAMETERS | {"label_weight": in_range("lam"), "rank": whole_number(at_least=1)}
    _advice = "Raise tol: scores of new rows gain little from more iterations."
    _shapes = {  # noqa: RUF012
        "basis": "dr", "predictor": "rc", "correlations": "cc", "penalty": "rr",
        "centre": "d", "scale": "d",
    }  # fmt: skip

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
