"""Tables from .npz files."""

import zipfile

import numpy as np
import pytest

from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table


def read(source):
    return open_table(source).read()[0]


def test_the_only_table_of_a_file(tmp_path):
    path = tmp_path / "one.npz"
    np.savez(path, points=np.arange(6, dtype=">f8").reshape(3, 2), note=np.array("text"))
    table, origin = open_table(path).read()
    assert list(table.columns) == ["points_0", "points_1"]
    assert table.to_numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert origin.place(1) == f"{path}#points, row 1"
    assert read(f"{path}#points").equals(table)
    with pytest.raises(ReadError, match=r"no array 'pionts'; did you mean 'points'\?"):
        open_table(f"{path}#pionts")
    with pytest.raises(ReadError, match="'note' has shape"):
        open_table(f"{path}#note")


def test_one_of_several(tmp_path):
    path = tmp_path / "views.npz"
    np.savez(path, a=np.eye(2), labels=[[0, 1], [1, 1]], label_names=["cat", "dog"])
    with pytest.raises(ReadError, match=r"several arrays, 'a', 'labels'.*views\.npz#a"):
        open_table(path)
    assert list(read(f"{path}#labels").columns) == ["cat", "dog"]
    assert list(read(f"{path}#a").columns) == ["a_0", "a_1"]


def test_damaged_headers_and_other_members(tmp_path):
    path = tmp_path / "one.npz"
    np.savez(path, points=np.zeros((3000, 2)))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(3000, 2)", b"(2000, 2)"))
    with pytest.raises(ReadError, match=r"one\.npz.*more bytes than its header says"):
        open_table(path)
    for length in (0, 3, len(content) // 2, len(content) - 9):
        path.write_bytes(content[:length])
        with pytest.raises(ReadError, match=r"one\.npz"):
            open_table(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.txt", "1 2 3")
    with pytest.raises(ReadError, match=r"one\.npz: no array of two dimensions; it holds nothing"):
        open_table(path)
    with path.open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(ReadError, match=r"one\.npz: a single array and no \.npz file"):
        open_table(path)


def test_no_code_is_run(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, x=np.array([[print]], dtype=object))
    with pytest.raises(ReadError, match=r"bad\.npz.*allow_pickle"):
        open_table(f"{path}#x")
    with pytest.raises(ReadError, match="no array of two dimensions; it holds 'x'"):
        open_table(path)


def test_names_that_are_no_text_are_told_of(tmp_path):
    """NumPy keeps any number for a character, and pandas stumbles over some later on."""
    names = np.frombuffer(np.array([0xD8F8, 0x61], dtype="<u4").tobytes(), dtype="<U1")
    np.savez(tmp_path / "a.npz", labels=np.eye(2), label_names=names)
    try:
        assert len(read(tmp_path / "a.npz#labels")) == 2  # where pandas does not mind
    except ReadError as error:
        assert "a.npz" in str(error) and "cannot be read" in str(error)
