"""Tables in every container: the same cells whichever it is, and errors that name the cell."""

import datetime
from decimal import Decimal

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

from naim3l.input.tables import (
    DataWarning,
    Table,
    first_cell,
    is_missing,
    mark_cells,
    same_index,
    warn_user,
)

NAMES = ["height", "weight", "age"]
nan = np.nan


def columns_of(values):
    """Values (n_rows, n_columns) as a dict of columns of Python numbers, None for NaN."""
    names = [f"c{j}" for j in range(values.shape[1])]
    return {
        name: [None if np.isnan(cell) else float(cell) for cell in column]
        for name, column in zip(names, values.T, strict=True)
    }


def as_pandas(values, **options):
    return pd.DataFrame(columns_of(values), index=np.arange(len(values)) * 3 + 7, **options)


DENSE = {
    "numpy": np.array,
    "numpy, Fortran order": np.asfortranarray,
    "numpy object": lambda values: np.where(np.isnan(values), None, values),
    "numpy masked": lambda values: np.ma.masked_array(
        np.where(np.isnan(values), -1, values), np.isnan(values)
    ),
    "list": lambda values: values.tolist(),
    "list with None": lambda values: np.where(np.isnan(values), None, values).tolist(),
    "pandas": lambda values: as_pandas(values, dtype="float64"),
    "pandas nullable": lambda values: as_pandas(values, dtype="Float64"),
    "pandas pyarrow": lambda values: as_pandas(values, dtype="double[pyarrow]"),
    "pandas object": lambda values: as_pandas(values, dtype=object),
    "pandas, numbered columns": lambda values: pd.DataFrame(values),
    "polars null": lambda values: pl.DataFrame(columns_of(values), strict=False),
    "polars NaN": lambda values: pl.DataFrame(values, schema=list(columns_of(values))),
    "pyarrow": lambda values: pa.table(columns_of(values)),
}
SPARSE = {
    f"{kind}_{form}": getattr(sparse, f"{kind}_{form}")
    for kind in ("csr", "csc", "coo", "dok", "lil", "bsr", "dia")
    for form in ("array", "matrix")
}
CONTAINERS = DENSE | SPARSE


def dense(values):
    return values.toarray() if sparse.issparse(values) else values


@pytest.fixture(params=CONTAINERS)
def contain(request):
    return CONTAINERS[request.param]


VALUES = np.array([[1.5, 0, -2], [nan, nan, nan], [0, nan, 4], [7, 8, 1e300]])


