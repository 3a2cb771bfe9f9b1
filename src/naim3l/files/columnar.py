"""Tables in Parquet files, row group by row group, and in Arrow files."""

import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from naim3l._origin import Origin
from naim3l._text import quote
from naim3l.files.errors import ReadError, check_same_columns, load_extra, name_columns

PARQUET_EXTENSIONS = (".parquet", ".parq", ".pq")
ARROW_EXTENSIONS = (".arrow", ".feather", ".ipc")
_BUFFER_BYTES = 2**18  # read at once of each column; without a limit it is the whole row group
_AT_ONCE = 16  # files whose metadata are read at a time
_UNNAMED_INDEX = "__index_level_"  # how pandas stores an index without a name


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file."""

    fragment: Any  # ParquetFileFragment, without its metadata
    number: int
    n_rows: int
    first_row: int  # in the file
    path: str  # in errors
    name: str  # in `Origin.source`
    columns: dict[str, Any]  # fields of pyarrow, with types that hold the values of all files

    def batches(
        self, columns: Sequence[str], text_columns: Collection[str], batch_rows: int | None
    ) -> Iterator[tuple[Any, Origin]]:
        """Batches of at most ``batch_rows`` rows; the row group is decoded once for all of them."""
        for table, origin in self._tables(columns, text_columns, batch_rows, coded=False):
            yield arrow_frame(table), origin

    def coded(
        self, columns: Sequence[str], text_columns: Collection[str], batch_rows: int | None
    ) -> Iterator[tuple[Any, Origin]]:
        """The same, as tables of Arrow in which text has codes, as it mostly has in files.

        They are tables of pandas if a column has another type than numbers, dates or text.
        """
        if not all(_is_plain(self.columns[name].type) for name in columns):
            return self.batches(columns, text_columns, batch_rows)
        return self._tables(columns, text_columns, batch_rows, coded=True)

    def _tables(
        self,
        columns: Sequence[str],
        text_columns: Collection[str],
        batch_rows: int | None,
        *,
        coded: bool,
    ) -> Iterator[tuple[Any, Origin]]:
        pyarrow, parquet = load_extra("pyarrow"), load_extra("pyarrow.parquet")
        fields = {name: self.columns[name] for name in columns}
        keys, first_row = _folder_columns(self.fragment), self.first_row
        stored = [field.name for field in fields.values() if field.name not in keys]
        text = [f.name for f in fields.values() if coded and f.type == pyarrow.string()]
        with parquet.ParquetFile(
            self.fragment.open(), buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=text
        ) as file:
            found = file.iter_batches(
                batch_rows or self.n_rows,
                row_groups=[self.number],
                columns=stored,
                use_threads=batch_rows is None,  # parts are read side by side in batches
            )
            for batches in [list(found)] if batch_rows is None else ([batch] for batch in found):
                table = pyarrow.Table.from_batches(batches)
                table.validate(full=True)  # later code does not check for damage
                cells = {
                    name: pyarrow.repeat(pyarrow.scalar(keys[f.name], f.type), len(table))
                    if f.name in keys
                    else _tamed(_cast(table[f.name], f, self.path, coded), name in text_columns)
                    for name, f in fields.items()
                }
                yield pyarrow.table(cells), Origin("", self.name, first_row)
                first_row += len(table)


@cache
def _is_plain(kind: Any) -> bool:
    """Whether a type is one of numbers, truth values, dates or text."""
    types = load_extra("pyarrow").types
    kinds = types.is_integer, types.is_floating, types.is_boolean, types.is_date
    return any(is_kind(kind) for is_kind in (*kinds, types.is_timestamp, types.is_string))


@dataclass(frozen=True)
class Stream:
    """Rows of an Arrow stream, which is opened again for each pass."""

    source: Any  # as for `is_stream`
    name: str
    fields: dict[str, str]  # names of the columns, and those in the stream
    opened: list[Any]  # what a function has given last

    @classmethod
    def of(cls, source: Any) -> "Stream":
        """A stream of which only the types are read."""
        stream = cls(source, "Arrow stream", {}, [])
        with stream._open() as reader:
            names = reader.schema.names
        positions = name_columns(_clean(names), stream.name)
        stream.fields.update({name: names[j] for name, j in positions.items()})
        return stream

    def _open(self) -> Any:
        given = self.source if hasattr(self.source, "__arrow_c_stream__") else self.source()
        if not hasattr(given, "__arrow_c_stream__"):
            found = f"{self.name}: the function gives a {type(given).__name__}"
            raise ReadError(f"{found}, which has no Arrow data; {_AGAIN}")
        if given is self.source or any(given is last for last in self.opened):
            _refuse_used(given)
        self.opened[:] = [given]
        return load_extra("pyarrow").RecordBatchReader.from_stream(given)

    def batches(
        self, columns: Sequence[str], text_columns: Collection[str], batch_rows: int | None
    ) -> Iterator[tuple[Any, Origin]]:
        """Batches of at most ``batch_rows`` rows; smaller ones of the stream are joined."""
        pyarrow, first_row = load_extra("pyarrow"), 0
        with self._open() as reader:
            tables = _regrouped(reader, batch_rows)
            while (table := self._next(tables)) is not None:
                table.validate(full=True)  # later code does not check for damage
                cells = {n: _tamed(table[self.fields[n]], n in text_columns) for n in columns}
                yield arrow_frame(pyarrow.table(cells)), Origin("", self.name, first_row)
                first_row += len(table)

    def _next(self, tables: Iterator[Any]) -> Any:
        try:
            return next(tables, None)
        except Exception as error:  # each database has its own
            raise ReadError(f"{self.name}: {type(error).__name__}: {error}") from error


_AGAIN = (
    "give a function that opens the data again for each pass, such as lambda: "
    "connection.sql(query), or a dataset of Parquet files."
)


def is_stream(source: Any) -> bool:
    """Whether it is a function that opens Arrow data, or an object that gives them by itself.

    Data frames, which also give them, are tables in memory.
    """
    if isinstance(source, FunctionType | MethodType | partial):
        return True
    root = type(source).__module__.partition(".")[0]
    in_memory = root in ("pandas", "polars", "modin", "cudf", "narwhals")
    in_memory |= root == "pyarrow" and not hasattr(source, "read_next_batch")
    return hasattr(type(source), "__arrow_c_stream__") and not in_memory


def _refuse_used(stream: Any) -> None:
    """Refuse a stream that can be read once only, as a fit reads a table several times."""
    if hasattr(stream, "__next__") or hasattr(stream, "read_next_batch"):
        raise ReadError(f"a {type(stream).__name__} can be read once only; {_AGAIN}")


def _regrouped(reader: Any, n_rows: int | None) -> Iterator[Any]:
    """Tables of so many rows, but the last, of the batches of a reader; without it, one table."""
    pyarrow = load_extra("pyarrow")
    if n_rows is None:
        yield reader.read_all()
        return
    waiting, n_waiting = list[Any](), 0
    for batch in reader:
        while n_waiting + len(batch) >= n_rows:
            head, batch = batch[: n_rows - n_waiting], batch[n_rows - n_waiting :]
            yield pyarrow.Table.from_batches([*waiting, head])
            waiting, n_waiting = [], 0
        if len(batch):
            waiting.append(batch)
            n_waiting += len(batch)
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def is_dataset(source: Any) -> bool:
    """Whether it is a dataset of pyarrow."""
    return type(source).__module__.startswith("pyarrow.") and hasattr(source, "get_fragments")


def parquet_dataset(files: Sequence[Any], base: str | None) -> Any:
    """Dataset of pyarrow; folders below ``base``, such as "year=2024", are columns.

    All files are paths, or a `StoreFile` each.
    """
    options: dict[str, Any] = {}
    if base is not None:
        options = {"partitioning": "hive", "partition_base_dir": base}
    if (filesystem := getattr(files[0], "filesystem", None)) is not None:
        options["filesystem"] = filesystem
    paths = [str(path) if filesystem else os.path.abspath(path) for path in files]
    try:
        return load_extra("pyarrow.dataset").dataset(paths, format="parquet", **options)
    except (ValueError, OSError, load_extra("pyarrow").ArrowException) as error:
        advice = "; a column of a file cannot be in the name of its folder, too" if base else ""
        raise ReadError(f"{files[0]}: not readable as Parquet ({error}){advice}.") from None


def parquet_files(dataset: Any) -> list[Any]:
    """Files of a dataset as fragments; refuses filters, and files that are not Parquet."""
    advice = "read it with dask.dataframe.read_parquet(path, filters=...) instead."
    if getattr(dataset, "_scan_options", None):
        raise ReadError(f"a dataset of pyarrow with a filter; {advice}")
    fragments = list(dataset.get_fragments())
    if not fragments or not all(hasattr(type(each), "row_groups") for each in fragments):
        raise ReadError("a dataset of pyarrow that does not consist of Parquet files; write some.")
    return fragments


def row_groups(
    fragments: Sequence[Any], schema: Any, paths: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[int, RowGroup]]:
    """Row groups that have rows, each with the position of its file; only metadata are read.

    The schema has columns from names of folders, too; ``paths`` are shown in errors, and ``names``
    are those of `Origin.source`.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # stores answer late
        read = [pool.submit(fragment.ensure_complete_metadata) for fragment in fragments]
        for future, path in zip(read, paths, strict=True):
            try:
                future.result()
            except (ValueError, OSError) as error:
                pool.shutdown(cancel_futures=True)
                raise ReadError(f"{path}: not a readable Parquet file ({error}).") from None
    fields = _common_fields(fragments, schema, paths)
    positions = name_columns(_clean([field.name for field in fields]), paths[0])
    columns = {name: fields[j] for name, j in positions.items()}
    for k, fragment in enumerate(fragments):
        first_row = 0
        # Without the metadata that are read here, which have some 60 kB for every row group.
        bare = fragment.format.make_fragment(
            fragment.path, fragment.filesystem, fragment.partition_expression
        )
        for group in fragment.row_groups:
            n_rows = group.num_rows
            if n_rows:
                yield k, RowGroup(bare, group.id, n_rows, first_row, paths[k], names[k], columns)
            first_row += n_rows


