"""Messy studies from files to pages, by the commands as a new user would give them."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from messy_studies import STUDIES
from naim3l import load
from study import run


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module", params=STUDIES)
def study(request, tmp_path_factory):
    """A study in the working folder, a model of it, and everything the commands write."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        chosen = STUDIES[request.param]
        train, later = chosen.write(folder)
        sources = [f"{view}={path}" for view, path in train.items()]
        if request.param in ("news", "genes"):  # 0 and 1 may be anything, so labels are named
            labels = [part for label in chosen.labels for part in ("--labels", label)]
            fitted = done("fit", *sources, *labels, "-o", "model.skops")
        else:
            done("init", *train.values(), *chosen.words)
            fitted = done("fit", "--config", "naim3l.toml", "-o", "model.skops")
        new = [f"{view}={path}" for view, path in later.items()]
        done("predict", "model.skops", *new, "-o", "predicted.csv")
        done("impute", "model.skops", *sources, "-o", "filled")
        tested = done("evaluate", "model.skops", *new, "--report", "tested.html", "--json")
        done("report", "model.skops", *sources, "-o", "report.html")
        yield chosen, fitted, json.loads(tested.stdout), load("model.skops")


def test_ids_and_free_text_are_no_features(study):
    _, _, _, model = study
    used = {name for view in model.views_ for name in model.feature_names_in_[view]}
    assert not used & {"patient_no", "MRN", "story", "gene", "comment", "rarely_taken"}
    assert not used & set(model.label_names_)


def test_held_out_figures_foretell_those_of_new_rows(study):
    _, _, tested, model = study
    name = model.held_out_["blocks"][0]["name"]
    for metric, tolerance in (("macro-AUC", 0.08), ("1-HL", 0.03), ("AP", 0.1)):
        held_out = model.held_out_["blocks"][0]["metrics"][metric]
        new = tested["views"][name][metric]
        assert held_out["value"] == pytest.approx(new["value"], abs=tolerance)
        assert held_out["guessing"] == pytest.approx(new["guessing"], abs=tolerance)
    assert tested["views"][name]["macro-AUC"]["value"] > 0.55


def test_decisions_are_about_as_often_right_as_guessing(study):
    _, _, tested, model = study
    for view in model.views_:
        right = tested["views"][view]["1-HL"]
        assert right["value"] > right["guessing"] - 0.02  # at most a point, and what chance adds
    for label in tested["labels"].values():
        assert {entry["verdict"] for entry in label.values()}


def test_what_is_filled_in_is_probable_and_marked(study):
    chosen, _, _, model = study
    for view in model.views_:
        table = pd.read_csv(Path("filled") / f"{view}.csv")
        for label in chosen.labels:
            confidence = table[f"{label}_confidence"].dropna()
            assert confidence.between(0.5, 1).all()
            filled = table[f"{label}_filled"] == 1
            assert (table.loc[~filled, f"{label}_confidence"].dropna() == 1).all()


def test_predictions_have_ids_or_numbers_of_rows(study):
    chosen, _, _, model = study
    table = pd.read_csv("predicted.csv")
    assert set(chosen.labels) <= set(table.columns) and set(table["view"]) == set(model.views_)
    assert np.isin(table[chosen.labels].to_numpy(), (0, 1)).all()
    assert table.columns.get_loc(chosen.labels[0]) >= 2  # the view and the id before them


def test_pages_speak_plainly(study):
    chosen, _, _, model = study
    for name, on in (("report", "held-out"), ("tested", "given")):
        page = Path(f"{name}.html").read_text(encoding="utf-8")
        numbers = json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))
        assert numbers["quality"]["on"] == on
        assert "guessing" in page and "right answers" in page.lower()
        assert not re.search(r"\b(numbers|words)__", page)
        assert all(label in page for label in chosen.labels)
        assert all(view in page for view in model.views_)
