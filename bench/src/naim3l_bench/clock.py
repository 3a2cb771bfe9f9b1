"""How long a computation takes, whatever else the machine does."""

from collections.abc import Callable
from time import process_time
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
R = TypeVar("R")


def timed(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[R, float]:
    """Result of a call, and its CPU seconds on one thread.

    BLAS and OpenMP have no other thread, as one that waits for work would count, too. Neither the
    time of child processes nor that of a GPU is counted.

    Examples
    --------
    >>> from time import sleep
    >>> done, seconds = timed(sleep, 0.2)
    >>> seconds < 0.1
    True
    """
    with threadpool_limits(1):
        start = process_time()
        result = function(*args, **kwargs)
        return result, process_time() - start