def read_arrow(path: Path, name: str | None) -> tuple[Any, Origin]:
    """Table of an Arrow file, of Feather from version 2 on, or of an Arrow stream."""
    pyarrow = load_extra("pyarrow")
    with path.open("rb") as start:
        magic = start.read(6)
    if magic.startswith(b"FEA1"):
        # pyarrow no longer maintains this format, and damaged files can crash the process.
        raise ReadError(f"{path}: Feather of version 1; write it again as Parquet or version 2.")
    with pyarrow.OSFile(str(path), "rb") as file:
        ipc = pyarrow.ipc
        with ipc.open_file(file) if magic == b"ARROW1" else ipc.open_stream(file) as stored:
            table = stored.read_all()
    table.validate(full=True)  # later code does not check for damage
    return arrow_frame(table), Origin("", str(path))


def _folder_columns(fragment: Any) -> dict[str, Any]:
    """Columns in the names of the folders of a file, and their values."""
    dataset = load_extra("pyarrow.dataset")
    return dict(dataset.get_partition_keys(fragment.partition_expression))


def _common_fields(fragments: Sequence[Any], schema: Any, paths: Sequence[str]) -> list[Any]:
    """Columns that all files have, with types that hold the values of all of them."""
    pyarrow = load_extra("pyarrow")
    first = common = fragments[0].physical_schema
    added = [field for field in schema if field.name not in first.names]
    for fragment, path in zip(fragments, paths, strict=True):
        given = fragment.physical_schema
        name_columns(given.names, path)  # refuses doubled names
        check_same_columns(first.names, given.names, paths[0], path)
        if lacking := {field.name for field in added} - set(_folder_columns(fragment)):
            folder = f"'{min(lacking)}=...'"
            raise ReadError(f"{path}: not in a folder such as {folder}, as the others are.")
        try:
            common = pyarrow.unify_schemas([common, given], promote_options="permissive")
        except pyarrow.ArrowException as error:
            fault = f"it does not fit to the files before it ({error})"
            raise ReadError(f"{path}: {fault}; write all with the same types.") from None
    return [*common, *added]


