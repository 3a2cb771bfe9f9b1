"""Points of rows in the space that several views share, some of them missing."""

import numpy as np
import pytest

from naim3l.extend import AlignedRows
from naim3l_bench.methods.shared_space import by_pattern, fold_in, rescale, split_columns, unit_rows

WIDTHS = (4, 3, 5)


@pytest.fixture
def rows(rng):
    """Twelve rows of three views, each of which has at least one of them."""
    present = rng.random((3, 12)) < 0.6
    present[0, ~present.any(axis=0)] = True
    features = [
        has_view[:, None] * rng.normal(2.0, 3.0, size=(12, width))
        for has_view, width in zip(present, WIDTHS, strict=True)
    ]
    return AlignedRows(features, present, np.zeros((12, 2)))


def test_scaled_rows_have_mean_zero_and_length_one_on_average(rows):
    X = rescale(rows.features, rows.present, *unit_rows(rows))
    for X_v, has_view in zip(X, rows.present, strict=True):
        np.testing.assert_allclose(X_v[has_view].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.square(X_v[has_view]).sum(axis=1).mean(), 1)
        assert not X_v[~has_view].any()


def test_a_constant_view_is_scaled_to_zeros():
    rows = AlignedRows([np.full((4, 2), 7.0)], np.ones((1, 4), bool), np.zeros((4, 1)))
    centre, scale = unit_rows(rows)
    np.testing.assert_array_equal(scale, 1)
    assert not rescale(rows.features, rows.present, centre, scale)[0].any()


def test_patterns_contain_each_row_once_with_its_views(rows, rng):
    basis = rng.normal(size=(sum(WIDTHS), 2))
    parts, seen = split_columns(basis, rows.features), np.zeros(12, int)
    assert [part.shape for part in parts] == [(width, 2) for width in WIDTHS]
    for at, gram, right in by_pattern(basis, rows.features, rows.present):
        seen += at
        for i, of_row in zip(np.flatnonzero(at), right, strict=True):
            shown = [v for v in range(3) if rows.present[v, i]]
            np.testing.assert_allclose(gram, sum(parts[v].T @ parts[v] for v in shown))
            expected = sum(rows.features[v][i] @ parts[v] for v in shown)
            np.testing.assert_allclose(of_row, expected)
    np.testing.assert_array_equal(seen, 1)


def test_folded_in_points_are_ridge_solutions_row_by_row(rows, rng):
    basis, root = rng.normal(size=(sum(WIDTHS), 4)), rng.normal(size=(4, 4))
    penalty = root @ root.T + np.eye(4)
    points = fold_in(basis, rows.features, rows.present, penalty)
    for i, point in enumerate(points):
        columns = np.repeat(rows.present[:, i], WIDTHS)
        x, U = np.concatenate([X_v[i] for X_v in rows.features])[columns], basis[columns]
        gradient = U.T @ (U @ point - x) + penalty @ point
        np.testing.assert_allclose(gradient, 0, atol=1e-9)
