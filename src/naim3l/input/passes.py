"""Passes over the parts of tables with dask: one task for each part, combined in a fixed order.

dask is an optional library, which is imported when it is needed.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any
from uuid import uuid4

from threadpoolctl import OpenBLASController, ThreadpoolController

from naim3l._progress import progress_bar
from naim3l.input.places import Place, naming


def load_dask(module: str = "dask") -> Any:
    """A module of dask, or an error that says how it is installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"tables that are read in parts need dask: pip install 'naim3l[dask]' ({error})"
        ) from error


def n_workers() -> int:
    """Number of tasks that run in this process at a time; 1 if a cluster runs them."""
    if _client() is not None:
        return 1
    dask = load_dask()
    return int(dask.config.get("num_workers", None) or load_dask("dask.system").CPU_COUNT)


def memory_limit() -> int | None:
    """Bytes that a fit may use, from the setting "naim3l.memory" of dask; None without one."""
    given = load_dask().config.get("naim3l.memory", None)
    return None if given is None else int(load_dask("dask.utils").parse_bytes(given))


def map_parts(
    task: Callable[..., Any],
    inputs: Sequence[Sequence[Any]],
    *,
    title: str = "part",
    places: Sequence[Sequence[Place]] | None = None,
    topic: str | None = None,
) -> list[Any]:
    """``task(i, *inputs[i])`` of every part, as Delayed objects.

    Parameters
    ----------
    task : callable
        It is stored once, whatever the number of parts, and may hold a model.
    inputs : sequence of sequences
        For each part, Delayed objects, which the task gets computed, and other values.
    title : str
        Name of the tasks, which dask shows.
    places : sequence of sequences of Place, optional
        For each part, the places of its inputs, which errors name.
    topic : str, optional
        Topic under which a worker of a cluster reports the number of each part that is done.
    """
    dask, spec = load_dask("dask.delayed"), load_dask("dask.task_spec")
    token = uuid4().hex
    name = f"naim3l-{title.replace(' ', '-')}-{token}"
    shared = dask.delayed(task, name=f"naim3l-task-{token}", traverse=False)
    ref = spec.TaskRef(shared.key)
    layer, needed = {}, [shared]
    for i, given in enumerate(inputs):
        delayed = [value for value in given if isinstance(value, dask.Delayed)]
        needed += delayed
        values = [spec.TaskRef(value.key) if isinstance(value, dask.Delayed) else value
                  for value in given]  # fmt: skip
        at = () if places is None else tuple(places[i])
        layer[(name, i)] = spec.Task((name, i), _run, ref, i, at, topic, *values)
    graph = load_dask("dask.highlevelgraph").HighLevelGraph.from_collections(
        name, layer, dependencies=needed
    )
    return [dask.Delayed(key, graph, layer=name) for key in layer]


def run_pass(
    task: Callable[..., Any],
    inputs: Sequence[Sequence[Any]],
    combine: Callable[[Any, Any], Any],
    *,
    title: str = "pass",
    shown: bool = False,
    n_rows: Sequence[int] | None = None,
    places: Sequence[Sequence[Place]] | None = None,
) -> Any:
    """Results of all parts, combined in a binary tree that depends only on their number.

    It runs on the scheduler of dask that is in force: a cluster if there is a client, else
    threads. Neither that nor the number of workers changes a bit of the result, as BLAS has one
    thread inside of the tasks.

    Parameters
    ----------
    task : callable
        ``task(i, *inputs[i])`` is the result of part ``i``. It is stored once in the graph.
    inputs : sequence of sequences
        For each part, Delayed objects, which the task gets computed, and other values.
    combine : callable
        ``combine(a, b)`` is the result of the rows of ``a`` followed by those of ``b``. It must
        not change ``a`` or ``b``, as a cluster may call it again.
    title : str
        Name of the pass on the progress bar.
    shown : bool, default=False
        Whether a bar on the terminal shows the progress.
    n_rows : sequence of int, optional
        Number of rows of each part: the bar counts rows instead of parts.
    places : sequence of sequences of Place, optional
        For each part, the places of its inputs, which errors name.

    Raises
    ------
    Exception
        The error of a task, as it was raised; no other task starts after it.
    """
    client = _client()
    topic = f"naim3l-{uuid4().hex}" if shown and client is not None else None
    parts = map_parts(task, inputs, title=title, places=places, topic=topic)
    root = _combined(parts, combine)
    steps = [1] * len(parts) if n_rows is None else list(n_rows)
    with progress_bar(title, sum(steps), shown=shown) as advance:
        if topic is not None:
            with _reports(client, topic, lambda i: advance(by=steps[i])):
                return _compute(root)
        at = {part.key: n for part, n in zip(parts, steps, strict=True)}
        with load_dask("dask.callbacks").Callback(
            posttask=lambda key, *state: advance(by=at[key]) if key in at else None
        ):
            return _compute(root)


