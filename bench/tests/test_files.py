"""Paths that are checked before the work, and names of files."""

import pytest

from naim3l_bench.files import check_outputs, file_name


def test_outputs_that_could_not_be_written_are_refused(tmp_path):
    data = tmp_path / "data.npz"
    data.write_bytes(b"data")
    check_outputs([tmp_path / "new" / "folder" / "page.html"], [data])
    with pytest.raises(ValueError, match=r"data\.npz is read by this command"):
        check_outputs([tmp_path / "." / "data.npz"], [data])
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        check_outputs([tmp_path], [])
    with pytest.raises(NotADirectoryError, match=r"data\.npz is a file, where a folder"):
        check_outputs([data / "page.html"], [])
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.parametrize(
    ("name", "expected"), [("fig5-yeast", "fig5-yeast"), ("../a", "%2E.%2Fa"), ("a b.c", "a b.c")]
)
def test_names_cannot_leave_their_folder(name, expected):
    assert file_name(name) == expected
