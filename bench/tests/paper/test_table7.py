"""Timing of the sub-gradient, and Table 7 made of it."""

import numpy as np
import pytest

from naim3l_bench.paper import table7
from naim3l_bench.paper.published import TABLE7, TABLE7_SIZES
from naim3l_bench.records import Store, append
from naim3l_bench.tasks import Plan

SETTINGS = {"rows": 30, "columns": 4, "repeats": 3, "seed": 0}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def record(store, task, outcome):
    store.add(append(store.folder, task, outcome))


@pytest.mark.parametrize("name", table7.METHODS)
def test_methods_give_the_polar_factor(rng, name):
    A = rng.normal(size=(40, 6))
    G = table7.METHODS[name](A)
    # UV' has orthonormal columns, and its product with A is the symmetric factor V diag(s) V'.
    np.testing.assert_allclose(G.T @ G, np.eye(6), atol=1e-10)
    H = G.T @ A
    np.testing.assert_allclose(H, H.T, atol=1e-10)
    assert np.linalg.eigvalsh(H).min() > 0


@pytest.mark.parametrize("name", table7.METHODS)
def test_outcome_holds_the_median_of_the_times(name):
    outcome = table7.compute({}, SETTINGS | {"method": name})
    assert len(outcome["times"]) == 3
    assert outcome["seconds"] == np.median(outcome["times"])


@pytest.mark.parametrize(("rows", "word"), [(20_000, "time"), (40_000, "memory")])
def test_large_full_svd_is_recorded_as_impossible(rows, word):
    settings = {"rows": rows, "columns": 100, "method": "SVD full", "repeats": 1, "seed": 0}
    outcome = table7.compute({}, settings)
    assert outcome["impossible"].startswith(word)
    assert str(rows) in outcome["impossible"]


def test_methods_are_those_of_the_paper():
    assert list(table7.METHODS) == list(TABLE7)


def test_tasks_are_all_sizes_and_methods():
    assert len(table7.tasks(Plan({}))) == 9 * 4
    quick = table7.tasks(Plan({}, quick=True))
    assert {task.settings["rows"] for task in quick} == {10_000}
    assert "SVD full" not in {task.settings["method"] for task in quick}


def test_ratios_of_the_table(store):
    plan = Plan({}, quick=True)
    seconds = {"SVD economy": 0.3, "SVD truncated": 0.5, "Algorithm 2": 0.1}
    for task in table7.tasks(plan):
        record(store, task, {"seconds": seconds[task.settings["method"]], "times": []})
    ratios, _ = table7.tables(table7.numbers(plan, store))
    assert len(ratios.rows) == 2
    shown = dict(zip(ratios.header, (cell.text for cell in ratios.rows[0]), strict=True))
    assert shown["SVD economy"] == "3.0"
    assert shown["SVD truncated"] == "5.0"
    assert shown["SVD full"] == "–"
    published = [cell.text for cell in ratios.rows[0] if cell.mark == "published"]
    assert published == ["598.9", "1.7", "1.4"]  # 20.0031, 0.0571 and 0.0475 over 0.0334


def test_reasons_stand_in_the_note_and_missing_records_do_no_harm(store):
    plan = Plan({})
    assert table7.tables(table7.numbers(plan, store)) == []
    last = [task for task in table7.tasks(plan) if task.settings["rows"] == TABLE7_SIZES[-1][0]]
    record(store, last[0], {"impossible": "memory: too much"})
    ratios, seconds = table7.tables(table7.numbers(plan, store))
    assert "SVD full, memory: too much" in ratios.note
    for table in (ratios, seconds):
        assert all(len(row) == len(table.header) for row in table.rows)
