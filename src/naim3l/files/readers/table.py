"""Tables from files of all supported formats, and from databases."""

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from naim3l.files.readers.arrays import read_npz
from naim3l.files.readers.columnar import read_arrow, read_parquet
from naim3l.files.readers.errors import (
    UNNAMED,
    ReadError,
    close_names,
    load_extra,
    quote,
    source_of,
)
from naim3l.files.readers.excel import read_excel
from naim3l.files.readers.ids import set_ids
from naim3l.files.readers.opening import COMPRESSED_EXTENSIONS
from naim3l.files.readers.sql import database_file, read_sql
from naim3l.files.readers.text import read_text
from naim3l.files.sources import URL, show_source
from naim3l.input.tables import DataWarning

TEXT_EXTENSIONS = (".csv", ".tsv", ".txt")
ARROW_EXTENSIONS = (".arrow", ".feather", ".ipc")
DATABASE_EXTENSIONS = (".db", ".sqlite", ".sqlite3")
_PART = re.compile(r"(.+\.(?:npz|xlsx))#(.+)", re.IGNORECASE | re.DOTALL)


def read_table(
    source: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    text_columns: Collection[str] = (),
    n_rows: int | None = None,
) -> Any:
    """Table of a file or of a database query.

    Parameters
    ----------
    source : path or str
        - ``.csv``, ``.tsv``, ``.txt``, also compressed as ``.gz``, ``.zip``, ``.bz2`` or ``.xz``:
          the separator is detected among comma, semicolon, tab and bar. A column in which all
          cells are numbers is read as numbers, also with a decimal comma unless the separator is a
          comma; each column has its own decimal separator. Columns that are named like an id
          remain text. UTF-8, UTF-16 and UTF-32 are recognised by their byte order mark; other text
          that is not UTF-8 is read in the encoding that it suggests, which is cp1252 unless
          another is clear, with a `DataWarning`. An empty cell is missing.
        - ``.parquet``; ``.arrow``, ``.feather``, ``.ipc``.
        - ``.npz``: ``file.npz#name`` if it contains several tables.
        - ``.xlsx``: ``file.xlsx#sheet`` if several sheets have cells.
        - an SQLAlchemy URL, ``#`` and a query, as ``sqlite:///lab.db#select * from tests``. Only
          one SELECT or WITH is run, in a transaction that is rolled back.
    id_column : str, optional
        Column that names the rows. It becomes the index, as text with all digits. Ids must differ,
        and none may be missing.
    text_columns : collection of str
        Columns of text files that remain text even if all of their cells are numbers; names that
        are not in the file are ignored.
    n_rows : int, optional
        Maximum number of rows to read.

    Returns
    -------
    pandas.DataFrame
        Table with at least one row and one column. A column without a name is called "unnamed_"
        and its position from 1, or left out if it is empty. ``table.attrs`` contains the file, so
        that later errors can name it.

    Raises
    ------
    ReadError
        If the table cannot be read; the message names the file, the line and the column if known.
    ImportError
        If a library is missing; the message says how to install it.
    """
    load_extra("pandas")
    kept = {*text_columns} if id_column is None else {*text_columns, id_column}
    reader = _reader(os.fspath(source), kept)
    try:
        frame = name_columns(reader(n_rows=n_rows))
    except (ReadError, ImportError, DataWarning):
        raise
    except Exception as error:  # damage surfaces as many types, from EOFError to ArrowInvalid
        where = show_source(source)
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ReadError(
            f"{where}: cannot be read as the format of its extension ({cause}); it is damaged, "
            "cut short or of another format."
        ) from error
    if not len(frame):
        raise ReadError(f"{source_of(frame)}: no rows.")
    return frame if id_column is None else set_ids(frame, id_column)


def _reader(source: str, text_columns: Collection[str]) -> Callable[..., Any]:
    """Function of ``n_rows`` that reads the source, whose file and extension are checked."""
    if URL.match(source):
        return partial(read_sql, source)
    path, name = _path_and_part(source)
    check_file(path)
    return READERS[kind_of(path)](path, name, text_columns)


