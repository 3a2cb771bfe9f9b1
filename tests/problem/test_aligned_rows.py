"""Samples with all their views, from the rows of a wide table."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from naim3l.problem import feature_blocks
from naim3l.problem.aligned_rows import AlignedRows, concatenate_views
from naim3l.problem.rows import Problem

# Two views of the samples 0, 2 and 3; sample 1 has no view at all.
A, B = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0], [7.0]])
SAMPLES = np.array([0, 3, 2, 3])
LABELS = np.array([[1, 0], [-1, 1], [0, -1], [-1, 1]])


def rows_of(*features, **options):
    problem = Problem(features or [A, B], [LABELS[:2], LABELS[2:]], samples=SAMPLES, **options)
    return AlignedRows.from_problem(problem)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_are_where_their_sample_is_and_zero_where_it_lacks_the_view(container):
    rows = rows_of(container(A), container(B))
    assert_array_equal(rows.features[0], [[1, 2], [0, 0], [3, 4]])
    assert_array_equal(rows.features[1], [[0], [5], [7]])
    assert_array_equal(rows.present, [[True, False, True], [False, True, True]])
    assert_array_equal(rows.Y, [[1, 0], [0, -1], [-1, 1]])
    assert rows.widths == [2, 1]


def test_missing_views_are_filled_with_the_means_of_the_others():
    rows = rows_of()
    assert_array_equal(rows.means(), [2, 3, 6])
    assert_array_equal(rows.concatenated(rows.means()), [[1, 2, 6], [2, 3, 5], [3, 4, 7]])
    assert_array_equal(rows.features[0][1], [0, 0])  # unchanged
    one = concatenate_views(
        [np.ones((1, 2)), np.zeros((1, 1))], np.array([[True], [False]]), np.array([8.0, 8.0, 9.0])
    )
    assert_array_equal(one, [[1, 1, 9]])


def test_weights_are_those_of_a_problem():
    rows = rows_of(positive_weight=3.0)
    assert_array_equal(rows.P, [[3, 0], [0, 1], [1, 3]])


def test_weights_of_the_problem_of_scores_are_scores(rng):
    rows = rows_of()
    problem, scores = rows.as_scores(), rng.normal(size=(3, 2))
    assert_array_equal(problem.multiply(scores), scores)
    assert_array_equal(problem.by_view_and_sample(scores)[0], scores)
    assert_array_equal(problem.labels_of_samples, rows.Y)


def test_tables_beyond_the_memory_are_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(feature_blocks, "physical_memory", lambda: 8 * 3 * 3 - 1)
    with pytest.raises(MemoryError, match=r"3 rows of 3 columns.*features=Recipe"):
        rows_of()
