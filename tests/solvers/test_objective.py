import numpy as np
import pytest

import oracle
from naim3l.problem.rows import Problem
from naim3l.solvers.objective import Objective


@pytest.fixture
def case(terms, make_problem, rng):
    features, labels, problem = make_problem(seed=2)
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    return Objective(problem, lam=0.4, **terms), W, features, labels


def test_value_is_the_paper_s_objective(case):
    objective, W, features, labels = case
    terms = {name: getattr(objective, name) for name in ("ridge", "low_rank", "high_rank")}
    expected = oracle.objective(features, labels, W, lam=0.4, **terms)
    assert objective.value(W) == pytest.approx(expected, rel=1e-12)


def test_parts_add_up_and_absent_terms_are_zero(case):
    objective, W, *_ = case
    record = objective.parts(W)
    total = record.pop("objective")
    assert total == pytest.approx(sum(record.values()), rel=1e-14)
    assert total == objective.value(W)
    assert (record["low_rank"] == 0) == (not objective.low_rank)
    assert (record["high_rank"] == 0) == (not objective.high_rank)
    assert (record["ridge"] == 0) == (objective.ridge == 0)
    assert objective.parts(W, fit=(record["loss"], record["ridge"]))["objective"] == total


def test_its_slopes_are_those_of_the_gradient(case, rng):
    objective, W, features, labels = case
    D, h = rng.normal(size=W.shape), 1e-6
    numerical = (objective.value(W + h * D) - objective.value(W - h * D)) / (2 * h)
    terms = {name: getattr(objective, name) for name in ("ridge", "low_rank", "high_rank")}
    expected = oracle.gradient(features, labels, W, lam=0.4, **terms)
    assert np.sum(expected * D) == pytest.approx(numerical, rel=1e-6)


def test_regulariser_is_not_negative_if_every_row_has_a_positive(make_problem, rng):
    features, labels, _ = make_problem(seed=3)
    for Y in labels:
        Y[:, 0] = 1
    objective = Objective(Problem(features, labels), lam=1.0)
    for _ in range(20):
        parts = objective.parts(rng.normal(size=(14, 6)))
        assert parts["low_rank"] + parts["high_rank"] >= 0
