"""Tables of every format, of several files, and paths that are no tables."""

import gzip
import os
import pickle
import sqlite3
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from naim3l import DataWarning
from naim3l.files import tables
from naim3l.files.errors import ReadError
from naim3l.files.tables import is_folder, open_table, source_files
from workbooks import make_workbook


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n")


FRAME = pd.DataFrame(
    {"id": ["p7", "p8", "p9"], "x": [1.5, np.nan, 2.0], "n": [3, 4, 5], "word": ["a", None, "b"]}
)


def assert_same(found, expected):
    """Equal cells, of any type; None and NaN are both missing."""
    expected = expected.where(expected.notna(), np.nan)
    pd.testing.assert_frame_equal(found.where(found.notna(), np.nan), expected, check_dtype=False)


class TestFormats:
    """One table, whatever the format."""

    @pytest.fixture(params=["csv", "csv folder", "parquet", "arrow", "xlsx", "sqlite"])
    def source(self, request, tmp_path):
        kind, frame = request.param.split()[-1], FRAME
        path = tmp_path / f"table.{kind}"
        if kind == "folder":
            path.mkdir()
            frame[:2].to_csv(path / "a.csv", index=False)
            frame[2:][["word", "n", "x", "id"]].to_csv(path / "b.csv", index=False)
        elif kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "parquet":
            frame.to_parquet(path, row_group_size=2)
        elif kind == "arrow":
            frame.to_feather(path)
        elif kind == "xlsx":
            rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
            path.write_bytes(make_workbook({"s": [list(frame.columns), *rows]}))
        else:
            connection = sqlite3.connect(path)
            frame.to_sql("t", connection, index=False)
            connection.close()
            return f"sqlite:///{path}#select * from t"
        return path

    def test_rows_batches_and_facts(self, source):
        table = open_table(source)
        assert table.columns == list(FRAME.columns)
        whole, _ = table.read()
        assert_same(whole, FRAME)
        parts = pickle.loads(pickle.dumps(table.parts))
        for batch_rows in (1, 2, None):
            batches = [frame for part in parts for frame, _ in part.batches(None, (), batch_rows)]
            together = pd.concat(batches, ignore_index=True)
            assert_same(together, FRAME)
        some, _ = table.read(n_rows=2, columns=["word", "x"])
        assert_same(some, FRAME[["word", "x"]][:2])
        assert table.lengths is None or sum(table.lengths) == 3
        assert table.facts == open_table(source).facts
        assert all(path.exists() for path in table.files) and table.files == source_files(source)

    def test_an_unknown_column(self, source):
        with pytest.raises(ReadError, match=r"\w: no column 'wrod'; did you mean 'word'"):
            open_table(source).read(columns=["x", "wrod"])


class TestFolders:
    def test_files_are_in_the_order_of_their_numbers(self, tmp_path):
        names = ("part-10.csv", "part-9.csv", "below/part-1.csv", "_run.csv", ".x.csv", "a.md")
        make(tmp_path, *names, "_log/b.csv")
        found = [path.relative_to(tmp_path).as_posix() for path in source_files(tmp_path)]
        assert found == ["below/part-1.csv", "part-9.csv", "part-10.csv"]
        found = source_files(f"{tmp_path}/part-*.csv")
        assert [path.name for path in found] == ["part-9.csv", "part-10.csv"]
        sources = [next(part.batches())[1].source for part in open_table(tmp_path).parts]
        assert sources == [os.path.join("below", "part-1.csv"), "part-9.csv", "part-10.csv"]

    def test_a_folder_of_two_formats_is_refused(self, tmp_path):
        make(tmp_path, "a.csv", "b.parquet")
        with pytest.raises(ReadError, match=r"a\.csv and .*b\.parquet have different formats"):
            open_table(tmp_path)
        assert len(source_files(f"{tmp_path}/*.parquet")) == 1

    @pytest.mark.parametrize("pattern", ["", "/*.csv", "/no*"])
    def test_no_files(self, tmp_path, pattern):
        with pytest.raises(ReadError, match="there are no files"):
            open_table(f"{tmp_path}{pattern}")

    def test_other_formats_in_patterns_and_lists(self, tmp_path):
        make(tmp_path, "a.csv", "b.xlsx")
        for source in (f"{tmp_path}/*", [tmp_path / "a.csv", tmp_path / "b.xlsx"]):
            with pytest.raises(ReadError, match=r"b\.xlsx: files of a pattern or a list must have"):
                open_table(source)
        with pytest.raises(ReadError, match=r"c\.csv: there is no such file"):
            open_table([tmp_path / "a.csv", tmp_path / "c.csv"])

    def test_single_tables_are_no_folders(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        make(tmp_path, "a[1].csv")
        assert not is_folder("a[1].csv")
        assert not is_folder("sqlite:///lab.db#select * from t")
        assert is_folder("a*.csv") and is_folder(".")


class TestTextFilesOfOneTable:
    def test_columns_may_be_in_another_order_and_files_compressed(self, write, tmp_path):
        write(gzip.compress(b"a,b\n1,x\n2,y\n"), "1.csv.gz")
        write("b;a\nz;3\n", "2.csv")
        write("a,b\n", "3.csv")  # without rows
        table, origin = open_table(tmp_path).read()
        assert table.to_dict("list") == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
        assert origin.place(2) == f"{tmp_path}, row 2"

    def test_one_warning_for_all_encodings(self, write, tmp_path):
        for i in range(3):
            write("näme,a\nmüller,1\n".encode("cp1252"), f"{i}.csv")
        with pytest.warns(DataWarning, match=r"0\.csv: not in UTF-8 .*\(2 more files\)") as told:
            table = open_table(tmp_path)
        assert len(told) == 1 and table.read()[0]["näme"].tolist() == ["müller"] * 3

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a,c\n1,2\n", "a.csv has the column 'b', which b.csv lacks"),
            ("a,b,c\n1,2,3\n", "b.csv has the column 'c', which a.csv lacks"),
            ("", "b.csv: the file is empty"),
            ('a,b\n1,"2\n', "b.csv, line 2: unexpected end of data"),
        ],
    )
    def test_files_that_do_not_fit(self, write, tmp_path, text, message):
        write("a,b\n1,2\n", "a.csv")
        write(text, "b.csv")
        with pytest.raises(ReadError) as caught:
            open_table(tmp_path).read()
        assert message in str(caught.value).replace(f"{tmp_path}/", "")

    @pytest.mark.parametrize(
        "change",
        [
            lambda path: path.unlink(),
            lambda path: path.write_text("a,b\n1,2\n"),
            lambda path: path.write_text("a,b\n" + "1,3\n" * 9),
            lambda path: path.write_text("a,b\n" + "1,2\n" * 9 + "1\n"),
        ],
    )
    def test_a_file_that_changes_is_refused(self, write, change):
        path = write("a,b\n" + "1,2\n" * 9)
        table = open_table(path)
        before = path.stat().st_mtime_ns
        batches = table.parts[0].batches(batch_rows=2)
        next(batches)
        change(path)
        if path.exists():
            os.utime(path, ns=(before, before + 1))  # whatever the resolution of the clock
        for reading in (lambda: next(batches), table.read):
            with pytest.raises(ReadError, match=r"table.csv has changed since .*; start again"):
                reading()
        assert not path.exists() or open_table(path).facts != table.facts


