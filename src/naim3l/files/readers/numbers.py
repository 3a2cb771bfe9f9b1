"""Numbers in text: decimal points and commas, and cells that are similar to numbers."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

POINT, COMMA = ".", ","
_DIGITS = {sign: rf"(?:\d+(?:{re.escape(sign)}\d*)?|{re.escape(sign)}\d+)" for sign in ".,"}
_EXPONENT = r"(?:e[+-]?\d+)?"
_NUMBER = {
    sign: re.compile(rf"[+-]?(?:{digits}{_EXPONENT}|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
    for sign, digits in _DIGITS.items()
}
_GROUPS = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?:[.,]\d+)?"
_THOUSANDS = re.compile(rf"[+-]?{_GROUPS}", re.ASCII)
_LIKE_A_NUMBER = re.compile(
    rf"[<>≤≥=~≈$€£\s]*[+-]?(?:{_DIGITS[POINT]}|{_DIGITS[COMMA]}|{_GROUPS}){_EXPONENT}\s*%?",
    re.ASCII | re.IGNORECASE,
)
_SHORT = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_ONE_GROUP = {
    sign: re.compile(rf"[+-]?[1-9]\d{{0,2}}{re.escape(sign)}\d{{3}}", re.ASCII) for sign in ".,"
}
_CODE = re.compile(r"[A-Za-z]{1,3}[-_.]?\d[\w.-]*", re.ASCII)
# Number of different codes that make a column with numbers one of codes.
_SEVERAL = 3


def read_numbers(cells: Sequence[Any], decimal: str) -> list[float | None]:
    """Number of each cell, None if it is not a number; no cell may be missing."""
    spelt = _NUMBER[decimal]
    numbers: list[float | None] = []
    for cell in cells:
        if isinstance(cell, str):
            text = cell.strip()
            is_number = spelt.fullmatch(text) is not None
            numbers.append(float(text.replace(decimal, ".")) if is_number else None)
        else:
            numbers.append(_as_float(cell))
    return numbers


def choose_decimal(cells: Sequence[Any], counts: NDArray[np.intp], *, commas: bool) -> str:
    """The decimal separator with which more cells are numbers; the point if both are equal.

    Parameters
    ----------
    cells : sequence
        Distinct cells of the column, none of them missing.
    counts : ndarray of int, of shape (n_cells,)
        Number of rows with each cell.
    commas : bool
        Whether a decimal comma is possible.
    """
    if not commas:
        return POINT

    def n_numbers(decimal: str) -> int:
        spelt = [number is not None for number in read_numbers(cells, decimal)]
        return int(counts[np.array(spelt, dtype=bool)].sum())

    return COMMA if n_numbers(COMMA) > n_numbers(POINT) else POINT


def has_thousands(cell: Any) -> bool:
    """Whether a cell is a number in groups of three digits, such as 1.234,5 or 12,500."""
    return isinstance(cell, str) and _THOUSANDS.fullmatch(cell.strip()) is not None


def looks_like_a_number(cell: Any) -> bool:
    """Whether a cell is a number with additional characters: <0.5, 12 %, 1,234.5."""
    return isinstance(cell, str) and _LIKE_A_NUMBER.fullmatch(cell.strip()) is not None


def are_codes(cells: Sequence[Any], counts: NDArray[np.intp]) -> bool:
    """Whether cells that are not numbers are mostly codes, such as V45, and several of them."""
    marks = [isinstance(cell, str) and bool(_CODE.fullmatch(cell.strip())) for cell in cells]
    coded = np.array(marks, dtype=bool)
    return bool(coded.sum() >= _SEVERAL and 2 * counts[coded].sum() >= counts.sum())


def perhaps_thousands(cells: Iterable[Any], decimal: str) -> str | None:
    """A cell whose decimal separator may be a thousands separator; None if it is not ambiguous.

    It is ambiguous if all cells with the separator have one to three digits before it and three
    after it, and all others are whole numbers below 1000, such as 950 and 1.234. Without the
    latter, the two readings of the column differ only in scale.
    """
    example, has_short = None, False
    for cell in cells:
        text = str(cell).strip()
        if _ONE_GROUP[decimal].fullmatch(text):
            example = example or text
        elif _SHORT.fullmatch(text):
            has_short = True
        else:
            return None
    return example if has_short else None


def _as_float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:  # an integer of hundreds of digits, which as text is infinite, too
        return math.inf if cell > 0 else -math.inf
