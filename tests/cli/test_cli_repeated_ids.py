"""Several visits of one patient, in one table and in several, in all commands."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from naim3l.files.tables import open_table
from naim3l.input.sources import FileView, LabelColumns
from study import LABELS, QUICK, done, run

IDS = np.random.default_rng(3).integers(0, 90, size=(2, 160))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two tables of visits of ninety patients, of whom most have visits in both."""
    path, rng = tmp_path_factory.mktemp("visits"), np.random.default_rng(0)
    cause = rng.normal(size=(90, 1))
    for view, ids in zip(("clinic", "lab"), IDS, strict=True):
        noise = rng.normal(size=(160, 3))
        X = pd.DataFrame(cause[ids] + noise, columns=[f"{view}{j}" for j in "abc"])
        yes = rng.random((160, 3)) < 1 / (1 + np.exp(-2 * cause[ids]))
        Y = pd.DataFrame(np.where(yes, "yes", "no"), columns=LABELS).mask(
            rng.random((160, 3)) < 0.3
        )
        frame = pd.concat([pd.Series([f"P{i}" for i in ids], name="id"), X, Y], axis=1)
        frame.to_csv(path / f"{view}.csv", index=False)
        (path / view).mkdir()
        frame[:100].to_csv(path / view / "1.csv", index=False)
        frame[100:].to_csv(path / view / "2.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        labels = [part for label in LABELS for part in ("--labels", label)]
        views = "clinic=clinic.csv", "lab=lab.csv"
        done("fit", *views, "--id", "id", *labels, *QUICK, "-o", "m.naim3l")
    return path


@pytest.fixture
def folder(study, monkeypatch):
    monkeypatch.chdir(study)
    return study


def names(view):
    return [f"P{i}" for i in IDS[view]]


def test_predictions_keep_all_rows_in_order(folder):
    done("predict", "m.naim3l", "clinic=clinic.csv", "lab=lab.csv", "-o", "out.csv")
    assert pd.read_csv("out.csv")["id"].tolist() == names(0) + names(1)


def test_fused_predictions_have_a_row_for_each_id(folder):
    done("predict", "m.naim3l", "clinic=clinic.csv", "lab=lab.csv", "--fused", "-o", "out.csv")
    assert sorted(pd.read_csv("out.csv")["id"]) == sorted({*names(0), *names(1)})


def test_known_labels_of_an_id_are_those_of_all_of_its_rows(folder):
    ids = sorted(set(names(0)))
    pd.DataFrame(
        {"id": ids, "flu": ["yes", "no"] * (len(ids) // 2) + ["yes"] * (len(ids) % 2)}
    ).to_csv("known.csv", index=False)
    options = "--known", "known.csv", "--id", "id", "-o", "out.csv"
    done("predict", "m.naim3l", "clinic=clinic.csv", *options)
    found = pd.read_csv("out.csv")
    known = pd.read_csv("known.csv", index_col="id")["flu"]
    assert found["id"].tolist() == names(0)
    assert (found["flu"].to_numpy() == known[names(0)].to_numpy()).all()
    pd.read_csv("known.csv").iloc[[0, 0]].to_csv("known.csv", index=False)
    result = run("predict", "m.naim3l", "clinic=clinic.csv", *options)
    assert result.exit_code == 1
    assert "is already that of row 0" in result.stderr


def test_impute_and_check_keep_all_rows_in_order(folder):
    done("impute", "m.naim3l", "clinic=clinic.csv", "lab=lab.csv", "-o", "filled")
    for number, view in enumerate(("clinic", "lab")):
        found, given = pd.read_csv(f"filled/{view}.csv"), pd.read_csv(f"{view}.csv")
        assert found["id"].tolist() == names(number)
        known = given["flu"].notna()
        assert (found["flu"][known] == given["flu"][known]).all()
    done("check", "m.naim3l", "clinic=clinic.csv", "--below", "0.3")


def test_evaluate_fuses_ids_that_are_in_two_tables(folder):
    found = json.loads(
        done("evaluate", "m.naim3l", "clinic=clinic.csv", "lab=lab.csv", "--json").stdout
    )
    assert found["rows"]["clinic"]["n_rows"] == 160
    assert found["rows"]["fused"]["n_rows"] == len({*names(0)} & {*names(1)})
    found = json.loads(done("evaluate", "m.naim3l", "clinic=clinic.csv", "--json").stdout)
    assert "fused" not in found["rows"]


def test_a_report_can_be_written(folder):
    done("report", "m.naim3l", "clinic=clinic.csv", "lab=lab.csv", "-o", "page.html")


@pytest.mark.dask
def test_rows_of_one_id_are_in_one_fold_of_tables_in_chunks(folder, monkeypatch):
    from naim3l import NAIM3L

    X, Y = {}, {}
    for view in ("clinic", "lab"):
        columns = [f"{view}{j}" for j in "abc"]
        X[view] = FileView(open_table(view), columns, id="id", chunked=True, batch_rows=30)
        Y[view] = LabelColumns(LABELS)
    problems = []
    learn = NAIM3L._learn_held_out

    def keep(model, problem, *given, **options):
        problems.append(problem)
        return learn(model, problem, *given, **options)

    monkeypatch.setattr(NAIM3L, "_learn_held_out", keep)
    NAIM3L(decide="guarded", ridge=1.0, random_state=0).fit(X, Y)
    (problem,) = problems
    folds, ids = problem.fold_of.max(axis=1), np.concatenate([names(0), names(1)])
    assert set(folds) == {-1, 0, 1, 2, 3, 4}
    for name in set(ids):
        assert len({*folds[ids == name]} - {-1}) <= 1
        assert len({*problem.sample.groups[ids == name]}) == 1


def test_init_says_how_rows_of_one_patient_are_held_out_together(folder, tmp_path):
    done("init", "clinic.csv", "-o", tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text()
    assert "id" not in tomllib.loads(text)["views"]["clinic"]  # which only the user knows
    named = text.replace('# id = "id" # if', 'id = "id" # if')
    assert tomllib.loads(named)["views"]["clinic"]["id"] == "id"
