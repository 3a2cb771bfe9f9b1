"""What text spells: numbers, dates, codes; and dates of every type as days."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naim3l.features.cells import (
    COMMA,
    DAY_FIRST,
    MONTH_FIRST,
    POINT,
    as_number,
    as_text,
    days,
    days_of_array,
    is_date_like,
    spelled_measure,
    spelled_number,
    spelled_truth,
    tags_of,
    why_no_date,
)

AT = datetime.datetime(2024, 1, 31, 18, 0)
SINCE_EPOCH = (AT - datetime.datetime(1970, 1, 1)).total_seconds() / 86400


@given(st.floats(allow_nan=False))
def test_every_number_is_read_with_its_decimal_sign(number):
    text = repr(number)
    assert spelled_number(f" {text} ", POINT) == number
    assert spelled_number(text.replace(".", ","), COMMA) == number
    if "." in text:
        assert spelled_number(text, COMMA) is None


@pytest.mark.parametrize(
    "text",
    ["", "1,5", "1.2.3", "0x10", "1_000", "1e", ".", "nan", "١", "1 000", "~1", "5%", "--1", "1d"],
)
def test_other_text_is_no_number(text):
    assert spelled_number(text, POINT) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12 %", "like"),
        ("€ 1.234,50", "like"),
        ("1.234,5", "like thousands. thousands,"),
        ("12,500", "like thousands. group,"),
        ("1.234", "like thousands,"),
        ("1 234 567", "like thousands. thousands,"),
        ("1'234", "like thousands. thousands,"),
        ("0,123", "like thousands."),
        (" -999", "like short"),
        ("1000", "like"),
        ("V45", "code"),
        ("E11.9", "code"),
        ("high", ""),
        ("True", "truth"),
        ("2024-01-31", "date-like date"),
        ("31.1.2024", "date-like date year-last day_first"),
        ("1/31/2024 9:30", "date-like date year-last month_first"),
        ("1/2/2024", "date-like date year-last either"),
        ("2/2/2024", "date-like date year-last"),
        ("31.1.24", "date-like undated"),
    ],
)
def test_text_that_is_similar_to_numbers(text, expected):
    tags, values = tags_of(text)
    numbers = {f"{'number' if sign in values else 'odd'}{sign}" for sign in (POINT, COMMA)}
    expected = {tag.replace("_", " ") for tag in expected.split()}
    assert set(tags) == expected | numbers and len(tags) == len(set(tags))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("<0.5", 0.5),
            ("≥ 3", 3),
            (">= 85", 85),
            ("> -2", -2),
            ("less than 1", 1),
            ("over 9", 9),
        ),
        *(("At least 1e3", 1000), ("80+", 80), ("80 +", 80), ("4+ times", 4), ("3 or more", 3)),
        *(
            ("7 or more people in the Household", 7),
            ("80 years or older", 80),
            ("12 and under", 12),
        ),
        *(("80 years of age and over", 80), ("11 times or more", 11)),
    ],
)
def test_ends_of_a_scale_are_their_number(text, number):
    assert spelled_number(f" {text} ", POINT) == number
    tags, values = tags_of(text)
    assert "end." in tags and not {"odd.", "number."} & set(tags) and values[POINT] == number


def test_ends_have_the_decimal_sign_of_the_column():
    assert spelled_number("< 0,5", COMMA) == 0.5 and spelled_number("< 0,5", POINT) is None
    for text in ("3 or 4", "or more", "more than a few", "1 to 2", "3 or more or so 4", "+", "<"):
        assert spelled_number(text, POINT) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("90 min", (90, "min")), ("1 Season", (1, "season")), ("2 seasons", (2, "season"))),
        *(("12%", (12, "%")), ("12.5 %", (12.5, "%")), ("5 mg/l", (5, "mg/l"))),
        *(("3 ms", (3, "ms")), ("3 MB", (3, "MB")), ("3 mins", (3, "min"))),  # ms is no plural
        *((text, None) for text in ("12A", "-5 C", "1,5 kg", "3 big dogs", "min", "90", "1e3 m")),
    ],
)
def test_numbers_with_units(text, expected):
    assert spelled_measure(f" {text} ") == expected
    readings = {} if expected is None else {f"unit {expected[1]}": expected[0]}
    assert {r: of for r, of in tags_of(text)[1].items() if r.startswith("unit")} == readings


def test_truth_values_and_text_of_cells():
    assert spelled_truth(" TRUE ") == 1 and spelled_truth("False") == 0
    assert spelled_truth("yes") is spelled_truth("1") is None
    assert as_text(2.0) == as_text(np.float32(2)) == as_text(2) == "2" and as_text(2.5) == "2.5"
    assert as_number(10**400) == np.inf and as_number(-(10**400)) == -np.inf
    assert as_number(Decimal("1.5")) == 1.5


@pytest.mark.parametrize(
    "cell",
    [
        AT,
        pd.Timestamp(AT),
        np.datetime64(AT),
        "2024-01-31 18:00",
        " 2024/1/31T18:00:00.000 ",
        "2024.01.31 19:00+01:00",
        AT.replace(tzinfo=datetime.UTC),
        datetime.datetime(2024, 1, 31, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
    ],
    ids=repr,
)
def test_one_moment_in_many_types(cell):
    assert is_date_like(cell)
    assert days(cell) == pytest.approx(SINCE_EPOCH, abs=1e-9)


def test_days_durations_and_times_of_day():
    assert days(datetime.date(1970, 1, 11)) == days("1970-1-11") == 10
    assert days(datetime.date(1969, 12, 31)) == -1
    assert days(datetime.timedelta(hours=36)) == days(np.timedelta64(36, "h")) == 1.5
    assert days(datetime.time(6, 0)) == 0.25
    assert days("1970-01-01 9:36") == pytest.approx(0.4)
    assert days("3.2.1970", DAY_FIRST) == days("2/3/1970", MONTH_FIRST) == 33
    assert days("1970-2-3", MONTH_FIRST) == 33 and days("3.2.1970") is None


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("1/31/24", "the order of year, month and day is ambiguous"),
        ("31.2.2024", "there is no such day or time"),
        ("2024-02-30", "there is no such day or time"),
        ("2024-01-31 25:00", "there is no such day or time"),
    ],
)
def test_dates_that_cannot_be_read_are_like_dates(cell, why):
    assert is_date_like(cell) and days(cell) is None and why_no_date(cell) == why


@pytest.mark.parametrize("cell", ["2024", "12-13", "ward 3", 3.0, None, True, "2024-01/31"])
def test_other_cells_are_no_dates(cell):
    assert not is_date_like(cell) and days(cell) is None


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_arrays_are_read_as_their_cells(unit):
    times = pd.date_range("1961-05-04 03:02:01.123456", periods=50, freq="97h").to_series()
    times.iloc[3] = pd.NaT
    expected = [np.nan if moment is pd.NaT else days(moment) for moment in times]
    np.testing.assert_array_equal(days_of_array(times.to_numpy(f"M8[{unit}]")), expected)
    spans = np.array([1, -36], dtype="m8[h]")
    np.testing.assert_array_equal(days_of_array(spans), [days(span) for span in spans])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2021-06", datetime.datetime(2021, 6, 1)),
        ("2021-W26", datetime.datetime.fromisocalendar(2021, 26, 1)),
        ("2021-W26-3", datetime.datetime.fromisocalendar(2021, 26, 3)),
        ("2021W263", datetime.datetime.fromisocalendar(2021, 26, 3)),
        ("2024-01-31 10:00 UTC", datetime.datetime(2024, 1, 31, 10)),
        ("2024-01-31T10:00:00+02:00", datetime.datetime(2024, 1, 31, 8)),
        ("31.01.2024 14:35", datetime.datetime(2024, 1, 31, 14, 35)),
        ("31.01.2024 2:35 pm", datetime.datetime(2024, 1, 31, 14, 35)),
        ("14:35", datetime.datetime(1970, 1, 1, 14, 35)),
        ("9:05:10", datetime.datetime(1970, 1, 1, 9, 5, 10)),
        ("14:35:10.5", datetime.datetime(1970, 1, 1, 14, 35, 10, 500_000)),
        ("12:05 AM", datetime.datetime(1970, 1, 1, 0, 5)),
        ("b'23:00'", datetime.datetime(1970, 1, 1, 23)),
        ('b"6:30"', datetime.datetime(1970, 1, 1, 6, 30)),
        ("12:05PM", datetime.datetime(1970, 1, 1, 12, 5)),
    ],
)
def test_times_weeks_and_months(text, expected):
    passed = expected - datetime.datetime(1970, 1, 1)
    assert days(text, DAY_FIRST) == passed / datetime.timedelta(days=1)
    assert "date" in tags_of(text)[0] and is_date_like(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "24:00",
            "25:10",
            "14:60",
            "13:00 PM",
            "0:30 AM",
            "14:35 Uhr",
            "14:35Z",
            "12:30-13:30",
            "b'99:99'",
        ),
        *("2021-00", "2021-13", "2021-W00", "2021-W54", "2021-W26-8", "06/2021", "1990-2000"),
    ],
)
def test_codes_that_are_no_times_weeks_or_months(text):
    assert days(text, DAY_FIRST) is None and not is_date_like(text)


def test_dates_that_microseconds_cannot_count():
    years = np.array(["500000-01-01", "-300000-01-01"], dtype="M8[D]")
    expected = years.astype(np.int64)
    for unit in ("s", "ms"):
        np.testing.assert_array_equal(days_of_array(years.astype(f"M8[{unit}]")), expected)
