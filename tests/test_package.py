"""Promises about the package as a whole."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = sorted((ROOT / "src").rglob("*.py"))


IMPORTS = """
import sys, naim3l
print([m for m in ("numpy", "sklearn", "typer") if m in sys.modules])
print(set(naim3l.__all__) <= set(dir(naim3l)), hasattr(naim3l, "nothing"))
from naim3l import *
print(NAIM3L.__name__, fuse.__name__, inspect_file.__name__)
print([m for m in ("torch", "dask", "flwr", "polars", "matplotlib") if m in sys.modules])
"""


def test_import_loads_what_is_asked_for_and_nothing_heavy():
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False", "NAIM3L fuse inspect_file", "[]"]


COMMAND = """
import sys
from naim3l.__main__ import main
sys.argv[0] = "naim3l"
try:
    main()
finally:
    print([m for m in ("numpy", "scipy", "pandas", "sklearn") if m in sys.modules])
"""
COMPLETE = {"_NAIM3L_COMPLETE": "complete_bash", "COMP_WORDS": "naim3l pre", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("arguments", "environment", "shown"),
    [
        ([], {}, "Usage: naim3l"),
        (["--help"], {}, "Usage: naim3l"),
        (["demo", "--help"], {}, "Usage: naim3l demo"),
        (["fit", "--lamb", "3"], {}, "--lamb"),
        ([], COMPLETE, "predict"),
    ],
)
def test_help_completion_and_usage_errors_load_nothing_heavy(arguments, environment, shown):
    command = [sys.executable, "-c", COMMAND, *arguments]
    environment = os.environ | {"PYTHONUTF8": "1"} | environment
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment
    )
    assert shown in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_is_in_one_place():
    assert "version" in PYPROJECT["project"]["dynamic"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "src/naim3l/__init__.py"
    assert "version: " not in (ROOT / "CITATION.cff").read_text().replace("cff-version: ", "")


def test_a_wheel_has_the_package_its_files_and_nothing_else(tmp_path):
    sources = [path for path in SOURCES if "naim3l" in path.parent.relative_to(ROOT).parts]
    check = runpy.run_path(str(ROOT / "tools" / "check_wheel.py"))
    wheel = tmp_path / "naim3l-1.2-py3-none-any.whl"
    names = {path.relative_to(ROOT / "src").as_posix() for path in sources} | check["FILES"]
    names |= {f"naim3l-1.2.dist-info/{name}" for name in check["METADATA"]}

    def problems(names):
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in names:
                archive.writestr(name, "")
        return [text.removeprefix(f"{wheel}: ") for text in check["problems"](wheel)]

    assert problems(names) == []
    assert problems(names - {"naim3l/py.typed"}) == ["naim3l/py.typed is missing."]
    assert problems(names | {"tests/study.py"}) == ["tests/study.py does not belong in it."]


def test_workflows_call_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    called = {name for text in workflows for name in re.findall(r"run: make (\S+)", text)}
    assert called <= targets


def test_workflows_run_every_version_of_python_that_is_named():
    prefix = "Programming Language :: Python :: 3."
    named = [name for name in PYPROJECT["project"]["classifiers"] if name.startswith(prefix)]
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    versions = re.search(r"python: \[(.*)\]", text)[1].split(", ")
    assert versions == [f'"3.{name.removeprefix(prefix)}"' for name in named]


def test_only_the_command_line_prints():
    others = [path for path in SOURCES if "cli" not in path.parts]
    printing = [
        str(path)
        for path in others
        if any(line.strip().startswith("print(") for line in path.read_text().splitlines())
    ]
    assert others and not printing
