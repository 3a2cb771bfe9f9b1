"""Sources: tables in memory, collections of dask, and files, with their labels, as batches.

Whatever users give becomes a `MemoryTable`, which is one batch, or a `ChunkedTable`, whose parts
are read when they are needed. Nothing behind this module asks where a table came from.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from naim3l._origin import Origin
from naim3l._text import quote, some
from naim3l._warnings import warn_user
from naim3l.files.columnar import PARQUET_EXTENSIONS, arrow_frame, is_dataset, is_stream
from naim3l.files.errors import ReadError, check_names, load_extra
from naim3l.files.tables import FileTable, is_folder, open_table
from naim3l.input.arrow import ArrowBatch
from naim3l.input.batches import Batch, compare_indexes, is_missing
from naim3l.input.chunks import Fold, Rows, keep_memory, run_pass
from naim3l.input.labels import USUAL_WORDS, LabelWords, label_batch
from naim3l.input.views import (
    WIDE_TABLE,
    check_label_form,
    check_not_empty,
    check_view_names,
    is_separate,
)

# Rows of a batch of files that are read in chunks, unless memory is limited.
BATCH_ROWS = 65_536
_SAME_PARTS = (
    "give both the same partitions, for example with labels.repartition(divisions="
    "features.divisions), or labels.rechunk({0: features.chunks[0]}) for arrays."
)


@dataclass(frozen=True)
class FileView:
    """A table in files, and which of its columns are used."""

    table: FileTable
    columns: list[str]  # features
    id: str | None = None  # column with the ids of the rows, which become the index
    text: tuple[str, ...] = ()  # columns that remain text, even if their cells are numbers
    chunked: bool = False  # whether it is read in chunks, instead of at once
    batch_rows: int = BATCH_ROWS  # the most, if it is


@dataclass(frozen=True)
class LabelColumns:
    """Columns of a table in files that are its labels, and further words for their cells."""

    names: list[str]
    words: LabelWords = USUAL_WORDS


@dataclass(frozen=True)
class MemoryTable:
    """A table in memory, and its labels: one batch."""

    name: str  # of the view, or "X" for a wide table
    features: Batch
    labels: Batch | None = None
    one_column: bool = False  # whether labels were one-dimensional
    words: LabelWords = USUAL_WORDS
    chunked = False

    def with_text(self, columns: Collection[str]) -> "MemoryTable":
        """The table itself: its types are those of all rows."""
        return self

    def fold(self, task: Any, combine: Any, **options: Any) -> Any:
        """Result of a task, see `Fold`, which has only one batch to work on."""
        return task(0, 0, self.features, self.labels)


@dataclass(frozen=True)
class ChunkedTable:
    """A table that is read in chunks, and its labels."""

    name: str
    features: Batch  # without rows, as the labels
    labels: Batch | None
    read: Any  # read(i, *parts[i]) gives the batches of part i, with their labels
    parts: list[tuple[Any, ...]]
    lengths: list[int] | None  # rows of each part, if they are known before it is read
    facts: list[Any]  # the same for the same data in the same parts, in any process
    native: Any  # a collection of dask, or a `FileView`
    native_labels: Any = None  # a collection of dask; None if labels are columns of the files
    one_column: bool = False
    words: LabelWords = USUAL_WORDS
    chunked = True

    def with_text(self, columns: Collection[str]) -> "ChunkedTable":
        """The table with columns that remain text as it is written, if it is in text files."""
        if not isinstance(self.read, _FileReader):  # partitions have types of their own
            return self
        return replace(self, read=replace(self.read, text=(*self.read.text, *columns)))

    def fold(
        self, task: Any, combine: Any, *, n_rows: Any = None, keep: Any = None, **options: Any
    ) -> Any:
        """Combined results of a task over the batches of all parts, see `Fold` and `run_pass`.

        ``keep`` makes of a fold, and the name of the table, one that keeps results of parts.
        """
        fold, n_rows = Fold(task, combine), n_rows or self.lengths
        fold = fold if keep is None else keep(self.name, fold)
        return run_pass(self.read, self.parts, fold, combine, n_rows=n_rows, **options)


Table = MemoryTable | ChunkedTable


def any_chunked(X: Any) -> bool:
    """Whether a table, or one of a mapping of tables, is read in chunks."""
    return any(map(is_chunked, X.values())) if is_separate(X) else is_chunked(X)


def all_chunked(tables: Mapping[str, Table]) -> dict[str, ChunkedTable]:
    """Tables that are all read in chunks; refuses one in memory beside them."""
    for name, table in tables.items():
        if not isinstance(table, ChunkedTable):
            raise TypeError(
                f"view {name!r} is in memory, and others are read in chunks; give all tables as "
                "dask collections or files."
            )
    return dict(tables)  # type: ignore[arg-type]


def is_chunked(X: Any) -> bool:
    """Whether it is of dask, or in files; single files other than Parquet are read at once."""
    if isinstance(X, FileView):
        return X.chunked
    if not is_files(X):
        return is_dask(X)
    path = os.fspath(X) if isinstance(X, str | os.PathLike) else None
    return path is None or is_folder(path) or path.lower().endswith(PARQUET_EXTENSIONS)


def is_dask(X: Any) -> bool:
    return callable(getattr(type(X), "__dask_graph__", None))


def is_files(X: Any) -> bool:
    """Whether it is a path, paths, a dataset of pyarrow, or an Arrow stream, see `is_stream`."""
    if isinstance(X, str | os.PathLike):
        return True
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(path, str | os.PathLike) for path in X)
    if isinstance(X, FileView | Batch) or hasattr(X, "iloc"):  # most often
        return False
    return (hasattr(X, "get_fragments") and is_dataset(X)) or is_stream(X)


def open_tables(
    X: Any, y: Any, *, labelled: bool = True, text: Collection[str] = ()
) -> dict[str, Table]:
    """Tables by view, or one wide table under "X", with their labels.

    A table is in memory, a collection of dask, paths, a dataset of pyarrow, an Arrow stream, or a
    `FileView`. Labels
    are tables; for files, also names of columns of ``X``, or `LabelColumns`. Of tables that are
    read in chunks, only metadata are read. Columns named in ``text`` remain text as it is written
    in text files, so that 007 is not 7.
    """
    if not (check_label_form(X, y) if labelled else is_separate(X)):
        origins = Origin(WIDE_TABLE), Origin("y")
        return {WIDE_TABLE: _open(WIDE_TABLE, X, y, *origins, labelled, text)}
    check_view_names(X)
    tables = {}
    for view, table in X.items():
        labels, origin = y[view] if labelled and y is not None else None, Origin(f"view {view!r}")
        tables[view] = _open(view, table, labels, origin, origin, labelled, text)
    return tables


def _open(
    name: str, X: Any, y: Any, origin: Origin, label_origin: Origin, labelled: bool, text: Any
) -> Table:
    if is_files(X):
        X = _file_view(X, y, text)
    if isinstance(X, FileView):
        return _open_files(name, X, y, origin, labelled)
    if is_dask(X):
        return _open_dask(name, X, y, origin, str(label_origin), labelled)
    batch = X if isinstance(X, Batch) else Batch(X, origin)
    check_not_empty(batch)
    if not labelled:
        return MemoryTable(name, batch)
    refuse_names(y, batch.columns or (), origin)
    return _with_labels(MemoryTable(name, batch), y, label_origin)


def _with_labels(table: MemoryTable, y: Any, origin: Origin) -> MemoryTable:
    """The table with labels in memory, which must match its rows."""
    labels, one_column = label_batch(y, origin)
    n_rows, n_labelled = table.features.shape[0], labels.shape[0]
    if n_rows != n_labelled:
        raise ValueError(
            f"{table.features.origin}: {n_rows} rows of features but {n_labelled} rows of labels "
            "(inconsistent numbers of samples)."
        )
    if (caution := compare_indexes(table.features, labels)) is not None:
        warn_user(caution)
    return replace(table, labels=labels, one_column=one_column)


def refuse_names(labels: Any, columns: Collection[str], origin: Origin | str) -> None:
    """Refuse names of columns, and paths, as the labels of a table in memory."""
    given = labels if isinstance(labels, list | tuple) else []
    is_names = given and all(isinstance(name, str) and name in columns for name in given)
    if isinstance(labels, str | os.PathLike) or is_names:
        shown = some(list(given)) or repr(labels)
        raise TypeError(
            f"{origin}: {shown} as labels; names of columns and paths are for tables in files, "
            "which are paths or collections of dask. Give a label table, such as table[names], "
            "and leave its columns out of the features."
        )


# Files.


def _file_view(X: Any, y: Any, text: Collection[str]) -> FileView:
    """Paths as a table in files: all columns are features, except those that are labels."""
    table = open_table(X)
    names = _names(y) or []
    columns = [column for column in table.columns if column not in names]
    return FileView(table, columns, text=tuple(text), chunked=is_chunked(X))


def with_columns(
    X: Any, columns: Mapping[str, list[str] | None], text: Collection[str] = ()
) -> Any:
    """Tables of which paths are replaced by files with the columns that a model uses, by table."""
    if is_separate(X):
        names = {view: {WIDE_TABLE: columns.get(view)} for view in X}
        return {view: with_columns(X[view], of, text) for view, of in names.items()}
    if not is_files(X) or (chosen := columns.get(WIDE_TABLE)) is None:
        return X
    return replace(_file_view(X, None, text), columns=chosen)


def _names(y: Any) -> list[str] | None:
    """Names of label columns, if labels are given by them."""
    if isinstance(y, LabelColumns):
        return y.names
    if isinstance(y, str):
        return [y]
    is_list = isinstance(y, list | tuple)
    return list(y) if is_list and all(isinstance(name, str) for name in y) else None


def _open_files(name: str, X: FileView, y: Any, origin: Origin, labelled: bool) -> Table:
    names, where = _names(y) if labelled else [], f"{origin}, {X.table.name}"
    if names is None and X.chunked:
        raise TypeError(
            f"{origin}: tables in files that are read in chunks need labels that are columns of "
            "the same files: give their names."
        )
    if names is None:
        opened = _open_files(name, X, [], origin, labelled=False)
        assert isinstance(opened, MemoryTable)
        return _with_labels(opened, y, Origin(origin.table))
    if labelled:
        _check_names(names, X.table.columns, where)
    _check_names([*X.columns, *([] if X.id is None else [X.id])], X.table.columns, where)
    words = y.words if isinstance(y, LabelColumns) else USUAL_WORDS
    read = _FileReader(origin.table, X.columns, names, X.id, X.text, X.batch_rows)
    if not X.chunked:
        return MemoryTable(name, *read.whole(X.table), words=words)
    load_extra("dask")  # so that an error says what to install
    empty = load_extra("pandas").DataFrame({c: [] for c in [*X.columns, *names]}, dtype=float)
    check_not_empty(meta := Batch(empty[X.columns], origin), lazy=True)
    label_meta = Batch(empty[names], origin, "label") if labelled else None
    parts, lengths = [(part,) for part in X.table.parts], X.table.lengths
    facts = [*X.table.facts, list(X.columns), list(names), X.batch_rows]
    return ChunkedTable(name, meta, label_meta, read, parts, lengths, facts, X, words=words)


def _check_names(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Refuse names that are not those of columns, and none."""
    if not names:
        raise ValueError(f"{where}: no labels; give the names of columns.")
    check_names(names, columns, where)


