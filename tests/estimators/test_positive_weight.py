"""Observed positives that count more in the loss."""

import numpy as np
import pytest

from naim3l import NAIM3L, NAIM3LCV
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.row_sums import PartStatistics
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective

WEIGHT = 3.0


@pytest.fixture
def drawn(make_problem, rng):
    features, labels, _ = make_problem(seed=5)
    problem = Problem(features, labels, positive_weight=WEIGHT)
    return features, labels, problem, rng.normal(size=(problem.n_weights, problem.n_labels))


def test_loss_counts_each_positive_so_many_times(drawn):
    features, labels, problem, W = drawn
    expected, start = 0.0, 0
    for X, Y in zip(features, labels, strict=True):
        S = X @ W[start : start + X.shape[1]] + W[start + X.shape[1]]
        start += X.shape[1] + 1
        for s, y in zip(S.ravel(), np.ravel(Y), strict=True):
            if y != 0:
                expected += 0.5 * (WEIGHT if y > 0 else 1.0) * (s - y) ** 2
    assert problem.loss(W) == pytest.approx(expected)
    assert CompressedProblem.from_problem(problem).loss(W) == pytest.approx(expected)


def test_gradient_matches_finite_differences_in_both_forms(drawn, rng):
    *_, problem, W = drawn
    D, h = rng.normal(size=W.shape), 1e-6
    numerical = (problem.loss(W + h * D) - problem.loss(W - h * D)) / (2 * h)
    for form in (problem, CompressedProblem.from_problem(problem)):
        gradient = form.loss_and_gradient(W)[1]
        assert np.vdot(gradient, D) == pytest.approx(numerical, rel=1e-6)


def test_statistics_of_parts_combine(drawn):
    features, labels, *_ = drawn
    X, Y = features[0], labels[0]
    whole = PartStatistics.of(X, Y).view(WEIGHT)
    parts = PartStatistics.of(X[:7], Y[:7]).combine(PartStatistics.of(X[7:], Y[7:])).view(WEIGHT)
    np.testing.assert_allclose(parts.known_grams, whole.known_grams)
    np.testing.assert_allclose(parts.targets, whole.targets)
    assert parts.weight == whole.weight == np.sum(Y < 0) + WEIGHT * np.sum(Y > 0)


@pytest.mark.parametrize("form", ["rows", "compressed"])
def test_solver_reaches_a_stationary_point(drawn, form):
    *_, problem, _ = drawn
    objective = Objective(problem, 0.3, ridge=0.5)
    result = solve_fast(objective, tol=1e-6, max_iter=3000, form=form)
    assert result.converged
    gradient = objective.subgradient(result.W)
    assert np.linalg.norm(gradient) < 1e-3 * np.linalg.norm(problem.targets)


def test_other_labels_keep_the_weight(drawn):
    *_, problem, W = drawn
    again = problem.with_labels(problem.Y)
    assert again.loss(W) == problem.loss(W)


@pytest.mark.parametrize("make", [NAIM3L, PerViewRidge])
def test_more_weight_more_yes(make):
    data = make_unpaired(150, n_features=(9, 9), n_labels=6, n_latent=4, labels_per_row=1.0,
                         missing_labels=0.3, noise=1.0, random_state=0)  # fmt: skip
    yes = [
        sum(
            S.sum()
            for S in make(ridge=1.0, positive_weight=w)
            .fit(data.views, data.labels)
            .predict(data.views)
            .values()
        )
        for w in (0.5, 1.0, 5.0)
    ]
    assert yes[0] < yes[1] < yes[2]


@pytest.mark.parametrize("make", [NAIM3L, NAIM3LCV, PerViewRidge])
@pytest.mark.parametrize("weight", [0, -1.0, np.nan, "balanced"])
def test_bad_weights_are_refused(make, weight):
    with pytest.raises(ValueError, match="positive_weight must be a finite number > 0"):
        make(positive_weight=weight).fit({"a": np.eye(4)}, {"a": np.eye(4)})


def test_algorithm_1_knows_no_weights():
    with pytest.raises(ValueError, match="needs solver='fast'"):
        NAIM3L(positive_weight=2.0, solver="paper").fit({"a": np.eye(4)}, {"a": np.eye(4)})
