"""MVL-IV: incomplete views and labels restored in one common space, for aligned rows."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from naim3l.extend import AlignedModel, AlignedRows, Learned
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, ITERATIONS
from naim3l_bench.methods.shared_space import along_bases, fold_in, rescale, unit_rows


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
    label_basis_ : ndarray of shape (n_labels, rank)
        ``C``, divided by ``label_scale``.
    penalties_ : ndarray of shape (rank,)
        Weights of the squared point of a new row, which are ``ridge``.
    label_centre_ : ndarray of shape (n_labels,)
        Means of the known labels, 1 and -1.
    centre_, scale_ : ndarray of shape (n_features,)
        What is subtracted from features, and by what they are then divided.

    References
    ----------
    C. Xu, D. Tao and C. Xu, "Multi-View Learning with Incomplete Views", IEEE Transactions on
    Image Processing 24(12), 2015.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "ridge": [FACTOR],  # with 0, missing entries are not determined
        "rank": [COUNT],
        "label_scale": [FACTOR],
    }
    _fold_tol = 1e-3
    _shapes: ClassVar[dict[str, str]] = {
        "basis": "dr",
        "label_basis": "cr",
        "penalties": "r",
        "label_centre": "c",
        "centre": "d",
        "scale": "d",
    }

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


# Numbers in the largest intermediate array, 16 MiB.
BLOCK = 1 << 21


@dataclass(frozen=True)
class FactoredViews:
    """The objective of `MVLIV`, and the minimiser of each block of its variables.

    Attributes
    ----------
    features : list of ndarray, each of shape (n_samples, n_features_v)
        ``X_v``, zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_samples)
    Y, P : ndarray of shape (n_samples, n_labels)
        The last view, and the weights of its entries, 0 where they are unknown.
    ridge : float
    """

    features: list[Matrix]
    present: Mask
    Y: Matrix
    P: Matrix
    ridge: float

    def start(self, rank: int, rng: np.random.RandomState) -> tuple[list[Matrix], Matrix]:
        """Bases of the views and of labels along singular vectors, with zeros where they lack rows.

        With random bases the iterations often end where the rows of one view have points in one
        half of the space, and those of another in the other half.
        """
        table = np.hstack([*self.features, self.P * self.Y])
        _, sigma, Vt = randomized_svd(table, min(rank, *table.shape), random_state=rng)
        basis = Vt.T * np.sqrt(sigma) / len(table) ** 0.25  # coordinates of points are about 1
        ends = np.cumsum([X_v.shape[1] for X_v in self.features])
        *U, C = np.split(basis, ends)
        return U, C

    def objective(self, H: Matrix, U: list[Matrix], C: Matrix) -> float:
        """Value at points ``H`` (n_samples, rank) and the bases of all views and of labels."""
        value = float(np.vdot(self.P, np.square(self.Y - H @ C.T)))
        for X_v, has_view, U_v in zip(self.features, self.present, U, strict=True):
            value += float(np.square(X_v[has_view] - H[has_view] @ U_v.T).sum())
        return 0.5 * (value + self.ridge * sum(float(np.vdot(F, F)) for F in (H, C, *U)))

    def solve_H(self, U: list[Matrix], C: Matrix) -> Matrix:
        """The minimiser over ``H``, row by row, because each row lacks other views and labels."""
        rank = C.shape[1]
        ridge, right = self._ridge(rank), along_bases(self.features, U) + (self.P * self.Y) @ C
        # A row's matrix is the sum of the Grams of its views and labels: one product for all rows.
        grams = np.vstack([[(U_v.T @ U_v).ravel() for U_v in U], _outer(C)])
        weights = np.hstack([self.present.T, self.P])
        H = np.empty((len(weights), rank))
        for rows in _blocks(len(weights), rank**2):
            matrices = (weights[rows] @ grams).reshape(-1, rank, rank) + ridge
            H[rows] = np.linalg.solve(matrices, right[rows, :, None])[..., 0]
        return H

    def solve_U(self, H: Matrix) -> list[Matrix]:
        """The minimisers over the bases of all views."""
        ridge, U = self._ridge(H.shape[1]), []
        for X_v, has_view in zip(self.features, self.present, strict=True):
            H_v = H[has_view]
            U.append(np.linalg.solve(H_v.T @ H_v + ridge, H_v.T @ X_v[has_view]).T)
        return U

    def solve_C(self, H: Matrix) -> Matrix:
        """The minimiser over the basis of labels; each label is known in other rows."""
        n_samples, rank = H.shape
        grams = np.zeros((self.P.shape[1], rank**2))
        for rows in _blocks(n_samples, rank**2):
            grams += self.P[rows].T @ _outer(H[rows])
        matrices = grams.reshape(-1, rank, rank) + self._ridge(rank)
        return np.linalg.solve(matrices, ((self.P * self.Y).T @ H)[..., None])[..., 0]

    def _ridge(self, rank: int) -> Matrix:
        return self.ridge * np.eye(rank)


def _outer(F: Matrix) -> Matrix:
    """Products of each row with itself, (n_rows, rank^2)."""
    return (F[:, :, None] * F[:, None, :]).reshape(len(F), F.shape[1] ** 2)


def _blocks(n_rows: int, n_numbers: int) -> list[slice]:
    """Slices of rows, each of which needs an array of limited size at so many numbers a row."""
    step = max(1, BLOCK // n_numbers)
    return [slice(first, first + step) for first in range(0, n_rows, step)]
