"""Batches in every container: the same cells whichever it is, and errors that name the cell."""

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

from containers import CONTAINERS, dense
from naim3l._origin import Origin
from naim3l._warnings import DataWarning, warn_user
from naim3l.input.batches import (
    LARGEST,
    SMALLEST,
    Batch,
    check_finite,
    check_not_negative,
    check_not_tiny,
    column_sizes,
    first_cell,
    is_missing,
    is_unknown,
    mark_cells,
    present_rows,
    read_numbers,
    same_index,
    warn_of_scales,
)

nan = np.nan
VALUES = np.array([[1.5, 0, -2], [nan, nan, nan], [0, nan, 4], [7, 8, 1e300]])
DAY = datetime.date(2024, 5, 1)


@pytest.fixture(params=CONTAINERS)
def contain(request):
    return CONTAINERS[request.param]


class TestSameCells:
    def test_numbers_and_missing(self, contain):
        batch = Batch(contain(VALUES), "view 'a'")
        assert batch.shape == VALUES.shape and len(batch) == 4
        assert_array_equal(dense(batch.numbers()), VALUES)
        assert dense(batch.numbers()).dtype == np.float64
        assert_array_equal(dense(batch.missing), np.isnan(VALUES))

    def test_columns_selected_in_any_order(self, contain):
        part = Batch(contain(VALUES), "X").select_columns([2, 0], Origin("view 'b'"))
        assert_array_equal(dense(part.numbers()), VALUES[:, [2, 0]])
        assert str(part.origin) == "view 'b'"

    def test_rows_keep_their_library_and_their_numbers(self, contain):
        batch = Batch(contain(VALUES), Origin("X", first_row=10))
        taken = batch.take_rows(np.array([True, False, True, False]))
        assert type(taken.data) is type(batch.data)
        assert_array_equal(dense(taken.numbers()), VALUES[[0, 2]])
        assert taken.place(1, 0).startswith("X, row 12, column")
        assert taken.take_rows(np.array([False, True])).origin.place(0) == "X, row 12"
        assert batch.take_rows(np.ones(4, dtype=bool)) is batch

    @settings(max_examples=15)
    @given(
        hnp.arrays(
            np.float64,
            hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
            elements=st.one_of(st.just(nan), st.floats(-1e6, 1e6)),
        )
    )
    def test_any_values(self, values):
        for build in CONTAINERS.values():
            batch = Batch(build(values), "X")
            assert_array_equal(dense(batch.numbers()), values)
            assert_array_equal(dense(batch.missing), np.isnan(values))

    @pytest.mark.parametrize(
        "data",
        [
            np.array([[1, 0], [0, 1]], dtype=np.uint8),
            np.array([[True, False], [False, True]]),
            np.eye(2, dtype=np.float16),
            sparse.csr_array(np.eye(2, dtype=bool)),
            pd.DataFrame({"a": [True, False], "b": pd.array([0, 1], dtype="Int64")}),
            pd.DataFrame({"a": pd.Categorical([1, 0]), "b": pd.array([0, 1], dtype="Int8")}),
            pd.DataFrame({"a": pd.arrays.SparseArray([1, 0]), "b": [Decimal(0), np.float32(1)]}),
            pd.DataFrame({"a": pd.array([True, False], dtype="boolean"), "b": [0.0, 1.0]}),
            pl.DataFrame({"a": [True, False], "b": pl.Series([0, 1], dtype=pl.UInt8)}),
            pl.DataFrame({"a": [1, 0], "b": [0, 1]}).cast(pl.Decimal(10, 2)),
            pa.table({"a": [True, False], "b": [0, 1]}),
        ],
        ids=lambda data: str(getattr(data, "dtype", getattr(data, "dtypes", "pyarrow"))),
    )
    def test_any_type_of_number(self, data):
        assert_array_equal(dense(Batch(data, "X").numbers()), np.eye(2))
        assert not dense(Batch(data, "X").missing).any()

    @pytest.mark.parametrize(
        "data",
        [
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
            pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}),
            pd.DataFrame({"a": pd.array([True, None], dtype="bool[pyarrow]")}),
            pd.DataFrame({"a": [1, pd.NA]}, dtype=object),
            pd.DataFrame({"a": pd.Categorical([1, None])}),
            pl.DataFrame({"a": [True, None]}),
            pa.table({"a": [1, None]}),
        ],
        ids=lambda data: f"{type(data).__module__} {getattr(data, 'dtypes', '')}",
    )
    def test_nulls_of_types_that_have_no_nan(self, data):
        assert_array_equal(Batch(data, "X").numbers(), [[1], [nan]])
        assert_array_equal(Batch(data, "X").missing, [[False], [True]])

    def test_whole_numbers_beyond_those_of_a_float_are_rounded(self):
        frame = pd.DataFrame({"a": np.array([2**63 + 1, 3], dtype=np.uint64), "b": [0.5, 1]})
        gap = pd.DataFrame({"a": pd.array([2**60 + 1, None], dtype="Int64")})
        for data in (frame, frame.convert_dtypes(dtype_backend="pyarrow"), pl.from_pandas(frame),
                     pa.Table.from_pandas(frame)):  # fmt: skip
            assert_array_equal(Batch(data, "X").numbers(), [[2.0**63, 0.5], [3, 1]])
        for data in (gap, gap.convert_dtypes(dtype_backend="pyarrow"), pa.Table.from_pandas(gap)):
            assert_array_equal(Batch(data, "X").numbers(), [[2.0**60], [nan]])

    @pytest.mark.parametrize("build", [pl.DataFrame, pa.table])
    def test_a_column_of_nulls_has_no_type_but_is_missing(self, build):
        batch = Batch(build({"a": [None, None], "b": [1, 2]}), "X")
        assert_array_equal(batch.numbers(), [[nan, 1], [nan, 2]])
        assert_array_equal(batch.missing, [[True, False], [True, False]])

    def test_text_and_dates_are_missing_only_where_null(self):
        when = datetime.datetime(2024, 5, 1)
        data = {"word": ["x", None, "y"], "when": [when, when, None]}
        expected = [[False, False], [True, False], [False, True]]
        cells = np.array([["x", when], [None, when], ["y", None]], dtype=object)
        for table in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data), cells):
            assert_array_equal(Batch(table, "X").missing, expected)
        times = np.array([["2024-05-01", "NaT"]], dtype="datetime64[ns]")
        assert_array_equal(Batch(times, "X").missing, [[False, True]])

    def test_columns_of_numbers_are_not_read_cell_by_cell(self, monkeypatch):
        def refuse(cell):
            raise AssertionError("one cell was looked at")

        monkeypatch.setattr("naim3l.input.batches.is_missing", refuse)
        for kind in ("numpy", "pandas", "pandas nullable", "polars null", "pyarrow", "csr_array"):
            batch = Batch(CONTAINERS[kind](VALUES), "X")
            assert_array_equal(dense(batch.numbers()), VALUES)
            assert_array_equal(dense(batch.missing), np.isnan(VALUES))


