"""What commands write: checked before the work, whole or not at all, and never over an input."""

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L
from study import QUICK, ROLES, VIEWS, run

SETTINGS = """
[views.lab]
source = "lab.txt"
id = "patient_id"
labels = ["flu", "asthma", "gout"]
"""


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A folder of its own with the files, which tests may spoil."""
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(SETTINGS)
    return tmp_path


def contents():
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def told(result):
    """The one line of an error."""
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


class TestInputs:
    """No output is an input, under whichever name; told before anything is read."""

    @pytest.mark.parametrize(
        "arguments",
        [
            ["fit", *VIEWS, *ROLES, *QUICK, "-o", "clinic.csv"],
            ["fit", *VIEWS, *ROLES, *QUICK, "-o", "m.naim3l", "--report", "survey.parquet"],
            ["fit", "--config", "study.toml", *QUICK, "-o", "study.toml"],
            ["fit", "x=lab.txt", "--labels-file", "x=link.csv", *ROLES, "-o", "clinic_new.csv"],
            ["predict", "model.naim3l", "clinic=clinic_new.csv", "-o", "clinic_new.csv"],
            ["predict", "model.naim3l", "clinic=sqlite:///a.csv#select 1", "-o", "a.csv"],
            ["predict", "model.naim3l", "clinic=clinic_new.csv", "-o", "link.csv"],
            ["impute", "model.naim3l", "clinic=clinic.csv", "-o", "."],
            ["evaluate", "model.naim3l", "lab=lab.txt", "--report", "lab.txt"],
            ["evaluate", "model.naim3l", "--config", "study.toml", "--report", "study.toml"],
            ["report", "model.naim3l", *VIEWS, "-o", "model.naim3l"],
            ["report", "model.naim3l", *VIEWS, "--test", "lab=test.csv", "-o", "test.csv"],
            ["report", "numbers.json", *VIEWS, "-o", "numbers.html"],
            ["init", "clinic.csv", "lab.txt", "-o", "lab.txt", "--force"],
        ],
    )
    def test_are_not_overwritten(self, folder, arguments):
        os.symlink("clinic_new.csv", "link.csv")
        sqlite3.connect("a.csv").close()
        for name in ("numbers.json", "test.csv"):
            Path(name).write_text("mine")
        np.savez("own.npz", labels=np.ones((2, 1)), view_a=np.ones((2, 1)))
        before = contents()
        assert "is read by this command and would be overwritten" in told(run(*arguments))
        assert contents() == before

    def test_two_outputs_are_two_files(self, folder):
        line = told(run("fit", *VIEWS, *ROLES, "-o", "m.json", "--report", "m.html"))
        assert "m.json would be written twice" in line


class TestAllOrNothing:
    @pytest.mark.parametrize("code", [1, 130])
    def test_of_several_tables_none_is_left(self, folder, monkeypatch, code):
        Path("out").mkdir()
        Path("out/clinic.csv").write_text("old")
        to_csv, seen = pd.DataFrame.to_csv, []

        def stop(self, *arguments, **options):
            to_csv(self, *arguments, **options)
            seen.append(self)
            if len(seen) == 2:
                raise OSError(28, "No space left on device") if code == 1 else KeyboardInterrupt

        monkeypatch.setattr(pd.DataFrame, "to_csv", stop)
        before = contents()
        views = ["clinic=clinic_new.csv", "lab=lab.txt"]
        for out in ("out", "new/deep"):
            seen.clear()
            result = run("impute", "model.naim3l", *views, "-o", out)
            assert result.exit_code == code and len(seen) == 2
            assert not result.stdout and contents() == before and not Path("new").exists()
            if code == 1:
                assert told(result) == f"naim3l: {out}/lab.csv: No space left on device."

    def test_page_and_numbers_appear_together(self, folder, monkeypatch):
        def fail(summary):
            raise KeyboardInterrupt

        monkeypatch.setattr("naim3l.report.page.render_report", fail)
        before = contents()
        result = run("evaluate", "model.naim3l", "lab=lab.txt", "--report", "page.html")
        assert result.exit_code == 130 and contents() == before

    @pytest.mark.parametrize(
        "arguments",
        [
            ["fit", *VIEWS, *ROLES, "-o", "m.naim3l"],
            ["predict", "none.naim3l", "lab=none.csv", "-o", "x.csv"],
            ["impute", "none.naim3l", "lab=none.csv", "-o", "new"],
            ["report", "none.naim3l", "lab=none.csv"],
            ["evaluate", "none.naim3l", "lab=none.csv", "--report", "page.html"],
            ["demo", "--report", "page.html"],
        ],
    )
    def test_full_disk_is_told_before_the_work_with_the_name_of_the_file(
        self, folder, monkeypatch, arguments
    ):
        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        before = contents()
        line = told(run(*arguments))
        assert line.endswith(": No space left on device.") and "None" not in line
        assert contents() == before


class TestUnsavedFits:
    def test_model_that_could_not_be_saved_comes_from_the_checkpoint(self, folder, monkeypatch):
        command = ["fit", "lab=lab.txt", *ROLES]
        assert run(*command, "-o", "whole.naim3l").exit_code == 0
        replace = os.replace

        def full(source, target):
            if str(target).endswith("m.naim3l"):
                raise OSError(28, "No space left on device")
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            line = told(run(*command, "-o", "m.naim3l"))
        assert line.startswith("naim3l: m.naim3l: No space left on device. The fit is kept in ")
        assert "m.naim3l.checkpoint" in line and "--resume" in line
        assert "--resume resumes it" in told(run(*command, "-o", "m.naim3l"))
        monkeypatch.setattr("naim3l.solvers.fast._iterate", None)  # any iteration would fail
        result = run(*command, "-o", "m.naim3l", "--resume")
        assert result.exit_code == 0, result.output
        assert Path("m.naim3l").read_bytes() == Path("whole.naim3l").read_bytes()
        assert not list(Path().glob("*.checkpoint")) and not list(Path().glob(".*"))

    def test_ctrl_c_amid_saving_leaves_the_checkpoint(self, folder, monkeypatch):
        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(NAIM3L, "save", stop)
        result = run("fit", "lab=lab.txt", *ROLES, *QUICK, "-o", "m.naim3l")
        assert result.exit_code == 130
        assert result.stderr == "Interrupted; the same command with --resume resumes the fit.\n"
        assert Path("m.naim3l.checkpoint").exists() and not Path("m.naim3l").exists()


class TestNames:
    def test_view_names_lead_nowhere(self, folder):
        text = SETTINGS.replace("views.lab", 'views."../precious"')
        (folder / "inner").mkdir()
        Path("study.toml").write_text(text)
        Path("precious.csv").write_text("mine")
        result = run("fit", "--config", "study.toml", *QUICK, "-o", "odd.naim3l")
        assert result.exit_code == 0, result.output
        before = contents()
        result = run("impute", "odd.naim3l", "--config", "study.toml", "-o", "inner/filled")
        assert result.exit_code == 0, result.output
        assert set(contents()) - set(before) == {Path("inner/filled/%2E.%2Fprecious.csv")}
        assert {path: contents()[path] for path in before} == before

    @pytest.fixture
    def odd(self, folder):
        """Writes a table whose labels have odd names, and fits a model to it."""

        def make(*labels):
            rng = np.random.default_rng(0)
            X = rng.normal(size=(30, 3))
            table = pd.DataFrame(X, columns=["x", "y", "z"])
            for k, label in enumerate(labels):
                table[label] = (X[:, k % 3] > 0).astype(int)
            table.loc[:9, labels[0]] = None
            table.insert(0, "patient_id", [f"p{i}" for i in range(30)])
            table.to_csv("odd.csv", index=False)
            roles = [part for label in labels for part in ("--labels", label)]
            views = ["a=odd.csv", "b=odd.csv", "--id", "patient_id"]
            result = run("fit", *views, *roles, *QUICK, "-o", "odd.naim3l")
            assert result.exit_code == 0, result.output
            return table

        return make

    def test_confidences_and_labels_have_columns_of_their_own(self, odd):
        table = odd("flu", "flu_confidence")
        assert run("impute", "odd.naim3l", "a=odd.csv", "-o", "filled").exit_code == 0
        filled = pd.read_csv("filled/a.csv")
        assert list(filled.columns) == ["patient_id", "flu", "flu_confidence_", "flu_filled",
                                        "flu_confidence", "flu_confidence_confidence",
                                        "flu_confidence_filled"]  # fmt: skip
        np.testing.assert_array_equal(filled["flu_confidence"], table["flu_confidence"])
        known = table["flu"].notna()
        np.testing.assert_array_equal(filled["flu"][known], table["flu"][known])
        assert (filled["flu_confidence_"][known] == 1).all()
        assert (filled["flu_confidence_"][~known] < 1).all()

    def test_views_of_rows_have_a_column_of_their_own(self, odd):
        table = odd("view", "id")
        two = ["a=odd.csv", "b=odd.csv"]
        assert run("predict", "odd.naim3l", *two, "-o", "out.csv").exit_code == 0
        out = pd.read_csv("out.csv")
        assert list(out.columns) == ["patient_id", "view_", "view", "id"]
        assert list(out["view_"]) == ["a"] * 30 + ["b"] * 30
        table.drop(columns="patient_id").to_csv("odd.csv", index=False)  # rows without ids
        assert run("predict", "odd.naim3l", *two, "-o", "out.csv").exit_code == 0
        out = pd.read_csv("out.csv")
        assert list(out.columns) == ["row", "view_", "view", "id"]
        assert list(out["row"]) == [*range(30), *range(30)]
