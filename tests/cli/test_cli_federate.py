"""From settings to shares, sums and models, with every number in words."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from naim3l import LabelSubspaceRidge, load
from naim3l.datasets import make_unpaired
from naim3l.federated import Share
from study import done, run

LABELS = ["flu", "asthma", "gout"]
SETTINGS = """
[views.clinic]
source = "{site}.csv"
id = "id"
[labels]
columns = {own}
[federated]
site = "{site}"
labels = {labels}
ridge = 2
shrinkage = 0.5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Working folder with the table and the settings of two sites; one lacks a label."""
    monkeypatch.chdir(tmp_path)
    data = make_unpaired((150, 140), n_features=(8, 9), n_labels=3, noise=1, random_state=0)
    for site, view in (("north", "view0"), ("south", "view1")):
        table = pd.DataFrame(data.views[view]).add_prefix("x").round(5)
        labels = pd.DataFrame(data.labels[view], columns=LABELS).replace({1: "yes", 0: "no"})
        labels = labels.drop(columns="gout") if site == "south" else labels
        table.join(labels).rename_axis("id").to_csv(f"{site}.csv")
        text = SETTINGS.format(site=site, own=list(labels), labels=LABELS)
        (tmp_path / f"{site}.toml").write_text(text)
    return tmp_path


def failed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    return result.output


def share_and_combine():
    for site in ("north", "south"):
        done("federate", "share", "--config", f"{site}.toml", "-o", f"{site}.share")
    return done("federate", "combine", "north.share", "south.share", "-o", "common.share").output


def test_two_sites_from_tables_to_predictions(folder):
    assert "each can subtract its own share" in share_and_combine()
    X, y = {}, {}
    for site in ("north", "south"):
        given = "--config", f"{site}.toml", "--common", "common.share", "-o", f"{site}.model"
        assert "ridge 2, shrinkage 0.5" in done("federate", "finish", *given).output
        table = pd.read_csv(f"{site}.csv", index_col="id")
        y[site] = table.filter(LABELS).map({"yes": 1.0, "no": 0.0}.get).astype(float)
        X[site] = table.drop(columns=y[site].columns)
    with pytest.warns(match="unknown here"):
        central = LabelSubspaceRidge(2.0, 0.5, decide="sign").fit(X, y)
    for site in X:
        model = load(f"{site}.model")
        assert_allclose(model.coef_["clinic"], central.coef_[site], atol=1e-10)
        done("predict", f"{site}.model", f"clinic={site}.csv", "-o", f"{site}_out.csv")
        predicted = pd.read_csv(f"{site}_out.csv", index_col="id")
        assert list(predicted) == LABELS and set(predicted["flu"]) <= {"yes", "no"}


def test_every_number_of_a_share_is_shown(folder):
    share_and_combine()
    found = Share.load("common.share")
    text, shown = (
        done("inspect", "common.share").output,
        json.loads(done("inspect", "common.share", "--json").output),
    )
    for value in found.products.ravel():
        assert f"{value:.6g}" in text
    for value in found.counts.ravel():
        assert f" {value} " in text
    assert found.seal in text and found.study in text
    assert_allclose(shown["products"]["2.0"], found.matrices[2.0], rtol=1e-12)
    assert shown["sites"] == {"north": 10, "south": 10}


def test_pairs_of_many_labels_are_shown_when_asked_for(folder):
    labels = [f"label{k}" for k in range(20)]
    c = len(labels)
    products = np.arange(c * (c + 1) / 2)[None] + 0.5
    counts = np.full((2, c), 50)
    Share(labels, {"ridges": [1.0]}, {"north": 10}, counts, counts[0] // 50, products).save(
        "big.share"
    )
    assert "210 further numbers" in done("inspect", "big.share").output
    assert "209.5" in done("inspect", "big.share", "--all").output


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_other_files_are_inspected_as_models(folder):
    """A pipe is not waited for."""
    os.mkfifo("pipe.share")
    (folder / "text.share").write_text("no archive")
    assert "not a regular file" in failed("inspect", "pipe.share")
    assert "text.share" in failed("inspect", "text.share")


def test_errors_name_the_file_and_nothing_is_written(folder):
    share_and_combine()
    text = (folder / "south.toml").read_text()
    (folder / "other.toml").write_text(text.replace("ridge = 2", "ridge = 3"))
    done("federate", "share", "--config", "other.toml", "-o", "other.share")
    bad = {
        "ridges is [2.0] at 'north', and [3.0] at 'south'": ("north.share", "other.share"),
        "site 'north' is there twice": ("north.share", "common.share"),
        "north.csv": ("north.share", "north.csv"),
    }
    for message, shares in bad.items():
        assert message in failed("federate", "combine", *shares, "-o", "x.share")
    assert "would be overwritten" in failed(
        "federate", "combine", "north.share", "-o", "north.share"
    )
    (folder / "none.toml").write_text(text.replace('site = "south"', ""))
    assert "name the site" in failed("federate", "share", "--config", "none.toml", "-o", "x.share")
    (folder / "bad.toml").write_text(text.replace("site =", "sites ="))
    assert "federated.sites" in failed("federate", "share", "--config", "bad.toml", "-o", "x.share")
    given = "--config", "other.toml", "--common", "common.share", "-o", "x.model"
    assert "ridges is [2.0] at" in failed("federate", "finish", *given)
    assert not [*folder.glob("x.*")]
