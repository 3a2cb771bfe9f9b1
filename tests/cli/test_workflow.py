"""From files to predictions, filled-in labels and metrics: what the commands compute."""

import copy
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.metrics import f1_score, roc_auc_score

from naim3l import NAIM3L, DataWarning, PerViewRidge, evaluate, load
from naim3l.cli.evaluate import by_name, evaluate_rows
from naim3l.cli.predictions import (
    check_answers,
    fill_in,
    make_predictions,
    predict_fused,
    round_probabilities,
)
from naim3l.cli.settings import Settings, ViewSettings
from naim3l.cli.tables import open_new, open_training, read_known
from naim3l.files.errors import ReadError
from naim3l.input.batches import Batch
from study import LABELS, QUICK, ROLES, run, warned

SOURCES = {"clinic": "clinic.csv", "lab": "lab.txt", "survey": "survey.parquet"}


def settings(sources=SOURCES, **changes):
    return Settings(
        {
            name: ViewSettings(str(source), **{"id": "patient_id", "labels": LABELS} | changes)
            for name, source in sources.items()
        }
    )


def read_new(model, **sources):
    return {name: view.read()[0] for name, view in open_new(model, settings(sources)).items()}


def predict_rows(model, X, kind, decide=None):
    """Predictions for all views in one data frame."""
    ids = {view: batch.data.index.name for view, batch in X.items()}
    answers = make_predictions(model, ids, kind, decide)
    return pd.concat([answers[view](batch) for view, batch in X.items()])


@pytest.fixture
def model(folder):
    return load("model.naim3l")


@pytest.fixture
def rows(folder):
    """Features and labels of the views of the fit."""
    read = {name: view.read() for name, view in open_training(settings()).items()}
    return tuple({name: pair[i] for name, pair in read.items()} for i in (0, 1))


class TestReading:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"labels": []}, "view 'lab': no label columns are named"),
            ({"labels": ["flue"]}, "labels of view 'lab': no column 'flue'; did you mean 'flu'"),
            ({"features": ["flu"], "ignore": ["flu"]}, "view 'lab': no column is left for"),
            ({"labels_file": "x.csv", "id": None}, "labels_file is matched by id; name"),
            ({"text": ["kk"]}, "view 'lab': no column 'kk'"),
        ],
    )
    def test_wrong_settings_are_reported(self, folder, changes, message):
        with pytest.raises(ReadError, match=message):
            open_training(settings({"lab": "lab.txt"}, **changes))

    def test_a_label_in_other_words_is_named_with_its_line(self, folder, tmp_path):
        text = Path("clinic.csv").read_text().replace(",yes", ",perhaps", 1)
        (tmp_path / "c.csv").write_text(text)
        result = run("fit", f"clinic={tmp_path / 'c.csv'}", *ROLES, "-o", tmp_path / "m.naim3l")
        assert result.exit_code == 1 and "c.csv, row " in result.stderr
        assert "(line " in result.stderr and "'perhaps' is not a known label" in result.stderr
        assert "--no perhaps" in result.stderr and "decode_labels" not in result.stderr

    @pytest.mark.parametrize("name", ["a*", "[ag]e", "../age", "\x1b[31mage"])
    def test_names_of_a_model_are_names_and_nothing_else(self, model, name):
        """As patterns, they would read what whoever made the model likes to see."""
        other = copy.deepcopy(model)
        other.names_.tables["clinic"].names[0] = name
        with pytest.raises(ReadError, match="no column") as caught:
            read_new(other, clinic="clinic.csv")
        assert "\x1b" not in str(caught.value)
        for roles in ({"id": name, "labels": [name], "ignored": [name]}, {"id": [name]}, [name]):
            other = copy.deepcopy(model)
            other.roles_["clinic"] = roles
            (view,) = open_new(other, settings({"clinic": "clinic.csv"}, id=None)).values()
            assert view.id == "patient_id"
        other = copy.deepcopy(model)
        other.names_.labels[0] = name
        changed = settings({"clinic": "clinic.csv"}, labels=[])
        known = read_known(other, changed)[1]["clinic"]
        assert known[name].isna().all() and known["gout"].notna().any()

    def test_a_model_without_names_of_columns_takes_no_files(self, rows):
        X, Y = rows
        numbers = X["survey"].data.to_numpy(dtype=float)
        plain = PerViewRidge(features=None).fit({"survey": numbers}, {"survey": Y["survey"]})
        with pytest.raises(ReadError, match=r"view 'survey': .* on tables without column names"):
            read_new(plain, survey="survey.parquet")


