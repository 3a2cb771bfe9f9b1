"""Values as messages, pages and JSON show them."""

import json
import math
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from naim3l._text import plain, quote, some


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], ""),
        (["a"], "'a'"),
        (["a", "b", "c"], "'a', 'b', 'c'"),
        (["a", "b", "c", "d"], "'a', 'b', 'c' and 1 more"),
        (list(range(10)), "0, 1, 2 and 7 more"),
    ],
)
def test_some_names(names, shown):
    assert some(names, 3) == shown


def test_names_are_shown_as_asked_and_long_ones_shortened():
    assert some(["a", "b"], show=str.upper) == "A, B"
    long = "begin" + "x" * 1000 + "end"
    for text in (quote(long), some([long])):
        assert len(text) < 70 and text.startswith("'begin") and text.endswith("end'")


def test_plain_values_are_what_json_gives_back():
    value = {
        1: np.float32(0.5),
        "array": np.arange(4).reshape(2, 2),
        "names": ("a", np.str_("b"), None, True, np.bool_(False)),
        "inner": MappingProxyType({"set": {3}, "range": range(2), "empty": []}),
    }
    found = plain(value)
    assert found == json.loads(json.dumps(found))
    assert found == {
        "1": 0.5,
        "array": [[0, 1], [2, 3]],
        "names": ["a", "b", None, True, False],
        "inner": {"set": [3], "range": [0, 1], "empty": []},
    }


def test_numbers_that_json_lacks():
    value = {"a": math.nan, "b": np.array([1.0, np.inf, -np.inf])}
    assert plain(value) == {"a": None, "b": [1.0, None, None]}
    kept = plain(value, finite=False)
    assert math.isnan(kept["a"]) and kept["b"] == [1.0, math.inf, -math.inf]


def test_objects_that_json_lacks():
    value = [Path("a.csv"), {"b": 1j}]
    assert plain(value) == value
    assert plain(value, other=str) == ["a.csv", {"b": "1j"}]
