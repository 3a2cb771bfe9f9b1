"""The form of a problem follows from estimates, which are those of the arrays that are made."""

import logging
from typing import ClassVar

import numpy as np
import pytest

from naim3l.problem import cost_model, feature_blocks
from naim3l.problem.cost_model import (
    N_BLOCK_ARRAYS,
    N_SAMPLE_COPIES,
    N_WEIGHT_ARRAYS,
    SHARE_OF_SAMPLES,
    choose_form,
    estimate_costs,
    fitting_sample,
    move_to,
    refuse_blocks,
    refuse_chunks,
    refuse_statistics,
    statistics_bytes,
)
from naim3l.problem.rows import Problem
from naim3l.problem.sampling import deal_keys, fold_keys
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import RowStatistics


def draw(n, d, c=6):
    rng = np.random.default_rng(0)
    return Problem([rng.normal(size=(n, d))], [rng.choice([-1, 0, 1], size=(n, c))])


def test_many_rows_become_statistics_and_many_columns_do_not(caplog):
    tall, wide = draw(3000, 5), draw(30, 400)
    with caplog.at_level(logging.INFO, logger="naim3l.problem.cost_model"):
        assert isinstance(choose_form(tall), StatisticsProblem)
        assert choose_form(wide) is wide
    assert "form statistics: estimated" in caplog.text and "form rows: estimated" in caplog.text


def test_the_choice_follows_the_estimate_on_both_sides_of_the_border():
    chosen = set()
    for d in (5, 20, 40, 80, 160, 320):
        problem = draw(120, d)
        costs = estimate_costs(problem)
        cheaper = costs["statistics"].flops <= costs["rows"].flops
        assert isinstance(choose_form(problem), StatisticsProblem) == cheaper
        chosen.add(cheaper)
    assert chosen == {True, False}


def test_statistics_that_do_not_fit_are_not_made(monkeypatch):
    problem = draw(3000, 5)
    most = estimate_costs(problem)["statistics"].n_bytes - 1
    monkeypatch.setattr(cost_model, "MOST_BYTES", most)
    assert choose_form(problem) is problem


def test_bytes_are_those_of_the_statistics():
    problem = draw(200, 7)
    view = StatisticsProblem.of(problem).views[0]
    cost = estimate_costs(problem)["statistics"]
    held = 2 * view.known_grams.nbytes + view.factors.nbytes
    assert cost.views[0] == pytest.approx(held + N_WEIGHT_ARRAYS * view.targets.nbytes)
    blocks = N_BLOCK_ARRAYS * 8 * len(view.factors) * problem.n_labels
    assert cost.blocks == pytest.approx(blocks)
    assert cost.n_bytes == cost.views[0] + cost.blocks


def test_a_fit_beyond_the_memory_is_refused_for_what_takes_most_of_it(monkeypatch):
    monkeypatch.setattr(feature_blocks, "physical_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"view '0' \(30 rows, 400 columns\)"):
        choose_form(draw(30, 400))
    with pytest.raises(MemoryError, match=r"labels observed positive, out of 90.*fewer labels"):
        choose_form(draw(300, 2, c=90), "rows")


def test_a_form_can_be_asked_for():
    wide = draw(30, 400)
    statistics = choose_form(wide, "statistics")
    assert isinstance(statistics, StatisticsProblem) and statistics.rows is wide
    assert choose_form(statistics, "rows") is statistics
    tall = draw(3000, 5)
    assert choose_form(tall, "rows") is tall


def test_a_form_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"form must be one of .*'statistics'.*, got 'stat'"):
        choose_form(draw(30, 4), "stat")


