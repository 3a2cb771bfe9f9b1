"""What is done to a table must not grow with the square of its columns."""

import sys

import numpy as np
import pandas as pd
import pytest

from naim3l.files.readers import choose_columns, parse_features, read_table
from naim3l.files.readers.ids import guess_id
from naim3l.files.readers.table import name_columns
from naim3l.input.tables import Table


class Name(str):
    """A name that counts how often it is compared with another."""

    n_compared = 0

    def __eq__(self, other):
        Name.n_compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.fixture
def names():
    Name.n_compared = 0
    return [Name(f"g{j}") for j in range(500)]


def count_calls(function, *arguments):
    """Functions, of Python and C, that are called on the way."""
    n_calls = 0

    def count(frame, event, argument):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return n_calls


def calls_per_column(function, make):
    """How many more calls each further column takes."""
    narrow, wide = make(50), make(450)
    function(narrow)  # imports, and what is made once
    return (count_calls(function, wide) - count_calls(function, narrow)) / 400


def numbers(n_columns):
    values = np.arange(3.0 * n_columns).reshape(3, -1) + 0.5
    return pd.DataFrame(values, columns=[f"g{j}" for j in range(n_columns)])


def test_names_are_looked_up(names):
    wanted = [str(name) for name in reversed(names)]
    assert choose_columns(names, wanted) == wanted
    assert Name.n_compared <= 4 * len(names)


def test_doubled_names_are_looked_up(names):
    frame = pd.DataFrame([[1.0] * len(names)], columns=pd.Index(names, dtype=object))
    Name.n_compared = 0
    name_columns(frame)
    assert Name.n_compared <= 10 * len(names)


def test_plain_numbers_are_taken_as_one_block():
    assert calls_per_column(parse_features, numbers) < 10
    assert calls_per_column(guess_id, numbers) < 10


@pytest.mark.parametrize("kind", [float, int])
def test_numbers_of_a_data_frame_are_taken_as_one_block(kind):
    def make(n_columns):
        return numbers(n_columns).astype(kind)

    assert calls_per_column(lambda table: Table(table, "x").numbers(), make) < 60


@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ",")])
def test_text_is_read_into_few_blocks(tmp_path, separator, decimal):
    """Pandas reads each column into a block of its own, which all later steps would go through."""
    path = tmp_path / "wide.csv"
    numbers(300).to_csv(path, sep=separator, decimal=decimal, index=False)
    table = read_table(path)
    assert table.shape == (3, 300) and table.dtypes.eq(float).all()
    assert table._mgr.nblocks <= 2


def test_notes_of_a_table_are_not_copied_for_each_column(tmp_path):
    (tmp_path / "gaps.csv").write_text("x,y\n" + "1,2\n\n" * 50)
    table = read_table(tmp_path / "gaps.csv")
    assert len(table.attrs["naim3l"]["lines"]) == 50
    assert table["x"].attrs["naim3l"] is table.attrs["naim3l"]
