"""Tables in files and databases, opened by one function whatever their format.

The parts of a table are read batch by batch: a part is a text file, a row group of a Parquet file,
or all rows of another source. A batch is a data frame, and its `Origin`.
"""

import glob
import hashlib
import os
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partialmethod
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from naim3l._origin import Origin
from naim3l._text import quote, some
from naim3l._warnings import DataWarning, warn_user
from naim3l.files import columnar, errors
from naim3l.files.arrays import read_array
from naim3l.files.columnar import ARROW_EXTENSIONS, PARQUET_EXTENSIONS, RowGroup
from naim3l.files.databases import database_file, read_query
from naim3l.files.errors import ReadError, check_names, close_names, load_extra, name_columns
from naim3l.files.secrets import URL, is_store, is_store_folder, local_path, show_source
from naim3l.files.spreadsheets import read_sheet
from naim3l.files.stores import store_files
from naim3l.files.text import COMPRESSED_EXTENSIONS, TEXT_EXTENSIONS, TextFile

# Formats of one part, as functions of a path and the name of a table in the file.
_READERS: dict[str, Callable[[Path, str | None], tuple[Any, Origin]]] = {
    **dict.fromkeys(ARROW_EXTENSIONS, columnar.read_arrow),
    ".xlsx": read_sheet,
    ".npz": read_array,
}
# Extensions of files that `open_table` reads; text may also be compressed.
EXTENSIONS = (*TEXT_EXTENSIONS, *PARQUET_EXTENSIONS, *_READERS)
# Of files in stores: an address with another one is a folder.
_FILES = tuple(
    f"{extension}{packed}"
    for extension in (*TEXT_EXTENSIONS, *PARQUET_EXTENSIONS, *_READERS)
    for packed in ("", *COMPRESSED_EXTENSIONS)
)
# Of tables with more parts than this, small ones are joined up to so many rows, or bytes of text.
MANY_PARTS, PART_ROWS, PART_BYTES = 128, 16_384, 2**21
_NAMED_TABLE = re.compile(r"(.+\.(?:npz|xlsx))#(.+)", re.IGNORECASE | re.DOTALL)
Source = str | os.PathLike[str]


def open_table(source: Any) -> "FileTable":
    """A table in files, or from a query.

    A source is a file of one of the `EXTENSIONS`, with ``#name`` if an ``.npz`` or ``.xlsx`` file
    has several tables; an SQLAlchemy URL, ``#`` and a query; a folder or a pattern of text or
    Parquet files, also in a store, such as ``s3://bucket/lab/*.parquet``, or a list of these, in
    which folders such as ``year=2024`` are columns; a dataset of pyarrow; or a function that opens
    an Arrow stream. Of text and Parquet files, and of streams, only the header or the metadata are
    read; other sources are read completely, and stay in memory.
    """
    load_extra("pandas")
    if hasattr(source, "get_fragments") and columnar.is_dataset(source):
        files = columnar.parquet_files(source)
        stamps = [Stamp.of(file.path, file.filesystem) for file in files]
        return _parquet_table("dataset of pyarrow", stamps, files, source.schema)
    is_path = isinstance(source, str | os.PathLike | list | tuple)
    if not is_path and columnar.is_stream(source):
        return _stream_table(source)
    given = source if isinstance(source, list | tuple) else [source]
    sources = [_expanded(entry) for entry in given]
    if any(map(is_store, filter(URL.match, sources))):
        return _open_store(sources)
    shown = [show_source(entry) for entry in sources]
    name = shown[0] if len(shown) == 1 else some(shown, 3, str)
    if len(sources) == 1 and not is_folder(sources[0]):
        return _open_one(sources[0], name)
    found = dict.fromkeys(path for entry in sources for path in _files_of(entry))
    return _open_files(list(found), name, _base(sources))


@dataclass(frozen=True)
class FileTable:
    """A table in files, or from a query.

    A column without a name is "unnamed_" and its position, or left out if it is empty: in text
    files in the first lines, in sheets and queries in all rows.
    """

    name: str  # the source, without passwords
    columns: list[str]
    files: list[Path]
    parts: list["Part"]
    lengths: list[int] | None  # rows of each part; None for text files, whose rows are not counted
    facts: list[Any] = field(repr=False)  # path, size and time of change; a hash of a query's rows

    def read(
        self,
        *,
        n_rows: int | None = None,
        columns: Sequence[str] | None = None,
        text_columns: Collection[str] = (),
    ) -> tuple[Any, Origin]:
        """The table, or its first rows, as one data frame with a default index, and its origin.

        Columns of text files in ``text_columns`` remain text even if their cells are numbers. Rows
        of several files are counted over all of them.
        """
        found, n_found = list[tuple[Any, Origin]](), 0
        batches = (part.batches(columns, text_columns, n_rows) for part in self.parts)
        for frame, origin in chain.from_iterable(batches):
            found.append((frame if n_rows is None else frame.head(n_rows - n_found), origin))
            n_found += len(found[-1][0])
            if n_found == n_rows:
                break
        if not found:
            raise ReadError(f"{self.name}: no rows.")
        if len(found) == 1:
            return found[0]
        frames, origins = zip(*found, strict=True)
        sources = {origin.source for origin in origins}
        source = self.name if len(sources) > 1 else sources.pop()
        return load_extra("pandas").concat(frames, ignore_index=True), Origin("", source)


