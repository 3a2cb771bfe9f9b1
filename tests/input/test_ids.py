"""Ids as text with all digits, whatever the type of the column."""

import datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from naim3l._origin import Origin
from naim3l.files.errors import ReadError
from naim3l.input.sources import id_text, set_ids

ORIGIN = Origin("view 'lab'", "lab.csv", lines=((0, 2),))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("007", "007"),
        (" a b ", "a b"),
        ("7.0", "7"),
        ("7,0", "7"),
        ("7,00", "7,00"),
        (" -12.0", "-12"),
        ("007.0", "007.0"),
        ("1.10", "1.10"),
        ("1.00", "1.00"),
        (7, "7"),
        (7.0, "7"),
        (np.float64(12345678901.0), "12345678901"),
        (7.25, "7.25"),
        (Decimal("1E+3"), "1000"),
        (10**30, "1" + "0" * 30),
        (datetime.date(2024, 1, 31), "2024-01-31"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (None, None),
        (np.nan, None),
        (pd.NaT, None),
        (pd.NA, None),
        ("  ", None),
    ],
)
def test_text_of_an_id(cell, text):
    assert id_text(cell) == text


def test_ids_become_the_index():
    frame = pd.DataFrame({"x": [1.5, 2.5], "id": [7.0, 8.0]})
    expected = pd.DataFrame({"x": [1.5, 2.5]}, index=pd.Index(["7", "8"], name="id", dtype=object))
    pd.testing.assert_frame_equal(set_ids(frame, "id", ORIGIN), expected)


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        (["a", None, "c"], r"row 1 \(line 3\), column 'id': an id is missing"),
        (["a", "b", "a "], r"row 2 \(line 4\), column 'id': id 'a' is already that of row 0"),
    ],
)
def test_missing_ids_and_equal_ones_of_labels_are_refused(ids, error):
    frame = pd.DataFrame({"id": ids, "x": 0.0})
    with pytest.raises(ReadError, match=f"view 'lab', lab.csv, {error}"):
        set_ids(frame, "id", ORIGIN, unique=True)
    if None not in ids:
        assert list(set_ids(frame, "id", ORIGIN).index) == ["a", "b", "a"]


def test_ids_of_a_text_file_are_those_of_a_columnar_one():
    numbers = pd.DataFrame({"id": [99263.0, 102000.0], "x": 0.0})
    texts = numbers.assign(id=[f"{of}" for of in numbers["id"]])
    for_numbers, for_texts = (set_ids(of, "id", ORIGIN).index for of in (numbers, texts))
    assert list(for_numbers) == list(for_texts) == ["99263", "102000"]
