"""Statistics of the rows of one source, by a plan: the last pass of a fit, for itself."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from naim3l._origin import Origin
from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.estimators.collected import COUNTS, Found, RowsWithout, Statistics
from naim3l.estimators.plans import ColumnPlan
from naim3l.estimators.training import (
    SAMPLE_ROWS,
    Reader,
    read_statistics,
    statistics_of_batch,
)
from naim3l.files.errors import check_names, load_extra
from naim3l.input.batches import Batch
from naim3l.input.chunks import Fold, Rows
from naim3l.input.labels import USUAL_WORDS, label_batch
from naim3l.input.sources import open_tables, with_columns
from naim3l.input.views import WIDE_TABLE, is_separate
from naim3l.problem.shareable import GramStatistics, Occurrences
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics

ALL_ROWS = "all"  # the source whose rows are held out as those of a fit are
# Fewest rows that a shareable sum is of, and by which it differs from others.
LEAST = 10
# Bits of the numbers of rows in a part, if the lengths of parts are not known.
PART_BITS = 32


def collect(
    plan: ColumnPlan,
    X: Any,
    y: Any,
    *,
    source: str = ALL_ROWS,
    shareable: bool = False,
    verbose: int = 0,
) -> Statistics:
    """Statistics of the rows of a source, such as a month or a site, which are read once.

    Parameters
    ----------
    plan : ColumnPlan
        Of the study, the same for all sources.
    X : mapping of str to table, or one wide table
        In the form of the plan, of some of its views: tables in memory, collections of dask or
        files, as for :meth:`naim3l.NAIM3L.fit`; or iterators of record batches of Arrow, or of
        data frames.
    y : mapping of str to label table, or one label table
        Labels of the rows of ``X``. A label that a table lacks is unknown there. For files and
        iterators, names of columns.
    source : str, default="all"
        Name of the source; those of statistics that are added must differ. Which rows are held out
        depends on it, unless they have ids. By default they are those of a fit to the same tables,
        if the lengths of their parts are known before, as those of Parquet files.
    shareable : bool, default=False
        Whether to leave out all that tells of single rows: samples, folds and factors; labels
        that are yes, no or unknown in fewer than 10 rows of a view, or that fewer than 10 rows tell
        from another label; and encoded columns that have another value than usual in fewer than 10
        rows. A model can then be fitted with given parameters and ``decide="sign"`` only.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Returns
    -------
    Statistics
        To be saved, added and fitted to.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.statistics import ColumnPlan, Statistics, collect, combine
    >>> data = datasets.make_unpaired(200, n_labels=3, random_state=0)
    >>> plan = ColumnPlan.of(data.views, data.labels, estimator=NAIM3L(ridge=1.0))
    >>> for month, rows in {"october": slice(0, 100), "november": slice(100, 200)}.items():
    ...     X = {view: table[rows] for view, table in data.views.items()}
    ...     y = {view: labels[rows] for view, labels in data.labels.items()}
    ...     collect(plan, X, y, source=month).save(f"{month}.stats")
    >>> both = combine([Statistics.load(f"{of}.stats") for of in ("october", "november")])
    >>> both.sources
    {'october': {'view0': 100, 'view1': 100}, 'november': {'view0': 100, 'view1': 100}}
    >>> NAIM3L(ridge=1.0).fit_statistics(both).views_
    ['view0', 'view1']
    """
    if not isinstance(plan, ColumnPlan):
        raise TypeError(f"plan must be a ColumnPlan, got {type(plan).__name__}.")
    if not isinstance(source, str) or not source.strip():
        raise ValueError(f"source must be the name of the source, got {source!r}.")
    with_rows = [v for v, of in plan.features.items() if of.kernel or of.transformer is not None]
    if shareable and with_rows:
        raise ValueError(
            f"the plan may have rows, of which a kernel or transformer of views {some(with_rows)} "
            "was learned; make a plan without, for statistics that are shareable."
        )
    tables = _open(plan, X, y)
    readers = {name: _reader(plan, table, source) for name, table in tables.items()}
    task = _shareable_of_batch if shareable else statistics_of_batch
    found = read_statistics(partial(task, plan), readers, tables, shown=bool(verbose))
    if shareable:
        found = _without_few(plan, found, source)
    if COUNTS in found:
        found[COUNTS][1].warn()
    n_rows = {view: found[view][0].n_rows for view in plan.names.views if view in found}
    return Statistics(plan, {source: n_rows}, found, shareable)


def _open(plan: ColumnPlan, X: Any, y: Any) -> dict[str, Any]:
    """Tables of a source by name, checked before they are read."""
    names = plan.names
    names.check_form(X)
    given = X if is_separate(X) else {WIDE_TABLE: X}
    labels = y if is_separate(X) and is_separate(y) else {WIDE_TABLE: y}
    streams = {name: of for name, of in given.items() if hasattr(of, "__next__")}
    tables: dict[str, Any] = {}
    for name, batches in streams.items():
        origin, listed = Origin(WIDE_TABLE if names.wide else f"view {name!r}"), labels.get(name)
        if not isinstance(listed, list | tuple):
            raise TypeError(f"{origin}: labels of an iterator must be names of its columns.")
        empty = Batch(np.empty((0, len(listed))), origin, "label")
        empty.columns = list(listed)
        columns = names.needed_columns()[name]
        tables[name] = _Stream(name, origin, batches, columns, empty)
    if len(streams) == len(given):
        return tables
    if streams:
        X, y = ({name: of[name] for name in X if name not in streams} for of in (X, y))
    others = with_columns(X, names.needed_columns(), plan.text)
    return tables | open_tables(others, y, text=plan.text)


@dataclass(frozen=True)
class _Stream:
    """A table whose batches come from an iterator, once, and are not kept."""

    name: str
    origin: Origin
    batches: Iterator[Any]
    columns: list[str] | None  # features; by default all columns that are no labels
    labels: Batch  # without rows
    lengths, words = None, USUAL_WORDS

    def fold(self, task: Any, combine: Any, **options: Any) -> Any:
        """Result of a task, as those of other tables."""
        return Fold(task, combine)(0, self._rows())

    def _rows(self) -> Iterator[Rows]:
        row, labels = 0, self.labels.columns or []
        for given in self.batches:
            record = type(given).__name__ == "RecordBatch"  # which is no data frame
            table = load_extra("pyarrow").Table.from_batches([given]) if record else given
            batch = Batch(table, replace(self.origin, first_row=row))
            there = batch.columns or []
            features = self.columns or [name for name in there if name not in labels]
            check_names([*labels, *features], there, str(self.origin))
            chosen = [batch.select_columns([*map(there.index, of)]) for of in (features, labels)]
            yield chosen[0], label_batch(chosen[1].data, self.origin)[0]
            row += len(batch)


def _reader(plan: ColumnPlan, table: Any, source: str) -> Reader:
    """What a task needs to know about a table of a source, with numbers of rows of its own."""
    assert table.labels is not None
    decoder, positions = plan._decoder(table.name, table.labels, table.words)
    first = 0  # of all rows: so far apart that those of two sources never meet
    if source != ALL_ROWS:
        first = int.from_bytes(sha256(source.encode()).digest()[:8], "little") >> 2
    lengths = table.lengths if hasattr(table, "lengths") else [len(table.features)]
    n_rows = None if lengths is None else int(sum(lengths))
    if lengths is None:
        n_parts = len(getattr(table, "parts", [()]))
        lengths = [2**PART_BITS] * n_parts
    starts = first + np.cumsum([0, *lengths], dtype=np.int64)
    number = list(plan.names.tables).index(table.name)
    given = table.name, plan.names, decoder, positions, starts, n_rows
    return Reader(*given, plan.seed, number, SAMPLE_ROWS)


def _shareable_of_batch(
    plan: ColumnPlan, reader: Reader, part: int, row: int, X: Batch, y: Batch
) -> Found:
    """Sums of a batch that have no rows, and by how many rows they differ."""
    results, ones = Found(), bool(plan.parameters["fit_intercept"])
    signed, anywhere = reader.signed(y), np.zeros(len(X), dtype=bool)
    for view, batch in reader.names.split(reader.name, X).items():
        features, present = plan.features[view].encode(batch, judge=False)
        if present.any():
            anywhere |= present
            Y = signed[present]
            sums = GramStatistics.of(RowStatistics.of(features, Y, fit_intercept=ones))
            results[view] = sums, Occurrences.of(features, Y)
    if reader.names.wide and anywhere.any():
        Y = signed[anywhere]
        results[COUNTS] = LabelCounts.of(Y), Occurrences.of(np.empty((len(Y), 0)), Y)
    return results


def _without_few(plan: ColumnPlan, found: Found, source: str) -> Found:
    """Sums of a source without those by which few rows can be told; warns of what is left out."""
    results = Found()
    for view, (sums, seen) in found.items():
        where = f"source {source!r}, {WIDE_TABLE if view == COUNTS else f'view {view!r}'}"
        if seen.n_rows < LEAST:
            raise ValueError(
                f"{where}: sums of {seen.n_rows} rows are not shared, of which at least {LEAST} "
                "are needed; leave the view out."
            )
        labels = seen.rare_labels(LEAST)
        if view == COUNTS:
            kept = LabelCounts(sums.n_known * ~labels, sums.n_positives * ~labels)
            results[COUNTS] = kept, RowsWithout.of(np.empty(0, dtype=np.int64))
            continue
        columns = np.append(seen.rare_columns(LEAST), [False] * (len(sums.gram) - len(seen.usual)))
        results[view] = (sums.without(labels, columns),)
        if labels.any():
            names = [plan.names.labels[k] for k in np.flatnonzero(labels)]
            warn_user(
                f"{where}: labels {some(names)} are left out, as if they were unknown: fewer than "
                f"{LEAST} rows are yes, no or unknown, or tell them from another label."
            )
        if columns.any():
            warn_user(
                f"{where}: {columns.sum()} of {len(columns)} encoded columns are left out: fewer "
                f"than {LEAST} rows have another value than usual."
            )
    return results
