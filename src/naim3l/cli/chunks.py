"""Rows of views that are read in chunks: how many at a time, where, and samples of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.cli.tables import ViewTable, decode
from naim3l.features.survey import column_types, missing_cells
from naim3l.files.errors import ReadError, load_extra
from naim3l.input.batches import Batch
from naim3l.input.chunks import memory_limit, n_workers
from naim3l.input.labels import LabelDecoder, LabelSurvey
from naim3l.input.sources import BATCH_ROWS, ChunkedTable, all_chunked, open_tables
from naim3l.problem.sampling import RowSample

# Memory of a task as a multiple of its batch of numbers: cells as read, as text, and encoded.
COPIES = 16
# Share of the memory that is for batches; the rest is for statistics and samples.
SHARE_OF_BATCHES = 0.25
PATIENCE = "10s"  # for the answer of a scheduler
# Rows of each view on which predictions are measured, and which a report shows.
MEASURED_ROWS = 100_000


@contextmanager
def workers(memory: str | None, address: str | None) -> Iterator[int | None]:
    """Context in which dask computes, in threads or on a cluster; the bytes of a batch."""
    with ExitStack() as stack:
        n_threads = n_workers()
        if address is not None:
            n_threads = stack.enter_context(_connected(address))
        if memory is None:
            yield None
            return
        try:
            n_bytes = int(load_extra("dask.utils").parse_bytes(memory))
        except ValueError:
            n_bytes = 0
        if n_bytes < 2**18:  # too little for anything
            raise ReadError(f"--memory {memory}: give a size such as 4GB, 500MB or 4GiB.")
        stack.enter_context(load_extra("dask").config.set({"naim3l.memory": n_bytes}))
        yield int(SHARE_OF_BATCHES * n_bytes / (COPIES * n_threads))


@contextmanager
def _connected(address: str) -> Iterator[int]:
    """Context in which a cluster computes; the number of threads of its largest worker."""
    try:
        client = load_extra("distributed").Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        how = "start 'dask scheduler' and 'dask worker'"
        raise ReadError(f"--dask {address}: no scheduler answers ({error}); {how}.") from error
    with client:
        if not client.nthreads():
            raise ReadError(f"--dask {address}: the cluster has no workers; start some.")
        yield max(client.nthreads().values())


def batch_rows(view: ViewTable, batch_bytes: int | None) -> int:
    """Number of rows of a batch, given its size; None for the usual number."""
    n_columns = len(view.features) + len(view.labels) + 1
    fitting = BATCH_ROWS if batch_bytes is None else batch_bytes // (8 * n_columns)
    return min(max(fitting, 1), BATCH_ROWS)


def open_chunks(view: ViewTable, batch_bytes: int | None) -> ChunkedTable:
    """The table of a view with its labels, if it has some, to be read in chunks."""
    X, y = view.in_chunks(batch_rows(view, batch_bytes))
    labelled = bool(view.labels)
    opened = open_tables({view.name: X}, {view.name: y} if labelled else None, labelled=labelled)
    return all_chunked(opened)[view.name]


def warn_of_empty_rows(model: Any, X: Mapping[str, Batch]) -> None:
    """Warn, once, of rows that have no value, for which there is no answer."""
    parts = []
    for view, batch in X.items():
        has_plan = view in getattr(model, "columns_", {})
        missing = missing_cells(batch, column_types(batch)) if has_plan else batch.missing
        index = batch.data.index[missing.all(axis=1)]
        if len(index):
            listed = some(index.tolist(), 20, str)
            parts.append(f"view {view!r}, {index.name or 'rows'} {listed}")
    if parts:
        warn_user(f"rows without any value have no answer: {'; '.join(parts)}.")


class Opened(NamedTuple):
    """A view whose rows can be read in parts; a table in memory is one part."""

    id: str | None
    read: Callable[..., Iterable[tuple[Batch, Any]]]  # features and labels of ``(i, *parts[i])``
    parts: list[tuple[Any, ...]]
    lengths: list[int] | None = None  # numbers of rows of the parts, if they are known
    facts: Sequence[Any] = ()  # which files and rows the parts are


@contextmanager
def open_rows(
    model: Any, views: Mapping[str, ViewTable], limits: tuple[Any, Any] | None
) -> Iterator[dict[str, Opened]]:
    """Views with all labels of a model, if they have some; with limits, to be read in chunks."""
    if limits is None:
        yield {name: _in_memory(model, view) for name, view in views.items()}
        return
    with workers(*limits) as batch_bytes:
        yield {name: _opened(model, of.settled(), batch_bytes) for name, of in views.items()}


def _in_memory(model: Any, view: ViewTable) -> Opened:
    features, labels = view.read()
    if labels is not None:
        labels = labels.reindex(columns=model.label_names_)
    warn_of_empty_rows(model, {view.name: features})
    return Opened(features.data.index.name, lambda i: [(features, labels)], [()], [len(features)])


def _opened(model: Any, view: ViewTable, batch_bytes: int | None) -> Opened:
    table, read = open_chunks(view, batch_bytes), None
    lengths = table.lengths
    if view.labels or (lengths is None and view.id is None):  # to number the rows
        found = scan(view, batch_bytes, shown=True)
        read, lengths = found.reader(model, view), found.lengths
    return Opened(view.id, partial(_read, table.read, read), table.parts, lengths, table.facts)


def _read(read: Any, labels: Any, *part: Any) -> Iterator[tuple[Batch, Any]]:
    for features, of_batch in read(*part):
        yield features, None if labels is None else labels(of_batch)


class Scan(NamedTuple):
    """What a first pass over a table finds: numbers of rows of the parts, and words of labels."""

    by_part: Counter[int]
    labels: LabelSurvey | None

    @classmethod
    def of(cls, part: int, row: int, features: Batch, labels: Batch | None) -> "Scan":
        survey = None if labels is None else LabelSurvey.of(labels)
        return cls(Counter({part: len(features)}), survey)

    def combine(self, other: "Scan") -> "Scan":
        one, two = self.labels, other.labels
        survey = None if one is None or two is None else one.combine(two)
        return Scan(self.by_part + other.by_part, survey)

    @property
    def lengths(self) -> list[int]:
        return [self.by_part[part] for part in range(max(self.by_part, default=-1) + 1)]

    def reader(self, model: Any, view: ViewTable) -> Any:
        """Reader of the labels of a batch, to which words mean what they do in all rows."""
        if self.labels is None:
            return None
        decoder = LabelDecoder.of(self.labels, view.words)
        return partial(decode, decoder, model.label_names_)


def scan(view: ViewTable, batch_bytes: int | None, *, shown: bool) -> Scan:
    """Numbers of rows of the parts of a table, and words of its labels."""
    # One column is enough to count rows.
    table = open_chunks(replace(view, features=view.features[:1]), batch_bytes)
    found: Scan = table.fold(Scan.of, Scan.combine, title=f"rows of {view.name}", shown=shown)
    return found


def sample_rows(
    model: Any, views: Mapping[str, ViewTable], batch_bytes: int | None, *, shown: bool
) -> tuple[dict[str, Batch], dict[str, Any], dict[str, dict[str, int]]]:
    """Features and labels of random rows, the same for any batches; numbers if not all."""
    X, Y, numbers = {}, {}, {}
    for name, view in views.items():
        found = scan(view, batch_bytes, shown=shown)
        starts = np.cumsum([0, *found.lengths])
        n_bytes, most = memory_limit(), MEASURED_ROWS
        if n_bytes is not None:  # several copies of the sample fit
            row_bytes = 8 * COPIES * (len(view.features) + len(view.labels))
            most = max(min(most, int(SHARE_OF_BATCHES * n_bytes / row_bytes)), 1)
        sample: RowSample = open_chunks(view, batch_bytes).fold(
            partial(_sample, found.reader(model, view), starts, most),
            RowSample.combine,
            title=f"sample of {name}",
            shown=shown,
            n_rows=found.lengths,
        )
        features, Y[name] = sample.arrays
        X[name] = Batch(features, f"view {name!r}")
        if len(sample.rows) < starts[-1]:
            numbers[name] = {"rows": int(starts[-1]), "sample": len(sample.rows)}
    return X, Y, numbers


def _sample(
    read: Any, starts: NDArray, limit: int, part: int, row: int, features: Batch, labels: Batch
) -> RowSample:
    numbers, arrays = starts[part] + row + np.arange(len(features)), (features.data, read(labels))
    return RowSample.of(limit, 0, 0, numbers, arrays, n_rows=int(starts[-1]))
