"""Leading axes against the full decomposition, by every way of finding them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator

from naim3l.features import recipes as module
from naim3l.features.recipes import (
    CentredRows,
    _is_complete,
    axes_of_scatter,
    centred_rows,
    leading_axes,
)

SHAPES = [(60, 25), (25, 60), (40, 40)]


@pytest.fixture(params=["direct", "iterations", "iterations with the rows"])
def way(request, monkeypatch):
    """Small tables are decomposed directly, or by iterations that must not fall back."""
    if request.param != "direct":
        monkeypatch.setattr(module, "DIRECT_SIZE", 0)
        monkeypatch.setattr(module, "DIRECT_TIMES", 1)
        monkeypatch.setattr(module, "ROWS_PER_RESTART", 0.01)
        monkeypatch.setattr(module, "_decompose", None)
    if request.param == "iterations with the rows":
        monkeypatch.setattr(module, "LARGEST_DIRECT", 0)
    return request.param


def assert_leading(X, squares, axes, n_axes):
    """The squares are those of NumPy's SVD, and the axes span the same space."""
    _, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert_allclose(squares, s[:n_axes] ** 2, rtol=1e-9, atol=1e-12 * s[0] ** 2)
    assert_allclose(axes @ axes.T, np.eye(n_axes), atol=1e-12)
    assert_allclose(axes.T @ axes, Vt[:n_axes].T @ Vt[:n_axes], atol=1e-10)


def spectrum(rng, shape, values):
    """Centred rows with these singular values."""
    n = len(values)
    U = rng.normal(size=(shape[0], n))
    U = np.linalg.qr(U - U.mean(axis=0))[0]
    return U * values @ np.linalg.qr(rng.normal(size=(shape[1], n)))[0].T


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_axes_are_those_of_the_full_decomposition(rng, way, shape, container):
    X = rng.normal(size=shape) * np.geomspace(1, 20, shape[1]) + rng.normal(size=shape[1])
    rows = CentredRows(container(X))
    assert_leading(X, *leading_axes(rows, 5), 5)
    assert_allclose(rows.mean, X.mean(axis=0))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equal_singular_values_are_all_found(rng, way, shape):
    X = spectrum(rng, shape, np.array([5.0, 5, 5, 5, 2, 1, 1, 0.5]))
    assert_leading(X, *leading_axes(CentredRows(X), 4), 4)


def test_axes_of_few_dimensions_are_orthonormal(rng, way):
    X = spectrum(rng, (60, 30), np.array([3.0, 2.0, 1.0]))
    squares, axes = leading_axes(CentredRows(X), 6)
    assert_allclose(squares, [9, 4, 1, 0, 0, 0], atol=1e-10)
    assert_allclose(axes @ axes.T, np.eye(6), atol=1e-12)


def test_rows_far_from_zero_keep_their_digits(rng, way):
    X = rng.normal(size=(60, 20)) * np.geomspace(1, 9, 20)
    squares, axes = leading_axes(centred_rows(X + 1e8, 3), 3)
    expected, others = leading_axes(centred_rows(X, 3), 3)
    assert_allclose(squares, expected, rtol=1e-6)
    assert_allclose(np.abs(axes @ others.T), np.eye(3), atol=1e-6)


def test_tables_of_mostly_zeros_are_treated_as_sparse(rng, monkeypatch):
    X = rng.poisson(0.1, size=(50, 40)) * np.geomspace(1, 3, 40)
    assert not sparse.issparse(centred_rows(X, 4).X)  # a direct decomposition is faster
    monkeypatch.setattr(module, "DIRECT_SIZE", 0)
    monkeypatch.setattr(module, "DIRECT_TIMES", 1)
    rows = centred_rows(X, 4)
    assert sparse.issparse(rows.X)
    assert_leading(X, *leading_axes(rows, 4), 4)
    X[:, 7] = 1e6 + rng.normal(size=50)  # its digits would be lost
    rows = centred_rows(X, 4)
    assert not sparse.issparse(rows.X)
    assert_leading(X, *leading_axes(rows, 4), 4)


def test_iterations_give_up_where_a_decomposition_is_faster(rng, monkeypatch):
    """Of noise, no few directions stand out."""
    monkeypatch.setattr(module, "ROWS_PER_RESTART", 1000)
    X = rng.normal(size=(800, 600))
    decomposed, whole = [], module._decompose

    def count(*arguments):
        decomposed.append(arguments)
        return whole(*arguments)

    monkeypatch.setattr(module, "_decompose", count)
    assert_leading(X, *leading_axes(CentredRows(X), 30), 30)
    assert len(decomposed) == 1


def test_the_scatter_has_the_same_axes(rng, way):
    X = rng.normal(size=(50, 12)) * np.geomspace(1, 9, 12)
    assert_leading(X, *axes_of_scatter(CentredRows(X).scatter(), 5), 5)


def test_a_larger_eigenvalue_that_was_left_out_is_noticed(rng):
    V = np.linalg.qr(rng.normal(size=(80, 80)))[0]
    values = np.geomspace(100, 1, 80)
    matrix = LinearOperator((80, 80), matvec=lambda u: V @ (values * (V.T @ u)), dtype=float)
    start = rng.normal(size=80)
    assert _is_complete(matrix, values[:10], V[:, :10], start)
    for left_out in (0, 4, 8):
        kept = np.delete(np.arange(10), left_out)
        assert not _is_complete(matrix, values[kept], V[:, kept], start)


@pytest.mark.parametrize("largest", [0, 5000], ids=["with the rows", "with the matrix"])
@pytest.mark.parametrize("failure", ["no convergence", "incomplete", "inaccurate"])
def test_iterations_that_fail_are_replaced(rng, monkeypatch, failure, largest):
    monkeypatch.setattr(module, "LARGEST_DIRECT", largest)
    X = rng.normal(size=(60, 25)) * np.geomspace(1, 20, 25)
    monkeypatch.setattr(module, "DIRECT_SIZE", 0)
    monkeypatch.setattr(module, "DIRECT_TIMES", 1)
    if failure == "incomplete":
        monkeypatch.setattr(module, "_is_complete", lambda *found: False)
    elif failure == "inaccurate":
        monkeypatch.setattr(module, "LARGEST_RESIDUAL", 0.0)
    else:

        def eigsh(*of, **options):
            raise ArpackNoConvergence("%s", [], [])

        monkeypatch.setattr(module, "eigsh", eigsh)
    assert_leading(X, *leading_axes(CentredRows(X), 5), 5)
