"""Passes: the same bits on every scheduler, errors as raised, progress, and interruption."""

import os
import signal
import threading
import time
from operator import add

import cloudpickle
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from naim3l.files.errors import load_extra
from naim3l.input import chunks
from naim3l.input.batches import Batch
from naim3l.input.chunks import Fold, run_pass

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with cluster.get_client() as client:
        yield client


@pytest.fixture
def parts():
    """Seven matrices, whose sum depends on the order of addition."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(40, 30)) * 10.0**k for k in range(7)]


def read(i, *inputs):
    return inputs


def nothing(i):
    return ()


def gram(i, batches):
    return sum(X.T @ X for X in batches)


def number(i, batches):
    return [i]


def test_neighbours_are_combined_in_a_tree_that_depends_on_their_number():
    for n_parts in (1, 2, 3, 7, 8):
        order = run_pass(nothing, [()] * n_parts, number, lambda a, b: [a, b])
        rows = [[i] for i in range(n_parts)]
        while len(rows) > 1:
            pairs = [rows[i : i + 2] for i in range(0, len(rows), 2)]
            rows = [pair if len(pair) == 2 else pair[0] for pair in pairs]
        assert order == rows[0]


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_bits_do_not_depend_on_the_scheduler(parts, scheduler, client):
    inputs = [(dask.delayed(part),) for part in parts]
    on_cluster = run_pass(read, inputs, gram, add)
    for n_workers in (1, 3):
        with dask.config.set(scheduler=scheduler, num_workers=n_workers):
            local = run_pass(read, inputs, gram, add)
        assert local.tobytes() == on_cluster.tobytes()


def test_batches_of_a_part_are_folded_in_order_and_parts_may_have_none():
    sizes = [[2, 3], [], [4, 1, 1]]

    def batches(i, *sizes):
        return ((Batch(np.full((n, 1), i), "X"), None) for n in sizes)

    def task(part, row, features, labels):
        return [(part, row, len(features))]

    found = run_pass(batches, sizes, Fold(task, add), add)
    assert found == [(0, 0, 2), (0, 2, 3), (2, 0, 4), (2, 4, 1), (2, 5, 1)]
    assert run_pass(batches, [[], []], Fold(task, add), add) is None


def test_inputs_may_be_values_and_delayed_objects():
    inputs = [(dask.delayed(i), 10 * i) for i in range(4)]
    assert run_pass(read, inputs, lambda i, batches: sum(batches) + i, add) == 12 * 6


class Counted:
    """Objects of which the largest number that existed at a time is kept."""

    lock = threading.Lock()

    def __init__(self, *inputs):
        with self.lock:
            type(self).n_now += 1
            type(self).most = max(self.most, self.n_now)

    def __del__(self):
        with self.lock:
            type(self).n_now -= 1


class Part(Counted):
    n_now = most = 0


class Result(Counted):
    n_now = most = 0


def test_few_parts_and_results_are_in_memory_at_a_time():
    inputs = [(dask.delayed(Part)(i),) for i in range(100)]
    with dask.config.set(scheduler="threads", num_workers=2):
        run_pass(read, inputs, lambda i, batches: Result(), Result)
    assert Part.most <= 4
    assert Result.most <= 20  # about one for each level of the tree


class Big:
    """A task that holds something large, and counts how often it is pickled."""

    n_pickled = 0

    def __call__(self, i, batches):
        return 1

    def __reduce__(self):
        type(self).n_pickled += 1
        return (Big, ())


def test_a_task_is_sent_to_a_cluster_once_and_not_for_every_part():
    graphs = []
    with dask.config.set(scheduler=lambda graph, keys, **_: graphs.append(graph) or [0]):
        run_pass(nothing, [()] * 20, Big(), add)
    for task in graphs[0].__dask_graph__().values():
        cloudpickle.dumps(task)
    assert Big.n_pickled == 1


def test_blas_has_one_thread_in_tasks_and_the_former_number_after_them():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    inside = run_pass(nothing, [()] * 8, lambda i, batches: [threads()], add)
    assert all(set(found) <= {1} for found in inside)
    assert threads() == before


def fail(i, batches):
    if i == 3:
        raise KeyError("view 'lab'")
    return i


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes", "cluster"])
def test_errors_come_back_as_raised(scheduler, request):
    options = {"scheduler": scheduler, "num_workers": 2}
    if scheduler == "cluster":
        request.getfixturevalue("client")
        options = {}
    with dask.config.set(**options), pytest.raises(KeyError) as caught:
        run_pass(nothing, [()] * 5, fail, add)
    assert caught.value.args == ("view 'lab'",)


class Bar:
    """Progress bar that keeps what it is told."""

    def __init__(self):
        self.done, self.total = [], None

    def __call__(self, title, total, *, shown):
        self.total = total
        return self

    def __enter__(self):
        return lambda by=1: self.done.append(by)

    def __exit__(self, *error):
        pass


@pytest.mark.parametrize("n_rows", [None, [5, 6, 7, 8]])
@pytest.mark.parametrize("where", ["threads", "synchronous", "cluster"])
def test_progress_counts_parts_or_rows(monkeypatch, n_rows, where, request):
    options = {} if where == "cluster" else {"scheduler": where}
    if where == "cluster":
        request.getfixturevalue("client")
    bar = Bar()
    monkeypatch.setattr(chunks, "progress_bar", bar)
    with dask.config.set(**options):
        run_pass(nothing, [()] * 4, number, add, shown=True, n_rows=n_rows)
    expected = n_rows or [1] * 4
    assert bar.total == sum(expected) and sorted(bar.done) == sorted(expected)


def test_interrupted_pass_leaves_no_task_running():
    running, started, main = set(), [], threading.main_thread().ident

    def task(i, batches):
        started.append(i)
        running.add(i)
        if len(started) == 1:
            threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        time.sleep(0.15)
        running.discard(i)
        return [i]

    with dask.config.set(num_workers=2), pytest.raises(KeyboardInterrupt):
        run_pass(nothing, [()] * 50, task, add)
    assert not running
    n_started = len(started)
    time.sleep(0.2)
    assert len(started) == n_started < 50


def test_interrupted_pass_is_forgotten_by_a_cluster(client):
    started, main = [], threading.main_thread().ident

    def task(i, batches):
        started.append(i)
        if len(started) == 1:
            threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        time.sleep(0.1)
        return [i]

    with pytest.raises(KeyboardInterrupt):
        run_pass(nothing, [()] * 50, task, add)
    end = time.monotonic() + 5
    while any(client.processing().values()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(client.processing().values())


def test_settings():
    with dask.config.set({"naim3l.memory": "2 kB", "num_workers": 3, "scheduler": "threads"}):
        assert chunks.memory_limit() == 2000 and chunks.n_workers() == 3
        assert not chunks.on_cluster()
    assert chunks.memory_limit() is None
    with pytest.raises(ImportError, match=r"pip install 'naim3l\[dask\]'"):
        load_extra("dask.no_such_module")


def slow(i, batches):
    time.sleep(0.3)
    return 1


@pytest.fixture
def mortal():
    """A cluster that a test may end, and its client."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(**options, dashboard_address=":0") as cluster,
        cluster.get_client() as client,
    ):
        yield cluster, client


