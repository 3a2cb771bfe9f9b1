"""Sources: rows and labels of the whole table, whatever users give and however it is divided."""

import operator
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from naim3l import DataWarning
from naim3l.files.tables import open_table
from naim3l.input.batches import Batch
from naim3l.input.labels import LabelWords
from naim3l.input.sources import (
    ChunkedTable,
    FileView,
    LabelColumns,
    MemoryTable,
    all_chunked,
    any_chunked,
    is_chunked,
    open_tables,
    with_columns,
)

LABELS = ["flu", "gout"]


@pytest.fixture
def frame(rng):
    table = pd.DataFrame(rng.normal(size=(70, 2)), columns=["a", "b"])
    table["word"] = rng.choice(["red", "blue"], size=70)
    return table.set_axis(np.arange(70) * 2 + 5)


@pytest.fixture
def labels(frame, rng):
    return pd.DataFrame(rng.integers(0, 2, (70, 2)), columns=LABELS, index=frame.index)


def note(part, row, features, labels):
    return [(part, row, features, labels)]


def batches(table):
    """Batches of a table with their labels, in order, and the numbers of rows before them."""
    found = table.fold(note, operator.add)
    starts = {}
    for part, row, features, _ in found:
        assert row == starts.get(part, 0)
        starts[part] = row + len(features)
    return [(features, of_rows) for _, _, features, of_rows in found]


def stacked(batches):
    data = [batch.data for batch in batches]
    if hasattr(data[0], "iloc"):
        return pd.concat(data)
    return np.vstack([part.toarray() if sparse.issparse(part) else part for part in data])


class TestMemory:
    def test_one_batch(self, frame, labels):
        table = open_tables({"v": frame}, {"v": labels})["v"]
        assert isinstance(table, MemoryTable) and not table.chunked
        [(features, of_rows)] = batches(table)
        assert features.data is frame and of_rows.data is labels
        assert table.features.columns == ["a", "b", "word"] and table.labels.columns == LABELS
        assert str(features.origin) == str(of_rows.origin) == "view 'v'"

    def test_a_batch_keeps_its_origin(self, frame):
        batch = Batch(frame, "somewhere")
        assert open_tables(batch, None, labelled=False)["X"].features is batch

    def test_rows_and_labels_must_match(self, frame, labels):
        with pytest.raises(ValueError, match="view 'v': 70 rows of features but 69 rows of labels"):
            open_tables({"v": frame}, {"v": labels[1:]})
        with pytest.warns(DataWarning, match="X: features and labels have different indexes"):
            open_tables(frame, labels.set_axis(range(1, 71)))
        with pytest.raises(TypeError, match="X: 'a', 'b' as labels; names of columns and paths"):
            open_tables(frame, ["a", "b"])
        with pytest.raises(ValueError, match=r"y: .*the target y is None"):
            open_tables(frame, None)


def test_what_is_chunked(frame, tmp_path):
    (tmp_path / "rows.csv").write_text("a\n1\n")
    for source in (tmp_path, "rows/*.csv", "a.parquet", "A.PQ", [tmp_path, "rows.csv"]):
        assert is_chunked(source) and any_chunked({"a": frame, "b": source})
    for source in (frame, frame.to_numpy(), [[1.0]], [], None, tmp_path / "rows.csv", "a.xlsx",
                   "sqlite:///a.db#select 1"):  # fmt: skip
        assert not is_chunked(source)
    assert not any_chunked({"a": frame})


