"""What a cell spells: a number with a decimal point or comma, a date, a code, or a word."""

import datetime
import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

READINGS = POINT, COMMA = ".", ","
UNIT = "unit "  # begins the reading of a number with a unit, such as "unit min"
NUMBERS = (int, float, Decimal, np.number, np.bool_)
_FLAGS = re.ASCII | re.IGNORECASE
_DIGITS = {sign: rf"(?:\d+(?:{re.escape(sign)}\d*)?|{re.escape(sign)}\d+)" for sign in READINGS}
_EXPONENT = r"(?:e[+-]?\d+)?"
# The ends of a scale, such as >= 85, less than 1, 80+, 7 or more people.
_BEFORE = r"(?:[<>]=?|[≤≥]|under|over|at (?:least|most)|(?:less|fewer|more) than)"
_AFTER = (
    r"(?:\+|(?:[a-z]+ )*(?:or|and) (?:more|less|fewer|over|under|above|below|older|younger|up))"
    r"(?: [a-z ]+)?"
)
_END = re.compile(rf"^{_BEFORE}|{_AFTER}$", _FLAGS)
_NUMBER = {
    sign: re.compile(
        rf"(?:{_BEFORE}\s*)?([+-]?(?:{digits}{_EXPONENT}|inf(?:inity)?))(?:\s*{_AFTER})?", _FLAGS
    )
    for sign, digits in _DIGITS.items()
}
_MEASURE = re.compile(r"(\d{1,15}(?:\.\d+)?)(?: +([^\W\d_]+(?:/[^\W\d_]+)?)| *(%))")  # 90 min
_GROUPS = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?:[.,]\d+)?"  # 1.234,5 or 12,500
_THOUSANDS = re.compile(rf"[+-]?{_GROUPS}", re.ASCII)
# With additional characters: <0.5, 12 %, 1,234.5.
_LIKE_A_NUMBER = re.compile(
    rf"[<>≤≥=~≈$€£\s]*[+-]?(?:{_DIGITS[POINT]}|{_DIGITS[COMMA]}|{_GROUPS}){_EXPONENT}\s*%?", _FLAGS
)
_ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)  # 1.234 may be 1234
_SHORT = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_MIXED_CODE = re.compile(r"[A-Za-z]{1,3}[-_.]?\d[\w.-]*", re.ASCII)  # V45


def tags_of(cell: Any) -> tuple[list[str], dict[str, float]]:
    """Tags of a known cell, and its value by reading: ".", ",", "truth", `UNIT`, `ORDERS` of dates.

    Every cell is "number." and "number," if it is a number, or spells one with a decimal point or
    comma, "end." and "end," if it spells the end of a scale, such as 80+, otherwise "odd." and
    "odd,". Further tags are "truth", also of the words true and false;
    "date-like", with "date" or "undated", if it cannot be read; of dates with the year last, the
    one of `ORDERS` in which they can be read, or "either" if both can and differ; "like" if it is
    similar to a number; "code"; "thousands." and "thousands," for odd cells with groups of digits;
    "group," for one group after a comma, and "short" for less than one; "strange" for other
    objects.
    """
    if isinstance(cell, str):
        return _text_tags(cell.strip())
    if isinstance(cell, NUMBERS):
        truth = ["truth"] if isinstance(cell, bool | np.bool_) else []
        readings = dict.fromkeys((*READINGS, *truth), as_number(cell))
        return [*truth, "number.", "number,", "like"], readings
    if isinstance(cell, TIMES):
        tags, values = _date_tags(cell)
        return ["odd.", "odd,", *tags], values
    return (["odd.", "odd,"] if isinstance(cell, UUID) else ["strange"]), {}


@lru_cache(maxsize=10_000)  # batches mostly have the same words
def _text_tags(text: str) -> tuple[list[str], dict[str, float]]:
    read = {sign: spelled_number(text, sign) for sign in READINGS}
    values = {sign: number for sign, number in read.items() if number is not None}
    kind = "end" if _END.search(text) else "number"
    tags = [f"{kind if sign in values else 'odd'}{sign}" for sign in READINGS]
    if _THOUSANDS.fullmatch(text):
        tags += [f"thousands{sign}" for sign in READINGS if sign not in values]
    if (values and kind == "number") or _LIKE_A_NUMBER.fullmatch(text):
        tags.append("like")
    if COMMA in values:
        tags += ["group,"] if POINT not in values and _ONE_GROUP.fullmatch(text) else []
        tags += ["short"] if _SHORT.fullmatch(text) else []
    if values:
        return tags, values
    if (measure := spelled_measure(text)) is not None:
        return tags, {UNIT + measure[1]: measure[0]}
    tags += ["code"] if _MIXED_CODE.fullmatch(text) else []
    if (truth := spelled_truth(text)) is not None:
        return [*tags, "truth"], {"truth": truth}
    more, values = _date_tags(text) if is_date_like(text) else ([], {})
    return tags + more, values


