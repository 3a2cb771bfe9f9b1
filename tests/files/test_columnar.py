"""Parquet and Arrow files: rows in their order, each row group decoded once."""

import os
import pickle
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table


@pytest.fixture
def frame(rng):
    frame = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "c"])
    frame["word"] = rng.choice(["red", "blue", None], size=100)
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(100), "D")
    frame.loc[::9, "b"] = np.nan
    return frame


@pytest.fixture
def folder(tmp_path, frame):
    """Twelve files of 100 rows in all, in row groups of at most 6 rows."""
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), 12)):
        frame.iloc[rows].to_parquet(tmp_path / f"part.{i}.parquet", row_group_size=6, index=False)
    return tmp_path


def read(source, **options):
    return open_table(source).read(**options)[0]


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


class TestRowGroups:
    @pytest.mark.parametrize("batch_rows", [None, 1, 4, 6])
    def test_batches_are_all_rows_in_order(self, folder, frame, batch_rows):
        table = open_table(folder)
        parts = [
            list(pickle.loads(pickle.dumps(part)).batches(batch_rows=batch_rows))
            for part in table.parts
        ]
        assert [sum(len(batch) for batch, _ in part) for part in parts] == table.lengths
        together = pd.concat([batch for part in parts for batch, _ in part], ignore_index=True)
        pd.testing.assert_frame_equal(together, frame, check_dtype=False)
        pd.testing.assert_frame_equal(read(folder), frame, check_dtype=False)
        assert all(len(batch) <= (batch_rows or 6) for part in parts for batch, _ in part)
        places = [
            origin.place(i) for part in parts for batch, origin in part for i in range(len(batch))
        ]
        assert places[8] == "part.0.parquet, row 8" and places[9] == "part.1.parquet, row 0"

    def test_each_row_group_is_decoded_once_and_only_columns_that_are_needed(
        self, folder, frame, monkeypatch
    ):
        decoded, original = [], pq.ParquetFile.iter_batches

        def spy(self, batch_size, row_groups, columns, **options):
            for batch in original(self, batch_size, row_groups, columns, **options):
                decoded.append((batch.num_rows, columns))
                yield batch

        monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
        for name in ("read", "read_row_group", "read_row_groups"):
            monkeypatch.delattr(pq.ParquetFile, name)
        table = open_table(folder)
        found = [batch for part in table.parts for batch, _ in part.batches(["c", "a"], (), 4)]
        np.testing.assert_array_equal(pd.concat(found), frame[["c", "a"]])
        assert sum(n_rows for n_rows, _ in decoded) == 100
        assert all(columns == ["c", "a"] for _, columns in decoded)

    def test_first_rows(self, folder, frame):
        for n_rows in (1, 6, 20, 1000):
            found = read(folder, n_rows=n_rows)
            pd.testing.assert_frame_equal(found, frame[:n_rows], check_dtype=False)

    def test_columns_with_dots_in_their_names(self, tmp_path):
        pd.DataFrame({"x": [1, 2], "x.y": [3, 4]}).to_parquet(tmp_path / "a.parquet")
        assert read(tmp_path, columns=["x"]).to_numpy().tolist() == [[1], [2]]
        assert read(tmp_path, columns=["x.y"]).to_numpy().tolist() == [[3], [4]]

    def test_an_index_of_pandas_is_a_column(self, tmp_path):
        folder = tmp_path / "year=2020"  # which a single file does not have as a column
        folder.mkdir()
        values = pd.DataFrame({"x": [1.5, 2.0]}, index=pd.Index(["p", "q"], name="patient"))
        values.to_parquet(folder / "a.parquet")
        assert open_table(folder / "a.parquet").columns == ["x", "patient"]
        values.rename_axis(None).to_parquet(folder / "a.parquet")
        table = read(folder / "a.parquet")
        assert table.to_dict("list") == {"x": [1.5, 2.0], "unnamed_2": ["p", "q"]}

    def test_tables_without_rows(self, tmp_path):
        write(tmp_path / "empty.parquet", x=pa.array([], pa.float64()))
        with pytest.raises(ReadError, match=r"empty\.parquet: no rows"):
            open_table(tmp_path / "empty.parquet")


