"""What a reader remembers of the fit, and what it makes of tables and labels after that."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from naim3l import DataWarning
from naim3l.input.reader import TableReader

nan = np.nan


@pytest.fixture
def apart():
    X = {"a": pd.DataFrame(np.eye(3), columns=list("xyz")), "b": np.ones((2, 4))}
    Y = {
        "a": pd.DataFrame({"sick": [1, 0, nan], "smoker": [0, 0, 1.0]}),
        "b": pd.DataFrame({"smoker": [nan, 1.0], "sick": [1.0, nan]}),
    }
    return X, Y


@pytest.fixture
def wide():
    X = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=list("pqrs"), index=[7, 8, 9])
    return X, np.array([[1.0, 0], [nan, 1], [0, 0]])


class TestTraining:
    def test_tables_apart_keep_their_names_and_match_labels_by_name(self, apart):
        reader = TableReader()
        views = reader.read_training(*apart)
        assert reader.form_ == "apart" and not reader.wide
        assert reader.views_ == ["a", "b"] and reader.label_names_ == ["sick", "smoker"]
        assert reader.n_features_in_ == {"a": 3, "b": 4}
        assert list(reader.feature_names_in_) == ["a"]
        assert reader.column_names("a") == ["x", "y", "z"] and reader.column_names("b") is None
        assert [reader.n_columns(view) for view in "ab"] == [3, 4]
        assert_array_equal(views["a"].signed, [[1, -1], [-1, -1], [0, 1]])
        assert_array_equal(views["b"].signed, [[1, 0], [0, 1]])

    def test_a_wide_table_is_cut_into_views(self, wide):
        X, Y = wide
        reader = TableReader(views={"left": ["q", "p"], "right": [3]})
        views = reader.read_training(X, Y)
        assert reader.form_ == "wide" and reader.columns_ == {"left": [1, 0], "right": [3]}
        assert reader.column_names("left") == ["q", "p"] and reader.n_columns("right") == 1
        assert reader.label_names_ == ["label0", "label1"] and not reader.labels_named_
        assert_array_equal(views["left"].table.numbers(), X[["q", "p"]])
        for view in views.values():
            assert_array_equal(view.signed, [[1, -1], [0, 1], [-1, -1]])

    def test_signed_labels(self, wide):
        X, _ = wide
        reader = TableReader(label_coding="signed")
        views = reader.read_training(X, np.array([1, -1, 0]))
        assert_array_equal(views["all"].signed, [[1], [-1], [0]])
        assert reader.one_column_

    def test_views_of_a_wide_table_are_refused_for_tables_apart(self, apart):
        with pytest.raises(ValueError, match="views= names the columns of one wide table"):
            TableReader(views={"a": [0]}).read_training(*apart)

    def test_labels_among_the_features_are_named(self, apart):
        X, Y = apart
        X["a"] = X["a"].rename(columns={"x": "sick"})
        with pytest.warns(DataWarning, match=r"view 'a': columns \['sick'\] have the names of"):
            TableReader().read_training(X, Y)


class TestAfterTheFit:
    def test_some_of_the_views(self, apart):
        reader = TableReader()
        reader.read_training(*apart)
        tables = reader.tables({"b": np.zeros((5, 4))})
        assert list(tables) == ["b"] and tables["b"].shape == (5, 4)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ({"c": np.zeros((1, 4))}, r"unknown views \['c'\]"),
            ({"b": np.zeros((1, 3))}, "view 'b': 3 columns, but 4 at the fit"),
            ({"a": pd.DataFrame(np.zeros((1, 3)), columns=list("yxz"))}, "in the order of the fit"),
            (np.zeros((1, 4)), "expected a mapping"),
        ],
    )
    def test_tables_that_are_not_those_of_the_fit(self, apart, X, message):
        reader = TableReader()
        reader.read_training(*apart)
        with pytest.raises((ValueError, TypeError), match=message):
            reader.tables(X)

    def test_wide_tables_that_are_not_those_of_the_fit(self, wide):
        X, Y = wide
        reader = TableReader()
        reader.read_training(X, Y)
        with pytest.raises(TypeError, match="fitted on one wide table, got a mapping"):
            reader.tables({"all": X})
        with pytest.raises(ValueError, match="feature names should match"):
            reader.tables(X.rename(columns={"p": "other"}))
        with pytest.warns(UserWarning, match="but NAIM3L was fitted with feature names"):
            reader.tables(X.to_numpy())
        with (
            pytest.warns(UserWarning),
            pytest.raises(ValueError, match="but NAIM3L is expecting 4"),
        ):
            reader.tables(X.to_numpy()[:, :3])
        assert_array_equal(reader.tables(X)["all"].numbers(), X)

    def test_labels_in_another_order_come_in_that_of_the_fit(self, apart):
        X, Y = apart
        reader = TableReader()
        reader.read_training(X, Y)
        labels = reader.labels(X, Y)
        assert reader.label_positions(labels["b"]) == [1, 0]
        assert_array_equal(reader.signed(labels["b"]), [[1, 0], [0, 1]])

    def test_other_labels_are_refused(self, apart):
        X, Y = apart
        reader = TableReader()
        reader.read_training(X, Y)
        other = reader.labels({"b": X["b"]}, {"b": Y["b"].rename(columns={"sick": "well"})})
        with pytest.raises(ValueError, match=r"view 'b': labels .*'well'.* are not those of the"):
            reader.signed(other["b"])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda Y: {"a": Y["a"]}, r"views without labels \['b'\]"),
            (lambda Y: Y | {"c": Y["b"]}, r"labels without a view \['c'\]"),
            (lambda Y: Y["a"], "takes a mapping"),
            (lambda Y: None, "requires y to be passed"),
            (lambda Y: Y | {"b": Y["a"]}, "2 rows of features but 3 rows of labels"),
        ],
    )
    def test_labels_that_do_not_belong_to_the_tables(self, apart, change, message):
        X, Y = apart
        reader = TableReader()
        reader.read_training(X, Y)
        with pytest.raises((ValueError, TypeError), match=message):
            reader.labels(X, change(Y))


def test_names_of_labels_beside_tables_in_memory_are_refused():
    X = pd.DataFrame({"x": [1.0, 2.0], "a": [0, 1], "b": [1, 0]})
    with pytest.raises(TypeError, match="view 'v': 'a', 'b' as labels; names of columns and paths"):
        TableReader().read_training({"v": X}, {"v": ["a", "b"]})
    with pytest.raises(TypeError, match="X: 'a' as labels; names of columns and paths"):
        TableReader(views={"v": ["x"]}).read_training(X, "a")