class TestPredictions:
    def test_are_those_of_python(self, model, rows):
        X = read_new(model, clinic="clinic_new.csv")
        for kind, method in (
            ("labels", model.predict),
            ("scores", model.decision_function),
            ("probabilities", model.predict_proba),
        ):
            found = predict_rows(model, X, kind)
            frame = pd.read_csv("clinic_new.csv", index_col="patient_id").drop(columns=LABELS)
            expected = method({"clinic": frame})["clinic"]
            if kind == "probabilities":
                expected[:] = round_probabilities(expected)
            pd.testing.assert_frame_equal(found, expected, check_index_type=False)
        assert found.shape == (150, 3) and found.index.name == "patient_id"

    def test_rows_of_an_id_are_fused(self, model):
        X = read_new(model, lab="lab.txt", survey="survey.parquet")
        apart, fused = predict_rows(model, X, "scores"), predict_fused(model, X, "scores")
        index = {view: batch.data.index for view, batch in X.items()}
        assert len(apart) == 720 and apart.columns[0] == "view"
        assert len(fused) == len(set(index["lab"]) | set(index["survey"]))
        assert fused.index.name == "patient_id"
        chances = pd.concat(model.predict_proba(X).values())
        both = sorted(set(index["lab"]) & set(index["survey"]))
        base = logit([model.view_rates_[view] for view in X])
        for someone in both[:20]:
            evidence = logit(chances.loc[someone, LABELS].to_numpy(dtype=float)) - base
            expected = base.mean(axis=0) + evidence.sum(axis=0) / (1 + model.fusion_overlap_)
            np.testing.assert_allclose(fused.loc[someone], expected)
        found = predict_fused(model, X, "probabilities")
        np.testing.assert_allclose(found, expit(fused), rtol=0, atol=5.1e-5)
        # An id with one view is predicted as in that view.
        alone = sorted(set(index["lab"]) - set(index["survey"]))
        of_lab = {"lab": Batch(X["lab"].data.loc[alone], "view 'lab'")}
        for kind in ("labels", "probabilities"):
            fused = predict_fused(model, X, kind).loc[alone].astype(float)
            expected = predict_rows(model, of_lab, kind).astype(float)
            np.testing.assert_allclose(fused, expected, rtol=0, atol=1.1e-4)

    def test_what_no_view_has_a_cell_of_is_not_decided_on(self, model):
        batch = read_new(model, lab="lab.txt")["lab"]
        frame = batch.data.iloc[:4].astype(object)
        frame.iloc[1] = "?"
        X = {"lab": Batch(frame, batch.origin)}
        match = f"no answer: view 'lab', patient_id {frame.index[1]}"
        with pytest.warns(DataWarning, match=match):
            fused = predict_fused(model, X, "labels")
        for labels in (fused, predict_rows(model, X, "labels")):
            assert labels.isna().all(axis=1).tolist() == [False, True, False, False]

    def test_models_without_probabilities_have_scores_alone(self, rows):
        X, Y = ({name: of[name] for name in ("lab", "survey")} for of in rows)
        plain = NAIM3L(ridge=1.0, decide=0.1).fit(X, Y).set_output(transform="pandas")
        someone = next(iter(set(X["lab"].data.index) & set(X["survey"].data.index)))
        mean = np.mean([S.loc[someone] for S in plain.decision_function(X).values()], axis=0)
        np.testing.assert_allclose(predict_fused(plain, X, "scores").loc[someone], mean)
        for answer in (predict_fused, predict_rows):
            with pytest.raises(ValueError, match=r"no probabilities; fit it with decide="):
                answer(plain, X, "probabilities")

    @pytest.mark.parametrize("least", [None, 0.8])
    def test_filled_labels_are_those_of_python_with_their_probability(self, model, rows, least):
        X, Y = rows
        check_answers(model, "probabilities")
        python, probabilities = model.impute_labels(X, Y, least), model.predict_proba(X, Y)
        for view in X:
            filled = fill_in(model, view, least, X[view], Y[view])
            for name in LABELS:
                value, confidence = filled[name].astype(float), filled[f"{name}_confidence"]
                pd.testing.assert_series_equal(value, python[view][name].astype(float))
                yes, known = np.asarray(probabilities[view][name]), Y[view][name].notna()
                assert (value[known] == Y[view].loc[known, name]).all()
                words = filled[f"{name}_filled"]
                assert set(words) <= {"", "features", "known labels", "both", "frequency"}
                added = words != ""
                pd.testing.assert_series_equal(added, ~known & value.notna(), check_names=False)
                expected = np.where(value == 1, yes, 1 - yes)
                expected = round_probabilities(expected)
                np.testing.assert_array_equal(confidence[added], expected[added])
                assert (confidence[added] >= (least or 0.5)).all()
                assert (confidence[known] == 1).all()
                np.testing.assert_array_equal(confidence.isna(), value.isna())
                assert value.isna().any() == (least is not None)


