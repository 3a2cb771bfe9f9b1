"""What a cell of text spells: a number with a decimal point or comma, a date, a code, or a word."""

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

POINT, COMMA = ".", ","
NUMBERS = (int, float, Decimal, np.number, np.bool_)
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
_ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_SHORT = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_MIXED_CODE = re.compile(r"[A-Za-z]{1,3}[-_.]?\d[\w.-]*", re.ASCII)


def spelled_number(text: str, decimal: str) -> float | None:
    """Number that text spells with a decimal point or comma; None if it is not a number.

    >>> spelled_number(" 1,5", COMMA), spelled_number("1,5", POINT)
    (1.5, None)
    """
    stripped = text.strip()
    if _NUMBER[decimal].fullmatch(stripped) is None:
        return None
    return float(stripped.replace(decimal, "."))


def spelled_truth(text: str) -> float | None:
    """1 for true and 0 for false, in any case; None for other text."""
    return {"true": 1.0, "false": 0.0}.get(text.strip().casefold())


def as_number(cell: Any) -> float:
    """A number of any type as a float; whole numbers of hundreds of digits are infinite."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def _spells(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text.strip()) is not None


has_thousands = _spells(_THOUSANDS)  # a number in groups of three digits: 1.234,5 or 12,500
looks_like_a_number = _spells(_LIKE_A_NUMBER)  # with additional characters: <0.5, 12 %, 1,234.5
is_mixed_code = _spells(_MIXED_CODE)  # of letters and digits, such as V45
is_one_group = _spells(_ONE_GROUP)  # one to three digits, a sign and three more: 1.234 may be 1234
is_short = _spells(_SHORT)  # a whole number below 1000


def as_text(cell: Any) -> str:
    """Text of a known cell; whole numbers have no decimal point, as in text files."""
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell)


# Dates and times as numbers of days, which is how models use them.

TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY, _MICROSECOND = datetime.timedelta(days=1), datetime.timedelta(microseconds=1)
_TIME = r"(?:[T ](\d{1,2}:\d\d.*))?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_TIME}", re.ASCII)
_YEAR_LAST = re.compile(rf"\d{{1,2}}([-/.])\d{{1,2}}\1(\d{{4}}|\d{{2}}){_TIME}", re.ASCII)


def is_date_like(cell: Any) -> bool:
    """Whether a cell is a date or time, or text that is written like a date."""
    if isinstance(cell, str):
        text = cell.strip()
        return any(form.fullmatch(text) for form in (_YEAR_FIRST, _YEAR_LAST))
    return isinstance(cell, TIMES)


def days(cell: Any) -> float | None:
    """Days since 1970-01-01, or of a duration or time of day; None if a cell is none of these.

    Text must have the year first, since the order of day and month is ambiguous otherwise. Times
    with a time zone are converted to UTC.

    >>> days("1970-01-11 12:00"), days("11.1.1970")
    (10.5, None)
    """
    if isinstance(cell, str):
        cell = _parse_date(cell.strip())
    if isinstance(cell, np.datetime64 | np.timedelta64):
        cell = cell.astype(f"{cell.dtype.kind}8[us]").item()
    if isinstance(cell, datetime.datetime):
        if cell.tzinfo is not None:
            cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
        return float((cell - _EPOCH) / _DAY)
    if isinstance(cell, datetime.date):
        return float((cell - _EPOCH.date()).days)
    if isinstance(cell, datetime.time):
        return (datetime.datetime.combine(_EPOCH, cell.replace(tzinfo=None)) - _EPOCH) / _DAY
    return float(cell / _DAY) if isinstance(cell, datetime.timedelta) else None


def why_no_date(text: str) -> str:
    """Why text that is written like a date cannot be read as one, see `days`."""
    if _YEAR_FIRST.fullmatch(text.strip()):
        return "there is no such day or time"
    return "the order of day and month is ambiguous"


def days_of_array(values: NDArray[Any]) -> NDArray[np.float64]:
    """`days` of times of NumPy, NaN for NaT."""
    microseconds = values.astype(f"{values.dtype.kind}8[us]").astype(np.int64)
    return np.where(np.isnat(values), np.nan, microseconds / (_DAY / _MICROSECOND))


def _parse_date(text: str) -> datetime.datetime | None:
    found = _YEAR_FIRST.fullmatch(text)
    if found is None:
        return None
    year, _, month, day, time = found.groups()
    try:
        date = datetime.date(int(year), int(month), int(day))
        clock = (time or "00:00").strip().rjust(5, "0")
        return datetime.datetime.combine(date, datetime.time.fromisoformat(clock))
    except ValueError:  # no such day or time
        return None
