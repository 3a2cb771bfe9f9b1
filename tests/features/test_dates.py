"""Dates and times as days, of every type in which libraries give them."""

import datetime

import numpy as np
import pandas as pd
import pytest

from naim3l.features.dates import days, days_of_array, is_date_like

AT = datetime.datetime(2024, 1, 31, 18, 0)
SINCE_EPOCH = (AT - datetime.datetime(1970, 1, 1)).total_seconds() / 86400


@pytest.mark.parametrize(
    "cell",
    [
        AT,
        pd.Timestamp(AT),
        np.datetime64(AT),
        "2024-01-31 18:00",
        " 2024/1/31T18:00:00.000 ",
        "2024.01.31 19:00+01:00",
        AT.replace(tzinfo=datetime.timezone(datetime.timedelta(0))),
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


@pytest.mark.parametrize("cell", ["31.1.2024", "1/31/24", "2024-02-30", "2024-01-31 25:00"])
def test_dates_that_cannot_be_read_are_like_dates(cell):
    assert is_date_like(cell) and days(cell) is None


@pytest.mark.parametrize("cell", ["2024", "12-13", "ward 3", 3.0, None, True, "2024-01/31"])
def test_other_cells_are_no_dates(cell):
    assert not is_date_like(cell) and days(cell) is None


def test_arrays_are_read_as_their_cells():
    times = pd.date_range("1961-05-04 03:02:01.123456", periods=50, freq="97h").to_series()
    times.iloc[3] = pd.NaT
    expected = [np.nan if moment is pd.NaT else days(moment) for moment in times]
    for unit in ("ns", "us"):
        np.testing.assert_array_equal(days_of_array(times.to_numpy(f"M8[{unit}]")), expected)
    spans = np.array([1, -36], dtype="m8[h]")
    np.testing.assert_array_equal(days_of_array(spans), [days(span) for span in spans])
