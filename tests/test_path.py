"""The path of a table is short: few modules, and few calls from one into another."""

import runpy
from pathlib import Path

import pytest

PATH = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "trace_path.py"))
# Largest numbers of modules, and of calls from one into another, before the solver is entered.
LIMITS = {"NAIM3L().fit of two frames": (25, 126), "naim3l fit of two CSV files": (35, 250)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", PATH["PATHS"])
def test_the_path_of_two_small_tables_is_short(title, capsys):
    found = PATH["trace"](PATH["PATHS"][title])
    n_modules, n_changes = LIMITS[title]
    assert len(found.modules) <= n_modules, list(found.modules)
    assert found.n_changes <= n_changes, found.changes.most_common(10)


def test_calls_into_another_module_are_counted():
    from naim3l._text import some
    from naim3l.files.errors import close_names

    found = PATH["trace"](lambda: [close_names("flu", ["crp", "hb"]), some(["a"])])
    assert found.modules.keys() == {"naim3l.files.errors", "naim3l._text"}
    assert found.changes == {("naim3l.files.errors", "naim3l._text"): 1}
