"""Neighbour graphs against loops over pairs of rows, and their systems against dense solutions."""

import numpy as np
import pytest
from scipy import sparse

from naim3l_bench.methods.graphs import (
    heat_graph,
    neighbor_mean,
    normalized_laplacian,
    solve_shifted,
    view_laplacian,
)


def naive_weights(X, n_neighbors):
    squared = np.array([[np.sum((x - y) ** 2) for y in X] for x in X])
    nearest = [
        [j for j in np.argsort(row) if j != i][:n_neighbors] for i, row in enumerate(squared)
    ]
    bandwidth = np.median([squared[i, j] for i, js in enumerate(nearest) for j in js])
    A = np.zeros((len(X), len(X)))
    for i, js in enumerate(nearest):
        for j in js:
            A[i, j] = A[j, i] = np.exp(-squared[i, j] / bandwidth)
    return A, bandwidth


def test_weights_are_those_of_a_loop_over_pairs(rng):
    X = rng.normal(size=(25, 3))
    A, bandwidth = heat_graph(X, 4)
    expected, median = naive_weights(X, 4)
    np.testing.assert_allclose(A.toarray(), expected, atol=1e-12)
    assert bandwidth == pytest.approx(median)


def test_the_laplacian_is_a_sum_of_squared_differences(rng):
    A, _ = naive_weights(rng.normal(size=(20, 2)), 3)
    A[0] = A[:, 0] = 0  # a row without neighbours
    L = normalized_laplacian(sparse.csr_array(A)).toarray()
    f = rng.normal(size=20)
    degrees = np.where(A.sum(axis=1) > 0, A.sum(axis=1), 1)
    gaps = (f / np.sqrt(degrees))[:, None] - f / np.sqrt(degrees)
    assert f @ L @ f == pytest.approx(np.sum(A * gaps**2) / 2)
    assert not L[0].any() and not L[:, 0].any()


def test_rows_that_lack_the_view_are_in_no_graph(rng):
    X, present = rng.normal(size=(20, 3)), rng.random(20) < 0.6
    L, bandwidth = view_laplacian(X, present, 4)
    weights, expected = heat_graph(X[present], 4)
    inner = L.toarray()[np.ix_(present, present)]
    np.testing.assert_allclose(inner, normalized_laplacian(weights).toarray())
    assert bandwidth == expected
    assert L.toarray()[~present].any() == L.toarray()[:, ~present].any() == False  # noqa: E712


@pytest.mark.parametrize("n_rows", [1, 2])
def test_few_or_equal_rows_are_no_error(n_rows):
    L, bandwidth = view_laplacian(np.ones((n_rows, 2)), np.ones(n_rows, dtype=bool), 10)
    assert bandwidth > 0 and np.isfinite(L.toarray()).all()
    assert L.shape == (n_rows, n_rows)


def test_means_of_neighbors_are_those_of_a_loop(rng):
    new, rows, values = rng.normal(size=(6, 2)), rng.normal(size=(15, 2)), rng.normal(size=(15, 3))
    means = neighbor_mean(new, rows, values, 4, 0.7)
    for x, mean in zip(new, means, strict=True):
        squared = np.sum((rows - x) ** 2, axis=1)
        nearest = np.argsort(squared)[:4]
        np.testing.assert_allclose(
            mean, np.average(values[nearest], axis=0, weights=np.exp(-squared[nearest] / 0.7))
        )


def test_means_of_a_row_far_from_all_others_are_finite(rng):
    means = neighbor_mean(np.full((1, 2), 1e6), rng.normal(size=(5, 2)), np.ones((5, 3)), 9, 1e-3)
    np.testing.assert_allclose(means, 1)


class TestSystems:
    @pytest.fixture
    def system(self, rng):
        L, _ = view_laplacian(rng.normal(size=(40, 3)), rng.random(40) < 0.8, 5)
        shift = rng.choice([1e-4, 1.0, 7.0], size=(40, 6))
        B = shift * rng.normal(size=(40, 6))
        B[:, 2] = 0
        return L, shift, B

    def test_every_column_is_the_solution_of_its_own_dense_system(self, system, rng):
        L, shift, B = system
        X = solve_shifted(L, shift, B, rng.normal(size=B.shape), tol=1e-12, max_iter=1000)
        for k in range(6):
            expected = np.linalg.solve(L.toarray() + np.diag(shift[:, k]), B[:, k])
            np.testing.assert_allclose(X[:, k], expected, atol=1e-8)

    def test_residuals_are_as_small_as_asked(self, system):
        L, shift, B = system
        X = solve_shifted(L, shift, B, np.zeros_like(B), tol=1e-5, max_iter=1000)
        diagonal = L.diagonal()[:, None] + shift
        residuals = np.linalg.norm((L @ X + shift * X - B) / diagonal, axis=0)
        assert (residuals <= 1.01e-5 * np.linalg.norm(B / diagonal, axis=0)).all()
        again = solve_shifted(L, shift, B, X, tol=1.1e-5, max_iter=1000)
        np.testing.assert_array_equal(again, X)  # where it is solved already, nothing moves

    def test_every_iteration_lowers_the_quadratic_function(self, system, rng):
        L, shift, B = system
        start = rng.normal(size=B.shape)
        values = []
        for n_iter in range(8):
            X = solve_shifted(L, shift, B, start, tol=0, max_iter=n_iter)
            values.append(np.sum(X * (L @ X + shift * X) / 2 - B * X, axis=0))
        assert (np.diff(values, axis=0) < 0)[:, B.any(axis=0)].all()
