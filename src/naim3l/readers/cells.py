"""What cells say: labels in words as 1, 0 and NaN; columns as numbers, text or dates."""

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from naim3l.readers.errors import ReadError, load_extra, origin, place, quote, some, source_of

YES = ("1", "yes", "y", "true", "t", "ja", "+", "positive", "pos", "present")
NO = ("0", "-1", "no", "n", "false", "f", "nein", "negative", "neg", "absent")
UNKNOWN = ("", "?", "unknown", "na", "n/a", "nan", "null", "none", "missing", "-")

_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.ASCII)
_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2}))([T ]\d{1,2}:\d\d.*)?",
    re.ASCII,
)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def parse_labels(
    table: Any, *, yes: Iterable[str] = (), no: Iterable[str] = (), unknown: Iterable[str] = ()
) -> Any:
    """Labels in words or numbers as 1 (yes), 0 (no) and NaN (unknown).

    Words are compared without regard to case and to spaces around them. Those in `YES`, `NO` and
    `UNKNOWN` are known; missing cells are unknown. In a column that has "+", "-" means no. A
    column with both 0 and -1 is refused, as either can mean no, unless it is said what one means.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_labels)
        Label columns of a table from `read_table`.
    yes, no, unknown : iterables of str
        Further words; they come before those known.

    Returns
    -------
    labels : DataFrame of float of shape (n_rows, n_labels)

    Raises
    ------
    ReadError
        If a cell is none of these; names file, row, line, column and value.
    """
    meanings, given = _meanings(yes, no, unknown)
    columns = [_label_column(table, j, meanings, given) for j in range(table.shape[1])]
    values = np.column_stack(columns) if columns else np.empty(table.shape)
    pandas = load_extra("pandas")
    labels = pandas.DataFrame(values, index=table.index, columns=table.columns)
    labels.attrs.update(table.attrs)
    return labels


