"""How labels go together, and what the known labels of a row say about its unknown ones.

Labels are all that tables without a key have in common. Their correlations are sums over rows,
which add up over tables, chunks and sites.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np

from naim3l._arrays import Mask, Matrix, eigh
from naim3l.files.stored import Array

# Rows with correlation 0 that each pair of labels has besides those in which both are known.
HOLD_RESIDUALS = 3.0
LEAST_EIGENVALUE = 0.02  # of a correlation matrix
# With more labels than this, a matrix is taken to be its leading axes, and the rest of independent
# labels: an exact solution for each row would be slow.
MOST_EXACT, N_AXES = 64, 32
# Rows whose systems of equations are solved together.
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class LabelCorrelation:
    """Sums over rows of a value of each label, NaN where it is unknown, that tell correlations."""

    # Sums over the rows in which both labels of a pair are known of the product of their values.
    products: Annotated[Matrix, Array("f", "labels", "labels")]
    counts: Annotated[Matrix, Array("f", "labels", "labels", low=0)]  # numbers of these rows

    @classmethod
    def of(cls, values: Matrix) -> Self:
        """Sums over rows (n_rows, n_labels) of values whose mean is 0 and whose variance is 1."""
        known = np.isfinite(values)
        filled, mask = np.where(known, values, 0.0), known.astype(np.float64)
        return cls(filled.T @ filled, mask.T @ mask)

    @classmethod
    def total(cls, parts: Iterable["LabelCorrelation"]) -> "LabelCorrelation":
        """Sums over the rows of all parts, of which there is at least one."""
        first, *others = parts
        for part in others:
            first = first + part
        return first

    def __add__(self, other: "LabelCorrelation") -> "LabelCorrelation":
        return LabelCorrelation(self.products + other.products, self.counts + other.counts)

    def __sub__(self, other: "LabelCorrelation") -> "LabelCorrelation":
        return LabelCorrelation(self.products - other.products, self.counts - other.counts)

    def matrix(self, hold: float = HOLD_RESIDUALS) -> Matrix:
        """Correlations (n_labels, n_labels), drawn to 0 as by ``hold`` rows without any.

        Eigenvalues that are too small, which pairs known in different rows can have, are raised.
        """
        R = self.products / (self.counts + hold)
        np.fill_diagonal(R, 1.0)
        eigenvalues, V = eigh(R)
        R = (V * np.maximum(eigenvalues, LEAST_EIGENVALUE)) @ V.T
        scale = np.sqrt(np.diag(R))
        return np.asarray(R / np.outer(scale, scale))


@dataclass(frozen=True)
class Conditional:
    """What known labels of a row tell about its others, given the correlations of all."""

    R: Matrix  # correlations, (n_labels, n_labels)
    # ``loadings @ loadings.T + diag(rest)`` is R, or, of many labels, its leading axes.
    loadings: Matrix  # (n_labels, n_axes)
    rest: Matrix  # (n_labels,)

    @classmethod
    def of(cls, R: Matrix) -> Self:
        """From correlations without small eigenvalues."""
        n_axes = len(R) if len(R) <= MOST_EXACT else N_AXES
        eigenvalues, V = eigh(R)
        least = 0.99 * eigenvalues[0]  # left in the rest, by which is divided
        loadings = V[:, -n_axes:] * np.sqrt(np.maximum(eigenvalues[-n_axes:] - least, 0.0))
        return cls(R, loadings, np.maximum(np.diag(R) - np.square(loadings).sum(axis=1), least))

    def expected(self, values: Matrix, noise: float) -> Matrix:
        """Expected value of each unknown label given the known labels of its row.

        Values, (n_rows, n_labels), have mean 0 and variance 1, besides that of ``noise``, and are
        NaN where a label is unknown. So is the result where it is known; in rows without a known
        label it is 0.
        """
        known = np.isfinite(values)
        if len(self.R) > MOST_EXACT:
            found = np.empty(values.shape)
            for rows, _, right, G in self._systems(values, noise):
                found[rows] = np.linalg.solve(G, right[..., None])[..., 0] @ self.loadings.T
            return np.where(known, np.nan, found)
        r, found = np.where(known, values, 0.0), np.zeros(values.shape)
        C = self.R + noise * np.eye(len(self.R))
        few = 2 * known.sum(axis=1) <= len(C)
        # Of few known labels, R_UK C_KK^-1 r_K; of few unknown ones, the same by the inverse B of
        # C, - B_UU^-1 B_UK r_K.
        weights = _solved(C, known[few], r[few])
        found[few] = weights @ self.R
        B = np.linalg.inv(C)
        found[~few] = -_solved(B, ~known[~few], r[~few] @ B)
        return np.where(known, np.nan, found)

    def left_out(self, values: Matrix, noise: float) -> Matrix:
        """Expected value of each known label given the row's other known labels.

        Parameters and result are those of `expected`; the result is NaN where a label is unknown.
        """
        found, L, inverse = np.empty(values.shape), self.loadings, 1 / (self.rest + noise)
        for rows, r, right, G in self._systems(values, noise):
            inverted = np.linalg.inv(G)
            own = np.einsum("rab,rb->ra", inverted, right) @ L.T
            spread = np.einsum("rka,ka->rk", L @ inverted, L)
            # B is the inverse of the matrix of the known labels; (B r)_k / B_kk is what the
            # others leave open of r_k.
            B_r, B_kk = inverse * (r - own), inverse - inverse**2 * spread
            found[rows] = r - B_r / B_kk
        return np.where(np.isfinite(values), found, np.nan)

    def _systems(self, values: Matrix, noise: float) -> Iterator[tuple[slice, Any, Any, Any]]:
        """Slices of rows, their values, and right sides and matrices of their systems.

        A row's known labels have the matrix ``L L' + diag(1 / inverse)``, whose inverse needs that
        of ``G = I + L' diag(inverse) L``, (n_axes, n_axes).
        """
        L, inverse = self.loadings, 1 / (self.rest + noise)
        n_axes = L.shape[1]
        squares = (L[:, :, None] * L[:, None, :] * inverse[:, None, None]).reshape(len(L), -1)
        for start in range(0, len(values), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            known = np.isfinite(values[rows])
            r = np.where(known, values[rows], 0.0)
            G = (known.astype(np.float64) @ squares).reshape(-1, n_axes, n_axes) + np.eye(n_axes)
            yield rows, r, (r * inverse) @ L, G


def _solved(M: Matrix, used: Mask, right: Matrix) -> Matrix:
    """Solutions (n_rows, n) of the systems of the used rows and columns of M; 0 elsewhere."""
    found, counts = np.zeros(right.shape), used.sum(axis=1)
    for n in np.unique(counts[counts > 0]).tolist():
        of_size = np.flatnonzero(counts == n)
        for rows in np.array_split(of_size, -(-len(of_size) // ROWS_AT_ONCE)):
            at = np.nonzero(used[rows])[1].reshape(-1, n)
            systems = M.take(at[:, :, None] * len(M) + at[:, None, :])
            sides = right[rows[:, None], at]
            found[rows[:, None], at] = np.linalg.solve(systems, sides[..., None])[..., 0]
    return found
