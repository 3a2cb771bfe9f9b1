"""Ids of rows: which indexes are ids, and which rows are of one sample."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from naim3l.input.batches import Batch, id_groups, id_hashes, row_ids


def table(index):
    return pd.DataFrame({"x": np.zeros(len(index))}, index=index)


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["p", "q"]),
        pd.Index([0, 1], name="patient"),
        pd.RangeIndex(2, name="patient"),
        pd.Index(["p", "q"], dtype="category"),
        pd.MultiIndex.from_tuples([("p", 1), ("p", 2)]),
        pd.to_datetime(["2020-01-01", "2020-01-02"]),
    ],
)
def test_named_indexes_and_those_of_other_things_than_numbers_are_ids(index):
    assert row_ids(table(index)) is not None
    groups = id_groups([table(index), table(index)])
    assert all(of.tolist() == [0, 1] for of in groups)


@pytest.mark.parametrize("index", [pd.RangeIndex(2), [5, 3], [0.0, 1.0], [True, False]])
def test_unnamed_numbers_number_rows(index):
    assert row_ids(table(pd.Index(index))) is None
    assert id_groups([table(pd.Index(index))] * 2) is None
    assert id_hashes(Batch(table(pd.Index(index)), "view 'lab'")) is None


def test_tables_of_other_libraries_have_no_ids():
    assert id_groups([np.zeros((2, 1)), pl.DataFrame({"x": [1, 2]})]) is None


def test_rows_of_one_id_have_one_number_in_all_tables():
    tables = [table(pd.Index(ids, name="id")) for ids in (["a", "b", "a"], ["c", "b", None])]
    tables.append(np.zeros((2, 1)))  # rows without ids are samples of their own
    assert [of.tolist() for of in id_groups(tables)] == [[0, 1, 0], [2, 1, 3], [4, 5]]


def test_hashes_are_those_of_the_ids_in_any_table():
    one, two = (id_hashes(Batch(table(pd.Index(ids)), "X"))[0] for ids in (["a", "b"], ["b", "a"]))
    assert one.tolist() == two[::-1].tolist()
    assert one[0] != one[1]


DAYS = ["2020-01-01", "2020-01-02"]
SAME_IDS = [
    pd.Index([7, -1], name="id"),
    pd.Index([7.0, -1.0], name="id"),
    pd.Index(np.array([7, -1], dtype=np.int16), name="id"),
    pd.Index([7, -1], dtype=object, name="id"),
    pd.Index([-1.0, None, 7.0], dtype=object, name="id"),
    pd.Index([7, None], dtype="Int64", name="id"),
    pd.Index([0.5, np.nan, 7.0], name="id"),
    pd.Index(["7", "p"], dtype=object),
    pd.Index(["7", "p", "7"], dtype="str"),
    pd.Index(["p", None, "7"], dtype="string"),
    pd.Index(["p", "7"], dtype="category"),
    pd.Index([7, "p"], dtype=object),
    pd.DatetimeIndex(DAYS).as_unit("s"),
    pd.DatetimeIndex(DAYS).as_unit("us"),
]


@pytest.mark.parametrize("one", SAME_IDS, ids=repr)
@pytest.mark.parametrize("two", SAME_IDS, ids=repr)
def test_ids_have_one_hash_where_tables_in_memory_have_one_sample(one, two):
    groups = id_groups([table(one), table(two)])
    found = [id_hashes(Batch(table(of), "X")) for of in (one, two)]
    for i, (first, has) in enumerate(zip(*found[0], strict=True)):
        for j, (second, other_has) in enumerate(zip(*found[1], strict=True)):
            in_chunks = has and other_has and first == second
            assert in_chunks == (groups[0][i] == groups[1][j]), (one[i], two[j])
