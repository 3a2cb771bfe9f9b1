"""Feature recipes against their definitions, and other people's transformers per view."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from naim3l.features.encoding import make_transformer
from naim3l.features.recipes import (
    MAX_COMPONENTS,
    DropConstantColumns,
    LeadingComponents,
    RootHistogram,
)

nan = np.nan


@parametrize_with_checks(
    [
        DropConstantColumns(),
        DropConstantColumns(only_zero=True),
        RootHistogram(),
        LeadingComponents(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def unit_rows(T):
    return T / np.linalg.norm(T, axis=1, keepdims=True)


def principal_scores(train, new, n_components=MAX_COMPONENTS):
    """Rows of ``new`` along the leading directions of ``train``, from NumPy's SVD."""
    mean = train.mean(axis=0)
    _, s, Vt = np.linalg.svd(train - mean, full_matrices=False)
    rank = int(np.sum(s > 1e-9 * s[0]))
    return (new - mean) @ Vt[: min(rank, n_components)].T


def assert_same_up_to_signs(actual, expected, **tolerance):
    assert actual.shape == expected.shape
    signs = np.sign((actual * expected).sum(axis=0))
    assert_allclose(actual * signs, expected, **tolerance)


def scale_by_hand(train, new):
    varying = np.ptp(train, axis=0) > 0
    std = train[:, varying].std(axis=0)
    return unit_rows(principal_scores(train[:, varying] / std, new[:, varying] / std))


def paper_by_hand(train, new):
    kept = (train != 0).any(axis=0)
    return unit_rows(principal_scores(train[:, kept], new[:, kept]))


def histogram_by_hand(train, new):
    train, new = (np.sqrt(X / X.sum(axis=1, keepdims=True)) for X in (train, new))
    return unit_rows(principal_scores(train, new))


BY_HAND = {"scale": scale_by_hand, "paper": paper_by_hand, "histogram": histogram_by_hand}


def counts(rng, n_rows=30, n_columns=8):
    """Whole numbers, some zero; the first column is constant, the second all zero."""
    X = rng.poisson(2.0, size=(n_rows, n_columns)).astype(float)
    X[:, 0], X[:, 1] = 3, 0
    return X


@pytest.mark.parametrize("recipe", BY_HAND)
class TestRecipes:
    @pytest.mark.parametrize("shape", [(30, 8), (6, 20), (90, 70)], ids=str)
    def test_by_hand(self, recipe, shape, rng):
        train, new = counts(rng, *shape), counts(rng, 12, shape[1])
        transformer = make_transformer(recipe, "a").fit(train)
        for rows in (train, new):
            T = transformer.transform(rows)
            assert_same_up_to_signs(T, BY_HAND[recipe](train, rows), atol=1e-9)
            assert_allclose(np.linalg.norm(T, axis=1), 1)
        assert T.shape[1] <= min(MAX_COMPONENTS, shape[0] - 1, shape[1])

    def test_sparse_equals_dense(self, recipe, rng):
        train, new = counts(rng), counts(rng, 12)
        dense = make_transformer(recipe, "a").fit(train).transform(new)
        for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array):
            transformer = make_transformer(recipe, "a").fit(kind(train))
            assert_same_up_to_signs(transformer.transform(kind(new)), dense, atol=1e-10)
            assert_same_up_to_signs(transformer.transform(new), dense, atol=1e-10)

    def test_names_in_pandas(self, recipe, rng):
        frame = pd.DataFrame(counts(rng), columns=list("abcdefgh"))
        transformer = make_transformer(recipe, "a").set_output(transform="pandas")
        T = transformer.fit_transform(frame)
        assert T.columns.tolist() == [f"pca{j}" for j in range(T.shape[1])]
        again = make_transformer(recipe, "a").fit_transform(frame.to_numpy())
        assert_allclose(T, again, rtol=1e-9, atol=1e-12)

    def test_deterministic(self, recipe, rng):
        X = counts(rng, 20, 1200)
        first, second = (make_transformer(recipe, "a").fit_transform(X) for _ in range(2))
        assert_array_equal(first, second)

    def test_rows_that_do_not_differ_are_refused(self, recipe):
        X = np.tile([[0.1, 0.3, 0.7]], (7, 1))
        with pytest.raises(ValueError, match=r"every column is constant|all rows are equal"):
            make_transformer(recipe, "a").fit(X)


