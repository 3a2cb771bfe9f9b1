"""Table 1 and Fig. 2, on labels with known ranks."""

import numpy as np
import pytest

from naim3l_bench.datasets.source import MultiView, StoredView
from naim3l_bench.paper import fig2, table1
from naim3l_bench.present import to_markdown
from naim3l_bench.records import Store, append
from naim3l_bench.runner import run_tasks
from naim3l_bench.tasks import Plan


@pytest.fixture
def plan(rng):
    """Every row has exactly one of five labels, so that all ranks are known."""
    Y = np.eye(5, dtype=int)[rng.permutation(np.arange(100) % 5)]
    view = StoredView.in_memory(np.zeros((100, 1)))
    return Plan({"corel5k": MultiView({"a": view}, Y), "toy": MultiView({"a": view}, Y)}, repeats=3)


@pytest.fixture
def store(tmp_path, plan):
    store = Store(tmp_path)
    run_tasks(table1.tasks(plan), plan.sources, store)
    return store


def texts(row):
    return [cell.text for cell in row]


def test_rows_are_ours_and_the_published(plan, store):
    (table,) = table1.tables(table1.numbers(plan, store))
    ours, published, toy = table.rows
    assert texts(ours) == ["corel5k", "ours", "100", "5", "1.000", "5", "5"]
    assert texts(published)[2:] == ["4999", "260", "3.396", "259", "249"]
    assert texts(toy)[0] == "toy"
    assert {cell.mark for cell in ours[2:]} == {"outside"}
    assert {cell.mark for cell in toy} == {""}
    assert "over 3 random splits" in table.note


def test_published_rank_within_the_range_of_ours_is_marked(plan, tmp_path):
    store = Store(tmp_path)
    for task, rank in zip(table1.tasks(plan), (247, 250, 248), strict=False):
        ranks = {"rank": {"signed": rank, "binary": rank - 1}}
        sizes = {"n": 4999, "c": 260, "labels_per_row": 3.39648}
        store.add(append(tmp_path, task, sizes | {"train": ranks, "test": ranks}))
    (table,) = table1.tables(table1.numbers(plan, store))
    marks = [cell.mark for cell in table.rows[0]]
    assert marks == ["", "", "within", "within", "within", "outside", "within"]
    assert table.rows[0][-1].text == "248.3 (247–250)"


def test_nothing_done_gives_nothing(plan, tmp_path):
    store = Store(tmp_path / "empty")
    for item in (table1, fig2):
        found = item.numbers(plan, store)
        assert found == {}
        assert item.tables(found) == []


def test_table1_and_fig2_share_their_tasks(plan):
    assert fig2.tasks(plan) == table1.tasks(plan)


def test_numbers_of_the_figure(plan, store):
    found = fig2.numbers(plan, store)["toy"]
    for part in ("train", "test"):
        assert found[part]["rank"]["mean"] == 5
        assert found[part]["sub_rank_mean"]["mean"] == 1
        assert found[part]["sub_ranks"]["high"] == [1] * 5


def test_tables_of_the_figure_name_the_paper_where_it_has_the_data(plan, store):
    first, second = fig2.tables(fig2.numbers(plan, store))
    assert first.header[-1] == "published"
    assert "published" not in second.header
    assert "259 and 249" in to_markdown(first)
    for table in (first, second):
        assert all(len(row) == len(table.header) for row in table.rows)


def test_curves_end_in_zeros_where_some_are_shorter():
    curve = fig2._curve([[3, 2, 1], [5, 4]])
    assert curve == {"low": [3, 2, 0], "middle": [4, 3, 0.5], "high": [5, 4, 1]}


def test_rounding_errors_count_as_zero():
    assert fig2._denoised([100.0, 1.0, 1e-12]) == [100.0, 1.0, 0.0]


def test_axes_are_labelled(plan, store):
    made = fig2.figures(fig2.numbers(plan, store))
    assert list(made) == ["fig2-corel5k", "fig2-toy"]
    for ax in made["fig2-toy"].axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_legend() is not None
