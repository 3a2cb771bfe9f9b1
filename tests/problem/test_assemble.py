"""From checked views and their features to a problem, row by row."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from naim3l import DataWarning
from naim3l.input.reader import View
from naim3l.input.tables import Table
from naim3l.problem.assemble import assemble


def make(presents, labels):
    """Views with one feature, the number of the row, and rows that some of them lack."""
    views, encoded = {}, {}
    for name, present in presents.items():
        rows = np.arange(float(len(present)))[:, None]
        views[name] = View(Table(rows, f"view {name!r}"), np.asarray(labels[name], dtype=np.int8))
        encoded[name] = rows[np.array(present)], np.array(present)
    return views, encoded


@pytest.mark.filterwarnings("ignore:labels never observed negative")
def test_tables_apart_are_stacked_without_the_rows_that_lack_the_view():
    labels = {"a": [[1], [-1], [1]], "b": [[0], [1]]}
    views, encoded = make({"a": [True, False, True], "b": [True, True]}, labels)
    problem = assemble(views, encoded, ["l"], wide=False, fit_intercept=False)
    assert problem.samples is None and problem.names == ["a", "b"]
    assert_array_equal(problem.Y, [[1], [1], [0], [1]])
    assert_array_equal(np.concatenate(problem.X), [[0], [2], [0], [1]])


def test_rows_of_a_wide_table_are_samples():
    labels = {view: [[1], [-1], [1]] for view in "ab"}
    views, encoded = make({"a": [True, False, False], "b": [True, True, False]}, labels)
    with pytest.warns(DataWarning, match=r"X: 1 rows \(2\) have no view at all"):
        problem = assemble(views, encoded, ["l"], wide=True, positive_weight=3.0)
    assert_array_equal(problem.samples, [0, 0, 1])
    assert_array_equal(problem.P, [[3], [3], [1]])


def test_a_view_without_a_positive_is_refused():
    views, encoded = make({"a": [True, True]}, {"a": [[-1], [0]]})
    with pytest.raises(ValueError, match="view 'a': no label is observed positive"):
        assemble(views, encoded, ["l"], wide=False)
