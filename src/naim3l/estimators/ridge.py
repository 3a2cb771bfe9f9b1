"""Per-view ridge regression on the observed entries, the simplest method to compare with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from naim3l.estimators.linear import PerViewModel
from naim3l.estimators.schema import PARAMETERS, in_range
from naim3l.problem.blocks import distinct
from naim3l.problem.choice import check_memory
from naim3l.problem.compressed import CompressedProblem, Form
from naim3l.problem.rows import Problem


@dataclass(eq=False, repr=False)
class PerViewRidge(PerViewModel):
    """Ridge regression of each label in each view, on the rows in which the label is known.

    Views and labels are independent of each other: column k of a view's weights solves
    ``(X' diag(P_k) X + ridge I) w = X' (P_k * Y_k)``, where intercepts are not penalised. For a
    view with fewer rows than columns, an equivalent system in the rows is solved.

    Parameters
    ----------
    ridge : float, default=1.0
        Weight of the squared weights; greater than 0. Increase it when few labels are known.
    views, transformer, n_components, kernel, n_landmarks, gamma, positive_weight, fit_intercept, \
label_coding, threshold, calibrate, fusion, random_state
        As in :class:`naim3l.NAIM3L`; with a kernel this is kernel ridge regression.

    Attributes
    ----------
    coef_, intercept_, dual_coef_, gamma_, thresholds_, calibration_, fusion_weights_, \
fusion_overlap_, base_rates_, transformers_, views_, label_names_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import PerViewRidge, evaluate
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=4, missing_labels=0.3, random_state=0)
    >>> model = PerViewRidge(ridge=1.0).fit(data.views, data.labels)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    1.0
    """

    _schema = PARAMETERS | {"ridge": in_range("ridge")}  # with 0, weights need not be unique

    ridge: float = 1.0

    def _solve(self, problem: Problem) -> NDArray[np.floating]:
        return masked_ridge(problem, self.ridge)


def masked_ridge(problem: Form, ridge: float) -> NDArray[np.float64]:
    """Stacked weights (n_weights, n_labels) of the ridge fits of all views and labels."""
    return masked_ridges(problem, [ridge])[0]


def masked_ridges(problem: Form, ridges: Sequence[float]) -> NDArray[np.float64]:
    """Weights (n_ridges, n_weights, n_labels) of `masked_ridge` for several ridges."""
    W = np.zeros((len(ridges), problem.n_weights, problem.n_labels))
    if isinstance(problem, CompressedProblem):
        _fill_from_statistics(W, problem, ridges)
    else:
        _fill_from_rows(W, problem, ridges)
    return W


def _fill_from_statistics(
    W: NDArray[np.float64], problem: CompressedProblem, ridges: Sequence[float]
) -> None:
    for view, weights in zip(problem.views, problem.weight_slices, strict=True):
        # Labels known in the same rows share one matrix.
        first, matrix_of = distinct(view.known_grams)
        for i, k in enumerate(first):
            gram, labels = view.known_grams[k], np.flatnonzero(matrix_of == i)
            if gram.any():
                W[:, weights, labels] = _by_gram(
                    gram, view.targets[:, labels], ridges, problem.fit_intercept
                )


def _by_gram(
    gram: NDArray, targets: NDArray, ridges: Sequence[float], fit_intercept: bool
) -> NDArray:
    """As `_ridges`, from ``X'CX`` and ``X'CY`` with a last column of ones if that is fitted."""
    if not fit_intercept:
        return np.stack([_solve(gram, ridge, targets) for ridge in ridges])
    total = gram[-1, -1]
    x_mean, y_mean = gram[-1, :-1] / total, targets[-1] / total
    centred = gram[:-1, :-1] - total * np.outer(x_mean, x_mean)
    right = targets[:-1] - np.outer(x_mean, targets[-1])
    return _with_intercepts([_solve(centred, ridge, right) for ridge in ridges], x_mean, y_mean)


def _fill_from_rows(W: NDArray[np.float64], problem: Problem, ridges: Sequence[float]) -> None:
    blocks = zip(problem.features, problem.row_slices, problem.weight_slices, strict=True)
    for v, (X_v, rows, weights) in enumerate(blocks):
        # Sparse rows stay as they are, others are centred; the matrix is copied to be factored.
        n_centred = 0 if sparse.issparse(X_v) else X_v.size
        check_memory(problem, v, 8 * (n_centred + 3 * min(X_v.shape) ** 2))
        # Labels known in the same rows share one matrix.
        patterns, pattern_of = np.unique(problem.P[rows], axis=1, return_inverse=True)
        for pattern, counts in enumerate(patterns.T):
            known, labels = counts > 0, np.flatnonzero(pattern_of == pattern)
            if known.any():
                Y = problem.Y[rows][known][:, labels]
                W[:, weights, labels] = _ridges(
                    X_v[known], Y, counts[known], ridges, problem.fit_intercept
                )


def _ridges(
    X: Any, Y: NDArray, counts: NDArray, ridges: Sequence[float], fit_intercept: bool
) -> NDArray:
    """Weights (n_ridges, n_weights, n_labels) of rows weighted by ``counts``; intercepts last."""
    x_mean, y_mean = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if fit_intercept:
        # Centred rows need no intercept, and large means cannot cost digits.
        x_mean, y_mean = counts @ X / counts.sum(), counts @ Y / counts.sum()
    solve = _by_columns if X.shape[1] <= X.shape[0] else _by_rows
    found = solve(X, x_mean, Y - y_mean, counts, ridges)
    return _with_intercepts(found, x_mean, y_mean) if fit_intercept else np.stack(found)


def _with_intercepts(found: list[NDArray], x_mean: NDArray, y_mean: NDArray) -> NDArray:
    """Weights of centred rows, and the intercepts of the rows as they are, for each ridge."""
    return np.stack([np.vstack([w, y_mean - x_mean @ w]) for w in found])


def _by_columns(
    X: Any, x_mean: NDArray, Y: NDArray, counts: NDArray, ridges: Sequence[float]
) -> list[NDArray]:
    """``(X'CX + ridge I)^(-1) X'CY`` of rows around their mean, with ``C = diag(counts)``."""
    if sparse.issparse(X):  # centring would make it dense
        gram = (X.T @ (sparse.diags_array(counts) @ X)).toarray()
        gram -= counts.sum() * np.outer(x_mean, x_mean)
    else:
        X = X - x_mean
        gram = X.T @ (counts[:, None] * X)
    right = X.T @ (counts[:, None] * Y)
    return [_solve(gram, ridge, right) for ridge in ridges]


def _by_rows(
    X: Any, x_mean: NDArray, Y: NDArray, counts: NDArray, ridges: Sequence[float]
) -> list[NDArray]:
    """The same as ``X'(XX' + ridge C^(-1))^(-1) Y``, with a matrix of pairs of rows."""
    if sparse.issparse(X):
        along = X @ x_mean
        gram = (X @ X.T).toarray() - along - along[:, None] + x_mean @ x_mean
    else:
        X = X - x_mean
        gram = X @ X.T
    found = []
    for ridge in ridges:
        dual = _solve(gram, ridge / counts, Y)
        w = X.T @ dual
        found.append(w - np.outer(x_mean, dual.sum(axis=0)) if sparse.issparse(X) else w)
    return found


def _solve(gram: NDArray, diagonal: Any, right: NDArray) -> NDArray:
    """``(gram + diag(diagonal))^(-1) right``."""
    matrix = gram.copy()
    matrix[np.diag_indices_from(matrix)] += diagonal
    try:
        return linalg.cho_solve(linalg.cho_factor(matrix), right)
    except linalg.LinAlgError:  # singular to working precision, because the ridge is too small
        return linalg.lstsq(matrix, right)[0]