@dataclass(frozen=True)
class _FileReader:
    """Reader of the parts of a table in files: features and labels of a batch at once."""

    table: str
    columns: list[str]
    labels: list[str]
    id: str | None
    text: tuple[str, ...]
    batch_rows: int | None

    def __call__(self, i: int, part: Any) -> Iterator[Rows]:
        keep_memory()
        for table, origin in part.batches(*self._columns(), self.batch_rows, coded=True):
            yield self._split(table, origin)

    def whole(self, table: FileTable) -> Rows:
        """All rows in one batch."""
        needed, text = self._columns()
        frame, origin = table.read(columns=needed, text_columns=text)
        return self._split(frame, origin)

    def _columns(self) -> tuple[list[str], tuple[str, ...]]:
        """Columns that are needed, and those that remain text."""
        ids = () if self.id is None else (self.id,)
        return list(dict.fromkeys([*ids, *self.columns, *self.labels])), (*self.text, *ids)

    def _split(self, table: Any, origin: Origin) -> Rows:
        origin, coded = origin.of_table(self.table), not hasattr(table, "iloc")
        if self.id is None:  # rows are numbered over the file
            first, pandas = origin.first_row, load_extra("pandas")
            index = pandas.RangeIndex(first, first + len(table))
            if origin.pieces:
                index = pandas.Index(origin.numbers(len(table)))
        else:
            ids = arrow_frame(table.select([self.id])) if coded else table[[self.id]]
            index = set_ids(ids, self.id, origin).index

        def part(columns: list[str], word: str = "column") -> Batch:
            if coded:
                return ArrowBatch(table.select(columns), index, origin, word)
            return Batch(table[columns].set_axis(index, axis=0), origin, word)

        return part(self.columns), part(self.labels, "label") if self.labels else None