def test_chunks_of_tables_stay_on_the_cpu(monkeypatch):
    for device in ("cpu", "auto"):
        refuse_chunks(device)
    with pytest.raises(ValueError, match="device='cuda' needs tables in memory"):
        refuse_chunks("cuda")
    monkeypatch.setattr(cost_model, "find_device", lambda name: type("Device", (), {"type": name}))
    without_rows = StatisticsProblem(StatisticsProblem.of(draw(9, 2)).views, fit_intercept=True)
    assert move_to(without_rows, "auto") is without_rows
    with pytest.raises(ValueError, match="tables that are read in chunks need device='cpu'"):
        move_to(without_rows, "cuda")


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("n_folds", [0, 3])
def test_bytes_are_those_of_the_statistics_of_a_chunk(rng, n_folds, free):
    X, Y = rng.normal(size=(400, 9)), rng.choice([-1, 0, 1], size=(400, 5))
    folds = deal_keys(n_folds, fold_keys(0, 0, np.arange(400)), Y)
    found = RowStatistics.of(X, Y, folds, n_folds=n_folds, fit_intercept=True, free=free)
    held = sum(A.nbytes for A in found.to_arrays().values())
    assert held == pytest.approx(statistics_bytes(10, 5, n_folds=n_folds, free=free), rel=0.05)


def test_blocks_of_many_labels_are_refused_before_the_solver(rng):
    X, Y = rng.normal(size=(200, 4)), np.where(rng.random((200, 30)) < 0.5, 1, -1)
    found = RowStatistics.of(X, Y.astype(np.int8))
    problem = StatisticsProblem([found.view()], fit_intercept=False)
    n_bytes = 8 * N_BLOCK_ARRAYS * problem.label_scores(np.zeros((4, 30))).size
    refuse_blocks([found], n_bytes)
    with pytest.raises(MemoryError, match=r"30 labels in 120 rows.*Fit fewer labels at a time"):
        refuse_blocks([found], n_bytes - 1)


def test_samples_take_the_share_of_the_memory_that_they_may_and_no_more_rows_than_asked_for():
    widths = {"clinic": 51, "lab": 31}
    assert fitting_sample(widths, 9, 50_000, 1e12) == 50_000
    n_rows = fitting_sample(widths, 9, 50_000, 1e8)
    row_bytes = 8 * (51 + 31 + 2 * 9) * N_SAMPLE_COPIES
    assert n_rows * row_bytes <= SHARE_OF_SAMPLES * 1e8 < (n_rows + 1) * row_bytes


class TestRefusal:
    WIDTHS: ClassVar = {"clinic": 51, "genome": 501}

    def test_it_names_what_needs_the_memory_and_how_to_need_less(self):
        with pytest.raises(MemoryError) as raised:
            refuse_statistics(self.WIDTHS, 100, n_folds=3, free=True, memory=2**30)
        message = str(raised.value)
        for what in ("100 labels", "3 folds", "view 'genome' with 501 columns"):
            assert what in message
        for cure in ("fewer labels", "n_components", "decide='sign'", "ridge instead of 'auto'"):
            assert cure in message
        held = sum(statistics_bytes(d, 100, n_folds=3, free=True) for d in self.WIDTHS.values())
        assert f"about {4 * held / 2**30:.3g} GiB of memory, and it may use 1." in message

    def test_only_cures_that_apply_are_named(self):
        with pytest.raises(MemoryError) as raised:
            refuse_statistics(self.WIDTHS, 100, memory=2**20)
        assert "decide" not in str(raised.value) and "ridge" not in str(raised.value)

    def test_the_memory_of_the_machine_is_the_limit_by_default(self, monkeypatch):
        monkeypatch.setattr(feature_blocks, "physical_memory", lambda: 2**30)
        with pytest.raises(MemoryError, match="this machine has 1"):
            refuse_statistics(self.WIDTHS, 1000)
        refuse_statistics(self.WIDTHS, 10)

    def test_more_tasks_at_a_time_need_more(self):
        refuse_statistics(self.WIDTHS, 10, memory=2**28)
        with pytest.raises(MemoryError):
            refuse_statistics(self.WIDTHS, 10, n_tasks=50, memory=2**28)