@pytest.mark.parametrize(
    ("given", "shown"),
    [(0.5, 0.5), (0.123456, 0.1235), (0.99, 0.99), (0.00012345, 0.00012), (3.21e-9, 3.2e-9),
     (0.99998765, 0.999988), (0.0, 0.0), (1.0, 1.0), (5e-324, 0.0)],
)  # fmt: skip
def test_probabilities_have_four_decimals_and_none_becomes_certain(given, shown):
    (found,) = round_probabilities([given])
    assert found == shown and len(repr(float(found))) <= max(len(repr(shown)), 6)


class TestEvaluation:
    def test_metrics_are_those_of_scikit_learn(self, model, rows):
        found = by_name(evaluate_rows(model, *rows))
        assert list(found["views"]) == ["fused", "mean over views", "clinic", "lab", "survey"]
        for metrics in found["views"].values():
            assert metrics["macro-AUC"]["value"] > 0.7 > metrics["macro-AUC"]["guessing"] == 0.5
        X, Y = rows
        scores = np.asarray(model.decision_function({"lab": X["lab"]})["lab"])
        decided = np.asarray(model.predict({"lab": X["lab"]})["lab"])
        truth = Y["lab"][LABELS].to_numpy()
        for k, name in enumerate(LABELS):
            known = ~np.isnan(truth[:, k])
            expected = {
                "yes": (truth[:, k] == 1).sum(),
                "no": (truth[:, k] == 0).sum(),
                "auc": roc_auc_score(truth[known, k], scores[known, k]),
                "f1": f1_score(truth[known, k], decided[known, k]),
            }
            of_lab = found["labels"][name]["lab"]
            assert {key: of_lab[key] for key in expected} == pytest.approx(expected)
        # Labels are ranked by scores, and decided on by thresholds.
        result = {name: metric["value"] for name, metric in found["views"]["lab"].items()}
        assert result["AP"] == pytest.approx(evaluate(truth, scores)["AP"])
        known = ~np.isnan(truth)
        assert result["1-HL"] == pytest.approx((decided[known] == truth[known]).mean())

    def test_a_table_without_known_labels_is_named_and_left_out(self, model, rows):
        X, Y = ({name: of[name] for name in ("clinic", "lab")} for of in rows)
        Y["lab"] = Y["lab"] * np.nan
        with pytest.warns(DataWarning, match="view 'lab': no label is known in it"):
            found = evaluate_rows(model, X, Y)
        assert {"clinic"} <= {block["name"] for block in found["blocks"]} <= {"clinic", "fused"}


# Tables as they are: odd cells, codes, ids, few rows