def test_dask_is_not_imported_before_it_is_needed():
    code = (
        "import sys, naim3l; from naim3l.input.sources import is_chunked; "
        "assert not is_chunked([[1]]); assert 'dask' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.dask
class TestDask:
    @pytest.mark.parametrize("n_parts", [1, 2, 7])
    def test_data_frames(self, frame, labels, n_parts, dd):
        lazy = [dd.from_pandas(table, npartitions=n_parts) for table in (frame, labels)]
        table = open_tables(*lazy)["X"]
        assert isinstance(table, ChunkedTable) and table.lengths is None
        assert len(table.parts) == n_parts
        assert table.features.columns == list(frame) and table.features.shape == (0, 3)
        found = batches(table)
        pd.testing.assert_frame_equal(stacked([X for X, _ in found]), frame, check_dtype=False)
        pd.testing.assert_frame_equal(stacked([y for _, y in found]), labels)
        assert str(found[-1][0].origin) == f"X, partition {n_parts - 1}"

    def test_arrays_of_any_blocks(self, frame, labels, da):
        X, y = frame[["a", "b"]].to_numpy(), labels.to_numpy()
        for blocks in (X, sparse.csr_array):
            lazy = da.from_array(X, chunks=(30, 1))
            lazy = lazy.map_blocks(sparse.csr_array) if blocks is sparse.csr_array else lazy
            table = open_tables({"v": lazy}, {"v": da.from_array(y, chunks=(30, 2))})["v"]
            assert table.lengths == [30, 30, 10] and table.features.shape == (0, 2)
            found = batches(table)
            assert_array_equal(stacked([rows for rows, _ in found]), X)
            assert_array_equal(stacked([rows for _, rows in found]), y)

    def test_one_task_computes_features_and_labels_if_no_other_needs_what_they_need(
        self, frame, labels, dd
    ):
        whole = frame.join(labels)
        read_once = pytest.importorskip("dask").delayed(whole.copy)()
        halves = [read_once.iloc[:35], read_once.iloc[35:]]
        apart, shared = (
            dd.from_pandas(whole, npartitions=3),
            dd.from_delayed(halves, meta=whole[:0]),
        )
        for lazy, n_inputs in ((apart, 1), (shared, 2)):
            table = open_tables(lazy[list(frame)], lazy[LABELS])["X"]
            assert {len(part) for part in table.parts} == {n_inputs}
            found = batches(table)
            rows = stacked([X for X, _ in found])
            pd.testing.assert_frame_equal(rows, frame, check_dtype=False)
            assert_array_equal(stacked([y for _, y in found]), labels)

    @pytest.mark.parametrize("kind", ["series", "array"])
    def test_labels_of_one_dimension(self, frame, labels, kind, dd, da):
        y = labels["flu"]
        lazy = dd.from_pandas(y, npartitions=2) if kind == "series" else (
            da.from_array(y.to_numpy(), chunks=35))  # fmt: skip
        table = open_tables(dd.from_pandas(frame, npartitions=2), lazy)["X"]
        assert table.one_column and table.labels.shape == (0, 1)
        found = [of_rows.data for _, of_rows in batches(table)]
        assert_array_equal(np.concatenate([np.asarray(part).ravel() for part in found]), y)

    @pytest.mark.parametrize("container", [lambda t: t, pl.from_pandas, lambda t: t.to_numpy(),
                                           lambda t: t["flu"]])  # fmt: skip
    def test_labels_in_memory_are_divided_as_the_features(self, frame, labels, container, dd):
        X = dd.from_pandas(frame, npartitions=3)
        X = X[X["a"] > 0]  # of unknown lengths
        kept = labels[frame["a"] > 0]
        table = open_tables(X, container(kept))["X"]
        expected = np.asarray(container(kept)).reshape(len(kept), -1)
        found = np.vstack([np.asarray(of_rows.data) for _, of_rows in batches(table)])
        assert_array_equal(found, expected)
        with pytest.raises(ValueError, match=f"{len(kept)} rows of features but 70 rows of labels"):
            open_tables(X, container(labels))

    def test_labels_that_are_columns(self, frame, labels, dd):
        lazy = dd.from_pandas(frame.join(labels), npartitions=2)
        for names in (LABELS, tuple(LABELS), "flu"):
            table = open_tables({"v": lazy}, {"v": names})["v"]
            assert table.labels.columns == ([names] if isinstance(names, str) else LABELS)
            assert "flu" not in table.features.columns
        with pytest.raises(ValueError, match=r"view 'v': no column 'flue'; .*'flu'"):
            open_tables({"v": lazy}, {"v": ["flue"]})
        with pytest.raises(ValueError, match="X: no labels; give the names of columns"):
            open_tables(lazy, [])

    def test_partitions_that_do_not_match(self, frame, labels, dd, da):
        with pytest.raises(ValueError, match="3 partitions of features but 2 of labels; give both"):
            open_tables(dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=2))
        X, y = da.ones((10, 2), chunks=((3, 7), 2)), da.ones((10, 1), chunks=((7, 3), 1))
        with pytest.raises(ValueError, match=r"X, partition [01]: [37] rows of features .*rechunk"):
            batches(open_tables(X, y)["X"])
        late = dd.from_pandas(labels, npartitions=2).loc[:100]  # rows known when they are read
        with pytest.raises(ValueError, match=r"X, partition 1: 35 rows of features but 13 rows"):
            batches(open_tables(dd.from_pandas(frame, npartitions=2), late)["X"])

    def test_nothing_is_computed_before_it_is_read(self, frame, labels, dd, da):
        import dask

        def refuse():
            raise AssertionError("computed too early")

        lazy = dask.delayed(refuse)()
        X = dd.from_delayed([lazy, lazy], meta=frame.iloc[:0], verify_meta=False)
        y = dd.from_delayed([lazy, lazy], meta=labels.iloc[:0], verify_meta=False)
        array = da.from_delayed(lazy, shape=(4, 2), dtype=float)
        for table in (open_tables(X, y)["X"], open_tables(array, array)["X"]):
            with pytest.raises(AssertionError, match="too early"):
                batches(table)

    def test_facts_are_those_of_the_data(self, da):
        def facts(seed, columns=(0, 1)):
            X = np.random.default_rng(seed).normal(size=(6, 2))
            lazy = da.from_array(X, chunks=3)[:, list(columns)]
            return str(open_tables(lazy, np.arange(6) % 2)["X"].facts)

        assert facts(0) == facts(0)
        assert len({facts(0), facts(1), facts(0, (1, 0))}) == 3

    def test_what_is_no_table(self, da, dd):
        import dask

        def opened(X):
            return open_tables({"v": X}, None, labelled=False)

        with pytest.raises(
            TypeError, match=r"view 'v': Delayed of dask is not a table; .*from_del"
        ):
            opened(dask.delayed(int)())
        unknown = da.from_delayed(dask.delayed(int)(), shape=(4, np.nan), dtype=float)
        with pytest.raises(ValueError, match=r"unknown number of columns; .*compute_chunk_sizes"):
            opened(unknown)
        twice = dd.from_pandas(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), npartitions=1)
        with pytest.raises(ValueError, match=r"view 'v': duplicate column names \['a'\]"):
            opened(twice)
        with pytest.raises(ValueError, match=r"view 'v': Expected 2D array"):
            opened(da.ones(3))

    def test_a_table_in_memory_beside_others(self, frame, labels, dd):
        lazy = [dd.from_pandas(table, npartitions=2) for table in (frame, labels)]
        tables = open_tables({"a": lazy[0], "b": frame}, {"a": lazy[1], "b": labels})
        with pytest.raises(TypeError, match="view 'b' is in memory, and others are read in chunks"):
            all_chunked(tables)


