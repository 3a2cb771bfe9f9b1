"""Months and sites on the command line: a plan, statistics, and a model of their sum."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from naim3l import load
from naim3l.datasets import make_unpaired
from naim3l.statistics import ColumnPlan, Statistics
from study import done, run

MONTHS = {"october": slice(0, 150), "november": slice(150, 300), "december": slice(300, 450)}
CHOSEN = ["--lam", "0.4", "--ridge", "1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with the tables of three months, a plan, and statistics of each month."""
    path = tmp_path_factory.mktemp("months")
    data = make_unpaired(450, n_features=(9, 8), n_labels=3, noise=1, missing_labels=0.2,
                         random_state=0)  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for view, X in data.views.items():
            table = pd.DataFrame(X).add_prefix("x").round(4)
            table["ward"] = np.where(np.arange(450) % 3, "east", "west")
            for k, name in enumerate(("dx_flu", "dx_gout", "dx_rash")):
                cells = data.labels[view][:, k]
                table[name] = np.where(np.isnan(cells), "?", np.where(cells == 1, "ill", "no"))
            table.insert(0, "id", [f"{view}-{i}" for i in range(450)])
            for month, rows in MONTHS.items():
                (path / month).mkdir(exist_ok=True)
                table[rows].to_csv(f"{month}/{view}.csv", index=False)
                table[rows].to_parquet(f"{month}/{view}.parquet")
            table.to_csv(f"{view}.csv", index=False)
        roles = "--id", "id", "--labels", "dx_*", "--yes", "ill"
        done("plan", "a=october/view0.csv", "b=october/view1.csv", *roles, "-o", "study.plan")
        for month in MONTHS:
            sources = f"a={month}/view0.csv", f"b={month}/view1.csv"
            done("collect", *sources, "--plan", "study.plan", "-o", f"{month}.stats")
    return path


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def failed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 1 and "Traceback" not in result.output, result.output
    return result.stderr


def test_a_model_of_months_predicts(folder):
    shown = done("fit", "--statistics", "*ber.stats", "-o", "all.naim3l").output
    assert "On rows that were held out of the fit" in shown and "450" in shown
    done("predict", "all.naim3l", "a=december/view0.csv", "-o", "answers.csv")
    answers = pd.read_csv("answers.csv", index_col="id")
    assert set(answers["dx_flu"]) <= {"ill", "no"} and len(answers) == 150
    one = done("fit", "--statistics", "october.stats", *CHOSEN, "--json", "-o", "one.naim3l")
    assert json.loads(one.stdout)["views"]["a"]["rows"] == 150
    twice = failed(
        "fit", "--statistics", "*ber.stats", "--statistics", "./october.stats", "-o", "x"
    )
    assert "source 'october' is in both" in twice


def test_a_month_in_any_format_and_in_chunks_is_the_same(folder):
    pytest.importorskip("dask")
    for name, source in {
        "parquet": ["a=november/view0.parquet", "b=november/view1.parquet"],
        "chunks": ["a=november/*0.parquet", "b=november/*1.csv", "--memory", "1GB"],
    }.items():
        given = "--plan", "study.plan", "--source", "november", "-o", f"{name}.stats"
        assert "150 of a, 150 of b" in done("collect", *source, *given).output
        found, expected = Statistics.load(f"{name}.stats"), Statistics.load("november.stats")
        assert found.sources == expected.sources
        for view in "ab":
            assert_allclose(found.found[view][0].gram, expected.found[view][0].gram)
            for own, of in zip(found.found[view], expected.found[view], strict=True):
                assert (own.to_arrays().keys()) == of.to_arrays().keys()
            n = [of.found[view][0].n_positives for of in (found, expected)]
            assert (n[0] == n[1]).all()


def test_labels_in_words_mean_what_they_do_in_the_plan(folder):
    table = pd.read_csv("october/view0.csv")
    n_yes = (table["dx_flu"] == "ill").sum()
    assert Statistics.load("october.stats").found["a"][0].n_positives[:, 0].sum() == n_yes
    assert ColumnPlan.load("study.plan").roles["a"]["yes"] == ["ill"]


def test_shareable_statistics(folder):
    for month in ("october", "november"):
        sources = f"a={month}/view0.csv", f"b={month}/view1.csv", "--source", month
        out = f"{month}.shared"
        shown = done("collect", *sources, "--plan", "study.plan", "--shareable", "-o", out).output
        assert "aggregation, not anonymity" in " ".join(shown.split())
    given = "fit", "--statistics", "*.shared", "-o", "shared.naim3l"
    assert "have no rows that could be held out" in failed(*given)
    assert "lam 0.4, ridge 1" in done(*given, *CHOSEN).output
    done("predict", "shared.naim3l", "b=december/view1.csv", "-o", "answers.csv")
    assert load("shared.naim3l").decide == "sign"
    mixed = failed("fit", "--statistics", "*.shared", "--statistics", "december.stats", "-o", "x")
    assert "has shareable statistics" in mixed


def test_inspect_shows_what_a_file_has(folder):
    text = " ".join(done("inspect", "october.stats").output.split())
    assert "Encoded rows, with their labels, can be read from it: 150 of a, 150 of b." in text
    assert "dx_gout" in text and "october" in text
    shown = json.loads(done("inspect", "october.stats", "--json").stdout)
    assert shown["sources"] == {"october": {"a": 150, "b": 150}} and shown["shareable"] is False
    plan = json.loads(done("inspect", "study.plan", "--json").stdout)
    assert plan["plan"] == shown["plan"] and "sources" not in plan
    assert "study.plan" in done("inspect", "study.plan").output


def test_mistakes_are_explained(folder):
    sources = "a=october/view0.csv", "b=october/view1.csv"
    collected = "collect", *sources, "--plan"
    assert "would be overwritten" in failed(*collected, "study.plan", "-o", "study.plan")
    assert "would be overwritten" in failed(*collected, "study.plan", "-o", "october/view0.csv")
    assert "there is no such file" in failed(*collected, "other.plan", "-o", "x.stats")
    assert "its format is 'naim3l statistics'" in failed(*collected, "october.stats", "-o", "x")
    assert "no view 'c'" in failed(
        "collect", "c=october/view0.csv", "--plan", "study.plan", "-o", "x"
    )
    assert "name the model file" in failed("fit", "--statistics", "*.stats")
    assert "everything else is as in the plan" in failed(
        "fit", *sources, "--statistics", "*.stats", "-o", "x"
    )
    assert "would be overwritten" in failed(
        "fit", "--statistics", "october.stats", "-o", "october.stats"
    )
    assert "none.stats" in failed("fit", "--statistics", "none.stats", "-o", "x")
    (folder / "damaged.stats").write_bytes((folder / "october.stats").read_bytes()[:5000])
    assert "damaged" in failed("fit", "--statistics", "damaged.stats", "-o", "x")
    assert not (folder / "x").exists()
