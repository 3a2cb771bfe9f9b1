"""Labels from cells: words for yes, no and unknown become 1, 0 and NaN."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.files.readers.errors import ReadError, load_extra, place, quote, some, source_of
from naim3l.input.tables import UNKNOWN, is_missing

YES = ("1", "yes", "y", "true", "t", "ja", "+", "positive", "pos", "present")
NO = ("0", "-1", "no", "n", "false", "f", "nein", "negative", "neg", "absent")

_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)


def parse_labels(
    table: Any, *, yes: Iterable[str] = (), no: Iterable[str] = (), unknown: Iterable[str] = ()
) -> Any:
    """Labels of a table as 1 (yes), 0 (no) and NaN (unknown).

    Words are compared without regard to case and surrounding spaces. Those in `YES`, `NO` and
    `UNKNOWN` are known; missing cells are unknown. In a column that has "+", "-" means no. A
    column with both 0 and -1 is refused, because either can mean no, unless one is given below.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_labels)
        Label columns of a table from `read_table`.
    yes, no, unknown : iterables of str
        Additional words, which take precedence over the known ones.

    Returns
    -------
    labels : DataFrame of float of shape (n_rows, n_labels)

    Raises
    ------
    ReadError
        If a cell is not a known word; the message names file, row, line, column and value.
    """
    meanings, given = meanings_of(yes, no, unknown)
    columns = [_label_column(table, j, meanings, given) for j in range(table.shape[1])]
    values = np.column_stack(columns) if columns else np.empty(table.shape)
    pandas = load_extra("pandas")
    labels = pandas.DataFrame(values, index=table.index, columns=table.columns)
    labels.attrs.update(table.attrs)
    return labels


def distinct(series: Any) -> tuple[NDArray[np.intp], list[Any]]:
    """Code of each row, -1 where missing, and the distinct cells that codes stand for."""
    codes, cells = load_extra("pandas").factorize(series)
    return codes, list(cells)


def word(cell: Any) -> str:
    """Normalised cell, without case and outer spaces; "1" for 1.0, "" for missing."""
    if not isinstance(cell, str) and is_missing(cell):
        return ""
    text = str(cell).strip().casefold()
    return str(int(float(text))) if _WHOLE.fullmatch(text) else text


def meanings_of(
    yes: Iterable[str], no: Iterable[str], unknown: Iterable[str]
) -> tuple[dict[str, float], set[str]]:
    """Meaning of each word (1, 0 or NaN), and those words that the caller gave."""
    meanings = {
        **dict.fromkeys(YES, 1.0),
        **dict.fromkeys(NO, 0.0),
        **dict.fromkeys(UNKNOWN, np.nan),
    }
    given: dict[str, str] = {}
    for role, value, words in (("yes", 1.0, yes), ("no", 0.0, no), ("unknown", np.nan, unknown)):
        for entry in [words] if isinstance(words, str) else words:
            key = word(entry)
            if given.setdefault(key, role) != role:
                raise ReadError(f"labels: {quote(entry)} cannot mean both {given[key]} and {role}.")
            meanings[key] = value
    return meanings, set(given)


def _label_column(
    table: Any, j: int, meanings: dict[str, float], given: set[str]
) -> NDArray[np.float64]:
    series, name = table.iloc[:, j], table.columns[j]
    try:
        codes, cells = distinct(series)
    except TypeError:
        raise ReadError(
            f"{source_of(table)}, column {quote(name)}: cells that are neither words nor numbers, "
            f"such as {quote(series.dropna().iloc[0])}, are no labels."
        ) from None
    words = [word(cell) for cell in cells]
    if "+" in words and "-" not in given:
        meanings = {**meanings, "-": 0.0}
    if {"0", "-1"} <= set(words) and not {"0", "-1"} & given:
        raise ReadError(
            f"{place(table, _first(codes, [words.index('-1')]), name)}: both 0 and -1 occur; state "
            "which means no and which unknown, such as no=['-1'], unknown=['0']."
        )
    strange = [k for k, entry in enumerate(words) if entry not in meanings]
    if strange:
        row = _first(codes, strange)
        others = [cells[k] for k in strange if k != codes[row]]
        raise ReadError(
            f"{place(table, row, name)}: {quote(cells[codes[row]])} is not a known label"
            f"{f' (nor are {some(others, 4)})' if others else ''}; allowed are yes "
            f"({_listed(meanings, 1.0)}), no ({_listed(meanings, 0.0)}), unknown "
            f"({_listed(meanings, None)}, or empty); define other words with yes=, no= or unknown=."
        )
    values = np.array([meanings[entry] for entry in words] + [np.nan])
    return values[codes]


def _first(codes: NDArray[np.intp], among: Sequence[int]) -> int:
    return int(np.flatnonzero(np.isin(codes, among))[0])


def _listed(meanings: dict[str, float], value: float | None) -> str:
    same = [w for w, m in meanings.items() if w and (m == value or (value is None and m != m))]
    return ", ".join(same)
