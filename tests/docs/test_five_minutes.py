"""Who follows the two five-minute pages gets what they show."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fenced_blocks import ROOT, alike, check_output, with_output


def test_five_minutes_from_files(tmp_path):
    shutil.copy(ROOT / "examples" / "messy_files.py", tmp_path)
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    environment["COLUMNS"] = "80"
    commands = with_output("docs/start/files.md", "sh")
    assert len(commands) == 8
    for command, shown in commands:
        done = subprocess.run(
            ["sh", "-e", "-c", command], cwd=tmp_path, env=environment, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if shown:
            assert alike(shown, done.stdout), f"{command}\n{done.stdout}"
    assert (tmp_path / "report.html").stat().st_size > 10_000
    # It is worth something: the later patients' known diagnoses are ranked well.
    truth = pd.read_csv(tmp_path / "clinic_new.csv", index_col="patient_id")
    probabilities = pd.read_csv(tmp_path / "probabilities.csv", index_col="patient_id")
    for label in ("flu", "asthma", "gout"):
        known = truth[label] != "unknown"
        assert roc_auc_score(truth[label][known] == "yes", probabilities[label][known]) > 0.7


def test_five_minutes_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = with_output("docs/start/python.md", "python")
    assert len(blocks) == 7
    namespace = {}
    for code, shown in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        if shown:
            check_output(shown, printed.getvalue())
    assert Path("model.naim3l").exists()


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("AP 0.70", "AP  0.71", True),
        ("AP 0.70", "AP 0.75", False),
        ("AP 70.1", "AP 71.0", True),
        ("AP 0.70", "AUC 0.70", False),
        ("P0113,1", "P0113,1.0", True),
        ("P0113,1", "P0114,1", False),
    ],
)
def test_lines_are_alike_if_words_agree_and_numbers_nearly(shown, printed, same):
    assert alike(shown, printed) == same


def test_lines_that_are_not_printed_are_reported():
    check_output("one\n...\nthree", "zero\none\ntwo\nthree")
    with pytest.raises(AssertionError, match="nothing prints:\nthree"):
        check_output("three\none", "one\ntwo")
