"""Fixtures of the tests of files."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Function that writes text or bytes to a file, and gives its path."""

    def write_file(content, name="table.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
