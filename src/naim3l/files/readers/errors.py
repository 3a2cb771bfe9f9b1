"""The error of all readers, positions of cells in files, and imports of optional libraries."""

import difflib
import importlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from naim3l._text import quote, some
from naim3l.files.sources import show_source

_EXTRAS = {
    "pandas": ("files", "tables in files need pandas and pyarrow"),
    "pyarrow": ("files", "Parquet and Arrow files need pyarrow"),
    "charset_normalizer": ("files", "text that is not in UTF-8 needs charset-normalizer"),
    "python_calamine": ("excel", "Excel workbooks need python-calamine"),
    "sqlalchemy": ("sql", "tables in databases need SQLAlchemy"),
}

UNNAMED = "unnamed_"  # before the position, from 1, of a column without a name


class ReadError(ValueError):
    """Error of a file, a query, a column or a setting that cannot be used.

    The message names the file, the line and the column if they are known, and says what to do.
    """


def load_extra(module: str) -> Any:
    """A module of an optional library.

    Raises
    ------
    ImportError
        If the library is missing; the message names the extra of this package that has it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        extra, need = _EXTRAS[module.partition(".")[0]]
        raise ImportError(f"{need}: pip install 'naim3l[{extra}]' ({error})") from error


def close_names(name: str, known: Iterable[str]) -> str:
    """Known names that are similar to an unknown name, or else some of the known names."""
    names = [str(entry) for entry in known]
    folded = {entry.casefold(): entry for entry in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(folded[entry]) for entry in close) + "?"
    return f"there are {some(names)}." if names else "there are none."


class _Notes(dict[str, Any]):
    """Notes that are never copied: pandas makes a deep copy of attrs for every column."""

    def __deepcopy__(self, memo: Any) -> "_Notes":
        return self


def mark_origin(
    frame: Any,
    source: str,
    shifts: Sequence[tuple[int, int]] | None = None,
    *,
    commas: bool = False,
    thousands: Mapping[str, str] | None = None,
    first_row: int = 0,
) -> Any:
    """Store the origin of a table in ``frame.attrs``, for errors of later steps.

    Parameters
    ----------
    frame : DataFrame
    source : str
        Source as given by the user; errors show it as `show_source` does.
    shifts : sequence of (row, shift), optional
        From this row on, row i (from 0) is on line i + shift of the file (from 1). None if the
        source has no lines.
    commas : bool
        Whether numbers in its text may have a decimal comma.
    thousands : mapping of column to cell, optional
        Columns read as numbers whose decimal separator may be a thousands separator.
    first_row : int
        Number of the first row in the source, for a table of some of its rows.
    """
    frame.attrs["naim3l"] = _Notes(
        source=show_source(source),
        n_rows=len(frame),
        lines=None if shifts is None else [list(entry) for entry in shifts],
        commas=commas,
        thousands=dict(thousands or {}),
        first_row=first_row,
    )
    return frame


def origin(frame: Any, key: str, default: Any = None) -> Any:
    """One of the notes of `mark_origin`."""
    return frame.attrs.get("naim3l", {}).get(key, default)


def source_of(frame: Any) -> str:
    """Name of the file of a table in errors."""
    return str(origin(frame, "source", "the table"))


def place(frame: Any, row: int, column: str | None = None) -> str:
    """Name of a row or cell in errors: file, row (from 0), line if the file has lines, column.

    Lines are left out if the table does not have as many rows as the file.
    """
    shifts = origin(frame, "lines")
    line = ""
    if shifts and origin(frame, "n_rows") == len(frame):
        _, shift = shifts[bisect_right(shifts, row, key=lambda entry: entry[0]) - 1]
        line = f" (line {row + shift})"
    where = f"{source_of(frame)}, row {origin(frame, 'first_row', 0) + row}{line}"
    return where if column is None else f"{where}, column {quote(column)}"
