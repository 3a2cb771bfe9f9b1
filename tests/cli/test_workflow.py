"""From files to predictions and filled-in labels, as the commands do it."""

import copy
import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.metrics import f1_score, roc_auc_score

from naim3l import NAIM3L, NAIM3LCV, DataWarning, evaluate, load
from naim3l.cli.measured import by_name
from naim3l.cli.options import OPTIONS, check_combination
from naim3l.cli.settings import Config, ViewConfig
from naim3l.cli.work import (
    ViewData,
    evaluate_views,
    fit_model,
    impute,
    make_model,
    parse_sources,
    predict_tables,
    read_known,
    read_new,
    read_training,
    split,
)
from naim3l.estimators import PerViewRidge
from naim3l.features.kernels import KernelMap
from naim3l.files.readers import ReadError
from naim3l.input.roles import ViewRoles

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "messy_files.py"
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


@pytest.mark.parametrize("name", ["@{}", "a*", "[ag]e", "../age", "\x1b[31mage"])
def test_names_of_a_model_are_names_and_nothing_else(name, model, folder, tmp_path):
    """As patterns, or as "@file", they would read what whoever made the model likes to see."""
    (tmp_path / "secret.txt").write_text("password\n")
    name = name.format(tmp_path / "secret.txt")
    other = copy.deepcopy(model)
    other.feature_names_in_["clinic"][0] = name
    source = str(folder / "clinic.csv")
    with pytest.raises(ReadError, match="no column") as caught:
        read_new(other, {"clinic": source})
    assert "password" not in str(caught.value) and "\x1b" not in str(caught.value)
    other = copy.deepcopy(model)
    other.roles_["clinic"] = ViewRoles(id=name, labels=[name], ignored=[name])
    assert read_new(other, {"clinic": source})["clinic"].index.name == "patient_id"
    other = copy.deepcopy(model)
    other.label_names_[0] = name
    view = ViewConfig(source, id="patient_id")
    known = read_known(other, Config({"clinic": view}))["clinic"]
    assert known.labels[name].isna().all() and known.labels["gout"].notna().any()


def test_a_model_without_names_of_columns_takes_no_files(data, folder):
    X, Y = split(data)
    model = PerViewRidge(transformer=None).fit(
        {"lab": X["lab"].fillna(0).to_numpy()}, {"lab": Y["lab"]}
    )
    with pytest.raises(ReadError, match=r"view 'lab': .* fitted on tables without column names"):
        read_new(model, {"lab": str(folder / "lab.txt")})


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
    assert make_model({"metric": "log-loss"}, data).metric == "log-loss"
    with pytest.raises(ReadError, match="metric is what lam and ridge are chosen by"):
        check_combination({"metric": "log-loss", "lam": 0.2})
    check_combination({"lam": 0.2, "ridge": "auto"})
    assert make_model({"lam": 0.2, "ridge": "auto"}, data).ridge == "auto"
    with pytest.raises(ReadError, match=r"ridge = .auto. is for a given lam"):
        check_combination({"lam": 0.2, "ridge": "auto", "tune": True})


def test_names_of_columns_and_of_their_words_are_plain(model):
    assert {"ward_north", "bmi"} <= set(model.transformers_["clinic"][0].get_feature_names_out())


QUICK = {"lam": 0.4, "ridge": 1.0}


def test_views_get_their_kernels(data):
    one = make_model(QUICK | {"kernel": "rbf", "n_landmarks": 20, "positive_weight": 2}, data)
    assert (one.kernel, one.n_landmarks, one.positive_weight) == ("rbf", 20, 2)
    some = make_model(QUICK | {"kernel": {"lab": "rbf"}, "gamma": {"lab": 0.5}}, data)
    assert some.kernel == {"clinic": None, "lab": "rbf", "survey": None}
    assert some.gamma == {"clinic": "auto", "lab": 0.5, "survey": "auto"}
    # The same model, whose weights are those of columns.
    linear = make_model(QUICK | {"kernel": "linear", "n_landmarks": 20}, data)
    assert linear.kernel is None and linear.n_landmarks == NAIM3L().n_landmarks


