"""The ridge with which the objective has a lower bound, and what is unbounded without one.

``||XW||_*`` rewards scores of all rows, and ``sum_k ||X_k W||_*`` limits those of rows with an
observed positive. Scores of the other rows are limited only by the loss of their known labels, and
by the ridge. docs/research/solver.md has the proofs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from naim3l._arrays import Mask, Matrix, as_dense, distinct, eigh
from naim3l._threads import thread_map
from naim3l.problem.feature_blocks import GRAM_COLUMNS, Features, append_ones, weighted_gram
from naim3l.problem.rotation import Rotation

if TYPE_CHECKING:
    from naim3l.problem.base import BaseProblem

# Relative accuracy of eigenvalues of views with too many rows and columns for a dense matrix.
LANCZOS_ACCURACY = 1e-2
# With at least so many columns, a few products for all labels at once first find the labels for
# which the ridge is large enough by far, which are most; the matrices of the others are formed.
# That is done again where one of these raises the ridge by this factor.
TESTED_COLUMNS, TEST_STEPS, TEST_AGAIN = 64, 20, 1.1
# Directions of a view with a smaller share of its largest squared singular value are not examined;
# of the others, rows with less than the second share of the squared scores have none.
EXAMINED, NONE = 1e-7, 1e-8


def bounding_ridge(problem: "BaseProblem", lam: float) -> float:
    """Smallest ridge for which scores that no label determines gain nothing beyond size one.

    That is their root mean square over the rows of a label and view, not the score of each row.

    In view v let ``X_P`` be the rows with label k known, weighted by their loss, and ``X_0`` the
    n_0 rows with label k unknown and no observed positive. The result is the largest eigenvalue of

        lam / sqrt(n_0) X_0'X_0 - X_P'X_P

    over all views and labels, or 0 if none is positive: then the objective has a lower bound
    without a ridge. Features are measured from the mean of ``X_P``, where the loss determines the
    intercept. If the label is known in no row of the view, the intercept is an ordinary column.
    Views in which the low-rank term outweighs the high-rank term do not count.
    """
    views = problem.free_rows()
    if not any(view.n_free.any() for view in views):
        return 0.0
    ridge = 0.0
    for view, covered in zip(views, _covered_views(problem), strict=True):
        if not covered and view.n_free.any():
            labels = view.labels[view.n_free[view.labels] > 0]
            chunks = np.array_split(labels, min(problem.n_threads, len(labels)))
            ridge = max(thread_map(partial(view.raised, ridge, lam), chunks, len(chunks)))
    return float(ridge)


def unlimited_scores(problem: "BaseProblem") -> tuple[int, int] | None:
    """A view and a label whose scores nothing limits without a ridge, or None if none is found.

    Along some weights of the label, all rows with an observed positive, and all in which the label
    is known, have score 0, and others have not: loss and low-rank term stay, the high-rank term
    falls without bound.
    """
    views = zip(problem.free_rows(), problem.grams, problem.positive_grams, strict=True)
    for v, (view, gram, positive) in enumerate(views):
        if gram is None or not view.n_free.any():
            continue
        if (directions := _without_positives(gram, positive)).size:
            for k, known in enumerate(view.known_along(directions)):
                if np.linalg.eigvalsh(known)[0] < NONE:
                    return v, k
    return None


def _without_positives(gram: Matrix, positive: Matrix) -> Matrix:
    """Directions (d, n) in which rows with an observed positive have no score, and others have.

    The squares of their scores in all rows add up to 1.
    """
    if _is_at_least(positive, 2 * _rounding(gram, positive) * np.eye(len(gram)), 0.0):
        return np.empty((len(gram), 0))
    squares, vectors = eigh(gram)
    kept = squares > EXAMINED * squares[-1]
    whitening = vectors[:, kept] / np.sqrt(squares[kept])
    shares, vectors = eigh(whitening.T @ positive @ whitening)
    return np.asarray(whitening @ vectors[:, shares < NONE])


@dataclass
class FreeRows:
    """The free rows of each label in a view: those whose scores only loss and ridge limit."""

    X: Features  # all rows (n_rows, d), with a last column of ones if there is an intercept
    P: Matrix  # weights in the loss, (n_rows, n_labels)
    free: Mask  # whether label k is unknown, and the row has no observed positive
    fit_intercept: bool
    known_grams: Matrix | None = None  # X_P'X_P of every label, (n_labels, d, d), if at hand

    @property
    def n_free(self) -> NDArray[np.intp]:
        return self.free.sum(axis=0)

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """One label of those that are known in the same rows, and so share one matrix."""
        _ = self.reduced  # once, not in every thread
        return distinct(self.P.T)[0]

    @cached_property
    def reduced(self) -> Features:
        """Rows in an orthonormal basis of their own span, if that has fewer columns."""
        X, (n_rows, n_columns) = self.X, self.X.shape
        if n_rows >= n_columns - self.fit_intercept or n_rows > GRAM_COLUMNS:
            return X
        return append_ones(Rotation(X[:, :-1]).L) if self.fit_intercept else Rotation(X).L

    def known_along(self, directions: Matrix) -> Iterator[Matrix]:
        """``X_P'X_P`` of every label along directions (d, n), each (n, n)."""
        scores = self.X @ directions
        return (weighted_gram(scores, P_k) for P_k in self.P.T)

    def raised(self, ridge: float, lam: float, labels: NDArray[np.intp]) -> float:
        """The ridge, or the largest eigenvalue of the labels' matrices if that is larger."""
        X = self.reduced
        grams = self.known_grams if X is self.X else None
        tested = TESTED_COLUMNS <= min(X.shape) <= GRAM_COLUMNS
        if tested:
            labels = self._doubtful(ridge, lam, labels)
        for i, k in enumerate(labels):
            known, free, before = self.P[:, k], self.free[:, k], ridge
            gains = lam / np.sqrt(free.sum()) * free
            if min(X.shape) > GRAM_COLUMNS:
                ridge = max(ridge, _by_products(X, known, gains, self.fit_intercept))
            else:
                loss = weighted_gram(X, known) if grams is None else grams[k]
                ridge = _raised(ridge, weighted_gram(X, gains), loss, self.fit_intercept)
            if tested and ridge > TEST_AGAIN * before:
                return self.raised(ridge, lam, labels[i + 1 :])
        return ridge

    @cached_property
    def _whitened(self) -> tuple[Matrix, Matrix]:
        """Rows (n_rows, rank) around their mean, whose sum of squares is I, and the eigenvalues.

        In single precision: whitened, what is compared is of size one.
        """
        X = as_dense(self.reduced)
        X = X - X.mean(axis=0) if self.fit_intercept else X
        squares, vectors = eigh(X.T @ X)
        kept = squares > len(X.T) * np.finfo(X.dtype).eps * squares[-1]
        whitened = X @ (vectors[:, kept] / np.sqrt(squares[kept]))
        return whitened.astype(np.float32), squares[kept].astype(np.float32)

    def _doubtful(self, ridge: float, lam: float, labels: NDArray[np.intp]) -> NDArray[np.intp]:
        """The labels whose eigenvalue is not clearly below the ridge, largest first.

        By the smallest eigenvalue of ``X_P'X_P + ridge I - gain``, whitened, of Lanczos iterations
        for all labels at once. A label that is known in no row, whose intercept counts, is kept.
        """
        X, squares = self._whitened
        known, free = self.P[:, labels].astype(X.dtype), self.free[:, labels]
        gains = np.float32(lam) / np.sqrt(free.sum(axis=0, dtype=X.dtype)) * free
        weights, total = known - gains, known.sum(axis=0)
        mean = X.T @ known / np.maximum(total, 1) * self.fit_intercept

        def apply(W: Matrix) -> Matrix:
            scores = X @ W
            scores -= (mean * W).sum(axis=0)
            scores *= weights
            product = X.T @ scores - scores.sum(axis=0) * mean
            return np.asarray(product + np.float32(ridge) / squares[:, None] * W)

        start = np.random.default_rng(0).normal(size=mean.shape).astype(X.dtype)
        smallest, error = _smallest_eigenvalues(apply, start, TEST_STEPS)
        margin = np.where(total > 0, smallest - 2 * error, -np.inf)
        order = np.argsort(margin, kind="stable")
        return labels[order][margin[order] < 1e-3]


