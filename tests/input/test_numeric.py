"""Numbers of the rows that have a view, and which cells are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from test_tables import CONTAINERS, dense

from naim3l.input.numeric import check_finite, check_not_negative, present_rows, read_numbers
from naim3l.input.tables import Table

nan = np.nan


class TestRows:
    @pytest.mark.parametrize("kind", CONTAINERS)
    def test_rows_missing_throughout_lack_the_view(self, kind):
        values = np.array([[1, 0], [nan, nan], [0, 0], [nan, nan], [2, 3]])
        table = Table(CONTAINERS[kind](values), "view 'a'")
        numbers, present = read_numbers(table)
        assert_array_equal(present, [True, False, True, False, True])
        assert_array_equal(present_rows(table), present)
        assert_array_equal(dense(numbers), values[present])

    @pytest.mark.parametrize("kind", CONTAINERS)
    def test_partly_missing_rows_are_refused_unless_allowed(self, kind):
        table = Table(CONTAINERS[kind](np.array([[nan, nan], [1, nan], [2, 3]])), "view 'a'")
        for read in (read_numbers, present_rows):
            with pytest.raises(
                ValueError, match=r"^view 'a', row 1, column '?c?1'?: missing value"
            ):
                read(table)
        assert_array_equal(present_rows(table, allow_missing=True), [False, True, True])

    @pytest.mark.parametrize("kind", CONTAINERS)
    @pytest.mark.parametrize("value", [np.inf, -np.inf])
    def test_infinities_are_refused(self, kind, value):
        table = Table(CONTAINERS[kind](np.array([[nan, nan], [1, 2], [3, value]])), "view 'a'")
        error = rf"^view 'a', row 2, column '?c?1'?: {value} is not a finite number \(infinity\)"
        with pytest.raises(ValueError, match=error):
            read_numbers(table)

    def test_columns_of_a_part_are_counted_in_the_whole_table(self):
        part = Table(np.array([[1, 2, nan], [0, 0, 0]]), "X").select_columns([0, 2], "view 'b'")
        with pytest.raises(ValueError, match="view 'b', row 0, column 2"):
            read_numbers(part)

    def test_checks_of_some_rows_count_rows_in_the_whole_table(self):
        table, rows = Table(np.zeros((3, 2)), "X"), np.array([True, False, True])
        for numbers in (np.array([[1, 2], [-3, nan]]), sparse.csr_array([[1, 2], [-3, nan]])):
            with pytest.raises(ValueError, match=r"X, row 2, column 1: nan is not .*\(NaN\)"):
                check_finite(table, numbers, rows)
            with pytest.raises(ValueError, match="X, row 2, column 0: -3 is negative"):
                check_not_negative(table, numbers, rows)

    @settings(deadline=None)
    @given(st.lists(st.lists(st.sampled_from([0.0, 1.0, nan]), min_size=3, max_size=3), min_size=1))
    def test_present_rows_by_definition(self, rows):
        values = np.array(rows)
        present = present_rows(Table(values, "X"), allow_missing=True)
        assert present.tolist() == [any(cell == cell for cell in row) for row in rows]
