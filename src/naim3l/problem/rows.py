"""The problem as rows: features, signed labels, and the positive rows of each label.

The rows of all views are stacked: ``Y``, ``P`` and ``XW`` have shape (n_rows, n_labels). The
weights of all views are stacked too: ``W`` has shape (n_weights, n_labels), and a view's intercept
is the last row of its block. The paper's block-diagonal ``X`` is never formed; ``multiply`` and
``multiply_transposed`` apply it.

The paper's ``X_k`` (rows whose label ``k`` is observed positive) is a selection of stacked rows.
The selections of all labels are concatenated: an array of shape (n_positives, n_labels) contains
one matrix for every label, with the rows ``label_slices``.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Matrix, inner, namespace_of
from naim3l.problem.blocks import LabelBlocks, blas_threads, consecutive_slices, map_views
from naim3l.problem.rotation import Rotation, pays

# Views are divided among threads if their product with weights has at least so many products.
THREADED_PRODUCTS = 10_000_000
# Scores of all rows are kept for another call if they take no more than this.
KEPT_BYTES = 2**28
# Gram matrices of views with more columns are computed only if they are no larger than the rows.
GRAM_COLUMNS = 2000


class Problem(LabelBlocks):
    """Feature blocks and labels of all views, with the products that a solver needs.

    Parameters
    ----------
    features : sequence of ndarray or sparse matrix, each of shape (n_rows_v, n_features_v)
        Features in float64 or float32, which is the type of all other arrays, too.
    labels : sequence of ndarray, each of shape (n_rows_v, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    fit_intercept : bool
        Append a column of ones to each block.
    positive_weight : float
        Weight of an observed positive in the loss, relative to that of a negative.
    samples : ndarray of int, of shape (n_rows,), optional
        Sample of each stacked row, if it is known which rows of different views belong together.
        Solvers do not use it.
    names : sequence of str, optional
        Names of the views in errors; by default their positions.
    rotations : sequence of Rotation or None, optional
        By view; None for those whose features are the original columns.

    Attributes
    ----------
    X : list of ndarray or sparse matrix, each of shape (n_rows_v, n_weights_v)
    Y : ndarray of shape (n_rows, n_labels)
    P : ndarray of shape (n_rows, n_labels)
        Weight of each entry in the loss: 0 where the label is unknown.
    positive_rows : ndarray of int, of shape (n_positives,)
        Stacked row of each observed positive, sorted by label.
    label_slices : list of slice, one per label
        Part of ``positive_rows`` that belongs to each label.
    """

    def __init__(
        self,
        features: Sequence[Matrix | sparse.sparray],
        labels: Sequence[Matrix | NDArray[np.int8]],
        *,
        fit_intercept: bool = True,
        positive_weight: float = 1.0,
        samples: NDArray[np.intp] | None = None,
        names: Sequence[str] | None = None,
        rotations: Sequence[Rotation | None] | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.positive_weight = positive_weight
        self.samples = samples
        self.names = [str(v) for v in range(len(features))] if names is None else list(names)
        self.rotations = [None] * len(features) if rotations is None else list(rotations)
        self.n_threads = blas_threads()
        self._product: tuple[Matrix, Matrix] | None = None  # weights and their XW
        self.X = [append_ones(X_v) if fit_intercept else X_v for X_v in features]
        self.Y = np.concatenate(labels).astype(np.result_type(*(X_v.dtype for X_v in self.X)))
        self.row_slices = consecutive_slices([X_v.shape[0] for X_v in self.X])
        self.weight_slices = consecutive_slices([X_v.shape[1] for X_v in self.X])
        rows, label_of_positive = np.nonzero(self.Y > 0)
        self.positive_rows = rows[np.argsort(label_of_positive, kind="stable")]
        counts = np.bincount(label_of_positive, minlength=self.Y.shape[1])
        self.label_slices = consecutive_slices(counts)

    @cached_property
    def P(self) -> Matrix:
        """Weight of each entry in the loss, (n_rows, n_labels)."""
        return loss_weights(self.Y, self.positive_weight)

    def with_labels(self, Y: Matrix) -> "Problem":
        """The same features with other stacked labels, (n_rows, n_labels)."""
        # X already has a column of ones.
        other = Problem(
            self.X,
            [Y],
            fit_intercept=False,
            positive_weight=self.positive_weight,
            samples=self.samples,
            names=self.names,
            rotations=self.rotations,
        )
        other.fit_intercept, other.n_threads = self.fit_intercept, self.n_threads
        return other

    def with_features(
        self,
        features: Sequence[Matrix | sparse.sparray],
        rotations: Sequence[Rotation | None] | None = None,
    ) -> "Problem":
        """The same labels with other features of the same rows, and their rotations if new."""
        other = Problem(
            features,
            [self.Y],
            fit_intercept=self.fit_intercept,
            positive_weight=self.positive_weight,
            samples=self.samples,
            names=self.names,
            rotations=self.rotations if rotations is None else rotations,
        )
        other.n_threads = self.n_threads
        return other

    def rotated(self) -> "Problem":
        """The same problem, in which views with many more columns than rows are rotated."""
        rotations = [Rotation(X_v) if pays(X_v) else None for X_v in self.features]
        if not any(rotations):
            return self
        features = [
            X_v if rotation is None else rotation.L
            for X_v, rotation in zip(self.features, rotations, strict=True)
        ]
        return self.with_features(features, rotations)

    def without(self, hidden: NDArray[np.bool_]) -> "Problem":
        """The same problem with the entries of a mask (n_rows, n_labels) unknown."""
        return self.with_labels(np.where(hidden, 0, self.Y))

    def truth_of(self, entries: NDArray[np.bool_]) -> Matrix:
        """Entries of a mask (n_rows, n_labels) as 1 and 0, NaN elsewhere."""
        return np.where(entries, self.Y > 0, np.nan)

    @property
    def labels_of_samples(self) -> Matrix:
        """Signed labels of each sample, (n_samples, n_labels), if samples are known."""
        assert self.samples is not None
        Y = np.zeros((self.samples.max() + 1, self.n_labels))
        Y[self.samples] = self.Y
        return Y

    def by_view_and_sample(self, S: Matrix) -> Matrix:
        """Stacked rows as (n_views, n_samples, n_labels), NaN where a sample lacks the view."""
        assert self.samples is not None
        table = np.full((len(self.X), self.samples.max() + 1, self.n_labels), np.nan)
        for v, rows in enumerate(self.row_slices):
            table[v, self.samples[rows]] = S[rows]
        return table

    @cached_property
    def base_rates(self) -> NDArray[np.float64]:
        """Share of positives among the known labels, (n_labels,); a sample counts once.

        One additional positive and negative avoid rates of 0 and 1.
        """
        positives, known = self.label_counts
        return np.asarray((positives.sum(axis=0) + 1) / (known.sum(axis=0) + 2))

    @cached_property
    def label_counts(self) -> NDArray[np.intp]:
        """Positive and known entries of each label in each view, (2, n_views, n_labels).

        If samples are known, these count once, as if they had one view.
        """
        if self.samples is None:
            tables = [self.Y[rows] for rows in self.row_slices]
        else:
            tables = [self.labels_of_samples]
        counts = [((Y > 0).sum(axis=0), (Y != 0).sum(axis=0)) for Y in tables]
        return np.array(counts).swapaxes(0, 1)

    @property
    def features(self) -> list[Matrix | sparse.sparray]:
        """Features of each view, without the column of ones."""
        return [X_v[:, :-1] for X_v in self.X] if self.fit_intercept else self.X

    def n_columns(self, v: int) -> int:
        """Number of columns of a view before it was rotated, without the column of ones."""
        if (rotation := self.rotations[v]) is not None:
            return int(rotation.X.shape[1])
        return self.X[v].shape[1] - self.fit_intercept

    @property
    def n_rows(self) -> int:
        return self.Y.shape[0]

    @cached_property
    def _scatter(self) -> sparse.csr_array:
        """Zero-one matrix (n_rows, n_positives) whose transpose selects ``positive_rows``."""
        ones = np.ones(self.n_positives, dtype=self.Y.dtype)
        columns = np.arange(self.n_positives)
        shape = (self.n_rows, self.n_positives)
        return sparse.coo_array((ones, (self.positive_rows, columns)), shape=shape).tocsr()

    def multiply(self, W: Matrix) -> Matrix:
        """``XW`` for all rows: (n_weights, n_labels) -> (n_rows, n_labels).

        A solver needs that of its iterate several times, so the last one is kept.
        """
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
        n_views, n_products = len(self.X), self.n_labels * sum(map(stored_numbers, self.X))
        if n_products < THREADED_PRODUCTS:
            return np.concatenate([function(v) for v in range(n_views)])
        return np.concatenate(map_views(function, n_views, self.n_threads))

    def multiply_transposed(self, R: Matrix) -> Matrix:
        """``X'R`` for all views: (n_rows, n_labels) -> (n_weights, n_labels)."""
        return self._stack_views(lambda v: self.X[v].T @ R[self.row_slices[v]])

    def gather(self, XW: Matrix) -> Matrix:
        """``X_k W`` of every label: (n_rows, n_labels) -> (n_positives, n_labels)."""
        return XW[self.positive_rows]

    def scatter(self, Z: Matrix) -> Matrix:
        """Sums over labels of the rows ``Z_k``, (n_positives, n_labels) -> (n_rows, n_labels).

        ``multiply_transposed`` of the result is ``sum_k X_k' Z_k``.
        """
        return self._scatter @ Z

    def label_scores(self, W: Matrix) -> Matrix:
        """``X_k W`` of every label: (n_weights, n_labels) -> (n_positives, n_labels)."""
        return self.gather(self.multiply(W))

    def label_scores_transposed(self, Z: Matrix) -> Matrix:
        """``sum_k X_k' Z_k``: (n_positives, n_labels) -> (n_weights, n_labels)."""
        return self.multiply_transposed(self.scatter(Z))

    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        """The loss, and ``X'(P * (XW - Y))`` of shape (n_weights, n_labels)."""
        error = self.multiply(W) - self.Y
        residual = self.P * error
        return 0.5 * inner(residual, error), self.multiply_transposed(residual)

    @property
    def identity(self) -> list[Any]:
        """Features, samples if they are known, and labels."""
        return [*self.X, *([] if self.samples is None else [self.samples]), self.Y]

    @property
    def known_labels(self) -> NDArray[np.bool_]:
        """Whether each label is known in some row of each view, (n_views, n_labels)."""
        return np.array([(self.Y[rows] != 0).any(axis=0) for rows in self.row_slices])

    @property
    def n_observed_positives(self) -> int:
        """Number of labels observed positive, over all rows."""
        return self.n_positives

    @cached_property
    def targets(self) -> Matrix:
        """``X'(P * Y)``, of shape (n_weights, n_labels)."""
        return self.multiply_transposed(self.P * self.Y)

    def residual(self, XW: Matrix) -> Matrix:
        """``P * (XW - Y)``, zero where the label is unknown."""
        return self.P * (XW - self.Y)

    @cached_property
    def n_positives_of_rows(self) -> Matrix:
        """Observed positives of each stacked row, (n_rows, 1)."""
        return (self.Y > 0).sum(axis=1, keepdims=True).astype(self.Y.dtype)

    @cached_property
    def grams(self) -> list[Matrix | None]:
        """``X'X`` of each view, (n_weights_v, n_weights_v); None if it is too large."""
        ones = np.ones((self.n_rows, 1), dtype=self.Y.dtype)
        return [self._weighted_gram(v, ones) if has_gram(X) else None for v, X in enumerate(self.X)]

    @cached_property
    def positive_grams(self) -> list[Matrix | None]:
        """`positive_gram` of each view; None if it is too large."""
        return [self.positive_gram(v) if has_gram(X) else None for v, X in enumerate(self.X)]

    def positive_gram(self, v: int) -> Matrix:
        """``sum_k X_k' X_k`` of a view, (n_weights_v, n_weights_v).

        A row with q observed positives occurs q times, so this is ``X' diag(q) X``.
        """
        return self._weighted_gram(v, self.n_positives_of_rows)

    def labelled_gram(self, v: int) -> Matrix:
        """``X'X`` of a view, with the largest weight of each row; bounds the curvature."""
        return self._weighted_gram(v, self.P.max(axis=1, keepdims=True))

    def _weighted_gram(self, v: int, row_weights: Matrix) -> Matrix:
        """``X' diag(r) X`` of a view, given weights of all stacked rows, (n_rows, 1)."""
        X = self.X[v]
        gram = X.T @ (sparse.diags_array(row_weights[self.row_slices[v], 0]) @ X)
        return gram.toarray() if sparse.issparse(gram) else gram

    def multiply_gram(self, W: Matrix) -> Matrix:
        """``X'XW`` for all views, (n_weights, n_labels)."""
        return self._multiply_weighted(self.grams, None, W)

    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        """``sum_k X_k'X_k W`` for all views, (n_weights, n_labels)."""
        return self._multiply_weighted(self.positive_grams, self.n_positives_of_rows, W)

    def _multiply_weighted(
        self, grams: list[Matrix | None], row_weights: Matrix | None, W: Matrix
    ) -> Matrix:
        """``X' diag(r) XW`` for all views, by Gram matrices if they exist."""
        products = []
        for X, gram, rows, at in zip(
            self.X, grams, self.row_slices, self.weight_slices, strict=True
        ):
            if gram is not None:
                products.append(gram @ W[at])
            else:
                XW = X @ W[at]
                products.append(X.T @ (XW if row_weights is None else row_weights[rows] * XW))
        return namespace_of(W).concat(products)

    def split_weights(self, W: Matrix) -> tuple[list[Matrix], list[Matrix]]:
        """Coefficients (n_features_v, n_labels) and intercepts (n_labels,) of each view.

        Those of a rotated view are coefficients of its original columns.
        """
        coefficients, intercepts = [], []
        for weights, rotation in zip(self.weight_slices, self.rotations, strict=True):
            last = weights.stop - 1 if self.fit_intercept else weights.stop
            W_v = W[weights.start : last]
            coefficients.append(W_v.copy() if rotation is None else rotation.expand(W_v))
            intercepts.append(W[last].copy() if self.fit_intercept else np.zeros(self.n_labels))
        return coefficients, intercepts


def loss_weights(Y: Matrix, positive_weight: float) -> Matrix:
    """Weights in the loss of the entries of signed labels, (n_rows, n_labels)."""
    P = (Y != 0).astype(Y.dtype)
    return P if positive_weight == 1 else np.where(Y > 0, P.dtype.type(positive_weight), P)


def stored_numbers(X: Any) -> int:
    """Number of stored entries of ``X``, which a product with it reads."""
    return int(X.nnz) if sparse.issparse(X) else math.prod(X.shape)


def has_gram(X: Matrix | sparse.sparray) -> bool:
    """Whether ``X'X`` is stored: if it is small, or no larger than ``X`` itself."""
    return X.shape[1] <= GRAM_COLUMNS or X.shape[1] ** 2 <= stored_numbers(X)


def append_ones(X: Matrix | sparse.sparray) -> Matrix | sparse.sparray:
    """The columns of ``X`` and a column of ones."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if sparse.issparse(X):
        return sparse.hstack([X, ones], format="csr")
    return np.hstack([X, ones])
