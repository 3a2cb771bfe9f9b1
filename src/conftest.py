"""Examples in docstrings run in an empty folder, so that they may write files."""

from importlib.util import find_spec

import pytest


def pytest_collection_modifyitems(items):
    if find_spec("onnx") is None:
        skip = pytest.mark.skip(reason="needs onnx: pip install 'naim3l[export]'")
        for item in items:
            if item.name.endswith("to_onnx"):
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