def draw(n_rows, seed=0):
    """Rows of three numbers, of which the first two tell the labels."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 3)).round(3)
    table = pd.DataFrame(values, columns=["hb", "crp", "alt"]).rename_axis("id")
    seen = values[:, :2] + 0.2 * rng.normal(size=(n_rows, 2)) > 0
    return table.assign(**dict(zip(["flu", "gout"], np.where(seen, "yes", "no").T, strict=True)))


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Function that writes a table, and fits a model to it."""
    monkeypatch.chdir(tmp_path)

    def fit(table, expected="", **view):
        table.to_csv("train.csv")
        changes = "".join(f"{key} = {json.dumps(value)}\n" for key, value in view.items())
        Path("s.toml").write_text(
            f'[views.lab]\nsource = "train.csv"\nid = "id"\nlabels = ["flu", "gout"]\n{changes}'
        )
        arguments = ["fit", "--config", "s.toml", *QUICK, "-o", "m.naim3l"]
        if expected:
            assert expected in warned(*arguments)
        else:
            assert (result := run(*arguments)).exit_code == 0, result.output
        return load("m.naim3l")

    return fit


def predict(*rows, header="id,hb,crp,alt"):
    """Predict new rows, with a gap above the second."""
    Path("new.csv").write_text("\n".join([header, rows[0], "", *rows[1:]]) + "\n")
    return "predict", "m.naim3l", "lab=new.csv", "--what", "scores", "-o", "out.csv"


def test_odd_cells_of_new_rows(small):
    small(draw(60))
    good = ["a,1,2,3", "b,1,2,3"]
    at = "new.csv, row 2 (line 5), column 'crp': 'old' is not a number"
    assert f"{at}. Such cells are taken as missing" in warned(
        *predict(*good, "c,4,old,3", "d,1,2,3")
    )
    refused = run(*predict(*good, "c,4,old,3", "d,1,new,3"))
    assert refused.exit_code == 1 and f"{at} (2 of 4 cells" in refused.stderr
    assert "In training the column had numbers" in refused.stderr


def test_words_of_the_fit_are_words_in_new_rows_as_they_are_written(small):
    """Even where all new ones look like numbers: 250.10 is not 250.1, nor 007 7."""
    words = ["250.10", "007", "V45", "E11", "W3"]
    table = draw(60).assign(code=words[:2] * 27 + words[2:] * 2)
    model = small(table, "There are several such codes")
    assert {"code_250.10", "code_007"} <= set(model.features_["lab"].plan.encoded_names())
    header = "id,hb,crp,alt,code"
    assert run(*predict("a,1,2,3,250.10", "b,1,2,3,007", header=header)).exit_code == 0
    first = pd.read_csv("out.csv", index_col="id")
    frame = pd.DataFrame({"hb": 1.0, "crp": 2.0, "alt": 3.0, "code": ["250.10", "007"]})
    expected = model.decision_function({"lab": frame})["lab"]
    np.testing.assert_allclose(first, expected)
    assert not np.allclose(expected.iloc[0], expected.iloc[1])


def test_results_carry_ids_that_look_like_numbers(small):
    small(draw(60))
    assert run(*predict("01,1,2,3", "1e2,1,2,3", "1.10,4,1,3", "1.1,1,2,3")).exit_code == 0
    ids = [line.partition(",")[0] for line in Path("out.csv").read_text().splitlines()]
    assert ids == ["id", "01", "1e2", "1.10", "1.1"]
    assert run(*predict("a,1,2,3", "a,1,2,3")).exit_code == 0  # two visits of one patient
    assert pd.read_csv("out.csv")["id"].tolist() == ["a", "a"]
    line = warned(*predict("a,1,2,3", ",1,2,3"))
    assert line.startswith("new.csv: column 'id' should have the ids, but some of its cells")
    assert run(*predict("1,2,3", "1,2,3", header="hb,crp,alt")).exit_code == 0
    assert run(*predict("7,1,2,3", header="id,hb,crp,alt"), "--id", "id").exit_code == 0


def test_too_few_labels_are_reported_before_the_fit(small):
    draw(60).iloc[:3].assign(flu=["yes", "no", "yes"], gout="yes").to_csv("train.csv")
    for options in ([], QUICK):
        result = run("fit", "lab=train.csv", "--id", "id", "--labels", "flu", "--labels", "gout",
                     *options, "-o", "never.naim3l")  # fmt: skip
        assert result.exit_code == 1 and "3 rows with yes and 3 with no" in result.stderr
        assert "'flu', has 2 with yes and 1 with no" in result.stderr
