"""Messy studies from files to pages, by the commands as a new user would give them."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from messy_studies import STUDIES
from naim3l import load
from naim3l.decisions.bootstrap_metrics import VERDICTS
from study import done

# They are what the commands report about such tables.
pytestmark = pytest.mark.filterwarnings("ignore::naim3l.DataWarning")


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_from_files_to_pages(name, tmp_path, monkeypatch):
    """One test, because the fit is most of the work."""
    monkeypatch.chdir(tmp_path)
    study = STUDIES[name]
    train, later = study.write(tmp_path)
    sources, new = ([f"{view}={path}" for view, path in of.items()] for of in (train, later))
    done("init", *train.values(), *study.words)
    done("fit", "--config", "naim3l.toml", "-o", "model.naim3l")
    model = load("model.naim3l")
    ids_and_free_text_are_no_features(model)
    done("predict", "model.naim3l", *new, "-o", "predicted.csv")
    predictions_have_ids_or_numbers_of_rows(study, model)
    done("impute", "model.naim3l", *sources, "-o", "filled")
    what_is_filled_in_is_probable_and_marked(study, model)
    told = done("evaluate", "model.naim3l", *new, "--report", "tested.html", "--json")
    tested = json.loads(told.stdout)
    held_out_figures_foretell_those_of_new_rows(model, tested)
    decisions_are_about_as_often_right_as_guessing(model, tested)
    done("report", "model.naim3l", *sources, "-o", "report.html")
    pages_speak_plainly(study, model)


def ids_and_free_text_are_no_features(model):
    columns = [column for of_view in model.columns_.values() for column in of_view]
    used = {column.name for column in columns if not column.dropped}
    assert not used & {"patient_no", "MRN", "comment", "rarely_taken"}
    assert not used & set(model.label_names_)


def held_out_figures_foretell_those_of_new_rows(model, tested):
    first = model.held_out_["blocks"][0]
    # Not AP, which is higher if fewer labels of a row are known, as in training.
    for metric, tolerance in (("macro-AUC", 0.08), ("1-HL", 0.03)):
        held_out, new = first["metrics"][metric], tested["views"][first["name"]][metric]
        for of in ("value", "guessing", "uncoupled"):
            assert held_out[of] == pytest.approx(new[of], abs=tolerance)
    assert tested["views"][first["name"]]["macro-AUC"]["value"] > 0.55


def decisions_are_about_as_often_right_as_guessing(model, tested):
    for view in model.views_:
        right = tested["views"][view]["1-HL"]
        assert right["value"] > right["guessing"] - 0.02  # at most a point, and what chance adds
    for of_label in tested["labels"].values():
        assert all(entry["verdict"] in VERDICTS for entry in of_label.values())


def what_is_filled_in_is_probable_and_marked(study, model):
    for view in model.views_:
        table = pd.read_csv(Path("filled") / f"{view}.csv")
        for label in study.labels:
            confidence, filled = table[f"{label}_confidence"], table[f"{label}_filled"].notna()
            assert confidence.dropna().between(0.5, 1).all()
            assert (confidence[~filled].dropna() == 1).all()


def predictions_have_ids_or_numbers_of_rows(study, model):
    table = pd.read_csv("predicted.csv")
    assert set(study.labels) <= set(table.columns) and set(table["view"]) == set(model.views_)
    words = ("used", "never") if study.words else ("yes", "no")  # those of the tables
    assert np.isin(table[study.labels].to_numpy(), words).all()
    assert table.columns.get_loc(study.labels[0]) >= 2  # the view and the id before them


def pages_speak_plainly(study, model):
    for name, on in (("report", "held-out"), ("tested", "given")):
        page = Path(f"{name}.html").read_text(encoding="utf-8")
        numbers = json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))
        assert numbers["quality"]["on"] == on
        assert "guessing" in page and "accuracy" in page.lower()
        assert not re.search(r"\b(numbers|words)__", page)
        assert all(label in page for label in study.labels)
        assert all(view in page for view in model.views_)
