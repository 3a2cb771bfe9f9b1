"""Passes: the same bits on every scheduler, errors as raised, progress, and interruption."""

import pickle
import signal
import threading
import time
from operator import add

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from naim3l.input import passes
from naim3l.input.places import Place

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


def gram(i, X):
    return X.T @ X


def number(i, *inputs):
    return [i]


def test_neighbours_are_combined_in_a_tree_that_depends_on_their_number():
    for n_parts in (1, 2, 3, 7, 8):
        order = passes.run_pass(number, [()] * n_parts, lambda a, b: [a, b])
        rows = [[i] for i in range(n_parts)]
        while len(rows) > 1:
            rows = [r if len(r) == 2 else r[0] for r in
                    (rows[i : i + 2] for i in range(0, len(rows), 2))]  # fmt: skip
        assert order == rows[0]


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_bits_do_not_depend_on_the_scheduler(parts, scheduler, client):
    inputs = [(dask.delayed(part),) for part in parts]
    on_cluster = passes.run_pass(gram, inputs, add)
    for n_workers in (1, 3):
        with dask.config.set(scheduler=scheduler, num_workers=n_workers):
            local = passes.run_pass(gram, inputs, add)
        assert local.tobytes() == on_cluster.tobytes()


def test_inputs_may_be_values_and_delayed_objects():
    inputs = [(dask.delayed(i), 10 * i) for i in range(4)]
    assert passes.run_pass(lambda i, a, b: a + b + i, inputs, add) == 12 * 6


class Big:
    """A task that holds something large, and counts how often it is pickled."""

    def __call__(self, i, x):
        return x

    def __reduce__(self):
        PICKLED.append(1)
        return (Big, ())


PICKLED: list[int] = []


def test_the_task_is_in_the_graph_once():
    parts = passes.map_parts(Big(), [(i,) for i in range(20)])
    PICKLED.clear()
    for value in dict(parts[0].dask).values():
        pickle.dumps(value)
    assert len(PICKLED) == 1


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
        passes.run_pass(Result, inputs, Result)
    assert Part.most <= 4
    assert Result.most <= 20  # about one for each level of the tree


def test_blas_has_one_thread_in_tasks_and_the_former_number_after_them():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    inside = passes.run_pass(lambda i: [threads()], [()] * 8, add)
    assert all(set(found) <= {1} for found in inside)
    assert threads() == before


def fail(i):
    if i == 3:
        raise KeyError("view 'lab'")
    return i


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_errors_come_back_as_raised(scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2), pytest.raises(KeyError) as caught:
        passes.run_pass(fail, [()] * 5, add)
    assert caught.value.args == ("view 'lab'",)


def refuse(i):
    if i == 1:
        raise ValueError("X, row 2: bad")
    return 0


def test_errors_name_the_place(client):
    places = [[Place("X", ((f"f{i}.parquet", 100, 10),))] for i in range(3)]
    for options in ({}, {"scheduler": "threads"}):
        with (
            dask.config.set(**options),
            pytest.raises(ValueError, match=r"^X, f1.parquet, row 102"),
        ):
            passes.run_pass(refuse, [()] * 3, add, places=places)


class Bar:
    """Progress bar that keeps what it is told."""

    def __init__(self):
        self.done, self.total = [], None

    def __call__(self, title, total, *, shown):
        self.total, self.shown = total, shown
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
    monkeypatch.setattr(passes, "progress_bar", bar)
    with dask.config.set(**options):
        passes.run_pass(number, [()] * 4, add, shown=True, n_rows=n_rows)
    expected = n_rows or [1] * 4
    assert bar.total == sum(expected)
    end = time.monotonic() + 5
    while len(bar.done) < 4 and time.monotonic() < end:  # events of a cluster arrive later
        time.sleep(0.01)
    assert sorted(bar.done) == sorted(expected)


def test_interrupted_pass_leaves_no_task_running():
    running, started = set(), []

    def task(i):
        started.append(i)
        running.add(i)
        if len(started) == 1:
            threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        time.sleep(0.2)
        running.discard(i)
        return [i]

    main = threading.main_thread().ident
    with dask.config.set(scheduler="threads", num_workers=2), pytest.raises(KeyboardInterrupt):
        passes.run_pass(task, [()] * 50, add)
    assert not running
    n_started = len(started)
    time.sleep(0.3)
    assert len(started) == n_started < 50


def test_interrupted_pass_is_forgotten_by_a_cluster(client):
    started = []

    def task(i):
        started.append(i)
        if len(started) == 1:
            threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        time.sleep(0.1)
        return [i]

    main = threading.main_thread().ident
    with pytest.raises(KeyboardInterrupt):
        passes.run_pass(task, [()] * 50, add)
    end = time.monotonic() + 5
    while any(client.processing().values()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(client.processing().values())


def test_missing_dask_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"pip install 'naim3l\[dask\]'"):
        passes.load_dask("dask.no_such_module")
