"""Ridge regression whose labels have weights like each other, against its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from naim3l.estimators.shared import common_ridges
from naim3l.problem.sufficient_statistics import RowStatistics


def rows(rng, n=60, d=4, c=3, known=0.7):
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    Y = np.where(X @ rng.normal(size=(d, c)) + rng.normal(size=(n, c)) > 0, 1.0, -1.0)
    return X, np.where(rng.random(Y.shape) < known, Y, 0.0)


def fitted(X, Y, spread, sizes, *pairs):
    sums = RowStatistics.of(X, Y.astype(np.int8), fit_intercept=True).view()
    return common_ridges(sums, np.asarray(spread), np.asarray(sizes, float), pairs)


def by_definition(X, Y, spread, sizes, ridge, hold):
    """All weights, common ones and intercepts by least squares of one large system."""
    d, c = X.shape[1], Y.shape[1]
    A = []  # of the weights (c, d) of sized features, of m (d,), and of intercepts (c,)
    right = []
    for i, k in zip(*np.nonzero(Y), strict=True):
        row = np.zeros((c + 1) * d + c)
        row[k * d : (k + 1) * d] = X[i] * sizes
        row[(c + 1) * d + k] = 1
        A.append(row)
        right.append(Y[i, k] / spread[k])
    for k in range(c):
        of_label = np.zeros((d, (c + 1) * d + c))
        of_label[:, k * d : (k + 1) * d] = np.sqrt(ridge) * np.eye(d)
        of_label[:, c * d : (c + 1) * d] = -np.sqrt(ridge) * np.eye(d)
        A.extend(of_label)
    common = np.zeros((d, (c + 1) * d + c))
    common[:, c * d : (c + 1) * d] = np.sqrt(hold) * np.eye(d)
    A.extend(common)
    right += [0.0] * (c * d + d)
    w = np.linalg.lstsq(np.array(A), np.array(right))[0]
    coef = w[: c * d].reshape(c, d).T * np.asarray(sizes)[:, None]
    return np.vstack([coef, w[(c + 1) * d :]]) * spread


def test_weights_minimise_their_objective(rng):
    X, Y = rows(rng)
    spread, sizes = np.array([0.5, 0.3, 0.4]), np.array([1.0, 1.0, 0.3, 0.0])
    pairs = [(0.1, 2.0), (30.0, 1.0), (1000.0, 1000.0)]
    for pair, W in zip(pairs, fitted(X, Y, spread, sizes, *pairs), strict=True):
        expected = by_definition(X, Y, spread, sizes, *pair)
        assert_allclose(W, expected, rtol=1e-8, atol=1e-10)
        assert (W[3] == 0).all()


def test_without_common_weights_it_is_ridge_regression(rng):
    X, Y = rows(rng, c=2)
    (W,) = fitted(X, Y, np.ones(2), np.ones(4), (5.0, 1e12))
    for k in range(2):
        known = Y[:, k] != 0
        A, y = X[known] - X[known].mean(axis=0), Y[known, k] - Y[known, k].mean()
        assert_allclose(W[:-1, k], np.linalg.solve(A.T @ A + 5 * np.eye(4), A.T @ y), atol=1e-7)
        assert_allclose((X[known] @ W[:-1, k] + W[-1, k]).mean(), Y[known, k].mean(), atol=1e-12)


@pytest.mark.parametrize("n_known", [0, 1])
def test_a_label_that_is_hardly_known_has_the_weights_of_the_others(rng, n_known):
    X = rng.normal(size=(300, 3))
    Y = np.where(X[:, [0]] + 0.5 * rng.normal(size=(300, 5)) > 0, 1.0, -1.0)
    Y[n_known:, 4] = 0
    (W,) = fitted(X, Y, np.ones(5), np.ones(3), (100.0, 1.0))
    assert_allclose(W[:-1, 4], W[:-1, :4].mean(axis=1), rtol=0.1, atol=0.02)
    assert W[0, 4] > 0.5


def test_labels_that_disagree_have_no_common_weights(rng):
    X = rng.normal(size=(2000, 2))
    Y = np.where(np.outer(X[:, 0], [1, -1]) + 0.3 * rng.normal(size=(2000, 2)) > 0, 1.0, -1.0)
    W, alone = fitted(X, Y, np.ones(2), np.ones(2), (10.0, 1.0), (10.0, 1e12))
    assert_allclose(W, alone, atol=0.01)
    assert W[0, 0] > 0.5 > -0.5 > W[0, 1]