class Part:
    """Rows of a table that one task reads; small and picklable unless they are in memory.

    It is no dataclass, in which dask would look for values of its own.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        rows: "TextFile | RowGroup | Rows | Joined | columnar.Stream",
        stamp: "Stamp | None" = None,
    ) -> None:
        self.columns, self._rows, self._stamp = columns, rows, stamp

    def batches(
        self,
        columns: Sequence[str] | None = None,
        text_columns: Collection[str] = (),
        batch_rows: int | None = None,
        *,
        coded: bool = False,
    ) -> Iterator[tuple[Any, Origin]]:
        """Data frames of the rows, in order, with their origins; the file is read once.

        By default, all columns in the order of the table, and one batch. Types of columns of text
        files are inferred for each batch, except for ``text_columns``. Of Parquet, they may be
        tables of Arrow if ``coded``.
        """
        chosen = self.columns if columns is None else columns
        check_names(chosen, self.columns, self._rows.name)
        with _errors_named(self._stamp.path if self._stamp else "", self._stamp):
            rows = self._rows
            read = rows.coded if coded and isinstance(rows, RowGroup | Joined) else rows.batches
            for batch in read(chosen, text_columns, batch_rows):
                if self._stamp is not None:
                    self._stamp.check()
                yield batch


class Joined:
    """Several small parts, as one that is worth a task; its batches have rows of several files."""

    def __init__(self, parts: list[Part], name: str) -> None:
        self.parts, self.name = parts, name

    def batches(
        self,
        columns: Sequence[str],
        text_columns: Collection[str],
        batch_rows: int | None,
        *,
        coded: bool = False,
    ) -> Iterator[tuple[Any, Origin]]:
        """Rows of neighbours together, as long as their columns have the same types."""
        waiting, n_rows = list[tuple[Any, Origin]](), 0
        for part in self.parts:
            for table, origin in part.batches(columns, text_columns, batch_rows, coded=coded):
                full = batch_rows is not None and n_rows + len(table) > batch_rows
                if waiting and (full or not _types(waiting[0][0]).equals(_types(table))):
                    yield self._together(waiting)
                    waiting, n_rows = [], 0
                waiting.append((table, origin))
                n_rows += len(table)
        if waiting:
            yield self._together(waiting)

    coded = partialmethod(batches, coded=True)

    def _together(self, found: Sequence[tuple[Any, Origin]]) -> tuple[Any, Origin]:
        tables, origins = zip(*found, strict=True)
        pieces = tuple(zip(accumulate(map(len, tables), initial=0), origins, strict=False))
        if hasattr(tables[0], "schema"):
            whole = load_extra("pyarrow").concat_tables(tables).unify_dictionaries()
            whole = whole.combine_chunks()
        else:
            whole = load_extra("pandas").concat(tables, ignore_index=True)
        return whole, Origin("", self.name, pieces=pieces)


def _types(table: Any) -> Any:
    return table.schema if hasattr(table, "schema") else table.dtypes


def _join_small(
    name: str, parts: list[Part], sizes: Sequence[int], most: int
) -> tuple[list[Part], list[int]]:
    """Parts, of which neighbours are joined up to a size if there are many; and their sizes."""
    if len(parts) <= MANY_PARTS:
        return parts, list(sizes)
    groups, totals = list[list[Part]](), list[int]()
    for part, size in zip(parts, sizes, strict=True):
        if groups and totals[-1] + size <= most:
            groups[-1].append(part)
            totals[-1] += size
        else:
            groups.append([part])
            totals.append(size)
    joined = [of[0] if len(of) == 1 else Part(of[0].columns, Joined(of, name)) for of in groups]
    return joined, totals


@dataclass(frozen=True)
class Rows:
    """All rows of a table, in memory."""

    frame: Any
    origin: Origin
    name: str

    def batches(
        self, columns: Sequence[str], text_columns: Collection[str], batch_rows: int | None
    ) -> Iterator[tuple[Any, Origin]]:
        frame, step = self.frame[list(columns)], batch_rows or len(self.frame)
        for start in range(0, len(frame), step):
            batch = frame.iloc[start : start + step].reset_index(drop=True)
            yield batch, replace(self.origin, first_row=start)


@dataclass(frozen=True)
class Stamp:
    """Size and time of change of a file when it was opened."""

    path: str
    size: int | None
    changed: int | None
    filesystem: Any = field(default=None, compare=False)  # of pyarrow

    @classmethod
    def of(cls, path: str, filesystem: Any = None) -> "Stamp":
        try:
            if filesystem is not None:
                info = filesystem.get_file_info(path)
                return cls(path, info.size, info.mtime_ns, filesystem)
            stat = os.stat(path)
        except OSError:  # deleted since, or not to be read
            return cls(path, None, None, filesystem)
        return cls(path, stat.st_size, stat.st_mtime_ns)

    @classmethod
    def of_all(cls, files: Sequence[Any]) -> list["Stamp"]:
        """Of paths, or of files in one store, which is asked once."""
        if (filesystem := getattr(files[0], "filesystem", None)) is None:
            return [cls.of(str(path)) for path in files]
        with _errors_named(str(files[0])):
            found = filesystem.get_file_info([file.path for file in files])
        return [cls(info.path, info.size, info.mtime_ns, filesystem) for info in found]

    def check(self) -> None:
        """Refuse a file that was written again since."""
        if Stamp.of(self.path, self.filesystem) != self:
            raise ReadError(f"{self.path} has changed since it was opened; start again.")

    @property
    def facts(self) -> list[Any]:
        return [self.path, self.size, self.changed]


def is_folder(source: str) -> bool:
    """Whether a source is a folder or a pattern of files, instead of one table."""
    if URL.match(source):
        if is_store(source):
            return is_store_folder(source, _FILES)
        source = local_path(source)
    # A question mark alone makes no pattern, as misspelt addresses have some.
    is_pattern = any(sign in source for sign in "*[") and not os.path.exists(source)
    return not URL.match(source) and (is_pattern or os.path.isdir(source))


def source_files(source: Source) -> list[Path]:
    """Files that `open_table` reads; none for a database that is not a file."""
    text = _expanded(source)
    if URL.match(text) and is_store(text):
        return []
    if is_folder(text):
        return _files_of(text)
    file = database_file(text) if URL.match(text) else _path_and_name(text)[0]
    return [] if file is None else [file]


def check_file(path: Path) -> None:
    """Refuse a path that is not a file or cannot be opened."""
    shown = show_source(path)
    try:
        if path.is_file():
            path.open("rb").close()
            return
        is_dir, exists = path.is_dir(), path.exists()
        others = sorted(entry.name for entry in path.parent.iterdir()) if not exists else []
    except PermissionError as error:
        raise ReadError(f"{shown}: no permission to read it; ask its owner, or chmod.") from error
    except FileNotFoundError:
        folder = show_source(path.parent)
        raise ReadError(f"{shown}: there is no such file, and no folder {folder!r}.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        cause = getattr(error, "strerror", None) or error  # the message would repeat the path
        raise ReadError(f"{quote(shown)}: cannot be opened ({cause}).") from None
    fault = "a folder; name a file in it." if is_dir else "not a regular file; save it in one."
    if not exists:
        fault = f"there is no such file; {close_names(path.name, others)}"
    raise ReadError(f"{shown}: {fault}")


def _expanded(source: Source) -> str:
    text = os.fspath(source)
    return local_path(text) if URL.match(text) else os.path.expanduser(text)


def _path_and_name(source: str) -> tuple[Path, str | None]:
    """Path of a file, and the name of a table in it, if one is given."""
    match = None if os.path.exists(source) else _NAMED_TABLE.fullmatch(source)
    return (Path(match[1]), match[2]) if match else (Path(source), None)


def _open_one(source: str, name: str) -> FileTable:
    """Table of one file or query."""
    if URL.match(source):
        with _errors_named(name):
            frame, origin = read_query(source)
            content = hashlib.sha256(frame.to_csv().encode("utf-8", "surrogatepass"))
        return _memory_table(name, frame, origin, source_files(source), [content.hexdigest()])
    path, table = _path_and_name(source)
    check_file(path)
    _check_extension(path)
    if _format(path) in ("text", "Parquet"):
        return _open_files([path], name)
    stamp = Stamp.of(str(path))
    with _errors_named(name, stamp):
        frame, origin = _READERS[_format(path)](path, table)
    return _memory_table(name, frame, origin, [path], [stamp.facts])


def _memory_table(
    name: str, frame: Any, origin: Origin, files: list[Path], facts: list[Any]
) -> FileTable:
    positions = name_columns(
        list(frame.columns), origin.source, lambda j: bool(frame.iloc[:, j].isna().all())
    )
    if not len(frame):
        raise ReadError(f"{origin.source}: no rows.")
    named = frame.iloc[:, list(positions.values())].set_axis(list(positions), axis=1)
    part = Part(tuple(positions), Rows(named, origin, origin.source))
    return FileTable(name, list(positions), files, [part], [len(frame)], facts)


def _stream_table(source: Any) -> FileTable:
    """Table of an Arrow stream: one part, as only its beginning is known."""
    stream = columnar.Stream.of(source)
    columns = tuple(stream.fields)
    facts = [uuid.uuid4().hex]  # nothing tells whether the rows are those of an earlier fit
    return FileTable(stream.name, list(columns), [], [Part(columns, stream)], None, facts)


def _open_store(sources: Sequence[str]) -> FileTable:
    """Table of text or Parquet files in a store."""
    if not all(map(is_store, sources)):
        raise ReadError("files of this machine and of a store in one table; copy the former.")
    bases, found = zip(*map(store_files, sources), strict=True)
    shown = [show_source(source) for source in sources]
    files = list({file.path: file for of in found for file in of}.values())
    if len(files) > 1 or is_folder(sources[0]):
        files = [file for file in files if _format(file) in ("text", "Parquet")]
    if not files or _format(files[0]) not in ("text", "Parquet"):
        extensions = ", ".join((*PARQUET_EXTENSIONS, *TEXT_EXTENSIONS))
        raise ReadError(f"{shown[0]}: files in stores must have the extension {extensions}.")
    if not all(file.filesystem.equals(files[0].filesystem) for file in files):
        raise ReadError(f"{some(shown, 3, str)}: in different stores; give one.")
    base = None
    if len(sources) > 1 or is_folder(sources[0]):
        base = os.path.commonpath(bases)
        while "=" in os.path.basename(base):
            base = os.path.dirname(base)
    return _open_files(_of_one_format(files), some(shown, 3, str), base)


def _open_files(files: list[Any], name: str, base: str | None = None) -> FileTable:
    """Table of Parquet files or of text files; without ``base``, of one file."""
    stamps = Stamp.of_all(files)
    if _format(files[0]) == "Parquet":
        dataset = columnar.parquet_dataset(files, base)
        return _parquet_table(name, stamps, columnar.parquet_files(dataset), dataset.schema, base)
    short = [stamps[0].path] if base is None else _short_names(stamps)
    opened: list[TextFile] = []
    for path, stamp, shown in zip(files, stamps, short, strict=True):
        with _errors_named(stamp.path, stamp):
            opened.append(TextFile.open(path, shown))
        errors.check_same_columns(opened[0].columns, opened[-1].columns, stamps[0].path, stamp.path)
    if notes := [file.note for file in opened if file.note]:
        warn_user(notes[0] + (f" ({len(notes) - 1} more files)" if len(notes) > 1 else ""))
    columns = tuple(opened[0].columns)
    filled = [(file, stamp) for file, stamp in zip(opened, stamps, strict=True) if file.has_rows]
    if not filled:
        raise ReadError(f"{files[0]}: a header, but no rows below it.")
    parts = [Part(columns, file, stamp) for file, stamp in filled]
    parts, _ = _join_small(name, parts, [stamp.size or 0 for _, stamp in filled], PART_BYTES)
    return FileTable(name, list(columns), files, parts, None, [stamp.facts for stamp in stamps])


def _parquet_table(
    name: str, stamps: Sequence[Stamp], fragments: Sequence[Any], schema: Any, base: str | None = ""
) -> FileTable:
    """Table of Parquet files; without ``base``, of one file."""
    paths = [stamp.path for stamp in stamps]
    short = paths if base is None else _short_names(stamps)
    with _errors_named(name):
        groups = list(columnar.row_groups(fragments, schema, paths, short))
    if not groups:
        raise ReadError(f"{name}: no rows.")
    columns = tuple(groups[0][1].columns)
    parts = [Part(columns, group, stamps[k]) for k, group in groups]
    parts, lengths = _join_small(name, parts, [group.n_rows for _, group in groups], PART_ROWS)
    facts = [stamp.facts for stamp in stamps]
    return FileTable(name, list(columns), [Path(path) for path in paths], parts, lengths, facts)


def _base(sources: Sequence[str]) -> str:
    """Folder below which those such as "year=2024" are columns."""
    base = os.path.commonpath([os.path.abspath(source) for source in sources])
    while "=" in os.path.basename(base) or not os.path.isdir(base):
        base = os.path.dirname(base)
    return base


def _short_names(stamps: Sequence[Stamp]) -> list[str]:
    """Names of files in `Origin.source`: without the folders that all have in common."""
    paths = [os.path.abspath(stamp.path) for stamp in stamps]
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [os.path.relpath(path, folder) for path in paths]


def _files_of(source: str) -> list[Path]:
    """Text or Parquet files of a folder and of those below it, of a pattern, or one file.

    Hidden files, and those of a folder with other extensions, are left out.
    """
    is_dir, base = os.path.isdir(source), Path(source)
    if not is_folder(source):
        check_file(base)
    while not base.is_dir():
        base = base.parent
    extensions = ", ".join((*PARQUET_EXTENSIONS, *TEXT_EXTENSIONS))
    files = set[Path]()
    for found in map(Path, glob.glob(source, recursive=True) if is_folder(source) else [source]):
        for path in found.rglob("*") if found.is_dir() else [found]:
            is_hidden = any(part[0] in "._" for part in path.relative_to(base).parts)
            if path.is_file() and not is_hidden and _format(path) in ("text", "Parquet"):
                files.add(path)
            elif path == found and path.is_file() and not is_hidden:
                fault = f"files of a pattern or a list must have the extension {extensions}"
                raise ReadError(f"{path}: {fault}; name this file alone.")
    if not files:
        where = f"{'in the folder' if is_dir else 'like'} {show_source(source)!r}"
        raise ReadError(f"there are no files {where} with the extension {extensions}.")
    return _of_one_format(files)


def _of_one_format(files: Iterable[Any]) -> list[Any]:
    """Files in order; refuses those of several formats."""
    first, *others = ordered = sorted(files, key=_natural)
    if other := next((path for path in others if _format(path) != _format(first)), None):
        fault = f"{first} and {other} have different formats"
        raise ReadError(f"{fault}; give those of one, with a pattern such as '*.parquet'.")
    return ordered


def _natural(path: Any) -> list[Any]:
    """Key by which part-9 comes before part-10."""
    pieces = re.split(r"([0-9]+)", str(path))
    return [int(piece) if k % 2 else piece for k, piece in enumerate(pieces)]


def _extension(path: Any) -> tuple[str, bool]:
    """Extension without that of compression, and whether the file is compressed."""
    extensions = ["", *(extension.lower() for extension in path.suffixes)]
    is_packed = extensions[-1] in COMPRESSED_EXTENSIONS
    return extensions[-2 if is_packed else -1], is_packed


def _format(path: Any) -> str:
    """Either "text" or "Parquet", or the extension of another known format; empty if unknown."""
    extension, is_packed = _extension(path)
    known = {extension: extension for extension in _READERS if not is_packed}
    known |= dict.fromkeys(PARQUET_EXTENSIONS if not is_packed else (), "Parquet")
    return (known | dict.fromkeys(TEXT_EXTENSIONS, "text")).get(extension, "")


def _check_extension(path: Path) -> None:
    if _format(path):
        return
    extension, _ = _extension(path)
    if extension in (".xls", ".xlsm", ".xlsb", ".ods"):
        raise ReadError(f"{path}: a spreadsheet of another kind; save it as .xlsx, or as CSV.")
    if extension in (".db", ".sqlite", ".sqlite3"):
        query = f"'sqlite:///{path}#select * from TABLE' (needs naim3l[sql])"
        raise ReadError(f"{path}: a database; name one of its tables in a query, such as {query}.")
    fault = f"unknown extension {''.join(path.suffixes[-2:]).lower()!r}"
    known = f"{', '.join(EXTENSIONS)}, text also with {', '.join(COMPRESSED_EXTENSIONS)}"
    raise ReadError(f"{path}: {fault}; known are {known}.")


@contextmanager
def _errors_named(where: str, stamp: Stamp | None = None) -> Iterator[None]:
    """Context in which a file must not have changed, and all errors name it."""
    try:
        if stamp is not None:
            stamp.check()
        yield
    except Exception as error:  # damage surfaces as many types, from EOFError to ArrowInvalid
        if stamp is not None:
            stamp.check()  # that may be why
        if isinstance(error, ReadError | ImportError | DataWarning):
            raise
        fault = f"cannot be read as the format of its extension ({type(error).__name__}: {error})"
        raise ReadError(f"{where}: {fault}; it is damaged or of another format.") from error
