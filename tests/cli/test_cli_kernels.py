"""Kernels from the command line: fitted, told, used, reported; and models that have networks."""

import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from naim3l import load
from naim3l.cli import app

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "messy_files.py"
VIEWS = ["clinic=clinic.csv", "lab=lab.txt", "survey=survey.parquet"]
ROLES = ["--id", "patient_id", "--labels", "flu", "--labels", "asthma", "--labels", "gout"]
QUICK = ["--lam", "0.4", "--ridge", "1"]
RBF = ["--kernel", "rbf", "--landmarks", "40"]


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with the files and a model with kernels of them."""
    path = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        result = run("fit", *VIEWS, *ROLES, *QUICK, *RBF, "-o", "model.naim3l", "--json")
        assert result.exit_code == 0, result.output
        Path("summary.json").write_text(result.stdout)
        rng = np.random.default_rng(0)
        counts = pd.DataFrame(rng.poisson(2, (80, 4)), columns=["a", "b", "c", "d"])
        counts = counts.assign(flu=(counts["a"] > counts["b"]).map({True: "yes", False: "no"}))
        counts.rename_axis("patient_id").to_csv("counts.csv")
    return path


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_kernels_and_gammas_are_in_the_summary(folder):
    summary = json.loads((folder / "summary.json").read_text())
    model = load("model.naim3l")
    assert summary["kernel"] == {"clinic": "rbf", "lab": "rbf", "survey": "rbf"}
    assert summary["gamma"] == {view: of.gamma for view, of in model.kernel_maps_.items()}
    assert all(len(W) <= 40 for W in model.coef_.values())


def test_some_views_have_kernels_and_others_none(folder):
    one = ["--kernel", "lab=rbf", "--landmarks", "30", "--positive-weight", "2"]
    shown = run("fit", *VIEWS, *ROLES, *QUICK, *one, "-o", "some.naim3l")
    assert shown.exit_code == 0, shown.output
    model = load("some.naim3l")
    gamma = model.gamma_["lab"]
    assert f"kernels: clinic linear, lab rbf (gamma {gamma:.3g}), survey linear" in shown.stdout
    assert model.positive_weight == 2 and model.coef_["clinic"].shape == (7, 3)
    # The same in settings.
    assert run("init", *(view.split("=")[1] for view in VIEWS), "-o", "s.toml").exit_code == 0
    options = (
        'lam = 0.4\nridge = 1\nn_landmarks = 30\npositive_weight = 2\nkernel = {lab = "rbf"}\n'
    )
    Path("s.toml").write_text(Path("s.toml").read_text() + options)
    again = run("fit", "--config", "s.toml", "-o", "again.naim3l", "--json")
    assert json.loads(again.stdout)["kernel"]["lab"] == "rbf"
    other = load("again.naim3l")
    for view in model.views_:
        np.testing.assert_array_equal(other.coef_[view], model.coef_[view])
    # What is said on the command line goes before.
    plain = run("fit", "--config", "s.toml", "--kernel", "linear", "-o", "plain.naim3l")
    assert plain.exit_code == 0 and "kernels" not in plain.stdout
    assert load("plain.naim3l").kernel_maps_ == {}


def test_gammas_are_chosen_with_the_rest(folder):
    result = run("fit", "lab=lab.txt", *ROLES, *RBF, "-o", "chosen.naim3l", "--json")
    summary = json.loads(result.stdout)
    model = load("chosen.naim3l")
    assert summary["gamma"] == model.gamma_ and summary["metric"] == "AP"


@pytest.mark.parametrize("kernel", ["chi2", "hellinger"])
def test_counts_are_compared_as_they_are(folder, kernel):
    arguments = ["counts=counts.csv", "--id", "patient_id", "--labels", "flu", *QUICK]
    result = run("fit", *arguments, "--kernel", kernel, "-o", "counts.naim3l")
    assert result.exit_code == 0, result.output
    assert f"kernels: counts {kernel} (gamma " in result.stdout
    table = pd.read_csv("counts.csv")
    table.assign(a=table["a"] - 3).to_csv("negative.csv", index=False)
    refused = run(
        "fit", "counts=negative.csv", *arguments[1:], "--kernel", kernel, "-o", "n.naim3l"
    )
    assert refused.exit_code == 1 and "negative" in refused.stderr
    assert not Path("n.naim3l").exists()
    chances = run("predict", "counts.naim3l", "counts=counts.csv", "--what", "probabilities",
                  "-o", "chances.csv")  # fmt: skip
    assert chances.exit_code == 0, chances.output
    found = pd.read_csv("chances.csv")["flu"]
    assert found[table["flu"] == "yes"].mean() > found[table["flu"] == "no"].mean() + 0.2


def test_inspection_shows_kernels(folder):
    about = json.loads(run("inspect", "model.naim3l", "--json").stdout)
    gammas = json.loads((folder / "summary.json").read_text())["gamma"]
    for view, features in about["model"]["features_"].items():
        assert features["kernel"]["name"] == "rbf"
        assert features["kernel"]["gamma"] == pytest.approx(gammas[view])
    shown = run("inspect", "model.naim3l").stdout
    assert "rbf" in shown and f"{gammas['lab']:.4g}" in shown
    kernel = ["--kernel", "lab=rbf", "--landmarks", "20"]
    run("fit", *VIEWS[1:], *ROLES, *QUICK, *kernel, "-o", "mixed.naim3l")
    lines = run("inspect", "mixed.naim3l").stdout.splitlines()
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert ["survey", "patient_id", "4", "linear", "–"] in cells


def test_everything_works_on_a_model_with_kernels(folder):
    fused = run("predict", "model.naim3l", "clinic=clinic_new.csv", "lab=lab.txt", "--fused",
                "--what", "probabilities", "-o", "fused.csv")  # fmt: skip
    assert fused.exit_code == 0, fused.output
    assert pd.read_csv("fused.csv").iloc[:, 1:].stack().between(0, 1).all()
    assert run("impute", "model.naim3l", *VIEWS, "-o", "filled").exit_code == 0
    result = json.loads(run("evaluate", "model.naim3l", *VIEWS, "--json").stdout)
    assert result["views"]["fused"]["macro-AUC"]["value"] > 0.85
    page = run("report", "model.naim3l", *VIEWS, "--test", "clinic=clinic_new.csv", "-o", "k.html")
    assert page.exit_code == 0, page.output
    assert json.loads(Path("k.json").read_text())["features"] == []


def test_help_names_the_kernels():
    shown = run("fit", "--help").stdout
    assert "--kernel words=hellinger --kernel lab=rbf" in shown
    for name in ("rbf", "chi2", "hellinger", "linear", "--landmarks", "--positive-weight"):
        assert name in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kernel", "rfb"], "kernel must be one of ['linear', 'rbf', 'chi2', 'laplacian', 'hell"),
        (["--kernel", "labs=rbf"], "kernel: no view 'labs'; did you mean 'lab'?"),
        (["--kernel", "rbf", "--kernel", "lab=rbf"], "give one kernel for all views, or"),
        (["--kernel", "lab=rbf", "--kernel", "lab=chi2"], "view=kernel once for each"),
        (["--landmarks", "9"], "n_landmarks is for kernels, and none is named"),
        (["--kernel", "rbf", "--landmarks", "0"], "n_landmarks must be a whole number >= 1"),
        (["--positive-weight", "-1"], "positive_weight must be a float in the range"),
    ],
)
def test_mistakes_are_told(folder, arguments, message):
    result = run("fit", "lab=lab.txt", *ROLES, *arguments, "-o", "never.naim3l")
    assert result.exit_code == 1 and message in result.stderr, result.output
    assert not Path("never.naim3l").exists()


@pytest.mark.torch
@pytest.mark.parametrize("command", [["report"], ["evaluate", "--report", "deep.html"]])
def test_networks_have_no_report_and_that_is_told_in_one_line(folder, command):
    from naim3l.deep import DeepNAIM3L

    table = pd.read_csv("lab.txt", sep=";", decimal=",", index_col="patient_id")
    labels = table[["flu", "asthma", "gout"]].replace({"yes": 1, "no": 0, "unknown": np.nan})
    model = DeepNAIM3L(max_epochs=1, hidden=(3,), device="cpu", random_state=0)
    model.fit({"lab": table.drop(columns=labels.columns)}, {"lab": labels.astype(float)})
    model.save("deep.naim3l")
    result = run(command[0], "deep.naim3l", "lab=lab.txt", *command[1:])
    assert result.exit_code == 1 and not result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("naim3l: DeepNAIM3L has no readable weights per view: explanations")
    assert not Path("deep.html").exists()
    assert run("evaluate", "deep.naim3l", "lab=lab.txt").exit_code == 0
