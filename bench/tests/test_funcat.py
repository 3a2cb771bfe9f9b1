"""Protocol of tables about genes that cannot be joined."""

import numpy as np
import pytest

from naim3l_bench.funcat import SHARE, FunCat, draw

NAMES = ["01", "01/01", "01/02", "02", "99"]


@pytest.fixture
def genes(rng):
    """Two tables whose first column is the number of the row."""
    sizes = {"left": 3000, "right": 2500}
    return FunCat(
        {v: np.column_stack([np.arange(n), rng.normal(size=n)]) for v, n in sizes.items()},
        {v: rng.random((n, 5)) < [0.3, 0.4, 0.01, 0.2, 0.1] for v, n in sizes.items()},
        {v: rng.random(n) < 0.3 for v, n in sizes.items()},
        NAMES,
    )


def test_frequent_labels_are_of_the_second_level(genes):
    assert genes.frequent.tolist() == [False, True, False, False, False]
    assert genes.all_functions.tolist() == [True, True, True, True, False]


@pytest.mark.parametrize("hidden", [0.5, 0.0])
def test_a_draw_has_the_labels_of_its_rows_and_no_test_rows(genes, hidden):
    tables = draw(genes, genes.all_functions, hidden, 0)
    for view, X in tables.X.items():
        rows, test = X[:, 0].astype(int), tables.X_test[view][:, 0].astype(int)
        assert not genes.test[view][rows].any() and genes.test[view][test].all()
        truth = genes.labels[view][:, :4].astype(float)
        known = np.isfinite(tables.Y[view])
        np.testing.assert_array_equal(tables.Y[view][known], truth[rows][known])
        np.testing.assert_array_equal(tables.Y_test[view], truth[test])
        assert truth[rows].any(axis=1).all() and truth[test].any(axis=1).all()
        assert 1 - known.mean() == pytest.approx(hidden, abs=0.03)
        all_rows = (~genes.test[view] & truth.any(axis=1)).sum()
        assert len(rows) == (all_rows if hidden else round(SHARE * all_rows))


def test_draws_differ_by_seed(genes):
    first, same, other = (draw(genes, genes.frequent, 0.5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.Y["left"], same.Y["left"])
    assert not np.array_equal(first.Y["left"], other.Y["left"], equal_nan=True)