@dataclass
class FreeRowSums:
    """The same from sums over the rows of a view."""

    known_grams: Matrix  # X_P'X_P of every label, (n_labels, d, d)
    free_grams: Matrix  # X_0'X_0
    n_free: NDArray[np.intp]  # (n_labels,)
    fit_intercept: bool

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        return distinct(self.known_grams)[0]

    def known_along(self, directions: Matrix) -> Iterator[Matrix]:
        """As that of rows."""
        return (directions.T @ gram @ directions for gram in self.known_grams)

    def raised(self, ridge: float, lam: float, labels: NDArray[np.intp]) -> float:
        """As that of rows."""
        for k in labels:
            gain = lam / np.sqrt(self.n_free[k]) * self.free_grams[k]
            ridge = _raised(ridge, gain, self.known_grams[k], self.fit_intercept)
        return ridge


def _covered_views(problem: "BaseProblem") -> list[bool]:
    """Whether the low-rank term outweighs the high-rank term in each view.

    It does if ``sum_k a_k X_k'X_k - X'X`` is positive semi-definite, for factors a_k of the labels
    with ``a_k^2 X_k'X_k <= X'X`` in all views. 1 is such a factor; those of rare labels are larger.
    """
    all_grams, positive_grams = problem.grams, problem.positive_grams
    covered = [_outweighs(A, B) for A, B in zip(positive_grams, all_grams, strict=True)]
    grams = [gram for gram in all_grams if gram is not None]
    if all(covered) or len(grams) < len(covered):
        return covered
    factors = _label_factors(problem, grams)
    for v, gram in enumerate(grams):
        if not covered[v]:
            covered[v] = _outweighs(problem.weighted_positive_gram(v, factors), gram)
    return covered


