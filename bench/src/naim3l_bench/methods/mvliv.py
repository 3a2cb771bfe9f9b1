"""MVL-IV: incomplete views and labels restored in one common space, for aligned rows."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import PARAMETERS, AlignedModel, AlignedRows, Learned, in_range, whole_number
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.factored_views import FactoredViews
from naim3l_bench.methods.shared_space import fold_in, rescale, unit_rows


@dataclass(eq=False, repr=False)
class MVLIV(AlignedModel):
    """Incomplete views, with labels as one of them, from a common space, for aligned rows.

    Each sample has a point ``h`` in a space of few dimensions, from which every view is linear.
    The labels are one more view with missing entries. The fit minimises ::

        1/2 sum_v |X_v - H U_v'|^2 + 1/2 |sqrt(P) * (Y - H C')|^2 + ridge/2 (|H|^2 + |U|^2 + |C|^2)

    over the rows that have the view, and the labels that are known. Views are centred and scaled
    to rows of length 1 on average; labels are centred and multiplied by ``label_scale``. From
    singular vectors on, ``H``, ``U`` and ``C`` are minimised in turn, each exactly.

    The method is reconstructed from descriptions of the paper, which has no ridge and restores
    missing entries by successive over-relaxation. Here each block is solved exactly, and the ridge
    determines the points of rows of which little is known. Labels as a view, and the scores of a
    new row, as of a sample whose labels are all unknown, are not the paper's either.

    Parameters
    ----------
    ridge : float, default=2.0
        Weight of the squared factors; greater than 0. Increase it when few labels are known.
    rank : int, default=50
        Number of dimensions of the common space; at most that of features and labels, or of rows,
        is used.
    label_scale : float, default=0.3
        Factor of the labels, 1 and -1. With larger values the space fits labels rather than views.
    views : mapping of str to columns, optional
        Columns of each view: names, positions, a slice or a mask. Other columns are ignored. With
        None all columns are one view.
    max_iter : int, default=100
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=1e-4
        Relative decrease of the objective at which to stop; 0 runs all iterations.
    transformer, n_components, positive_weight, label_coding, threshold, calibrate
        As in :class:`naim3l.NAIM3L`.
    random_state : int, RandomState or None, default=None
        Determines the start, and the folds of held-out entries.

    Attributes
    ----------
    basis_ : ndarray of shape (n_features, rank)
        ``U`` of all views, in the order of ``views_``.
    label_basis_ : ndarray of shape (n_labels, rank)
        ``C``, divided by ``label_scale``.
    penalties_ : ndarray of shape (rank,)
        Weights of the squared point of a new row, which are ``ridge``.
    label_centre_ : ndarray of shape (n_labels,)
        Means of the known labels, 1 and -1.
    centre_, scale_ : ndarray of shape (n_features,)
        What is subtracted from features, and by what they are then divided.
    n_encoded_ : dict of str to int
        Number of features of each view, after its transformer.
    history_ : list of dict
        One record per iteration, with the "objective".
    thresholds_, rules_, calibration_, base_rates_, transformers_, views_, label_names_, classes_, \
n_iter_, converged_, objective_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    References
    ----------
    C. Xu, D. Tao and C. Xu, "Multi-View Learning with Incomplete Views", IEEE Transactions on
    Image Processing 24(12), 2015.

    Examples
    --------
    >>> from naim3l import evaluate, join_views
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l_bench.methods import MVLIV
    >>> data = make_unpaired(
    ...     60, n_features=(9, 8), n_labels=4, aligned=True, missing_labels=0.3, random_state=0
    ... )
    >>> wide, views = join_views(data.views)
    >>> model = MVLIV(views=views, random_state=0).fit(wide, data.labels["view0"])
    >>> metrics = evaluate(data.complete_labels["view0"], model.decision_function(wide))
    >>> round(metrics["AP"], 2)
    0.98
    """

    _schema = PARAMETERS | {
        "ridge": in_range("ridge"),  # with 0, missing entries are not determined
        "rank": whole_number(at_least=1),
        "label_scale": in_range("lam"),
    }
    _fold_tol = 1e-3
    _shapes = {  # noqa: RUF012
        "basis": "dr", "label_basis": "cr", "penalties": "r", "label_centre": "c", "centre": "d",
        "scale": "d",
    }  # fmt: skip

    ridge: float = 2.0
    _: KW_ONLY
    rank: int = 50
    label_scale: float = 0.3
    max_iter: int = 100
    tol: float = 1e-4

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        centre, scale = unit_rows(rows)
        X, P = rescale(rows.features, rows.present, centre, scale), rows.P
        label_centre = (P * rows.Y).sum(axis=0) / np.maximum(P.sum(axis=0), 1)
        Y = self.label_scale * np.where(rows.known, rows.Y - label_centre, 0)
        views = FactoredViews(X, rows.present, Y, P, self.ridge)
        U, C = views.start(self.rank, rng)

        def update() -> Record:
            nonlocal U, C
            H = views.solve_H(U, C)
            U, C = views.solve_U(H), views.solve_C(H)
            return {"objective": views.objective(H, U, C)}

        learned = alternate(update, self.max_iter, self.tol)
        learned.arrays = {
            "basis": np.vstack(U),
            "label_basis": C / self.label_scale,
            "penalties": np.full(C.shape[1], float(self.ridge)),
            "label_centre": label_centre,
            "centre": centre,
            "scale": scale,
        }
        return learned

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        X = rescale(features, present, arrays["centre"], arrays["scale"])
        H = fold_in(arrays["basis"], X, present, np.diag(arrays["penalties"]))
        return H @ arrays["label_basis"].T + arrays["label_centre"]