# Collections of dask.


def _open_dask(
    name: str, X: Any, y: Any, origin: Origin, label_where: str, labelled: bool
) -> ChunkedTable:
    tokenize = load_extra("dask.base").tokenize
    names = _names(y) if labelled else None
    if names is not None and hasattr(X, "columns"):
        _check_names(names, list(X.columns), str(origin))
        X, y = X[[column for column in X.columns if column not in names]], X[names]
    parts, lengths, meta = _dask_parts(X, str(origin))
    check_not_empty(batch := Batch(meta, origin), lazy=True)
    read, facts = _DaskReader(origin.table, labelled), [tokenize(X)]
    if not labelled:
        return ChunkedTable(name, batch, None, read, [(p,) for p in parts], lengths, facts, X)
    label_parts, label_meta, y = _label_parts(y, parts, lengths, label_where)
    labels, one_column = label_batch(label_meta, label_where)
    pairs, facts = _in_one_task(list(zip(parts, label_parts, strict=True))), [*facts, tokenize(y)]
    return ChunkedTable(name, batch, labels, read, pairs, lengths, facts, X, y, one_column)


def _dask_parts(X: Any, where: str) -> tuple[list[Any], list[int] | None, Any]:
    """Partitions as Delayed objects, their lengths if known, and the table without rows."""
    if hasattr(type(X), "divisions"):
        pandas = load_extra("pandas")
        if X.ndim == 1:
            return X.to_delayed(), None, pandas.Series([], dtype=X.dtype, name=X.name)
        empty = {j: pandas.Series([], dtype=dtype) for j, dtype in enumerate(X.dtypes)}
        meta = pandas.DataFrame(empty).set_axis(X.columns, axis=1)  # may have a name twice
        return X.to_delayed(), None, meta
    if not hasattr(type(X), "chunks"):
        raise TypeError(
            f"{where}: {type(X).__name__} of dask is not a table; give a dask.dataframe, for "
            "example with dask.dataframe.from_delayed or Bag.to_dataframe, or a dask.array."
        )
    if X.ndim == 2 and np.isnan(X.shape[1]):
        raise ValueError(
            f"{where}: a dask.array with an unknown number of columns; call "
            "array.compute_chunk_sizes() first, or make it from blocks whose shape is known."
        )
    whole = X if X.ndim == 1 else X.rechunk({1: -1})
    known = not np.isnan(X.chunks[0]).any()
    lengths = [int(n) for n in X.chunks[0]] if known else None
    return whole.to_delayed().ravel().tolist(), lengths, np.empty((0, *X.shape[1:]), dtype=X.dtype)


