"""Views in both input forms: columns, names of the fit, and what is refused after it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from naim3l import DataWarning
from naim3l.input.batches import Batch
from naim3l.input.views import (
    TableNames,
    check_label_form,
    check_not_empty,
    check_same_columns,
    check_view_names,
    is_separate,
    resolve_columns,
    rows_without_view,
)

nan = np.nan
FRAME = Batch(pd.DataFrame(np.eye(4), columns=list("abcd")), "X")


class TestColumns:
    @pytest.mark.parametrize(
        ("chosen", "positions"),
        [
            (["c", "a"], [2, 0]),
            ("b", [1]),
            (pd.Index(["a", "b"]), [0, 1]),
            pytest.param({"d", "a", "b"}, [0, 1, 3], id="set"),
            ([3, 0], [3, 0]),
            (np.int64(2), [2]),
            ([-1], [3]),
            (range(1, 3), [1, 2]),
            (np.array([1, 2]), [1, 2]),
            (slice(None, None, 2), [0, 2]),
            (slice(-2, None), [2, 3]),
            ([True, False, False, True], [0, 3]),
            (pd.Series([True, True, False, False]), [0, 1]),
            (["a", 2], [0, 2]),
        ],
        ids=repr,
    )
    def test_forms(self, chosen, positions):
        assert resolve_columns({"view": chosen}, FRAME) == {"view": positions}

    def test_views_may_share_columns_and_leave_some_out(self):
        assert resolve_columns(None, FRAME) == {"all": [0, 1, 2, 3]}
        views = {"one": ["a", "b"], "two": ["b"]}
        assert resolve_columns(views, FRAME) == {"one": [0, 1], "two": [1]}

    @pytest.mark.parametrize(
        ("chosen", "error"),
        [
            (["a", "z"], r"views\['view'\]: unknown column 'z'; the table has \['a', 'b', 'c',"),
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
            resolve_columns({"view": ["a"]}, Batch(np.eye(2), "X"))

    @pytest.mark.parametrize("views", [[["a"]], {}, "a"], ids=repr)
    def test_views_are_a_mapping(self, views):
        with pytest.raises(ValueError, match="views must be a mapping"):
            resolve_columns(views, FRAME)

    def test_names_of_views(self):
        with pytest.raises(TypeError, match="view names must be strings, got 1"):
            resolve_columns({1: ["a"]}, FRAME)
        with pytest.raises(ValueError, match="a view cannot be named 'fused'"):
            resolve_columns({"fused": ["a"]}, FRAME)


class TestForms:
    def test_a_dictionary_of_keys_matrix_is_one_table(self):
        for table in (
            sparse.dok_array((2, 2)),
            sparse.dok_matrix((2, 2)),
            pd.DataFrame({"a": [1]}),
        ):
            assert not is_separate(table)
        assert is_separate({"a": np.eye(2)})

    @pytest.mark.parametrize(
        ("X", "kind", "error"),
        [
            (np.eye(2), TypeError, r"expected a mapping \{view: table\}, got ndarray"),
            ({}, ValueError, "no view given"),
            ({1: np.eye(2)}, TypeError, "view names must be strings, got 1"),
            ({"fused": np.eye(2)}, ValueError, "a view cannot be named 'fused'"),
            ({"c": np.eye(2)}, ValueError, r"unknown views \['c'\].*fitted on \['a', 'b'\]"),
        ],
        ids=["array", "no view", "number as name", "fused", "unknown"],
    )
    def test_names_of_views(self, X, kind, error):
        with pytest.raises(kind, match=error):
            check_view_names(X, known=["a", "b"])

    @pytest.mark.parametrize(
        ("X", "y", "kind", "error"),
        [
            ({"a": 0, "b": 0}, {"a": 0}, ValueError, r"views without labels \['b'\]"),
            ({"a": 0}, {"a": 0, "c": 0}, ValueError, r"labels without a view \['c'\]"),
            ({"a": 0}, np.eye(2), TypeError, "takes a mapping .*got ndarray"),
            (np.eye(2), {"a": 0}, TypeError, "one wide table takes one label table"),
        ],
    )
    def test_labels_are_given_as_the_tables_are(self, X, y, kind, error):
        with pytest.raises(kind, match=error):
            check_label_form(X, y)

    @pytest.mark.parametrize(
        "build", [np.empty, sparse.csr_array, lambda s: pd.DataFrame(np.empty(s))]
    )
    def test_empty_tables(self, build):
        with pytest.raises(ValueError, match=r"view 'a': Found array with 0 sample\(s\).*leave"):
            check_not_empty(Batch(build((0, 2)), "view 'a'"))
        with pytest.raises(ValueError, match=r"view 'a': 0 feature\(s\).*leave an empty view out"):
            check_not_empty(Batch(build((2, 0)), "view 'a'"))

    def test_rows_without_any_view(self):
        assert rows_without_view(2, [3, 9]) == "X: 2 rows (3, 9) have no view at all"
        shown = "X: 7 rows (0, 1, 2, 3, 4, ...) have no view at all"
        assert rows_without_view(7, list(range(7))) == rows_without_view(7, list(range(5))) == shown


class TestSeparateTables:
    @pytest.fixture
    def names(self):
        tables = {
            "a": Batch(pd.DataFrame(np.eye(3), columns=list("xyz")), "view 'a'"),
            "b": Batch(np.ones((2, 4)), "view 'b'"),
        }
        return TableNames.of(tables, None, wide=False, owner="NAIM3L")

    def test_names(self, names):
        assert names.blocks == names.views == ["a", "b"] and not names.wide
        assert names.n_features_in_ == {"a": 3, "b": 4}
        assert list(names.feature_names_in_) == ["a"]
        assert names.column_names("a") == ["x", "y", "z"] and names.column_names("b") is None
        assert names.column_labels("b")[3] == "column 3"
        assert names.needed_columns() == {"a": ["x", "y", "z"], "b": None}

    def test_dropped_columns_may_be_missing_later(self, names):
        names.keep({"a": [0, 2]})
        assert names.column_names("a") == ["x", "z"]
        names.keep({"a": [1]})
        assert names.used["a"] == [2] and names.needed_columns()["a"] == ["z"]
        full = Batch(pd.DataFrame([[1, 2, 3]], columns=list("xyz")), "view 'a'")
        few = Batch(pd.DataFrame({"z": [3]}), "view 'a'")
        for batch in (full, few):
            assert_array_equal(names.split("a", batch)["a"].numbers(), [[3]])
        with pytest.raises(ValueError, match=r"missing \['x', 'y', 'z'\], unexpected \['q'\]"):
            names.split("a", Batch(pd.DataFrame({"q": [3]}), "view 'a'"))
        names.keep({"b": [3]})
        assert_array_equal(
            names.split("b", Batch([[5, 6, 7, 8]], "view 'b'"))["b"].numbers(), [[8]]
        )

    def test_other_forms_after_the_fit(self, names):
        names.check_form({"b": 0})  # some of the views will do
        with pytest.raises(TypeError, match="expected a mapping"):
            names.check_form(np.eye(2))
        with pytest.raises(ValueError, match=r"unknown views \['c'\]"):
            names.check_form({"c": 0})

    def test_columns_of_a_wide_table_are_for_wide_tables(self):
        with pytest.raises(ValueError, match="views= names the columns of one wide table"):
            TableNames.of({"a": FRAME}, {"a": [0]}, wide=False, owner="NAIM3L")

    def test_labels(self, names):
        names.labels, names.labels_named = ["sick", "smoker"], True
        turned = Batch(pd.DataFrame([[0, 1]], columns=["smoker", "sick"]), "view 'a'", "label")
        assert names.label_positions(turned) == [1, 0]
        assert names.label_positions(Batch(np.eye(2), "y")) == [0, 1]
        for table in (np.eye(3), pd.DataFrame(np.eye(2), columns=["sick", "tall"])):
            with pytest.raises(ValueError, match=r"view 'a': labels .* are not those of the fit"):
                names.label_positions(Batch(table, "view 'a'", "label"))
        assert names.classes_.tolist() == ["sick", "smoker"]

    def test_labels_among_the_features_are_named(self, names):
        names.labels, names.labels_named = ["x", "sick"], True
        with pytest.warns(DataWarning, match=r"view 'a': columns \['x'\] have the names of labels"):
            names.warn_of_labels_among_features()


class TestWideTable:
    @pytest.fixture
    def names(self):
        views = {"left": ["b", "a"], "right": [3]}
        return TableNames.of({"X": FRAME}, views, wide=True, owner="NAIM3L")

    def test_views_are_cut_out(self, names):
        parts = names.split("X", FRAME)
        assert [str(part.origin) for part in parts.values()] == ["view 'left'", "view 'right'"]
        assert parts["left"].columns == ["b", "a"]
        assert_array_equal(parts["left"].numbers(), np.eye(4)[:, [1, 0]])
        assert names.blocks == ["fused"] and names.table_of("left") == "X"
        assert names.n_features_in_ == 4 and list(names.feature_names_in_) == list("abcd")
        assert names.needed_columns() == {"X": list("abcd")}

    def test_tables_that_are_not_those_of_the_fit(self, names):
        with pytest.raises(
            TypeError, match=r"fitted on one wide table, got a mapping; .*join_views"
        ):
            names.check_form({"left": FRAME.data})
        with pytest.raises(ValueError, match="feature names should match"):
            names.split("X", Batch(FRAME.data.rename(columns={"a": "other"}), "X"))
        with pytest.raises(ValueError, match="must be in the same order"):
            names.split("X", Batch(FRAME.data[list("dcba")], "X"))
        with pytest.warns(UserWarning, match="but NAIM3L was fitted with feature names"):
            names.split("X", Batch(np.eye(4), "X"))
        with pytest.warns(UserWarning), pytest.raises(ValueError, match="NAIM3L is expecting 4"):
            names.split("X", Batch(np.eye(3), "X"))

    def test_classes_of_one_label_are_its_values(self, names):
        names.labels, names.one_column = ["sick"], True
        assert names.classes_.tolist() == [0, 1]


class TestSameColumns:
    def batch(self, *names):
        return Batch(pd.DataFrame(np.eye(len(names)), columns=list(names)), "view 'a'")

    def test_names_on_one_side_only(self):
        check_same_columns(self.batch("x", "y"), ["x", "y"], 2)
        with pytest.warns(DataWarning, match="view 'a': the fit had no column names"):
            check_same_columns(self.batch("x", "y"), None, 2)
        with pytest.warns(DataWarning, match="view 'a': the table has no column names"):
            check_same_columns(Batch(np.eye(2), "view 'a'"), ["x", "y"], 2)

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
            check_same_columns(self.batch(*names), ["x", "y"], 2)

    def test_numbers_of_columns_differ_where_there_are_no_names(self):
        with pytest.raises(ValueError, match="view 'a': 3 columns, but 2 at the fit"):
            check_same_columns(Batch(np.eye(3), "view 'a'"), ["x", "y"], 2)
