"""The benchmark of tables in parts runs at tiny sizes, and killed workers change no bit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")
pytestmark = pytest.mark.dask

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
ROWS = 1_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scale")


def run(command, folder, *options):
    arguments = [command, "--quick", "--rows", str(ROWS), "--folder", str(folder), *options]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "bench_scale.py"), *arguments],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("growth", ["fit, calibrated", "predict", "statistics of a part: MB"]),
        ("workers", ["1 thread", "2 threads", "2 processes", "in memory s"]),
        ("cost", ["reading", "ridge, one pass", "the three passes", "fit, 2 processes"]),
        ("small-files", ["tasks of a pass", "planning s"]),
        ("rival", ["naim3l, calibrated", "SGDClassifier, 3 epochs", "guessing"]),
    ],
)
def test_commands_print_their_tables(command, words, folder):
    printed = run(command, folder, "--markdown")
    for word in words:
        assert word in printed


def test_a_killed_worker_changes_no_bit(folder):
    # A fit with other weights, and a kill that did not happen, are errors of the command.
    printed = run("kill", folder, "--kills", "2")
    assert "Same bits as the fit without a kill: 2 of 2." in printed


@pytest.fixture
def scale_data(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import scale_data

    return scale_data


def test_rows_are_the_same_each_time_and_memory_holds_a_row_group(scale_data, tmp_path):
    first, second = (
        scale_data.Dataset(tmp_path / name, n_rows=3_000).write() for name in ("a", "b")
    )
    for view in scale_data.VIEWS:
        groups = list(zip(first.groups(view), second.groups(view), strict=True))
        assert len(groups) == 3_000 // scale_data.LEAST_GROUP_ROWS
        for (X, Y), (X_again, Y_again) in groups:
            assert X.dtype == np.float32
            assert X.tobytes() == X_again.tobytes()
            np.testing.assert_array_equal(Y, Y_again)
            assert 0.45 < np.isnan(Y).mean() < 0.55
