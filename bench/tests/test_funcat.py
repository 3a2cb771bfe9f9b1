"""Protocol of tables about genes that cannot be joined."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from naim3l_bench.funcat import (
    SHARE,
    FunCat,
    draw,
    raise_parents,
    resample_genes,
    weighted_macro_auc,
)

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


def test_genes_with_the_same_labels_are_drawn_together(genes):
    drawn = resample_genes(genes, 50)
    counts = {}
    for view, of_view in drawn.items():
        rows = genes.test_rows(view)
        assert of_view.shape == (50, len(rows))
        for labels, of_row in zip(genes.labels[view][rows], of_view.T, strict=True):
            counts.setdefault(tuple(labels), set()).add(tuple(of_row))
    assert {len(of_gene) for of_gene in counts.values()} == {1}
    # As many are drawn as there are.
    assert (sum(np.array(next(iter(of))) for of in counts.values()) == len(counts)).all()


def test_macro_auc_of_weighted_rows_is_that_of_scikit_learn(rng):
    truth = (rng.random((60, 3)) < 0.4).astype(float)
    truth[:, 2] = 0  # has no AUC
    P, weights = rng.integers(0, 6, (60, 3)) / 5, rng.integers(0, 4, (7, 60))
    expected = [
        100 * np.mean([roc_auc_score(truth[:, k], P[:, k], sample_weight=w) for k in (0, 1)])
        for w in weights
    ]
    np.testing.assert_allclose(weighted_macro_auc(truth[:, :2], P[:, :2], weights), expected)
    np.testing.assert_allclose(weighted_macro_auc(truth, P, weights), expected)


def test_parents_are_raised_to_the_most_probable_label_below_them(rng):
    names = ["01/01", "02", "01", "01/01/03", "01/02", "03/07"]  # in no order; 03 is not there
    below = {"01": [0, 2, 3, 4], "01/01": [0, 3]}
    P = rng.random((20, 6))
    raised = raise_parents(P, names)
    for k, name in enumerate(names):
        np.testing.assert_array_equal(raised[:, k], P[:, below.get(name, [k])].max(axis=1))
