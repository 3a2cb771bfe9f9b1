"""One label alone, and two of which one is never positive: everything works, and says so."""

import json

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3LCV, join_views
from naim3l.estimators import PerViewLogistic, PerViewRidge
from study import run

NEVER = pytest.mark.filterwarnings("ignore:labels never observed positive")
QUICK = {"lams": [0.1, 1.0], "ridges": [1.0], "random_state": 0}


def tables(n_labels):
    """Two views of the same 40 rows, the second without some; labels "sick" and "never"."""
    rng = np.random.default_rng(0)
    X, Y = {}, {}
    for view, n_columns in (("a", 4), ("b", 3)):
        rows = pd.DataFrame(rng.normal(size=(40, n_columns))).add_prefix(view)
        sick = np.where(rows[f"{view}0"] + 0.5 * rng.normal(size=40) > 0, 1.0, 0.0)
        sick[::7] = np.nan
        X[view], Y[view] = rows, pd.DataFrame({"sick": sick, "never": 0.0}).iloc[:, :n_labels]
    return X, Y


@NEVER
@pytest.mark.parametrize(("n_labels", "metric"), [(1, "log-loss"), (2, "AP")])
@pytest.mark.parametrize("threshold", ["f1", "cardinality"])
def test_chosen_calibrated_and_decided_on(n_labels, metric, threshold):
    X, Y = tables(n_labels)
    model = NAIM3LCV(threshold=threshold, calibrate=True, **QUICK).fit(X, Y)
    assert model.metric_ == metric and np.isfinite(model.best_score_)
    assert (model.cv_results_["mean_test_score"] > 0).all()
    chances, decided = model.predict_proba(X)["a"], model.predict(X)["a"]
    known = Y["a"]["sick"].notna()
    assert np.mean(decided[known, 0] == Y["a"]["sick"][known]) > 0.7
    assert 0.2 < chances[:, 0].mean() < 0.8 and (chances[:, 1:] < 0.2).all()
    assert 0.5 < model.score(X, Y) <= 1


@NEVER
@pytest.mark.parametrize("fusion", ["mean", "evidence", "learned"])
@pytest.mark.parametrize("n_labels", [1, 2])
def test_fused(n_labels, fusion):
    X, Y = tables(n_labels)
    wide, views = join_views(X)
    model = NAIM3LCV(views=views, fusion=fusion, calibrate=True, **QUICK).fit(wide, Y["a"])
    chances = model.predict_proba(wide)
    assert chances.shape == (40, n_labels) and np.isfinite(chances).all()


@NEVER
@pytest.mark.parametrize("method", [PerViewRidge, PerViewLogistic])
def test_compared_methods(method):
    for n_labels in (1, 2):
        X, Y = tables(n_labels)
        model = method(threshold="f1", calibrate=True, random_state=0).fit(X, Y)
        assert np.isfinite(model.predict_proba(X)["b"]).all()


@NEVER
@pytest.mark.parametrize("n_labels", [1, 2])
def test_files_on_the_command_line(tmp_path, monkeypatch, n_labels):
    monkeypatch.chdir(tmp_path)
    X, Y = tables(n_labels)
    for view in X:
        pd.concat([X[view], Y[view]], axis=1).to_csv(f"{view}.csv", index_label="id")
    files = ["a=a.csv", "b=b.csv", "--id", "id"]
    labels = [word for name in Y["a"] for word in ("--labels", name)]
    fitted = run("fit", *files, *labels, "-o", "model.skops", "--report", "fit.html", "--json")
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(fitted.stdout)["metric"] == ("log-loss" if n_labels == 1 else "AP")
    told = run("evaluate", "model.skops", *files, "--report", "test.html", "--json")
    assert told.exit_code == 0, told.output
    values = json.loads(told.stdout)
    fused = values["views"]["fused"]
    assert (fused["AP"]["value"] is None) == (n_labels == 1)
    assert fused["macro-AUC"]["value"] > 0.6
    for what in ("labels", "probabilities", "scores"):
        done = run("predict", "model.skops", *files, "--fused", "--what", what, "-o", "out.csv")
        assert done.exit_code == 0, done.output
        assert pd.read_csv("out.csv", index_col="id").notna().all(axis=None)
    assert run("impute", "model.skops", *files, "-o", "filled").exit_code == 0
    assert "log-loss" in (tmp_path / "fit.html").read_text() or n_labels == 2


def test_one_label_is_singular(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, Y = tables(1)
    pd.concat([X["a"], Y["a"]], axis=1).to_csv("a.csv", index_label="id")
    told = run("fit", "a=a.csv", "--id", "id", "--labels", "sick", "--lam", "0.4", "--ridge", "1",
               "-o", "model.skops")  # fmt: skip
    assert told.exit_code == 0 and "1 label" in told.stdout and "1 labels" not in told.stdout
