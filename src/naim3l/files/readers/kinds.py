"""What a column holds: numbers, text or dates, by what most of its cells are.

Only known cells count, those that are neither empty nor a word for a missing cell. A column has
one decimal sign: the one under which more of its cells are numbers.

- All cells are numbers: the column is numbers. None is: it is text, or dates.
- At least half are words, not even like a number as ``<0.5`` and ``12 %`` are: text.
- Several different codes such as ``V45`` are among the numbers: text.
- A cell has thousands separators, ``1.234,5``: mixed, since ``1.234`` beside it would be read as
  a thousandth of what is meant.
- At most a tenth (`MOST_ODD`) are no numbers: numbers, and these odd cells are missing.
- All else is mixed: someone must say what is meant.
"""

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from naim3l.files.readers.cells import UNKNOWN, distinct, word
from naim3l.files.readers.errors import ReadError, load_extra, origin, quote, source_of
from naim3l.files.readers.numbers import (
    are_codes,
    choose_decimal,
    has_thousands,
    looks_like_a_number,
    perhaps_thousands,
    read_numbers,
)

# Largest share of the known cells of a column of numbers that may be none.
MOST_ODD = 0.1

_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2}))([T ]\d{1,2}:\d\d.*)?",
    re.ASCII,
)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True)
class Odd:
    """Cells of a column that are no numbers, where others are.

    Attributes
    ----------
    row, cell : int, object
        The first of them, or the first with thousands separators where there is such a one.
    has_thousands : bool
    n, n_known : int
        Rows that have such a cell, and rows in which the column is not missing.
    """

    row: int
    cell: Any
    has_thousands: bool
    n: int
    n_known: int


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes
    ----------
    kind : "number", "text", "date", "mixed" or "other"
    values : array of shape (n_rows,)
        float64 for numbers, NaN where missing or odd; object for text, None where missing; empty
        for the others.
    example : object
        A cell that made it what it is.
    odd : Odd or None
        What is no number in a column where other cells are.
    doubtful : str or None
        A cell of numbers whose decimal sign may as well separate thousands.
    """

    kind: Literal["number", "text", "date", "mixed", "other"]
    values: NDArray[Any]
    example: Any = None
    odd: Odd | None = None
    doubtful: str | None = None


def is_plain(dtype: Any) -> bool:
    """Whether all cells of a column are numbers or truth values of NumPy."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def read_column(
    series: Any, *, missing: Iterable[str] = UNKNOWN, known_as_number: bool = False
) -> Column:
    """What a column holds, see `naim3l.files.readers.kinds`.

    Parameters
    ----------
    series : Series of shape (n_rows,)
    missing : iterable of str
        Words for a missing cell.
    known_as_number : bool
        Read the column as numbers, however many of its cells are odd.
    """
    types = load_extra("pandas").api.types
    if types.is_complex_dtype(series):
        return Column("other", np.empty(0), series.iloc[0])
    if types.is_bool_dtype(series) or types.is_numeric_dtype(series):
        return Column("number", series.to_numpy(dtype=float, na_value=np.nan))
    try:
        codes, cells = _known_cells(series, missing)
    except TypeError:  # cells that cannot be compared, such as lists
        return Column("other", np.empty(0), series.dropna().iloc[0])
    for cell in cells:
        if isinstance(cell, _TIMES):
            return Column("date", np.empty(0), cell)
        if not isinstance(cell, str | int | float | np.number | np.bool_ | Decimal):
            return Column("other", np.empty(0), cell)
    counts = np.bincount(codes[codes >= 0], minlength=len(cells))
    commas = origin(series, "commas", False)
    decimal = choose_decimal(cells, counts, commas=commas)
    numbers = read_numbers(cells, decimal)
    spelt = np.array([number is not None for number in numbers], dtype=bool)
    column = Column(
        "number",
        np.array([*numbers, None], dtype=float)[codes],  # the last is for code -1
        odd=None if spelt.all() else _find_odd(codes, cells, counts, spelt),
        doubtful=perhaps_thousands(_chosen(cells, spelt), decimal) if commas else None,
    )
    if column.odd is None or known_as_number:
        return column
    return _judge(column, column.odd, codes, cells, counts, spelt)


def read_words(series: Any, *, missing: Iterable[str] = UNKNOWN) -> NDArray[Any]:
    """Cells of a column as text, None where missing, even where all of them are numbers."""
    try:
        codes, cells = _known_cells(series, missing)
    except TypeError:
        example = quote(series.dropna().iloc[0])
        raise ReadError(
            f"{source_of(series)}, column {quote(series.name)}: cells that are neither words nor "
            f"numbers, such as {example}."
        ) from None
    return _as_text(codes, cells)


def _known_cells(series: Any, missing: Iterable[str]) -> tuple[NDArray[np.intp], list[Any]]:
    """Different cells of a column, and for each row which it has; -1 where missing."""
    codes, cells = distinct(series)
    unknown = {word(entry) for entry in missing}
    known = np.array([word(cell) not in unknown for cell in cells], dtype=bool)
    places = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
    return places[codes], _chosen(cells, known)


def _chosen(cells: Sequence[Any], mask: NDArray[np.bool_]) -> list[Any]:
    return [cell for cell, is_chosen in zip(cells, mask, strict=True) if is_chosen]


def _find_odd(
    codes: NDArray[np.intp], cells: Sequence[Any], counts: NDArray[np.intp], spelt: NDArray
) -> Odd:
    odd = ~spelt
    grouped = odd & np.array([has_thousands(cell) for cell in cells], dtype=bool)
    shown = np.append(grouped if grouped.any() else odd, False)  # the last is for code -1
    row = int(np.argmax(shown[codes]))
    n, n_known = int(counts[odd].sum()), int(counts.sum())
    return Odd(row, cells[codes[row]], bool(grouped.any()), n, n_known)


def _judge(
    column: Column,
    odd: Odd,
    codes: NDArray[np.intp],
    cells: Sequence[Any],
    counts: NDArray[np.intp],
    spelt: NDArray[np.bool_],
) -> Column:
    """What a column is, some of whose cells are no numbers."""
    if odd.n == odd.n_known:
        if all(isinstance(cell, str) and _DATE.fullmatch(cell.strip()) for cell in cells):
            return Column("date", np.empty(0), cells[0])
        return Column("text", _as_text(codes, cells), cells[0])
    like = spelt | np.array([looks_like_a_number(cell) for cell in cells], dtype=bool)
    if 2 * counts[like].sum() <= odd.n_known:
        return Column("text", _as_text(codes, cells), odd.cell)
    if are_codes(_chosen(cells, ~spelt), counts[~spelt]):
        return Column("text", _as_text(codes, cells), odd.cell, odd)
    if odd.has_thousands or odd.n > MOST_ODD * odd.n_known:
        return Column("mixed", np.empty(0), odd.cell, odd)
    return column


def _as_text(codes: NDArray[np.intp], cells: Sequence[Any]) -> NDArray[Any]:
    """Text of each row; a whole number is written without a point, as a file of text has it."""
    texts = np.full(len(cells) + 1, None, dtype=object)  # the last is for code -1
    for k, cell in enumerate(cells):
        whole = isinstance(cell, float) and cell.is_integer()
        texts[k] = str(int(cell)) if whole else str(cell)
    return texts[codes]
