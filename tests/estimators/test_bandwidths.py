"""Bandwidths are chosen per view, by ridge regression on entries that it does not see."""

import numpy as np
import pytest

from naim3l.decisions.held_out import hidden_metrics, hold_out_folds
from naim3l.estimators.bandwidths import RIDGES, choose_gammas
from naim3l.estimators.ridge import masked_ridge
from naim3l.problem.rows import Problem

START = {"a": 1.0, "b": 10.0, "c": None}
FACTORS = [0.1, 1.0, 10.0]
GOOD = {"a": 0.1, "b": 100.0}  # gammas whose features tell the labels


@pytest.fixture
def case(rng):
    """Function that makes the problem of some gammas, and the entries to hold out."""
    Y = rng.choice([-1.0, 1.0], size=(60, 3))
    noise = rng.normal(size=(60, 3))

    def problem_at(gammas):
        tried.append(dict(gammas))
        features = [
            Y + 0.3 * noise if gamma == GOOD.get(v) else noise for v, gamma in gammas.items()
        ]
        return Problem(features, [Y] * 3)

    tried = []
    hidden = hold_out_folds(problem_at(START), 3, np.random.RandomState(0)) == 0
    tried.clear()
    return problem_at, hidden, tried


@pytest.mark.parametrize(("metric", "lowest"), [("AP", False), ("log-loss", True)])
def test_each_view_takes_the_factor_that_suits_it(case, metric, lowest):
    problem_at, hidden, _ = case
    chosen, _ = choose_gammas(START, FACTORS, problem_at, hidden, metric, lowest=lowest)
    assert chosen == {**GOOD, "c": None}


def test_every_factor_is_tried_once_and_scales_all_gammas(case):
    problem_at, hidden, tried = case
    choose_gammas(START, FACTORS, problem_at, hidden, "AP", lowest=False)
    assert tried == [{"a": f * 1.0, "b": f * 10.0, "c": None} for f in FACTORS]


def test_the_choice_is_the_best_of_exact_ridge_regressions(case, rng):
    _, hidden, _ = case
    Y = rng.choice([-1.0, 1.0], size=(60, 3))
    features = {f: [f * Y + rng.normal(size=(60, 3)) for _ in range(3)] for f in (0.2, 0.5)}

    def problem_at(gammas):
        return Problem(features[gammas["a"]], [Y] * 3)

    start = {"a": 1.0, "b": 1.0, "c": 1.0}
    chosen, _ = choose_gammas(start, list(features), problem_at, hidden, "AP", lowest=False)
    values = {}
    for factor in features:
        problem = problem_at({"a": factor})
        by_ridge = [
            hidden_metrics(problem, hidden, masked_ridge(problem.without(hidden), ridge), "AP")
            for ridge in RIDGES
        ]
        values[factor] = np.max(by_ridge, axis=0)
    best = [max(values, key=lambda factor: values[factor][v]) for v in range(3)]
    assert list(chosen.values()) == best


def test_a_view_without_a_defined_value_keeps_its_start(case):
    problem_at, hidden, _ = case
    nothing = np.zeros_like(hidden)
    chosen, _ = choose_gammas(START, FACTORS, problem_at, nothing, "AP", lowest=False)
    assert chosen == START