class TestPaths:
    def test_paths_that_are_no_files(self, tmp_path, write, monkeypatch):
        path = write("a,b\n1,2\n")
        for name, reason in (
            (tmp_path / "tabel.csv", r"tabel\.csv: .*no such file; did you mean 'table\.csv"),
            (tmp_path / "nowhere" / "table.csv", "no such file, and no folder"),
            ("a\0b.csv", "no such file|cannot be opened"),
            (write("x", "table.dat"), r"unknown extension '\.dat'; known are \.csv"),
            (write("x", "table.parquet.gz"), r"unknown extension '\.parquet\.gz'; known"),
            (write("x", "table.ods"), r"of another kind; save it as .xlsx, or as CSV"),
            (write("x", "lab.sqlite"), r"lab.sqlite#select \* from TABLE'"),
        ):
            with pytest.raises(ReadError, match=reason):
                open_table(name)

        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(ReadError, match=r"table\.csv: no permission"):
            open_table(path)


class TestLibraries:
    def test_missing_libraries_are_named(self, write, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"pip install 'naim3l\[files\]'"):
            open_table(write("a\n1\n"))

    def test_nothing_is_imported_before_it_is_needed(self):
        code = (
            "import sys; sys.modules.update(dict.fromkeys(('pandas', 'pyarrow', 'sqlalchemy'))); "
            "import naim3l.files.tables, naim3l.files.writers"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_many_small_files_are_few_parts_whose_rows_keep_their_places(
    tmp_path, extension, monkeypatch
):
    monkeypatch.setattr(tables, "MANY_PARTS", 5)
    monkeypatch.setattr(tables, "PART_ROWS", 25)
    monkeypatch.setattr(tables, "PART_BYTES", 200)
    frames = []
    for k in range(9):
        n = 40 if k == 4 else 10
        words = [f"w{k}"] * n if extension == "csv" and k == 7 else range(k, k + n)
        frames.append(pd.DataFrame({"a": np.arange(n) + 100 * k, "b": [*words]}))
        if extension == "csv":
            frames[-1].to_csv(tmp_path / f"part{k}.csv", index=False)
        else:
            frames[-1].to_parquet(tmp_path / f"part{k}.parquet", index=False)
    opened = open_table(str(tmp_path))
    assert 3 < len(opened.parts) < 9
    if extension == "parquet":
        assert opened.lengths == [20, 20, 40, 20, 20]
    for batch_rows in (None, 7, 15, 1000):
        found = list(chain.from_iterable(p.batches(batch_rows=batch_rows) for p in opened.parts))
        assert [a for f, _ in found for a in f["a"]] == [a for f in frames for a in f["a"]]
        assert [str(b) for f, _ in found for b in f["b"]] == [
            str(b) for f in frames for b in f["b"]
        ]
        assert batch_rows is None or max(len(frame) for frame, _ in found) <= batch_rows
        for frame, origin in found:
            numbers = origin.numbers(len(frame))
            for i, a in enumerate(frame["a"]):
                place = origin.of_table("view 'v'").place(i, "column 'b'")
                line = f" (line {a % 100 + 2})" if extension == "csv" else ""
                file = f"part{a // 100}.{extension}"
                assert place == f"view 'v', {file}, row {a % 100}{line}, column 'b'"
                assert numbers[i] == a % 100
                assert origin.take(np.array([i])).place(0) == origin.place(i)
    pickle.loads(pickle.dumps(opened.parts))