def test_views_of_numbers_and_of_words_keep_as_many_components(data):
    model = fit_model(make_model(QUICK | {"n_components": 2}, data), data)
    assert {len(W) for W in model.coef_.values()} == {2}


def test_words_and_holes_are_filled_in_before_the_kernel(data, folder):
    model = fit_model(make_model(QUICK | {"kernel": "rbf", "n_landmarks": 30}, data), data)
    chain, kernel_map = model.transformers_["clinic"]
    assert "ward_north" in chain[0].get_feature_names_out()
    assert isinstance(kernel_map, KernelMap) and model.coef_["clinic"].shape[0] <= 30
    # Words are read as in training, though the chain is in another one.
    again = read_new(model, {"clinic": str(folder / "clinic.csv")})["clinic"]
    pd.testing.assert_frame_equal(again, data["clinic"].features)


@pytest.mark.parametrize("kernel", ["chi2", "hellinger"])
def test_histograms_are_compared_as_they_are(rng, kernel):
    counts = pd.DataFrame(rng.poisson(3, (60, 5)).astype(float), columns=list("abcde"))
    labels = pd.DataFrame({"flu": (counts["a"] > counts["b"]).astype(float), "gout": 0.0})
    labels.loc[::3, "gout"] = 1.0
    whole = ViewData(counts, [], labels)
    holes = ViewData(counts.mask(counts > 7).assign(ward="north"), ["ward"], labels)
    data = {"whole": whole, "holes": holes}
    model = make_model(QUICK | {"kernel": kernel, "n_landmarks": 20}, data)
    fit_model(model, data)
    assert isinstance(model.transformers_["whole"][1], KernelMap)
    filled = model.transformers_["holes"][0].transform(holes.features)
    mean = holes.features["a"].mean()
    assert filled[:, 0].tolist() == holes.features["a"].fillna(mean).tolist()
    with pytest.raises(ReadError, match=f"{kernel!r} compares counts as they are, .*'scale'"):
        check_combination({"kernel": kernel, "transformer": "scale"})
    data["whole"] = ViewData(counts - 3, [], labels)
    with pytest.raises(ValueError, match=r"view 'whole'.*negative"):
        fit_model(model, data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_landmarks": 10}, "n_landmarks is for kernels"),
        ({"gamma": 0.5}, "gamma is for kernels"),
        ({"kernel": {"lab": "rbf"}, "gamma": {"clinic": 0.5}}, "gamma.clinic: view 'clinic' has"),
        ({"tune": True, "solver": "fast"}, "solver is for a given lam"),
        ({"low_rank": False}, "high_rank=True needs low_rank=True"),
        ({"solver": "paper", "positive_weight": 2}, "positive_weight= needs solver='fast'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ReadError, match=message):
        check_combination(options)


def test_every_option_is_a_parameter_of_the_model():
    parameters = {*NAIM3L().get_params(), *NAIM3LCV().get_params()}
    assert set(OPTIONS) - parameters == {"tune"}


def test_algorithm_1_has_no_checkpoint(data):
    model = make_model({"solver": "paper"}, data, checkpoint="c")
    assert model.solver == "paper" and model.checkpoint is None


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
    assert fused.index.name == "patient_id"
    chances = predict_tables(model, X, "probabilities")
    labels = predict_tables(model, X, fused=True)
    both = sorted(set(X["lab"].index) & set(X["survey"].index))
    base = logit(model.base_rates_)
    for someone in both[:20]:
        evidence = logit(chances.loc[someone, LABELS].to_numpy(dtype=float)) - base
        np.testing.assert_allclose(fused.loc[someone], base + evidence.sum(axis=0))
    together = predict_tables(model, X, "probabilities", fused=True)
    np.testing.assert_allclose(logit(together), fused)
    # Decided on against the mean of what the two thresholds are in log-odds.
    curves = [model.calibration_[view].log_odds(model.thresholds_[view]) for view in X]
    expected = fused.loc[both] > np.mean(curves, axis=0)
    assert (labels.loc[both] == expected).to_numpy().all()


def test_an_id_with_one_view_is_predicted_as_in_that_view(model, folder):
    X = read_new(model, {"lab": str(folder / "lab.txt"), "survey": str(folder / "survey.parquet")})
    alone = sorted(set(X["lab"].index) - set(X["survey"].index))
    of_lab = {"lab": X["lab"].loc[alone]}
    for kind in ("labels", "probabilities"):
        fused = predict_tables(model, X, kind, fused=True).loc[alone]
        np.testing.assert_allclose(
            fused.astype(float), predict_tables(model, of_lab, kind).astype(float)
        )


def test_a_view_that_does_not_know_a_label_has_no_say_in_it(data):
    views = {name: data[name] for name in ("lab", "survey")}
    views["survey"] = ViewData(
        views["survey"].features, [], views["survey"].labels.assign(gout=np.nan)
    )
    model = fit_model(make_model(QUICK | {"high_rank": False}, views), views)
    X, _ = split(views)
    fused = predict_tables(model, X, fused=True)["gout"]
    alone = predict_tables(model, {"lab": X["lab"]})["gout"]
    assert (fused.loc[alone.index] == alone).all() and alone.any()
    assert not fused.drop(index=alone.index).any()


def test_what_no_view_has_a_cell_of_is_not_decided_on(model, folder):
    X = read_new(model, {"lab": str(folder / "lab.txt")})
    X["lab"] = X["lab"].iloc[:4].copy()
    X["lab"].iloc[1] = np.nan
    with pytest.warns(DataWarning, match=f"no answer: view 'lab', patient_id {X['lab'].index[1]}"):
        labels = predict_tables(model, X, "labels", fused=True)
    assert labels.isna().all(axis=1).tolist() == [False, True, False, False]


def test_models_without_probabilities_are_fused_by_the_mean(data):
    views = {name: data[name] for name in ("lab", "survey")}
    X, Y = split(views)
    plain = NAIM3L(ridge=1.0, threshold=0.1).fit(X, Y).set_output(transform="pandas")
    someone = next(iter(set(X["lab"].index) & set(X["survey"].index)))
    mean = np.mean([S.loc[someone] for S in plain.decision_function(X).values()], axis=0)
    np.testing.assert_allclose(predict_tables(plain, X, "scores", fused=True).loc[someone], mean)
    labels = predict_tables(plain, X, fused=True).loc[someone]
    assert labels.tolist() == (mean > 0.1).tolist()
    assert evaluate_views(plain, views)["blocks"][-1]["name"] == "fused"
    for fused in (True, False):
        with pytest.raises(ReadError, match=r"no probabilities.*calibrate=True"):
            predict_tables(plain, X, "probabilities", fused=fused)


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


@pytest.mark.parametrize("least", [None, 0.8])
def test_filled_labels_are_those_of_python_with_their_probability(model, data, least):
    X, Y = split(data)
    python, probabilities = model.impute_labels(X, Y, least), model.predict_proba(X)
    for view, filled in impute(model, data, least).items():
        for name in LABELS:
            value, confidence = filled[name].astype(float), filled[f"{name}_confidence"]
            pd.testing.assert_series_equal(value, python[view][name].astype(float))
            yes, known = np.asarray(probabilities[view][name]), Y[view][name].notna()
            added = filled[f"{name}_filled"] == 1
            pd.testing.assert_series_equal(added, ~known & value.notna(), check_names=False)
            expected = np.where(value == 1, yes, 1 - yes)
            np.testing.assert_array_equal(confidence[added], expected[added])
            assert (confidence[added] >= (least or 0.5)).all() and (confidence[known] == 1).all()
            np.testing.assert_array_equal(confidence.isna(), value.isna())
            assert value.isna().any() == (least is not None)


def test_filling_in_needs_probabilities(data):
    model = make_model({"lam": 0.4, "ridge": 1.0}, data).set_params(calibrate=False)
    plain = fit_model(model, data)
    with pytest.raises(ReadError, match="no probabilities; fit it with calibrate=True"):
        impute(plain, data)


def test_evaluation_beats_chance_and_fused_is_there_for_shared_ids(model, data):
    result = evaluate_views(model, data)
    found = by_name(result)
    assert list(found["views"]) == ["mean over views", "clinic", "lab", "survey", "fused"]
    for metrics in found["views"].values():
        assert metrics["macro-AUC"]["value"] > 0.7 > metrics["macro-AUC"]["guessing"] == 0.5
        assert metrics["macro-AUC"]["uncoupled"] > 0.6
    assert found["labels"]["flu"]["mean over views"]["yes"] == sum(
        int((view.labels["flu"] == 1).sum()) for view in data.values()
    )
    assert list(found["labels"]) == LABELS and set(found["labels"]["flu"]) == set(found["views"])
    X, Y = split(data)
    scores = np.asarray(model.decision_function({"lab": X["lab"]})["lab"])
    decided = np.asarray(model.predict({"lab": X["lab"]})["lab"])
    for k, name in enumerate(LABELS):
        truth = Y["lab"][name].to_numpy(dtype=float)
        known = ~np.isnan(truth)
        expected = {
            "yes": (truth == 1).sum(),
            "no": (truth == 0).sum(),
            "auc": roc_auc_score(truth[known], scores[known, k]),
            "f1": f1_score(truth[known], decided[known, k]),
        }
        of_lab = found["labels"][name]["lab"]
        assert {key: of_lab[key] for key in expected} == pytest.approx(expected)


def test_a_table_without_known_labels_is_named_and_left_out(model, data):
    unknown = dataclasses.replace(data["lab"], labels=data["lab"].labels * np.nan)
    with pytest.warns(DataWarning, match="view 'lab': no label is known in it"):
        found = evaluate_views(model, {"clinic": data["clinic"], "lab": unknown})
    assert {"clinic"} <= {block["name"] for block in found["blocks"]} <= {"clinic", "fused"}
    assert found["blocks"][0]["metrics"]["AP"]["value"] > 0.5


def test_the_model_without_coupling_is_ridge_regression_of_each_table(model, data):
    """Its figures are those of the model that is kept for the purpose, on the same rows."""
    X, Y = split(data)
    scores = model.uncoupled_.set_output(transform="default").decision_function(X)
    found = by_name(evaluate_views(model, data))["views"]
    for view, S in scores.items():
        expected = evaluate(Y[view][LABELS].to_numpy(), S)
        assert found[view]["AP"]["uncoupled"] == pytest.approx(expected["AP"])
        gain = found[view]["AP"]["value"] - expected["AP"]
        assert found[view]["AP"]["gain"]["value"] == pytest.approx(gain)


def test_labels_are_ranked_by_scores_and_decided_on_by_thresholds(model, data):
    of_lab = by_name(evaluate_views(model, data))["views"]["lab"]
    result = {name: metric["value"] for name, metric in of_lab.items()}
    X, Y = data["lab"].features, data["lab"].labels[LABELS].to_numpy()
    scores = np.asarray(model.decision_function({"lab": X})["lab"])
    decided = np.asarray(model.predict({"lab": X})["lab"])
    assert result["AP"] == pytest.approx(evaluate(Y, scores)["AP"])
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


def test_new_rows_that_do_not_fit_are_told(model, folder):
    with pytest.raises(ReadError, match=r"the model has no view 'ward'"):
        read_new(model, {"ward": str(folder / "lab.txt")})
    with pytest.raises(ReadError, match=r"view 'clinic', .*no column 'age'"):
        read_new(model, {"clinic": str(folder / "lab.txt")})


def test_words_are_missing_in_new_rows_where_they_would_be_in_training(folder, tmp_path):
    """And are the same words where a file of new rows has numbers alone in their column."""
    table = pd.read_csv(folder / "clinic.csv")
    words = ["7", "8", "north", "?", "unknown", "south"]
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
