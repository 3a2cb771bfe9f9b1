"""Dates and times as numbers of days, which is how models use them."""

import datetime
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    Examples
    --------
    >>> days("1970-01-11 12:00"), days("11.1.1970")
    (10.5, None)
    """
    if isinstance(cell, str):
        cell = _parse(cell.strip())
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


def _parse(text: str) -> datetime.datetime | None:
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
