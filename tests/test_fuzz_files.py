"""The fuzz of files: a few cases of every format, and that it notices what it is for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.cases import FORMATS
from fuzz_files import Worker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the worker needs limits of POSIX")


def test_damaged_files_are_read_or_refused(tmp_path):
    worker = Worker(1, tmp_path)
    for form in FORMATS:
        assert worker.run(form, 0, 60, 600) == (60, {})
    worker.end()


# Formats whose readers do what no reader should, once in a while; and what is told of it.
MISBEHAVING = """
import os, pickle, signal, subprocess, time
import fuzz_files
from fuzz import cases, models, samples

def form(misbehave):
    def draw(random, target):
        return ".x", str(random.randrange(8)).encode()
    return cases.Format(draw, lambda path, _: path.read_bytes() == b"7" and misbehave(path))

cases.FORMATS.clear()
cases.FORMATS |= {
    "good": form(lambda path: None),
    "odd": form(lambda path: {}["key"]),
    "crash": form(lambda path: os.kill(os.getpid(), signal.SIGSEGV)),
    "hang": form(lambda path: time.sleep(60)),
    "memory": form(lambda path: b"1" * (400 << 20)),
    "process": form(lambda path: subprocess.run(["true"])),
    "code": form(lambda path: pickle.loads(models.payload(path.parent / "ran"))),
}
samples.ALL, fuzz_files.MOST_MEMORY = (), 512 << 20
if __name__ == "__main__":
    fuzz_files.main()
"""
TOLD = {
    "odd": "an error that is not promised: KeyError",
    "crash": r"ended the process \(-11\)",
    "hang": "took more than 3 s",
    "memory": "the process came to [0-9]+ MiB",
    "process": "reading the file led to subprocess.Popen",
    "code": "reading the file led to pickle.find_class",
}


@pytest.mark.slow
def test_errors_crashes_and_hangs_are_told_and_their_files_kept(tmp_path):
    (tmp_path / "misbehaving.py").write_text(MISBEHAVING)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    options = ["--out=found", "--minutes=0.001", "--limit=3"]
    place = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": path}, "timeout": 200}
    command = [sys.executable, "misbehaving.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, **place)
    assert done.returncode == 1, done.stderr
    assert re.search(r"good +\d+ cases +0 wrong", done.stdout)
    for form, told in TOLD.items():
        assert re.search(rf"^{form}, case \d+: {told}", done.stdout, re.MULTILINE), done.stdout
        (kept,) = (tmp_path / "found").glob(f"{form}-0-*.x")
        assert kept.read_bytes() == b"7"
