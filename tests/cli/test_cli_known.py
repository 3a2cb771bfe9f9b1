"""Known labels of new rows, suspects, labels that a table lacks, and ids that never repeat."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from naim3l import load
from study import LABELS, QUICK, run


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three tables of different people with two codes for one cause; the lab lacks a label."""
    path, rng = tmp_path_factory.mktemp("known"), np.random.default_rng(0)
    for i, view in enumerate(("clinic", "lab", "survey")):
        cause = rng.normal(size=(150, 1))
        X = pd.DataFrame(cause + rng.normal(size=(150, 3)), columns=[f"{view}{j}" for j in "abc"])
        yes = rng.random((150, 3)) < 1 / (1 + np.exp(-2 * cause))
        Y = pd.DataFrame(np.where(yes, "yes", "no"), columns=LABELS)
        Y = Y.mask(rng.random(Y.shape) < 0.3, "?")
        if view == "lab":
            Y["gout"] = "?"
        ids = pd.Series([f"P{150 * i + k}" for k in range(150)], name="id")
        pd.concat([ids, X, Y], axis=1).to_csv(path / f"{view}.csv", index=False)
    new = pd.read_csv(path / "clinic.csv").head(20)
    new.drop(columns=LABELS).to_csv(path / "new.csv", index=False)
    new[["id", "flu"]].head(10).to_csv(path / "known.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        views = [f"{view}={view}.csv" for view in ("clinic", "lab", "survey")]
        labels = [part for label in LABELS for part in ("--labels", label)]
        result = run("fit", *views, "--id", "id", *labels, *QUICK, "-o", "m.naim3l", "--json")
        assert result.exit_code == 0, result.output
        (path / "fit.json").write_text(result.stdout)
    return path


@pytest.fixture
def folder(study, monkeypatch):
    monkeypatch.chdir(study)
    return study


class TestKnownLabelsOfNewRows:
    def predict(self, *options):
        result = run("predict", "m.naim3l", "clinic=new.csv", *options, "-o", "out.csv")
        assert result.exit_code == 0, result.output
        return pd.read_csv("out.csv", index_col="id")

    @pytest.mark.parametrize("given", ["known.csv", "clinic=known.csv"])
    def test_they_are_kept_and_change_the_others(self, folder, given):
        usual = self.predict("--what", "probabilities")
        found = self.predict("--what", "probabilities", "--known", given)
        known = pd.read_csv("known.csv", index_col="id")["flu"].map({"yes": 1, "no": 0}).dropna()
        assert (found.loc[known.index, "flu"] == known).all()
        others = ["asthma", "gout"]
        assert (found.loc[known.index, others] != usual.loc[known.index, others]).any(axis=1).all()
        others = usual.index.difference(known.index)
        pd.testing.assert_frame_equal(found.loc[others], usual.loc[others])
        columns = [name for name in pd.read_csv("known.csv") if name != "id"]
        shown = run("predict", "m.naim3l", "clinic=new.csv", "--known", given, "-o", "x.csv").stdout
        told = (
            f"View clinic: {len(columns)} of {len(LABELS)} labels are known: {', '.join(columns)}."
        )
        assert told in " ".join(shown.split())
        yes = self.predict("--known", given, "--codes", "0/1")
        assert (yes.loc[known.index, "flu"] == known).all()

    def test_they_are_those_of_python(self, folder):
        model = load("m.naim3l").set_output(transform="pandas")
        table = pd.read_csv("new.csv", index_col="id")
        known = pd.read_csv("known.csv", index_col="id").reindex(table.index)
        labels = known.replace("?", None).reindex(columns=model.label_names_)
        expected = model.predict_proba({"clinic": table}, {"clinic": labels})["clinic"]
        found = self.predict("--what", "probabilities", "--known", "known.csv")
        np.testing.assert_allclose(found, expected, rtol=0, atol=5.1e-5)  # four decimals

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--known", "known.csv", "--fused"], "--known is for the labels or probabilities"),
            (["--known", "known.csv", "--what", "scores"], "not --what scores"),
            (["--known", "lab=known.csv"], "--known: no view 'lab'"),
            (["--known", "nothing.csv"], "nothing.csv"),
        ],
    )
    def test_what_cannot_be_done_is_said(self, folder, options, message):
        result = run("predict", "m.naim3l", "clinic=new.csv", *options, "-o", "not.csv")
        assert result.exit_code == 1 and message in result.stderr
        assert not Path("not.csv").exists()


def test_a_label_that_a_table_lacks_is_named_everywhere(folder):
    summary = json.loads(Path("fit.json").read_text())
    (absent,) = summary["absent"]
    assert (absent["view"], absent["label"]) == ("lab", "gout")
    assert absent["tables"] == ["clinic", "survey"] and set(absent["through"]) <= {"flu", "asthma"}
    assert summary["simulated"]["n_checks"] == 8
    result = run("predict", "m.naim3l", "lab=lab.csv", "-o", "lab_out.csv")
    assert "lab never records gout" in result.stdout
    result = run("predict", "m.naim3l", "clinic=new.csv", "-o", "clinic_out.csv")
    assert "never records" not in result.stdout


def test_ids_that_never_repeat_make_tables_disjoint(folder, tmp_path):
    assert load("m.naim3l").decide.disjoint
    shared = pd.read_csv("survey.csv")
    shared.loc[3, "id"] = "P1"  # of the clinic
    shared.to_csv(tmp_path / "survey.csv", index=False)
    views = ["clinic=clinic.csv", f"survey={tmp_path / 'survey.csv'}"]
    out = tmp_path / "m.naim3l"
    labels = [part for label in LABELS for part in ("--labels", label)]
    result = run("fit", *views, "--id", "id", *labels, *QUICK, "-o", out)
    assert result.exit_code == 0, result.output
    assert not getattr(load(out).decide, "disjoint", False)


class TestCheck:
    def test_a_wrong_label_is_found(self, folder, tmp_path):
        table = pd.read_csv("clinic.csv")
        model = load("m.naim3l").set_output(transform="pandas")
        features = table.set_index("id").drop(columns=LABELS)
        sure = model.predict_proba({"clinic": features})["clinic"]["flu"]
        row = int(np.argmax(sure))
        table.loc[row, "flu"] = "no"
        table.to_csv(tmp_path / "c.csv", index=False)
        arguments = "check", "m.naim3l", f"clinic={tmp_path / 'c.csv'}", "--below", "0.5"
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        entry = {"view": "clinic", "row": table.loc[row, "id"], "label": "flu", "value": 0}
        (planted,) = [each for each in found["entries"] if entry.items() <= each.items()]
        assert planted["probability"] < 0.3
        probabilities = [each["probability"] for each in found["entries"]]
        assert probabilities == sorted(probabilities) and len(probabilities) <= 20
        shown = run(*arguments, "-n", "1").stdout
        assert f"{found['below']} of {found['known']} known labels" in shown
        assert found["entries"][0]["row"] in shown

    def test_nothing_surprising_is_no_table(self, folder):
        result = run("check", "m.naim3l", "clinic=clinic.csv", "--below", "0")
        assert result.exit_code == 0 and "The most surprising" not in result.stdout
