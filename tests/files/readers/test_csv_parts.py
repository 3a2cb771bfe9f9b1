"""Parts of text files: together, they are the table that is read at once."""

import gzip

import numpy as np
import pandas as pd
import pytest

from naim3l.files.readers import ReadError, read_table
from naim3l.files.readers.csv_parts import plan_text
from naim3l.files.readers.errors import place

PLAIN = "id,a,b\n" + "".join(f"r{i},{i / 7},{i % 3}\n" for i in range(40))
TEXTS = {
    "plain": PLAIN,
    "no last line end": PLAIN.rstrip("\n"),
    "Windows": PLAIN.replace("\n", "\r\n"),
    "old Mac": PLAIN.replace("\n", "\r"),
    "blank lines": "\n" + PLAIN.replace("r5,", "\n  \nr5,").replace("r9,", "\nr9,") + "\n\n",
    "quotes": "id,a,b\n"
    + "".join(f'r{i},"x, ""{i}""\n, y{chr(10) * (i % 4)}","{i}"\n' for i in range(25)),
    "inches": "id,a,b\n" + "".join(f'r{i},5" pipe,{i}\n' for i in range(25)),
    "decimal commas": "id;a;b\n" + "".join(f"r{i};{i},5;{i}.25\n" for i in range(25)),
    "one column": "a\n" + "".join(f"{i}\n" for i in range(25)),
    "quoted names": '"id","a\nb",c\n' + "".join(f"r{i},{i},x\n" for i in range(25)),
}


@pytest.mark.parametrize("size", [1, 30, 100, 10**6])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_parts_are_the_whole_table(tmp_path, text, size):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    whole = read_table(path)
    files = plan_text([path], size, 10_000)
    parts = [files.read(part, list(whole.columns), ()) for part in files.parts]
    assert [len(part) for part in parts] == [part.n_rows for part in files.parts]
    together = pd.concat(parts, ignore_index=True)
    pd.testing.assert_frame_equal(together, whole, check_dtype=False)
    rows = [place(part, i) for part in parts for i in range(len(part))]
    assert rows == [place(whole, i) for i in range(len(whole))]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.filterwarnings("ignore:.*read as cp1252")
def test_encodings(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_bytes(("name,a\n" + "".join(f"Müller {i},{i}\n" for i in range(9))).encode(encoding))
    files = plan_text([path], 20, 10_000)
    together = pd.concat([files.read(part, ["name", "a"], ()) for part in files.parts])
    assert together["name"].tolist() == [f"Müller {i}" for i in range(9)]
    assert together["a"].tolist() == list(range(9))


def test_a_compressed_file_is_one_part_and_columns_may_be_in_another_order(tmp_path):
    first, second = tmp_path / "a.csv.gz", tmp_path / "b.csv"
    first.write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
    second.write_bytes(b"b,a\nz,3\n")
    files = plan_text([first, second], 1, 10_000)
    parts = [files.read(part, ["a", "b"], ()) for part in files.parts]
    assert [part["a"].tolist() for part in parts] == [[1, 2], [3]]
    assert [part["b"].tolist() for part in parts] == [["x", "y"], ["z"]]


def test_text_columns_keep_all_digits(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n007,1\n01,2\n")
    files = plan_text([path], 4, 10_000)
    cells = [files.read(part, ["a"], {"a"})["a"].tolist() for part in files.parts]
    assert cells == [["007"], ["01"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,c\n1,2\n", "a.csv has the column 'b', which b.csv lacks"),
        ("a,b,c\n1,2,3\n", "b.csv has the column 'c', which a.csv lacks"),
        ("", "b.csv: no header"),
        ("a,b\nm\xfcller,1\n", "b.csv: not in utf-8"),
        ('a,b\n1,"2\n', "b.csv, line 2: unexpected end of data"),
    ],
)
def test_files_that_do_not_fit(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text(text, encoding="latin-1")
    paths = [tmp_path / name for name in ("a.csv", "b.csv")]
    with pytest.raises(ReadError) as caught:
        files = plan_text(paths, 100, 10_000)
        [files.read(part, ["a"], ()) for part in files.parts]
    assert message in str(caught.value).replace(f"{tmp_path}/", "")


def test_a_row_of_another_width_is_named_by_its_line(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,2\n" * 10 + "1,2,3\n" + "1,2\n" * 10)
    files = plan_text([path], 8, 5)
    with pytest.raises(ReadError, match="line 12: 3 cells, but the header has 2"):
        [files.read(part, ["a"], ()) for part in files.parts]


def test_a_file_that_grows_is_noticed(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    files = plan_text([path], 8, 5)
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    with pytest.raises(ReadError, match="has changed"):
        files.read(files.parts[0], ["a"], ())


def test_any_size_of_parts_gives_each_row_once(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    cells = ["1", '"a\nb"', '"x""y"', "", '"\n"']
    rows = [f"{i},{cells[rng.integers(5)]},{cells[rng.integers(5)]}\n" for i in range(60)]
    path.write_text("id,b,c\n" + "".join(rows))
    for size in rng.integers(1, 200, 20):
        files = plan_text([path], int(size), 5)
        numbers = [files.read(part, ["id"], ())["id"].tolist() for part in files.parts]
        assert [i for part in numbers for i in part] == [str(i) for i in range(60)]
