"""Parquet files in parts: the rows of the files in their order, whatever the row groups."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from naim3l.input import parquet_parts
from naim3l.input.partitions import align_labels, partition, split_columns

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.dask


def computed(table):
    return list(dask.compute(*table.parts, scheduler="synchronous"))


def make_frame(n_rows=100):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    frame["word"] = rng.choice(["red", "blue", None], size=n_rows)
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n_rows), "D")
    frame.loc[::9, "b"] = np.nan
    return frame


@pytest.fixture
def frame():
    return make_frame()


@pytest.fixture
def folder(tmp_path, frame):
    """Twelve files of 100 rows in all, in row groups of at most 6 rows."""
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), 12)):
        frame.iloc[rows].to_parquet(tmp_path / f"part.{i}.parquet", row_group_size=6, index=False)
    return tmp_path


@pytest.mark.parametrize("part_rows", [None, 1, 4, 6, 25, 100, 1000])
def test_all_rows_in_order(folder, frame, part_rows):
    table = partition(folder, "X", part_rows=part_rows)
    parts = computed(table)
    pd.testing.assert_frame_equal(pd.concat(parts), frame, check_dtype=False)
    assert [len(part) for part in parts] == table.lengths
    assert max(table.lengths) <= (part_rows or 100)
    assert table.divisions[-1] == 99 and len(table.divisions) == len(parts) + 1
    assert table.columns == list(frame.columns)


def test_small_files_are_joined(folder):
    assert partition(folder, "X").lengths == [100]
    assert len(partition(folder, "X", part_rows=20).lengths) < 8


def test_parts_are_small_and_row_groups_are_split_only_if_they_are_large(
    folder, tmp_path, frame, monkeypatch
):
    row_bytes = 8 * frame.shape[1]
    monkeypatch.setattr(parquet_parts, "PART_BYTES", 3 * row_bytes)
    monkeypatch.setattr(parquet_parts, "MOST_BYTES", 10 * row_bytes)
    path = tmp_path / "whole.pq"
    numbers = pd.DataFrame(np.arange(500.0).reshape(100, 5) % 7)
    numbers.columns = list("abcde")
    numbers.to_parquet(path, row_group_size=40)
    lengths = partition(path, "X").lengths
    assert sum(lengths) == 100 and max(lengths) <= 10 and min(lengths) >= 6
    assert_array_equal(pd.concat(computed(partition(path, "X"))), numbers)


@pytest.mark.parametrize("as_source", [
    str, lambda f: f, lambda f: f"{f}/*.parquet", lambda f: f"{f}/**/part*",
    lambda f: ds.dataset([f"{f}/part.{i}.parquet" for i in range(12)], format="parquet"),
    lambda f: f"file://{f}",
])  # fmt: skip
def test_every_way_to_name_the_files(folder, frame, as_source):
    table = partition(as_source(folder), "X")
    rows = pd.concat(computed(table))
    assert_array_equal(np.sort(rows["a"]), np.sort(frame["a"]))
    if not isinstance(as_source(folder), str) or "://" not in as_source(folder):
        assert_array_equal(rows["a"], frame["a"])  # part.10 comes after part.9


def test_only_the_columns_that_are_needed_are_read(folder, frame, monkeypatch):
    read = []
    original = pq.ParquetFile.read_row_group

    def spy(self, i, columns=None, **options):
        read.append(columns)
        return original(self, i, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    features, labels = split_columns(partition(folder, "X"), ["c", "a"])
    assert_array_equal(pd.concat(computed(labels)), frame[["c", "a"]])
    assert read and all(columns == ["c", "a"] for columns in read)
    assert features.columns == ["b", "word", "when"]


def test_columns_with_dots_in_their_names(tmp_path):
    pd.DataFrame({"x": [1, 2], "x.y": [3, 4]}).to_parquet(tmp_path / "a.parquet")
    table = partition(tmp_path, "X")
    assert_array_equal(computed(table.select_columns([0], "X"))[0], [[1], [2]])
    assert_array_equal(computed(table.select_columns([1], "X"))[0], [[3], [4]])


def test_index_of_pandas_is_the_index(tmp_path, frame):
    named = frame.set_index(pd.Index([f"p{i}" for i in range(100)], name="patient"))
    unnamed = frame.set_index(pd.Index([f"p{i}" for i in range(100)]))
    double = frame.set_index(["word", "when"])
    for i, table in enumerate((named, unnamed, double)):
        table.to_parquet(tmp_path / f"{i}.parquet", row_group_size=30)
        parts = partition(tmp_path / f"{i}.parquet", "X", part_rows=20)
        assert parts.columns == list(table.columns) and parts.divisions is None
        rows = pd.concat(computed(parts.select_columns([1, 0], "X")))
        assert list(rows.index) == list(table.index) or i == 2
        assert list(rows.index.names) == list(table.index.names)


def test_types_that_hold_the_values_of_all_files(tmp_path):
    for i, values in enumerate(([1, 2], [0.5, None], [None, None])):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{i}.parquet")
    assert_array_equal(
        pd.concat(computed(partition(tmp_path, "X", part_rows=2)))["a"],
        [1, 2, 0.5, np.nan, np.nan, np.nan],
    )


def test_folders_with_a_column_in_their_names(tmp_path):
    table = pa.table({"a": [1.0, 2.0, 3.0], "year": [2023, 2024, 2024]})
    pq.write_to_dataset(table, tmp_path, partition_cols=["year"])
    rows = pd.concat(computed(partition(tmp_path, "X")))
    assert rows["year"].tolist() == [2023, 2024, 2024] and rows["a"].tolist() == [1, 2, 3]


def test_labels_in_other_files_are_divided_as_the_features(folder, frame, tmp_path):
    frame[["c"]].to_parquet(tmp_path / "labels.pq", row_group_size=11)
    X = partition(str(folder / "*.parquet"), "X", part_rows=17)
    y = align_labels(partition(tmp_path / "labels.pq", "y", labels=True), X)
    assert y.lengths == X.lengths
    for part, labels in zip(computed(X), computed(y), strict=True):
        assert_array_equal(part["c"], labels["c"])
    frame[["c"]][:99].to_parquet(tmp_path / "short.pq")
    with pytest.raises(ValueError, match="X: 100 rows of features but 99 rows of labels"):
        align_labels(partition(tmp_path / "short.pq", "y"), X)


def test_places_name_files_and_rows(folder):
    table = partition(folder, "X", part_rows=4)
    first, second = table.places[:2]
    assert str(first) == "X, part.0.parquet, rows 0 to 2" and table.lengths[:2] == [3, 3]
    assert second.of_row(1) == "X, part.0.parquet, row 4"
    assert partition(folder, "X").places[0].of_row(9) == "X, part.1.parquet, row 0"


def test_token_is_that_of_the_files(folder, frame):
    token = partition(folder, "X").token
    assert partition(folder, "X").token == token
    frame[:50].to_parquet(folder / "part.3.parquet")
    assert partition(folder, "X").token != token


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"X: no Parquet files at '.*none'; give a file"):
        partition(tmp_path / "none", "X")
    with pytest.raises(ValueError, match=r"X: no Parquet files at .*\*\.parquet"):
        partition(str(tmp_path / "*.parquet"), "X")
    (tmp_path / "rows.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"X: no Parquet files at .*extension \.parquet"):
        partition(tmp_path, "X")
    with pytest.raises(ValueError, match=r"X: '.*rows.csv' is not readable as Parquet"):
        partition(tmp_path / "rows.csv", "X")
    with pytest.raises(TypeError, match="X: a dataset of pyarrow that does not consist of Parquet"):
        partition(ds.dataset(tmp_path / "rows.csv", format="csv"), "X")
    with pytest.raises(TypeError, match="does not consist of Parquet"):
        partition(ds.dataset(pa.table({"a": [1]})), "X")


def test_damaged_file_among_others_is_named(folder):
    (folder / "part.7.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(ValueError, match=r"X, part.7.parquet: not a readable Parquet file"):
        partition(folder, "X")


def test_files_with_other_columns_are_refused(folder, frame, tmp_path):
    frame.drop(columns="b").to_parquet(folder / "part.5.parquet", index=False)
    with pytest.raises(
        ValueError, match=r"part.0.parquet has the column 'b', which part.5.parquet"
    ):
        partition(folder, "X")
    frame.assign(b="text").to_parquet(folder / "part.5.parquet", index=False)
    with pytest.raises(
        ValueError, match=r"X: the column 'b' is \w*string in part.5.*double in part.0"
    ):
        partition(folder, "X")


def test_filtered_and_empty_datasets_are_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="a dataset of pyarrow with a filter"):
        partition(ds.dataset(str(folder)).filter(ds.field("a") > 0), "X")
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "empty.pq")
    with pytest.raises(ValueError, match="X: its Parquet files have no rows"):
        partition(tmp_path / "empty.pq", "X")


@pytest.mark.parametrize("change", [
    lambda path: path.unlink(),
    lambda path: path.write_bytes(b"PAR1 no longer"),
    lambda path: make_frame(5).to_parquet(path, index=False),
])  # fmt: skip
def test_files_that_change_are_named_when_they_are_read(folder, change):
    table = partition(folder, "X")
    change(folder / "part.3.parquet")
    with pytest.raises(ValueError, match=r"part.3.parquet (cannot be read|has changed)"):
        computed(table)


@pytest.mark.parametrize("change", [
    lambda frame: frame.assign(a=-frame["a"]),
    lambda frame: frame.rename(columns={"a": "other"}),
    lambda frame: frame.assign(a="text"),
])  # fmt: skip
@pytest.mark.parametrize("part_rows", [None, 2])
def test_files_that_are_written_again_are_refused(folder, change, part_rows):
    table = partition(folder, "X", part_rows=part_rows)
    assert len(computed(table)) == len(table.lengths)
    path = folder / "part.3.parquet"
    before = path.stat().st_mtime_ns
    change(pd.read_parquet(path)).to_parquet(path, row_group_size=6, index=False)
    os.utime(path, ns=(before, before + 1))  # whatever the resolution of the clock
    with pytest.raises(ValueError, match=r"part.3.parquet has changed since .*; start again"):
        computed(table)


def test_values_that_the_common_type_does_not_hold_are_named(tmp_path):
    pq.write_table(pa.table({"a": [0.5], "b": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [2**53 + 1], "b": [1]}), tmp_path / "1.parquet")
    with pytest.raises(
        ValueError, match=r"1.parquet, column 'a': it is int64, but double in 0.parquet"
    ):
        computed(partition(tmp_path, "X"))


def test_slice_of_a_row_group_does_not_keep_the_rows_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_parts, "_BATCH_ROWS", 100)
    pq.write_table(pa.table({"a": np.arange(10_000.0)}), tmp_path / "a.parquet")
    piece = parquet_parts.open_parquet(tmp_path, "X", part_rows=100).pieces[90][0]
    with pq.ParquetFile(piece.fragment.open()) as file:
        table = parquet_parts._slice(file, piece, ["a"])
    assert_array_equal(table["a"], np.arange(9_000.0, 9_100.0))
    assert table.get_total_buffer_size() < 20 * 100 * 8
