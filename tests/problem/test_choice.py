import logging
from typing import ClassVar

import numpy as np
import pytest

from naim3l.problem import choice as forms
from naim3l.problem.choice import (
    N_BLOCK_ARRAYS,
    N_WEIGHT_ARRAYS,
    choose_form,
    estimate_costs,
    refuse_statistics,
    statistics_bytes,
)
from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.row_sums import PartStatistics
from naim3l.problem.rows import Problem
from naim3l.problem.sampling import entry_folds


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


def nbytes(part):
    arrays = (part.gram, part.known_grams, part.targets, part.positive_sums, part.free_grams)
    return sum(A.nbytes for A in arrays) + sum(R.nbytes for of in part.factors for R in of)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("n_folds", [0, 3])
def test_bytes_are_those_of_the_statistics_of_a_part(rng, n_folds, free):
    X, Y = rng.normal(size=(400, 9)), rng.choice([-1, 0, 1], size=(400, 5))
    folds = entry_folds(n_folds, 0, 0, np.arange(400), Y) if n_folds else None
    part = PartStatistics.of(X, Y, folds, n_folds=n_folds, fit_intercept=True, free=free)
    expected = statistics_bytes(10, 5, n_folds=n_folds, free=free)
    assert nbytes(part) == pytest.approx(expected, rel=0.05)


class TestRefusal:
    WIDTHS: ClassVar = {"clinic": 51, "genome": 501}

    def test_it_names_what_needs_the_memory_and_how_to_need_less(self):
        with pytest.raises(MemoryError) as raised:
            refuse_statistics(self.WIDTHS, 100, n_folds=3, free=True, memory=2**30)
        message = str(raised.value)
        for part in ("100 labels", "2 views", "3 folds", "view 'genome' with 501 columns"):
            assert part in message
        for cure in ("fewer labels", "n_components", "calibrate=False", "ridge instead of 'auto'"):
            assert cure in message
        held = sum(statistics_bytes(d, 100, n_folds=3, free=True) for d in self.WIDTHS.values())
        assert f"about {4 * held / 2**30:.3g} GiB of memory, and it may use 1." in message

    def test_only_cures_that_apply_are_named(self):
        with pytest.raises(MemoryError) as raised:
            refuse_statistics(self.WIDTHS, 100, memory=2**20)
        assert "calibrate" not in str(raised.value) and "ridge" not in str(raised.value)

    def test_the_memory_of_the_machine_is_the_limit_by_default(self, monkeypatch):
        monkeypatch.setattr(forms, "physical_memory", lambda: 2**30)
        with pytest.raises(MemoryError, match="this machine has 1"):
            refuse_statistics(self.WIDTHS, 1000)
        refuse_statistics(self.WIDTHS, 10)

    def test_more_tasks_at_a_time_need_more(self):
        refuse_statistics(self.WIDTHS, 10, memory=2**28)
        with pytest.raises(MemoryError):
            refuse_statistics(self.WIDTHS, 10, n_tasks=50, memory=2**28)


def test_parts_of_tables_stay_on_the_cpu():
    for device in ("cpu", "auto"):
        forms.refuse_parts(device)
    with pytest.raises(ValueError, match="device='cuda' needs tables in memory"):
        forms.refuse_parts("cuda")
