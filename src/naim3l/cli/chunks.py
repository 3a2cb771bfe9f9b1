"""Tables that are read in chunks: when, how many rows at a time, where, and samples of them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.cli.tables import ViewRows, ViewTable
from naim3l.files.errors import ReadError, load_extra
from naim3l.input.batches import Batch
from naim3l.input.chunks import load_dask, memory_limit, n_workers
from naim3l.input.labels import LabelDecoder, LabelSurvey
from naim3l.input.sources import BATCH_ROWS, ChunkedTable, open_tables
from naim3l.problem.sampling import RowSample

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
# Memory of a task as a multiple of its batch of numbers: cells as read, as text, and encoded.
COPIES = 16
# Share of the memory that is for batches; the rest is for statistics and samples.
SHARE_OF_BATCHES = 0.5
LEAST_MEMORY = 2**18
PATIENCE = "10s"  # for the answer of a scheduler
# Rows of each view on which predictions are measured, and which a report shows.
MEASURED_ROWS = 100_000


def parse_memory(text: str) -> int:
    """Number of bytes.

    Examples
    --------
    >>> parse_memory("4GB"), parse_memory("1.5 GiB")
    (4000000000, 1610612736)
    """
    found = _SIZE.fullmatch(text.strip())
    n_bytes = 0.0
    if found is not None:
        n_bytes = float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2].lower()]
    if n_bytes < LEAST_MEMORY:
        raise ReadError(f"--memory {text}: give a size such as 4GB, 500MB or 4GiB.")
    return int(n_bytes)


@contextmanager
def workers(memory: str | None, address: str | None) -> Iterator[int | None]:
    """Context in which dask computes in threads or on a cluster; gives the bytes of a batch.

    Parameters
    ----------
    memory : str, optional
        Memory of this process, or of each process of the cluster, that batches and statistics may
        take.
    address : str, optional
        Of the scheduler of a cluster. How it is secured, with TLS for example, is up to the
        configuration of dask.

    Yields
    ------
    int or None
        None for batches of the usual number of rows.
    """
    n_bytes = None if memory is None else parse_memory(memory)
    # The limit of statistics, which a fit refuses beyond it.
    limits = {} if n_bytes is None else {"naim3l.memory": n_bytes}
    with load_dask().config.set(limits):
        if address is None:
            yield _batch_bytes(n_bytes, n_workers())
            return
        with _connected(address) as client:
            yield _batch_bytes(n_bytes, max(client.nthreads().values()))


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


def _batch_bytes(memory: int | None, n_threads: int) -> int | None:
    return None if memory is None else int(SHARE_OF_BATCHES * memory / (COPIES * n_threads))


def batch_rows(view: ViewTable, batch_bytes: int | None) -> int | None:
    """Number of rows of a batch, given its size; None for the usual number."""
    if batch_bytes is None:
        return None
    n_columns = len(view.features) + len(view.labels) + 1
    return min(max(batch_bytes // (8 * n_columns), 1), BATCH_ROWS)


def open_chunks(view: ViewTable, batch_bytes: int | None) -> ChunkedTable:
    """The table of a view with its labels, if it has some, to be read in chunks."""
    X, y = view.in_chunks(batch_rows(view, batch_bytes))
    labelled = bool(view.labels)
    opened = open_tables({view.name: X}, {view.name: y} if labelled else None, labelled=labelled)
    table = opened[view.name]
    assert isinstance(table, ChunkedTable)
    return table


@dataclass(frozen=True)
class Scan:
    """What a first pass over a table finds: numbers of rows, and words of labels.

    Attributes
    ----------
    lengths : dict of int to int
        Rows of each part.
    labels : LabelSurvey or None
    """

    lengths: dict[int, int]
    labels: LabelSurvey | None

    @classmethod
    def of(cls, part: int, row: int, features: Batch, labels: Batch | None) -> "Scan":
        survey = None if labels is None else LabelSurvey.of(labels)
        return cls({part: len(features)}, survey)

    def combine(self, other: "Scan") -> "Scan":
        lengths = dict(self.lengths)
        for part, n in other.lengths.items():
            lengths[part] = lengths.get(part, 0) + n
        labels = None
        if self.labels is not None and other.labels is not None:
            labels = self.labels.combine(other.labels)
        return Scan(lengths, labels)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Number of the first row of each part, and the number of all rows."""
        return np.cumsum([0, *(self.lengths[part] for part in sorted(self.lengths))])