class TestSameCells:
    def test_numbers_and_missing(self, contain):
        table = Table(contain(VALUES), "view 'a'")
        assert table.shape == VALUES.shape
        assert_array_equal(dense(table.numbers()), VALUES)
        assert dense(table.numbers()).dtype == np.float64
        assert_array_equal(dense(table.missing()), np.isnan(VALUES))

    def test_columns_selected_in_any_order(self, contain):
        part = Table(contain(VALUES), "X").select_columns([2, 0], "view 'b'")
        assert_array_equal(dense(part.numbers()), VALUES[:, [2, 0]])
        assert part.where == "view 'b'"

    def test_rows_taken_stay_in_their_library(self, contain):
        table = Table(contain(VALUES), "X")
        rows = np.array([True, False, True, False])
        taken = table.take_rows(rows)
        assert type(taken) is type(table.data)
        assert_array_equal(dense(Table(taken, "X").numbers()), VALUES[rows])
        assert table.take_rows(np.ones(4, dtype=bool)) is table.data

    @settings(deadline=None, max_examples=20)
    @given(
        values=hnp.arrays(
            np.float64,
            hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
            elements=st.one_of(st.just(nan), st.floats(-1e6, 1e6)),
        )
    )
    def test_any_values(self, values):
        for build in CONTAINERS.values():
            table = Table(build(values), "X")
            assert_array_equal(dense(table.numbers()), values)
            assert_array_equal(dense(table.missing()), np.isnan(values))

    @pytest.mark.parametrize(
        "data",
        [
            np.array([[1, 0], [0, 1]], dtype=np.uint8),
            np.array([[True, False], [False, True]]),
            np.eye(2, dtype=np.float32),
            sparse.csr_array(np.eye(2, dtype=bool)),
            pd.DataFrame({"a": [True, False], "b": pd.array([0, 1], dtype="Int64")}),
            pd.DataFrame({"a": pd.Categorical([1, 0]), "b": pd.array([0, 1], dtype="Int8")}),
            pd.DataFrame({"a": pd.arrays.SparseArray([1, 0]), "b": [Decimal(0), np.float32(1)]}),
            pd.DataFrame({"a": pd.array([True, False], dtype="boolean"), "b": [0.0, 1.0]}),
            pl.DataFrame(
                {"a": [True, False], "b": [0, 1]}, schema={"a": pl.Boolean, "b": pl.UInt8}
            ),
            pl.DataFrame({"a": [1, 0], "b": [0, 1]}).cast(pl.Decimal(10, 2)),
            pa.table({"a": [True, False], "b": [0, 1]}),
        ],
        ids=lambda data: str(getattr(data, "dtype", getattr(data, "dtypes", "pyarrow"))),
    )
    def test_any_type_of_number(self, data):
        assert_array_equal(dense(Table(data, "X").numbers()), np.eye(2))
        assert not dense(Table(data, "X").missing()).any()

    @pytest.mark.parametrize(
        "data",
        [
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
            pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}),
            pd.DataFrame({"a": pd.array([True, None], dtype="bool[pyarrow]")}),
            pd.DataFrame({"a": [1, pd.NA]}, dtype=object),
            pd.DataFrame({"a": pd.Categorical([1, None])}),
            pl.DataFrame({"a": [1, None]}),
            pl.DataFrame({"a": [True, None]}),
            pa.table({"a": [True, None]}),
        ],
        ids=lambda data: f"{type(data).__module__} {getattr(data, 'dtypes', '')}",
    )
    def test_nulls_of_types_that_have_no_nan(self, data):
        assert_array_equal(Table(data, "X").numbers(), [[1], [nan]])
        assert_array_equal(Table(data, "X").missing(), [[False], [True]])

    @pytest.mark.parametrize("build", [pl.DataFrame, pa.table])
    def test_a_column_of_nulls_has_no_type_but_is_missing(self, build):
        table = Table(build({"a": [None, None], "b": [1, 2]}), "X")
        assert_array_equal(table.numbers(), [[nan, 1], [nan, 2]])
        assert_array_equal(table.missing(), [[True, False], [True, False]])

    def test_text_and_dates_are_missing_only_where_null(self):
        when = datetime.datetime(2024, 5, 1)
        data = {"word": ["x", None, "y"], "when": [when, when, None]}
        expected = [[False, False], [True, False], [False, True]]
        assert_array_equal(Table(pd.DataFrame(data), "X").missing(), expected)
        assert_array_equal(Table(pl.DataFrame(data), "X").missing(), expected)
        cells = np.array([["x", when], [None, when], ["y", None]], dtype=object)
        assert_array_equal(Table(cells, "X").missing(), expected)
        times = np.array([["2024-05-01", "NaT"]], dtype="datetime64[ns]")
        assert_array_equal(Table(times, "X").missing(), [[False, True]])

    def test_columns_of_numbers_are_not_read_cell_by_cell(self, monkeypatch):
        def refuse(cell):
            raise AssertionError("one cell was looked at")

        monkeypatch.setattr("naim3l.input.tables.is_missing", refuse)
        for kind in ("numpy", "pandas", "pandas nullable", "polars null", "pyarrow", "csr_array"):
            table = Table(CONTAINERS[kind](VALUES), "X")
            assert_array_equal(dense(table.numbers()), VALUES)
            assert_array_equal(dense(table.missing()), np.isnan(VALUES))


class TestNames:
    def test_names_are_kept(self):
        columns = {name: [1.0, 2.0] for name in NAMES}
        for build in (pd.DataFrame, pl.DataFrame, pa.table):
            assert Table(build(columns), "X").columns == NAMES
            part = Table(build(columns), "X").select_columns([2, 0], "view 'b'")
            assert part.columns == ["age", "height"]
            assert part.column_label(0) == "column 'age'"

    @pytest.mark.parametrize("columns", [[0, 1], [20, 10], [("a", "x"), ("a", "y")]], ids=str)
    def test_other_names_are_positions(self, columns):
        frame = pd.DataFrame(np.eye(2), columns=columns)
        table = Table(frame, "X")
        assert table.columns is None
        assert table.column_label(1) == "column 1"
        assert_array_equal(table.select_columns([1], "X").numbers(), [[0], [1]])

    def test_a_part_without_names_counts_as_the_whole_did(self):
        part = Table(np.eye(3), "X").select_columns([2, 0], "view 'b'")
        assert [part.column_label(j) for j in (0, 1)] == ["column 2", "column 0"]

    def test_names_of_several_types_are_refused(self):
        with pytest.raises(TypeError, match=r"view 'a': column names .*\['int', 'str'\]"):
            Table(pd.DataFrame(np.eye(2), columns=["x", 3]), "view 'a'")

    @pytest.mark.parametrize(
        "data",
        [
            pd.DataFrame(np.eye(3), columns=["x", "y", "x"]),
            pa.table([[1], [2], [3]], names=["x", "y", "x"]),
        ],
        ids=["pandas", "pyarrow"],
    )
    def test_duplicate_names_are_refused(self, data):
        with pytest.raises(ValueError, match=r"view 'a': duplicate column names \['x'\]"):
            Table(data, "view 'a'")


