"""Passes over tables that are read in chunks, with dask: one task for each part, then a tree.

A part is a partition of dask, a row group of a Parquet file, or a text file. A task reads its part
once, features and labels together. Results are combined in a fixed order, so that neither the
scheduler nor the number of workers changes a bit of them.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from naim3l._progress import progress_bar
from naim3l._threads import limited_blas
from naim3l.files.errors import load_extra
from naim3l.input.batches import Batch

# A batch of rows, and its labels if they are read.
Rows = tuple[Batch, Batch | None]


def on_cluster() -> bool:
    """Whether a cluster computes, because there is a client of dask.distributed."""
    scheduler = load_extra("dask").config.get("scheduler", None)
    return scheduler in ("dask.distributed", "distributed") or hasattr(scheduler, "scheduler_info")


def n_workers() -> int:
    """Number of tasks that run in this process at a time; 1 if a cluster runs them."""
    configured = load_extra("dask").config.get("num_workers", None)
    return 1 if on_cluster() else int(configured or load_extra("dask.system").CPU_COUNT)


def memory_limit() -> int | None:
    """Bytes that a fit may use, from the setting "naim3l.memory" of dask; None without one."""
    given = load_extra("dask").config.get("naim3l.memory", None)
    return None if given is None else int(load_extra("dask.utils").parse_bytes(given))


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
    for part in done:
        if part.status == "error":
            break
        advance(part.key)
    return future.result()
