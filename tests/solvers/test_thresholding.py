"""Thresholding of all labels, and from the singular vectors of an earlier iteration."""

import numpy as np
import pytest

from naim3l.problem import base
from naim3l.problem.cost_model import choose_form
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast, thresholding
from naim3l.solvers.nuclear import singular_value_threshold, threshold_and_basis, trace_norm
from naim3l.solvers.objective import Objective
from naim3l.solvers.thresholding import shrink_labels, shrink_relaxed, threshold_in_basis

SHAPES = [(9, 30), (30, 9), (12, 12), (4, 9, 30), (3, 30, 9)]


def errors(rng, shape, threshold, sizes):
    """Errors of the first order, and their estimates, at matrices so far from that of the basis."""
    A, D = rng.normal(size=shape), rng.normal(size=shape)
    V = threshold_and_basis(A, threshold)[1]  # double precision, so that small errors are seen
    for size in sizes:
        near = A + size * D
        Z, estimate = threshold_in_basis(near, V, threshold)
        yield np.linalg.norm(Z - singular_value_threshold(near, threshold)), estimate


@pytest.mark.parametrize("threshold", [0.5, 3.0], ids=["few below", "many below"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_neglected_is_of_second_order_and_estimated(rng, shape, threshold):
    (one, first), (two, second), (three, _) = errors(rng, shape, threshold, (1e-2, 1e-3, 1e-4))
    # A hundredth for a tenth of the distance, unless a value crosses the threshold on the way.
    assert two < 0.03 * one and three < 0.03 * two
    for error, estimate in ((one, first), (two, second)):
        assert estimate / 20 < error < 20 * estimate


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_basis_of_the_matrix_itself_gives_the_exact_result(rng, shape):
    A = rng.normal(size=shape)
    Z, vectors, norms = threshold_and_basis(A, 2.0)
    np.testing.assert_allclose(Z, singular_value_threshold(A, 2.0), atol=1e-12)
    np.testing.assert_allclose(norms, trace_norm(A))
    near, neglected = threshold_in_basis(A, vectors, 2.0)
    np.testing.assert_allclose(near, Z, atol=1e-10)
    assert neglected < 1e-10
    single, neglected = threshold_in_basis(A, vectors.astype(np.float32), 2.0)
    assert single.dtype == np.float32 and neglected < 1e-4
    np.testing.assert_allclose(single, Z, atol=1e-5)


@pytest.mark.parametrize(("lower", "largest_error"), [(0.5, 1e-8), (1.0, 1e-5)])
def test_equal_and_vanishing_singular_values_are_no_trouble(rng, lower, largest_error):
    """On the threshold itself the function has a kink, and errors are of first order."""
    Q = np.linalg.qr(rng.normal(size=(20, 6)))[0]
    P = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    A = P * np.array([5.0, 5.0, 5.0, lower, lower, 0.0]) @ Q.T
    V = threshold_and_basis(A, 1.0)[1]
    near = A + 1e-5 * rng.normal(size=A.shape)
    Z, _ = threshold_in_basis(near, V, 1.0)
    np.testing.assert_allclose(Z, singular_value_threshold(near, 1.0), atol=largest_error)


@pytest.mark.parametrize("large", [1e9, 1], ids=["one thread", "threads"])
@pytest.mark.parametrize("threshold", [0.0, 0.7])
def test_relaxed_blocks_are_combined_and_shrunken_label_by_label(
    make_problem, rng, monkeypatch, large, threshold
):
    monkeypatch.setattr(base, "LARGE_NUMBERS", large)
    *_, problem = make_problem(n_labels=9)
    shape = (problem.n_block_rows, problem.n_labels)
    B, Z, scores = (rng.normal(size=shape) for _ in range(3))
    combined = 0.5 * B - 0.9 * Z + 1.4 * scores
    shrunken = np.concatenate(
        [singular_value_threshold(combined[rows], threshold) for rows in problem.label_slices]
    )
    given_scores = scores.copy()
    B, Z, distance, size, exact = shrink_relaxed(problem, B, Z, scores, (0.5, -0.9, 1.4), threshold)
    np.testing.assert_allclose(B, combined, atol=1e-12)
    np.testing.assert_allclose(Z, shrunken, atol=1e-10)
    np.testing.assert_array_equal(scores, given_scores)
    assert distance == pytest.approx(np.linalg.norm(scores - shrunken))
    assert size == pytest.approx(np.linalg.norm(shrunken)) and exact


def test_blocks_are_shrunken_and_measured_label_by_label(make_problem, rng):
    *_, problem = make_problem(n_labels=9)
    A = rng.normal(size=(problem.n_block_rows, problem.n_labels))
    Z, norms = shrink_labels(problem, A, 0.7)
    each = [A[rows] for rows in problem.label_slices]
    np.testing.assert_allclose(
        Z, np.concatenate([singular_value_threshold(block, 0.7) for block in each])
    )
    assert norms == pytest.approx(sum(trace_norm(block) for block in each))
    copy, none = shrink_labels(problem, A, 0.0)
    assert none is None and copy is not A
    np.testing.assert_array_equal(copy, A)


@pytest.mark.parametrize("form", ["rows", "statistics"])
def test_bases_are_used_while_they_are_near(make_problem, rng, form):
    problem = choose_form(make_problem(n_labels=9, n_rows=(60, 50))[-1], form)
    W, D = rng.normal(size=(2, problem.n_weights, problem.n_labels))
    bases = {}

    def shrink(size, accuracy):
        scores = problem.label_scores(W + size * D)
        arrays = [scores.copy(), np.zeros_like(scores), scores]
        *_, Z, _, _, exact = shrink_relaxed(problem, *arrays, (1.0, 0.0, 0.0), 1.0, bases, accuracy)
        expected = shrink_labels(problem, scores, 1.0)[0]
        return np.linalg.norm(Z - expected) / np.linalg.norm(expected), exact

    assert shrink(0.0, 0.1) == (pytest.approx(0, abs=1e-12), True)  # there are none yet
    first = dict(bases)
    error, exact = shrink(1e-3, 1e-3)
    assert not exact and 1e-12 < error < 1e-3
    assert all(bases[group] is first[group] for group in bases)
    error, exact = shrink(1e-3, 0.0)
    assert exact and error < 1e-12
    error, exact = shrink(1.0, 1e-3)  # too far away
    assert exact and error < 1e-12
    error, exact = shrink(1.0 + 1e-4, 1e-3)
    assert not exact and error < 1e-3


@pytest.fixture
def large(monkeypatch):
    """Blocks of every size count as large, so that thresholding is not always exact."""
    monkeypatch.setattr(base, "LARGE_NUMBERS", 1)


@pytest.mark.parametrize("form", ["rows", "statistics"])
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_a_fit_ends_as_one_with_exact_thresholding(make_problem, monkeypatch, large, lam, form):
    features, labels, _ = make_problem(seed=1, n_labels=12, n_rows=(150, 120))
    objective = Objective(Problem(features, labels), lam, ridge=1.0)
    used, whole = [], thresholding.threshold_in_basis

    def count(*arguments):
        used.append(arguments)
        return whole(*arguments)

    monkeypatch.setattr(thresholding, "threshold_in_basis", count)
    result = solve_fast(objective, form=form, tol=1e-4)
    assert result.converged and used
    # The certificate is exact: multipliers belong to the sub-differential at Z.
    state = result.state
    Z = shrink_labels(choose_form(objective.problem, form), state.B, state.threshold)[0]
    np.testing.assert_allclose(state.Z, Z, atol=1e-10)
    monkeypatch.setattr(base, "LARGE_NUMBERS", 10**9)
    exact = solve_fast(objective, form=form, tol=1e-4)
    assert objective.value(result.W) == pytest.approx(objective.value(exact.W), rel=1e-4)
