"""Fits killed at random moments and resumed: ``python tests/killed_fits.py --kills 10 --seed 0``.

Each fit runs in a process of its own, which saves the model, too. It is killed as a power cut would
do it, some of them again after they were resumed, and one of each kind amid saving. Model files are
compared byte by byte with those of fits that nobody disturbed. One line is printed for each kill;
the exit code is 1 if anything differs.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from naim3l import NAIM3L, NAIM3LCV
from naim3l.datasets import make_unpaired
from naim3l.files.checkpoint import Checkpoint

SETTINGS = {"tol": 0, "max_iter": 40, "decide": "f1", "random_state": 0}
KINDS = {
    "plain": NAIM3L(0.4, ridge=1.0, **SETTINGS),
    "tuned": NAIM3LCV([0.1, 0.4], [0.0, 1.0], **SETTINGS),
}
MODEL = "model.naim3l"
MOST_TRIES = 3  # fits in proportion to kills; one that ends before its moment is no kill


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # A checkpoint at every iteration, so that there are many moments to be killed at.
    Checkpoint.__init__.__kwdefaults__["every"] = 0.0
    with tempfile.TemporaryDirectory() as folder:
        n_kills = _kill_and_resume(options.kills, random.Random(options.seed), Path(folder))
    print(f"{n_kills} of {options.kills} kills, all resumed to the same model")
    return 0 if n_kills == options.kills else 1


def _kill_and_resume(wanted, source, folder):
    """Number of kills that met a running fit; leaves the program if a result differs."""
    data = make_unpaired(300, n_features=(20, 15), n_labels=12, missing_labels=0.3, random_state=0)
    expected, seconds = {}, {}
    path = folder / "fit.checkpoint"
    for kind in KINDS:
        expected[kind], _ = _finish(kind, data, None, folder)
        again, seconds[kind] = _finish(kind, data, path, folder)
        _compare(expected[kind], again, kind)
        print(f"{kind}: {seconds[kind]:.3f} s undisturbed", flush=True)
        _kill_amid_saving(kind, data, path)
        _compare(expected[kind], _finish(kind, data, path, folder)[0], kind)
    n_kills = 0
    for _ in range(MOST_TRIES * wanted):
        if n_kills == wanted:
            break
        kind = source.choice(sorted(KINDS))
        killed = _kill(kind, data, path, source.uniform(0, seconds[kind]))
        n_kills += killed
        if killed and n_kills < wanted and source.random() < 0.3:
            n_kills += _kill(kind, data, path, source.uniform(0, seconds[kind]))
        if not killed:
            seconds[kind] *= 0.8  # the machine has less to do than before
            continue
        _compare(expected[kind], _finish(kind, data, path, folder)[0], kind)
    return n_kills


def _kill_amid_saving(kind, data, path):
    """A fit that ends, in a process that does not get to give the model file its name."""
    _, status = os.waitpid(_start(kind, data, path, path.with_name(MODEL), kill_saving=True), 0)
    parts = list(path.parent.glob(f".{MODEL}.*"))
    if not os.WIFSIGNALED(status) or not path.exists() or not parts:
        sys.exit(f"{kind}: nothing is left of a fit that was killed amid saving")
    print(f"{kind}: killed amid saving, {path.stat().st_size} bytes", flush=True)


def _kill(kind, data, path, moment):
    """Whether a fit was still running at this moment, and was killed."""
    process = _start(kind, data, path, path.with_name(MODEL))
    time.sleep(moment)
    if os.waitpid(process, os.WNOHANG) != (0, 0):
        print(f"{kind}: ended before {moment:.3f} s", flush=True)
        return False
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    killed = os.WIFSIGNALED(status)
    left = f"{path.stat().st_size} bytes" if path.exists() else "no checkpoint"
    print(f"{kind}: {'killed' if killed else 'ended'} at {moment:.3f} s, {left}", flush=True)
    return killed


def _finish(kind, data, path, folder):
    """Model file of a fit that is left alone, and the seconds that it took."""
    start = time.monotonic()
    _, status = os.waitpid(_start(kind, data, path, folder / MODEL), 0)
    if status:
        sys.exit(f"{kind}: a fit failed")
    seconds = time.monotonic() - start
    if left := [entry.name for entry in folder.iterdir() if entry.name != MODEL]:
        sys.exit(f"a finished fit left {left}")
    model = (folder / MODEL).read_bytes()
    (folder / MODEL).unlink()
    return model, seconds


def _start(kind, data, path, out, kill_saving=False):
    """Process that fits and saves; it has begun when this returns."""
    read, write = os.pipe()
    process = os.fork()  # a new interpreter would take longer to start than the fit
    if process:
        os.close(write)
        os.read(read, 1)
        os.close(read)
        return process
    try:
        os.write(write, b".")
        model = KINDS[kind].fit(data.views, data.labels, checkpoint=path)
        if kill_saving:
            os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        model.save(out)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _compare(expected, found, kind):
    if expected != found:
        sys.exit(f"{kind}: model files differ")


if __name__ == "__main__":
    sys.exit(main())
