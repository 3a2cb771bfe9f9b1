"""The kind of a column: numbers, text or dates, determined from its cells.

Only known cells count, which are neither empty nor a word for a missing cell. A column has one
decimal separator: the one with which more of its cells are numbers.

- If all cells are numbers, the column has numbers. If none is, it has text or dates; dates with
  another order than year, month and day are ambiguous.
- If at least half are words, and not similar to numbers such as ``<0.5`` and ``12 %``: text.
- If several different codes such as ``V45`` are among the numbers: text.
- If a cell has thousands separators, ``1.234,5``: mixed, because another cell ``1.234`` would be
  read as a thousandth of its value.
- If at most a tenth (`MOST_ODD`) are not numbers: numbers, and these odd cells are missing.
- All other columns are mixed, and the user must decide.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from naim3l.features.column_kinds import as_text
from naim3l.features.dates import TIMES, days, is_date_like
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

# Largest share of the known cells of a column of numbers that may be something else.
MOST_ODD = 0.1


@dataclass(frozen=True)
class Odd:
    """Cells of a column that are not numbers, while others are.

    Attributes
    ----------
    row, cell : int, object
        The first of them, or the first with thousands separators if there is one.
    has_thousands : bool
        Whether there is one with thousands separators.
    n, n_known : int
        Number of rows with such a cell, and number of rows in which the cell is not missing.
    """

    row: int
    cell: Any
    has_thousands: bool
    n: int
    n_known: int


@dataclass(frozen=True)
class Column:
    """The kind and the values of a column.

    Attributes
    ----------
    kind : "number", "text", "date", "mixed" or "other"
    values : array of shape (n_rows,)
        float64 for numbers, NaN where missing or odd; object for text and dates, None where
        missing; empty for other kinds.
    example : object
        A cell that determined the kind.
    odd : Odd or None
        Cells that are not numbers, if others are.
    doubtful : str or None
        A number whose decimal separator may be a thousands separator.
    """

    kind: Literal["number", "text", "date", "other date", "mixed", "other"]
    values: NDArray[Any]
    example: Any = None
    odd: Odd | None = None
    doubtful: str | None = None


def is_plain(dtype: Any) -> bool:
    """Whether a column has numbers or truth values of NumPy."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def read_column(
    series: Any, *, missing: Iterable[str] = UNKNOWN, known_as_number: bool = False
) -> Column:
    """Kind and values of a column, by the rules in `naim3l.files.readers.kinds`.

    Parameters
    ----------
    series : Series of shape (n_rows,)
    missing : iterable of str
        Words for a missing cell.
    known_as_number : bool
        Read the column as numbers, even if many of its cells are odd.
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
        if isinstance(cell, TIMES):
            return Column("date", _objects(codes, cells), cell)
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
    """Cells of a column as text, None where missing, even if all of them are numbers."""
    try:
        codes, cells = _known_cells(series, missing)
    except TypeError:
        example = quote(series.dropna().iloc[0])
        raise ReadError(
            f"{source_of(series)}, column {quote(series.name)}: cells that are neither words nor "
            f"numbers, such as {example}."
        ) from None
    return _as_text(codes, cells)


def read_dates(series: Any, *, missing: Iterable[str] = UNKNOWN) -> NDArray[Any]:
    """Cells of a column of dates, None where missing."""
    return _objects(*_known_cells(series, missing))


def _known_cells(series: Any, missing: Iterable[str]) -> tuple[NDArray[np.intp], list[Any]]:
    """Code of each row, -1 where missing, and the distinct cells that codes stand for."""
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
    """Kind and values of a column in which some cells are not numbers."""
    if odd.n == odd.n_known:
        if all(map(is_date_like, cells)):
            wrong = next((cell for cell in cells if days(cell) is None), None)
            if wrong is not None:
                return Column("other date", np.empty(0), wrong)
            return Column("date", _as_text(codes, cells), cells[0])
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
    """Text of each row; whole numbers have no decimal point, as in text files."""
    return _objects(codes, [as_text(cell) for cell in cells])


def _objects(codes: NDArray[np.intp], cells: Sequence[Any]) -> NDArray[Any]:
    """Object of each row, None where missing."""
    objects = np.full(len(cells) + 1, None, dtype=object)  # the last is for code -1
    objects[:-1] = cells
    return objects[codes]
