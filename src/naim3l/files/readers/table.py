"""A table from a file of any of the known kinds, or from a database."""

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from naim3l.files.readers.arrays import read_mat, read_npz
from naim3l.files.readers.columnar import read_arrow, read_parquet
from naim3l.files.readers.errors import ReadError, close_names, load_extra, quote, source_of
from naim3l.files.readers.excel import read_excel
from naim3l.files.readers.ids import set_ids
from naim3l.files.readers.sources import URL, show_source
from naim3l.files.readers.sql import database_file, read_sql
from naim3l.files.readers.text import read_text
from naim3l.input.tables import DataWarning

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
PACKED_ENDINGS = (".gz", ".zip", ".bz2", ".xz")
ARROW_ENDINGS = (".arrow", ".feather", ".ipc")
DATABASE_ENDINGS = (".db", ".sqlite", ".sqlite3")
_PART = re.compile(r"(.+\.(?:npz|mat|xlsx))#(.+)", re.IGNORECASE | re.DOTALL)


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
        - ``.csv``, ``.tsv``, ``.txt``, also packed as ``.gz``, ``.zip``, ``.bz2`` or ``.xz``: the
          separator is found among comma, semicolon, tab and bar. A column in which all cells
          are numbers is read as numbers, where the separator is not a comma also with a decimal
          comma; each column has its own decimal sign. Columns that are named like an id are
          left as text. UTF-8, UTF-16 and UTF-32 are recognised by their byte order mark; what
          is not UTF-8 without one is read in the encoding that its text suggests, cp1252 unless
          another is clear, with a `DataWarning`. An empty cell is missing.
        - ``.parquet``; ``.arrow``, ``.feather``, ``.ipc``.
        - ``.npz`` or ``.mat``: ``file.npz#name`` where it holds several tables.
        - ``.xlsx``: ``file.xlsx#sheet`` where several sheets have cells.
        - an SQLAlchemy URL, ``#`` and a query, as ``sqlite:///lab.db#select * from tests``. Only
          one SELECT or WITH is run, in a transaction that is rolled back.
    id_column : str, optional
        Column that names the rows: it becomes the index, as text, all digits kept. Ids must
        differ, and none may be missing.
    text_columns : collection of str
        Columns of text files that are left as text even where all of their cells are numbers;
        names that the file does not have are passed over.
    n_rows : int, optional
        Read so many rows at most.

    Returns
    -------
    table : pandas.DataFrame
        With at least one row and one column. A column without a name is called "unnamed_" and
        its position from 1, or left out where it is empty. ``table.attrs`` remembers the file,
        so that later errors can name it.

    Raises
    ------
    ReadError
        Whatever is wrong; names the file, the line and the column where known.
    ImportError
        If a library is missing; says how to install it.
    """
    load_extra("pandas")
    kept = {*text_columns} if id_column is None else {*text_columns, id_column}
    reader = _reader(os.fspath(source), kept)
    try:
        frame = _name_columns(reader(n_rows=n_rows))
    except (ReadError, ImportError, DataWarning):
        raise
    except Exception as error:  # damage surfaces as many types, from EOFError to ArrowInvalid
        where = show_source(source)
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ReadError(
            f"{where}: cannot be read as what its ending says ({cause}); it is damaged, cut short "
            "or of another kind."
        ) from error
    if not len(frame):
        raise ReadError(f"{source_of(frame)}: no rows.")
    return frame if id_column is None else set_ids(frame, id_column)


def _reader(source: str, text_columns: Collection[str]) -> Callable[..., Any]:
    """Function of ``n_rows`` that reads the source; its file is there and has a known ending."""
    if URL.match(source):
        return partial(read_sql, source)
    path, name = _path_and_part(source)
    check_file(path)
    kind = _kind(path)
    if kind in TEXT_ENDINGS:
        return partial(read_text, path, text_columns=text_columns)
    if kind == ".parquet":
        return partial(read_parquet, path)
    if kind in ARROW_ENDINGS:
        return partial(read_arrow, path)
    if kind == ".xlsx":
        return partial(read_excel, path, name)
    return partial(read_npz if kind == ".npz" else read_mat, path, name)


def source_file(source: str | os.PathLike[str]) -> Path | None:
    """File that `read_table` reads; None for a database that is no file."""
    text = os.fspath(source)
    return database_file(text) if URL.match(text) else _path_and_part(text)[0]


def _path_and_part(source: str) -> tuple[Path, str | None]:
    """Path of a file, and the name of a table in it, if one is given."""
    part = _PART.fullmatch(source)
    if part and not os.path.exists(source):
        return Path(part[1]), part[2]
    return Path(source), None


def check_file(path: Path) -> None:
    """Refuse a path that is no file, or one that cannot be opened."""
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
        cause = getattr(error, "strerror", None) or error  # the whole would tell the path again
        raise ReadError(f"{quote(show_source(path))}: cannot be opened ({cause}).") from None


def _kind(path: Path) -> str:
    """Ending of a known kind of file, without that of packing."""
    endings = [ending.lower() for ending in path.suffixes]
    packed = bool(endings) and endings[-1] in PACKED_ENDINGS
    others = (".parquet", *ARROW_ENDINGS, ".npz", ".mat", ".xlsx")
    known = TEXT_ENDINGS if packed else (*TEXT_ENDINGS, *others)
    kind = (["", *endings[:-1]] if packed else ["", *endings])[-1]
    if kind in known:
        return kind
    if kind in (".xls", ".xlsm", ".xlsb", ".ods"):
        raise ReadError(f"{path}: a spreadsheet of another kind; save it as .xlsx, or as CSV.")
    if kind in DATABASE_ENDINGS:
        raise ReadError(
            f"{path}: a database; name one of its tables in a query, such as "
            f"'sqlite:///{path}#select * from {_first_table(path)}' (needs naim3l[sql])."
        )
    raise ReadError(
        f"{path}: unknown ending {''.join(endings[-2:])!r}; known are {', '.join(known)}"
        f"{'' if packed else ', text also with ' + ', '.join(PACKED_ENDINGS)}."
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


def _name_columns(frame: Any) -> Any:
    """The table with a name for each column; refuses a name that two columns have."""
    empty = [not name and frame.iloc[:, j].isna().all() for j, name in enumerate(frame.columns)]
    if any(empty):
        frame = frame.loc[:, [not flag for flag in empty]]
    names = [name or f"unnamed_{j + 1}" for j, name in enumerate(frame.columns)]
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