class TestTypes:
    def test_types_that_hold_the_values_of_all_files(self, tmp_path):
        for i, values in enumerate(([1, 2], [0.5, None], [None, None])):
            write(tmp_path / f"{i}.parquet", a=values)
        np.testing.assert_array_equal(read(tmp_path)["a"], [1, 2, 0.5, np.nan, np.nan, np.nan])

    def test_values_that_the_common_type_does_not_hold_are_named(self, tmp_path):
        write(tmp_path / "0.parquet", a=[0.5])
        write(tmp_path / "1.parquet", a=[2**53 + 1])
        with pytest.raises(ReadError, match=r"1.parquet, column 'a': it is int64, but double in"):
            read(tmp_path)

    def test_types_that_have_nothing_in_common(self, tmp_path):
        for i, values in enumerate(([None], ["text"], [1.5])):
            write(tmp_path / f"{i}.parquet", a=values)
        with pytest.raises(ReadError, match=r"2.parquet: it does not fit .*Field a .*string"):
            open_table(tmp_path)

    def test_columns_in_another_order_and_other_columns(self, folder, frame):
        frame[frame.columns[::-1]][45:51].to_parquet(folder / "part.5.parquet", index=False)
        assert list(read(folder).columns) == list(frame.columns)
        frame.drop(columns="b").to_parquet(folder / "part.5.parquet", index=False)
        with pytest.raises(ReadError, match=r"part.0.parquet has the column 'b', which .*part.5"):
            open_table(folder)

    def test_dates_beyond_the_calendar_are_dates(self, tmp_path):
        """In a time zone, pandas has dates after the year 9999 that it cannot go through."""
        zone = pa.timestamp("s", tz="Europe/Berlin")
        write(tmp_path / "a.parquet", day=pa.array([10**12, 2 * 10**12], zone))
        days = read(tmp_path / "a.parquet")["day"].to_numpy().astype("datetime64[s]")
        assert days.astype(int).tolist() == [10**12, 2 * 10**12]

    def test_dates_and_truth_values_with_gaps_are_no_objects(self, tmp_path):
        days = [date(2024, 2, 29), None, date(1969, 12, 31)]
        write(tmp_path / "a.parquet", day=pa.array(days), id=pa.array(days[:1] * 3),
              yes=pa.array([True, None, False]))  # fmt: skip
        frame = read(tmp_path / "a.parquet", text_columns=["id"])
        assert frame["day"].dtype.kind == "M"
        assert [None if pd.isna(day) else day.date() for day in frame["day"]] == days
        assert frame["yes"].dtype == "boolean"
        assert [None if pd.isna(cell) else bool(cell) for cell in frame["yes"]] == [
            True, None, False]  # fmt: skip
        assert frame["id"].tolist() == ["2024-02-29"] * 3


YEARS = {"a": [*range(6)], "year": [2020] * 3 + [2021] * 3, "site": [*"xxyxyy"]}


class TestFolders:
    """Names of folders such as year=2020 are columns."""

    @pytest.fixture
    def years(self, tmp_path):
        pq.write_to_dataset(pa.table(YEARS), tmp_path / "h", partition_cols=["year", "site"])
        write(tmp_path / "h" / "_log" / "log.parquet", other=[1])
        return tmp_path / "h"

    @pytest.mark.parametrize(
        "pattern",
        ["", "*/*/*.parquet", "year=*", "year=20*/site=*", "year=*/site=?/*", "year=*/**", "*"],
    )
    def test_patterns_have_the_columns_of_the_folder(self, years, pattern):
        assert read(str(years / pattern)).to_dict("list") == YEARS

    @pytest.mark.parametrize("pattern", ["year=2021", "year=2021/*/*.parquet", "*=2021"])
    def test_one_of_the_folders_has_their_columns(self, years, pattern, monkeypatch):
        monkeypatch.chdir(years)
        for source in (years / pattern, pattern):
            assert read(source).to_dict("list") == {name: of[3:] for name, of in YEARS.items()}

    def test_lists_of_paths(self, years):
        table = read([str(years / "year=2021"), years / "year=2020" / "*"])
        assert table["a"].tolist() == [3, 4, 5, 0, 1, 2]
        files = sorted(years.glob("year=*/*/*.parquet"))
        assert read(files).equals(read(years))
        assert open_table(files[0]).columns == ["a"]

    def test_the_column_of_a_folder_alone(self, years):
        (part, *_) = open_table(years).parts
        assert next(part.batches(["year"]))[0].to_numpy().tolist() == [[2020], [2020]]

    def test_a_column_both_in_files_and_in_names_of_folders(self, years):
        path = next((years / "year=2020" / "site=x").glob("*.parquet"))
        write(path, a=[1.0], year=["MMXX"])
        with pytest.raises(ReadError, match=r"Field year .*cannot be in the name of its folder"):
            open_table(years)

    def test_a_file_outside_of_the_folders(self, years):
        write(years / "year=2020" / "more.parquet", a=[1.0])
        with pytest.raises(ReadError, match=r"more.parquet: not in a folder .*'site=...'"):
            open_table(years)