class TestColumnsAndHistograms:
    def test_which_columns_are_dropped(self):
        X = np.array([[5.0, 0, 1, 0], [5, 0, 2, 0], [5, 0, 1, -1]])
        for container in (np.array, sparse.csr_array):
            constant = DropConstantColumns().fit(container(X))
            assert constant.get_support().tolist() == [False, False, True, True]
            zero = DropConstantColumns(only_zero=True).fit(container(X))
            assert zero.get_support().tolist() == [True, False, True, True]
        assert_array_equal(constant.get_feature_names_out(list("abcd")), ["c", "d"])
        with pytest.raises(ValueError, match="every column is zero in all rows"):
            zero.fit(np.zeros((3, 2)))

    def test_distances_are_hellinger_s(self, rng):
        P, Q = rng.dirichlet(np.ones(6), size=2)
        T = RootHistogram().fit_transform(np.array([10 * P, 3 * Q]))
        assert_allclose(np.sum((T[0] - T[1]) ** 2), 2 - 2 * np.sum(np.sqrt(P * Q)))
        assert_array_equal(RootHistogram().fit_transform(np.zeros((1, 3))), np.zeros((1, 3)))

    def test_negative_counts_are_refused(self):
        X = np.array([[1.0, 2], [3, 4]])
        for container in (np.array, sparse.csr_array):
            fitted = RootHistogram().fit(container(X))
            with pytest.raises(ValueError, match=r"Negative values in data: .*-4 occurs"):
                fitted.transform(container(-X))


class TestLeadingComponents:
    @settings(deadline=None, max_examples=40)
    @given(
        shape=st.tuples(st.integers(2, 25), st.integers(1, 25)),
        rank=st.integers(1, 12),
        most=st.integers(1, 8),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_spans_what_numpy_finds_and_no_more(self, shape, rank, most, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
        pca = LeadingComponents(most).fit(X)
        centred = X - X.mean(axis=0)
        s = np.linalg.svd(centred, compute_uv=False)
        assert pca.n_components_ == min(most, np.sum(s > 1e-7 * s[0]))
        T = pca.transform(X)
        assert_allclose(np.linalg.norm(T, axis=0), s[: T.shape[1]], rtol=1e-6, atol=1e-9 * s[0])

    @pytest.mark.parametrize("container", [np.array, sparse.csr_array])
    @pytest.mark.parametrize("shape", [(60, 1010), (20, 1010), (60, 15)], ids=str)
    def test_exact_on_wide_and_narrow_tables(self, shape, container, rng):
        X = rng.normal(size=shape) * np.linspace(3, 1, shape[0])[:, None]
        T = LeadingComponents().fit_transform(container(X))
        assert_same_up_to_signs(T, principal_scores(X, X)[:, : T.shape[1]], atol=1e-9)
        assert T.shape[1] == min(MAX_COMPONENTS, shape[0] - 1, shape[1])

    def test_large_means_cost_no_digits(self, rng):
        X = rng.normal(size=(30, 5))
        shifted = LeadingComponents().fit_transform(X + np.array([0, 1e9, 0, -1e8, 1]))
        assert_same_up_to_signs(shifted, principal_scores(X, X), atol=1e-5)

    def test_signs_do_not_depend_on_the_order_of_the_rows(self, rng):
        """Both entries of a direction of two scaled columns have the same size."""
        X = rng.normal(size=(40, 2)) @ [[1, 0.5], [0, 1]]
        X /= X.std(axis=0)
        for _ in range(10):
            components = LeadingComponents().fit(rng.permutation(X)).pca_.components_
            assert_allclose(components, np.array([[1, 1], [1, -1]]) / np.sqrt(2), rtol=1e-9)

    @pytest.mark.parametrize("most", [0, -1, 2.5, True, "all"])
    def test_number_of_components(self, most):
        with pytest.raises(ValueError, match=f"max_components must be .* got {most!r}"):
            LeadingComponents(most).fit(np.eye(3))

    def test_before_fit(self):
        with pytest.raises(NotFittedError):
            LeadingComponents().get_feature_names_out()
