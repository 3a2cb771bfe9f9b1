"""Moments of parts are those of the whole, and recipes fitted to them are those of the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from naim3l.features.moments import (
    MOST_COLUMNS,
    Moments,
    count_fitted_by_moments,
    fit_steps,
)
from naim3l.features.recipes import (
    RECIPES,
    DropConstantColumns,
    LeadingComponents,
    RootHistogram,
)


def fit_recipe(name, n_components, moments):
    recipe = RECIPES[name](n_components)
    fit_steps([step for _, step in recipe.steps], moments)
    return recipe


def in_parts(rows, cuts):
    """Moments of the parts between the cuts, combined."""
    moments, *others = (Moments.of(part) for part in np.split(rows, cuts))
    for other in others:
        moments = moments.combine(other)
    return moments


def plain(rng):
    return rng.normal(size=(60, 7)) @ rng.normal(size=(7, 7))


def ill_scaled(rng):
    return plain(rng) * np.logspace(-6, 6, 7)


def far_from_zero(rng):
    return 1e6 + rng.normal(size=(60, 7)) * [1, 2, 3, 4, 5, 6, 7]


def with_constants(rng):
    rows = plain(rng)
    rows[:, 1], rows[:, 4] = 0, 0.3
    return rows


def wide(rng):
    return rng.normal(size=(20, 40)) * np.linspace(3, 1, 40)


def two_columns(rng):
    """Entries of the second direction differ in their signs alone, once columns are scaled."""
    return rng.normal(size=(60, 2)) @ [[1, 0.4], [0, 1]]


ROWS = [two_columns, plain, ill_scaled, far_from_zero, with_constants, wide]


@settings(deadline=None, max_examples=50)
@given(
    cuts=st.lists(st.integers(0, 60), max_size=6).map(sorted),
    kind=st.sampled_from(ROWS),
    seed=st.integers(0, 2**32 - 1),
)
def test_parts_add_up_to_the_whole(cuts, kind, seed):
    rows = kind(np.random.default_rng(seed))
    moments = in_parts(rows, cuts)
    assert moments.n_rows == len(rows)
    assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-13 * np.abs(rows).max())
    spread = (rows.std(axis=0) + 1e-9 * np.abs(rows).max()) * np.sqrt(len(rows))
    error = np.abs(moments.scatter - np.cov(rows.T, ddof=0) * len(rows))
    assert (error <= 1e-8 * np.outer(spread, spread)).all()
    assert_array_equal(moments.lowest, rows.min(axis=0))
    assert_array_equal(moments.highest, rows.max(axis=0))


def test_sparse_rows(rng):
    rows = rng.poisson(0.3, size=(9000, 4)).astype(float)
    dense, found = Moments.of(rows), Moments.of(sparse.csr_array(rows))
    for name, value in vars(dense).items():
        assert_allclose(getattr(found, name), value, rtol=1e-12, atol=1e-9)


def fitted_pair(name, rows, n_components):
    """A recipe fitted to the rows, and to the moments of three parts."""
    seen = RootHistogram().fit_transform(rows) if name == "histogram" else rows
    expected = RECIPES[name](n_components).fit(rows)
    return expected, fit_recipe(name, n_components, in_parts(seen, [7, 13]))


@pytest.mark.parametrize("n_components", [3, 50])
@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_those_of_the_rows(name, kind, n_components, rng):
    rows = kind(rng)
    rows = np.abs(rows) if name == "histogram" else rows
    expected, found = fitted_pair(name, rows, n_components)
    assert found[-2].n_components_ == expected[-2].n_components_
    new = kind(rng)[:5]
    new = np.abs(new) if name == "histogram" else new
    # A mean of 1e6 is itself rounded by 1e-10.
    tolerance = 1e-9 if kind is far_from_zero else 1e-10
    for part in (rows, new, sparse.csr_array(new)):
        assert_allclose(found.transform(part), expected.transform(part), atol=tolerance)


@pytest.mark.parametrize("name", RECIPES)
def test_fitted_attributes(name, rng):
    """All that scikit-learn's fit leaves behind, so that reports and model files find it."""
    expected, found = fitted_pair(name, np.abs(with_constants(rng)), 3)
    check_is_fitted(found)
    for (_, step), (_, other) in zip(found.steps, expected.steps, strict=True):
        assert str(clone(step)) == str(clone(other))
        for attribute in (name for name in vars(other) if name.endswith("_") and name != "pca_"):
            value = getattr(other, attribute)
            assert_allclose(getattr(step, attribute), value, rtol=1e-9, atol=1e-12)
    pca, other = found[-2].pca_, expected[-2].pca_
    for attribute in (name for name in vars(other) if name.endswith("_")):
        assert_allclose(getattr(pca, attribute), getattr(other, attribute), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", RECIPES)
def test_rows_that_do_not_differ_are_refused(name):
    rows = np.tile([[0.1, 0.3, 0.7]], (7, 1))
    with pytest.raises(ValueError, match=r"every column is constant|all rows are equal"):
        fit_recipe(name, 5, in_parts(rows, [3]))
    with pytest.raises(ValueError, match=r"every column is constant|at least 2 rows"):
        fit_recipe(name, 5, Moments.of(rows[:1]))


def test_too_many_columns_are_refused_before_their_products_are_computed():
    rows = np.broadcast_to(0.0, (2, MOST_COLUMNS + 1))
    with pytest.raises(MemoryError, match=rf"view 'a': {MOST_COLUMNS + 1} columns, .* 0\.2 GiB"):
        Moments.of(rows, "view 'a'")


@pytest.mark.parametrize("make", ROWS)
@pytest.mark.parametrize("with_mean", [True, False])
@pytest.mark.parametrize("with_std", [True, False])
def test_every_scaler_is_the_one_of_the_rows(make, with_mean, with_std):
    rows = make(np.random.default_rng(0))
    steps = [StandardScaler(with_mean=with_mean, with_std=with_std), LeadingComponents(2)]
    expected = make_pipeline(*map(clone, steps)).fit(rows)
    fit_steps(steps, in_parts(rows, [4, 11]))
    found = steps[1].transform(steps[0].transform(rows))
    largest = np.abs(found).max()
    assert_allclose(np.abs(found), np.abs(expected.transform(rows)), atol=1e-8 * largest)
    again = StandardScaler(with_mean=with_mean, with_std=with_std).fit(rows)
    for name in ("mean_", "var_", "scale_"):
        value = getattr(again, name)
        if value is None:
            assert getattr(steps[0], name) is None
        else:
            assert_allclose(getattr(steps[0], name), value, rtol=1e-9, atol=1e-20)


def test_what_moments_are_enough_for():
    moments_are_enough = [
        [],
        [StandardScaler()],
        [DropConstantColumns(), StandardScaler(), LeadingComponents(), Normalizer()],
        [Normalizer()],
    ]
    for steps in moments_are_enough:
        assert count_fitted_by_moments(steps) == len(steps)
    assert count_fitted_by_moments([Normalizer(), StandardScaler()]) == 1
    assert count_fitted_by_moments([LeadingComponents(), StandardScaler()]) == 1
    assert count_fitted_by_moments([MinMaxScaler(), StandardScaler()]) == 0
