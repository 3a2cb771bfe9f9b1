"""The laboratory is built on public names of naim3l alone, so that others can add methods, too."""

import ast
from importlib import import_module
from pathlib import Path

import naim3l_bench

PUBLIC = {
    "naim3l",
    "naim3l.datasets",
    "naim3l.deep",
    "naim3l.estimators",
    "naim3l.explain",
    "naim3l.extend",
    "naim3l.metrics",
    "naim3l.report",
}


def imported(path):
    """Pairs of module and name that a file imports, from naim3l."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            continue
        yield from (pair for pair in found if pair[0].split(".")[0] == "naim3l")


def test_only_public_names_of_naim3l_are_imported():
    folder = Path(naim3l_bench.__file__).parent
    found = {(path.name, *pair) for path in folder.rglob("*.py") for pair in imported(path)}
    assert len(found) > 50
    assert not [entry for entry in found if entry[1] not in PUBLIC]
    for _, module, name in found:
        if name and module != "naim3l.deep":  # which needs torch
            assert name in import_module(module).__all__, (module, name)


def test_no_name_of_the_extension_module_is_unused():
    """Here, or in the examples of its docstring."""
    folder, extend = Path(naim3l_bench.__file__).parent, import_module("naim3l.extend")
    used = {name for path in folder.rglob("*.py") for _, name in imported(path)}
    assert {name for name in extend.__all__ if f"import {name}\n" not in extend.__doc__} <= used
