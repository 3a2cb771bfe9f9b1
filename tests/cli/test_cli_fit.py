"""Files in, labels out: init, fit, predict, impute, evaluate, inspect."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3LCV, load
from study import QUICK, ROLES, VIEWS, run


def test_settings_are_guessed_and_give_the_same_model(folder):
    assert run("init", "clinic.csv", "lab.txt", "survey.parquet", "-o", "s.toml").exit_code == 0
    text = (folder / "s.toml").read_text()
    assert "guessed" in text and 'id = "patient_id"' in text
    result = run("fit", "--config", "s.toml", *QUICK, "-o", "other.naim3l", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["labels"] == ["flu", "asthma", "gout"] and summary["lam"] == 0.4
    first, second = load("model.naim3l"), load("other.naim3l")
    for view in first.views_:
        assert (first.coef_[view] == second.coef_[view]).all()
    again = run("init", "clinic.csv", "-o", "s.toml")
    assert again.exit_code == 1 and "--force" in again.stderr
    assert (folder / "s.toml").read_text() == text


@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("1", "0")])
def test_a_label_that_tables_never_record_is_unknown_in_them(tmp_path, monkeypatch, yes, no):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for view, never in {"clinic": None, "trial": None, "lab": "unknown", "survey": ""}.items():
        health = rng.normal(size=(40, 2))
        table = pd.DataFrame(health.round(3), columns=[f"{view}_1", f"{view}_2"])
        labels = np.where(health + 0.5 * rng.normal(size=health.shape) > 0, yes, no)
        table["dx_flu"], table["dx_gout"] = labels[:, 0], labels[:, 1] if never is None else never
        table.rename_axis("patient_id").to_csv(f"{view}.csv")
    files = ["clinic.csv", "trial.csv", "lab.csv", "survey.csv"]
    assert run("init", *files, "-o", "study.toml").exit_code == 0
    views = [f"{file.removesuffix('.csv')}={file}" for file in files]
    named = [*views, "--id", "patient_id", "--labels", "dx_*"]
    for start, path in ((["--config", "study.toml"], "m.naim3l"), (named, "n.naim3l")):
        result = run("fit", *start, *QUICK, "-o", path, "--json")
        assert result.exit_code == 0 and not result.stderr, result.output
        summary = json.loads(result.stdout)
        assert summary["labels"] == ["dx_flu", "dx_gout"]
        known = {view: of["known"] for view, of in summary["views"].items()}
        assert known == {"clinic": 100, "trial": 100, "lab": 50, "survey": 50}
    drafted, given = load("m.naim3l"), load("n.naim3l")
    for view in drafted.views_:
        assert (drafted.coef_[view] == given.coef_[view]).all()


def test_lam_is_chosen_where_none_is_given(folder):
    result = run("fit", "lab=lab.txt", *ROLES, "-o", "tuned.naim3l", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    held_out = summary["held_out"]["views"]["lab"]["macro-AUC"]
    assert 0.5 == held_out["guessing"] < held_out["value"] <= 1
    assert set(summary["held_out"]["labels"]) == {"flu", "asthma", "gout"}
    model = load("tuned.naim3l")
    assert model.lam_ == summary["lam"] and summary["metric"] == "macro-AUC"
    # The same as in Python.
    table = pd.read_csv("lab.txt", sep=";", decimal=",", index_col="patient_id")
    labels = table[model.label_names_]
    python = NAIM3LCV(random_state=0).fit({"lab": table.drop(columns=labels)}, {"lab": labels})
    assert (python.lam_, python.ridge_) == (model.lam_, model.ridge_)
    # pandas may round decimal commas differently.
    np.testing.assert_allclose(python.coef_["lab"], model.coef_["lab"], rtol=1e-9)
    np.testing.assert_allclose(python.thresholds_["lab"], model.thresholds_["lab"], rtol=1e-9)


def test_fit_shows_what_guessing_and_not_coupling_reach(folder):
    result = run("fit", *VIEWS, *ROLES, *QUICK, "-o", "beside.naim3l")
    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert "┃ measure ┃ model ┃ guessing ┃ ridge ┃ subspace ┃" in shown
    assert "accuracy (1-HL)" in shown and "Boosting" not in shown
    measured = load("beside.naim3l").held_out_
    metric = measured["blocks"][0]["metrics"]["macro-AUC"]
    numbers = f"{100 * metric['value']:.1f} │ 50.0 │ {100 * metric['uncoupled']:.1f} │"
    assert f"│ macro-AUC │ {numbers}" in shown
    assert "Coupling the tables" in shown and "of 3 labels ranked well." in shown
    right = measured["blocks"][0]["metrics"]["1-HL"]
    assert f"Yes and no: {100 * right['value']:.1f} % of the entries are right" in shown


def test_all_measures_are_printed_if_asked_for(folder):
    command = ["evaluate", "model.naim3l", "clinic=clinic.csv", "lab=lab.txt"]
    few, every = (run(*command, *more).stdout for more in ([], ["--all"]))
    names = ("macro-AUC", "(AP)", "(1-HL)", "(macro-F1)", "(1-RL)", "(micro-F1)", "coupling added")
    assert [name in few for name in names] == [True] * 4 + [False] * 3
    assert all(name in every for name in names) and "--all" not in every
    # The verdict comes first in both, and in the same words.
    assert few.splitlines()[:2] == every.splitlines()[:2]
    assert few.startswith("Rows: ") and few.splitlines()[1].startswith("Yes and no: ")


def test_boosting_stands_beside_ridge_unless_it_takes_long(folder, monkeypatch):
    command = ["fit", "lab=lab.txt", *ROLES, *QUICK[:-1], "-o", "boosted.naim3l"]
    result = run(*command, "--json")
    assert result.exit_code == 0, result.output
    metric = json.loads(result.stdout)["held_out"]["views"]["lab"]["macro-AUC"]
    assert 0.5 < metric["boosting"] <= 1
    shown = " ".join(run(*command).stdout.split())
    assert "┃ ridge ┃ subspace ┃ boosting ┃" in shown
    assert "Boosting of" not in shown
    rivals = [f"{100 * metric[name]:.1f}" for name in ("uncoupled", "subspace", "boosting")]
    assert f"{' │ '.join(rivals)} │" in shown
    # The time that it would take decides only if nobody has said anything.
    monkeypatch.setattr("naim3l.estimators.comparison.boosting_cost", lambda *of: 77.7)
    skipped = " ".join(run(*command).stdout.split())
    assert "┃ ridge ┃ subspace ┃" in skipped and "┃ boosting ┃" not in skipped
    assert "Boosting of each table was not measured: it would take about 78 seconds" in skipped
    asked = " ".join(run(*command, "--boosting").stdout.split())
    assert "┃ ridge ┃ subspace ┃ boosting ┃" in asked
    assert "not measured" not in asked
    refused = run(*command, "--no-boosting", "--json")
    assert json.loads(refused.stdout)["held_out"]["views"]["lab"]["AP"]["boosting"] is None


@pytest.mark.parametrize("what", ["labels", "scores", "probabilities"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_carry_ids(folder, what, ending):
    out = f"{what}.{ending}"
    result = run("predict", "model.naim3l", "clinic=clinic_new.csv", "--what", what, "-o", out)
    assert result.exit_code == 0, result.output
    table = (pd.read_csv if ending == "csv" else pd.read_parquet)(out)
    ids = pd.read_csv("clinic_new.csv")["patient_id"]
    found = table.get("patient_id", table.index)
    assert list(found) == list(ids)
    assert {"flu", "asthma", "gout"} <= set(table.columns)


@pytest.mark.parametrize("rule", ["guarded", "cardinality", "f1", "half", "sign"])
def test_the_rule_of_decision_can_be_changed(folder, rule):
    out = f"{rule}.csv"
    arguments = ["predict", "model.naim3l", "clinic=clinic_new.csv", "--decide", rule, "-o", out]
    done = run(*arguments, "--codes", "0/1")
    assert done.exit_code == 0, done.output
    model, scores = load("model.naim3l"), "scores.csv"
    run("predict", "model.naim3l", "clinic=clinic_new.csv", "--what", "scores", "-o", scores)
    at = 0 if rule == "sign" else model.decisions_.rules[rule]["clinic"]
    decided, found = (pd.read_csv(file)[model.label_names_] for file in (out, scores))
    assert (decided.to_numpy() == (found.to_numpy() > at)).all()
    fused = run(*arguments[:-2], "--fused", "-o", f"fused-{out}")
    assert fused.exit_code == 0, fused.output
    price = model.decisions_.prices.get(rule)
    for shown, of_tables in ((done.stdout, ""), (fused.stdout, ", each in one table")):
        said = f"Rule {rule}: on rows held out of the fit{of_tables}, "
        assert (said in " ".join(shown.split())) == (price is not None) == (rule != "sign")
        if price:
            assert f"{100 * price.accuracy:.1f} % of yes and no are right" in shown
            assert f"F1 is {100 * price.f1:.1f}." in shown


def test_labels_are_filled_in(folder):
    result = run("impute", "model.naim3l", *VIEWS, *ROLES, "-o", "filled", "--format", ".tsv")
    assert result.exit_code == 0, result.output
    table = pd.read_csv("filled/lab.tsv", sep="\t")
    assert len(table) == 300 and set(table["flu"]) == {"yes", "no"}
    assert table["flu_confidence"].between(0.5, 1).all()
    assert table["flu_filled"].isin(["features", "known labels", "both"]).any()
    assert table["flu_filled"].isna().any()
    result = run("impute", "model.naim3l", *VIEWS, *ROLES, "-o", "sure", "--min-confidence", "0.9")
    assert result.exit_code == 0, result.output
    sure = pd.read_csv("sure/lab.csv")
    expected = table["flu"].where(table["flu_confidence"] >= 0.9)
    pd.testing.assert_series_equal(sure["flu"], expected, check_dtype=False)
    wrong = run("impute", "model.naim3l", *VIEWS, *ROLES, "--min-confidence", "0.3")
    assert wrong.exit_code == 2 and "'--min-confidence'" in wrong.stderr


def test_evaluation_in_words_and_json(folder):
    shown = run("evaluate", "model.naim3l", *VIEWS, *ROLES)
    assert shown.exit_code == 0 and "macro-F1" in shown.stdout and "fused" in shown.stdout
    result = json.loads(run("evaluate", "model.naim3l", *VIEWS, *ROLES, "--json").stdout)
    assert set(result["views"]) == {"mean over views", "clinic", "lab", "survey", "fused"}
    assert result["labels"]["gout"]["mean over views"]["auc"] > 0.7
    known = pd.read_csv("clinic.csv")
    assert result["rows"]["clinic"]["n_rows"] == len(known)
    for view, curve in result["calibration"].items():
        assert curve["n_entries"] == result["rows"][view]["n_entries"]
        assert sum(part["n"] for part in curve["bins"]) == curve["n_entries"]
    assert set(result["calibration"]) == set(result["views"]) - {"mean over views"}


def test_inspection_names_views_and_labels(folder):
    shown = run("inspect", "model.naim3l")
    assert shown.exit_code == 0 and "survey" in shown.stdout and "asthma" in shown.stdout
    assert "guarded" in shown.stdout and "3 values became columns" in shown.stdout
    about = json.loads(run("inspect", "model.naim3l", "--json").stdout)
    assert about["class"] == "NAIM3L" and about["guests"] == []
    assert about["model"]["names_"]["labels"] == ["flu", "asthma", "gout"]
    assert about["model"]["roles_"]["lab"]["id"] == "patient_id"
    assert str(folder) not in json.dumps(about["model"])  # no path of this machine


def test_report_is_written_with_its_numbers(folder):
    result = run("report", "model.naim3l", *VIEWS, *ROLES, "--test", "clinic=clinic_new.csv",
                 "-o", "page.html")  # fmt: skip
    assert result.exit_code == 0, result.output
    numbers = json.loads((folder / "page.json").read_text())
    assert numbers["quality"]["on"] == "test"
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "asthma" in page and "http-equiv" in page
    wrong = run("report", "model.naim3l", *VIEWS, *ROLES, "--test", "ward=clinic_new.csv")
    assert wrong.exit_code == 1 and "--test: no view 'ward'" in wrong.stderr


def test_fit_can_write_its_report(folder):
    out = ["-o", "third.naim3l", "--report", "fit.html"]
    result = run("fit", "lab=lab.txt", *ROLES, *QUICK, *out)
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "fit.json").read_text())["quality"]["on"] == "held-out"
    assert "Wrote third.naim3l and fit.html." in result.stdout


def test_checkpoint_of_a_stopped_fit_is_not_passed_over(folder):
    stale = folder / "stopped.naim3l.checkpoint"
    stale.write_bytes(b"anything")
    refused = run("fit", *VIEWS, *ROLES, *QUICK, "-o", "stopped.naim3l")
    assert refused.exit_code == 1 and "--resume resumes it" in refused.stderr
    damaged = run("fit", *VIEWS, *ROLES, *QUICK, "-o", "stopped.naim3l", "--resume")
    assert damaged.exit_code == 1 and "not a checkpoint" in damaged.stderr
    assert not (folder / "stopped.naim3l").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit {roles} -o m.naim3l", "give views as name=path"),
        ("fit clinic.csv {roles} -o m.naim3l", "not of the form name=path, such as clinic=clinic"),
        ("fit lab=lab.txt {roles}", "name the model file with --out"),
        ("fit lab=lab.txt {roles} -o no/m.naim3l", "there is no folder no"),
        ("fit lab=lab.txt {roles} -o .", "is a folder; name a file in it"),
        ("fit lab=lab.txt --id patient_id --labels fly -o m.naim3l", "did you mean 'flu'"),
        ("fit lab=lab.txt {roles} --decide best -o m.naim3l", "decide must be one of"),
        ("fit --config none.toml -o m.naim3l", "none.toml"),
        ("predict lab.txt lab=lab.txt -o x.csv", "lab.txt: not a file of naim3l"),
        ("predict modle.naim3l lab=lab.txt -o x.csv", "did you mean 'model.naim3l'"),
        ("predict modle.naim3l lab=lab.txt -o no/x.csv", "no folder no"),
        ("predict model.naim3l lab=lab.txt -o x.doc", "unknown extension"),
        ("predict model.naim3l x=lab.txt -o x.csv", "the model has no view 'x'"),
        ("predict model.naim3l lab=lab.txt --what all -o x.csv", "--what is"),
        ("predict model.naim3l lab=lab.txt --decide f2 -o x.csv", "decide must be one of ['sign'"),
        (
            "predict model.naim3l lab=lab.txt --what scores --decide f1 -o x.csv",
            "--decide f1 is for labels, but --what is scores",
        ),
        ("impute modle.naim3l lab=lab.txt --format doc", "unknown extension"),
        ("impute modle.naim3l lab=lab.txt -o lab.txt", "lab.txt is a file"),
        ("evaluate model.naim3l lab=lab.txt --report no/p.html", "there is no folder no to write"),
        ("demo --report numbers.json", "name the page"),
        ("inspect .", ".: a folder"),
        ("init lab.txt -o no/study.toml", "there is no folder no"),
        ("init lab=lab.txt -o x.toml", "no such file; did you mean 'lab.txt'"),
    ],
)
def test_mistakes_are_told_in_one_line_and_nothing_is_written(folder, command, message):
    before = sorted(path.name for path in folder.iterdir())
    result = run(*command.format(roles=" ".join(ROLES)).split())
    assert result.exit_code == 1 and not result.stdout, result.output
    (line,) = result.stderr.splitlines()
    assert message in line
    assert sorted(path.name for path in folder.iterdir()) == before


# Kernels


def test_kernels_of_some_views_are_told_and_used(folder):
    kernel = ["--kernel", "lab=rbf", "--landmarks", "30", "--positive-weight", "2"]
    shown = run("fit", *VIEWS, *ROLES, *QUICK, *kernel, "-o", "some.naim3l")
    assert shown.exit_code == 0, shown.output
    model = load("some.naim3l")
    gamma = model.gamma_["lab"]
    assert f"kernels: clinic linear, lab rbf (gamma {gamma:.3g}), survey linear" in shown.stdout
    assert model.positive_weight == 2 and model.coef_["clinic"].shape == (9, 3)
    assert len(model.coef_["lab"]) <= 30
    # The same in settings, unless the command line says otherwise.
    assert run("init", *(view.split("=")[1] for view in VIEWS), "-o", "k.toml").exit_code == 0
    options = "lam = 0.4\nridge = 1\nn_landmarks = 30\npositive_weight = 2\n"
    Path("k.toml").write_text(Path("k.toml").read_text() + options + 'kernel = {lab = "rbf"}\n')
    again = json.loads(
        run("fit", "--config", "k.toml", QUICK[-1], "-o", "again.naim3l", "--json").stdout
    )
    assert again["kernel"]["lab"] == "rbf" and again["gamma"]["lab"] == gamma
    np.testing.assert_array_equal(load("again.naim3l").coef_["lab"], model.coef_["lab"])
    plain = run("fit", "--config", "k.toml", QUICK[-1], "--kernel", "linear", "-o", "plain.naim3l")
    assert plain.exit_code == 0 and "kernels" not in plain.stdout
    # Whatever is done with other models.
    lines = run("inspect", "some.naim3l").stdout.splitlines()
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert ["lab", "patient_id", "6", "rbf", f"{gamma:.4g}"] in cells
    assert ["survey", "patient_id", "5", "linear", "–"] in cells
    for command in (["predict", "--fused", "-o", "fused.csv"], ["impute", "-o", "filled"],
                    ["evaluate"], ["report", "-o", "k.html"]):  # fmt: skip
        done = run(command[0], "some.naim3l", *VIEWS, *command[1:])
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kernel", "labs=rbf"], "kernel: no view 'labs'; did you mean 'lab'?"),
        (["--kernel", "lab=rbf", "--kernel", "lab=chi2"], "given twice"),
        (["--landmarks", "9"], "n_landmarks is for kernels, and none is named"),
        (["--kernel", "rbf", "--landmarks", "0"], "'n_landmarks' parameter of Kernel must"),
    ],
)
def test_mistakes_with_kernels_are_told(folder, arguments, message):
    result = run("fit", "lab=lab.txt", *ROLES, *arguments, "-o", "never.naim3l")
    assert result.exit_code == 1 and message in result.stderr, result.output
    assert not Path("never.naim3l").exists()


@pytest.mark.torch
@pytest.mark.parametrize("command", [["report"], ["evaluate", "--report", "deep.html"]])
def test_networks_have_no_report_and_that_is_told_in_one_line(folder, command):
    pytest.importorskip("torch")
    from naim3l.deep import DeepNAIM3L, Network, Training

    table = pd.read_csv("clinic.csv", index_col="patient_id")
    labels = table[["flu", "asthma", "gout"]].replace({"yes": 1, "no": 0, "unknown": np.nan})
    model = DeepNAIM3L(features="auto", network=Network((3,)), training=Training(1))
    model.fit({"clinic": table.drop(columns=labels.columns)}, {"clinic": labels.astype(float)})
    model.save("deep.naim3l")
    result = run(command[0], "deep.naim3l", "clinic=clinic.csv", *command[1:])
    assert result.exit_code == 1 and not result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("naim3l: DeepNAIM3L has no readable weights per view: explanations")
    assert not Path("deep.html").exists()
    assert run("evaluate", "deep.naim3l", "clinic=clinic.csv").exit_code == 0
