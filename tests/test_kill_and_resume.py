"""Fits that are killed, and commands that are stopped, go on to the same model."""

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads and forks do not go together


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, to kill without long starts")
def test_killed_fits_end_at_the_same_weights():
    """Moments are drawn from a seed; a fit that ends before its moment is no kill, and repeated."""
    command = [sys.executable, str(TESTS / "killed_fits.py"), "--kills", "3", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=ONE_THREAD)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    assert done.stdout.count(": killed at ") == 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(TESTS.parent / "examples" / "messy_files.py"), run_name="__main__")
    return tmp_path


def start(*arguments):
    """The command with files and roles, as a process."""
    command = [
        sys.executable,
        "-c",
        "from naim3l.cli import main; main()",
        "fit",
        "clinic=clinic.csv",
        "lab=lab.txt",
        "survey=survey.parquet",
        "--id",
        "patient_id",
    ]
    for label in ("flu", "asthma", "gout"):
        command += ["--labels", label]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_leaves_a_checkpoint_and_resume_gives_the_same_model(folder):
    whole = start("-o", "whole.naim3l")
    process = start("-o", "model.naim3l")
    checkpoint = folder / "model.naim3l.checkpoint"
    until = time.monotonic() + 100
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    shown, told = process.communicate(timeout=100)
    assert process.returncode == 130, (shown, told)
    assert told == "Interrupted; the same command with --resume resumes the fit.\n" and not shown
    assert checkpoint.exists() and not (folder / "model.naim3l").exists()
    again = start("-o", "model.naim3l", "--resume")
    shown, told = again.communicate(timeout=100)
    assert again.returncode == 0, told
    assert whole.wait(100) == 0 and whole.communicate()[1] == told == ""
    assert (folder / "model.naim3l").read_bytes() == (folder / "whole.naim3l").read_bytes()
    assert not list(folder.glob("*.checkpoint*")) and not list(folder.glob(".*.part"))
