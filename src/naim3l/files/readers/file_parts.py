"""Sources of tables that are read in parts, one interface for all formats.

An opened table has ``lengths`` (rows of each part), ``head``, which reads its first rows as
`naim3l.files.readers.read_table` does, ``frames``, which are the parts as Delayed data frames,
``places``, which name them in errors, and ``facts``, which identify its files.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from naim3l.files.readers.columnar import clean_names
from naim3l.files.readers.csv_parts import TextFiles, TextPart, plan_text
from naim3l.files.readers.errors import UNNAMED, ReadError, mark_origin
from naim3l.files.readers.folders import PARQUET, file_format, find_files, is_folder
from naim3l.files.readers.ids import set_ids
from naim3l.files.readers.table import check_file, name_columns, read_table
from naim3l.files.sources import URL, show_source
from naim3l.input.parquet_parts import ParquetSource, open_parquet
from naim3l.input.passes import load_dask, map_parts
from naim3l.input.places import Place

# Rows by which roles and kinds of columns, and the layout of text files, are found.
HEAD_ROWS = 10_000
# Size of a part of text files, which takes some times as much in memory.
TEXT_BYTES = 16 * 2**20


def open_parts(source: str, where: str, part_bytes: int | None = None) -> Any:
    """A table of which only the first rows and the numbers of rows have been read.

    Parameters
    ----------
    source : str
        A folder or a pattern of Parquet or text files, or a source as `read_table` takes it: one
        Parquet or text file is read in parts, others are one part.
    where : str
        Name of the table in errors.
    part_bytes : int, optional
        Size of a part in memory, about.
    """
    if not is_folder(source):
        path = Path(source)
        if URL.match(source) or file_format(path) is None:
            return OneTable(source)
        check_file(path)
        files = [path]
    else:
        files = find_files(source)
    if file_format(files[0]) == PARQUET:
        return ParquetTable.open(source, files, where, part_bytes)
    # Numbers in text take about half as many bytes as in memory, in which several copies are made.
    size = TEXT_BYTES if part_bytes is None else max(part_bytes // 4, 2**16)
    return TextTable(files, plan_text(files, size, HEAD_ROWS))


@dataclass(frozen=True)
class TextTable:
    """Text files with the same columns."""

    paths: list[Path]
    files: TextFiles
    located = True  # errors of its frames name the file and the row

    @property
    def lengths(self) -> list[int]:
        return [part.n_rows for part in self.files.parts]

    def head(self, *, id_column: str | None = None, text_columns: Collection[str] = ()) -> Any:
        return read_table(
            self.paths[0], id_column=id_column, text_columns=text_columns, n_rows=HEAD_ROWS
        )

    def frames(self, where: str, columns: Sequence[str], text: Collection[str]) -> list[Any]:
        task = _ReadText(replace(self.files, parts=()), list(columns), frozenset(text))
        return map_parts(task, [(part,) for part in self.files.parts], title="read-text")

    def places(self, where: str) -> list[Place]:
        return [Place(where, ((part.path.name, part.first_row, part.n_rows),))
                for part in self.files.parts]  # fmt: skip

    def facts(self) -> list[Any]:
        return [_facts(path) for path in self.paths] + [self.lengths]


@dataclass(frozen=True)
class _ReadText:
    """Task that reads a part of text files."""

    files: TextFiles
    columns: list[str]
    text: frozenset[str]

    def __call__(self, i: int, part: TextPart) -> Any:
        return self.files.read(part, self.columns, self.text)


@dataclass(frozen=True)
class ParquetTable:
    """Parquet files with the same columns.

    Columns that pandas stored as an index are columns like others, as in a single file.
    """

    paths: list[Path]
    source: ParquetSource
    located = False

    @classmethod
    def open(
        cls, source: str, paths: list[Path], where: str, part_bytes: int | None
    ) -> "ParquetTable":
        opened = open_parquet(source, where, part_bytes=part_bytes)
        schema = opened.schema
        for stored in opened.index:
            schema = schema.append(stored)
        return cls(paths, replace(opened, schema=schema, index=()))

    @property
    def lengths(self) -> list[int]:
        return list(self.source.lengths)

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns as `read_table` has them."""
        return [name or f"{UNNAMED}{j + 1}"
                for j, name in enumerate(clean_names(self.source.schema.names))]  # fmt: skip

    def head(self, *, id_column: str | None = None, text_columns: Collection[str] = ()) -> Any:
        n_rows = sum(self.lengths)
        n_head = min(n_rows, HEAD_ROWS)
        first = self.source.sliced([n_head, n_rows - n_head] if n_head < n_rows else [n_rows])
        frame = first.parts("the table", None)[0].compute(scheduler="synchronous")
        frame.columns = clean_names(self.source.schema.names)
        frame = name_columns(mark_origin(frame, str(self.paths[0])))
        return frame if id_column is None else set_ids(frame, id_column)

    def frames(self, where: str, columns: Sequence[str], text: Collection[str]) -> list[Any]:
        positions = [self.names.index(name) for name in columns]
        parts = self.source.parts(where, positions)
        return map_parts(_Named(list(columns), where), [(part,) for part in parts], title="name")

    def places(self, where: str) -> list[Place]:
        return self.source.places(where)

    def facts(self) -> list[Any]:
        return [_facts(path) for path in self.paths] + [self.lengths]


@dataclass(frozen=True)
class _Named:
    """Task that gives a table from Parquet files the names of its columns."""

    columns: list[str]
    where: str

    def __call__(self, i: int, frame: Any) -> Any:
        frame = frame.set_axis(self.columns, axis=1)
        return mark_origin(frame, self.where)  # the place of the part has the names of files


@dataclass(frozen=True)
class OneTable:
    """A table of another format, or of a database, which is one part and stays in memory."""

    source: str
    located = True
    _read: dict[frozenset[str], Any] = field(default_factory=dict)

    @property
    def lengths(self) -> list[int]:
        return [len(self._table(()))]

    def _table(self, text: Collection[str]) -> Any:
        key = frozenset(text)
        if key not in self._read:
            self._read[key] = read_table(self.source, text_columns=text)
        return self._read[key]

    def head(self, *, id_column: str | None = None, text_columns: Collection[str] = ()) -> Any:
        table = self._table(text_columns)
        return table if id_column is None else set_ids(table, id_column)

    def frames(self, where: str, columns: Sequence[str], text: Collection[str]) -> list[Any]:
        table = self._table(text)[list(columns)]
        return [load_dask("dask.delayed").delayed(table, traverse=False)]

    def places(self, where: str) -> list[Place]:
        return [Place(where, ((show_source(self.source), 0, self.lengths[0]),))]

    def facts(self) -> list[Any]:
        return [load_dask("dask.base").tokenize(self._table(()))]


def _facts(path: Path) -> list[Any]:
    """Identity of a file: its path, size and time of change."""
    try:
        stat = path.stat()
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror}).") from error
    return [str(path), stat.st_size, stat.st_mtime_ns]
