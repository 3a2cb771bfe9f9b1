"""Batches of Arrow have the cells of the table of pandas that they would become."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from naim3l._origin import Origin
from naim3l.features.survey import column_types, days_of_column
from naim3l.input.arrow import ArrowBatch
from naim3l.input.batches import Batch, id_hashes

DAYS = [datetime.date(2024, 5, 1), None, datetime.date(1969, 12, 31), datetime.date(9999, 1, 1)]
TIMES = [datetime.datetime(2024, 5, 1, 12), datetime.datetime(1960, 1, 1), None, None]
WORDS = ["b", None, "a", "b"]
COLUMNS = {
    "float": pa.array([1.5, None, float("nan"), -2.0]),
    "full": pa.array([1.0, 2.0, 3.0, 4.0]),
    "whole": pa.array([1, None, 2**53 + 2, 0], pa.int64()),
    "small": pa.array([1, 0, 1, 0], pa.int8()),
    "truth": pa.array([True, None, False, True]),
    "day": pa.array(DAYS, pa.date32()),
    "day in ms": pa.array(DAYS, pa.date64()),
    "time": pa.array(TIMES, pa.timestamp("us")),
    "text": pa.array(WORDS),
    "coded": pa.array(WORDS).dictionary_encode(),
}
DATES = ["day", "day in ms", "time"]


@pytest.fixture
def pair():
    """The same rows as columns of Arrow and as a table of pandas."""
    table = pa.table(COLUMNS)
    plain = table.set_column(9, "coded", table["coded"].cast(pa.string()))
    frame = plain.to_pandas(date_as_object=False, types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    index, origin = pd.Index(list("wxyz"), name="id"), Origin("view 'a'", "a.parquet", 7)
    return ArrowBatch(table, index, origin), Batch(frame.set_axis(index), origin)


def assert_same(one, other):
    assert (one.columns, one.shape, one.index.tolist()) == (
        other.columns,
        other.shape,
        other.index.tolist(),
    )
    assert column_types(one) == column_types(other)
    assert_array_equal(one.missing, other.missing)
    assert_array_equal(one.numeric_block, other.numeric_block)
    for column, expected in zip(
        one.number_columns(one.numeric), other.number_columns(other.numeric), strict=True
    ):
        assert_array_equal(column, expected)
    assert_array_equal(id_hashes(one), id_hashes(other))
    for j, name in enumerate(one.columns):
        of_rows = [[*cells, None] for _, cells in (one.distinct(j), other.distinct(j))]
        codes = one.distinct(j)[0], other.distinct(j)[0]
        found, expected = ([of[k] for k in at] for of, at in zip(of_rows, codes, strict=True))
        assert found == expected, name
        assert one.place(len(one) - 1, j) == other.place(len(other) - 1, j)
        if name in DATES:
            assert_array_equal(days_of_column(one, j), days_of_column(other, j))


def test_all_cells_are_those_of_the_table_of_pandas(pair):
    assert_same(*pair)
    pd.testing.assert_frame_equal(pair[0].data, pair[1].data)


def test_some_rows_and_columns_are_those_of_the_table_of_pandas(pair):
    some = np.array([True, False, True, True])
    assert_same(*(batch.take_rows(some).select_columns([9, 0, 4, 6]) for batch in pair))
    assert pair[0].take_rows(some).place(1, 0) == "view 'a', a.parquet, row 9, column 'float'"


def test_codes_of_other_rows_are_no_cells():
    words = pa.array([f"w{k}" for k in range(100)]).dictionary_encode()
    for rows in (words[3:60], words[98:]):
        batch = ArrowBatch(pa.table({"word": rows}), pd.RangeIndex(len(rows)), Origin("X"))
        codes, cells = batch.distinct(0)
        assert [cells[k] for k in codes] == rows.to_pylist() and len(cells) == len(rows)


def test_columns_in_several_pieces_are_read_as_one():
    pieces = pa.chunked_array([pa.array(part).dictionary_encode() for part in (["a"], ["b", "a"])])
    table = pa.table({"word": pieces, "number": pa.chunked_array([[1.0], [2.0, None]])})
    batch = ArrowBatch(table, pd.RangeIndex(3), Origin("X"))
    codes, cells = batch.distinct(0)
    assert [cells[k] for k in codes] == ["a", "b", "a"]
    assert_array_equal(batch.number_columns([1])[0], [1, 2, np.nan])


def test_a_column_without_numbers_cannot_be_read_as_some(pair):
    with pytest.raises(ValueError, match=r"column 'text'.*'b' is not a number"):
        pair[0].number_columns([8])
