"""Views of both input forms: columns, rows that have a view, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from naim3l._warnings import DataWarning, Table
from naim3l.input.views import (
    check_same_columns,
    is_apart,
    resolve_columns,
    tables_apart,
    tables_wide,
)

nan = np.nan
FRAME = Table(pd.DataFrame(np.eye(4), columns=list("abcd")), "X")


class TestColumns:
    @pytest.mark.parametrize(
        ("chosen", "positions"),
        [
            (["a", "c"], [0, 2]),
            (["c", "a"], [2, 0]),
            ("b", [1]),
            (pd.Index(["a", "b"]), [0, 1]),
            pytest.param({"d", "a", "b"}, [0, 1, 3], id="set"),
            ([3, 0], [3, 0]),
            (2, [2]),
            (np.int64(2), [2]),
            ([-1], [3]),
            (range(1, 3), [1, 2]),
            (np.array([1, 2]), [1, 2]),
            (slice(1, 3), [1, 2]),
            (slice(None, None, 2), [0, 2]),
            (slice(-2, None), [2, 3]),
            ([True, False, False, True], [0, 3]),
            (np.array([False, True, False, False]), [1]),
            (pd.Series([True, True, False, False]), [0, 1]),
            (["a", 2], [0, 2]),
        ],
        ids=repr,
    )
    def test_forms(self, chosen, positions):
        assert resolve_columns({"view": chosen}, FRAME) == {"view": positions}

    def test_no_views_make_one_of_all_columns(self):
        assert resolve_columns(None, FRAME) == {"all": [0, 1, 2, 3]}

    def test_views_may_share_columns_and_leave_some_out(self):
        views = {"one": ["a", "b"], "two": ["b"]}
        assert resolve_columns(views, FRAME) == {"one": [0, 1], "two": [1]}

    @pytest.mark.parametrize(
        ("chosen", "error"),
        [
            (
                ["a", "z"],
                r"views\['view'\]: unknown column 'z'; the table has \['a', 'b', 'c', 'd'\]",
            ),
            ([4], r"views\['view'\]: no column 4 in a table of 4 columns"),
            ([-5], "no column -5"),
            ([1.0], "no column 1.0"),
            ([True, 2], "no column True"),
            ([True, False], "a mask of 2 for 4 columns"),
            (["a", "b", "a"], r"views\['view'\] has column 'a' twice"),
            ([0, -4], r"views\['view'\] has column 'a' twice"),
            ([], r"views\['view'\] has no columns"),
            ([False] * 4, r"views\['view'\] has no columns"),
            (slice(4, 9), r"views\['view'\] has no columns"),
            (slice("a", "c"), r"a slice of positions.*got slice\('a', 'c', None\)"),
            (None, r"views\['view'\] must be column names.*got None"),
            (2.5, "got 2.5"),
        ],
        ids=repr,
    )
    def test_refused(self, chosen, error):
        with pytest.raises(ValueError, match=error):
            resolve_columns({"view": chosen}, FRAME)

    def test_names_need_a_table_with_names(self):
        with pytest.raises(ValueError, match="column 'a' is a name, but the table has no column"):
            resolve_columns({"view": ["a"]}, Table(np.eye(2), "X"))

    @pytest.mark.parametrize("views", [[["a"]], {}, "a"], ids=repr)
    def test_views_are_a_mapping(self, views):
        with pytest.raises(ValueError, match="views must be a mapping"):
            resolve_columns(views, FRAME)

    def test_view_names_are_text(self):
        with pytest.raises(TypeError, match="view names must be strings, got 1"):
            resolve_columns({1: ["a"]}, FRAME)

    def test_tables_of_a_wide_one(self):
        tables = tables_wide(FRAME, {"one": [1], "two": [3, 0]})
        assert [table.where for table in tables.values()] == ["view 'one'", "view 'two'"]
        assert tables["two"].columns == ["d", "a"]
        assert_array_equal(tables["two"].numbers(), np.eye(4)[:, [3, 0]])


class TestApart:
    def test_a_dictionary_of_keys_matrix_is_one_table(self):
        assert not is_apart(sparse.dok_array((2, 2)))
        assert not is_apart(sparse.dok_matrix((2, 2)))
        assert not is_apart(pd.DataFrame({"a": [1]}))
        assert is_apart({"a": np.eye(2)})

    def test_order_and_names(self):
        tables = tables_apart({"b": np.eye(2), "a": pd.DataFrame({"x": [1]})}, known=["a", "b"])
        assert list(tables) == ["b", "a"]
        assert tables["a"].where == "view 'a'"

    @pytest.mark.parametrize(
        ("X", "kind", "error"),
        [
            (np.eye(2), TypeError, r"expected a mapping \{view: table\}, got ndarray"),
            ({}, ValueError, "no view given"),
            ({1: np.eye(2)}, TypeError, "view names must be strings, got 1"),
            ({"c": np.eye(2)}, ValueError, r"unknown views \['c'\].*fitted on \['a', 'b'\]"),
            ({"a": np.empty((0, 2))}, ValueError, r"view 'a': Found array with 0 sample"),
            ({"a": np.empty((2, 0))}, ValueError, r"view 'a': 0 feature"),
        ],
        ids=["array", "no view", "number as name", "unknown", "no rows", "no columns"],
    )
    def test_refused(self, X, kind, error):
        with pytest.raises(kind, match=error):
            tables_apart(X, known=["a", "b"])


class TestSameColumns:
    def table(self, *names):
        return Table(pd.DataFrame(np.eye(len(names)), columns=list(names)), "view 'a'")

    def test_accepted(self):
        check_same_columns(self.table("x", "y"), ["x", "y"], 2)
        check_same_columns(Table(np.eye(2), "view 'a'"), None, 2)

    def test_names_on_one_side_only(self):
        with pytest.warns(DataWarning, match="view 'a': the fit had no column names"):
            check_same_columns(self.table("x", "y"), None, 2)
        with pytest.warns(DataWarning, match="view 'a': the table has no column names"):
            check_same_columns(Table(np.eye(2), "view 'a'"), ["x", "y"], 2)

    @pytest.mark.parametrize(
        ("names", "error"),
        [
            (("y", "x"), r"in the order of the fit.*Expected \['x', 'y'\], got \['y', 'x'\]"),
            (("x", "z"), r"missing \['y'\], unexpected \['z'\]"),
            (("x",), r"missing \['y'\], unexpected \[\]"),
            (("x", "y", "z"), r"missing \[\], unexpected \['z'\]"),
        ],
        ids=["reordered", "renamed", "one less", "one more"],
    )
    def test_refused(self, names, error):
        with pytest.raises(ValueError, match=f"^view 'a': columns .*{error}"):
            check_same_columns(self.table(*names), ["x", "y"], 2)

    def test_numbers_of_columns_differ_where_there_are_no_names(self):
        with pytest.raises(ValueError, match="view 'a': 3 columns, but 2 at the fit"):
            check_same_columns(Table(np.eye(3), "view 'a'"), ["x", "y"], 2)