def _label_parts(
    y: Any, parts: list[Any], lengths: list[int] | None, where: str
) -> tuple[list[Any], Any, Any]:
    """Labels in parts of the same rows as those of the table, without rows, and all of them."""
    if is_dask(y):
        label_parts, _, meta = _dask_parts(y, where)
        if len(parts) != len(label_parts):
            raise ValueError(
                f"{where}: {len(parts)} partitions of features but {len(label_parts)} of labels; "
                f"{_SAME_PARTS}"
            )
        return label_parts, meta, y
    # Labels in memory are divided as the table is.
    batch, one_column = label_batch(y, where)
    dask = load_extra("dask")
    if lengths is None:
        lengths = list(dask.compute(*[dask.delayed(len)(part) for part in parts]))
    if sum(lengths) != len(batch):
        raise ValueError(
            f"{where}: {sum(lengths)} rows of features but {len(batch)} rows of labels "
            "(inconsistent numbers of samples)."
        )
    table = batch.data if batch.frame is None else batch.frame.to_pandas()
    rows = table.iloc if hasattr(table, "iloc") else table
    ends = np.cumsum([0, *lengths]).tolist()
    pieces = [rows[start:end] for start, end in pairwise(ends)]
    delayed = [dask.delayed(piece, traverse=False) for piece in pieces]
    return delayed, rows[0:0, 0] if one_column else rows[0:0], table


