"""Promises about the package as a whole."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import naim3l

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


IMPORTS = """
import sys, naim3l
print([m for m in ("numpy", "sklearn", "typer") if m in sys.modules])
print(set(naim3l.__all__) <= set(dir(naim3l)), hasattr(naim3l, "nothing"))
from naim3l import *
print(NAIM3L.__name__, fuse.__name__, naim3l.persistence.inspect_file.__name__)
print([m for m in ("torch", "dask", "flwr", "polars", "matplotlib") if m in sys.modules])
"""


def test_import_loads_what_is_asked_for_and_nothing_heavy():
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False", "NAIM3L fuse inspect_file", "[]"]


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert naim3l.__version__ == project["version"]
    assert f"version: {project['version']}" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_files_stay_readable(path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_only_the_command_line_prints(path):
    if path.parent.name != "cli":
        lines = [line.strip() for line in path.read_text().splitlines()]
        assert not any(line.startswith("print(") for line in lines)


def test_public_names_exist():
    for name in naim3l.__all__:
        assert hasattr(naim3l, name)


def test_the_command_starts_where_ctrl_c_is_taken_care_of():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"naim3l": "naim3l.__main__:main"}
