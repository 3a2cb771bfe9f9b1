"""Parquet files of folders, patterns and lists, with the columns that folders have as names."""

import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from naim3l.input.partitions import partition

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.dask


@pytest.fixture
def folder(tmp_path):
    """Six rows in folders by year and site."""
    table = pa.table({"a": [0.0, 1, 2, 3, 4, 5], "year": [2020] * 3 + [2021] * 3,
                      "site": ["x", "x", "y", "x", "y", "y"]})  # fmt: skip
    pq.write_to_dataset(table, tmp_path / "h", partition_cols=["year", "site"])
    (tmp_path / "h" / "_log").mkdir()
    pq.write_table(pa.table({"other": [1]}), tmp_path / "h" / "_log" / "log.parquet")
    return tmp_path / "h"


def rows(source):
    """Rows as tuples, in the order of the parts."""
    parts = dask.compute(*partition(source, "X").parts, scheduler="synchronous")
    assert all(list(part.columns) == ["a", "year", "site"] for part in parts)
    return [tuple(row) for part in parts for row in part.itertuples(index=False)]


@pytest.mark.parametrize("pattern", [
    "", "*/*/*.parquet", "year=*/**/*.parquet", "year=*", "year=20*/site=*", "year=*/site=?/*",
    "year=*/**", "y*", "*",
])  # fmt: skip
def test_patterns_have_the_columns_of_the_folder(folder, pattern):
    assert rows(str(folder / pattern)) == [
        (0, 2020, "x"), (1, 2020, "x"), (2, 2020, "y"),
        (3, 2021, "x"), (4, 2021, "y"), (5, 2021, "y"),
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["year=2021", "year=2021/*/*.parquet", "year=*1", "*=2021"])
def test_one_of_the_folders_has_their_columns(folder, pattern):
    assert rows(folder / pattern) == [(3, 2021, "x"), (4, 2021, "y"), (5, 2021, "y")]


def test_paths_may_be_relative(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for source in ("year=2021", "*/*/*.parquet", "."):
        assert rows(source)[-1] == (5, 2021, "y")


def test_lists_of_paths(folder):
    years = [str(folder / "year=2021"), folder / "year=2020" / "*"]
    assert [row[0] for row in rows(years)] == [3, 4, 5, 0, 1, 2]
    files = sorted(folder.glob("year=*/*/*.parquet"))
    assert rows(files) == rows(tuple(map(str, files))) == rows(folder)
    with pytest.raises(ValueError, match=r"X: no Parquet files at '.*none'"):
        partition([files[0], folder / "none"], "X")
    with pytest.raises(ValueError, match=r"X: 's3://bucket/a.parquet' in a list of paths"):
        partition([str(files[0]), "s3://bucket/a.parquet"], "X")


def test_a_single_file_has_its_own_columns(folder):
    path = next(folder.glob("year=2020/site=y/*.parquet"))
    assert partition(path, "X").columns == ["a"]


def test_a_column_both_in_files_and_in_names_of_folders(folder):
    path = folder / "year=2020" / "site=x" / "more.parquet"
    os.remove(next(path.parent.glob("*.parquet")))
    pq.write_table(pa.table({"a": [1.0], "year": ["MMXX"]}), path)
    with pytest.raises(
        TypeError, match=r"X, year=2020.site=x.more.parquet: the column 'year' is in the file and"
    ):
        partition(folder, "X")


def test_a_file_outside_of_the_folders(folder):
    pq.write_table(pa.table({"a": [1.0]}), folder / "year=2020" / "more.parquet")
    with pytest.raises(ValueError, match=r"X, .*more.parquet: it is not in a folder .*'site=...'"):
        partition(folder, "X")


def test_types_that_have_nothing_in_common_are_named(tmp_path):
    for i, values in enumerate(([None], ["text"], [1.5])):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{i}.parquet")
    with pytest.raises(
        ValueError, match=r"the column 'a' is double in 2.parquet, but string in 1.parquet"
    ):
        partition(ds.dataset(sorted(map(str, tmp_path.iterdir()))), "X")


def test_columns_of_the_same_name_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "0.parquet")
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(table, tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"X, 1.parquet: duplicate column names \['a'\]"):
        partition(tmp_path, "X")
