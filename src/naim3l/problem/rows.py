"""The problem as rows: features, signed labels, and the positive rows of each label.

The rows of all views are stacked: ``Y``, ``P`` and ``XW`` have shape (n_rows, n_labels). The
paper's block-diagonal ``X`` is never formed; ``multiply`` and ``multiply_transposed`` apply it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import betaln

from naim3l._arrays import Mask, Matrix, as_dense, inner, namespace_of
from naim3l._threads import blas_threads, map_views
from naim3l.problem.base import BaseProblem, consecutive_slices
from naim3l.problem.boundedness import FreeRows
from naim3l.problem.feature_blocks import (
    FEWER_COLUMNS,
    Features,
    append_ones,
    has_gram,
    refuse_beyond,
    weighted_gram,
)
from naim3l.problem.ridge import ridges_of_rows
from naim3l.problem.rotation import Rotation
from naim3l.problem.sufficient_statistics import RowStatistics

# Views are divided among threads if their product with weights has at least so many products.
THREADED_PRODUCTS = 10_000_000
# Scores of all rows are kept for another call if they take no more than this.
KEPT_BYTES = 2**28
# A view is rotated if its rows number at most this share of its columns, because with nearly as
# many rows as columns it would cost more than it saves,
MOST_ROWS = 0.7
# and if that takes at most this many operations, about ten seconds.
MOST_OPERATIONS = 2e11


# Numbers of entries that base rates may count as, in the rates of a table.
STRENGTHS = np.geomspace(2, 2e5, 26)


class LabelRates:
    """Shares of positives among the known entries of labels.

    ``label_counts`` (2, n_tables, n_labels) are the positive and the known entries of each label in
    each view. For a wide table, they are those of its rows, as if these had one view.
    ``counts_elsewhere`` (2, n_labels) are those at other sites, if there are any.
    """

    label_counts: Any
    counts_elsewhere: Any = (0, 0)

    def settle(self, counts_elsewhere: NDArray[np.intp]) -> None:
        """Learn how often labels are known at other sites."""
        self.counts_elsewhere = counts_elsewhere
        for rates in ("base_rates", "table_rates"):
            self.__dict__.pop(rates, None)

    @cached_property
    def base_rates(self) -> NDArray[np.float64]:
        """Shares in all tables, (n_labels,); one more positive and negative avoid 0 and 1."""
        sums = zip(self.label_counts, self.counts_elsewhere, strict=True)
        positives, known = (own.sum(axis=0) + elsewhere for own, elsewhere in sums)
        return np.asarray((positives + 1) / (known + 2))

    @cached_property
    def table_rates(self) -> NDArray[np.float64]:
        """Shares in each table, (n_tables, n_labels), drawn towards those in all tables.

        They are means of beta distributions around the base rates, whose strength, the same for
        all labels and tables, makes the counts most likely: where tables do not differ by more than
        chance, they have the base rates.
        """
        positives, known = self.label_counts
        prior = STRENGTHS[:, None] * self.base_rates
        a, b = prior[:, None], (STRENGTHS[:, None] - prior)[:, None]
        likely = betaln(positives + a, known - positives + b) - betaln(a, b)
        best = STRENGTHS[np.argmax(likely.sum(axis=(1, 2)))]
        return np.asarray((positives + best * self.base_rates) / (known + best))


@dataclass(frozen=True)
class SharedRows:
    """Features that stacked rows of all views have in common, which solvers do not use."""

    columns: Any  # of which they are made
    X: Matrix  # (n_rows, n_features)
    # Sums over all rows, with a column of ones, if the rows are only some of them.
    statistics: RowStatistics | None = None


class Problem(BaseProblem, LabelRates):
    """Features and labels of the rows of all views, with the products that a solver needs.

    Parameters
    ----------
    features : sequence of ndarray or sparse array, each of shape (n_rows_v, n_features_v)
        Features in float64 or float32, which is the type of all other arrays, too.
    labels : sequence of ndarray, each of shape (n_rows_v, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    fit_intercept : bool
        Append a column of ones to the features of each view.
    positive_weight : float
        Weight of an observed positive in the loss, relative to that of a negative.
    samples : ndarray of int, of shape (n_rows,), optional
        Sample of each stacked row, if it is known which rows of different views belong together.
        Solvers do not use it.
    groups : ndarray of int, of shape (n_rows,), optional
        Number, from 0, of the id of each stacked row, if an id has several rows of a table, or rows
        of several tables. What is known of an id is held out together.
    names : sequence of str, optional
        Names of the views in errors; by default their positions.
    rotations : sequence of Rotation or None, optional
        By view; None for those whose features are the original columns.

    Attributes
    ----------
    X : list of ndarray or sparse array, each of shape (n_rows_v, n_weights_v)
    Y : ndarray of shape (n_rows, n_labels)
    positive_rows : ndarray of int, of shape (n_positives,)
        Stacked row of each observed positive, sorted by label; ``label_slices`` are the parts that
        belong to each label.
    row_slices : list of slice, one per view
        Stacked rows of each view.
    fold_of : None
        Entries of rows in memory are held out later; see `SampledProblem`.
    """

    fold_of = None
    shared: SharedRows | None = None  # if views have columns in common, and learn from them

    def __init__(
        self,
        features: Sequence[Features],
        labels: Sequence[NDArray[Any]],
        *,
        fit_intercept: bool = True,
        positive_weight: float = 1.0,
        samples: NDArray[np.intp] | None = None,
        groups: NDArray[np.intp] | None = None,
        names: Sequence[str] | None = None,
        rotations: Sequence[Rotation | None] | None = None,
    ) -> None:
        self.fit_intercept, self.positive_weight = fit_intercept, positive_weight
        self.samples, self.groups, self.n_threads = samples, groups, blas_threads()
        self.names = [str(v) for v in range(len(features))] if names is None else list(names)
        self.rotations = [None] * len(features) if rotations is None else list(rotations)
        self._product: tuple[Matrix, Matrix] | None = None  # weights and their XW
        self.X = [append_ones(X_v) if fit_intercept else X_v for X_v in features]
        self.Y = np.concatenate(labels).astype(np.result_type(*(X_v.dtype for X_v in self.X)))
        self.row_slices = consecutive_slices([X_v.shape[0] for X_v in self.X])
        self.weight_slices = consecutive_slices([X_v.shape[1] for X_v in self.X])
        rows, label_of_positive = np.nonzero(self.Y > 0)
        self.positive_rows = rows[np.argsort(label_of_positive, kind="stable")]
        counts = np.bincount(label_of_positive, minlength=self.Y.shape[1])
        self.label_slices = consecutive_slices(counts)

    # The same problem with something else.

    def with_labels(self, Y: Matrix) -> "Problem":
        """The same features with other stacked labels, (n_rows, n_labels)."""
        return self._with(self.X, Y, self.rotations)

    def with_features(
        self, features: Sequence[Features], rotations: Sequence[Rotation | None] | None = None
    ) -> "Problem":
        """The same labels with other features of the same rows, and their rotations if new."""
        X = [append_ones(X_v) if self.fit_intercept else X_v for X_v in features]
        return self._with(X, self.Y, self.rotations if rotations is None else rotations)

    def _with(self, X: Sequence[Features], Y: Matrix, rotations: Sequence[Any]) -> "Problem":
        # X already has a column of ones.
        other = Problem(X, [Y], fit_intercept=False, names=self.names, rotations=rotations)
        other.fit_intercept, other.positive_weight = self.fit_intercept, self.positive_weight
        other.samples, other.groups, other.n_threads = self.samples, self.groups, self.n_threads
        other.shared, other.counts_elsewhere = self.shared, self.counts_elsewhere
        return other

    def rotated(self) -> "Problem":
        """The same problem, in which views with many more columns than rows are rotated."""
        rotations = [Rotation(X_v) if is_rotated(X_v) else None for X_v in self.features]
        if not any(rotations):
            return self
        pairs = zip(self.features, rotations, strict=True)
        return self.with_features([X_v if of is None else of.L for X_v, of in pairs], rotations)

    def without(self, hidden: Mask) -> "Problem":
        """The same problem with the entries of a mask (n_rows, n_labels) unknown."""
        return self.with_labels(np.where(hidden, 0, self.Y))

    @property
    def rows(self) -> "Problem":
        return self

    @property
    def whole(self) -> BaseProblem:
        """The problem that a fit to all entries solves."""
        return self

    @property
    def sample(self) -> "Problem":
        """The rows on which fits are judged."""
        return self

    # Rows, labels and samples.

    @property
    def n_rows(self) -> int:
        return self.Y.shape[0]

    @property
    def n_positives(self) -> int:
        return len(self.positive_rows)

    @property
    def features(self) -> list[Features]:
        """Features of each view, without the column of ones."""
        return [X_v[:, :-1] for X_v in self.X] if self.fit_intercept else self.X

    @cached_property
    def P(self) -> Matrix:
        """Weight of each entry in the loss, (n_rows, n_labels): 0 where the label is unknown."""
        return loss_weights(self.Y, self.positive_weight)

    @property
    def identity(self) -> list[Any]:
        return [*self.X, *([] if self.samples is None else [self.samples]), self.Y]

    @property
    def known_labels(self) -> Mask:
        return np.array([(self.Y[rows] != 0).any(axis=0) for rows in self.row_slices])

    def truth_of(self, entries: Mask) -> Matrix:
        """Entries of a mask (n_rows, n_labels) as 1 and 0, NaN elsewhere."""
        return np.where(entries, self.Y > 0, np.nan)

    @property
    def labels_of_samples(self) -> Matrix:
        """Signed labels of each sample, (n_samples, n_labels), if samples are known."""
        assert self.samples is not None
        Y = np.zeros((self.samples.max() + 1, self.n_labels))
        Y[self.samples] = self.Y
        return Y

    @property
    def view_rates(self) -> Matrix:
        """`table_rates` of each view, (n_views, n_labels), also of a wide table."""
        return np.broadcast_to(self.table_rates, (self.n_views, self.n_labels))

    @property
    def groups_of_views(self) -> list[Any]:
        """Groups of the rows of each view, (n_rows_v,) or None."""
        groups = self.groups
        return [None if groups is None else groups[rows] for rows in self.row_slices]

    @property
    def groups_of_blocks(self) -> list[Any]:
        """Groups of the rows of each view, or of the samples of a wide table, or None."""
        if self.samples is None or self.groups is None:
            return self.groups_of_views if self.samples is None else [None]
        of_samples = np.zeros(self.samples.max() + 1, dtype=np.intp)
        of_samples[self.samples] = self.groups
        return [of_samples]

    def by_view_and_sample(self, S: Matrix) -> Matrix:
        """Stacked rows as (n_views, n_samples, n_labels), NaN where a sample lacks the view."""
        assert self.samples is not None
        table = np.full((self.n_views, self.samples.max() + 1, self.n_labels), np.nan)
        for v, rows in enumerate(self.row_slices):
            table[v, self.samples[rows]] = S[rows]
        return table

    @cached_property
    def label_counts(self) -> NDArray[np.intp]:
        wide = self.samples is not None
        tables = [self.labels_of_samples] if wide else [self.Y[rows] for rows in self.row_slices]
        counts = [((Y > 0).sum(axis=0), (Y != 0).sum(axis=0)) for Y in tables]
        return np.array(counts).swapaxes(0, 1)

    def check_memory(self, v: int, n_bytes: float) -> None:
        """Refuse a view that needs more memory than the machine has."""
        refuse_beyond(
            f"view {self.names[v]!r} ({self.X[v].shape[0]} rows, {self.n_columns(v)} columns)",
            n_bytes,
            f"Give it {FEWER_COLUMNS}, which keeps its leading components, or fewer columns.",
        )

    # Products with rows.

    def multiply(self, W: Matrix) -> Matrix:
        """``XW`` for all rows: (n_weights, n_labels) -> (n_rows, n_labels); keeps the last one."""
        if self._product is not None and np.array_equal(self._product[0], W):
            return self._product[1]
        XW = self._multiply(W)
        if XW.nbytes <= KEPT_BYTES:
            XW.flags.writeable = False
            self._product = (W.copy(), XW)
        return XW

    def _multiply(self, W: Matrix) -> Matrix:
        return self._stack_views(lambda v: self.X[v] @ W[self.weight_slices[v]])

    def _stack_views(self, function: Callable[[int], Matrix]) -> Matrix:
        """Products of every view, one above the other; views are divided among threads."""
        if self.n_labels * sum(X_v.size for X_v in self.X) < THREADED_PRODUCTS:
            return np.concatenate([function(v) for v in range(self.n_views)])
        return np.concatenate(map_views(function, self.n_views, self.n_threads))

    def multiply_transposed(self, R: Matrix) -> Matrix:
        """``X'R`` for all views: (n_rows, n_labels) -> (n_weights, n_labels)."""
        return self._stack_views(lambda v: self.X[v].T @ R[self.row_slices[v]])

    def scatter(self, Z: Matrix) -> Matrix:
        """Sums over labels of the rows ``Z_k``, (n_positives, n_labels) -> (n_rows, n_labels)."""
        return self._scatter @ Z

    @cached_property
    def _scatter(self) -> sparse.csr_array:
        """Zero-one matrix (n_rows, n_positives) whose transpose selects ``positive_rows``."""
        ones, at = np.ones(self.n_positives, dtype=self.Y.dtype), np.arange(self.n_positives)
        where = self.positive_rows, at
        return sparse.csr_array((ones, where), shape=(self.n_rows, self.n_positives))

    def label_scores(self, W: Matrix) -> Matrix:
        return self.multiply(W)[self.positive_rows]

    def label_scores_transposed(self, Z: Matrix) -> Matrix:
        return self.multiply_transposed(self.scatter(Z))

    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        error = self.multiply(W) - self.Y
        residual = self.P * error
        return 0.5 * inner(residual, error), self.multiply_transposed(residual)

    def residual(self, XW: Matrix) -> Matrix:
        """``P * (XW - Y)``, zero where the label is unknown."""
        return self.P * (XW - self.Y)

    @cached_property
    def targets(self) -> Matrix:
        return self.multiply_transposed(self.P * self.Y)

    @cached_property
    def known_sums(self) -> Matrix:
        """``X'P``, (n_weights, n_labels): sums of the rows in which each label is known."""
        return self.multiply_transposed(self.P)

    @np.errstate(over="ignore", invalid="ignore")
    def largest_score(self, W: Matrix) -> float:
        return float(np.abs(self.multiply(W)).max())

    # Gram matrices.

    @cached_property
    def n_positives_of_rows(self) -> Matrix:
        """Observed positives of each stacked row, (n_rows, 1)."""
        return (self.Y > 0).sum(axis=1, keepdims=True).astype(self.Y.dtype)

    @cached_property
    def grams(self) -> list[Matrix | None]:
        ones = np.ones((self.n_rows, 1), dtype=self.Y.dtype)
        return [self._weighted_gram(v, ones) if has_gram(X) else None for v, X in enumerate(self.X)]

    @cached_property
    def positive_grams(self) -> list[Matrix | None]:
        return [self.positive_gram(v) if has_gram(X) else None for v, X in enumerate(self.X)]

    def positive_gram(self, v: int) -> Matrix:
        """``sum_k X_k' X_k`` of a view: a row with q observed positives occurs q times."""
        return self._weighted_gram(v, self.n_positives_of_rows)

    def labelled_gram(self, v: int) -> Matrix:
        """``X'X`` of a view, with the largest weight of each row; bounds the curvature."""
        return self._weighted_gram(v, self.P.max(axis=1, keepdims=True))

    def _weighted_gram(self, v: int, row_weights: Matrix) -> Matrix:
        """``X' diag(r) X`` of a view, given weights of all stacked rows, (n_rows, 1)."""
        X = self.X[v]
        return as_dense(X.T @ (sparse.diags_array(row_weights[self.row_slices[v], 0]) @ X))

    def multiply_gram(self, W: Matrix) -> Matrix:
        return self._multiply_weighted(self.grams, None, W)

    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        return self._multiply_weighted(self.positive_grams, self.n_positives_of_rows, W)

    def _multiply_weighted(
        self, grams: list[Matrix | None], row_weights: Matrix | None, W: Matrix
    ) -> Matrix:
        """``X' diag(r) XW`` for all views, by Gram matrices if they exist."""
        products, slices = [], zip(self.row_slices, self.weight_slices, strict=True)
        for X, gram, (rows, at) in zip(self.X, grams, slices, strict=True):
            if gram is not None:
                products.append(gram @ W[at])
            else:
                XW = X @ W[at]
                products.append(X.T @ (XW if row_weights is None else row_weights[rows] * XW))
        return namespace_of(W).concat(products)

    # Ridges.

    def ridge_solutions(self, ridges: Sequence[float]) -> NDArray[np.float64]:
        W = np.zeros((len(ridges), self.n_weights, self.n_labels))
        blocks = zip(self.features, self.row_slices, self.weight_slices, strict=True)
        for v, (X_v, rows, weights) in enumerate(blocks):
            # Sparse rows stay as they are, others are centred; the matrix is copied to be factored.
            n_centred = 0 if sparse.issparse(X_v) else X_v.size
            self.check_memory(v, 8 * (n_centred + 3 * min(X_v.shape) ** 2))
            patterns, pattern_of = np.unique(self.P[rows], axis=1, return_inverse=True)
            for pattern, counts in enumerate(patterns.T):
                known, labels = counts > 0, np.flatnonzero(pattern_of == pattern)
                if known.any():
                    Y = self.Y[rows][known][:, labels]
                    W[:, weights, labels] = ridges_of_rows(
                        X_v[known], Y, counts[known], ridges, self.fit_intercept
                    )
        return W

    def weighted_positive_gram(self, v: int, factors: Matrix) -> Matrix:
        return weighted_gram(self.X[v], (self.Y[self.row_slices[v]] > 0) @ factors)

    def label_rows(self, v: int) -> Iterator[Features]:
        X, positive = self.X[v], self.Y[self.row_slices[v]] > 0
        return (X[np.flatnonzero(of_label)] for of_label in positive.T)

    def free_rows(self, known_grams: Sequence[Matrix] | None = None) -> list[FreeRows]:
        free, found = (self.Y == 0) & (self.n_positives_of_rows == 0), []
        for v, rows in enumerate(self.row_slices):
            known = None if known_grams is None else known_grams[v]
            of_view = self.X[v], self.P[rows], free[rows]
            found.append(FreeRows(*of_view, self.fit_intercept, known))
        return found


def loss_weights(Y: Matrix, positive_weight: float) -> Matrix:
    """Weights in the loss of the entries of signed labels, (n_rows, n_labels)."""
    P = (Y != 0).astype(Y.dtype)
    return P if positive_weight == 1 else np.where(Y > 0, P.dtype.type(positive_weight), P)


def is_rotated(X: Features) -> bool:
    """Whether a view has so many more columns than rows that it is rotated."""
    n_rows, n_columns = X.shape
    n_used = n_columns if isinstance(X, np.ndarray) else min(n_columns, X.nnz)
    operations = 2 * (n_used + n_rows) * n_rows**2
    return 0 < n_rows <= MOST_ROWS * n_columns and operations <= MOST_OPERATIONS
