"""``naim3l compare``: a table and a figure, also of methods that were finished before Ctrl-C."""

import json
import shutil

from naim3l.estimators import PerViewRidge, methods
from study import ROLES, VIEWS, done, run


class Interrupted(PerViewRidge):
    """Somebody presses Ctrl-C during the fit."""

    def fit(self, X, y=None):
        raise KeyboardInterrupt


def few(random_state, features):
    given = {"decide": "half", "features": features}
    return {"ridge": PerViewRidge(**given), "other": PerViewRidge(ridge=9.0, **given)}


def test_a_table_and_a_figure(folder, monkeypatch):
    monkeypatch.setattr(methods, "all_methods", few)
    shown = done("compare", *VIEWS, *ROLES, "--folds", "2", "--figure", "gains.svg").stdout
    assert all(f"│ {name} " in shown for name in ("guessing", "ridge", "other"))
    assert "<svg" in (folder / "gains.svg").read_text()
    found = json.loads(done("compare", *VIEWS, *ROLES, "--folds", "2", "--json").stdout)
    assert [of["method"] for of in found] == ["guessing", "ridge", "other"]
    assert found[0]["means"]["macro-AUC"] == 0.5 < found[1]["means"]["macro-AUC"]


def test_an_interrupt_loses_nothing(folder, monkeypatch):
    both = {"ridge": PerViewRidge(decide="half"), "other": Interrupted(decide="half")}
    monkeypatch.setattr(methods, "all_methods", lambda *given: both)
    result = run("compare", *VIEWS, *ROLES, "--folds", "2")
    assert "these methods are finished" in result.stderr
    assert "│ ridge" in result.stdout and "│ other" not in result.stdout


def test_folders_and_one_fold_are_refused(folder):
    (folder / "parts").mkdir()
    shutil.copy("clinic.csv", "parts")
    result = run("compare", "clinic=parts/", *ROLES)
    assert result.exit_code == 1 and "compare reads tables into memory" in result.stderr
    assert run("compare", *VIEWS, *ROLES, "--folds", "1").exit_code == 2