def _in_one_task(pairs: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Functions that compute features and labels of a partition, for the task that reads them.

    A cluster may else compute them on different workers, and send one to the other. Pairs that need
    futures, or results of the same tasks, stay as they are.
    """
    get, cull = load_extra("dask").get, load_extra("dask.optimization").cull
    graphs = {id(each.dask): each.dask for pair in pairs for each in pair}
    tasks = {key: task for graph in graphs.values() for key, task in dict(graph).items()}
    keys = [[each.key for each in pair] for pair in pairs]
    own = [cull(tasks, of_pair)[0] for of_pair in keys]
    n_uses = Counter(key for graph in own for key in graph)
    futures = any(type(task).__module__.startswith("distributed") for task in tasks.values())
    if futures or max(n_uses.values(), default=1) > 1:
        return pairs
    return [(partial(get, graph, of_pair),) for graph, of_pair in zip(own, keys, strict=True)]


@dataclass(frozen=True)
class _DaskReader:
    """Reader of partitions: each is one batch."""

    table: str
    labelled: bool

    def __call__(self, i: int, part: Any, labels: Any = None) -> Iterator[Rows]:
        keep_memory()
        origin = Origin(self.table, f"partition {i}")
        if isinstance(part, partial):
            part, labels = part()
        features = Batch(part, origin)
        if not self.labelled:
            yield features, None
            return
        batch, _ = label_batch(labels, origin)
        if len(features) != len(batch):
            raise ValueError(
                f"{origin}: {len(features)} rows of features but {len(batch)} rows of labels; "
                f"{_SAME_PARTS}"
            )
        yield features, batch


# Ids of rows, as text with all digits, the same for all file formats.

# A whole number with one decimal: text files have 7.0 or 7,0 where others have the number 7.
_WHOLE = re.compile(r"-?(0|[1-9]\d*)[.,]0")


def set_ids(frame: Any, id_column: str, origin: Origin, *, unique: bool = False) -> Any:
    """A pandas table with ids, as text, as its index; refuses missing ids, or also equal ones."""
    ids, seen = [id_text(cell) for cell in frame[id_column].tolist()], dict[str, int]()
    for row, text in enumerate(ids):
        place = origin.place(row, f"column {id_column!r}") if text is None or text in seen else ""
        if text is None:
            raise ReadError(f"{place}: an id is missing; fill it in, or leave the id column out.")
        if unique and text in seen:
            raise ReadError(
                f"{place}: id {quote(text)} is already that of row {seen[text]}; the labels of an "
                "id must be in one row: remove one, or put the labels into the table."
            )
        seen[text] = row
    rest = frame.drop(columns=id_column)
    rest.index = load_extra("pandas").Index(ids, name=id_column, dtype=object)
    return rest


def id_text(cell: Any) -> str | None:
    """An id as text; None if it is missing."""
    if is_missing(cell):
        return None
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = (format(cell, "f") if isinstance(cell, Decimal) else str(cell)).strip()
    return (text[:-2] if _WHOLE.fullmatch(text) else text) or None
