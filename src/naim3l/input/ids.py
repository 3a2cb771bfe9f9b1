"""Ids of rows, as text with all digits, the same for all file formats."""

from decimal import Decimal
from typing import Any

from naim3l._origin import Origin
from naim3l._text import quote
from naim3l.files.errors import ReadError, load_extra
from naim3l.input.batches import is_missing


def set_ids(frame: Any, id_column: str, origin: Origin, *, unique: bool = True) -> Any:
    """A pandas table with ids, as text, as its index; refuses missing ids, and equal ones."""
    ids, seen = [id_text(cell) for cell in frame[id_column].tolist()], dict[str, int]()
    for row, text in enumerate(ids):
        place = origin.place(row, f"column {id_column!r}") if text is None or text in seen else ""
        if text is None:
            raise ReadError(f"{place}: an id is missing; fill it in, or leave the id column out.")
        if unique and text in seen:
            raise ReadError(
                f"{place}: id {quote(text)} is already that of row {seen[text]}; ids must differ: "
                "remove one of the rows, or leave the id column out."
            )
        seen[text] = row
    rest = frame.drop(columns=id_column)
    rest.index = load_extra("pandas").Index(ids, name=id_column, dtype=object)
    return rest


def id_text(cell: Any) -> str | None:
    """An id as text; None if it is missing."""
    if is_missing(cell):
        return None
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = format(cell, "f") if isinstance(cell, Decimal) else str(cell)
    return text.strip() or None