def parse_features(
    table: Any, *, missing: Iterable[str] = UNKNOWN, ignore: Iterable[str] = ()
) -> tuple[Any, list[str]]:
    """Features as numbers where all cells of a column are, and else as text.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_columns)
        Feature columns of a table from `read_table`.
    missing : iterable of str
        Words for a missing cell, without regard to case.
    ignore : iterable of str
        Columns to leave out.

    Returns
    -------
    features : DataFrame of shape (n_rows, n_columns less those ignored)
        float64 columns, NaN where missing, and object columns of str, None where missing.
    text_columns : list of str
        Names of the latter, which are to be encoded.

    Raises
    ------
    ReadError
        If a column has dates, or cells that are neither number nor text.
    """
    pandas = load_extra("pandas")
    left_out = set(ignore)
    columns, text_columns = {}, []
    for name in table.columns:
        if name in left_out:
            continue
        column = read_column(table[name], missing=missing)
        if column.kind in ("date", "other"):
            what = "dates" if column.kind == "date" else "neither numbers nor text"
            raise ReadError(
                f"{source_of(table)}, column {quote(name)}: {what}, such as "
                f"{quote(column.example)}; ignore the column, or turn it into numbers first."
            )
        kind = column.values.dtype  # else pandas would make a type of its own of text
        columns[name] = pandas.Series(column.values, index=table.index, dtype=kind)
        if column.kind == "text":
            text_columns.append(name)
    features = pandas.DataFrame(columns, index=table.index, columns=list(columns))
    features.attrs.update(table.attrs)
    return features, text_columns


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes
    ----------
    kind : "number", "text", "date" or "other"
    values : array of shape (n_rows,)
        float64 for numbers; object for text, None where missing; empty for the others.
    example : object
        A cell that made it what it is.
    """

    kind: Literal["number", "text", "date", "other"]
    values: NDArray[Any]
    example: Any = None


def read_column(series: Any, *, missing: Iterable[str] = UNKNOWN) -> Column:
    """A column as numbers if all its cells are, as dates if all are, and else as text."""
    types = load_extra("pandas").api.types
    if types.is_complex_dtype(series):
        return Column("other", np.empty(0), series.iloc[0])
    if types.is_bool_dtype(series) or types.is_numeric_dtype(series):
        return Column("number", series.to_numpy(dtype=float, na_value=np.nan))
    try:
        codes, cells = distinct(series)
    except TypeError:  # cells that cannot be compared, such as lists
        return Column("other", np.empty(0), series.dropna().iloc[0])
    for cell in cells:
        if isinstance(cell, _TIMES):
            return Column("date", np.empty(0), cell)
        if not isinstance(cell, str | int | float | np.number | np.bool_ | Decimal):
            return Column("other", np.empty(0), cell)
    return _text_column(codes, cells, {word(entry) for entry in missing}, series)


def read_words(series: Any, *, missing: Iterable[str] = UNKNOWN) -> NDArray[Any]:
    """Cells of a column as text, None where missing, even where all of them are numbers.

    A whole number is written without a point, as a file of text has it.
    """
    try:
        codes, cells = distinct(series)
    except TypeError:
        example = quote(series.dropna().iloc[0])
        raise ReadError(
            f"{source_of(series)}, column {quote(series.name)}: cells that are neither words nor "
            f"numbers, such as {example}."
        ) from None
    unknown = {word(entry) for entry in missing}
    texts = np.full(len(cells) + 1, None, dtype=object)  # the last is for code -1
    for k, cell in enumerate(cells):
        if word(cell) not in unknown:
            whole = isinstance(cell, float) and cell.is_integer()
            texts[k] = str(int(cell)) if whole else str(cell)
    return texts[codes]


def distinct(series: Any) -> tuple[NDArray[np.intp], list[Any]]:
    """Different cells of a column, and for each row which it has; -1 where missing."""
    codes, cells = load_extra("pandas").factorize(series)
    return codes, list(cells)


def word(cell: Any) -> str:
    """A cell as words are compared: without case and outer spaces; 1 for 1.0, "" for missing."""
    if cell is None or cell is load_extra("pandas").NA or cell != cell:
        return ""
    text = str(cell).strip().casefold()
    return str(int(float(text))) if _WHOLE.fullmatch(text) else text


def _text_column(
    codes: NDArray[np.intp], cells: Sequence[Any], missing: set[str], series: Any
) -> Column:
    known = [k for k, cell in enumerate(cells) if word(cell) not in missing]
    numbers = np.full(len(cells) + 1, np.nan)  # the last is for code -1
    texts = np.full(len(cells) + 1, None, dtype=object)
    is_number = True
    for k in known:
        number = _number(cells[k], origin(series, "decimal", "."))
        is_number = is_number and number is not None
        numbers[k] = np.nan if number is None else number
        texts[k] = str(cells[k])
    if is_number:
        return Column("number", numbers[codes])
    if all(_DATE.fullmatch(texts[k].strip()) for k in known):
        return Column("date", np.empty(0), texts[known[0]])
    return Column("text", texts[codes], texts[known[0]])


def _number(cell: Any, decimal: str) -> float | None:
    if not isinstance(cell, str):
        try:
            return float(cell)
        except OverflowError:  # a whole number of hundreds of digits; as text it is infinite, too
            return math.inf if cell > 0 else -math.inf
    text = cell.strip()
    if decimal != ".":
        text = text.replace(".", "x").replace(decimal, ".")
    return float(text) if _NUMBER.fullmatch(text.casefold()) else None


def _meanings(
    yes: Iterable[str], no: Iterable[str], unknown: Iterable[str]
) -> tuple[dict[str, float], set[str]]:
    """Meaning of each word, and the words that the caller gave."""
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
            f"{place(table, _first(codes, [words.index('-1')]), name)}: both 0 and -1 occur; say "
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
            f"({_listed(meanings, None)}, or empty); say with yes=, no= or unknown= what other "
            "words mean."
        )
    values = np.array([meanings[entry] for entry in words] + [np.nan])
    return values[codes]


def _first(codes: NDArray[np.intp], among: Sequence[int]) -> int:
    return int(np.flatnonzero(np.isin(codes, among))[0])


def _listed(meanings: dict[str, float], value: float | None) -> str:
    same = [w for w, m in meanings.items() if w and (m == value or (value is None and m != m))]
    return ", ".join(same)
