"""Passes over tables that are read in chunks, with dask: one task for each part, then a tree.

A part is a partition of dask, a row group of a Parquet file, or a text file. A task reads its part
once, features and labels together. Results are combined in a fixed order, so that neither the
scheduler nor the number of workers changes a bit of them.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from threading import Event, Thread
from typing import Any

from naim3l._progress import progress_bar
from naim3l._threads import limited_blas
from naim3l.files.errors import load_extra
from naim3l.input.batches import Batch

# Seconds between looks at a cluster, and for which one without workers is waited for.
LOOK, PATIENCE = 1.0, 30.0
DASK_TRIM = "65536"  # bytes from which on its workers give memory back
_TRIM, _MMAP = -1, -3  # options of mallopt in glibc
_KEPT = {_TRIM: 2**28, _MMAP: 2**25}

# A batch of rows, and its labels if they are read.
Rows = tuple[Batch, Batch | None]


@cache
def keep_memory() -> None:
    """Let a worker of a cluster keep the memory of its arrays for the next ones.

    Dask starts workers with a setting by which they give it back at once, and getting it again
    takes a third of their processor time. Another setting is left as it is.
    """
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") == DASK_TRIM:
        with suppress(OSError, AttributeError, TypeError):  # other systems have other libraries
            mallopt = ctypes.CDLL(None).mallopt
            for option, n_bytes in _KEPT.items():
                mallopt(option, n_bytes)


def on_cluster() -> bool:
    """Whether a cluster computes, because there is a client of dask.distributed."""
    scheduler = load_extra("dask").config.get("scheduler", None)
    return scheduler in ("dask.distributed", "distributed") or hasattr(scheduler, "scheduler_info")


def n_workers() -> int:
    """Number of tasks that run in this process at a time; 1 if a cluster runs them."""
    configured = load_extra("dask").config.get("num_workers", None)
    return 1 if on_cluster() else int(configured or load_extra("dask.system").CPU_COUNT)


def memory_limit() -> int | None:
    """Bytes that a fit may use, from the setting "naim3l.memory" of dask; None without one.

    Without the setting, each thread of a cluster may use its part of what its worker may.
    """
    given = load_extra("dask").config.get("naim3l.memory", None)
    if given is not None:
        return int(load_extra("dask.utils").parse_bytes(given))
    if not on_cluster():
        return None
    found = load_extra("distributed").get_client().scheduler_info(n_workers=-1)["workers"]
    limits = [of["memory_limit"] // of["nthreads"] for of in found.values() if of["memory_limit"]]
    return min(limits, default=None)


@dataclass(frozen=True)
class Fold:
    """Task that makes a result of each batch of a part, and combines these."""

    task: Callable[[int, int, Batch, Batch | None], Any]  # of part, first row, features and labels
    combine: Callable[[Any, Any], Any]  # must not change what a cluster may combine again

    def __call__(self, part: int, batches: Iterable[Rows]) -> Any:
        total, row = None, 0
        for features, labels in batches:
            total = _combine(self.combine, total, self.task(part, row, features, labels))
            row += len(features)
        return total


def run_pass(
    read: Callable[..., Iterable[Rows]],
    parts: Sequence[Sequence[Any]],
    task: Callable[[int, Iterable[Rows]], Any],
    combine: Callable[[Any, Any], Any],
    *,
    title: str = "pass",
    shown: bool = False,
    n_rows: Sequence[int] | None = None,
) -> Any:
    """Results of all parts, combined in a binary tree that depends only on their number.

    ``read(i, *parts[i])`` gives the batches of part ``i``, of which ``task(i, batches)`` is the
    result, None if it has none; values of dask are computed first. It runs on the scheduler of dask
    that is in force: a cluster if there is a client, else threads. The error of a task is raised as
    it is, and no other task starts. The progress bar counts rows if ``n_rows`` tells how many there
    are.
    """
    dask = load_extra("dask")
    delayed = dask.delayed
    shared, reader = delayed(task, traverse=False), delayed(read, traverse=False)
    run = delayed(lambda read, task, i, *inputs: task(i, read(i, *inputs)), pure=False)
    combined = delayed(_combine, pure=False)
    level = results = [run(reader, shared, i, *inputs) for i, inputs in enumerate(parts)]
    while len(level) > 1:  # neighbours are combined, then neighbours of these
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [combined(combine, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    (root,) = level
    steps = dict(zip((r.key for r in results), n_rows or [1] * len(parts), strict=True))
    with (
        limited_blas(),  # tasks run beside each other, with the same bits for any number of them
        progress_bar(title, sum(steps.values()), shown=shown) as advance,
    ):
        if on_cluster():
            return _compute_on_cluster(root, results, lambda key: advance(by=steps[key]))
        with dask.callbacks.Callback(
            posttask=lambda key, *state: advance(by=steps[key]) if key in steps else None
        ):
            return _compute(root)


def _combine(combine: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return combine(a, b) if a is not None and b is not None else b if a is None else a


def _compute(root: Any) -> Any:
    """The value of a Delayed object; no task runs any more when this returns or raises."""
    config = load_extra("dask").config
    if config.get("scheduler", None) is not None or config.get("pool", None) is not None:
        return root.compute()
    with ThreadPoolExecutor(n_workers()) as pool:  # waits for the tasks that an error leaves behind
        return root.compute(scheduler="threads", pool=pool)


def _compute_on_cluster(root: Any, results: list[Any], advance: Callable[[str], None]) -> Any:
    """The same on a cluster, which reports the parts that are done."""
    distributed = load_extra("distributed")
    client = distributed.get_client()
    future, *parts = client.compute([root, *results])
    done = distributed.as_completed(parts)
    del parts, results  # so that the cluster keeps no result that is combined already
    with _watched(client, future, done):
        for part in done:
            if part.status != "finished":
                break
            advance(part.key)
        return future.result()


@contextmanager
def _watched(client: Any, future: Any, parts: Any) -> Iterator[None]:
    """Faults of the cluster as errors that say what can be done; it is not waited for for ever."""
    distributed, over, alone = load_extra("distributed"), Event(), Event()

    def watch() -> None:
        since = time.monotonic()
        while not over.wait(LOOK):
            with suppress(Exception):  # the scheduler may be gone, which is noticed elsewhere
                if client.nthreads():
                    since = time.monotonic()
            if time.monotonic() > since + PATIENCE:
                alone.set()
                client.cancel([future, *parts.futures], force=True)
                return

    Thread(target=watch, daemon=True).start()
    try:
        yield
    except distributed.scheduler.KilledWorker as error:
        raise MemoryError(
            "workers of the cluster died again and again at the same part, most often because "
            "they had too little memory: give them more, smaller parts or batches (--memory), or "
            "fewer threads each. The workers' own logs say more."
        ) from error
    except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
        what = "all its workers are gone" if alone.is_set() else "its scheduler was stopped"
        raise ConnectionError(
            f"the cluster ended during a pass: {what}. Start it again, and fit again; with a "
            "checkpoint, passes over tables that were finished are not repeated."
        ) from error
    finally:
        over.set()
