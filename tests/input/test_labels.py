"""Label tables: the two codings, names, rows, and unknown entries filled in."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse
from test_tables import CONTAINERS, DENSE, SPARSE, dense

from naim3l.input.labels import check_observed, check_rows, fill_unknown, match_labels, read_labels
from naim3l._warnings import DataWarning, Table

nan = np.nan
SIGNED = np.array([[1, -1, 0], [0, 0, 0], [-1, 1, 1], [0, 1, -1]])
BINARY = np.where(SIGNED == 0, nan, SIGNED > 0)
signed_tables = hnp.arrays(
    np.int8,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.sampled_from([1, 0, -1]),
)


def read(labels, coding="binary"):
    return read_labels(labels, coding, "view 'a'")


class TestReading:
    @pytest.mark.parametrize("kind", CONTAINERS)
    def test_both_codings_in_every_container(self, kind):
        for values, coding in ((BINARY, "binary"), (SIGNED.astype(float), "signed")):
            labels = read(CONTAINERS[kind](values), coding)
            assert_array_equal(labels.signed, SIGNED)
            assert labels.signed.dtype == np.int8
            assert not labels.one_column

    @settings(deadline=None)
    @given(signed_tables)
    def test_codings_are_read_alike(self, signed):
        binary = np.where(signed == 0, nan, signed > 0)
        assert_array_equal(read(binary).signed, signed)
        assert_array_equal(read(signed, "signed").signed, signed)

    @pytest.mark.parametrize(
        "labels",
        [
            [1, 0, None],
            np.array([1, 0, nan]),
            np.array([1, 0, None], dtype=object),
            pd.Series([True, False, None], dtype="boolean"),
            pd.Series([1, 0, None], dtype="Int64", index=[4, 4, 2]),
            pd.Series([1, 0, None], dtype="category"),
            pd.Series([1.0, 0.0, nan], name="tag"),
            pl.Series([True, False, None]),
            pl.Series("tag", [1, 0, None]),
            pa.chunked_array([[1, 0], [None]]),
        ],
        ids=lambda labels: f"{type(labels).__name__} {getattr(labels, 'dtype', '')}",
    )
    def test_one_column(self, labels):
        read_in = read(labels)
        assert read_in.one_column
        assert_array_equal(read_in.signed, [[1], [-1], [0]])
        named = getattr(labels, "name", None) == "tag"
        assert read_in.table.columns == (["tag"] if named else None)

    def test_truth_values(self):
        truth = np.array([[True, False], [False, True]])
        for labels in (truth, sparse.csr_array(truth), pl.DataFrame(truth, schema=["x", "y"])):
            assert_array_equal(read(labels).signed, [[1, -1], [-1, 1]])
            with pytest.raises(ValueError, match=r"view 'a', label ('x'|0): .*True and False"):
                read(labels, "signed")

    def test_sparse_zeros_are_no_in_one_coding_and_unknown_in_the_other(self):
        labels = sparse.csr_array(np.array([[1, 0]]))
        assert_array_equal(read(labels).signed, [[1, -1]])
        assert_array_equal(read(labels, "signed").signed, [[1, 0]])

    @pytest.mark.parametrize(
        ("value", "coding", "error"),
        [
            (2, "binary", "Unknown label type: 2. With label_coding='binary' labels are 1 = yes"),
            (-1, "binary", "-1.*1 = yes, 0 = no, NaN or null = unknown"),
            (0.5, "binary", "0.5"),
            (np.inf, "binary", "inf"),
            ("yes", "binary", "'yes' is not a number .*expected 1 = yes"),
            ("1", "binary", "'1' is not a number .*text"),
            (nan, "signed", "nan.*1 = yes, -1 = no, 0 = unknown"),
            (None, "signed", "nan"),
            (0.5, "signed", "0.5"),
            (2, "signed", "2"),
            ("no", "signed", "'no' is not a number .*expected 1 = yes, -1 = no"),
        ],
    )
    def test_outside_the_coding(self, value, coding, error):
        frame = pd.DataFrame({"x": [1, 1], "y": pd.Series([1, value], dtype=object)})
        for labels, name in ((frame, "'y'"), (frame.to_numpy(), "1")):
            with pytest.raises(ValueError, match=f"^view 'a', row 1, label {name}: .*{error}"):
                read(labels, coding)

    @pytest.mark.parametrize(
        ("labels", "error"),
        [
            (None, "y is None"),
            (np.empty((2, 0)), "no columns"),
            (np.zeros((2, 2, 2)), "expected a table"),
            ([[1], [1, 0]], "rows of one length"),
            (pd.DataFrame([[1, 0]], columns=["x", "x"]), r"duplicate label names \['x'\]"),
        ],
        ids=["none", "no columns", "3-D", "ragged", "duplicate"],
    )
    def test_refused(self, labels, error):
        with pytest.raises(ValueError, match=f"^view 'a': .*{error}"):
            read(labels)


class TestNames:
    @pytest.mark.parametrize(
        ("columns", "names"),
        [
            (["x", "y"], ["x", "y"]),
            ([0, 1], None),
            ([7, 5], ["7", "5"]),
            ([1, 0], ["1", "0"]),
        ],
        ids=str,
    )
    def test_numbers_are_names_unless_they_only_count(self, columns, names):
        assert read(pd.DataFrame([[1, 0]], columns=columns)).table.columns == names

    def test_named_tables_are_matched_by_name(self):
        one = read(pd.DataFrame({"x": [1, 0], "y": [0, 0]}))
        two = read(pl.DataFrame({"y": [1], "x": [0]}))
        matched, names = match_labels({"one": one, "two": two})
        assert names == ["x", "y"]
        assert_array_equal(matched["one"], one.signed)
        assert_array_equal(matched["two"], [[-1, 1]])

    def test_numbered_columns_in_another_order_are_matched_too(self):
        tables = {
            v: read(pd.DataFrame([[1, 0]], columns=c)) for v, c in (("a", [5, 7]), ("b", [7, 5]))
        }
        matched, names = match_labels(tables)
        assert names == ["5", "7"]
        assert_array_equal(matched["b"], matched["a"][:, ::-1])

    def test_tables_without_names_are_taken_in_order(self):
        one, two = read(np.array([[1, 0]])), read(pd.DataFrame({"x": [0], "y": [1]}))
        assert match_labels({"one": one})[1] == ["label0", "label1"]
        matched, names = match_labels({"one": one, "two": two})
        assert names == ["x", "y"]
        assert_array_equal(matched["one"], [[1, -1]])

    def test_other_labels_are_refused(self):
        one = read_labels(pd.DataFrame({"x": [1], "y": [0]}), "binary", "view 'one'")
        two = read_labels(pd.DataFrame({"x": [1], "z": [0]}), "binary", "view 'two'")
        with pytest.raises(
            ValueError, match=r"view 'two': .*of view 'one': lacking \['y'\], extra \['z'\]"
        ):
            match_labels({"one": one, "two": two})
        with pytest.raises(ValueError, match="view 'a': 3 label columns, but 2 in other views"):
            match_labels({"one": one, "two": read(np.ones((1, 3)))})


class TestRowsAndObservations:
    def test_rows(self):
        features = Table(pd.DataFrame({"f": [1, 2, 3]}, index=[3, 4, 5]), "view 'a'")
        check_rows(features, read(pd.Series([1, 0, 1])))
        check_rows(features, read(pd.Series([1, 0, 1], index=[3, 4, 5])))
        with pytest.raises(ValueError, match="view 'a': 3 rows of features but 2 rows of labels"):
            check_rows(features, read([1, 0]))
        with pytest.raises(ValueError, match=r"view 'a': .*same index .*another order"):
            check_rows(features, read(pd.Series([1, 0, 1], index=[5, 4, 3])))

    def test_views_that_teach_nothing(self):
        good = np.array([[1, -1]], dtype=np.int8)
        with pytest.raises(ValueError, match="view 'b': no label is observed in it"):
            check_observed({"a": good, "b": 0 * good}, ["x", "y"])
        with pytest.raises(ValueError, match="view 'b': no label is observed positive in it"):
            check_observed({"a": good, "b": -abs(good)}, ["x", "y"])

    def test_labels_that_cannot_be_learned(self):
        signed = {"a": np.array([[1, 0, -1, 0, 1]]), "b": np.array([[1, 0, 0, -1, -1]])}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_observed(signed, ["v", "w", "x", "y", "z"])
        assert all(issubclass(warning.category, DataWarning) for warning in caught)
        assert [str(warning.message).split(";")[0] for warning in caught] == [
            "labels never observed: ['w']",
            "labels never observed positive: ['x', 'y']",
            "labels never observed negative: ['v']",
            "labels observed positive in some views and negative only in others: ['z']",
        ]


PREDICTED = np.array([[1, -1, 1], [-1, 1, -1], [1, 1, 1], [1, -1, 1]])  # signed
FILLED = np.where(SIGNED == 0, PREDICTED, SIGNED)


def fill(labels, coding="binary", predicted=PREDICTED):
    values = (predicted > 0).astype(float) if coding == "binary" else predicted.astype(float)
    return fill_unknown(read(labels, coding), values, coding)


class TestFilling:
    @pytest.mark.parametrize("kind", DENSE)
    def test_binary_keeps_container_and_known_entries(self, kind):
        given_labels = DENSE[kind](BINARY)
        filled = fill(given_labels)
        assert type(filled) is type(Table(given_labels, "y").data)
        assert_array_equal(Table(filled, "y").numbers(), FILLED > 0)
        assert_array_equal(Table(given_labels, "y").numbers(), BINARY)  # not changed in place

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64, object])
    def test_signed_arrays_keep_their_type(self, dtype):
        filled = fill(SIGNED.astype(dtype), "signed")
        assert filled.dtype == dtype
        assert_array_equal(filled, FILLED)

    @pytest.mark.parametrize("kind", SPARSE)
    @pytest.mark.parametrize("dtype", [np.int8, np.float64])
    def test_signed_sparse_tables_keep_their_format(self, kind, dtype):
        filled = fill(SPARSE[kind](SIGNED.astype(dtype)), "signed")
        assert type(filled) is SPARSE[kind]
        assert filled.dtype == dtype
        assert_array_equal(dense(filled), FILLED)

    @pytest.mark.parametrize(
        ("build", "dtype"),
        [
            (pd.Series, "float64"),
            (pd.Series, "Int64"),
            (pd.Series, "boolean"),
            (pd.Series, "int8[pyarrow]"),
            (pd.Series, "bool[pyarrow]"),
            (pd.Series, object),
            (pl.Series, pl.Int64),
            (pl.Series, pl.UInt8),
            (pl.Series, pl.Float32),
            (pl.Series, pl.Boolean),
        ],
        ids=lambda value: getattr(value, "__name__", str(value)),
    )
    def test_columns_keep_type_name_and_index(self, build, dtype):
        labels = build([1, 0, None, None])
        labels = labels.cast(dtype) if build is pl.Series else labels.astype("Int64").astype(dtype)
        labels = labels.rename("tag")
        if build is pd.Series:
            labels.index = [5, 5, 9, 2]
        filled = fill(labels, predicted=np.array([[-1], [1], [1], [-1]]))
        assert isinstance(filled, build)
        assert (filled.dtype, filled.name) == (labels.dtype, "tag")
        assert filled.to_list() == [1, 0, 1, 0]
        if build is pd.Series:
            assert filled.index.tolist() == [5, 5, 9, 2]

    def test_columns_of_different_types_side_by_side(self):
        frame = pd.DataFrame(
            {"x": [1.0, nan], "y": pd.array([None, True], dtype="boolean"), "z": [1, 0]},
            index=["p", "p"],
        )
        filled = fill(frame, predicted=np.array([[-1, -1, -1], [1, 1, 1]]))
        expected = pd.DataFrame(
            {"x": [1.0, 1.0], "y": pd.array([False, True], dtype="boolean"), "z": [1, 0]},
            index=["p", "p"],
        )
        pd.testing.assert_frame_equal(filled, expected)

    @pytest.mark.parametrize(
        ("labels", "coding"),
        [
            (np.array([[1], [0]], dtype=np.uint8), "signed"),
            (pd.DataFrame({"x": [1, 0]}, dtype="uint8"), "signed"),
            (pl.DataFrame({"x": [1, 0]}, schema={"x": pl.UInt8}), "signed"),
            (sparse.csc_array(np.array([[1], [0]], dtype=np.uint8)), "signed"),
            (pd.DataFrame({"x": pd.Categorical([1, None])}), "binary"),
            (pd.DataFrame({"x": pd.arrays.SparseArray([1, nan])}), "binary"),
        ],
        ids=["numpy", "pandas", "polars", "sparse", "categories", "pandas sparse"],
    )
    def test_a_type_that_cannot_hold_the_value_is_widened(self, labels, coding):
        filled = fill(labels, coding, predicted=np.array([[-1], [-1]]))
        assert type(filled) is type(labels)
        no = -1 if coding == "signed" else 0
        assert_array_equal(dense(Table(filled, "y").numbers()), [[1], [no]])

    @pytest.mark.parametrize("build", [pl.DataFrame, pa.table])
    def test_a_column_of_nulls(self, build):
        filled = fill(build({"x": [None, None]}), predicted=np.array([[1], [-1]]))
        assert isinstance(filled, type(build({"x": [1]})))
        assert_array_equal(Table(filled, "y").numbers(), [[1], [0]])

    def test_one_dimension_stays_one(self):
        assert_array_equal(fill([1, None], predicted=np.array([[-1], [-1]])), [1, 0])
        assert_array_equal(fill(np.array([0, 1]), predicted=np.array([[1], [-1]])), [0, 1])

    @pytest.mark.parametrize("kind", ["numpy", "numpy object", "pandas", "polars null", "pyarrow"])
    def test_what_could_not_be_predicted_stays_unknown(self, kind):
        values = np.full((2, 2), nan)
        values[0] = 1
        labels = read(DENSE[kind](np.array([[nan, 0], [nan, 0]])))
        filled = fill_unknown(labels, values, "binary")
        assert_array_equal(Table(filled, "y").numbers(), [[1, 0], [nan, 0]])

    @settings(deadline=None)
    @given(signed_tables, st.randoms())
    def test_known_entries_stay_and_unknown_ones_are_predicted(self, signed, random):
        predicted = np.array([[random.choice([1, -1]) for _ in row] for row in signed])
        expected = np.where(signed == 0, predicted, signed)
        assert_array_equal(fill(signed, "signed", predicted), expected)
        binary = np.where(signed == 0, nan, signed > 0)
        for kind in ("numpy", "pandas nullable", "polars null"):
            filled = fill(DENSE[kind](binary), "binary", predicted)
            assert_array_equal(Table(filled, "y").numbers(), expected > 0)