def _date_tags(cell: Any) -> tuple[list[str], dict[str, float]]:
    if (number := days(cell)) is not None:
        return ["date-like", "date"], dict.fromkeys(ORDERS, number)
    read = {order: days(cell, order) for order in ORDERS}
    values = {order: number for order, number in read.items() if number is not None}
    if not values:
        return ["date-like", "undated"], {}
    order = [*values] if len(values) == 1 else ["either"] * (len({*values.values()}) > 1)
    return ["date-like", "date", "year-last", *order], values


def spelled_number(text: str, decimal: str) -> float | None:
    """Number that text spells with a decimal point or comma, also as an end; None if none."""
    found = _NUMBER[decimal].fullmatch(text.strip())
    return None if found is None else float(found[1].replace(decimal, "."))


def spelled_measure(text: str) -> tuple[float, str] | None:
    """Number and unit of text such as 90 min; long units are without case and plural."""
    if (found := _MEASURE.fullmatch(text.strip())) is None:
        return None
    unit = found[2] or found[3]
    return float(found[1]), unit.casefold().removesuffix("s") if len(unit) > 3 else unit


def spelled_truth(text: str) -> float | None:
    """1 for true and 0 for false, in any case; None for other text."""
    return {"true": 1.0, "false": 0.0}.get(text.strip().casefold())


def as_number(cell: Any) -> float:
    """A number of any type as a float; whole numbers of hundreds of digits are infinite."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


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
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}|\d{{2}}){_TIME}", re.ASCII)
_BYTES = re.compile(r"b(['\"])(.*)\1")  # b'23:00', as some programs write text
_CLOCK = re.compile(r"(\d{1,2})(:\d\d(?::\d\d(?:[.,]\d+)?)?)(?: ?([AP])M)?(.*)", _FLAGS)
_WEEK_OR_MONTH = re.compile(r"\d{4}(-?W\d\d(-?\d)?|-\d\d)", re.ASCII)  # 2021-W26-3, 2021-06
# Of dates with the year last, of which a day above 12 tells, for the whole column.
ORDERS = DAY_FIRST, MONTH_FIRST = "day first", "month first"


def is_date_like(cell: Any) -> bool:
    """Whether a cell is a date or time, or text that is written like a date.

    Times of day, weeks and months are only those that there are: 14:75 and 2021-13 may be codes.
    """
    if isinstance(cell, str):
        text = cell.strip()
        forms = _YEAR_FIRST, _YEAR_LAST
        return any(form.fullmatch(text) for form in forms) or days(text) is not None
    return isinstance(cell, TIMES)


def days(cell: Any, order: str = "") -> float | None:
    """Days since 1970-01-01, or of a duration or time of day; None if a cell is none of these.

    Text with the year last, in four digits, is read in one of `ORDERS`, and not without one. A week
    is its Monday, a month its first day. Times with a time zone are converted to UTC.
    """
    if isinstance(cell, str):
        cell = _parse_date(cell.strip(), order)
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
    """Why text that is written like a date cannot be read as one in any order, see `days`."""
    found = _YEAR_LAST.fullmatch(text.strip())
    if found is not None and len(found[4]) == 2:
        return "the order of year, month and day is ambiguous"
    return "there is no such day or time"


def days_of_array(values: NDArray[Any]) -> NDArray[np.float64]:
    """`days` of times of NumPy, NaN for NaT."""
    unit = np.datetime_data(values.dtype)
    if unit not in (("s", 1), ("ms", 1)):  # microseconds cannot count all of their dates
        values, unit = values.astype(f"{values.dtype.kind}8[us]"), ("us", 1)
    ticks = {"s": 1, "ms": 10**3, "us": 10**6}[unit[0]] * _DAY.total_seconds()
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / ticks)


def _parse_date(text: str, order: str) -> datetime.datetime | datetime.date | datetime.time | None:
    """The date or time that text spells; None if there is no such day or time."""
    try:
        if _WEEK_OR_MONTH.fullmatch(text):
            return datetime.date.fromisoformat(text if "W" in text else f"{text}-01")
        if (found := _YEAR_FIRST.fullmatch(text)) is not None:
            year, _, month, day, time = found.groups()
        elif order and (found := _YEAR_LAST.fullmatch(text)) is not None and len(found[4]) == 4:
            day, _, month, year, time = found.groups()
            if order == MONTH_FIRST:
                day, month = month, day
        else:
            clock = _parse_time(text)
            return None if clock is None or clock.tzinfo else clock
        date, clock = datetime.date(int(year), int(month), int(day)), _parse_time(time or "0:00")
        return None if clock is None else datetime.datetime.combine(date, clock)
    except ValueError:
        return None


def _parse_time(text: str) -> datetime.time | None:
    """Time of day, of 24 hours, or of 12 before AM or PM, with or without a time zone."""
    if (found := _CLOCK.fullmatch(_BYTES.sub(r"\2", text.strip()))) is None:
        return None
    hour, (rest, half, zone) = int(found[1]), found.groups()[1:]
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half in "pP")
    zone = {"UTC": "Z", "GMT": "Z"}.get(zone.strip(), zone.strip())
    return datetime.time.fromisoformat(f"{hour:02}{rest}{zone}")
