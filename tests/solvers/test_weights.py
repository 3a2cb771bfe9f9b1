"""Both W-steps solve their equations, whatever the shapes and masks."""

import numpy as np
import pytest

import oracle
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.solvers.weights import DirectWeightStep, IterativeWeightStep, make_weight_step

CASES = {
    "tall": {},
    "few positives": {"positive": 0.05, "n_rows": (40, 60)},
    "complete labels": {"observed": 1.0},
    "more columns than rows": {"n_rows": (12, 9), "n_features": (20, 15)},
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request, make_problem):
    features, labels, _ = make_problem(seed=2, **request.param)
    labels[0][:, 2] = 0  # a label that is known in no row of a view
    return features, labels, Problem(features, labels)


@pytest.mark.parametrize("ridge", [0.5, 3.0])
@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0])
def test_solves_every_label_s_equations(case, rng, ridge, mu):
    features, labels, problem = case
    X, Y = oracle.block_rows(features), np.concatenate(labels)
    S = sum(X[Y[:, k] == 1].T @ X[Y[:, k] == 1] for k in range(problem.n_labels))
    B = X.T @ rng.normal(size=Y.shape)
    steps = (
        DirectWeightStep(StatisticsProblem.of(problem), ridge),
        IterativeWeightStep(problem, ridge, accuracy=0.0),
    )
    for step in steps:
        W = step(B, mu, np.zeros_like(B))
        for k in range(problem.n_labels):
            known = X[Y[:, k] != 0]
            left = known.T @ known + mu * S
            left += ridge * np.diag(oracle.penalised(features, labels)[:, k])
            np.testing.assert_allclose(left @ W[:, k], B[:, k], atol=1e-7)


def test_without_ridge_what_no_row_determines_stays_zero(make_problem, rng):
    features, labels, _ = make_problem(n_rows=(6, 40), n_features=(15, 3))
    problem = Problem(features, labels, fit_intercept=False)
    step = make_weight_step(StatisticsProblem.of(problem), 0.0)
    R = np.where(problem.P, rng.normal(size=problem.Y.shape), 0)
    W = step(problem.multiply_transposed(R), 1.0, np.zeros((18, 6)))
    outside = np.linalg.svd(features[0])[2][6:]  # directions orthogonal to all six rows
    np.testing.assert_allclose(outside @ W[:15], 0, atol=1e-10)


def test_a_new_mu_needs_no_new_step(make_problem, rng):
    *_, problem = make_problem()
    statistics = StatisticsProblem.of(problem)
    B = rng.normal(size=(problem.n_weights, problem.n_labels))
    one = DirectWeightStep(statistics, 0.1)
    for mu in (0.5, 5.0, 0.5):
        np.testing.assert_array_equal(one(B, mu, B), DirectWeightStep(statistics, 0.1)(B, mu, B))


def test_the_form_decides(make_problem):
    *_, problem = make_problem()
    assert isinstance(make_weight_step(problem, 0.0), IterativeWeightStep)
    statistics = StatisticsProblem.of(problem)
    assert isinstance(make_weight_step(statistics, 0.0), DirectWeightStep)


def test_conjugate_gradients_end_at_once_where_there_is_nothing_to_do(make_problem, rng):
    """Right sides of zero, columns that are solved beside others, a view of zeros."""
    features, labels, _ = make_problem(seed=3)
    features[1] = np.zeros_like(features[1])
    problem = Problem(features, labels, fit_intercept=False)
    step = IterativeWeightStep(problem, 0.0, accuracy=0.0)
    zero = np.zeros_like(problem.targets)
    assert not step(zero, 0.5, zero).any()
    B = problem.targets.copy()
    B[:, 1:] = 0
    W = step(B, 0.5, zero)
    assert np.isfinite(W).all() and W[:, 0].any() and not W[:, 1:].any()
    assert not W[problem.weight_slices[1]].any()


def test_steps_on_rows_keep_float32(make_problem):
    features, labels, _ = make_problem(seed=3)
    problem = Problem([X.astype(np.float32) for X in features], labels)
    W = IterativeWeightStep(problem, 0.5, accuracy=0.01)(problem.targets, 0.5, 0 * problem.targets)
    assert W.dtype == np.float32


def test_without_penalty_a_step_is_ridge_regression(make_problem):
    *_, problem = make_problem(seed=3)
    step = IterativeWeightStep(problem, 0.5, accuracy=0.0)
    W = step(problem.targets, 0.0, np.zeros_like(problem.targets))
    gradient = problem.loss_and_gradient(W)[1] + 0.5 * problem.penalised * W
    assert np.abs(gradient).max() < 1e-8


def test_directions_that_nothing_determines_stay_near_the_start():
    """One row and ten columns: scores are determined, nine directions of the weights are not."""
    X = np.random.default_rng(0).uniform(0, 3, (1, 10))
    problem = Problem([X], [np.array([[1.0]])])
    W = 0 * problem.targets
    for mu in (0.5, 0.6, 0.72, 0.86):  # solved again and again, beyond rounding error
        W = IterativeWeightStep(problem, 0.0, accuracy=0.0)(problem.targets, mu, W)
        direct = DirectWeightStep(StatisticsProblem.of(problem), 0.0)
        expected = direct(problem.targets, mu, W)
        np.testing.assert_allclose(problem.multiply(W), problem.multiply(expected), rtol=1e-6)
        assert np.abs(W).max() < 10


def test_steps_in_single_precision_leave_the_share_of_the_residual_that_they_may(make_problem, rng):
    *_, problem = make_problem(seed=3)
    step, exact = (IterativeWeightStep(problem, 5.0, accuracy) for accuracy in (0.03, 0.0))
    assert all(X.dtype == np.float32 for X in step._single)
    assert all(X is None for X in exact._single)
    start = rng.normal(size=problem.targets.shape)
    W, solution = step(problem.targets, 0.7, start), exact(problem.targets, 0.7, start)
    assert W.dtype == np.float64
    assert np.linalg.norm(W - solution) < 0.1 * np.linalg.norm(start - solution)
    for _ in range(8):  # the error left is corrected by the next step
        W = step(problem.targets, 0.7, W)
    np.testing.assert_allclose(W, solution, atol=1e-9)