@pytest.fixture
def folder(tmp_path, frame, labels):
    """The same rows in one CSV file, in three, and in three Parquet files of two row groups."""
    both = frame.join(labels).assign(code=[f"{i % 7:03d}" for i in range(70)])
    both.to_csv(tmp_path / "all.csv", index=False)
    for form in ("csv", "parquet"):
        (tmp_path / form).mkdir()
    for k, rows in enumerate(np.array_split(np.arange(70), 3)):
        both.iloc[rows].to_csv(tmp_path / "csv" / f"{k}.csv", index=False)
        path = tmp_path / "parquet" / f"{k}.parquet"
        both.iloc[rows].to_parquet(path, row_group_size=12, index=False)
    return tmp_path


class TestFiles:
    @pytest.mark.parametrize("source", ["all.csv", "csv", "csv/*.csv", "parquet"])
    def test_rows_and_labels_are_read_together(self, folder, source, frame, labels):
        if source != "all.csv":
            pytest.importorskip("dask")
        table = open_tables({"v": folder / source}, {"v": LABELS}, text=["code"])["v"]
        assert table.chunked == (source != "all.csv")
        assert table.features.columns == ["a", "b", "word", "code"]
        found = batches(table)
        rows = stacked([X for X, _ in found])
        assert_array_equal(rows[["a", "b", "word"]].to_numpy(), frame.to_numpy())
        assert rows["code"].tolist() == [f"{i % 7:03d}" for i in range(70)]
        assert_array_equal(stacked([y for _, y in found]), labels)
        lines = "" if source == "parquet" else " (line 7)"
        last = found[-1][0].origin
        assert last.place(5).startswith("view 'v', ") and last.place(5).endswith(
            f"row {last.first_row + 5}{lines}"
        )

    @pytest.mark.dask
    def test_batches_of_a_part(self, folder):
        view = FileView(open_table(folder / "csv"), ["b", "a"], chunked=True, batch_rows=9)
        found = batches(open_tables({"v": view}, {"v": LABELS})["v"])
        assert [len(X) for X, _ in found] == [9, 9, 6, 9, 9, 5, 9, 9, 5]
        assert found[1][0].columns == ["b", "a"]
        assert str(found[3][0].origin) == "view 'v', 1.csv"
        assert found[4][0].origin.place(0) == "view 'v', 1.csv, row 9 (line 11)"

    def test_ids_become_the_index_and_words_are_added(self, folder):
        table = open_table(folder / "all.csv")
        view = FileView(table, ["a"], id="code", text=("a",))
        words = LabelWords(yes=("7",))
        opened = open_tables({"v": view}, {"v": LabelColumns(["flu"], words)})["v"]
        assert opened.features.data.index[0] == opened.features.data.index[7] == "000"
        view = FileView(open_table(folder / "all.csv"), ["word"], id="a")
        opened = open_tables({"v": view}, {"v": LabelColumns(["flu"], words)})["v"]
        assert opened.words == words and opened.features.data.index.name == "a"
        assert all(isinstance(entry, str) for entry in opened.features.data.index)

    def test_labels_in_memory_beside_a_file(self, folder, labels):
        opened = open_tables({"v": folder / "all.csv"}, {"v": labels.to_numpy()})["v"]
        assert opened.features.shape == (70, 6) and opened.labels.shape == (70, 2)
        with pytest.raises(ValueError, match="70 rows of features but 69 rows of labels"):
            open_tables({"v": folder / "all.csv"}, {"v": labels[1:]})
        with pytest.raises(TypeError, match="need labels that are columns of the same files"):
            open_tables({"v": folder / "csv"}, {"v": labels})

    def test_names_that_are_not_there(self, folder):
        with pytest.raises(ValueError, match=r"view 'v', .*all.csv: no column 'flo'; .*'flu'"):
            open_tables({"v": folder / "all.csv"}, {"v": ["flo"]})
        with pytest.raises(ValueError, match="no labels; give the names of columns"):
            open_tables({"v": folder / "all.csv"}, {"v": []})

    @pytest.mark.dask
    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_facts_are_those_of_the_files(self, folder, form):
        def facts():
            return str(open_tables({"v": folder / form}, {"v": LABELS})["v"].facts)

        before = facts()
        assert facts() == before
        path = folder / form / f"1.{form}"
        os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
        assert facts() != before

    @pytest.mark.dask
    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_files_that_change_between_passes_are_refused(self, folder, form):
        table = open_tables({"v": folder / form}, {"v": LABELS})["v"]
        assert sum(len(X) for X, _ in batches(table)) == 70
        path = folder / form / f"1.{form}"
        os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
        with pytest.raises(ValueError, match=rf"1\.{form} has changed since it was opened"):
            batches(table)

    def test_only_the_columns_of_a_model_are_read(self, folder):
        X = with_columns({"v": folder / "all.csv", "w": np.eye(2)}, {"v": ["code", "a"]}, ["code"])
        assert_array_equal(X["w"], np.eye(2))
        [(features, _)] = batches(open_tables(X, None, labelled=False)["v"])
        assert features.columns == ["code", "a"] and features.data["code"][1] == "001"
