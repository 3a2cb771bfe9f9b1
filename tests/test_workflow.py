"""From files to predictions and filled-in labels, as the commands do it."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from naim3l import NAIM3L, NAIM3LCV, evaluate, load
from naim3l.readers import Config, ReadError, ViewConfig
from naim3l.workflow import (
    evaluate_views,
    fit_model,
    impute,
    make_model,
    parse_sources,
    predict_tables,
    read_known,
    read_new,
    read_training,
)

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "messy_files.py"
LABELS = ["flu", "asthma", "gout"]
SOURCES = {"clinic": "clinic.csv", "lab": "lab.txt", "survey": "survey.parquet"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    return path


def settings(folder, **changes):
    views = {
        name: ViewConfig(str(folder / source), id="patient_id", labels=LABELS)
        for name, source in SOURCES.items()
    }
    return Config(views | changes)


@pytest.fixture(scope="module")
def data(folder):
    return read_training(settings(folder))


@pytest.fixture(scope="module")
def model(data):
    return fit_model(make_model({"lam": 0.4, "ridge": 1.0}, data), data)


def test_views_are_read_with_ids_words_and_labels(data):
    assert {name: view.features.shape for name, view in data.items()} == {
        "clinic": (450, 6), "lab": (300, 6), "survey": (420, 4)
    }  # fmt: skip
    assert data["clinic"].words == ["ward"]
    assert data["lab"].features.index.name == "patient_id"
    assert data["lab"].features.to_numpy().dtype == float  # decimal commas and all
    for view in data.values():
        values = view.labels.to_numpy()
        assert set(np.unique(values[~np.isnan(values)])) == {0.0, 1.0} and np.isnan(values).any()


def test_labels_of_their_own_file_are_matched_by_id(folder, data, tmp_path):
    table = pd.read_csv(folder / "clinic.csv")
    labels = table[["patient_id", *LABELS]].sample(frac=0.5, random_state=0)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    table.drop(columns=LABELS).to_csv(tmp_path / "features.csv", index=False)
    view = ViewConfig(str(tmp_path / "features.csv"), id="patient_id", labels=LABELS,
                      labels_file=str(tmp_path / "labels.csv"))  # fmt: skip
    read = read_training(Config({"clinic": view}))["clinic"].labels
    known = read.loc[labels["patient_id"]]
    pd.testing.assert_frame_equal(known, data["clinic"].labels.loc[labels["patient_id"]])
    assert read.drop(index=labels["patient_id"]).isna().to_numpy().all()


def test_lam_and_ridge_are_tuned_unless_given(data):
    assert isinstance(make_model({}, data), NAIM3LCV)
    assert isinstance(make_model({"threshold": "sign"}, data), NAIM3LCV)
    given = make_model({"lam": 0.2}, data)
    assert isinstance(given, NAIM3L) and given.lam == 0.2
    both = make_model({"lam": 0.2, "tune": True}, data)
    assert isinstance(both, NAIM3LCV) and both.lams == [0.2]


def test_plain_numbers_keep_the_recipe_and_words_are_encoded(model):
    assert model.transformer["lab"] == "scale"
    names = model.transformers_["clinic"][0].get_feature_names_out()
    assert {"words__ward_north", "numbers__bmi"} <= set(names)


def test_new_rows_are_predicted_as_in_training(model, folder, data):
    X = read_new(model, {"clinic": str(folder / "clinic.csv")})
    pd.testing.assert_frame_equal(X["clinic"], data["clinic"].features)
    new = read_new(model, {"clinic": str(folder / "clinic_new.csv")})
    labels = predict_tables(model, new)
    assert labels.shape == (150, 3) and list(labels.columns) == LABELS
    assert labels.index.name == "patient_id" and set(np.unique(labels)) == {0, 1}
    chances = predict_tables(model, new, "probabilities")
    assert ((chances > 0) & (chances < 1)).to_numpy().all()


def test_rows_of_an_id_are_fused(model, folder):
    X = read_new(model, {"lab": str(folder / "lab.txt"), "survey": str(folder / "survey.parquet")})
    apart = predict_tables(model, X, "scores")
    fused = predict_tables(model, X, "scores", fused=True)
    assert len(apart) == 720 and apart.columns[0] == "view"
    assert len(fused) == len(set(X["lab"].index) | set(X["survey"].index))
    someone = next(iter(set(X["lab"].index) & set(X["survey"].index)))
    np.testing.assert_allclose(fused.loc[someone], apart.loc[someone, LABELS].mean())


def test_predictions_survive_the_model_file(model, folder, tmp_path):
    model.save(tmp_path / "model.skops")
    loaded = load(tmp_path / "model.skops")
    X = {"clinic": str(folder / "clinic_new.csv")}
    for kind in ("labels", "scores", "probabilities"):
        first, second = (predict_tables(m, read_new(m, X), kind) for m in (model, loaded))
        pd.testing.assert_frame_equal(first, second)


def test_unknown_labels_are_filled_in_and_known_ones_stay(model, data):
    filled = impute(model, data)["lab"]
    labels = data["lab"].labels
    for name in LABELS:
        known = labels[name].notna()
        assert (filled.loc[known, name] == labels.loc[known, name]).all()
        assert (filled.loc[known, f"{name}_confidence"] == 1).all()
        assert filled[name].notna().all()
        assert filled.loc[~known, f"{name}_confidence"].between(0, 1, inclusive="neither").all()


def test_evaluation_beats_chance_and_fused_is_there_for_shared_ids(model, data):
    result = evaluate_views(model, data)
    assert list(result["views"]) == ["clinic", "lab", "survey", "fused"]
    assert min(values["macro-AUC"] for values in result["views"].values()) > 0.7
    assert result["labels"]["flu"]["yes"] == sum(
        int((view.labels["flu"] == 1).sum()) for view in data.values()
    )


def test_labels_are_ranked_by_scores_and_decided_on_by_thresholds(model, data):
    result = evaluate_views(model, data)["views"]["lab"]
    X, Y = data["lab"].features, data["lab"].labels[LABELS].to_numpy()
    scores = np.asarray(model.decision_function({"lab": X})["lab"])
    decided = np.asarray(model.predict({"lab": X})["lab"])
    assert result["AP"] == evaluate(Y, scores)["AP"]
    assert evaluate(Y, scores)["AP"] != evaluate(Y, scores - model.thresholds_["lab"])["AP"]
    known = ~np.isnan(Y)
    assert result["1-HL"] == pytest.approx((decided[known] == Y[known]).mean())
    f1 = [f1_score(Y[known[:, k], k], decided[known[:, k], k]) for k in range(len(LABELS))]
    assert result["macro-F1"] == pytest.approx(np.mean(f1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": []}, "view 'lab': no label columns are named"),
        ({"labels": ["flue"]}, "labels of view 'lab': no column 'flue'; did you mean 'flu'"),
        ({"features": ["flu"], "ignore": ["flu"]}, "view 'lab': no column is left for features"),
        ({"labels_file": "x.csv", "id": None}, "labels in a file of their own are matched by id"),
    ],
)
def test_wrong_settings_are_told(folder, changes, message):
    view = {"source": str(folder / "lab.txt"), "id": "patient_id", "labels": LABELS, **changes}
    with pytest.raises(ReadError, match=message):
        read_training(Config({"lab": ViewConfig(**view)}))


def test_new_rows_that_do_not_fit_are_told(model, folder, tmp_path):
    with pytest.raises(ReadError, match=r"the model has no view 'ward'"):
        read_new(model, {"ward": str(folder / "lab.txt")})
    with pytest.raises(ReadError, match=r"view 'clinic', .*no column 'age'"):
        read_new(model, {"clinic": str(folder / "lab.txt")})
    table = pd.read_csv(folder / "clinic_new.csv").astype({"age": object})
    table.loc[3, "age"] = "old"
    table.to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(ReadError, match=r"column 'age': .* is text; in training it was a number"):
        read_new(model, {"clinic": str(tmp_path / "odd.csv")})


def test_words_are_missing_in_new_rows_where_they_would_be_in_training(folder, tmp_path):
    """And are the same words where a file of new rows has numbers alone in their column."""
    table = pd.read_csv(folder / "clinic.csv")
    words = ["7", "8", "north", "?", "unknown", "7"]
    table["ward"] = [words[i % len(words)] for i in range(len(table))]
    table.to_csv(tmp_path / "train.csv", index=False)
    view = ViewConfig(str(tmp_path / "train.csv"), id="patient_id", labels=LABELS)
    data = read_training(Config({"clinic": view}))
    model = fit_model(make_model({"lam": 0.4, "ridge": 1.0}, data), data)
    again = read_new(model, {"clinic": str(tmp_path / "train.csv")})["clinic"]
    pd.testing.assert_frame_equal(again, data["clinic"].features)
    known = read_known(model, Config({"clinic": view}))["clinic"]
    pd.testing.assert_frame_equal(known.features, data["clinic"].features)
    pd.testing.assert_frame_equal(known.labels, data["clinic"].labels)
    rows = table[table["ward"].isin(["7", "8", "?"])]
    rows.replace({"ward": {"?": None}}).to_csv(tmp_path / "new.csv", index=False)
    new = read_new(model, {"clinic": str(tmp_path / "new.csv")})["clinic"]
    expected = data["clinic"].features.loc[rows["patient_id"]]
    assert set(expected["ward"]) == {"7", "8", None}
    pd.testing.assert_frame_equal(new, expected)


@pytest.mark.parametrize("wrong", ["clinic.csv", "=x.csv", "a b=x.csv", "lab="])
def test_views_are_named(wrong):
    with pytest.raises(ReadError):
        parse_sources([wrong])
    with pytest.raises(ReadError, match="given twice"):
        parse_sources(["a=x.csv", "a=y.csv"])
    assert parse_sources(["db=sqlite:///x.db#select a=1"]) == {"db": "sqlite:///x.db#select a=1"}
