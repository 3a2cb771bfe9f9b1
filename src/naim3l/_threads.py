"""Threads: how work is divided among them, and how many BLAS may have meanwhile."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from threading import local
from typing import ParamSpec, TypeVar

import numpy as np  # noqa: F401 -- the controller knows only libraries that are loaded already
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_pools = ThreadpoolController()
limited_blas = partial(_pools.limit, limits=1, user_api="blas")


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions that divide labels among threads, with one thread of BLAS.

    Its own threads do not speed up small decompositions, and keep cores busy while they wait.
    """

    # The decorator of threadpoolctl up to 3.7 keeps what to restore in one place for all calls: one
    # within another would leave BLAS with one thread for good.
    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with limited_blas():
            return function(*args, **kwargs)

    return limited


def blas_threads() -> int:
    """Number of threads that BLAS may use, as set by the user, or by joblib in its workers."""
    return max([info["num_threads"] for info in _pools.info() if info["user_api"] == "blas"] or [1])


_here = local()  # has the attribute "started" in threads of thread_map, "pool" in kept_threads


def free_threads(n_threads: int) -> int:
    """Number of threads that `thread_map` divides items among."""
    return 1 if hasattr(_here, "started") else n_threads


@one_blas_thread
def thread_map(function: Callable[[T], R], items: Iterable[T], n_threads: int) -> list[R]:
    """``function`` of every item, in order, divided among threads with single-threaded BLAS.

    In a thread that was itself started here, all items are left to that thread.
    """
    if free_threads(n_threads) == 1:
        return [function(item) for item in items]
    if hasattr(_here, "pool"):
        return list(_here.pool.map(function, items))
    with _threads(n_threads) as pool:
        return list(pool.map(function, items))


def _threads(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, initializer=setattr, initargs=(_here, "started", 1))


@contextmanager
def kept_threads(n_threads: int) -> Iterator[None]:
    """Let all calls of `thread_map` in this thread use the same threads."""
    if free_threads(n_threads) == 1 or hasattr(_here, "pool"):
        yield
        return
    with _threads(n_threads) as _here.pool:
        try:
            yield
        finally:
            del _here.pool


def map_views(function: Callable[[int], R], n_views: int, n_threads: int) -> list[R]:
    """``function`` of the position of every view, divided among threads.

    If there are more threads than views, these are left to the function itself.
    """
    if n_views < n_threads:
        return [function(v) for v in range(n_views)]
    return thread_map(function, range(n_views), n_threads)
