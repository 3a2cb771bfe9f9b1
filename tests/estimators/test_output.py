"""Arrays, pandas and polars tables of scores, for both forms of input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from naim3l.estimators.output import contain
from naim3l.input.reader import TableReader
from naim3l.input.views import FUSED

VALUES = np.arange(6.0).reshape(3, 2)
TABLE = pd.DataFrame(np.eye(3), columns=list("xyz"), index=["u", "v", "w"])


def reader_of(X, Y):
    reader = TableReader()
    reader.read_training(X, Y)
    return reader


@pytest.fixture
def labels():
    return pd.DataFrame([[1, 0], [0, 1], [1, 1]], columns=["sick", "smoker"], index=TABLE.index)


def test_pandas_takes_names_and_index(labels):
    reader = reader_of({"a": TABLE}, {"a": labels})
    frame = contain({"a": VALUES}, {"a": TABLE}, reader, "pandas")["a"]
    pd.testing.assert_frame_equal(frame, pd.DataFrame(VALUES, TABLE.index, labels.columns))
    wide = contain({FUSED: VALUES}, TABLE, reader_of(TABLE, labels), "pandas")
    pd.testing.assert_frame_equal(wide, frame)


def test_polars_takes_names(labels):
    frame = contain({FUSED: VALUES}, TABLE, reader_of(TABLE, labels), "polars")
    assert isinstance(frame, pl.DataFrame) and frame.columns == ["sick", "smoker"]
    assert_array_equal(frame.to_numpy(), VALUES)


def test_one_column_of_labels_gives_one_dimension(labels):
    reader = reader_of(TABLE, labels["sick"])
    assert contain({FUSED: VALUES[:, :1]}, TABLE, reader, "default").shape == (3,)
    assert contain({FUSED: VALUES}, TABLE, reader_of(TABLE, labels), "default").shape == (3, 2)
