"""The ridge with which the objective has a lower bound, and scores stay of the size of labels.

``||XW||_*`` rewards scores of all rows, and ``sum_k ||X_k W||_*`` limits those of rows with an
observed positive. Scores of the other rows are limited only by the loss of their known labels, and
by the ridge. docs/research/solver.md has the proofs.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from naim3l._arrays import Mask, Matrix
from naim3l.problem.blocks import distinct, thread_map
from naim3l.problem.compressed import CompressedProblem, Form
from naim3l.problem.rotation import Rotation
from naim3l.problem.row_sums import ViewStatistics
from naim3l.problem.rows import GRAM_COLUMNS, Problem, append_ones

# Relative accuracy of eigenvalues of views with too many rows and columns for a dense matrix.
LANCZOS_ACCURACY = 1e-2


def bounding_ridge(problem: Form, lam: float, form: Form | None = None) -> float:
    """Smallest ridge for which the scores that no label determines stay of the size of labels.

    In view v let ``X_P`` be the rows with label k known, weighted by their loss, and ``X_0`` the
    n_0 rows with label k unknown and no observed positive. The result is the largest eigenvalue of

        lam / sqrt(n_0) X_0'X_0 - X_P'X_P

    over all views and labels, or 0 if none is positive. Features are measured from the mean of
    ``X_P``, where the loss determines the intercept. If the label is known in no row of the view,
    the intercept is an ordinary column. Views in which the low-rank term outweighs the high-rank
    term do not count.

    Parameters
    ----------
    problem : Problem or CompressedProblem
        Statistics need ``free_grams``.
    lam : float
        Weight of the regulariser, which has both of its terms.
    form : Problem or CompressedProblem, optional
        The same problem in the form of the solver, whose statistics are used if it has some.

    Returns
    -------
    float
        0 means that the objective has a lower bound without a ridge.
    """
    n_free = [_n_free(problem, v) for v in range(len(problem.weight_slices))]
    if not np.any(n_free):
        return 0.0
    ridge = 0.0
    covered = _covered_views(form if isinstance(form, CompressedProblem) else problem)
    for v in range(len(covered)):
        if not covered[v] and n_free[v].any():
            view = _make_view(problem, v, lam, form)
            labels = view.labels[n_free[v][view.labels] > 0]
            chunks = np.array_split(labels, min(problem.n_threads, len(labels)))
            ridge = max(thread_map(partial(view.raised, ridge), chunks, len(chunks)))
    return float(ridge)


def _n_free(problem: Form, v: int) -> NDArray[np.intp]:
    """Number of free rows of each label, (n_labels,)."""
    if isinstance(problem, CompressedProblem):
        n_free = problem.views[v].n_free
        assert n_free is not None, "statistics without free_grams"
        return n_free
    return _free(problem, v).sum(axis=0)


def _free(problem: Problem, v: int) -> Mask:
    """Unknown labels of a view's rows without an observed positive, (n_rows_v, n_labels)."""
    rows = problem.row_slices[v]
    return (problem.Y[rows] == 0) & (problem.n_positives_of_rows[rows] == 0)


def _make_view(
    problem: Form, v: int, lam: float, form: Form | None
) -> "_RowsOfView | _StatisticsOfView":
    if isinstance(problem, CompressedProblem):
        return _StatisticsOfView(problem.views[v], problem.fit_intercept, lam)
    stored = form.views[v].known_grams if isinstance(form, CompressedProblem) else None
    return _RowsOfView(problem, v, lam, stored)


class _RowsOfView:
    """A view in which the ridge has to limit scores.

    Parameters
    ----------
    problem : Problem
    v : int
        Position of the view.
    lam : float
    known_grams : ndarray of shape (n_labels, d, d), optional
        ``X_P'X_P`` of every label, if they are known already.

    Attributes
    ----------
    labels : ndarray of int
        One label of those that are known in the same rows, and so share one matrix.
    """

    def __init__(self, problem: Problem, v: int, lam: float, known_grams: Matrix | None) -> None:
        self.fit_intercept, self.lam, self.free = problem.fit_intercept, lam, _free(problem, v)
        self.P = problem.P[problem.row_slices[v]]
        self.X = _reduced(problem.X[v], problem.fit_intercept)
        self.known_grams = known_grams if self.X is problem.X[v] else None
        self.labels = distinct(self.P.T)[0]

    def raised(self, ridge: float, labels: NDArray[np.intp]) -> float:
        """The ridge, or the largest eigenvalue of the labels' matrices if that is larger."""
        for k in labels:
            X, known, free = self.X, self.P[:, k], self.free[:, k]
            gains = self.lam / np.sqrt(free.sum()) * free
            if min(X.shape) > GRAM_COLUMNS:
                ridge = max(ridge, _by_products(X, known, gains, self.fit_intercept))
            else:
                loss = _gram(X, known) if self.known_grams is None else self.known_grams[k]
                ridge = _raised(ridge, _gram(X, gains), loss, self.fit_intercept)
        return ridge


