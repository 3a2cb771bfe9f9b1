"""One label alone, and two of which one is never positive: everything works, and says so."""

import json

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3LCV, Decisions, join_views
from naim3l.estimators import PerViewBoosting, PerViewLogistic, PerViewRidge
from study import run

pytestmark = pytest.mark.filterwarnings("ignore:labels never observed positive")
QUICK = {"lams": [0.1, 1.0], "ridges": [1.0], "random_state": 0}


def tables(n_labels):
    """Two views of the same 40 rows; labels "sick" and "never"."""
    rng = np.random.default_rng(0)
    X, Y = {}, {}
    for view, n_columns in (("a", 4), ("b", 3)):
        rows = pd.DataFrame(rng.normal(size=(40, n_columns))).add_prefix(view)
        sick = np.where(rows[f"{view}0"] + 0.5 * rng.normal(size=40) > 0, 1.0, 0.0)
        sick[::7] = np.nan
        X[view], Y[view] = rows, pd.DataFrame({"sick": sick, "never": 0.0}).iloc[:, :n_labels]
    return X, Y


@pytest.mark.parametrize("n_labels", [1, 2])
@pytest.mark.parametrize("decide", ["f1", "cardinality"])
def test_chosen_calibrated_and_decided_on(n_labels, decide):
    X, Y = tables(n_labels)
    model = NAIM3LCV(decide=decide, **QUICK).fit(X, Y)
    assert model.metric_ == "macro-AUC" and (model.cv_results_["mean_test_score"] > 0).all()
    chances, decided = model.predict_proba(X)["a"], model.predict(X)["a"]
    known = Y["a"]["sick"].notna()
    assert np.mean(decided[known, 0] == Y["a"]["sick"][known]) > 0.7
    assert 0.2 < chances[:, 0].mean() < 0.8 and (chances[:, 1:] < 0.2).all()
    assert 0.5 < model.score(X, Y) <= 1


@pytest.mark.parametrize("fusion", ["mean", "evidence"])
@pytest.mark.parametrize("n_labels", [1, 2])
def test_fused(n_labels, fusion):
    X, Y = tables(n_labels)
    wide, views = join_views(X)
    model = NAIM3LCV(views=views, decide=Decisions("guarded", fusion=fusion), **QUICK)
    model.fit(wide, Y["a"])
    chances = model.predict_proba(wide)
    assert chances.shape == (40, n_labels) and np.isfinite(chances).all()
    as_vector = model.fit(wide, Y["a"]["sick"]).predict_proba(wide)
    assert as_vector.shape == (40, 2)
    if n_labels == 1:
        np.testing.assert_array_equal(as_vector[:, 1:], chances)


@pytest.mark.parametrize("method", [PerViewRidge, PerViewLogistic, PerViewBoosting])
@pytest.mark.parametrize("n_labels", [1, 2])
def test_compared_methods(method, n_labels):
    X, Y = tables(n_labels)
    model = method(decide="f1", random_state=0).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)["b"]).all()


@pytest.mark.parametrize("n_labels", [1, 2])
def test_files_on_the_command_line(tmp_path, monkeypatch, n_labels):
    monkeypatch.chdir(tmp_path)
    X, Y = tables(n_labels)
    for view in X:
        pd.concat([X[view], Y[view]], axis=1).to_csv(f"{view}.csv", index_label="id")
    files = ["a=a.csv", "b=b.csv", "--id", "id"]
    labels = [word for name in Y["a"] for word in ("--labels", name)]
    fitted = run("fit", *files, *labels, "-o", "m.naim3l", "--report", "fit.html", "--json")
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(fitted.stdout)["metric"] == "macro-AUC"
    told = run("evaluate", "m.naim3l", *files, "--report", "test.html", "--json")
    assert told.exit_code == 0, told.output
    fused = json.loads(told.stdout)["views"]["fused"]
    assert (fused["AP"]["value"] is None) == (n_labels == 1)
    assert fused["macro-AUC"]["value"] > 0.6
    for what in ("labels", "probabilities", "scores"):
        done = run("predict", "m.naim3l", *files, "--fused", "--what", what, "-o", "out.csv")
        assert done.exit_code == 0, done.output
        assert pd.read_csv("out.csv", index_col="id").notna().all(axis=None)
    assert run("impute", "m.naim3l", *files, "-o", "filled").exit_code == 0
    shown = run("fit", *files, *labels, "--lam", "0.4", "--ridge", "1", "-o", "other.naim3l")
    assert shown.exit_code == 0 and ("1 label" in shown.stdout) == (n_labels == 1)
    assert "1 labels" not in shown.stdout
