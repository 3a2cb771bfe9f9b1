"""Fits on a cluster of which a worker process is killed, for bench_scale.py."""

import os
import signal
from contextlib import contextmanager, suppress
from threading import Timer
from time import perf_counter

import dask.dataframe as dd
import numpy as np
from common import progress
from scale_data import COLUMNS, LABELS, VIEWS
from scale_runs import Passes, workers

from naim3l import NAIM3L

N_WORKERS = 2
# Kills that come after the end of the pass do not count; a fit is made again, at most so often.
MOST_ATTEMPTS = 5


class Killer:
    """Kills a worker of a cluster at a given moment of the statistics passes of a fit.

    Parameters
    ----------
    client : distributed.Client
    moments : dict of str to float
        By title of a pass, seconds from its beginning to the kill.
    number : int
        Which of the workers.
    """

    def __init__(self, client, moments, number):
        self.pids = sorted(client.run(os.getpid).values())
        self.moments, self.number, self.killed = moments, number, False

    @contextmanager
    def around(self, title):
        """Context of a pass, during which the worker is killed if its moment is in it."""
        timer = Timer(self.moments.get(title, 0), self._kill)
        if title in self.moments:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _kill(self):
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.pids[self.number], signal.SIGKILL)
            self.killed = True


def killed_fits(data, n_kills):
    """Seconds of a fit that is left alone, then of each fit with a kill and whether it is equal.

    Parameters
    ----------
    data : Dataset
    n_kills : int

    Returns
    -------
    float, list of (str, float, float, bool)
        Title of the pass, the moment as a share of its time, seconds, and whether all bits of the
        weights are those of the fit that was left alone.
    """
    frames = {view: dd.read_parquet(path, split_row_groups=1) for view, path in data.paths.items()}
    X = {view: frames[view][COLUMNS] for view in VIEWS}
    Y = {view: frames[view][LABELS] for view in VIEWS}
    rng, results = np.random.default_rng(data.seed), []
    with workers(processes=N_WORKERS):
        _timed_fit(X, Y, Passes())  # workers load libraries
        model, seconds = _timed_fit(X, Y, passes := Passes())
        lengths = {
            title: length
            for title, length in passes.seconds.items()
            if title.startswith("statistics")
        }
    for _ in range(MOST_ATTEMPTS * n_kills):
        if len(results) == n_kills:
            break
        title, share = rng.choice(list(lengths)), rng.random()
        # A cluster of its own: dask does not always replace a worker that was killed.
        with workers(processes=N_WORKERS) as client:
            _timed_fit(X, Y, Passes())
            killer = Killer(client, {title: share * lengths[title]}, rng.integers(N_WORKERS))
            other, other_seconds = _timed_fit(X, Y, Passes(killer.around))
        if killer.killed:
            results.append((str(title), share, other_seconds, same_bits(model, other)))
            progress(f"kill {len(results)}: equal bits {results[-1][-1]}")
    return seconds, results


def same_bits(model, other):
    """Whether two models have the same weights, to the last bit."""
    return model.views_ == other.views_ and all(
        getattr(model, name)[view].tobytes() == getattr(other, name)[view].tobytes()
        for name in ("coef_", "intercept_")
        for view in model.views_
    )


def _timed_fit(X, Y, passes):
    with passes:
        start = perf_counter()
        model = NAIM3L(random_state=0).fit(X, Y)
    return model, perf_counter() - start
