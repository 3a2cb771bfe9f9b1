"""All parameters of public names are documented; tests/docs checks the pages of the names."""

import inspect
import re
from importlib import import_module

import pytest

import naim3l

MODULES = ["naim3l", *(f"naim3l.{name}" for name in naim3l._PUBLIC_MODULES)]

each_module = pytest.mark.parametrize(
    "module",
    [pytest.param(m, marks=[pytest.mark.torch] if m == "naim3l.deep" else []) for m in MODULES],
)


def public(module):
    """Public names of a module, and the objects."""
    found = import_module(module)
    return {name: getattr(found, name) for name in found.__all__ if name != "__version__"}


def documented(found, section):
    """Names of the entries in a section of a docstring."""
    text = re.search(rf"^{section}\n-+\n(.*?)(\n\n|\Z)", inspect.getdoc(found), re.M | re.S)
    entries = [line for line in text[1].split("\n") if line[0] != " "] if text else []
    return [name.strip("*") for line in entries for name in line.split(" : ")[0].split(", ")]


def test_dir_shows_the_public_names():
    assert dir(naim3l) == sorted([*naim3l.__all__, *naim3l._PUBLIC_MODULES])


@each_module
def test_every_parameter_is_documented(module):
    for name, found in public(module).items():
        if not callable(found) or (inspect.isclass(found) and issubclass(found, Exception)):
            continue
        # Those of records, which are made by this package, are documented as attributes.
        given = documented(found, "Parameters") or documented(found, "Attributes")
        assert sorted(given) == sorted(inspect.signature(found).parameters), name
