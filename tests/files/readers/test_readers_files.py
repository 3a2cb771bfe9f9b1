"""Tables of every kind of file, and files that are wrong in one way each."""

import bz2
import gzip
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from fuzz.damage import from_nothing
from naim3l import DataWarning
from naim3l.files.readers import ReadError, parse_features, read_table

PLAIN = "id,x,flu\n007,1.5,yes\n008,2,no\n"


@pytest.fixture
def write(tmp_path):
    """Function that writes a file and gives its path."""

    def write_file(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def check_plain(table):
    assert table.index.name == "id"
    assert list(table.index) == ["007", "008"]
    assert table["x"].tolist() == [1.5, 2.0]
    assert table["flu"].tolist() == ["yes", "no"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_separator_is_found_whatever_the_ending(write, separator, ending, line_end):
    text = PLAIN.replace(",", separator).replace("\n", line_end)
    check_plain(read_table(write(text, f"table.{ending}"), id_column="id"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks(write, encoding):
    table = read_table(write("näme,x\nmüller,1\n".encode(encoding)))
    assert list(table.columns) == ["näme", "x"]
    assert table["näme"].tolist() == ["müller"]


def test_latin_1_is_read_with_a_warning(write):
    with pytest.warns(DataWarning, match=r"table.csv: not in UTF-8 \(line 3 has byte 0xfc\)"):
        table = read_table(write("name,x\na,1\nmüller,2\n".encode("latin-1")))
    assert table["name"].tolist() == ["a", "müller"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(write, separator):
    table = read_table(write(f"x{separator}y\n1,5{separator}-,25e2\n2{separator}3,0\n"))
    assert table.to_numpy().tolist() == [[1.5, -25.0], [2.0, 3.0]]


def test_quotes_hide_separators_line_ends_and_quotes(write):
    table = read_table(write('"a;b","c"\n"1,2","say ""hi""\nthere"\n"3;4",x\n'))
    assert list(table.columns) == ["a;b", "c"]
    assert table["a;b"].tolist() == ["1,2", "3;4"]
    assert table["c"].tolist() == ['say "hi"\nthere', "x"]


def test_only_empty_cells_are_missing(write):
    table = read_table(write("x,y\nNA,1\nnull,\n,2\n"))
    assert table["x"].isna().tolist() == [False, False, True]
    assert table["y"].isna().tolist() == [False, True, False]


def test_columns_without_names(write):
    """As R and pandas write row names, and with a separator at the end of each line."""
    table = read_table(write(",x,\na,1,\nb,2,\n"))
    assert list(table.columns) == ["unnamed_1", "x"]


def test_head_of_a_file(write):
    path = write(b"x\n" + b"".join(b"%d\n" % i for i in range(5000)) + b"\xff\n")
    assert len(read_table(path, n_rows=10)) == 10


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_packed_text(tmp_path, ending):
    path = tmp_path / f"table.csv.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", PLAIN)
    else:
        pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[ending]
        path.write_bytes(pack(PLAIN.encode()))
    check_plain(read_table(path, id_column="id"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 12])
    with pytest.raises(ReadError, match=f"table.csv.{ending}"):
        read_table(path)


def test_archive_of_several_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    with pytest.raises(ReadError, match="2 files in the archive"):
        read_table(tmp_path / "two.csv.zip")


TYPED = pd.DataFrame({"id": ["007", "008"], "x": [1.5, 2.0], "flu": ["yes", "no"]})


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("n_rows", [None, 2])
def test_parquet(tmp_path, index, n_rows):
    """An index of pandas is a column like the others."""
    folder = tmp_path / "year=2020"  # which must not become a column
    folder.mkdir()
    (TYPED.set_index("id") if index else TYPED).to_parquet(folder / "table.parquet")
    table = read_table(folder / "table.parquet", id_column="id", n_rows=n_rows)
    assert sorted(table.columns) == ["flu", "x"]
    check_plain(table)


@pytest.mark.parametrize("ending", ["arrow", "feather", "ipc"])
@pytest.mark.parametrize("form", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow(tmp_path, ending, form):
    path = tmp_path / f"table.{ending}"
    arrow = pa.Table.from_pandas(TYPED)
    with pa.OSFile(str(path), "wb") as sink, form(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    check_plain(read_table(path, id_column="id"))
    assert len(read_table(path, n_rows=1)) == 1


def test_arrow_cells_that_point_into_nowhere(tmp_path):
    """What a missing cell points to is not validated, and pyarrow's conversion would follow it."""
    lengths = [(1, 0x61), (99, 2**62)]  # "a" in place, and 99 bytes of a buffer that is not there
    views = b"".join(n.to_bytes(4, "little") + at.to_bytes(12, "little") for n, at in lengths)
    buffers = [pa.py_buffer(part) for part in (b"\x01", views, b"abc")]
    column = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    arrow = pa.table({"word": column, "x": [1.0, 2.0]})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), arrow.schema) as writer:
        writer.write_table(arrow)
    table = read_table(tmp_path / "a.arrow")
    assert table["word"].isna().tolist() == [False, True] and table["word"][0] == "a"
    nested = pa.table({"x": [1.0], "parts": pa.array([["a"]], pa.list_(pa.string_view()))})
    with pa.ipc.new_file(str(tmp_path / "b.arrow"), nested.schema) as writer:
        writer.write_table(nested)
    assert list(read_table(tmp_path / "b.arrow")["parts"][0]) == ["a"]


def test_feather_of_version_1_is_refused(write):
    with pytest.raises(ReadError, match=r"table\.feather: Feather of version 1.*write it again"):
        read_table(write(b"FEA1" + bytes(40), "table.feather"))


def test_dates_beyond_the_calendar_are_dates(tmp_path):
    """In a time zone, pandas has dates after the year 9999 that it cannot go through."""
    zone = pa.timestamp("s", tz="Europe/Berlin")
    days = pa.table({"day": pa.array([10**12, 2 * 10**12], zone), "x": [1.0, 2.0]})
    pa.parquet.write_table(days, tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    features, text = parse_features(table)
    assert text == [] and [day.year for day in features["day"]] == [33658, 65347]
    named = read_table(tmp_path / "a.parquet", id_column="day")
    assert list(named.index) == ["33658-09-27 01:46:40", "65347-06-24 03:33:20"]


def test_ids_are_the_same_from_every_kind_of_file(tmp_path, write):
    pd.DataFrame({"id": [7, 8], "x": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"id": [7.0, 8.0], "x": [1, 2]}).to_parquet(tmp_path / "b.parquet")
    expected = ["7", "8"]
    assert list(read_table(write("id,x\n7,1\n 8,2\n"), id_column="id").index) == expected
    for name in ("a.parquet", "b.parquet"):
        assert list(read_table(tmp_path / name, id_column="id").index) == expected


def test_npz(tmp_path):
    path = tmp_path / "one.npz"
    np.savez(path, points=np.arange(6.0).reshape(3, 2), note=np.array("text"))
    table = read_table(path)
    assert list(table.columns) == ["points_0", "points_1"]
    assert table.to_numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert read_table(f"{path}#points", n_rows=1).shape == (1, 2)
    with pytest.raises(ReadError, match=r"no array 'pionts'; did you mean 'points'\?"):
        read_table(f"{path}#pionts")
    with pytest.raises(ReadError, match="'note' has shape"):
        read_table(f"{path}#note")


def test_npz_of_several_views(tmp_path):
    path = tmp_path / "views.npz"
    views = {"a": np.arange(6).reshape(3, 2), "b": np.ones((3, 1))}
    labels, observed = np.array([[0, 1], [1, 1], [0, 0]]), [[1, 1], [0, 1], [1, 0]]
    arrays = {f"view_{name}": X for name, X in views.items()}
    names = ["cat", "dog"]
    np.savez(path, labels=labels, label_names=names, observed=observed, **arrays)
    with pytest.raises(ReadError, match=r"several arrays.*views\.npz#labels"):
        read_table(path)
    table = read_table(f"{path}#a")
    assert table.isna().all(axis=1).tolist() == [False, True, False]
    assert table.loc[[0, 2]].to_numpy().tolist() == [[0, 1], [4, 5]]
    assert list(read_table(f"{path}#labels").columns) == ["cat", "dog"]


def test_npz_with_a_damaged_header_or_other_members(tmp_path):
    path = tmp_path / "one.npz"
    np.savez(path, points=np.zeros((3000, 2)))
    path.write_bytes(path.read_bytes().replace(b"(3000, 2)", b"(2000, 2)"))
    for source in (path, f"{path}#points"):
        with pytest.raises(ReadError, match=r"one\.npz.*more bytes than its header says"):
            read_table(source)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.txt", "1 2 3")
    with pytest.raises(ReadError, match=r"one\.npz.*no array"):
        read_table(path)


def test_npz_runs_no_code(tmp_path):
    np.savez(tmp_path / "bad.npz", x=np.array([[print]], dtype=object))
    with pytest.raises(ReadError, match=r"bad\.npz.*allow_pickle"):
        read_table(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "nothing but empty lines"),
        ("a,b\n", "a header, but no rows"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4: 3 cells, but the header has 2; quote cells that contain"),
        ('a,b\n"1\n1",2\n1\n', "line 4: 1 cells, but the header has 2"),
        ("a,b\n1,2\n1\n2,3\n", "line 3: 1 cells, but the header has 2; quote cells"),
        ("a,b\n1,2\n1", "line 3: 1 cells, .*the last line: the file is perhaps cut short"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2: 3 cells.*give that column a name too"),
        ("a,b, a\n1,2,3\n", "columns 1 and 3 are both named 'a'"),
        ('"a;b;c"\n"1;2;3"\n', "one column only, whose name 'a;b;c' contains a semicolon"),
        ('"a\tb"\n"1\t2"\n', "contains a tab"),
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
        read_table(write(content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,x\na,1\n\n,2\n", r"row 1 \(line 4\), column 'id': an id is missing"),
        ('id,x\n"a\n",1\nb,2\na,3\n', r"row 2 \(line 5\), column 'id': id 'a' is already that of"),
        ("Id,x\na,1\n", r"no id column 'id'; did you mean 'Id'\?"),
        ("id\na\nb\n", "no column besides the id"),
    ],
)
def test_bad_ids(write, content, message):
    with pytest.raises(ReadError, match=f"table.csv.*{message}"):
        read_table(write(content), id_column="id")


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "npz", "mat"])
def test_truncated_files(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    values = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=list("abc"))
    if ending == "npz":
        np.savez(path, x=values.to_numpy())
    elif ending == "mat":
        savemat(path, {"x": values.to_numpy()})
    elif ending == "parquet":
        values.to_parquet(path)
    else:
        values.to_feather(path)
    content = path.read_bytes()
    for length in (0, 3, 7, len(content) // 2, len(content) - 9):
        path.write_bytes(content[:length])
        with pytest.raises(ReadError, match=f"table.{ending}"):
            read_table(path)


def test_tables_without_rows_or_with_doubled_names(tmp_path):
    pd.DataFrame({"x": pd.Series([], dtype=float)}).to_parquet(tmp_path / "empty.parquet")
    for n_rows in (None, 5):
        with pytest.raises(ReadError, match=r"empty\.parquet: no rows"):
            read_table(tmp_path / "empty.parquet", n_rows=n_rows)
    arrow = pa.table([[1], [2]], names=["x", "x"])
    with pa.ipc.new_file(str(tmp_path / "two.arrow"), arrow.schema) as writer:
        writer.write_table(arrow)
    with pytest.raises(ReadError, match="both named 'x'"):
        read_table(tmp_path / "two.arrow")


def test_paths_that_are_no_files(tmp_path, write, monkeypatch):
    path = write(PLAIN)
    with pytest.raises(ReadError, match="a folder"):
        read_table(tmp_path)
    with pytest.raises(ReadError, match=r"no such file; did you mean 'table\.csv'\?"):
        read_table(tmp_path / "tabel.csv")
    with pytest.raises(ReadError, match="look into"):
        read_table(tmp_path / "nowhere" / "table.csv")
    with pytest.raises(ReadError, match=r"no such file|cannot be opened"):
        read_table("a\0b.csv")
    with pytest.raises(ReadError, match=r"unknown extension '\.dat'; known are \.csv"):
        read_table(write("x", "table.dat"))
    with pytest.raises(ReadError, match=r"unknown extension '\.parquet\.gz'"):
        read_table(write("x", "table.parquet.gz"))

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReadError, match=r"table\.csv: no permission"):
        read_table(path)


def test_missing_libraries_are_named(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'naim3l\[files\]'"):
        read_table(write(PLAIN))


def test_package_can_be_imported_without_the_optional_libraries():
    """scikit-learn loads pandas where it is installed; nothing here does before it is needed."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pandas', 'pyarrow', 'sqlalchemy'))); "
        "import naim3l, naim3l.files.readers"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bytes")


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
@pytest.mark.parametrize(
    "ending", ["csv", "parquet", "feather", "npz", "mat", "xlsx", "csv.gz", "csv.zip"]
)
@settings(max_examples=100, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_arbitrary_bytes_are_a_table_or_a_read_error(folder, ending, random):
    path = folder / f"any.{ending}"
    path.write_bytes(from_nothing(random))
    try:
        table = read_table(path)
    except ReadError as error:
        assert str(path) in str(error)
    else:
        assert isinstance(table, pd.DataFrame) and table.shape > (0, 0)


def test_names_that_are_no_text_are_told_of(tmp_path):
    """NumPy keeps any number for a character, and pandas stumbles over some later on."""
    names = np.frombuffer(np.array([0xD8F8, 0x61], dtype="<u4").tobytes(), dtype="<U1")
    np.savez(tmp_path / "a.npz", labels=np.eye(2), label_names=names)
    try:
        assert len(read_table(tmp_path / "a.npz#labels")) == 2  # where pandas does not mind
    except ReadError as error:
        assert "a.npz" in str(error) and "cannot be read" in str(error)