class TestDistinctCells:
    @given(st.lists(st.sampled_from(["a", "b", 1, 1.0, 2.5, None, nan, pd.NA, DAY]), min_size=1))
    def test_codes_stand_for_the_known_cells(self, cells):
        batch = Batch(pd.DataFrame({"x": pd.Series(cells, dtype=object)}), "X")
        codes, values = batch.distinct(0)
        assert len(set(values)) == len(values)
        for cell, code in zip(cells, codes, strict=True):
            assert code == -1 if is_missing(cell) else values[code] == cell

    def test_what_cannot_be_compared_is_named(self):
        cells = pd.DataFrame({"x": ["a", [1]]})
        with pytest.raises(
            TypeError, match=r"row 1, column 'x': \[1\] is .*of each.*a transformer"
        ):
            Batch(cells, "X").distinct(0)
        with pytest.raises(TypeError, match=r"label 'x': \[1\] is .*; leave the label out\.$"):
            Batch(cells, "X", "label").distinct(0)

    def test_dates_beyond_those_of_python_are_named(self):
        batch = Batch(pa.table({"x": pa.array([10**12], pa.timestamp("s"))}), "X")
        with pytest.raises(ValueError, match=r"X, column 'x': .*; leave the column out"):
            batch.cells(0)


class TestNames:
    def test_names_are_kept(self):
        for build in (pd.DataFrame, pl.DataFrame, pa.table):
            batch = Batch(build({name: [1.0, 2.0] for name in "abc"}), "X")
            assert batch.columns == ["a", "b", "c"]
            part = batch.select_columns([2, 0])
            assert part.columns == ["c", "a"] and part.column_label(0) == "column 'c'"

    @pytest.mark.parametrize("columns", [[0, 1], [20, 10], [("a", "x"), ("a", "y")]], ids=str)
    def test_other_names_are_positions(self, columns):
        batch = Batch(pd.DataFrame(np.eye(2), columns=columns), "X")
        assert batch.columns is None and batch.column_label(1) == "column 1"
        assert_array_equal(batch.select_columns([1]).numbers(), [[0], [1]])

    def test_a_part_without_names_counts_as_the_whole_did(self):
        part = Batch(np.eye(4), "X").select_columns([3, 1, 0]).select_columns([1, 2])
        assert [part.column_label(j) for j in (0, 1)] == ["column 1", "column 0"]

    @pytest.mark.parametrize("other", [3, None, nan])
    def test_names_of_several_types_are_refused(self, other):
        with pytest.raises(TypeError, match=r"view 'a': column names of several types, .*'str'\]"):
            Batch(pd.DataFrame(np.eye(2), columns=["x", other]), "view 'a'")

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
            Batch(data, "view 'a'")


