"""Kinds of the columns of a table: numbers, text, dates and truth values, and their cells."""

from collections import Counter
from collections.abc import Collection
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from naim3l._text import quote
from naim3l.features.dates import days, days_of_array, is_date_like, why_no_date
from naim3l.input.tables import Table, is_missing, is_unknown

# Kinds are stored as positions in this list.
KINDS = ("number", "text", "date", "boolean")
NUMBER, TEXT, DATE, BOOLEAN = range(len(KINDS))

_TRUTH = (bool, np.bool_)
_AMOUNTS = (int, float, Decimal, np.number)


def find_kinds(table: Table, text: Collection[str] = ()) -> NDArray[np.int8]:
    """Kind of each column, (n_columns,), as positions in `KINDS`.

    Parameters
    ----------
    table : Table
        Columns of arrays are numbers, or truth values if their type is.
    text : collection of str
        Columns that are text, even if their cells are numbers.

    Raises
    ------
    ValueError
        If a column of text consists of numbers for the most part, or of dates whose order of day
        and month is ambiguous.
    TypeError
        If a column has cells that are neither numbers nor text nor dates.
    """
    if table.frame is None:
        return np.full(table.shape[1], BOOLEAN if table.data.dtype == bool else NUMBER, np.int8)
    as_text = set(text)
    names, dtypes = table.columns or [""] * table.shape[1], table.frame.schema.dtypes()
    kinds = [TEXT if name in as_text else _kind(table, j, dtype)
             for j, (name, dtype) in enumerate(zip(names, dtypes, strict=True))]  # fmt: skip
    return np.array(kinds, dtype=np.int8)


def as_text(cell: Any) -> str:
    """Text of a known cell; whole numbers have no decimal point, as in text files."""
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell)


def texts_of(table: Table, j: int) -> list[str | None]:
    """Cells of a column as text, None where missing."""
    texts = {None: None} | {cell: as_text(cell) for cell in _count(table, j)}
    return [texts.get(cell) for cell in table.cells(j)]


def count_known(table: Table) -> NDArray[np.int_]:
    """Number of known cells of each column, (n_columns,); words for missing cells are unknown."""
    n_known = table.shape[0] - np.asarray(table.missing().sum(axis=0)).ravel()
    if table.frame is not None:
        for j, dtype in enumerate(table.frame.schema.dtypes()):
            if dtype in (nw.String, nw.Object, nw.Categorical, nw.Enum):
                n_known[j] = sum(not is_unknown(cell) for cell in table.cells(j))
    return n_known


def days_of(table: Table, j: int) -> Any:
    """Cells of a column of dates as numbers of days, (n_rows,), NaN where missing."""
    if table.frame is not None:
        values = table.frame[:, j].to_numpy()
        if values.dtype.kind in "mM":  # at once: cell by cell is slow
            return days_of_array(values)
    numbers = {cell: days(cell) for cell in _count(table, j)}
    for cell, number in numbers.items():
        if number is None:
            raise ValueError(
                f"{_place(table, j, cell)}: {quote(cell)} is not a date, as other cells of the "
                "column are; write dates like 2024-01-31, or give them the type of dates."
            )
    return [number if (number := numbers.get(cell)) is not None else np.nan
            for cell in table.cells(j)]  # fmt: skip


def _kind(table: Table, j: int, dtype: Any) -> int:
    if dtype == nw.Boolean:
        return BOOLEAN
    if dtype.is_numeric():
        return NUMBER
    if dtype.is_temporal():
        return DATE
    if dtype in (nw.Categorical, nw.Enum):
        return TEXT
    assert table.frame is not None
    if dtype != nw.String and table.frame[:, j].to_numpy().dtype.kind in "fiub":
        return NUMBER  # pandas stores them as "Sparse"
    return _kind_of_cells(table, j)


def _kind_of_cells(table: Table, j: int) -> int:
    counts = _count(table, j)
    if all(isinstance(cell, (*_TRUTH, *_AMOUNTS)) for cell in counts):
        if any(isinstance(cell, str) for cell in table.cells(j)):  # such as "?"
            if not counts:
                return TEXT
            _refuse_numbers_as_text(table, j, counts.total())
        return BOOLEAN if counts and all(isinstance(cell, _TRUTH) for cell in counts) else NUMBER
    if all(map(is_date_like, counts)):
        _check_order(table, j, counts)
        return DATE
    for cell in counts:
        if not isinstance(cell, (str, UUID, *_AMOUNTS, *_TRUTH)):
            raise TypeError(
                f"{_place(table, j, cell)}: {quote(cell)} is not a number, nor text like other "
                "cells of the column, nor is the column one of dates; correct it, or leave the "
                "column out."
            )
    n_numbers = sum(n for cell, n in counts.items() if _spells_number(cell))
    if 2 * n_numbers >= counts.total():
        _refuse_numbers_as_text(table, j, n_numbers)
    return TEXT


def _count(table: Table, j: int) -> Counter[Any]:
    """Known cells of a column, and in how many rows they are."""
    try:
        cells = table.cells(j)
    except OverflowError as error:  # Python's dates end with the year 9999
        where = f"{table.where}, {table.column_label(j)}"
        raise ValueError(f"{where}: {error}; leave the column out.") from error
    try:
        counts = Counter(cells)
    except TypeError:  # such as lists
        strange = next(i for i, cell in enumerate(cells) if getattr(cell, "__hash__", 0) is None)
        raise TypeError(
            f"{table.place(strange, j)}: {quote(cells[strange])} is not a number, text or date; "
            "leave the column out, or give this view a transformer that accepts it."
        ) from None
    return Counter({cell: n for cell, n in counts.items() if not is_unknown(cell)})


def _spells_number(cell: Any) -> bool:
    if not isinstance(cell, str):
        return isinstance(cell, (*_TRUTH, *_AMOUNTS))
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def _refuse_numbers_as_text(table: Table, j: int, n_numbers: int) -> NoReturn:
    cells = [(i, cell) for i, cell in enumerate(table.cells(j)) if not is_missing(cell)]
    odd = [(i, cell) for i, cell in cells if not _spells_number(cell)]
    i, cell = next(iter(odd or [(i, cell) for i, cell in cells if isinstance(cell, str)]))
    column = _in_pandas(table, j)
    cure = f".replace({cell!r}, np.nan)" if odd else ""
    raise ValueError(
        f"{table.place(i, j)}: {quote(cell)} is text, though {n_numbers} of {len(cells)} cells of "
        f"the column are numbers. Convert it, in pandas with {column}{cure}.astype(float); if its "
        f'values are codes and not amounts, with {column}.astype("category").'
    )


def _check_order(table: Table, j: int, cells: Collection[Any]) -> None:
    """Refuse text that is written like a date, but is none that can be read."""
    wrong = next((cell for cell in cells if days(cell) is None), None)
    if wrong is not None:
        raise ValueError(
            f"{_place(table, j, wrong)}: {quote(wrong)} cannot be read as a date: "
            f"{why_no_date(wrong)}. Write dates like 2024-01-31, in pandas with to_datetime; if "
            f'the values are codes and not dates, use {_in_pandas(table, j)}.astype("category").'
        )


def _in_pandas(table: Table, j: int) -> str:
    return f"table[{table.columns[j]!r}]" if table.columns else "the column"


def _place(table: Table, j: int, cell: Any) -> str:
    return table.place(table.cells(j).index(cell), j)