# Readers by extension, as functions of a path, the name of a table in the file, and the columns
# that are text; they return a function of ``n_rows``.
READERS: dict[str, Callable[[Path, str | None, Collection[str]], Callable[..., Any]]] = {
    **dict.fromkeys(
        TEXT_EXTENSIONS, lambda path, name, text: partial(read_text, path, text_columns=text)
    ),
    ".parquet": lambda path, name, text: partial(read_parquet, path),
    **dict.fromkeys(ARROW_EXTENSIONS, lambda path, name, text: partial(read_arrow, path)),
    ".xlsx": lambda path, name, text: partial(read_excel, path, name),
    ".npz": lambda path, name, text: partial(read_npz, path, name),
}


def source_file(source: str | os.PathLike[str]) -> Path | None:
    """File that `read_table` reads; None for a database that is not a file."""
    text = os.fspath(source)
    return database_file(text) if URL.match(text) else _path_and_part(text)[0]


def _path_and_part(source: str) -> tuple[Path, str | None]:
    """Path of a file, and the name of a table in it, if one is given."""
    part = _PART.fullmatch(source)
    if part and not os.path.exists(source):
        return Path(part[1]), part[2]
    return Path(source), None


def check_file(path: Path) -> None:
    """Refuse a path that is not a file or cannot be opened."""
    try:
        if path.is_dir():
            raise ReadError(f"{path}: a folder; name a file in it.")
        if not path.exists():
            folder = path.parent
            others = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
            hint = (
                close_names(path.name, others) if others else f"look into {show_source(folder)!r}."
            )
            raise ReadError(f"{show_source(path)}: there is no such file; {hint}")
        if not path.is_file():
            raise ReadError(f"{path}: not a regular file; save what it gives in one.")
        with path.open("rb"):
            pass
    except PermissionError as error:
        raise ReadError(f"{path}: no permission to read it; ask its owner, or chmod.") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, ReadError):
            raise
        cause = getattr(error, "strerror", None) or error  # the message would repeat the path
        raise ReadError(f"{quote(show_source(path))}: cannot be opened ({cause}).") from None


def kind_of(path: Path) -> str:
    """Extension of a supported file format, without that of compression."""
    extensions = [extension.lower() for extension in path.suffixes]
    compressed = bool(extensions) and extensions[-1] in COMPRESSED_EXTENSIONS
    known = TEXT_EXTENSIONS if compressed else tuple(READERS)
    kind = (["", *extensions[:-1]] if compressed else ["", *extensions])[-1]
    if kind in known:
        return kind
    if kind in (".xls", ".xlsm", ".xlsb", ".ods"):
        raise ReadError(f"{path}: a spreadsheet of another kind; save it as .xlsx, or as CSV.")
    if kind in DATABASE_EXTENSIONS:
        raise ReadError(
            f"{path}: a database; name one of its tables in a query, such as "
            f"'sqlite:///{path}#select * from {_first_table(path)}' (needs naim3l[sql])."
        )
    raise ReadError(
        f"{path}: unknown extension {''.join(extensions[-2:])!r}; known are {', '.join(known)}"
        f"{'' if compressed else ', text also with ' + ', '.join(COMPRESSED_EXTENSIONS)}."
    )


def _first_table(path: Path) -> str:
    """Name of a table of an SQLite file, for an example."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            query = "select name from sqlite_master where type in ('table', 'view')"
            (name,) = database.execute(query).fetchone() or ("TABLE",)
    except sqlite3.Error:  # not of SQLite, or damaged
        return "TABLE"
    return name if name.isidentifier() else '"{}"'.format(name.replace('"', '""'))


def name_columns(frame: Any) -> Any:
    """The table with a name for each column; refuses duplicate names."""
    empty = [not name and frame.iloc[:, j].isna().all() for j, name in enumerate(frame.columns)]
    if any(empty):
        frame = frame.loc[:, [not flag for flag in empty]]
    names = [name or f"{UNNAMED}{j + 1}" for j, name in enumerate(frame.columns)]
    if not names:
        raise ReadError(f"{source_of(frame)}: no columns.")
    if len(set(names)) < len(names):
        doubled = next(name for name, n in Counter(names).items() if n > 1)
        positions = [str(j + 1) for j, name in enumerate(names) if name == doubled]
        raise ReadError(
            f"{source_of(frame)}: columns {' and '.join(positions)} are both named "
            f"{quote(doubled)}; names must differ: rename or remove one (is the first line the "
            "header?)."
        )
    frame.columns = names
    return frame
