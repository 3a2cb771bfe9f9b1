"""Recipes against scikit-learn's pipelines; moments of chunks against the rows themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from naim3l.features.recipes import (
    MAX_COMPONENTS,
    MOST_COLUMNS,
    RECIPES,
    FittedRecipe,
    Moments,
    Recipe,
)


def counts(rng, n_rows=30, n_columns=8):
    """Whole numbers, some zero; the first column is constant, the second all zero."""
    X = rng.poisson(2.0, size=(n_rows, n_columns)).astype(float)
    X[:, 0], X[:, 1] = 3, 0
    return X


def of_scikit_learn(steps, n_components):
    """The pipeline of which a recipe is a copy in arrays."""
    before = {
        "scale": [VarianceThreshold(), StandardScaler(with_mean=False)],
        "paper": [],
        "histogram": [Normalizer("l1"), FunctionTransformer(np.sqrt)],
    }[steps]
    return make_pipeline(*before, PCA(n_components), Normalizer())


def assert_same_up_to_signs(actual, expected, **tolerance):
    assert actual.shape == expected.shape
    signs = np.sign((actual * expected).sum(axis=0))
    assert_allclose(actual * signs, expected, **tolerance)


@pytest.mark.parametrize("steps", RECIPES)
class TestRecipes:
    @pytest.mark.parametrize("shape", [(30, 8), (6, 20), (90, 70)], ids=str)
    def test_equals_scikit_learn_s_pipeline(self, steps, shape, rng):
        train, new = counts(rng, *shape), counts(rng, 12, shape[1])
        fitted, features = Recipe(steps).fit(train)
        pipeline = of_scikit_learn(steps, fitted.n_features).fit(train)
        for rows in (train, new):
            found = fitted.apply(rows)
            assert_same_up_to_signs(found, pipeline.transform(rows), atol=1e-9)
            assert_allclose(np.linalg.norm(found, axis=1), 1)
        assert_allclose(features, fitted.apply(train), atol=1e-12)
        pca = pipeline[-2]
        assert_allclose(fitted.variances, pca.explained_variance_ * (1 - 1 / shape[0]), rtol=1e-9)
        rank = np.linalg.matrix_rank(fitted.before_axes(train) - fitted.before_axes(train).mean(0))
        assert fitted.n_features == min(MAX_COMPONENTS, rank)

    def test_sparse_equals_dense(self, steps, rng):
        train, new = counts(rng), counts(rng, 12)
        dense = Recipe(steps).fit(train)[0].apply(new)
        fitted, _ = Recipe(steps).fit(sparse.csr_array(train))
        for rows in (new, sparse.csr_array(new), sparse.csc_array(new)):
            assert_same_up_to_signs(fitted.apply(rows), dense, atol=1e-10)

    def test_no_more_components_than_asked_for(self, steps, rng):
        assert Recipe(steps, n_components=2).fit(counts(rng))[0].n_features == 2

    def test_all_components(self, steps, rng):
        """As many as the rank of the centred rows, as scikit-learn's PCA of these."""
        train, new = counts(rng, 80, 60), counts(rng, 12, 60)
        fitted, _ = Recipe(steps, n_components=None).fit(train)
        assert fitted.n_features > MAX_COMPONENTS
        pipeline = of_scikit_learn(steps, fitted.n_features).fit(train)
        assert_same_up_to_signs(fitted.apply(new), pipeline.transform(new), atol=1e-8)
        rows = fitted.before_axes(train)
        assert fitted.n_features == np.linalg.matrix_rank(rows - rows.mean(0))

    def test_rows_that_do_not_differ_are_refused(self, steps):
        X = np.tile([[0.1, 0.3, 0.7]], (7, 1))
        for fit in (Recipe(steps).fit, lambda X: Recipe(steps)._fit_moments(in_parts(X, [3]))):
            with pytest.raises(ValueError, match=r"every column is constant|all rows are equal"):
                fit(X)
            with pytest.raises(ValueError, match=r"every column is constant|at least 2 rows"):
                fit(X[:1])

    def test_same_bits_twice(self, steps, rng):
        X = counts(rng, 20, 1200)
        assert_array_equal(*(Recipe(steps).fit(X)[0].axes for _ in range(2)))


