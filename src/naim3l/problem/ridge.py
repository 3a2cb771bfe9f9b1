"""Ridge regression of labels on the rows in which they are known, for several ridges at once.

Weights solve ``(X'CX + ridge I) w = X'CY`` with ``C`` the diagonal matrix of the rows' weights in
the loss; intercepts are not penalised. They follow from rows or from sums over rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse

from naim3l._arrays import Matrix, as_dense
from naim3l.problem.feature_blocks import Features


def ridges_of_rows(
    X: Features, Y: Matrix, C: Matrix, ridges: Sequence[float], fit_intercept: bool
) -> Matrix:
    """Weights of labels that are known in the same rows, whose weights ``C`` are above 0.

    Shapes are (n_rows, n_features), (n_rows, n_labels) and (n_rows,); the result has shape
    (n_ridges, n_features + fit_intercept, n_labels), with intercepts last.
    """
    x_mean, y_mean = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if fit_intercept:
        # Centred rows need no intercept, and large means cannot cost digits.
        x_mean, y_mean = C @ X / C.sum(), C @ Y / C.sum()
    solve = _by_columns if X.shape[1] <= X.shape[0] else _by_rows
    found = solve(X, x_mean, Y - y_mean, C, ridges)
    return _with_intercepts(found, x_mean, y_mean) if fit_intercept else np.stack(found)


def ridges_of_gram(
    gram: Matrix, targets: Matrix, ridges: Sequence[float], fit_intercept: bool
) -> Matrix:
    """As `ridges_of_rows`, from ``X'CX`` and ``X'CY`` with a last column of ones if fitted."""
    if not fit_intercept:
        return np.stack([_solve(gram, ridge, targets) for ridge in ridges])
    total = gram[-1, -1]
    x_mean, y_mean = gram[-1, :-1] / total, targets[-1] / total
    centred = gram[:-1, :-1] - total * np.outer(x_mean, x_mean)
    right = targets[:-1] - np.outer(x_mean, targets[-1])
    return _with_intercepts([_solve(centred, ridge, right) for ridge in ridges], x_mean, y_mean)


def _with_intercepts(found: list[Matrix], x_mean: Matrix, y_mean: Matrix) -> Matrix:
    """Weights of centred rows, and the intercepts of the rows as they are, for each ridge."""
    return np.stack([np.vstack([w, y_mean - x_mean @ w]) for w in found])


def _by_columns(
    X: Features, x_mean: Matrix, Y: Matrix, C: Matrix, ridges: Sequence[float]
) -> list[Matrix]:
    """``(X'CX + ridge I)^(-1) X'CY`` of rows around their mean."""
    if sparse.issparse(X):  # centring would make it dense
        gram = as_dense(X.T @ (sparse.diags_array(C) @ X))
        gram -= C.sum() * np.outer(x_mean, x_mean)
    else:
        X = X - x_mean
        gram = X.T @ (C[:, None] * X)
    right = X.T @ (C[:, None] * Y)
    return [_solve(gram, ridge, right) for ridge in ridges]


def _by_rows(
    X: Features, x_mean: Matrix, Y: Matrix, C: Matrix, ridges: Sequence[float]
) -> list[Matrix]:
    """The same as ``X'(XX' + ridge C^(-1))^(-1) Y``, with a matrix of pairs of rows."""
    if sparse.issparse(X):
        along = X @ x_mean
        gram = as_dense(X @ X.T) - along - along[:, None] + x_mean @ x_mean
    else:
        X = X - x_mean
        gram = X @ X.T
    found = []
    for ridge in ridges:
        dual = _solve(gram, ridge / C, Y)
        w = X.T @ dual
        found.append(w - np.outer(x_mean, dual.sum(axis=0)) if sparse.issparse(X) else w)
    return found


def _solve(gram: Matrix, diagonal: Any, right: Matrix) -> Matrix:
    """``(gram + diag(diagonal))^(-1) right``."""
    matrix = gram.copy()
    matrix[np.diag_indices_from(matrix)] += diagonal
    try:
        return linalg.cho_solve(linalg.cho_factor(matrix), right)
    except linalg.LinAlgError:  # singular to working precision, because the ridge is too small
        return linalg.lstsq(matrix, right)[0]