def after(seconds, function, *args):
    threading.Timer(seconds, function, args).start()


def test_a_cluster_without_workers_is_not_waited_for_for_ever(mortal, monkeypatch):
    monkeypatch.setattr(chunks, "PATIENCE", 0.5)
    monkeypatch.setattr(chunks, "LOOK", 0.1)
    after(0.5, mortal[0].scale, 0)
    with pytest.raises(ConnectionError, match="during a pass: all its workers are gone"):
        run_pass(nothing, [()] * 60, slow, add)


def test_a_scheduler_that_is_stopped_is_named(mortal):
    after(0.5, mortal[0].close)
    with pytest.raises(ConnectionError, match="during a pass: its scheduler was stopped"):
        run_pass(nothing, [()] * 60, slow, add)


def test_workers_that_die_at_a_part_are_explained():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(**options) as cluster,
        cluster.get_client(),
        pytest.raises(MemoryError, match="had too little memory: give them more"),
    ):
        run_pass(nothing, [()], lambda i, batches: os._exit(1), add)


def test_the_memory_of_a_worker_is_the_limit_of_a_cluster(mortal):
    [worker] = mortal[1].scheduler_info(n_workers=-1)["workers"].values()
    assert chunks.memory_limit() == (worker["memory_limit"] or None)
    with dask.config.set({"naim3l.memory": "1 GB"}):
        assert chunks.memory_limit() == 10**9
