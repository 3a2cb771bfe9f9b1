import json

import numpy as np
import pytest

from naim3l_bench.beyond import all_methods
from naim3l_bench.paper.fig4 import nemenyi
from naim3l_bench.paper.published import TABLE2, TABLE3
from naim3l_bench.present import METRICS, mean_std
from naim3l_bench.records import Store, append
from naim3l_bench.results import collect_results
from naim3l_bench.rivals import GUESSING, RIVALS, method_name
from naim3l_bench.runner import missing_tasks, run_tasks
from naim3l_bench.tasks import Grids, Plan
from small_data import small_source

METHODS = ("NAIM3L", "PerViewRidge", "IMVWL", "FusedRidge", "NAIM3L-evidence")


@pytest.fixture(scope="module")
def plan():
    """Data with a name of the paper's, so that its figures stand beside ours."""
    rivals = {name: {} for name in RIVALS} | {"FusedRidge": {"ridge": (1.0, 10.0)}}
    grids = Grids(rivals=rivals)
    return Plan({"corel5k": small_source()}, repeats=2, grids=grids, methods=METHODS)


@pytest.fixture(scope="module")
def store(plan, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("compared"))
    run_tasks(all_methods.tasks(plan), plan.sources, store)
    return store


@pytest.fixture(scope="module")
def tables(plan, store):
    made = all_methods.tables(all_methods.numbers(plan, store))
    return {table.title: table for table in made}


def rows(table):
    return {
        row[0].text: dict(zip(table.header, (cell.text for cell in row), strict=True))
        for row in table.rows
    }


def of(store, plan, method):
    """Records of a method under the challenge of Table 2."""
    return [
        record for record in map(store.get, all_methods.tasks(plan))
        if record["settings"]["method"] == method_name(method)
        and record["settings"]["alpha"] == record["settings"]["beta"] == 0.5
    ]  # fmt: skip


def test_nothing_is_computed_twice(plan, store):
    assert missing_tasks(all_methods.tasks(plan), store) == []
    more = Plan(plan.sources, repeats=2, grids=plan.grids, methods=(*METHODS, "GLOCAL"))
    todo = missing_tasks(all_methods.tasks(more), store)
    assert {task.settings["method"] for task in todo} == {method_name("GLOCAL")}


def test_all_methods_have_the_same_splits(plan, store):
    masks = {
        tuple(record["masks"] for record in of(store, plan, method))
        for method in (GUESSING, *METHODS)
    }
    assert len(masks) == 1


def test_paper_is_beside_ours_and_each_is_measured_as_in_the_paper(plan, store, tables):
    found = rows(tables["Table 2, fitted by us: corel5k, protocol paper"])
    assert list(found) == [GUESSING, "NAIM3L", "PerViewRidge", "IMVWL", "FusedRidge"]
    published = {"NAIM3L": "NAIM3L", "IMVWL": "iMVWL"}
    for method, row in found.items():
        scoring = "all views" if row["training rows"] == "aligned" else "per view"
        for metric in METRICS:
            values = [100 * r["metrics"][scoring][metric] for r in of(store, plan, method)]
            assert row[metric] == f"{np.mean(values):.2f} ({np.std(values):.2f})"
            paper = TABLE2["corel5k"].get(published.get(method, ""), {}).get(metric)
            assert row[f"{metric}, paper"] == mean_std(paper)
        assert row["fits"] == "2"


def test_tables_3_and_4_are_of_the_methods_that_the_paper_has_there(tables):
    for table in ("Table 3", "Table 4"):
        found = rows(tables[f"{table}, fitted by us: corel5k, protocol paper"])
        assert list(found) == [GUESSING, "NAIM3L", "IMVWL"]
    paper = TABLE3["corel5k"]["iMVWL-V"]["AP"]
    found = rows(tables["Table 3, fitted by us: corel5k, protocol paper"])["IMVWL"]
    assert found["AP, paper"] == mean_std(paper)


