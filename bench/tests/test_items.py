"""Promises of every item: plain numbers, whole tables, figures that can be read."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from naim3l_bench import results
from naim3l_bench.beyond import accuracy, frontier
from naim3l_bench.datasets import MultiView
from naim3l_bench.datasets.catalog import STAND_IN
from naim3l_bench.items import ITEMS
from naim3l_bench.paper import comparison, fig5, fig7
from naim3l_bench.present import (
    METRICS,
    ResultTable,
    compare,
    mean_std,
    paired_difference,
    spread,
    to_markdown,
)
from naim3l_bench.records import Store
from naim3l_bench.rivals import RIVALS
from naim3l_bench.runner import run_tasks
from naim3l_bench.tasks import Grids, Plan
from small_data import small_source

table2, table6 = ITEMS["table2"], ITEMS["table6"]
NAMES = [name for name in ITEMS if name != "table7"]  # times something; has a test of its own
each_item = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.torch] * (name == "blend")) for name in NAMES]
)

NETWORKS = {"network": {"hidden": [4]}, "training": {"max_epochs": 2}}
FEW = Grids(
    lams=(0.1, 0.4),
    checkpoints=(5, 20),
    lams_with_ridge=(0.4,),
    lams_without_ridge=(0.1,),
    ridges=(1.0,),
    kernel_ridges=(1.0,),
    frontier_ridges=(1.0,),
    ridges_alone=(1.0,),
    kernel_ridges_alone=(1.0,),
    Cs=(1.0,),
    kernel_Cs=(1.0,),
    n_landmarks=8,
    rivals={name: {} for name in RIVALS},  # defaults
    blend={
        "n_kernel_components": 5,
        "n_components": 4,
        "overlap": 0.5,
        **NETWORKS,
    },
    deep={"n_components": 4, **NETWORKS},
)


@pytest.fixture(scope="module")
def small():
    """A plan with few values to try and short runs of Algorithm 1."""
    source = small_source(90, 4)
    few = ("NAIM3L", "DM2L", "NAIM3L-evidence")
    return Plan({"small": source}, repeats=2, protocols=("clean", "fused"), grids=FEW, methods=few)


@pytest.fixture(scope="module")
def done(small, tmp_path_factory):
    """All items computed."""
    store = Store(tmp_path_factory.mktemp("items"))
    for name in NAMES:
        run_tasks(ITEMS[name].tasks(small), small.sources, store)
    return store


@each_item
def test_numbers_are_plain_and_tables_whole(name, small, done):
    item = ITEMS[name]
    numbers = item.numbers(small, done)
    plain = json.loads(json.dumps(numbers))
    tables = item.tables(numbers)
    assert tables == item.tables(plain)
    assert any(table.rows for table in tables)
    for table in tables:
        assert all(len(row) == len(table.header) for row in table.rows), table.title
        assert to_markdown(table).count("\n|") == len(table.rows) + 2


@each_item
def test_axes_are_labelled(name, small, done):
    item = ITEMS[name]
    if not hasattr(item, "figures"):
        pytest.skip("has tables only")
    for figure in item.figures(item.numbers(small, done)).values():
        for ax in figure.axes:
            assert ax.get_xlabel(), name
        figure.canvas.draw()  # nothing in it fails when it is drawn


@pytest.mark.parametrize("name", list(ITEMS))
def test_nothing_done_yet_is_no_error(name, small, tmp_path):
    item = ITEMS[name]
    numbers = item.numbers(replace(small, quick=True), Store(tmp_path))
    item.tables(numbers)
    if hasattr(item, "figures"):
        item.figures(numbers)


def test_metrics_are_means_over_seeds(small, done):
    summary = table2.numbers(small, done)["small"]["clean"]["NAIM3L"]["AP"]
    records = done.find(table2.tasks(replace(small, protocols=("clean",))))
    values = [100 * record["metrics"]["per view"]["AP"] for record in records]
    assert summary["mean"] == pytest.approx(np.mean(values))
    assert summary["std"] == pytest.approx(np.std(values))


def test_variants_share_a_record_with_the_table_before(small):
    full = {task.key for task in table2.tasks(small)}
    assert full <= {task.key for task in table6.tasks(small)}


def test_published_figures_stand_beside_ours_but_not_beside_fused_ones():
    ours = {metric: spread([50.0, 51.0]) for metric in METRICS}
    by_protocol = {protocol: {"NAIM3L": ours} for protocol in ("paper", "clean", "fused")}
    whole, genuine = table2.tables({"corel5k": by_protocol, "corel5k-genuine": by_protocol})
    paper, clean, fused = whole.rows[1 :: len(METRICS)]
    assert paper[-3].text == "87.84 (0.21)" and paper[-3].mark == "published"
    assert paper[-1].mark == "outside" and paper[-1].text.startswith("-37.34")
    assert clean[-1].text == paper[-1].text and clean[-1].mark == ""  # not the paper's way
    assert {cell.text for cell in fused[2:-2]} == {"–"} and fused[-1].text == "–"
    assert genuine.rows[1][-1].mark == "" and "fewer views" in genuine.note


@pytest.mark.parametrize(
    ("values", "published", "mark"),
    [
        ([30.0, 31.0], (31.4, 0.1), "within"),  # 0.9 apart, ours deviates by 0.5
        ([30.0, 31.0], (31.6, 0.1), "outside"),
        ([30.0, 31.0], (31.6, 0.6), "within"),
        ([98.704, 98.704], (98.70, 0.0), "within"),  # the printed digits agree
    ],
)
def test_within_two_of_the_larger_deviation(values, published, mark):
    assert compare(spread(values), published).mark == mark


def test_mean_std_takes_spreads_pairs_and_nothing():
    shown = [mean_std(value) for value in (spread([1, 2]), (1.5, 0.5), None)]
    assert shown == ["1.50 (0.50)", "1.50 (0.50)", "–"]


def test_impossible_ratio_is_told_with_its_reason(small, done):
    numbers = fig5.numbers(small, done)
    assert "must be at most" in numbers["small"]["clean"]["alpha 0.9"]["impossible"]
    (table,) = fig5.tables(numbers)
    assert "Not possible" in table.note


class TestPairedDifference:
    def test_is_that_of_the_definition(self, rng):
        first, second = rng.normal(size=(2, 10))
        found = paired_difference(first.tolist(), second.tolist())
        d = first - second
        interval = stats.ttest_1samp(d, 0).confidence_interval(0.95)
        assert found["mean"] == pytest.approx(d.mean())
        assert found["mean"] - found["margin"] == pytest.approx(interval.low)
        assert found["t_test"] == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
        assert found["wilcoxon"] == pytest.approx(stats.wilcoxon(d).pvalue)

    def test_of_equal_values_is_nothing(self):
        found = paired_difference([1.0, 2.0], [1.0, 2.0])
        assert (found["mean"], found["t_test"], found["wilcoxon"]) == (0, 1, 1)

    def test_of_values_that_differ_by_a_constant_is_certain(self):
        found = paired_difference([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
        assert (found["mean"], found["margin"], found["t_test"]) == (1, 0, 0)


def test_some_seeds_failed_is_told(small, done, tmp_path):
    store = Store(tmp_path)
    tasks = table2.tasks(replace(small, protocols=("clean",)))
    store.add(done.get(tasks[0]))
    store.add({"key": tasks[1].key, "settings": tasks[1].settings, "impossible": "too few rows"})
    (result,) = results.collect_results(replace(small, protocols=("clean",)), ["table2"], store)
    assert "over 1 seed." in result.tables[0].note
    assert result.missing == ["table2: 1 of 2 not possible on small: too few rows"]


def test_stand_in_views_are_told(small):
    whole = small.sources["small"]
    stored = {**whole.views.stored, "Gist" + STAND_IN: whole.views.stored["view0"]}
    plan = replace(small, sources={"small": MultiView(stored, whole.labels)})
    tables = [ResultTable(f"Table 2: {name}", ["metric"], note="Means.") for name in ("small", "x")]
    told, other = (results._with_stand_ins(table, plan).note for table in tables)
    assert told == "Means. small: 3 genuine views and 1 recomputed ones (GistRecomputed)."
    assert other == "Means."


def test_paths_of_algorithm_1_end_at_its_last_weights(small, done):
    (record, *_) = done.find(comparison.trace_fits(small, "small", "clean"))
    assert record["numbers"]["path"]["20"] == record["metrics"]
    assert len(record["numbers"]["objective"]) == 20


def test_runs_of_algorithm_1_are_as_long_as_the_plan_says(small, done):
    (table,) = fig7.tables(fig7.numbers(small, done))
    assert table.note.startswith("Algorithm 1, 20 iterations;")


@pytest.mark.parametrize("dataset", ["small", "corel5k", "arxiv2007"])
def test_each_naim3l_stands_beside_ridge_on_the_same_features(dataset):
    models = accuracy.models(dataset, Grids())
    for name, ridge in (("NAIM3L + ridge", "ridge"), ("NAIM3L, kernel", "ridge, kernel"),
                        ("NAIM3L + ridge, features", "ridge, features")):  # fmt: skip
        ours, alone = models[name][1], models[ridge][1]
        for shared in ("features", "kernel", "n_landmarks", "cv", "metric"):
            assert ours.get(shared) == alone.get(shared), (name, shared)
        assert alone["variant"] == "loss" and "variant" not in ours


def test_gains_at_equal_are_those_of_models_that_there_are():
    ours = [(90.0, 40.0), (91.0, 38.0), (92.0, 30.0)]
    assert frontier.gain_at_equal((90.5, 37.0), ours) == 1.0  # of (91, 38), nothing between
    assert frontier.gain_at_equal((90.0, 41.0), ours) == -1.0
    assert frontier.gain_at_equal((93.0, 10.0), ours) is None


def test_only_pairs_that_no_other_beats_are_compared_with():
    pairs = {"a": (90.0, 40.0), "b": (91.0, 38.0), "c": (90.5, 37.0), "d": (89.0, 40.0)}
    assert list(frontier.best_pairs(pairs)) == ["a", "b"]


def test_what_is_added_is_measured_on_the_splits_that_both_have():
    def told(seeds, values):
        return {"seeds": seeds, "fused": {"AP": {"values": values}}}

    first, second = told([0, 2, 3], [5.0, 7.0, 9.0]), told([0, 1, 2], [4.0, 80.0, 4.0])
    # Differences 1 and 3: their mean, and t(0.975, 1) times their deviation over root 2.
    assert accuracy._difference(first, second, "fused", "AP") == "+2.00 ± 12.71"
    assert accuracy._difference(first, told([1], [4.0]), "fused", "AP") == "–"
    assert accuracy._difference(first, {"fused": None}, "fused", "AP") == "–"


def test_curves_differ_in_the_regulariser_alone():
    by_curve = frontier.curves("corel5k", Grids())
    alone = by_curve.pop(frontier.ALONE_NAME)
    own = {"lams", "ridges", "variant"}
    shared = [{k: v for k, v in p.items() if k not in own} for p in alone.values()]
    for points in by_curve.values():
        for parameters in points.values():
            assert "variant" not in parameters
            assert {k: v for k, v in parameters.items() if k not in own} == shared[0]
    assert all(of == shared[0] for of in shared)
