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
        ("data", ["training", "test", "bytes per row and view"]),
        ("growth", ["fit, calibrated", "predict", "statistics of a part: MB"]),
        ("workers", ["1 thread", "2 threads", "2 processes", "in memory s"]),
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


def test_files_that_exist_are_kept_and_missing_ones_are_written(scale_data, tmp_path, monkeypatch):
    monkeypatch.setattr(scale_data, "FILE_ROWS", 1_000)
    data = scale_data.Dataset(tmp_path, n_rows=2_500).write()
    files = sorted(Path(data.paths["view0"]).iterdir())
    assert [file.name for file in files] == [f"part-0000{i}.parquet" for i in range(3)]
    kept, lost = files[0].stat().st_mtime_ns, files[1].read_bytes()
    files[1].unlink()
    data.write()
    assert files[0].stat().st_mtime_ns == kept
    assert files[1].read_bytes() == lost
    assert sum(len(X) for X, _ in data.groups("view0")) == 2_500


def test_views_and_test_rows_differ_and_test_labels_are_known(scale_data, tmp_path):
    train = scale_data.Dataset(tmp_path, n_rows=500).write()
    test = scale_data.Dataset(tmp_path, n_rows=500, test=True).write()
    tables = [next(data.groups(view)) for data in (train, test) for view in scale_data.VIEWS]
    for i, (X, _) in enumerate(tables):
        assert all(not np.isclose(X, other).any(axis=1).all() for other, _ in tables[:i])
    assert not any(np.isnan(Y).any() for _, Y in tables[2:])