def test_who_cannot_take_rows_that_are_not_aligned_is_named(tables):
    table = tables["The same rows, not aligned: corel5k, protocol paper"]
    assert list(rows(table)) == [GUESSING, "NAIM3L", "PerViewRidge"]
    assert "cannot be fitted to these at all: IMVWL, FusedRidge." in table.note


def test_aligned_rows_are_given_to_naim3l_as_well(tables):
    found = rows(tables["All views of a sample: corel5k, protocol paper"])
    assert list(found) == [GUESSING, *METHODS]
    assert found["NAIM3L"]["training rows"] == "not aligned"
    assert found["NAIM3L-evidence"]["training rows"] == "aligned"


def test_choices_and_failures_are_told(plan, store, tmp_path):
    found = all_methods.tables(all_methods.numbers(plan, store))
    [table] = [table for table in found if table.title.startswith("Chosen parameters")]
    row = rows(table)["FusedRidge"]
    chosen = [record["numbers"]["chosen"]["ridge"] for record in of(store, plan, "FusedRidge")]
    assert row["candidates"] == "2"
    assert all(f"ridge {ridge:g} ({chosen.count(ridge)}x)" in row["chosen"] for ridge in chosen)
    failing = Store(tmp_path)
    for task in all_methods.tasks(plan):
        record = store.get(task)
        outcome = {key: record[key] for key in ("metrics", "numbers") if key in record}
        if task.settings["method"] == method_name("IMVWL"):
            outcome["numbers"] = outcome["numbers"] | {"converged": False}
            if task.settings["seed"] == 1:
                outcome = {"impossible": "IMVWL: no such luck."}
        failing.add(append(failing.folder, task, outcome))
    [result] = collect_results(plan, ["compare"], failing)
    by_title = {table.title: table for table in result.tables}
    for title in ("Table 2, fitted by us", "All views of a sample"):
        table = by_title[f"{title}: corel5k, protocol paper"]
        assert rows(table)["IMVWL †"]["fits"] == "1 of 2, 1 failed, 1 not converged"
        assert rows(table)["NAIM3L"]["fits"] == "2"
        assert "over 1–2 seeds. † Fewer seeds than other methods" in table.note
    note = by_title["Ranks: All views of a sample, protocol paper"].note
    assert (
        "these methods have: corel5k 2. Left out, for lack of results on a dataset: IMVWL." in note
    )
    row = rows(by_title["Chosen parameters: corel5k, protocol paper"])["IMVWL"]
    assert row["fits"].endswith("; IMVWL: no such luck")
    assert any("on corel5k: IMVWL: no such luck" in sentence for sentence in result.missing)


def measured(**values):
    """Summary of a method with the same value of all metrics, by seed such as ``s3``."""
    seeds = [int(name[1:]) for name in values]
    spreads = {metric: {"values": list(values.values())} for metric in METRICS}
    return {scoring: {"seeds": seeds, **spreads} for scoring in ("per view", "all views")}


def test_ranks_are_of_the_methods_that_have_results_everywhere():
    three, four, nine = (measured(s0=value, s1=value) for value in (3.0, 4.0, 9.0))
    complete = {"NAIM3L": three, "FusedRidge": four, GUESSING: three}
    datasets = {
        "one": {"Table 2": complete | {"DM2L": nine}},
        "two": {"Table 2": complete | {"DM2L": {"all views": None, "per view": None}}},
    }
    tests = all_methods.rank_methods(datasets)
    assert list(tests) == ["Table 2, fitted by us", "All views of a sample"]
    expected = nemenyi({"NAIM3L": [3.0] * 8, "FusedRidge": [4.0] * 8})
    assert json.loads(json.dumps(tests["All views of a sample"])) == json.loads(
        json.dumps(expected | {"seeds": {"one": 2, "two": 2}, "left_out": ["DM2L"]})
    )


