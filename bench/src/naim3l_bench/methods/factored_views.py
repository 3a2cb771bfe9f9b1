"""MVL-IV: views and labels as products of common points and a basis each, with entries missing."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.extmath import randomized_svd

from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.shared_space import along_bases

# Numbers in the largest intermediate array, 16 MiB.
BLOCK = 1 << 21


@dataclass(frozen=True)
class FactoredViews:
    """Squared residuals of the entries that are there, and a ridge on all factors.

    ``1/2 sum_v |X_v - H U_v'|^2 + 1/2 |sqrt(P) * (Y - H C')|^2 + ridge/2 |H, U, C|^2``, the first
    sum over the rows that have the view.

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
    return (F[:, :, None] * F[:, None, :]).reshape(len(F), -1)


def _blocks(n_rows: int, n_numbers: int) -> list[slice]:
    """Slices of rows, each of which needs an array of limited size at so many numbers a row."""
    step = max(1, BLOCK // n_numbers)
    return [slice(first, first + step) for first in range(0, n_rows, step)]