def _combined(parts: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Delayed result of all parts; neighbours are combined, then neighbours of these."""
    dask, spec = load_dask("dask.delayed"), load_dask("dask.task_spec")
    name = f"naim3l-combine-{uuid4().hex}"
    layer: dict[Any, Any] = {}
    keys = [part.key for part in parts]
    while len(keys) > 1:
        pairs = [keys[i : i + 2] for i in range(0, len(keys), 2)]
        keys = []
        for pair in pairs:
            key = pair[0]
            if len(pair) == 2:
                key = (name, len(layer))
                layer[key] = spec.Task(key, _combine, combine, *map(spec.TaskRef, pair))
            keys.append(key)
    if not layer:
        return parts[0]
    graph = load_dask("dask.highlevelgraph").HighLevelGraph.from_collections(
        name, layer, dependencies=parts
    )
    return dask.Delayed(keys[0], graph, layer=name)


def _compute(root: Any) -> Any:
    """The value of a Delayed object; no task runs any more when this returns or raises."""
    dask, threaded = load_dask(), load_dask("dask.threaded")
    get = dask.base.get_scheduler(collections=[root])
    if get is not threaded.get or dask.config.get("pool", None) is not None:
        try:
            return root.compute()
        except load_dask("dask.multiprocessing").RemoteException as error:
            raise error.exception from None
    with ThreadPoolExecutor(n_workers()) as pool:  # waits for the tasks that an error leaves behind
        return root.compute(scheduler="threads", pool=pool)


def _client() -> Any:
    """The client of the cluster on which dask computes; None if it computes in this process."""
    get = load_dask("dask.base").get_scheduler()
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "subscribe_topic") else None


@contextmanager
def _reports(client: Any, topic: str, report: Callable[[int], None]) -> Iterator[None]:
    """Context in which parts that workers have done are reported, each once."""
    done: set[int] = set()

    def receive(event: Any) -> None:
        i = event[1]
        if i not in done:  # a part is computed again if its worker was lost
            done.add(i)
            report(i)

    client.subscribe_topic(topic, receive)
    try:
        yield
    finally:
        client.unsubscribe_topic(topic)


class _OneThread:
    """Context in which BLAS has one thread, for tasks that overlap in time.

    The limit is one of the process: the first task sets it and the last one removes it. Libraries
    are searched for once, as that takes milliseconds.
    """

    def __init__(self) -> None:
        self.lock, self.n_inside = Lock(), 0
        self.controller: Any = None
        self.limits: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.n_inside == 0:
                if self.controller is None:
                    self.controller = ThreadpoolController()
                _take_control()
                self.limits = self.controller.limit(limits=1)
            self.n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.n_inside -= 1
            if self.n_inside == 0 and self.limits is not None:
                _take_control()
                self.limits.restore_original_limits()
                _take_control()  # leave it to whoever is next


def _take_control() -> None:
    """Let any thread change the limit of OpenBLAS.

    Otherwise threadpoolctl ignores limits, without a word, that a thread sets after another one
    that is still alive, here the thread of the fit.
    """
    take = getattr(OpenBLASController, "clear_controlling_thread", None)  # not in older versions
    if take is not None:
        take(force=True)


_one_thread = _OneThread()


def _run(task: Any, i: int, places: Sequence[Place], topic: str | None, *inputs: Any) -> Any:
    with _one_thread, naming(places):
        result = task(i, *inputs)
    if topic is not None:
        load_dask("distributed").get_worker().log_event(topic, i)
    return result


def _combine(combine: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    with _one_thread:
        return combine(a, b)
