"""Fig. 4: which scores enter the Nemenyi tests, and what is said and drawn of them."""

import numpy as np
import pytest

from naim3l_bench.datasets.source import MultiView, StoredView
from naim3l_bench.paper import fig4
from naim3l_bench.paper.published import FIG4, TABLE2, TABLE6
from naim3l_bench.present import METRICS, spread
from naim3l_bench.records import Store, append
from naim3l_bench.tasks import Plan


@pytest.fixture
def plan():
    views = {name: StoredView.in_memory(np.zeros((4, 1))) for name in "ab"}
    source = MultiView(views, np.eye(4, dtype=int))
    return Plan({"corel5k": source, "yeast": source}, repeats=2, protocols=("paper", "fused"))


@pytest.fixture
def empty(plan, tmp_path):
    return fig4.numbers(plan, Store(tmp_path))


def summary(**methods):
    return {
        method: {metric: spread([value, value]) for metric in METRICS}
        for method, value in methods.items()
    }


def test_tasks_are_on_the_papers_data_and_protocol(plan):
    tasks = fig4.tasks(plan)
    assert {task.settings["dataset"] for task in tasks} == {"corel5k"}
    assert {task.settings["features"] for task in tasks} == {"all"}
    assert len({task.key for task in tasks}) == 3 * plan.repeats  # the whole model is in both
    assert fig4.tasks(Plan(plan.sources, protocols=("clean",))) == []


def test_scores_are_twenty_per_method():
    columns = fig4.scores(TABLE2, {})
    assert {len(column) for column in columns.values()} == {20}
    assert columns["iMVWL"][:4] == [97.84, 86.50, 28.31, 86.82]


def test_ours_take_the_place_of_the_published_to_two_digits():
    ours = {"pascal07": {"NAIM3L": dict.fromkeys(METRICS, 50.123)}}
    before, after = (fig4.scores(TABLE2, values)["NAIM3L"] for values in ({}, ours))
    assert after[4:8] == [50.12] * 4
    assert after[:4] + after[8:] == before[:4] + before[8:]


def test_ours_are_found_by_dataset_with_all_views_first():
    found = {
        "corel5k": {"paper": summary(NAIM3L=1.0)},
        "corel5k-genuine": {"paper": summary(NAIM3L=2.0)},
        "mirflickr": {"fused": summary(NAIM3L=3.0)},
        "yeast": {"paper": summary(NAIM3L=4.0)},
    }
    assert fig4.find_ours(found, TABLE2) == {"corel5k": {"NAIM3L": dict.fromkeys(METRICS, 1.0)}}
    assert fig4.find_ours(found, TABLE6) == {}  # lacks the variants


def test_the_papers_conclusions_follow_from_the_right_distance(empty):
    for key, tests in empty.items():
        test = tests["published"]
        worse = {b for a, b in test["different"] if a == "NAIM3L"}
        assert worse == set(FIG4[key]["worse"])
        assert test["q"] == pytest.approx(FIG4[key]["q"], abs=5e-4)


def test_the_printed_distance_would_not_give_them(empty):
    assert empty["table2"]["published"]["printed_different"] == [["NAIM3L", "iMSF"]]
    assert empty["table6"]["published"]["printed_different"] == []


def test_without_records_there_are_the_published_tests_alone(empty):
    assert [list(tests) for tests in empty.values()] == [["published"]] * 2
    made = fig4.tables(empty)
    assert len(made) == 2
    assert "printed formula only" in made[0].note
    assert list(fig4.figures(empty)) == ["fig4-published"]


def test_our_records_enter_the_tests(plan, tmp_path):
    store = Store(tmp_path)
    metrics = dict.fromkeys(METRICS, 0.5)
    for task in fig4.tasks(plan):
        store.add(append(tmp_path, task, {"metrics": {"per view": metrics, "fused": None}}))
    found = fig4.numbers(plan, store)
    for tests in found.values():
        assert tests["ours"]["replaced"] == ["corel5k"]
    # The worst in three results and the best in AP, where 50 is above all.
    expected = (16 * 1 + 3 * 6 + 1) / 20
    assert found["table2"]["ours"]["ranks"]["NAIM3L"] == pytest.approx(expected)
    titles = [table.title for table in fig4.tables(found)]
    assert any("ours in 4 of 20 results (corel5k)" in title for title in titles)
    assert set(fig4.figures(found)) == {"fig4-published", "fig4-ours"}


def test_rows_are_as_long_as_the_header(empty):
    for table in fig4.tables(empty):
        assert all(len(row) == len(table.header) for row in table.rows)


def test_diagram_shows_ranks_and_distance(empty):
    fig = fig4.figures(empty)["fig4-published"]
    for ax, key in zip(fig.axes, ("table2", "table6"), strict=True):
        test = empty[key]["published"]
        shown = [text.get_text() for text in ax.texts]
        assert shown == [f"{m} {r:.2f}" for m, r in test["ranks"].items()] + [
            f"CD = {test['distance']:.2f}"
        ]
        bar = ax.lines[-1].get_xdata()
        assert np.ptp(bar) == pytest.approx(test["distance"])
        assert "average rank" in ax.get_xlabel()
