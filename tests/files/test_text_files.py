"""Delimited text: what is detected, what is refused, and batches that make up the whole table."""

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l import DataWarning
from naim3l.files import text
from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table

PLAIN = "name,x,flu\nbo,1.5,yes\nal,2,no\n"


def read(path, **options):
    return open_table(path).read(**options)[0]


def check_plain(table):
    assert list(table.columns) == ["name", "x", "flu"]
    assert table.to_numpy().tolist() == [["bo", 1.5, "yes"], ["al", 2.0, "no"]]


class TestLayout:
    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
    @pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
    def test_separators_are_found_whatever_the_extension(self, write, separator, ending, line_end):
        content = PLAIN.replace(",", separator).replace("\n", line_end)
        check_plain(read(write(content, f"table.{ending}")))

    def test_quotes_hide_separators_line_ends_and_quotes(self, write):
        table = read(write('"a;b","c"\n"1,2","say ""hi""\nthere"\n"3;4",x\n'))
        assert list(table.columns) == ["a;b", "c"]
        assert table["a;b"].tolist() == ["1,2", "3;4"]
        assert table["c"].tolist() == ['say "hi"\nthere', "x"]

    def test_only_empty_cells_are_missing(self, write):
        table = read(write("x,y\nNA,1\nnull,\n,2\n"))
        assert table["x"].isna().tolist() == [False, False, True]
        assert table["y"].isna().tolist() == [False, True, False]

    def test_numbers_with_commas_are_text(self, write):
        table = read(write("x;y\n1,5;2.5\n2;3\n"))
        assert table["x"].tolist() == ["1,5", "2"] and table["y"].tolist() == [2.5, 3.0]

    @given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
    @settings(max_examples=50)
    def test_floats_are_exact(self, tmp_path_factory, numbers):
        path = tmp_path_factory.mktemp("floats") / "table.csv"
        path.write_text("x,y\n" + "".join(f"{x!r},{-x!r}\n" for x in numbers))
        np.testing.assert_array_equal(read(path)["x"].to_numpy(dtype=float), numbers)

    def test_ids_and_columns_that_are_named_keep_all_digits(self, write):
        path = write("patient_id,a,b\n007,01,01\n")
        assert read(path, text_columns=["a", "none"]).to_numpy().tolist() == [["007", "01", 1]]

    def test_columns_without_a_name(self, write):
        """As R and pandas write row names, and with a separator at the end of each line."""
        assert list(read(write(",x,\na,1,\nb,2,\n")).columns) == ["unnamed_1", "x"]
        path = write("x,y,,\n" + "1,2,,\n" * 300 + "1,2,,note\n" + "1,2,,more\n")
        with pytest.warns(DataWarning, match=r"table.csv, line 302: 'note' is in column 4") as told:
            table = read(path)
        assert list(table.columns) == ["x", "y"] and len(table) == 302 and len(told) == 1

    def test_some_columns_in_another_order(self, write):
        table = read(write(PLAIN), columns=["flu", "name"])
        assert table.to_numpy().tolist() == [["yes", "bo"], ["no", "al"]]

    def test_many_columns_are_few_blocks(self, write):
        """Pandas reads each column into a block of its own, which later steps would go through."""
        row = ",".join(map(str, np.arange(300) + 0.5))
        names = ",".join(f"g{j}" for j in range(300))
        table = read(write(f"{names}\n{row}\n{row}\n"))
        assert table.shape == (2, 300) and table._mgr.nblocks == 1

    @pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
    def test_compressed(self, write, tmp_path, ending):
        path = tmp_path / f"table.csv.{ending}"
        if ending == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("inner.csv", PLAIN)
        else:
            pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[ending]
            path.write_bytes(pack(PLAIN.encode()))
        check_plain(read(path))
        path.write_bytes(path.read_bytes()[:-12])
        with pytest.raises(ReadError, match=rf"table.csv.{ending}: cannot be read as the format"):
            read(path)

    def test_archive_of_several_files(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
            archive.writestr("a.csv", PLAIN)
            archive.writestr("b.csv", PLAIN)
        with pytest.raises(ReadError, match="2 files in the archive"):
            open_table(tmp_path / "two.csv.zip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "nothing but empty lines"),
        ("a,b\n\n", "a header, but no rows"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4: 3 cells, but the header has 2; quote cells that contain"),
        ('a,b\n"1\n1",2\n1\n', "line 4: 1 cells, but the header has 2"),
        ("a,b\n1,2\n1\n2,3\n", "line 3: 1 cells, but the header has 2; quote cells"),
        ("a,b\n1,2\n1", "line 3: 1 cells, .*the last line: the file is perhaps cut short"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2: 3 cells.*give that column a name too"),
        ("a,b, a\n1,2,3\n", "columns 1 and 3 are both named 'a'"),
        ('"a;b;c"\n"1;2;3"\n', "one column only, whose name 'a;b;c' contains a semicolon"),
        ("a b\n1 2\n3 4\n", "separated by spaces"),
        ("1.5,2.5\n1,2\n", "the first line has numbers"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3: unexpected end of data; a quote is perhaps not closed"),
        ('a,b\n"1"2,3\n', "line 2: ',' expected after"),
        ("a,b\n1,2\n" + "x" * 70000 + ",\0\n", "line 3: a NUL byte"),
        (b"\x00\x01\x02\x03", "a binary file"),
        (b"PK\x03\x04 and so on", "a zip archive or an Excel workbook"),
        (b"\x1f\x8b and so on", "compressed with gzip"),
        (b"PAR1\x00 and so on", "a Parquet file"),
        ("é,x\n1,2\n".encode("utf-16") + b"\x00\xd8", "begins like a file in utf-16"),
    ],
)
def test_text_that_is_no_table(write, content, message):
    with pytest.raises(ReadError, match=f"(?s)table.csv.*{message}"):
        read(write(content))


ROWS = "name,a,b\n" + "".join(f"r{i},{i / 7},{i % 3}\n" for i in range(40))
TEXTS = {
    "plain": ROWS,
    "no last line end": ROWS.rstrip("\n"),
    "Windows": ROWS.replace("\n", "\r\n"),
    "old Mac": ROWS.replace("\n", "\r"),
    "blank lines": "\n" + ROWS.replace("r5,", "\n  \nr5,").replace("r9,", "\nr9,") + "\n\n",
    "quotes": "name,a,b\n"
    + "".join(f'r{i},"x, ""{i}""\n, y{chr(10) * (i % 4)}","{i}"\n' for i in range(25)),
    "inches": "name,a,b\n" + "".join(f'r{i},5" pipe,{i}\n' for i in range(25)),
    "one column": "a\n" + "".join(f"{i}\n" for i in range(25)),
    "quoted names": '"name","a\nb",c\n' + "".join(f"r{i},{i},x\n" for i in range(25)),
}


class TestBatches:
    @pytest.mark.parametrize("batch_rows", [1, 7, 25, 1000])
    @pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
    def test_together_they_are_the_table(self, write, content, batch_rows):
        table = open_table(write(content))
        whole, origin = table.read()
        (part,) = table.parts
        batches = list(part.batches(batch_rows=batch_rows))
        assert all(len(frame) == batch_rows for frame, _ in batches[:-1])
        together = pd.concat([frame for frame, _ in batches], ignore_index=True)
        pd.testing.assert_frame_equal(together, whole, check_dtype=False)
        places = [batch.place(i) for frame, batch in batches for i in range(len(frame))]
        assert places == [origin.place(i) for i in range(len(whole))]

    def test_lines_are_those_of_the_file(self, write):
        path = write(TEXTS["quotes"])
        frame, origin = open_table(path).read()
        lines = path.read_text().split("\n")
        for i, name in enumerate(frame["name"]):
            line = int(origin.place(i).split("(line ")[1].rstrip(")"))
            assert lines[line - 1].startswith(f"{name},") and f", row {i} (" in origin.place(i)

    def test_rows_of_any_cells(self, write, rng):
        cells = ["1", '"a\nb"', '"x""y"', "", '"\n"']
        rows = [f"{i},{cells[rng.integers(5)]},{cells[rng.integers(5)]}\n" for i in range(60)]
        (part,) = open_table(write("id,b,c\n" + "".join(rows))).parts
        for batch_rows in rng.integers(1, 60, 10):
            batches = part.batches(["id"], batch_rows=int(batch_rows))
            assert [i for frame, _ in batches for i in frame["id"]] == list(map(str, range(60)))

    def test_types_are_those_of_each_batch(self, write):
        (part,) = open_table(write("a,b\n1,x\n2,y\nlow,z\n")).parts
        first, second = (frame["a"].tolist() for frame, _ in part.batches(batch_rows=2))
        assert first == [1, 2] and second == ["low"]

    def test_a_file_is_read_once(self, write, monkeypatch):
        (part,) = open_table(write(ROWS)).parts
        opened, original = [], text._open_bytes
        monkeypatch.setattr(text, "_open_bytes", lambda path: opened.append(path) or original(path))
        assert sum(len(frame) for frame, _ in part.batches(batch_rows=3)) == 40
        assert len(opened) == 1

    def test_the_first_rows_need_no_others(self, write):
        path = write("a,b\n" + "1,2\n" * 300 + "1,2,3\n")
        assert len(read(path, n_rows=300)) == 300
        with pytest.raises(ReadError, match="line 302: 3 cells"):
            read(path)


class TestThousands:
    @pytest.mark.parametrize(
        ("numbers", "warned"),
        [
            ("950 1.234 12.500 7.891 2.468 3.579 -9.876", True),
            ("950  1.234", True),
            ("1.234 2.345", False),  # in either reading, they differ in scale only
            ("950 1234.5", False),
            ("950 0.123", False),
            ("950 1.5 2.25 1.234", False),
            ("950 1.2345", False),
            ("950 860", False),
            ("950 1.234 high", False),
        ],
    )
    def test_points_that_may_separate_thousands(self, write, recwarn, numbers, warned):
        content = "x;y\n" + "".join(f"{x};1\n" for x in numbers.split(" "))
        (part,) = open_table(write(content)).parts
        list(part.batches())
        told = [str(warning.message) for warning in recwarn]
        assert len(told) == warned
        assert not warned or "column 'x': numbers such as" in told[0]
        assert not warned or "are read with a decimal point. If it separates thousands" in told[0]

    def test_commas_between_cells_leave_no_doubt(self, write):
        assert read(write("x,y\n950,1\n1.234,2\n"))["x"].tolist() == [950, 1.234]


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_byte_order_marks(self, write, encoding):
        table = read(write("näme,x\nmüller,1\n".encode(encoding)))
        assert list(table.columns) == ["näme", "x"] and table["näme"].tolist() == ["müller"]

    def test_western_text_however_short(self, write):
        with pytest.warns(DataWarning, match=r"line 2 has byte 0xfc, .*\), read as cp1252"):
            assert read(write("x,name\n1,f\xfcr\n".encode("cp1252")))["name"].tolist() == ["für"]

    def test_the_first_foreign_byte_may_come_late(self, write):
        rows = "".join(f"{i},word\n" for i in range(20_000))
        content = f"x,name\n{rows}20000,für\n".encode("cp1252")
        with pytest.warns(DataWarning, match=r"line 20002 has byte 0xfc, .*\), read as cp1252"):
            table = open_table(write(content))
        (part,) = table.parts
        assert list(part.batches(batch_rows=1000))[-1][0]["name"].tolist() == ["für"]

    def test_all_of_the_file_is_in_the_encoding(self, write):
        late = b"x,y\n" + b"1,a\n" * 500_000 + b"2,\xff\x81\n"  # no character of cp1252
        with pytest.warns(DataWarning, match="read as latin-1"):
            open_table(write(late))