def test_ranks_are_of_the_seeds_that_all_ranked_methods_have():
    """On the easy seed 4, on which one method failed, the others gain nothing by it."""
    by_method = {
        "NAIM3L": measured(s0=1.0, s1=1.0, s2=1.0, s3=1.0, s4=100.0),
        "FusedRidge": measured(s0=2.0, s1=2.0, s2=2.0, s3=2.0),
        "GLOCAL": measured(s0=0.0, s2=0.0, s3=0.0),
        "LRMMC": measured(s0=9.0, s1=9.0, s2=9.0),  # only two seeds in common with all others
        "DM2L": measured(s4=200.0),
    }
    test = all_methods.rank_methods({"one": {"Table 2": by_method}})["All views of a sample"]
    assert test["ranks"] == {"FusedRidge": 1.0, "NAIM3L": 2.0, "GLOCAL": 3.0}
    assert test["seeds"] == {"one": 3} and test["left_out"] == ["LRMMC", "DM2L"]


def test_figures_that_are_far_from_those_of_the_paper_are_listed(plan, store, tables):
    about = "corel5k, protocol paper"
    table = tables[f"Table 2, fitted by us: {about}"]
    expected = []
    for method, row in rows(table).items():
        published = TABLE2["corel5k"].get({"IMVWL": "iMVWL"}.get(method, method), {})
        for metric in METRICS:
            if metric not in published:
                assert row[f"{metric}, difference"] == "–"
                continue
            scoring = "all views" if method == "IMVWL" else "per view"
            values = [100 * r["metrics"][scoring][metric] for r in of(store, plan, method)]
            mean, std = published[metric]
            difference = np.mean(values) - mean
            distance = abs(difference) / max(std, np.std(values))
            assert row[f"{metric}, difference"] == f"{difference:+.2f} ({distance:.1f} sd)"
            if distance > 3:
                expected.append((method, metric, mean_std(published[metric]), row[metric]))
    listed = tables[f"Table 2, more than 3 standard deviations from the paper: {about}"].rows
    assert [tuple(cell.text for cell in row[:4]) for row in listed] == expected != []
    assert f"{len(expected)} of the figures differ by more than 3 sd, see the next" in table.note


def test_other_protocols_are_not_held_against_the_paper(plan, store):
    found = all_methods.numbers(plan, store)
    found = {name: {"clean": of["paper"]} for name, of in found.items()}
    made = all_methods.tables(found)
    assert not [table.title for table in made if "more than 3" in table.title]
    assert not {cell.mark for table in made for row in table.rows for cell in row} & {
        "within", "outside"
    }  # fmt: skip


def test_shares_of_missing_views_and_labels_are_those_of_the_fits(plan, store, tables):
    for table, shares in (
        ("Table 2", "50 % of the rows of each view, 50 % of the positives and of the negatives"),
        ("Table 3", "50 % of the rows of each view, no labels."),
        ("Table 4", "no views, 50 % of the positives"),
    ):
        note = tables[f"{table}, fitted by us: corel5k, protocol paper"].note
        assert note.startswith(f"Missing in training: {shares}")
    two = dict(all_methods.numbers(plan, store)["methods"]["paper"]["corel5k"])
    two = {"Table 2": {m: s | {"alpha": 0.49} for m, s in two["Table 2"].items()}}
    [first, *_] = all_methods.tables({"methods": {"paper": {"two": two}}, "ranks": {"paper": {}}})
    assert first.note.startswith("Missing in training: 49 % of the rows of each view, 50 %")


def test_paper_lambda_needs_no_choice_and_other_data_have_one(plan):
    assert all_methods.candidates(plan, "corel5k", "NAIM3L") == [{"lam": 0.4, "ridge": 0.0}]
    found = all_methods.candidates(Plan({}), "yeast", "GLOCAL")
    assert len(found) == 8 and all(candidate.keys() == found[0].keys() for candidate in found)


def test_protocol_fused_has_the_fits_of_clean(plan):
    clean, fused = (
        all_methods.tasks(Plan(plan.sources, repeats=1, protocols=protocols, grids=plan.grids))
        for protocols in (("clean",), ("clean", "fused"))
    )
    assert clean == fused
