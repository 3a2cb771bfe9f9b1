"""When tables are read in parts, of which size, and where: in threads, or on a cluster of dask."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from naim3l.files.readers import ReadError
from naim3l.files.readers.folders import is_folder
from naim3l.input.passes import load_dask, n_workers

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
          "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([kmgt]i?)?b?", re.IGNORECASE)
# Memory of a task as a multiple of its part: cells as read, as parsed, and as numbers.
COPIES = 8
# Share of the memory that is for parts; the rest is for statistics and samples.
SHARE_OF_PARTS = 0.5
# A smaller part would be read slower than its memory is worth.
LEAST_BYTES = 2**18
PATIENCE = "10s"  # for the answer of a scheduler


def is_streamed(config: Any, memory: str | None = None, address: str | None = None) -> bool:
    """Whether tables are read in parts: one is a folder or a pattern, or an option asks for it."""
    options = memory is not None or address is not None
    return options or any(is_folder(view.source) for view in config.views.values())


def parse_memory(text: str) -> int:
    """Number of bytes.

    Examples
    --------
    >>> parse_memory("4GB"), parse_memory("1.5 GiB")
    (4000000000, 1610612736)
    """
    found = _SIZE.fullmatch(text.strip())
    n_bytes = float(found[1]) * _UNITS[(found[2] or "").lower()] if found else 0
    if n_bytes < LEAST_BYTES:
        raise ReadError(f"--memory {text}: give a size such as 4GB, 500MB or 4GiB.")
    return int(n_bytes)


@contextmanager
def workers(memory: str | None, address: str | None) -> Iterator[int | None]:
    """Context in which dask computes in threads or on a cluster; gives the size of a part.

    Parameters
    ----------
    memory : str, optional
        Memory of this process, or of each process of the cluster, that parts and statistics may
        take.
    address : str, optional
        Of the scheduler of a cluster. How it is secured, with TLS for example, is up to the
        configuration of dask.

    Yields
    ------
    int or None
        Size of a part in bytes, None for that of the readers.
    """
    n_bytes = None if memory is None else parse_memory(memory)
    # The limit of statistics, which a fit refuses beyond it.
    limits = {} if n_bytes is None else {"naim3l.memory": n_bytes}
    with load_dask().config.set(limits):
        if address is None:
            yield _part_bytes(n_bytes, n_workers())
            return
        with _connected(address) as client:
            yield _part_bytes(n_bytes, max(client.nthreads().values()))


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """The client of a cluster that has workers."""
    try:
        client = load_dask("distributed").Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        raise ReadError(
            f"--dask {address}: no scheduler of dask answers there ({error}); start one with "
            "'dask scheduler' and 'dask worker', or leave the option out."
        ) from error
    with client:
        if not client.nthreads():
            raise ReadError(f"--dask {address}: the cluster has no workers; start some.")
        yield client


def _part_bytes(memory: int | None, n_threads: int) -> int | None:
    if memory is None:
        return None
    return max(int(SHARE_OF_PARTS * memory / (COPIES * n_threads)), LEAST_BYTES)