def _label_factors(problem: "BaseProblem", grams: list[Matrix]) -> Matrix:
    """Largest ``a_k`` with ``a_k^2 X_k'X_k <= X'X`` in all views, (n_labels,)."""
    shares = np.zeros(problem.n_labels)
    for v, gram in enumerate(grams):
        squares, vectors = eigh(gram)
        kept = squares > len(squares) * np.finfo(squares.dtype).eps * squares[-1]
        whitening = vectors[:, kept] / np.sqrt(squares[kept])
        for k, X_k in enumerate(problem.label_rows(v)):
            if X_k.shape[0]:
                A = X_k @ whitening
                share = np.linalg.eigvalsh(A @ A.T if len(A) < A.shape[1] else A.T @ A)[-1]
                shares[k] = max(shares[k], share)
    return 1 / np.sqrt(np.where(shares > 0, np.minimum(shares, 1), 1))


def _outweighs(A: Matrix | None, B: Matrix | None) -> bool:
    return A is not None and B is not None and _is_at_least(A, B, _rounding(A, B))


def _raised(ridge: float, gain: Matrix, loss: Matrix, fit_intercept: bool) -> float:
    """The ridge, or the largest eigenvalue of ``gain - loss`` if that is larger."""
    rounding = _rounding(gain, loss)
    excess = gain - loss
    if fit_intercept and loss[-1, -1] > 0:
        # Relative to the mean of the known rows; the column of ones becomes zero.
        mean, last = loss[-1] / loss[-1, -1], excess[-1].copy()
        shift = np.outer(mean, last)
        excess += last[-1] * np.outer(mean, mean) - shift - shift.T
    if _is_at_least(ridge * np.eye(len(excess)), excess, rounding):
        return ridge
    largest = linalg.eigvalsh(excess, subset_by_index=[len(excess) - 1] * 2)[0]
    return max(ridge, largest) if largest > rounding else ridge


def _smallest_eigenvalues(
    apply: Callable[[Matrix], Matrix], W: Matrix, n_steps: int
) -> tuple[Matrix, Matrix]:
    """Smallest Ritz value of several symmetric matrices, and the norm of its residual.

    ``apply`` multiplies each matrix with its own column of ``W``, (n, n_matrices).
    """
    basis: list[Matrix] = []
    T = np.zeros((W.shape[1], n_steps, n_steps))
    for step in range(n_steps):
        length = np.linalg.norm(W, axis=0)
        if step:
            T[:, step - 1, step] = T[:, step, step - 1] = length
        ended = length <= n_steps * np.finfo(W.dtype).eps  # the vectors span all that there is
        basis.append(np.where(ended, 0, W / np.where(ended, 1, length)))
        W = apply(basis[-1])
        T[:, step, step] = (basis[-1] * W).sum(axis=0)
        for _ in range(2):  # rounding errors would bring back vectors that were found
            for Q in basis:
                W = W - (Q * W).sum(axis=0) * Q
    values, vectors = eigh(T)
    return values[:, 0], np.linalg.norm(W, axis=0) * abs(vectors[:, -1, 0])


def _by_products(X: Features, known: Matrix, gains: Matrix, fit_intercept: bool) -> float:
    """The largest eigenvalue of the same matrix, by Lanczos iterations; 0 if it is negative."""
    has_mean, weights = fit_intercept and known.any(), gains - known
    mean = X.T @ known / known.sum() if has_mean else np.zeros(X.shape[1])

    def apply(w: Matrix) -> Matrix:
        scores = weights * (X @ w - mean @ w)
        return np.asarray(X.T @ scores - scores.sum() * mean)

    matrix = LinearOperator((X.shape[1], X.shape[1]), matvec=apply, dtype=np.float64)
    start = X.T @ gains - gains.sum() * mean + 1e-3
    largest = eigsh(
        matrix, k=1, which="LA", tol=LANCZOS_ACCURACY, v0=start, return_eigenvectors=False
    )
    return max(0.0, (1 + LANCZOS_ACCURACY) * largest[0])


def _is_at_least(A: Matrix, B: Matrix, rounding: float) -> bool:
    """Whether ``A - B`` is positive semi-definite up to a rounding error."""
    difference = A - B
    difference[np.diag_indices_from(difference)] += rounding
    try:
        np.linalg.cholesky(difference)
    except np.linalg.LinAlgError:
        return False
    return True


def _rounding(A: Matrix, B: Matrix) -> float:
    """Error of the eigenvalues of ``A - B``."""
    size = float(np.trace(A) + np.trace(B))
    return len(A) * float(np.finfo(A.dtype).eps) * size + float(np.finfo(A.dtype).tiny)