class TestRefused:
    @pytest.mark.parametrize(
        ("cell", "error"),
        [
            ("red", r"'red' is not a number \(text\)"),
            ("12", "'12' is not a number"),
            (b"red", "b'red' is not a number"),
            (DAY, r"datetime.date\(2024, 5, 1\) is not a number"),
            (np.datetime64(1, "ns"), "datetime64.* is not a number"),
            ({"x": 1}, "{'x': 1} is not a number .*argument must be .*string.* number"),
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
                Batch(data, "view 'a'").numbers(allowed="whole numbers")
            assert str(raised.value).startswith(f"view 'a', row 1, column {column}: ")
            nested = isinstance(cell, dict | np.ndarray)
            cure = "make a column of each of its values" if nested else "expected whole numbers"
            assert cure in str(raised.value)

    def test_long_text_is_quoted_in_short_and_numbers_beside_text_are_not_text(self):
        with pytest.raises(ValueError, match="'word word") as raised:
            Batch(np.array([["word " * 1000]]), "X").numbers()
        assert len(str(raised.value)) < 200
        with pytest.raises(ValueError, match=r"row 0, column 1: 'x'"):
            Batch([[1, "x"]], "X").numbers()

    @pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[ns]"])
    def test_times_of_numpy(self, kind):
        with pytest.raises(ValueError, match=r"row 0, column 0: .*is not a number \(time\)"):
            Batch(np.array([[3]], kind), "X").numbers()

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
            ([np.eye(2), np.eye(3)], r".*Give several views as a mapping \{name: table\}"),
            ((sparse.eye_array(2), np.eye(2)), r".*Give several views as a mapping"),
            ([pd.DataFrame({"a": [1]})], r".*Give several views as a mapping"),
            (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "a structured array"),
            (np.array([[1j]]), "Complex data not supported"),
            (sparse.csr_array(np.array([[1j]])), "Complex data not supported"),
        ],
        ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
    )
    def test_what_is_no_table(self, data, error):
        with pytest.raises(ValueError, match=f"^view 'a': {error}"):
            Batch(data, "view 'a'")


