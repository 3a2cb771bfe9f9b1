"""Timed fits and predictions for bench_scale.py, each in a fresh process.

    python benchmarks/scale_runs.py NAME OPTIONS

runs a function of this module and prints its result, for `in_fresh_process`.
"""

import json
import logging
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from operator import add
from pathlib import Path
from time import perf_counter
from unittest import mock

import dask
import pandas as pd
from common import peak_bytes
from distributed import LocalCluster
from scale_data import COLUMNS, LABELS, VIEWS, Dataset
from threadpoolctl import threadpool_limits

from naim3l import NAIM3L, Decisions
from naim3l.input import sources
from naim3l.input.chunks import run_pass

PASSES = ("survey", "features", "statistics")
WARM_UP_ROWS = 400
EMPTY_PARTS = 50  # of the pass that measures what a part costs, whatever it has


def in_fresh_process(name: str, data: Dataset, *, script=__file__, **options):
    """Result of a function of this module, or another script, for a dataset."""
    of_data = {"folder": str(data.folder), "n_rows": data.n_rows, "seed": data.seed}
    command = [sys.executable, script, name, json.dumps(of_data | options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


@contextmanager
def workers(threads: int = 1, processes: int = 0):
    """Context in which dask has some threads, or a cluster of processes with one thread each."""
    if not processes:
        with dask.config.set(scheduler="threads", num_workers=threads):
            yield None
        return
    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with (
        LocalCluster(n_workers=processes, threads_per_worker=1, **quiet) as cluster,
        cluster.get_client() as client,
    ):
        yield client


class Passes:
    """Context in which the passes of fits are timed.

    Parameters
    ----------
    around : callable, optional
        ``around(title)`` is a context in which the pass of that title runs.
    clock : callable, optional
        Gives seconds; by default those of the wall.

    Attributes
    ----------
    seconds : Counter
        By title, for example "survey of view0".
    """

    def __init__(self, around=nullcontext, clock=perf_counter):
        self.around, self.clock, self.seconds = around, clock, Counter()
        self.patch = mock.patch.object(sources, "run_pass", self._timed)

    def __enter__(self):
        self.patch.start()
        return self

    def __exit__(self, *error):
        self.patch.stop()

    def by_kind(self):
        """Seconds of all views, by "survey", "features" and "statistics"."""
        total = Counter()
        for title, seconds in self.seconds.items():
            total[title.split()[0]] += seconds
        return total

    def _timed(self, *args, title, **options):
        with self.around(title):
            start = self.clock()
            result = run_pass(*args, title=title, **options)
            self.seconds[title] += self.clock() - start
        return result


def make_model(calibrate: bool) -> NAIM3L:
    """NAIM3L as it is, or with probabilities."""
    decide = Decisions("sign", probabilities=True) if calibrate else "sign"
    return NAIM3L(decide=decide, random_state=0)


def warm_up(folder: str, calibrate: bool):
    """Load all libraries, and let workers load them."""
    tiny = Dataset(Path(folder), WARM_UP_ROWS).write()
    model = make_model(calibrate).fit(tiny.paths, tiny.labels)
    dask.compute(model.predict(tiny.paths))


def fit(
    folder, n_rows, seed, *, threads=1, processes=0, calibrate=False, model_file=None, empty=False
):
    """Seconds of a fit to files, by pass and in total, and growth of memory."""
    data = Dataset(Path(folder), n_rows, seed)
    with workers(threads, processes):
        warm_up(folder, calibrate)
        before = peak_bytes()
        with Passes() as passes:
            start = perf_counter()
            model = make_model(calibrate).fit(data.paths, data.labels)
            seconds = perf_counter() - start
        peak = peak_bytes() - before
        empty_part = _empty_part() if empty else None
    if model_file is not None:
        Path(model_file).write_bytes(pickle.dumps(model))
    by_kind = passes.by_kind()
    # All else: nearly only the solver, and, with calibration, that of the folds.
    by_kind["solver"] = seconds - by_kind.total()
    return {"seconds": seconds, "passes": by_kind, "peak": peak, "empty_part": empty_part}


def predict(folder, n_rows, seed, *, model_file, threads=1):
    """Seconds and memory of predictions that are written as Parquet files."""
    data = Dataset(Path(folder), n_rows, seed)
    model = pickle.loads(Path(model_file).read_bytes())
    out = Path(folder, "predictions")
    with workers(threads):
        warm_up(folder, calibrate=False)
        before = peak_bytes()
        start = perf_counter()
        for view, labels in model.predict(data.paths).items():
            labels.to_parquet(out / view)
        seconds = perf_counter() - start
    shutil.rmtree(out)
    return {"seconds": seconds, "passes": {}, "peak": peak_bytes() - before}


def in_memory(folder, n_rows, seed):
    """Seconds of reading the files as data frames and of a fit to these."""
    data = Dataset(Path(folder), n_rows, seed)
    with threadpool_limits(1):
        warm_up(folder, calibrate=False)
        start = perf_counter()
        frames = {view: pd.read_parquet(path) for view, path in data.paths.items()}
        X = {view: frames[view][COLUMNS] for view in VIEWS}
        Y = {view: frames[view][LABELS] for view in VIEWS}
        NAIM3L(random_state=0).fit(X, Y)
        return {"seconds": perf_counter() - start}


def _empty_part():
    """Seconds per part of a pass in which no part has rows."""
    start = perf_counter()
    run_pass(_no_batches, [()] * EMPTY_PARTS, _one, add)
    return (perf_counter() - start) / EMPTY_PARTS


def _no_batches(i):
    return []


def _one(i, batches):
    return 1


RUNS = {function.__name__: function for function in (fit, predict, in_memory)}

if __name__ == "__main__":
    print(json.dumps(RUNS[sys.argv[1]](**json.loads(sys.argv[2]))))
