import pytest

from naim3l.files import write_text, written_whole


def test_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "out.txt"
    with written_whole(target) as part:
        part.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "out.txt"
    write_text(target, "old")
    with pytest.raises(error), written_whole(target) as part:
        part.write_text("half")
        raise error
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]
