"""Parquet files as the parts of a table: row groups, which are joined or split.

Only the metadata of the files are read here; rows are read when a task needs them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from naim3l.input.parquet_files import file_facts, find_parquet, typed_by
from naim3l.input.passes import load_dask, map_parts
from naim3l.input.places import Place

PART_BYTES = 32 * 2**20  # small row groups are joined up to this size in memory
# Row groups are split only above this size, as each slice decodes the rows before it, too.
MOST_BYTES = 64 * 2**20
_BUFFER_BYTES = 2**18  # read at once of each column; without a limit it is the whole row group
_BATCH_ROWS = 16_384  # rows of a slice that are decoded at once
_UNNAMED_INDEX = "__index_level_"  # how pandas stores an index without a name


class RowGroup(NamedTuple):
    """A row group of a file, or some of its rows."""

    fragment: Any  # of pyarrow: the file
    number: int
    file: str  # name in errors
    facts: tuple[int, int] | None  # of the file when it was opened
    first_row: int  # in the file
    skipped: int  # rows of the row group before the first one
    n_rows: int
    n_group_rows: int
    n_bytes: int  # of the group, before compression


@dataclass(frozen=True)
class ParquetSource:
    """Files with the same columns, and the rows of each part.

    Attributes
    ----------
    groups : tuple of RowGroup
        All rows, in the order of the files.
    schema : pyarrow.Schema
        Of the columns, without those that pandas stored as an index.
    index : tuple of pyarrow.Field
        Columns that are the index of the rows; if there is none, rows are counted over all files.
    lengths : tuple of int
        Number of rows of each part.
    """

    groups: tuple[RowGroup, ...]
    schema: Any
    index: tuple[Any, ...]
    lengths: tuple[int, ...]

    @property
    def meta(self) -> Any:
        """Data frame without rows, of all columns."""
        return self.schema.empty_table().to_pandas()

    @cached_property
    def pieces(self) -> list[list[RowGroup]]:
        """Rows of each part."""
        rest, parts = list(reversed(self.groups)), []
        for n_rows in self.lengths:
            part: list[RowGroup] = []
            while n_rows > 0:
                group = rest.pop()
                taken = min(n_rows, group.n_rows)
                part.append(group._replace(n_rows=taken))
                if taken < group.n_rows:
                    rest.append(_after(group, taken))
                n_rows -= taken
            parts.append(part)
        return parts

    @property
    def divisions(self) -> tuple[int, ...] | None:
        """Bounds of the index of each part, as dask has them; None if files have an index."""
        if self.index or 0 in self.lengths:
            return None
        starts = self._starts()
        return (*starts, starts[-1] + self.lengths[-1] - 1)

    def places(self, where: str) -> list[Place]:
        return [
            Place(where, tuple((piece.file, piece.first_row, piece.n_rows) for piece in part))
            if part else Place(where, (("no rows", 0, 0),))
            for part in self.pieces
        ]  # fmt: skip

    def parts(self, where: str, positions: Sequence[int] | None) -> list[Any]:
        """Delayed data frames of the columns at ``positions``, or of all."""
        chosen = range(len(self.schema)) if positions is None else positions
        task = _Reading(tuple(self.schema.field(j) for j in chosen), self.index)
        inputs = list(zip(self._starts(), self.pieces, strict=True))
        at = [[place] for place in self.places(where)]
        return map_parts(task, inputs, title="read-parquet", places=at)

    def sliced(self, lengths: Sequence[int]) -> "ParquetSource":
        """The same rows, in parts of other lengths."""
        return replace(self, lengths=tuple(lengths))

    def token(self) -> str:
        """Identity of the files, by their names, sizes and times of change."""
        facts = list(dict.fromkeys((group.fragment.path, group.facts) for group in self.groups))
        return load_dask("dask.base").tokenize(facts, self.lengths)

    def _starts(self) -> list[int]:
        ends = [0]
        for n_rows in self.lengths:
            ends.append(ends[-1] + n_rows)
        return ends[:-1]


def open_parquet(
    X: Any, where: str, part_rows: int | None = None, part_bytes: int | None = None
) -> ParquetSource:
    """The files of a path, folder, pattern or dataset of pyarrow, whose metadata are read.

    Parameters
    ----------
    X : str, path, list of these, or pyarrow.dataset.Dataset
        A file, a folder of files, a pattern such as ``"rows/*.parquet"``, or an address that
        pyarrow can open, such as ``"s3://bucket/rows"``.
    where : str
        Name of the table in errors.
    part_rows : int, optional
        Largest number of rows of a part; chosen by size if it is not given.
    part_bytes : int, optional
        Largest size of a part in memory, about; by default, row groups of up to four times
        `PART_BYTES` are not divided.
    """
    fragments, names, facts, schema = find_parquet(X, where)
    stored = (fragments[0].physical_schema.pandas_metadata or {}).get("index_columns", [])
    index = tuple(schema.field(name) for name in stored if name in schema.names)
    for field in index:
        schema = schema.remove(schema.get_field_index(field.name))
    groups = tuple(_row_groups(fragments, names, facts))
    if not groups:
        raise ValueError(f"{where}: its Parquet files have no rows.")
    return ParquetSource(groups, schema, index, tuple(_plan(groups, schema, part_rows, part_bytes)))


def _row_groups(
    fragments: Sequence[Any], names: Sequence[str], facts: Sequence[Any]
) -> Iterator[RowGroup]:
    for fragment, name, of_file in zip(fragments, names, facts, strict=True):
        first_row = 0
        # Without the metadata that are read here, which have some 60 kB for every row group.
        bare = fragment.format.make_fragment(
            fragment.path, fragment.filesystem, fragment.partition_expression
        )
        for group in fragment.row_groups:
            n_rows = group.num_rows
            if n_rows:
                yield RowGroup(bare, group.id, name, of_file, first_row, 0, n_rows,
                               n_rows, group.total_byte_size)  # fmt: skip
            first_row += n_rows


def _plan(
    groups: Sequence[RowGroup], schema: Any, part_rows: int | None, part_bytes: int | None
) -> Iterator[int]:
    """Number of rows of each part."""
    joined = 0
    for group in groups:
        # Dictionaries and runs of equal values are larger in memory than in files.
        row_bytes = max(group.n_bytes / group.n_rows, 8.0 * len(schema))
        most = part_rows or max(int((part_bytes or MOST_BYTES) / row_bytes), 1)
        target = part_rows or max(int((part_bytes or PART_BYTES) / row_bytes), 1)
        if joined and joined + group.n_rows > target:
            yield joined
            joined = 0
        if group.n_rows <= most:
            joined += group.n_rows
            continue
        n_slices = -(-group.n_rows // most)
        bounds = [group.n_rows * k // n_slices for k in range(n_slices + 1)]
        yield from (end - start for start, end in pairwise(bounds))
    if joined:
        yield joined


@dataclass(frozen=True)
class _Reading:
    """Task that reads the rows of a part."""

    fields: tuple[Any, ...]
    index: tuple[Any, ...]

    def __call__(self, i: int, start: int, pieces: Sequence[RowGroup]) -> Any:
        """Data frame of the rows, which are counted from ``start`` if they have no index."""
        pyarrow, pandas = load_dask("pyarrow"), load_dask("pandas")
        fields = (*self.fields, *self.index)
        tables = [_read(piece, fields) for piece in pieces]
        table = pyarrow.concat_tables(tables or [pyarrow.schema(fields).empty_table()])
        table.validate(full=True)  # later code does not check for damage
        columns = table.select(range(len(self.fields)))
        frame = columns.replace_schema_metadata(None).to_pandas()
        if not self.index:
            frame.index = pandas.RangeIndex(start, start + len(frame))
            return frame
        stored = table.select(range(len(self.fields), len(fields))).to_pandas()
        names = [None if f.name.startswith(_UNNAMED_INDEX) else f.name for f in self.index]
        stored.columns = names
        frame.index = pandas.MultiIndex.from_frame(stored) if len(names) > 1 else pandas.Index(
            stored.iloc[:, 0], name=names[0])  # fmt: skip
        return frame


def _read(piece: RowGroup, fields: Sequence[Any]) -> Any:
    """Rows of one row group, with the types of ``fields``."""
    pyarrow = load_dask("pyarrow")
    keys = load_dask("pyarrow.dataset").get_partition_keys(piece.fragment.partition_expression)
    stored = [field.name for field in fields if field.name not in keys]
    try:
        table = _read_columns(piece, stored)
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        _check_unchanged(piece)  # that may be why
        raise ValueError(f"{piece.file} cannot be read ({error}).") from error
    _check_unchanged(piece, table)
    columns = [
        pyarrow.repeat(pyarrow.scalar(keys[f.name], f.type), piece.n_rows)
        if f.name in keys else _cast(table[f.name], f, piece.file)
        for f in fields
    ]  # fmt: skip
    return pyarrow.table(columns, schema=pyarrow.schema(fields))


def _read_columns(piece: RowGroup, columns: list[str]) -> Any:
    """Rows of one row group, as they are stored."""
    with load_dask("pyarrow.parquet").ParquetFile(
        piece.fragment.open(), buffer_size=_BUFFER_BYTES, pre_buffer=False
    ) as file:
        if piece.n_rows == piece.n_group_rows:
            return file.read_row_group(piece.number, columns=columns, use_threads=False)
        return _slice(file, piece, columns)


def _check_unchanged(piece: RowGroup, table: Any = None) -> None:
    """Refuse a file that was written again after it was opened; ``table`` was read from it.

    The check after reading also finds changes before it.
    """
    now = file_facts(piece.fragment)
    other_rows = table is not None and table.num_rows != piece.n_rows
    if other_rows or (now is not None and now != piece.facts):
        raise ValueError(f"{piece.file} has changed since it was opened; start again.")


def _cast(column: Any, field: Any, file: str) -> Any:
    """A column with the type that holds the values of all files, if it holds them exactly."""
    try:
        return column.cast(field.type)
    except load_dask("pyarrow").ArrowException as error:
        raise ValueError(
            f"{file}, column {field.name!r}: it is {column.type}, but {field.type} in "
            f"{typed_by(field)} ({error}); write all files with the same types."
        ) from None


def _slice(file: Any, piece: RowGroup, columns: list[str]) -> Any:
    """Some rows of a row group; batch by batch, so that the others are not kept in memory."""
    batches, skipped, n_left = [], piece.skipped, piece.n_rows
    for batch in file.iter_batches(
        _BATCH_ROWS, row_groups=[piece.number], columns=columns, use_threads=False
    ):
        kept = batch.slice(skipped, n_left)
        skipped = max(skipped - batch.num_rows, 0)
        n_left -= kept.num_rows
        if kept.num_rows:  # a slice without rows would keep the batch in memory
            batches.append(kept)
        if not n_left:
            break
    return load_dask("pyarrow").Table.from_batches(batches)


def _after(group: RowGroup, n_rows: int) -> RowGroup:
    """The rows of a group after the first ``n_rows``."""
    return group._replace(
        first_row=group.first_row + n_rows,
        skipped=group.skipped + n_rows,
        n_rows=group.n_rows - n_rows,
    )
