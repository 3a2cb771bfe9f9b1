"""The error of all readers, the names of columns, and imports of optional libraries."""

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from naim3l._text import quote, some

_EXTRAS = {
    "pandas": ("files", "tables in files need pandas and pyarrow"),
    "pyarrow": ("files", "Parquet and Arrow files need pyarrow"),
    "python_calamine": ("excel", "Excel workbooks need python-calamine"),
    "sqlalchemy": ("sql", "tables in databases need SQLAlchemy"),
    "onnx": ("export", "models as ONNX need onnx"),
    **dict.fromkeys(("dask", "distributed"), ("dask", "tables that are read in chunks need dask")),
}


class ReadError(ValueError):
    """Error of a file, a query, a column or a setting, which it names, and says what to do."""


def load_extra(module: str) -> Any:
    """A module of an optional library; if it is missing, the error names the extra that has it."""
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


def check_names(
    names: Iterable[str], known: Collection[str], where: str, what: str = "column"
) -> None:
    """Refuse a name that is not known, and suggest others."""
    there = set(known)
    for name in names:
        if name not in there:
            raise ReadError(f"{where}: no {what} {quote(name)}; {close_names(name, known)}")


def name_columns(
    names: Sequence[str], where: str, is_empty: Callable[[int], bool] = lambda j: False
) -> dict[str, int]:
    """Name and position of each column; refuses tables without columns, and two of one name.

    A column without a name is left out if it is empty, or called "unnamed_" and its position.
    """
    kept = [j for j, name in enumerate(names) if name or not is_empty(j)]
    if not kept:
        raise ReadError(f"{where}: no columns.")
    found: dict[str, int] = {}
    for j in kept:
        name = names[j] or f"unnamed_{j + 1}"
        if name in found:
            fault = f"columns {found[name] + 1} and {j + 1} are both named {quote(name)}"
            raise ReadError(f"{where}: {fault}; rename one (is the first line the header?).")
        found[name] = j
    return found


def check_same_columns(
    first: Collection[str], given: Collection[str], first_path: str, path: str
) -> None:
    """Refuse a file that does not have the columns of the first file of its table."""
    if differing := sorted({*first} ^ {*given}):
        has, lacks = (path, first_path) if differing[0] in given else (first_path, path)
        fault = f"{has} has the column {quote(differing[0])}, which {lacks} lacks"
        raise ReadError(f"{fault}; all files of a table must have the same columns.")