class _StatisticsOfView:
    """The same from statistics of the rows."""

    def __init__(self, view: ViewStatistics, fit_intercept: bool, lam: float) -> None:
        self.view, self.fit_intercept, self.lam = view, fit_intercept, lam
        self.labels = distinct(view.known_grams)[0]

    def raised(self, ridge: float, labels: NDArray[np.intp]) -> float:
        """As that of rows."""
        free_grams, n_free = self.view.free_grams, self.view.n_free
        assert free_grams is not None and n_free is not None
        for k in labels:
            gain = self.lam / np.sqrt(n_free[k]) * free_grams[k]
            ridge = _raised(ridge, gain, self.view.known_grams[k], self.fit_intercept)
        return ridge


def _covered_views(problem: Form) -> list[bool]:
    """Whether the low-rank term outweighs the high-rank term in each view.

    It does if ``sum_k a_k X_k'X_k - X'X`` is positive semi-definite, for factors a_k of the labels
    with ``a_k^2 X_k'X_k <= X'X`` in all views. 1 is such a factor; those of rare labels are larger.
    """
    all_grams, positive_grams = _grams(problem)
    covered = [_outweighs(A, B) for A, B in zip(positive_grams, all_grams, strict=True)]
    grams = [gram for gram in all_grams if gram is not None]
    if all(covered) or len(grams) < len(covered):
        return covered
    factors = _label_factors(problem, grams)
    for v, gram in enumerate(grams):
        if not covered[v]:
            covered[v] = _outweighs(_weighted_positive_gram(problem, v, factors), gram)
    return covered


def _grams(problem: Form) -> tuple[Sequence[Matrix | None], Sequence[Matrix | None]]:
    """``X'X`` and ``sum_k X_k'X_k`` of each view; None if it is too large."""
    if isinstance(problem, CompressedProblem):
        return [view.gram for view in problem.views], [view.positive_gram for view in problem.views]
    return problem.grams, problem.positive_grams


def _weighted_positive_gram(problem: Form, v: int, factors: Matrix) -> Matrix:
    """``sum_k a_k X_k'X_k`` of a view, given all ``a_k``."""
    if isinstance(problem, CompressedProblem):
        parts = problem.views[v].factors
        return _gram(np.concatenate(parts), np.repeat(factors, [len(R) for R in parts]))
    return _gram(problem.X[v], (problem.Y[problem.row_slices[v]] > 0) @ factors)


def _label_factors(problem: Form, grams: list[Matrix]) -> Matrix:
    """Largest ``a_k`` with ``a_k^2 X_k'X_k <= X'X`` in all views, (n_labels,)."""
    shares = np.zeros(problem.n_labels)
    for v, gram in enumerate(grams):
        squares, vectors = np.linalg.eigh(gram)
        kept = squares > len(squares) * np.finfo(squares.dtype).eps * squares[-1]
        whitening = vectors[:, kept] / np.sqrt(squares[kept])
        for k, X_k in enumerate(_positive_rows(problem, v)):
            if X_k.shape[0]:
                A = X_k @ whitening
                share = np.linalg.eigvalsh(A @ A.T if len(A) < A.shape[1] else A.T @ A)[-1]
                shares[k] = max(shares[k], share)
    return 1 / np.sqrt(np.where(shares > 0, np.minimum(shares, 1), 1))


def _positive_rows(problem: Form, v: int) -> Iterable[Any]:
    """Rows of a view with each label observed positive, or their factors."""
    if isinstance(problem, CompressedProblem):
        return problem.views[v].factors
    X, positive = problem.X[v], problem.Y[problem.row_slices[v]] > 0
    return (X[np.flatnonzero(of_label)] for of_label in positive.T)


def _outweighs(A: Matrix | None, B: Matrix | None) -> bool:
    return A is not None and B is not None and _is_at_least(A, B, _rounding(A, B))


def _reduced(X: Any, fit_intercept: bool) -> Any:
    """Rows in an orthonormal basis of their own span, if that has fewer columns."""
    n_rows, n_columns = X.shape
    if n_rows >= n_columns - fit_intercept or n_rows > GRAM_COLUMNS:
        return X
    return append_ones(Rotation(X[:, :-1]).L) if fit_intercept else Rotation(X).L


def _gram(X: Any, weights: Matrix) -> Matrix:
    """``X' diag(w) X``, from the rows whose weight is not zero."""
    rows = np.flatnonzero(weights)
    part, roots = X[rows], np.sqrt(weights[rows].astype(X.dtype))
    if (roots != 1).any():
        part = sparse.diags_array(roots) @ part
    return _dense(part.T @ part)


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
    top = [len(excess) - 1] * 2
    largest = linalg.eigh(excess, eigvals_only=True, subset_by_index=top)[0]
    return max(ridge, largest) if largest > rounding else ridge


def _by_products(X: Any, known: Matrix, gains: Matrix, fit_intercept: bool) -> float:
    """The largest eigenvalue of the same matrix, by Lanczos iterations; 0 if it is negative."""
    mean = np.zeros(X.shape[1])
    if fit_intercept and known.any():
        mean = X.T @ known / known.sum()
    weights = gains - known

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


def _dense(A: Any) -> Matrix:
    return A.toarray() if sparse.issparse(A) else np.asarray(A)
