"""Columns with the ids of rows: detection by name, and ids as text with all digits."""

import uuid
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from naim3l.files.readers.cells import distinct
from naim3l.files.readers.errors import ReadError, close_names, load_extra, place, quote, source_of
from naim3l.files.readers.kinds import is_plain
from naim3l.input.id_columns import FEWEST_COUNTED, in_order_of_names, why_id


def guess_id(table: Any, *, other_than: Collection[str] = ()) -> tuple[str | None, str]:
    """The likely id column, and the reason; None and "" if there is none.

    It is named like an id, or is the first column and looks like an id by its cells, see
    `naim3l.input.id_columns`, or is the only column of codes; and its cells differ.

    Parameters
    ----------
    table : DataFrame
        From `read_table`.
    other_than : collection of str
        Columns that are known to have another role.
    """
    columns = [str(name) for name in table.columns]
    for name in in_order_of_names(columns):
        if name not in other_than and _all_differ(table[name]):
            return name, "named like an id, and its values differ"
    if columns[0] not in other_than and _all_differ(table[columns[0]]):
        reason = why_id(columns[0], table[columns[0]].tolist())
        if reason:
            return columns[0], f"the first column, and {reason}"
    codes = _columns_of_codes(table, {*other_than, columns[0]})
    if len(codes) == 1 and len(table) >= FEWEST_COUNTED:
        ((name, reason),) = codes.items()
        return name, f"{reason}, as in no other column"
    return None, ""


def _columns_of_codes(table: Any, other_than: Collection[str]) -> dict[str, str]:
    """Columns of text that look like ids by their cells, and the reasons."""
    names = [str(name) for name, dtype in table.dtypes.items() if not is_plain(dtype)]
    texts = [name for name in names if name not in other_than]
    reasons = {name: why_id(name, table[name].tolist()) for name in texts}
    return {name: why for name, why in reasons.items() if why and _all_differ(table[name])}


def set_ids(table: Any, id_column: str, *, unique: bool = True) -> Any:
    """The table with ids, as text, as its index; refuses missing ids, and equal ones if unique."""
    if id_column not in table.columns:
        raise ReadError(
            f"{source_of(table)}: no id column {quote(id_column)}; "
            f"{close_names(id_column, table.columns)}"
        )
    ids = [_id_text(cell) for cell in table[id_column].tolist()]
    _check_ids(table, id_column, ids, unique)
    pandas = load_extra("pandas")
    rest = table.drop(columns=id_column)
    rest.index = pandas.Index(ids, name=id_column, dtype=object)
    if not len(rest.columns):
        raise ReadError(f"{source_of(table)}: no column besides the id {quote(id_column)}.")
    return rest


def _check_ids(table: Any, id_column: str, ids: Sequence[str | None], unique: bool) -> None:
    seen: dict[str, int] = {}
    for row, text in enumerate(ids):
        if text is None:
            raise ReadError(
                f"{place(table, row, id_column)}: an id is missing; fill it in, or leave the id "
                "column out."
            )
        if unique and text in seen:
            raise ReadError(
                f"{place(table, row, id_column)}: id {quote(text)} is already that of row "
                f"{seen[text]}; ids must differ: remove one of the rows, or leave the id column "
                "out."
            )
        seen[text] = row


def _id_text(cell: Any) -> str | None:
    """An id as text, the same for all file formats; None if missing."""
    if cell is None or cell != cell:
        return None
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = format(cell, "f") if isinstance(cell, Decimal) else str(cell)
    return text.strip() or None


def _all_differ(series: Any) -> bool:
    """Whether no cell is missing or occurs twice; always False for floats and dates."""
    try:
        codes, cells = distinct(series)
    except TypeError:
        return False
    named = all(_can_name(cell) for cell in cells)
    return named and len(cells) == len(series) and bool((codes >= 0).all())


def _can_name(cell: Any) -> bool:
    if isinstance(cell, Decimal):
        return cell == cell.to_integral_value()
    return isinstance(cell, str | int | np.integer | uuid.UUID) and not isinstance(cell, bool)
