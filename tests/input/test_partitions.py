"""Tables in parts: the rows of the whole table, for every source and number of parts."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from naim3l.input.partitions import (
    align_labels,
    any_partitioned,
    check_part_rows,
    is_partitioned,
    partition,
    split_columns,
    with_labels,
)

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.dask
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N_PARTS = (1, 2, 7)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(70, 3)), columns=["a", "b", "c"])
    table["word"] = rng.choice(["red", "blue", None], size=70)
    table.index = np.arange(70) * 2 + 5
    return table


def rows(n_rows, n_parts):
    return tuple(len(part) for part in np.array_split(np.arange(n_rows), n_parts))


def computed(table):
    """The parts in memory, as dask computes them."""
    return list(dask.compute(*table.parts, scheduler="synchronous"))


@pytest.mark.parametrize("n_parts", N_PARTS)
def test_data_frame_of_dask(frame, n_parts):
    table = partition(dd.from_pandas(frame, npartitions=n_parts), "X")
    parts = computed(table)
    assert len(parts) == len(table.places) == n_parts
    pd.testing.assert_frame_equal(pd.concat(parts), frame, check_dtype=False)
    assert table.columns == list(frame.columns) and table.n_columns == 4
    assert len(table.meta) == 0 and list(table.meta.columns) == table.columns
    assert table.divisions[0] == 5 and len(table.divisions) == n_parts + 1
    assert str(table.places[-1]) == f"X, partition {n_parts - 1}"


@pytest.mark.parametrize("n_parts", N_PARTS)
@pytest.mark.parametrize("column_blocks", [1, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_array_of_dask(n_parts, column_blocks, is_sparse):
    X = np.random.default_rng(0).integers(0, 2, size=(21, 6)).astype(float)
    array = da.from_array(X, chunks=(rows(21, n_parts), (6 // column_blocks,) * column_blocks))
    if is_sparse:
        array = array.map_blocks(sparse.csr_array)
    table = partition(array, "X")
    parts = computed(table)
    assert all(sparse.issparse(part) == is_sparse for part in parts)
    dense = [part.toarray() if is_sparse else part for part in parts]
    assert_array_equal(np.vstack(dense), X)
    assert table.lengths == list(rows(21, n_parts))
    assert table.meta.shape == (0, 6) and table.columns is None
    chosen = table.select_columns([4, 1], "view 'v'").select_columns([1], "view 'v'")
    dense = [part.toarray() if is_sparse else part for part in computed(chosen)]
    assert_array_equal(np.vstack(dense), X[:, [1]])


def test_array_with_unknown_lengths():
    X = da.from_array(np.arange(20.0).reshape(10, 2), chunks=(4, 1))
    some = X[X[:, 0] > 5]  # chunks of rows are unknown
    table = partition(some, "X")
    assert table.lengths is None
    assert_array_equal(np.vstack(computed(table)), some.compute())


def test_columns_are_selected_by_position_among_those_selected(frame):
    table = partition(dd.from_pandas(frame, npartitions=3), "X")
    chosen = table.select_columns([3, 0, 2], "view 'v'").select_columns([2, 0], "view 'w'")
    assert chosen.columns == ["c", "word"] and chosen.where == "view 'w'"
    assert list(chosen.meta.columns) == ["c", "word"]
    assert_array_equal(pd.concat(computed(chosen))["c"], frame["c"])
    assert str(chosen.places[1]) == "view 'w', partition 1"


def test_labels_may_have_one_dimension(frame):
    labels = dd.from_pandas(frame["a"], npartitions=2)
    table = partition(labels, "y", labels=True)
    assert table.n_columns == 1 and table.columns == ["a"]
    assert_array_equal(pd.concat(computed(table)), frame["a"])
    array = partition(da.from_array(np.arange(5), chunks=2), "y", labels=True)
    assert array.n_columns == 1 and array.columns is None
    assert_array_equal(np.concatenate(computed(array)), np.arange(5))
    with pytest.raises(ValueError, match="X: Expected 2D array"):
        partition(da.from_array(np.arange(5), chunks=2), "X")


def refuse():
    raise AssertionError("computed too early")


def test_nothing_is_computed_before_it_is_asked_for(frame):
    lazy = dask.delayed(refuse)()
    tables = [
        partition(dd.from_delayed([lazy, lazy], meta=frame.iloc[:0], verify_meta=False), "X"),
        partition(da.from_delayed(lazy, shape=(4, 2), dtype=float), "X"),
    ]
    for table in tables:
        table = table.select_columns([1, 0], "X")
        assert table.token
        with pytest.raises(AssertionError):
            computed(table)


@pytest.mark.parametrize("container", [lambda t: t, pl.from_pandas, lambda t: t.to_numpy(),
                                       lambda t: sparse.csr_array(t.to_numpy()),
                                       lambda t: t.to_numpy().tolist()])  # fmt: skip
def test_tables_in_memory_are_divided_anywhere(frame, container):
    numbers = frame[["a", "b"]]
    table = partition(container(numbers), "X")
    assert table.lengths == [70] and not is_partitioned(container(numbers))
    parts = computed(table.sliced([30, 0, 40]))
    dense = [part.toarray() if sparse.issparse(part) else np.asarray(part) for part in parts]
    assert [len(part) for part in dense] == [30, 0, 40]
    assert_array_equal(np.vstack(dense), numbers)


def test_series_in_memory_is_divided(frame):
    parts = computed(partition(frame["a"], "y", labels=True).sliced([30, 40]))
    assert_array_equal(pd.concat(parts), frame["a"])


def test_what_is_partitioned(frame, tmp_path):
    assert is_partitioned("rows/*.parquet") and is_partitioned(tmp_path)
    assert is_partitioned(dd.from_pandas(frame, npartitions=1))
    assert is_partitioned(da.ones(3)) and is_partitioned([tmp_path, "rows.parquet"])
    for table in (frame, frame["a"], frame.to_numpy(), [[1.0]], [], None, {"a": 1}):
        assert not is_partitioned(table)
    assert any_partitioned({"a": frame, "b": "rows.parquet"})
    assert not any_partitioned({"a": frame}) and not any_partitioned(frame)


def test_columns_are_split_into_features_and_labels(frame):
    table = partition(dd.from_pandas(frame, npartitions=2), "X")
    features, labels = split_columns(table, ["c", "a"])
    assert features.columns == ["b", "word"] and labels.columns == ["c", "a"]
    with pytest.raises(ValueError, match="X: no column 'd' for the labels; it has"):
        split_columns(table, ["a", "d"])


def test_labels_in_memory_are_divided_as_the_features():
    X = partition(da.ones((10, 2), chunks=((3, 7), 2)), "X")
    y = align_labels(partition(np.arange(10), "y", labels=True), X)
    assert y.lengths == [3, 7] and [len(part) for part in computed(y)] == [3, 7]
    with pytest.raises(ValueError, match="X: 10 rows of features but 9 rows of labels"):
        align_labels(partition(np.arange(9), "y", labels=True), X)


def test_lengths_that_become_known_divide_the_labels(frame):
    X = partition(dd.from_pandas(frame, npartitions=2), "X")
    y = partition(frame["a"], "y", labels=True)
    with pytest.raises(ValueError, match="X: 2 partitions of features but 1 of labels; give both"):
        align_labels(y, X)
    assert align_labels(y, replace(X, lengths=[35, 35])).lengths == [35, 35]


@pytest.mark.parametrize("kind", ["frame", "array"])
@pytest.mark.parametrize("stored", [False, True])
def test_rows_of_partitions_are_counted_if_the_labels_can_be_divided(frame, kind, stored, tmp_path):
    X = dd.from_pandas(frame, npartitions=3)
    X = X[X["a"] > 0][["a", "b"]]  # of unknown lengths
    labels = frame.loc[frame["a"] > 0, ["a"]]
    if stored:
        labels.to_parquet(tmp_path / "y.parquet", row_group_size=5)
    table = partition(X if kind == "frame" else X.values, "X")
    assert table.lengths is None
    table, y = with_labels(table, tmp_path / "y.parquet" if stored else labels, "y")
    assert y.lengths == table.lengths == [len(part) for part in computed(table)]
    for part, of_part in zip(computed(table), computed(y), strict=True):
        assert_array_equal(np.asarray(part)[:, [0]], of_part)
    with pytest.raises(ValueError, match=f"X: {len(labels)} rows of features but 70 rows of label"):
        with_labels(partition(X, "X"), frame[["a"]], "y")


def test_counting_rows_reads_one_column(frame):
    seen = []

    def read(part):
        seen.append(list(part.columns))
        return part

    source = dd.from_map(lambda i, columns=None: read(frame[columns or list(frame)]), range(2),
                         meta=frame.iloc[:0])  # fmt: skip
    table = partition(source, "X")
    seen.clear()
    with_labels(table, np.zeros(140), "y")
    assert seen == [["a"], ["a"]]


def test_partitions_are_not_counted_without_need(frame):
    lazy = dask.delayed(refuse)()
    X = partition(dd.from_delayed([lazy], meta=frame.iloc[:0], verify_meta=False), "X")
    y = with_labels(X, np.arange(7), "y")[1]
    assert y.lengths == [7]
    labels = dd.from_delayed([lazy], meta=frame[["a"]].iloc[:0], verify_meta=False)
    assert len(with_labels(X, labels, "y")[1].parts) == 1


def test_names_of_labels(frame):
    table = partition(dd.from_pandas(frame, npartitions=2), "X")
    for names in ("a", ["a"], ("a",)):
        features, labels = with_labels(table, names, "y")
        assert features.columns == ["b", "c", "word"] and labels.columns == ["a"]
    with pytest.raises(ValueError, match="y: no labels; give the names of columns"):
        with_labels(table, [], "y")
    with pytest.raises(ValueError, match=r"y: no Parquet files at '.*none'"):
        with_labels(table, "none", "y")


def test_other_partitions_of_labels_are_refused():
    X = partition(da.ones((10, 2), chunks=((3, 7), 2)), "X")
    y = partition(da.ones((10, 1), chunks=((7, 3), 1)), "y", labels=True)
    with pytest.raises(ValueError, match=r"X, partition 0: 3 rows of features but 7 .*rechunk"):
        align_labels(y, X)
    with pytest.raises(ValueError, match=r"X: 2 partitions of features but 3 of labels"):
        align_labels(partition(da.ones((10, 1), chunks=((3, 3, 4), 1)), "y"), X)
    check_part_rows(X.places[0], 3, 3)


def test_what_is_not_a_table_is_refused():
    with pytest.raises(TypeError, match=r"X: Delayed of dask is not a table; .*from_delayed"):
        partition(dask.delayed(refuse)(), "X")
    with pytest.raises(TypeError, match="X: Bag of dask is not a table"):
        partition(pytest.importorskip("dask.bag").from_sequence([1, 2]), "X")
    unknown = da.from_delayed(dask.delayed(refuse)(), shape=(4, np.nan), dtype=float)
    with pytest.raises(ValueError, match=r"X: .*unknown number of columns; .*compute_chunk_sizes"):
        partition(unknown, "X")
    twice = dd.from_pandas(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), npartitions=1)
    with pytest.raises(ValueError, match=r"X: duplicate column names \['a'\]"):
        partition(twice, "X")


def test_token_is_that_of_the_data():
    def token(seed, columns=(0, 1)):
        X = np.random.default_rng(seed).normal(size=(6, 2))
        return partition(da.from_array(X, chunks=3), "X").select_columns(columns, "X").token

    assert token(0) == token(0)
    assert len({token(0), token(1), token(0, (1, 0))}) == 3


def test_dask_is_not_imported_before_it_is_needed():
    code = (
        "import sys, naim3l; from naim3l.input.partitions import is_partitioned; "
        "assert not is_partitioned([[1]]); assert 'dask' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