class TestRowsOfNumbers:
    @pytest.mark.parametrize("kind", CONTAINERS)
    def test_rows_missing_throughout_lack_the_view(self, kind):
        values = np.array([[1, 0], [nan, nan], [0, 0], [nan, nan], [2, 3]])
        numbers, present = read_numbers(Batch(CONTAINERS[kind](values), "view 'a'"))
        assert_array_equal(present, [True, False, True, False, True])
        assert_array_equal(dense(numbers), values[present])

    @pytest.mark.parametrize("kind", CONTAINERS)
    @pytest.mark.parametrize("value", [nan, -np.inf])
    def test_partly_missing_rows_and_infinities_are_refused(self, kind, value):
        values = np.array([[nan, nan], [1, 2], [3, value]])
        error = "missing value" if np.isnan(value) else r"-inf is not a finite number \(infinity\)"
        with pytest.raises(ValueError, match=rf"^view 'a', row 2, column '?c?1'?: {error}"):
            read_numbers(Batch(CONTAINERS[kind](values), "view 'a'"))

    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
    def test_sparse_tables_become_canonical_and_stay_as_they_are(self, kind):
        parts = np.array([1.0, 2, 3, nan, 4]), np.array([2, 0, 2, 1, 1]), np.array([0, 3, 5])
        table = kind(tuple(map(np.copy, parts)), shape=(2, 3))
        batch = Batch(table, "X")
        assert batch.data.has_canonical_format and batch.data.nnz == 3
        assert_array_equal(batch.data.toarray(), [[2, 0, 4], [0, nan, 0]])
        for given_part, part in zip((table.data, table.indices, table.indptr), parts, strict=True):
            assert_array_equal(given_part, part)
        canonical = sparse.csr_array(np.eye(2))
        assert np.shares_memory(Batch(canonical, "X").data.data, canonical.data)  # no needless copy

    @given(st.lists(st.lists(st.sampled_from([0.0, 1.0, nan]), min_size=3, max_size=3), min_size=1))
    def test_present_rows_by_definition(self, rows):
        for values in (np.array(rows), sparse.csr_array(np.array(rows))):
            batch = Batch(values, "X")
            present = present_rows(batch, batch.missing, allow_missing=True)
            assert present.tolist() == [any(cell == cell for cell in row) for row in rows]

    def test_columns_and_rows_of_a_part_are_counted_in_the_whole_table(self):
        part = Batch(np.array([[1, 2, nan], [0, 0, 0]]), "X").select_columns([0, 2])
        with pytest.raises(ValueError, match="X, row 0, column 2: missing value"):
            read_numbers(part)
        some = Batch(np.zeros((3, 2)), "X").take_rows(np.array([True, False, True]))
        for numbers in (np.array([[1, 2], [-3, nan]]), sparse.csr_array([[1, 2], [-3, nan]])):
            with pytest.raises(ValueError, match=r"X, row 2, column 1: nan is not .*\(NaN\)"):
                check_finite(some, numbers)
            with pytest.raises(ValueError, match="X, row 2, column 0: -3 is negative"):
                check_not_negative(some, numbers)

    def test_numbers_that_products_cannot_have(self):
        with pytest.raises(ValueError, match=r"X, row 0, column 1: 1e\+101 is too large"):
            read_numbers(Batch([[1, 10 * LARGEST]], "X"))
        read_numbers(Batch([[SMALLEST / 10, LARGEST]], "X"))
        for values in (np.array([[0, 1e-101], [0, -1e-102]]), sparse.csr_array([[0, -1e-101]])):
            sizes = column_sizes(values)
            assert_array_equal(sizes, [0, 1e-101])
            with pytest.raises(ValueError, match="X, column 1: its largest value is 1e-101"):
                check_not_tiny(Batch(values, "X"), sizes)

    def test_columns_that_take_the_digits_of_others_are_named(self, rng):
        year, size = 2000 + rng.normal(size=30), rng.normal(size=30)
        frame = pd.DataFrame({"second": 3e7 * year, "size": size, "one": 1.0})
        message = r"view 'a': column 'second' has values around 6e\+10, and column 'size' varies by"
        with pytest.warns(DataWarning, match=message):
            warn_of_scales(Batch(frame, "view 'a'"), frame.to_numpy())
        tame = pd.DataFrame({"year": year, "size": size, "one": 1.0})
        warn_of_scales(Batch(tame, "view 'a'"), tame.to_numpy())  # warnings are errors


class TestHelpers:
    @given(hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5)))
    def test_first_cell(self, mask):
        cells = [(i, j) for i, row in enumerate(mask) for j, cell in enumerate(row) if cell]
        expected = cells[0] if cells else None
        assert first_cell(mask) == first_cell(sparse.csr_array(mask)) == expected

    def test_first_cell_of_unsorted_sparse_rows(self):
        values = sparse.csr_array(([nan, nan], [2, 0], [0, 0, 2]), shape=(2, 3))
        assert first_cell(mark_cells(values, np.isnan)) == (1, 0)

    def test_same_index_is_false_only_for_pandas_tables_that_differ(self):
        def batch(index):
            return Batch(pd.DataFrame({"x": np.zeros(len(index))}, index=index), "X")

        assert same_index(batch([1, 2]), batch([1, 2]))
        assert same_index(batch([1, 0]), Batch(np.zeros((2, 1)), "X"))
        assert not same_index(batch([1, 2]), batch([2, 1]))

    def test_missing_and_unknown_cells(self):
        for cell in (None, nan, pd.NA, pd.NaT, np.float32("nan")):
            assert is_missing(cell) and is_unknown(cell)
        for cell in ("", " N/A ", "?", "Unknown", "-"):
            assert is_unknown(cell) and not is_missing(cell)
        for cell in (0, "x", np.array([]), np.array([nan, 1.0]), pd.Series([1, 2])):
            assert not is_missing(cell) and not is_unknown(cell)

    def test_warnings_point_out_of_the_package(self):
        with pytest.warns(DataWarning) as caught:
            warn_user("careful")
        assert caught[0].filename == __file__
