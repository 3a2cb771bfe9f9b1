import logging

import numpy as np
import pytest

from naim3l.problem import choice as forms
from naim3l.problem.choice import N_BLOCK_ARRAYS, N_WEIGHT_ARRAYS, choose_form, estimate_costs
from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.rows import Problem


def draw(n, d, c=6):
    rng = np.random.default_rng(0)
    return Problem([rng.normal(size=(n, d))], [rng.choice([-1, 0, 1], size=(n, c))])


def test_many_rows_are_compressed_and_many_columns_are_not(caplog):
    tall, wide = draw(3000, 5), draw(30, 400)
    with caplog.at_level(logging.INFO, logger="naim3l.problem.choice"):
        assert isinstance(choose_form(tall), CompressedProblem)
        assert choose_form(wide) is wide
    assert "form compressed: estimated" in caplog.text and "form rows: estimated" in caplog.text


def test_the_choice_follows_the_estimate_on_both_sides_of_the_border():
    chosen = set()
    for d in (5, 20, 40, 80, 160, 320):
        problem = draw(120, d)
        costs = estimate_costs(problem)
        cheaper = costs["compressed"].total.flops <= costs["rows"].total.flops
        assert isinstance(choose_form(problem), CompressedProblem) == cheaper
        chosen.add(cheaper)
    assert chosen == {True, False}


def test_statistics_that_do_not_fit_are_not_made(monkeypatch):
    problem = draw(3000, 5)
    most = estimate_costs(problem)["compressed"].total.n_bytes - 1
    monkeypatch.setattr(forms, "MOST_BYTES", most)
    assert choose_form(problem) is problem


def test_bytes_are_those_of_the_statistics():
    problem = draw(200, 7)
    view = CompressedProblem.from_problem(problem).views[0]
    held = 2 * view.known_grams.nbytes + sum(R.nbytes for R in view.factors)
    estimate = estimate_costs(problem)["compressed"]
    held += N_WEIGHT_ARRAYS * view.targets.nbytes
    assert estimate.views[0].n_bytes == pytest.approx(held)
    blocks = N_BLOCK_ARRAYS * 8 * sum(len(R) for R in view.factors) * problem.n_labels
    assert estimate.blocks.n_bytes == pytest.approx(blocks)


def test_a_form_can_be_asked_for():
    wide = draw(30, 400)
    compressed = choose_form(wide, "compressed")
    assert isinstance(compressed, CompressedProblem)
    assert choose_form(compressed, "rows") is compressed
    tall = draw(3000, 5)
    assert choose_form(tall, "rows") is tall


def test_a_form_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"form must be one of .*'compressed'.*, got 'compresed'"):
        choose_form(draw(30, 4), "compresed")