class TestDatasets:
    def test_files_of_a_dataset(self, folder, frame):
        dataset = ds.dataset([str(folder / f"part.{i}.parquet") for i in range(12)])
        table = open_table(dataset)
        pd.testing.assert_frame_equal(table.read()[0], frame, check_dtype=False)
        assert next(table.parts[0].batches())[1].source == "part.0.parquet"
        (folder / "part.0.parquet").unlink()
        with pytest.raises(ReadError, match=r"part.0.parquet has changed since"):
            table.read()

    def test_others_are_refused(self, folder):
        with pytest.raises(ReadError, match="a dataset of pyarrow with a filter"):
            open_table(ds.dataset(str(folder)).filter(ds.field("a") > 0))
        (folder / "rows.csv").write_text("a\n1\n")
        rows = ds.dataset(folder / "rows.csv", format="csv")
        for other in (rows, ds.dataset(pa.table({"a": [1]}))):
            with pytest.raises(ReadError, match="does not consist of Parquet files"):
                open_table(other)


class TestDamage:
    @pytest.mark.parametrize(
        "change",
        [
            lambda path: path.unlink(),
            lambda path: path.write_bytes(b"PAR1 no longer"),
            lambda path: write(path, a=[1.0]),
            lambda path: pd.read_parquet(path).rename(columns={"a": "x"}).to_parquet(path),
        ],
    )
    @pytest.mark.parametrize("batch_rows", [None, 2])
    def test_files_that_change_are_refused(self, folder, change, batch_rows):
        part = open_table(folder).parts[6]
        path = folder / "part.3.parquet"
        before = path.stat().st_mtime_ns
        batches = part.batches(batch_rows=batch_rows)
        next(batches)
        change(path)
        if path.exists():
            os.utime(path, ns=(before, before + 1))  # whatever the resolution of the clock
        for rest in ([batches] if batch_rows else []) + [part.batches(batch_rows=batch_rows)]:
            with pytest.raises(ReadError, match=r"part.3.parquet has changed since .*start again"):
                list(rest)

    def test_a_damaged_file_among_others_is_named(self, folder):
        (folder / "part.7.parquet").write_bytes(b"PAR1 damaged")
        with pytest.raises(ReadError, match=r"part.7.parquet: not a readable Parquet file"):
            open_table(folder)


def write_arrow(path, table, form=pa.ipc.new_file):
    with pa.OSFile(str(path), "wb") as sink, form(sink, table.schema) as writer:
        writer.write_table(table)


class TestArrow:
    @pytest.mark.parametrize("ending", ["arrow", "feather", "ipc"])
    @pytest.mark.parametrize("form", [pa.ipc.new_file, pa.ipc.new_stream])
    def test_files_and_streams(self, tmp_path, frame, ending, form):
        path = tmp_path / f"table.{ending}"
        write_arrow(path, pa.Table.from_pandas(frame), form)
        pd.testing.assert_frame_equal(read(path), frame, check_dtype=False)
        table = open_table(path)
        assert table.lengths == [100] and table.read(n_rows=7)[0].shape == (7, 5)

    def test_doubled_names(self, tmp_path):
        write_arrow(tmp_path / "two.arrow", pa.table([[1], [2]], names=["x", "x"]))
        with pytest.raises(ReadError, match="both named 'x'"):
            open_table(tmp_path / "two.arrow")

    def test_cells_that_point_into_nowhere(self, tmp_path):
        """What a missing cell points to is not validated, and pyarrow's conversion follows it."""
        lengths = [(1, 0x61), (99, 2**62)]  # "a" in place, and 99 bytes of no buffer
        views = b"".join(n.to_bytes(4, "little") + at.to_bytes(12, "little") for n, at in lengths)
        buffers = [pa.py_buffer(part) for part in (b"\x01", views, b"abc")]
        column = pa.Array.from_buffers(pa.string_view(), 2, buffers)
        write_arrow(tmp_path / "a.arrow", pa.table({"word": column, "x": [1.0, 2.0]}))
        table = read(tmp_path / "a.arrow")
        assert table["word"].isna().tolist() == [False, True] and table["word"][0] == "a"
        nested = pa.table({"parts": pa.array([["a"]], pa.list_(pa.string_view()))})
        write_arrow(tmp_path / "b.arrow", nested)
        assert list(read(tmp_path / "b.arrow")["parts"][0]) == ["a"]

    def test_feather_of_version_1_is_refused(self, tmp_path):
        (tmp_path / "table.feather").write_bytes(b"FEA1" + bytes(40))
        with pytest.raises(ReadError, match=r"table\.feather: Feather of version 1.*write it agai"):
            open_table(tmp_path / "table.feather")
