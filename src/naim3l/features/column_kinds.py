"""Kinds of the columns of a table: numbers, text, dates and truth values, and their cells."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from naim3l._text import quote
from naim3l.features.dates import days, days_of_array
from naim3l.input.tables import Table, is_missing, is_unknown

# Kinds are stored as positions in this list.
KINDS = ("number", "text", "date", "boolean")
NUMBER, TEXT, DATE, BOOLEAN = range(len(KINDS))
CELLS = len(KINDS)  # the kind of a column that only its cells tell


def types_of(table: Table, text: Collection[str] = ()) -> NDArray[np.int8]:
    """Kinds of the columns by their types, (n_columns,); `CELLS` where these do not tell.

    Parameters
    ----------
    table : Table
        Columns of arrays are numbers, or truth values if their type is.
    text : collection of str
        Columns that are text, even if their cells are numbers.
    """
    if table.frame is None:
        return np.full(table.shape[1], BOOLEAN if table.data.dtype == bool else NUMBER, np.int8)
    as_text = set(text)
    names, dtypes = table.columns or [""] * table.shape[1], table.frame.schema.dtypes()
    types = [TEXT if name in as_text else _type(table, j, dtype)
             for j, (name, dtype) in enumerate(zip(names, dtypes, strict=True))]  # fmt: skip
    return np.array(types, dtype=np.int8)


def _type(table: Table, j: int, dtype: Any) -> int:
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
    return CELLS


def as_text(cell: Any) -> str:
    """Text of a known cell; whole numbers have no decimal point, as in text files."""
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell)


def texts_of(table: Table, j: int) -> list[str | None]:
    """Cells of a column as text, None where missing."""
    cells, counts = count_cells(table, j)
    texts = {None: None} | {cell: as_text(cell) for cell in counts if not is_unknown(cell)}
    return [texts.get(cell) for cell in cells]


def days_of(table: Table, j: int) -> Any:
    """Cells of a column of dates as numbers of days, (n_rows,), NaN where missing."""
    if table.frame is not None:
        values = table.frame[:, j].to_numpy()
        if values.dtype.kind in "mM":  # at once: cell by cell is slow
            return days_of_array(values)
    cells, counts = count_cells(table, j)
    numbers = {cell: days(cell) for cell in counts if not is_unknown(cell)}
    for cell, number in numbers.items():
        if number is None:
            raise ValueError(
                f"{table.place(cells.index(cell), j)}: {quote(cell)} is not a date, as other "
                "cells of the column are; write dates like 2024-01-31, or give them the type of "
                "dates."
            )
    return [number if (number := numbers.get(cell)) is not None else np.nan for cell in cells]


def count_cells(table: Table, j: int) -> tuple[list[Any], Counter[Any]]:
    """Cells of a column, and in how many rows each is that is not missing.

    Raises
    ------
    ValueError, TypeError
        If there is a cell that cannot be read or compared, which the error names.
    """
    try:
        cells = table.cells(j)
    except OverflowError as error:  # Python's dates end with the year 9999
        where = f"{table.where}, {table.column_label(j)}"
        raise ValueError(f"{where}: {error}; leave the column out.") from error
    try:
        counts = Counter(cells)
    except TypeError:  # such as lists
        i = next(i for i, cell in enumerate(cells) if not _has_hash(cell))
        raise TypeError(
            f"{table.place(i, j)}: {quote(cells[i])} is not a number, text or date; leave the "
            "column out, or give this view a transformer that accepts it."
        ) from None
    for cell in [cell for cell in counts if is_missing(cell)]:
        del counts[cell]
    return cells, counts


def _has_hash(cell: Any) -> bool:
    try:
        hash(cell)
    except TypeError:
        return False
    return True