class TestRefused:
    @pytest.mark.parametrize(
        ("cell", "error"),
        [
            ("red", r"'red' is not a number \(text\)"),
            ("12", "'12' is not a number"),
            (b"red", "b'red' is not a number"),
            (datetime.date(2024, 5, 1), r"datetime.date\(2024, 5, 1\) is not a number"),
            (np.datetime64(1, "ns"), "datetime64.* is not a number"),
            ({"x": 1}, "{'x': 1} is not a number .*argument must be .*string.* number"),
            ([1, 2], r"\[1, 2\] is not a number"),
            (np.array([1, 2]), r"array\(\[1, 2\]\) is not a number"),
            (1j, "1j is not a number"),
            (10**400, "10000.* is not a number .*too large"),
        ],
        ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:8],
    )
    def test_a_cell_that_is_no_number(self, cell, error):
        cells = np.empty((2, 2), dtype=object)
        cells[:] = [[1, 2], [3, None]]
        cells[1, 1] = cell
        frame = pd.DataFrame({"a": [1, 3], "b": cells[:, 1]})
        for data, column in ((cells, "1"), (frame, "'b'")):
            with pytest.raises((ValueError, TypeError), match=error) as raised:
                Table(data, "view 'a'").numbers(allowed="whole numbers")
            assert str(raised.value).startswith(f"view 'a', row 1, column {column}: ")
            assert "expected whole numbers" in str(raised.value)

    def test_long_text_is_quoted_in_short(self):
        with pytest.raises(ValueError, match="'word word") as raised:
            Table(np.array([["word " * 1000]]), "X").numbers()
        assert len(str(raised.value)) < 200

    def test_numbers_beside_text_are_not_called_text(self):
        with pytest.raises(ValueError, match=r"row 0, column 1: 'x'"):
            Table([[1, "x"]], "X").numbers()

    @pytest.mark.parametrize("unit", ["D", "ns"])
    def test_times_of_numpy(self, unit):
        for data in (
            np.array([[3]], f"datetime64[{unit}]"),
            np.array([[3]], f"timedelta64[{unit}]"),
        ):
            with pytest.raises(ValueError, match=r"row 0, column 0: .*is not a number \(time\)"):
                Table(data, "X").numbers()

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (np.zeros(3), "Expected 2D array, got 1D array instead"),
            (sparse.coo_array(np.ones(3)), "Expected 2D array, got 1D array instead"),
            (pd.Series([1.0, 2.0]), "Expected 2D array, got 1D array instead"),
            ([], "Expected 2D array, got 1D array instead"),
            (np.zeros((2, 2, 2)), r"expected a table .*got an array of shape \(2, 2, 2\)"),
            (3.0, "expected a table .*got float"),
            (None, "expected a table .*got NoneType"),
            (pl.LazyFrame({"a": [1]}), r"a lazy frame; give table\.collect\(\)"),
            ([[1, 2], [3]], "cannot be read as a table with rows of one length"),
            ([np.eye(2), np.eye(3)], r"a list of tables.*mapping \{name: table\}"),
            ((sparse.eye_array(2), np.eye(2)), r"a tuple of tables.*mapping \{name: table\}"),
            ([pd.DataFrame({"a": [1]})], "a list of tables"),
            (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "a structured array"),
            (np.array([[1j]]), "Complex data not supported"),
            (sparse.csr_array(np.array([[1j]])), "Complex data not supported"),
        ],
        ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
    )
    def test_what_is_no_table(self, data, error):
        with pytest.raises(ValueError, match=f"^view 'a': {error}"):
            Table(data, "view 'a'")


class TestHelpers:
    @given(hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5)))
    def test_first_cell(self, mask):
        cells = [(i, j) for i, row in enumerate(mask) for j, cell in enumerate(row) if cell]
        expected = cells[0] if cells else None
        assert first_cell(mask) == expected
        assert first_cell(sparse.csr_array(mask)) == expected

    def test_first_cell_of_unsorted_sparse_rows(self):
        values = sparse.csr_array(([nan, nan], [2, 0], [0, 0, 2]), shape=(2, 3))
        assert first_cell(mark_cells(values, np.isnan)) == (1, 0)

    def test_same_index_is_false_only_for_pandas_tables_that_differ(self):
        def table(index):
            return Table(pd.DataFrame({"x": np.zeros(len(index))}, index=index), "X")

        assert same_index(table([1, 2, 3]), table([1, 2, 3]))
        assert same_index(table([1, 0]), Table(np.zeros((2, 1)), "X"))
        assert not same_index(table([1, 2, 3]), table([3, 1, 2]))
        assert not same_index(table([1, 2, 3]), table([3, 2, 4]))

    def test_warnings_point_out_of_the_package(self):
        with pytest.warns(DataWarning) as caught:
            warn_user("careful")
        assert caught[0].filename == __file__


def test_arrays_within_cells_are_not_missing_even_if_they_are_empty():
    assert not is_missing(np.array([])) and not is_missing(np.array([np.nan, 1.0]))
    assert is_missing(np.nan) and is_missing(None) and is_missing(pd.NA) and is_missing(pd.NaT)