def _cast(column: Any, field: Any, path: str, coded: bool) -> Any:
    """A column with the type that holds the values of all files, if it holds them exactly.

    Text may have codes if it may be ``coded``.
    """
    if field.type in (column.type, getattr(column.type, "value_type", None) if coded else None):
        return column
    try:
        return column.cast(field.type)
    except load_extra("pyarrow").ArrowException as error:
        fault = f"it is {column.type}, but {field.type} in other files ({error})"
        where = f"{path}, column {quote(field.name)}"
        raise ReadError(f"{where}: {fault}; write all with the same types.") from None


def arrow_frame(table: Any) -> Any:
    """Table of pandas, in which dates and truth values are no Python objects."""
    pyarrow, names = load_extra("pyarrow"), _clean(table.column_names)
    columns = [_tamed(column) for column in table.columns]
    # Without the metadata of pandas, which would turn columns into an index.
    plain, truth = pyarrow.table(columns, names=table.column_names), pyarrow.bool_()
    frame = plain.to_pandas(
        date_as_object=False,
        split_blocks=True,  # columns without gaps are not copied
        types_mapper={truth: load_extra("pandas").BooleanDtype()}.get,
    )
    frame.columns = names
    return frame


def _clean(names: Sequence[str]) -> list[str]:
    """Names of columns without spaces around them; "" for an index that pandas stored."""
    return ["" if name.startswith(_UNNAMED_INDEX) else name.strip() for name in names]


def _tamed(column: Any, as_text: bool = False) -> Any:
    """A column in a type that can be converted for all values of its cells."""
    kind = _tame(column.type, as_text)
    if kind is None:
        return load_extra("pyarrow").array(column.to_pylist())
    return column if kind == column.type else column.cast(kind)


@cache
def _tame(kind: Any, as_text: bool) -> Any:
    """The type to which a column is converted; None if that depends on its cells."""
    pyarrow = load_extra("pyarrow")
    types = pyarrow.types
    if types.is_date(kind) and as_text:
        return pyarrow.string()
    if types.is_timestamp(kind) and kind.tz is not None:
        # With a time zone, pandas fails on dates beyond the year 9999.
        return pyarrow.timestamp(kind.unit)
    of_cells = kind.value_type if types.is_dictionary(kind) else kind
    is_safe = (types.is_primitive, types.is_string, types.is_large_string, types.is_decimal)
    # Views and nested types have references, which are not validated in missing cells, but which
    # conversions of pyarrow follow.
    return kind if any(f(of_cells) for f in is_safe) else None
