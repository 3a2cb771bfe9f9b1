"""Folders and patterns of files of one table."""

import pytest

from naim3l.files.readers import ReadError
from naim3l.files.readers.folders import find_files, is_folder

pytestmark = pytest.mark.dask
pytest.importorskip("dask")


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n")


def test_files_are_in_the_order_of_their_numbers(tmp_path):
    make(tmp_path, "part-10.csv", "part-9.csv", "below/part-1.csv", "_run.csv", ".x.csv", "a.md")
    found = [path.relative_to(tmp_path).as_posix() for path in find_files(str(tmp_path))]
    assert found == ["below/part-1.csv", "part-9.csv", "part-10.csv"]
    found = find_files(f"{tmp_path}/part-*.csv")
    assert [path.name for path in found] == ["part-9.csv", "part-10.csv"]


def test_a_folder_of_two_formats_is_refused(tmp_path):
    make(tmp_path, "a.csv", "b.parquet")
    with pytest.raises(ReadError, match=r"a\.csv and .*b\.parquet have different formats"):
        find_files(str(tmp_path))
    assert len(find_files(f"{tmp_path}/*.parquet")) == 1


@pytest.mark.parametrize("pattern", ["", "/*.csv", "/no*"])
def test_no_files(tmp_path, pattern):
    with pytest.raises(ReadError, match="there are no files"):
        find_files(f"{tmp_path}{pattern}")


def test_a_pattern_with_another_format_is_refused(tmp_path):
    make(tmp_path, "a.csv", "b.xlsx")
    with pytest.raises(ReadError, match=r"b\.xlsx: files of a pattern"):
        find_files(f"{tmp_path}/*")


def test_single_tables_are_no_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path, "a[1].csv")
    assert not is_folder("a[1].csv")
    assert not is_folder("sqlite:///lab.db#select * from t")
    assert is_folder("a*.csv") and is_folder(".")