def scan(view: ViewTable, batch_bytes: int | None, *, shown: bool) -> Scan:
    """Numbers of rows of the parts of a table, and words of its labels."""
    # One column is enough to count rows.
    table = open_chunks(replace(view, features=view.features[:1]), batch_bytes)
    found: Scan = table.fold(Scan.of, Scan.combine, title=f"rows of {view.name}", shown=shown)
    return found


def row_starts(view: ViewTable, batch_bytes: int | None) -> NDArray[np.int64]:
    """Number of the first row of each part; text files are read for that."""
    if view.table.lengths is not None:
        return np.cumsum([0, *view.table.lengths])
    return scan(replace(view, labels=[]), batch_bytes, shown=True).starts


@dataclass(frozen=True)
class LabelReader:
    """Reader of the labels of a batch, for all labels of a model.

    Attributes
    ----------
    decoder : LabelDecoder
        Made from the words of all rows, so that they mean the same in all batches.
    labels : list of str
        Labels of the model; those that the table lacks are unknown.
    """

    decoder: LabelDecoder
    labels: list[str]

    @classmethod
    def of(cls, view: ViewTable, found: Scan, model: Any) -> "LabelReader":
        assert found.labels is not None
        return cls(LabelDecoder.of(found.labels, view.words), model.label_names_)

    def __call__(self, labels: Batch) -> Any:
        """Labels as a data frame: 1, 0, NaN = unknown."""
        signed = self.decoder.decode(labels)
        values = np.where(signed == 0, np.nan, signed > 0)
        frame = load_extra("pandas").DataFrame(values, labels.data.index, labels.columns)
        return frame.reindex(columns=self.labels)


def sample_rows(
    model: Any, views: Mapping[str, ViewTable], batch_bytes: int | None, *, shown: bool
) -> tuple[dict[str, ViewRows], dict[str, dict[str, int]]]:
    """A random sample of the rows of each view, in the order of the files.

    The sample is the same for any batches, and all rows if they are not too many.

    Returns
    -------
    rows : dict of view to ViewRows
    numbers : dict of view to dict of str to int
        Numbers of rows and of those in the sample, of views that have more of the former.
    """
    rows, numbers = {}, {}
    for name, view in views.items():
        found = scan(view, batch_bytes, shown=shown)
        reader = LabelReader.of(view, found, model)
        task = _Sample(reader, found.starts, _most_rows(len(view.features) + len(view.labels)))
        sample: RowSample = open_chunks(view, batch_bytes).fold(
            task,
            RowSample.combine,
            title=f"sample of {name}",
            shown=shown,
            n_rows=[found.lengths[part] for part in sorted(found.lengths)],
        )
        features, labels = sample.arrays
        rows[name] = ViewRows(Batch(features, view.where), labels)
        if len(sample.rows) < found.starts[-1]:
            numbers[name] = {"rows": int(found.starts[-1]), "sample": len(sample.rows)}
    return rows, numbers


def _most_rows(n_columns: int) -> int:
    """Number of rows of a sample, several copies of which fit in the memory that may be used."""
    memory = memory_limit()
    if memory is None:
        return MEASURED_ROWS
    return max(min(MEASURED_ROWS, int(SHARE_OF_BATCHES * memory / (8 * COPIES * n_columns))), 1)


@dataclass(frozen=True)
class _Sample:
    """Task that samples a batch."""

    reader: LabelReader
    starts: NDArray[np.int64]
    limit: int

    def __call__(self, part: int, row: int, features: Batch, labels: Batch) -> RowSample:
        numbers = self.starts[part] + row + np.arange(len(features))
        arrays = features.data, self.reader(labels)
        return RowSample.of(self.limit, 0, 0, numbers, arrays, n_rows=int(self.starts[-1]))
