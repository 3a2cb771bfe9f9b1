"""Rows in an orthonormal basis of their span."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from naim3l.problem import rotation as rotations
from naim3l.problem.rotation import Rotation
from naim3l.problem.rows import Problem, is_rotated
from rows_of_wide_views import TABLES, of_condition


def basis_of(rotation):
    return rotation.expand(np.eye(rotation.L.shape[1]))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_the_basis_is_orthonormal_and_spans_the_rows(rng, monkeypatch, container, make):
    X = make(rng)
    monkeypatch.setattr(rotations, "_BLOCK_NUMBERS", 8)  # several blocks of columns
    rotation = Rotation(container(X))
    Q, size = basis_of(rotation), np.linalg.norm(X)
    assert rotation.L.shape[1] == np.linalg.matrix_rank(X)
    assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), rtol=0, atol=1e-9)
    assert_allclose(X @ Q, rotation.L, rtol=0, atol=1e-14 * size)
    assert_allclose(rotation.L @ Q.T, X, rtol=0, atol=1e-9 * size)


def test_small_singular_values_keep_their_digits(rng):
    X = of_condition(rng, 9, 30, 1e6)
    sizes = np.linalg.svd(Rotation(X).L, compute_uv=False)
    assert_allclose(sizes, np.geomspace(1, 1e-6, 9), rtol=1e-8)


def test_scores_of_large_weights_keep_their_digits(rng):
    X, S = of_condition(rng, 9, 30, 1e6), rng.normal(size=(9, 2))
    rotation = Rotation(X)
    W = rotation.expand(np.linalg.solve(rotation.L, S))
    assert np.abs(W).max() > 1e4
    assert_allclose(X @ W, S, atol=1e-8)
    assert_allclose(W, np.linalg.pinv(X) @ S, atol=1e-8 * np.abs(W).max())


def test_weights_are_reduced_to_their_component_in_the_span(rng):
    X, W = rng.normal(size=(6, 20)), rng.normal(size=(20, 2))
    rotation = Rotation(X)
    inside = rotation.expand(rotation.reduce(W))
    assert_allclose(inside, np.linalg.pinv(X) @ X @ W, atol=1e-12)
    M = rng.normal(size=(6, 2))
    assert_allclose(rotation.reduce(rotation.expand(M)), M, atol=1e-12)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_zeros_have_one_column(container):
    rotation = Rotation(container(np.zeros((3, 8))))
    assert_array_equal(rotation.L, np.zeros((3, 1)))
    assert_array_equal(rotation.expand(np.ones((1, 2))), np.zeros((8, 2)))
    assert_array_equal(rotation.reduce(np.ones((8, 2))), np.zeros((1, 2)))


def test_single_precision_is_kept(rng):
    rotation = Rotation(rng.normal(size=(4, 12)).astype(np.float32))
    assert rotation.L.dtype == rotation.expand(rotation.L.T).dtype == np.float32


def test_only_views_with_many_more_columns_that_are_not_too_large_are_rotated():
    assert is_rotated(np.empty((7, 10))) and not is_rotated(np.empty((8, 10)))
    assert not is_rotated(np.empty((0, 10)))
    assert is_rotated(np.empty((1000, 90_000))) and not is_rotated(np.empty((1000, 110_000)))
    assert is_rotated(sparse.eye_array(1000, 10**9, format="csr"))  # most columns are zero


def test_a_problem_of_tall_views_is_not_copied(rng):
    problem = Problem([rng.normal(size=(9, 4))], [np.ones((9, 2))])
    assert problem.rotated() is problem
