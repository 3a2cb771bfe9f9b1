"""Sums over rows that may be passed on: no rows, and nothing that counts fewer than a minimum.

What a row adds to a sum cannot be told from it, as long as no difference of two sums is that of a
few rows. So labels and columns by which few rows stand out are left out of the sums of a source.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import ArrayFields, Mask, Matrix, as_dense, eigh
from naim3l.problem.feature_blocks import Features
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics, split_factors


@dataclass(frozen=True)
class GramStatistics(ArrayFields):
    """`RowStatistics` without folds and free rows, and with products in place of factors.

    All fields are sums, so that those of some rows can be subtracted again.
    """

    n_rows: int
    gram: Matrix  # (d, d)
    known_grams: Matrix  # of the rows in which each label is known, (c, d, d)
    positive_grams: Matrix  # of those in which it is yes, (c, d, d)
    targets: Matrix  # (d, c)
    positive_sums: Matrix  # (d, c)
    n_known: NDArray[np.intp]  # (c,)
    n_positives: NDArray[np.intp]  # (c,)

    @classmethod
    def of(cls, statistics: RowStatistics) -> "GramStatistics":
        """Sums of statistics that have no folds."""
        factors = split_factors(statistics.factors, statistics.heights)
        by_cell = ("known_grams", "targets", "positive_sums", "n_known", "n_positives")
        return cls(
            n_rows=statistics.n_rows,
            gram=statistics.gram,
            positive_grams=np.array([R.T @ R for R in factors]),
            **{name: getattr(statistics, name)[0] for name in by_cell},
        )

    def combine(self, other: "GramStatistics") -> "GramStatistics":
        """Sums of the rows of both."""
        return added(self, other, 1)

    def minus(self, other: "GramStatistics") -> "GramStatistics":
        """Sums of these rows without others, which must be among them."""
        rest = added(self, other, -1)
        if rest.n_rows < 0 or (rest.n_known < 0).any() or (rest.n_positives < 0).any():
            raise ValueError("they count labels that are not there.")
        # What is left of labels without rows is rounding.
        return rest.without(rest.n_known == 0, np.zeros(len(rest.gram), dtype=bool))

    def without(self, labels: Mask, columns: Mask) -> "GramStatistics":
        """The same with 0 for all sums of some labels (c,), and of some columns (d,)."""
        left, kept = ~columns, ~labels
        pairs, entries = left[:, None] & left, left[:, None] & kept
        return replace(
            self,
            gram=self.gram * pairs,
            known_grams=self.known_grams * (kept[:, None, None] & pairs),
            positive_grams=self.positive_grams * (kept[:, None, None] & pairs),
            targets=self.targets * entries,
            positive_sums=self.positive_sums * entries,
            n_known=self.n_known * kept,
            n_positives=self.n_positives * kept,
        )

    def rows(self) -> RowStatistics:
        """Statistics on which a fit works, whose factors are roots of the products."""
        (d, c), by_cell = self.targets.shape, ("known_grams", "targets", "positive_sums")
        roots = [_root(*pair) for pair in zip(self.positive_grams, self.n_positives, strict=True)]
        return RowStatistics(
            self.n_rows,
            self.gram,
            **{name: getattr(self, name)[None] for name in by_cell},
            factors=np.concatenate(roots),
            heights=np.array([[len(R) for R in roots]], dtype=np.intp),
            n_known=self.n_known[None],
            n_positives=self.n_positives[None],
            free_grams=np.zeros((0, c, d, d)),
            n_free=np.zeros((0, c), dtype=np.intp),
        )

    @property
    def counts(self) -> LabelCounts:
        return LabelCounts(self.n_known[None], self.n_positives[None])


def added(one: Any, other: Any, sign: int) -> Any:
    """Sum, or difference, of two objects whose fields all are sums."""
    names = [field.name for field in fields(one)]
    return type(one)(**{n: getattr(one, n) + sign * getattr(other, n) for n in names})


def _root(gram: Matrix, n_rows: int) -> Matrix:
    """``R`` with ``R'R`` equal to the products of so many rows; it has half of their digits."""
    values, vectors = eigh(gram)
    least = len(gram) * np.finfo(values.dtype).eps * values[-1:].clip(0).sum()
    kept = np.flatnonzero(values > least)
    kept = kept[max(len(kept) - n_rows, 0) :]
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


@dataclass(frozen=True)
class Occurrences(ArrayFields):
    """How many rows each sum is of, and how many tell it from another one."""

    n_rows: int
    # Rows that are in two sets, (3 c, 3 c): where each label is yes, is no, and is unknown.
    together: NDArray[np.int64]
    usual: Matrix  # the most frequent value of each column, if nearly all rows have it, (d,)
    # Fewest rows that have other values; (d,).
    others: NDArray[np.int64]

    @classmethod
    def of(cls, X: Features, Y: NDArray[Any]) -> "Occurrences":
        """Those of a chunk of rows, (n, d), with signed labels, (n, c)."""
        sets = np.concatenate([Y > 0, Y < 0, Y == 0], axis=1).astype(np.float64)
        usual, others = np.zeros(X.shape[1]), np.zeros(X.shape[1], dtype=np.int64)
        for j in range(X.shape[1]):
            column = as_dense(X[:, [j]]).ravel()
            usual[j] = np.partition(column, len(column) // 2)[len(column) // 2]
            others[j] = np.count_nonzero(column != usual[j])
        return cls(len(Y), (sets.T @ sets).astype(np.int64), usual, others)

    def combine(self, other: "Occurrences") -> "Occurrences":
        """Those of the rows of both."""
        mine, its = self.others, other.others
        # Rows with the one value are other ones beside the other value.
        by_mine, by_its = mine + other.n_rows - its, its + self.n_rows - mine
        same, larger = self.usual == other.usual, by_mine <= by_its
        return Occurrences(
            self.n_rows + other.n_rows,
            self.together + other.together,
            np.where(larger, self.usual, other.usual),
            np.where(same, mine + its, np.minimum(by_mine, by_its)),
        )

    def rare_columns(self, least: int) -> Mask:
        """Columns, (d,), that have another value than the usual one in fewer rows than ``least``.

        The sums of such a column are those of these rows.
        """
        return np.asarray((self.others > 0) & (self.others < least))

    def rare_labels(self, least: int) -> Mask:
        """Labels, (c,), of which a set of rows, or its difference from that of another, is small.

        Of two labels that few rows tell apart, the one that is known less often is left out.
        """
        sizes, c = np.diag(self.together), len(self.together) // 3
        apart = sizes[:, None] + sizes - 2 * self.together
        # Sets, the sets of all other rows, and their differences from sets of other labels.
        few = (apart > 0) & (apart < least)
        few |= (self.n_rows - apart > 0) & (self.n_rows - apart < least)
        alone: Mask = np.any(((sizes > 0) & (sizes < least)).reshape(3, c), axis=0)
        close = few.reshape(3, c, 3, c).any(axis=(0, 2)) & ~np.eye(c, dtype=bool)
        close &= ~alone & ~alone[:, None]
        n_known = self.n_rows - sizes[2 * c :]
        while close.any():
            worst = np.lexsort((-n_known, close.sum(axis=1)))[-1]
            alone[worst] = True
            close[worst] = close[:, worst] = False
        return alone
