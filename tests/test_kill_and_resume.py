"""Fits that are killed, and commands that are stopped, go on to the same model."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from study import ROLES, VIEWS, run, write_files

TESTS = Path(__file__).resolve().parent
ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads and forks do not go together


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, to kill without long starts")
def test_killed_fits_end_at_the_same_weights():
    """Moments are drawn from a seed; a fit that ends before its moment is no kill, and repeated."""
    command = [sys.executable, str(TESTS / "killed_fits.py"), "--kills", "3", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=ONE_THREAD)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    assert done.stdout.count(": killed at ") == 3


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_leaves_a_checkpoint_and_resume_gives_the_same_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()
    command = [sys.executable, "-c", "from naim3l.cli import main; main()", "fit", *VIEWS, *ROLES]
    process = subprocess.Popen(
        [*command, "-o", "m.naim3l"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    checkpoint, until = tmp_path / "m.naim3l.checkpoint", time.monotonic() + 100
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    shown, told = process.communicate(timeout=100)
    assert process.returncode == 130, (shown, told)
    assert told == "Interrupted; the same command with --resume resumes the fit.\n" and not shown
    assert checkpoint.exists() and not (tmp_path / "m.naim3l").exists()
    for output, options in (("m.naim3l", ["--resume"]), ("whole.naim3l", [])):
        done = run("fit", *VIEWS, *ROLES, "-o", output, *options)
        assert done.exit_code == 0 and not done.stderr, done.output
    assert (tmp_path / "m.naim3l").read_bytes() == (tmp_path / "whole.naim3l").read_bytes()
    assert not list(tmp_path.glob("*.checkpoint*")) and not list(tmp_path.glob(".*.part"))
