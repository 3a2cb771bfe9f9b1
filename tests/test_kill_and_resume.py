"""Fits that are killed, and commands that are stopped, go on to the same model."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from naim3l import NAIM3L
from naim3l.datasets import make_unpaired
from naim3l.estimators import training
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


IN_PARTS = """
from naim3l import NAIM3L
X, y = {"view0": "view0.parquet", "view1": "view1.parquet"}, ["flu", "gout", "rash"]
model = NAIM3L(ridge=1.0, decide="guarded", random_state=0)
model.fit(X, dict.fromkeys(X, y), checkpoint="fit.checkpoint").save("model.naim3l")
"""


def parts_kept(folder):
    """Files of finished parts of a pass."""
    found = folder.glob("fit.checkpoint.parts/*")
    return sorted(path for path in found if not path.name.startswith("."))


def fit_and_kill(folder, n_parts):
    """Kill a fit as soon as so many parts of its last pass are finished."""
    process = subprocess.Popen([sys.executable, "-c", IN_PARTS], cwd=folder, env=ONE_THREAD)
    until = time.monotonic() + 100
    while len(parts_kept(folder)) < n_parts and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "the fit ended before"


@pytest.mark.dask
@pytest.mark.skipif(sys.platform == "win32", reason="is killed as on POSIX systems")
def test_a_fit_killed_within_its_last_pass_reads_only_the_other_parts(tmp_path, monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.chdir(tmp_path)
    data = make_unpaired(9000, n_labels=3, missing_labels=0.3, noise=0.5, random_state=0)
    for view, X in data.views.items():
        table = (
            pd.DataFrame(X)
            .add_prefix("x")
            .join(pd.DataFrame(data.labels[view], columns=["flu", "gout", "rash"]))
        )
        table.to_parquet(f"{view}.parquet", row_group_size=300)
    subprocess.run([sys.executable, "-c", IN_PARTS], env=ONE_THREAD, check=True)
    expected = Path("model.naim3l").read_bytes()
    assert not list(tmp_path.glob("*.checkpoint*"))
    fit_and_kill(tmp_path, 5)
    fit_and_kill(tmp_path, 12)
    assert Path("fit.checkpoint").exists()
    damaged, *others = parts_kept(tmp_path)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    read, of_batch = [], training.statistics_of_batch
    monkeypatch.setattr(
        training, "statistics_of_batch", lambda *a: read.append(a[2]) or of_batch(*a)
    )
    names = {view: ["flu", "gout", "rash"] for view in data.views}
    model = NAIM3L(ridge=1.0, decide="guarded", random_state=0)
    with pytest.raises(ValueError, match="is the checkpoint of another fit"):
        NAIM3L(ridge=2.0, random_state=0).fit(
            {view: f"{view}.parquet" for view in names}, names, checkpoint="fit.checkpoint"
        )
    model.fit({view: f"{view}.parquet" for view in names}, names, checkpoint="fit.checkpoint")
    assert len(read) == 60 - len(others)
    assert not Path("fit.checkpoint.parts").exists()
    model.save("model.naim3l")
    assert Path("model.naim3l").read_bytes() == expected
    assert not list(tmp_path.glob("*.checkpoint*"))


@pytest.mark.dask
def test_large_results_of_parts_are_not_kept_and_faults_of_data_leave_nothing(
    tmp_path, monkeypatch
):
    dd = pytest.importorskip("dask.dataframe")
    data = make_unpaired(90, n_labels=3, random_state=0)
    X, y = (
        {view: dd.from_pandas(pd.DataFrame(of), npartitions=3) for view, of in each.items()}
        for each in (data.views, data.labels)
    )
    model, path = NAIM3L(ridge=1.0, random_state=0), tmp_path / "fit.checkpoint"
    seen, of_batch = [], training.statistics_of_batch

    def spy(*given):
        seen.append(len(parts_kept(tmp_path)))
        if given[2] == 2 and len(seen) > 3:
            raise ValueError("a fault")
        return of_batch(*given)

    monkeypatch.setattr(training, "statistics_of_batch", spy)
    monkeypatch.setattr("naim3l.files.checkpoint.MOST_KEPT", 1000)
    with pytest.raises(ValueError, match="a fault"):
        model.fit(X, y, checkpoint=path)
    assert not any(seen) and not list(tmp_path.iterdir())
    monkeypatch.setattr("naim3l.files.checkpoint.MOST_KEPT", 2**20)
    seen.clear()
    with pytest.raises(ValueError, match="a fault"):
        model.fit(X, y, checkpoint=path)
    assert max(seen) > 0 and not list(tmp_path.iterdir())
