"""The fuzz of files: a short one of every format, and that the command notices what it is for."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.cases import FORMATS, RAN, attempt, draw_file
from fuzz.models import other_numbers, use
from fuzz.worker import source_of
from naim3l import load
from naim3l.estimators import PerViewRidge

TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cases")


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(random=st.randoms(use_true_random=False))
def test_damaged_files_are_read_or_refused(form, random, folder):
    assert attempt(form, random, folder) is None


@pytest.mark.parametrize("form", FORMATS)
def test_a_case_is_the_same_every_time(form, folder):
    contents = [
        draw_file(form, source_of(3, form, case), folder)[0].read_bytes() for case in (5, 5, 6, 7)
    ]
    assert contents[0] == contents[1] and len(set(contents)) > 1


def test_code_of_a_file_that_runs_is_noticed(folder, monkeypatch):
    """As it would, were models loaded by one who trusts them."""
    monkeypatch.setattr("fuzz.cases.load", lambda path: pickle.loads(path.read_bytes()))
    found = [attempt("model", source_of(0, "model", case), folder) for case in range(60)]
    assert "code of the file's was run" in found
    assert not (folder / RAN).exists()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float32, bool])
def test_other_numbers_fit_the_type_of_an_array(dtype):
    array = np.zeros(3, dtype)
    others = [other_numbers(array, source_of(0, "model", case)) for case in range(40)]
    assert all(other.dtype == dtype for other in others)
    assert any((other != 0).any() for other in others) and not array.any()


def test_a_column_without_name_may_be_one_of_dates(rng, tmp_path):
    """Names of data frames may be numbers, so that a model of dates has no names of columns."""
    rows = pd.DataFrame({0: rng.normal(size=30), 1: pd.date_range("2020-01-01", periods=30),
                         2: ["a", "b", "c"] * 10})  # fmt: skip
    model = PerViewRidge().fit({"v": rows}, {"v": rows[[0]].to_numpy() > 0})
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert [entry.kind for entry in loaded.columns_["v"]] == ["number", "date", "text"]
    use(loaded)


# Formats whose readers do what no reader should, once in a while.
MISBEHAVING = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
import fuzz_files
from fuzz import samples
from fuzz.cases import FORMATS, Format


def reader(misbehave):
    def read(path, random, truth):
        if path.read_bytes() == b"7":
            misbehave()
    return read


def draw(random, folder):
    return ".x", str(random.randrange(40)).encode(), None


samples.make_all = lambda *_: None  # they would take a second, and none is needed here
FORMATS.clear()
FORMATS["good"] = Format(draw, reader(lambda: None), ())
FORMATS["odd"] = Format(draw, reader(lambda: {{}}["key"]), (ValueError,))
FORMATS["crash"] = Format(draw, reader(lambda: os.kill(os.getpid(), signal.SIGSEGV)), ())
FORMATS["hang"] = Format(draw, reader(lambda: time.sleep(60)), ())
fuzz_files.SLICE = 0.3
sys.exit(fuzz_files.main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the worker needs pipes and limits of POSIX")
def test_errors_crashes_and_hangs_are_told_and_their_files_kept(tmp_path):
    script = tmp_path / "misbehaving.py"
    script.write_text(MISBEHAVING.format(tests=str(TESTS)))

    def run(*options):
        command = [sys.executable, script, "--out", tmp_path / "found", "--minutes", "0.02"]
        return subprocess.run(
            [str(part) for part in (*command, *options)], capture_output=True, text=True,
            timeout=110,
        )  # fmt: skip

    done = run("--limit", "1")
    assert done.returncode == 1, done.stderr
    assert re.search(r"good +\d+ cases +0 wrong", done.stdout)
    assert "an error that is not promised: KeyError" in done.stdout
    assert "ended the process (-11)" in done.stdout and "took more than 1 s" in done.stdout
    for form in ("odd", "crash", "hang"):
        (kept,) = (tmp_path / "found").glob(f"{form}-0-*.x")
        assert kept.read_bytes() == b"7"
    (case,) = re.findall(r"--formats 'odd' --case (\d+)", done.stdout)
    again = run("--formats", "odd", "--case", case)
    assert again.returncode == 1 and "KeyError" in again.stdout