class TestSteps:
    def test_which_columns_are_dropped(self):
        X = np.array([[5.0, 0, 1, 0], [5, 0, 2, 0], [5, 0, 1, -1]])
        for container in (np.array, sparse.csr_array):
            assert Recipe("scale").fit(container(X))[0].kept.tolist() == [False, False, True, True]
            assert Recipe("paper").fit(container(X))[0].kept.tolist() == [True, False, True, True]
        with pytest.raises(ValueError, match="every column is zero in all rows"):
            Recipe("paper").fit(np.zeros((3, 2)))

    def test_distances_of_histograms_are_hellinger_s(self, rng):
        P, Q = rng.dirichlet(np.ones(6), size=2)
        fitted, _ = Recipe("histogram").fit(np.array([10 * P, 3 * Q]))
        T = fitted.before_axes(np.array([10 * P, 3 * Q]))
        assert_allclose(np.sum((T[0] - T[1]) ** 2), 2 - 2 * np.sum(np.sqrt(P * Q)))
        assert_array_equal(fitted.before_axes(np.zeros((1, 6))), np.zeros((1, 6)))

    @settings(max_examples=40)
    @given(
        shape=st.tuples(st.integers(2, 25), st.integers(1, 25)),
        rank=st.integers(1, 12),
        most=st.integers(1, 8),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_axes_span_what_numpy_finds_and_no_more(self, shape, rank, most, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
        fitted, _ = Recipe("paper", most).fit(X)
        s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
        assert fitted.n_features == min(most, np.sum(s > 1e-7 * s[0]))
        T = fitted.components(X)
        assert_allclose(np.linalg.norm(T, axis=0), s[: T.shape[1]], rtol=1e-6, atol=1e-9 * s[0])

    def test_large_means_cost_no_digits(self, rng):
        X = rng.normal(size=(30, 5))
        plain = Recipe("paper").fit(X)[0].components(X)
        far = X + np.array([0, 1e9, 0, -1e8, 1])
        assert_same_up_to_signs(Recipe("paper").fit(far)[0].components(far), plain, atol=1e-5)

    def test_signs_do_not_depend_on_the_order_of_the_rows(self, rng):
        """Both entries of an axis of two scaled columns have the same size."""
        X = rng.normal(size=(40, 2)) @ [[1, 0.5], [0, 1]]
        for _ in range(10):
            axes = Recipe().fit(rng.permutation(X))[0].axes
            assert_allclose(axes, np.array([[1, 1], [1, -1]]) / np.sqrt(2), rtol=1e-9)


def in_parts(rows, cuts):
    """Moments of the chunks between the cuts, combined."""
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


class TestMoments:
    @settings(max_examples=40)
    @given(
        cuts=st.lists(st.integers(0, 60), max_size=6).map(sorted),
        kind=st.sampled_from(ROWS),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_chunks_add_up_to_the_whole(self, cuts, kind, seed):
        rows = kind(np.random.default_rng(seed))
        moments = in_parts(rows, cuts)
        assert moments.n_rows == len(rows)
        largest = np.abs(rows).max()
        assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-13 * largest)
        spread = (rows.std(axis=0) + 1e-9 * largest) * np.sqrt(len(rows))
        error = np.abs(moments.scatter - np.cov(rows.T, ddof=0) * len(rows))
        assert (error <= 1e-8 * np.outer(spread, spread)).all()
        assert_array_equal(moments.lowest, rows.min(axis=0))
        assert_array_equal(moments.highest, rows.max(axis=0))

    def test_sparse_rows(self, rng):
        rows = rng.poisson(0.3, size=(9000, 4)).astype(float)
        dense, found = Moments.of(rows), Moments.of(sparse.csr_array(rows))
        for name, value in vars(dense).items():
            assert_allclose(getattr(found, name), value, rtol=1e-12, atol=1e-9)

    @pytest.mark.parametrize("n_components", [3, 50])
    @pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
    @pytest.mark.parametrize("steps", RECIPES)
    def test_recipes_are_those_of_the_rows(self, steps, kind, n_components, rng):
        rows, new = kind(rng), kind(rng)[:5]
        if steps == "histogram":
            rows, new = np.abs(rows), np.abs(new)
        recipe = Recipe(steps, n_components)
        expected, _ = recipe.fit(rows)
        found = recipe._fit_moments(in_parts(recipe._before_moments(rows), [7, 13]))
        # A mean of 1e6 is itself rounded by 1e-10.
        tolerance = 1e-9 if kind is far_from_zero else 1e-10
        for part in (rows, new, sparse.csr_array(new)):
            assert_allclose(found.apply(part), expected.apply(part), atol=tolerance)
        assert_array_equal(found.kept, expected.kept)
        for name in ("scale", "deviation", "variances"):
            one, two = getattr(found, name), getattr(expected, name)
            assert (one is None) == (two is None)
            if one is not None:
                assert_allclose(one, two, rtol=1e-9, atol=1e-12)
        assert found.n_rows == expected.n_rows and isinstance(found, FittedRecipe)

    def test_too_many_columns_are_refused_before_their_products_are_computed(self):
        rows = np.broadcast_to(0.0, (2, MOST_COLUMNS + 1))
        with pytest.raises(
            MemoryError, match=rf"view 'a': {MOST_COLUMNS + 1} columns, .* 0\.2 GiB"
        ):
            Moments.of(rows, "view 'a'")
