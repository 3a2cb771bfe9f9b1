"""Statistics by fold are what their definitions say, and those of chunks combine to the whole."""

import gc
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from naim3l.problem import sufficient_statistics
from naim3l.problem.sufficient_statistics import (
    LabelCounts,
    RowStatistics,
    split_factors,
    triangular,
)

N_FOLDS = 3


def draw(seed, n=50, d=4, c=5, known=0.6):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((n, c)) < 0.25, 1, -1) * (rng.random((n, c)) < known)
    folds = np.where(Y != 0, rng.integers(0, N_FOLDS, Y.shape), -1)
    return rng.normal(size=(n, d)), Y.astype(np.int8), folds.astype(np.int8)


def statistics(X, Y, folds, **options):
    return RowStatistics.of(X, Y, folds, n_folds=N_FOLDS, free=True, **options)


def assert_same(one, other):
    for name in vars(one).keys() - {"factors"}:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10)
    for R, S in zip(*(split_factors(of.factors, of.heights) for of in (one, other)), strict=True):
        np.testing.assert_allclose(R.T @ R, S.T @ S, atol=1e-10)


def test_statistics_of_each_fold_are_what_they_say():
    X, Y, folds = draw(0)
    stats = statistics(X, Y, folds)
    np.testing.assert_allclose(stats.gram, X.T @ X)
    factors = iter(split_factors(stats.factors, stats.heights))
    for f in range(N_FOLDS):
        for k in range(Y.shape[1]):
            here, yes = folds[:, k] == f, (folds[:, k] == f) & (Y[:, k] > 0)
            np.testing.assert_allclose(stats.known_grams[f, k], X[here].T @ X[here], atol=1e-12)
            np.testing.assert_allclose(stats.targets[f, :, k], X[here].T @ Y[here, k], atol=1e-12)
            np.testing.assert_allclose(stats.positive_sums[f, :, k], X[yes].sum(0), atol=1e-12)
            R = next(factors)
            np.testing.assert_allclose(R.T @ R, X[yes].T @ X[yes], atol=1e-12)
            assert len(R) == min(yes.sum(), X.shape[1])
            assert stats.n_known[f, k] == here.sum()
            assert stats.n_positives[f, k] == yes.sum()


@pytest.mark.parametrize("known", [0.05, 0.3, 0.9])
def test_free_rows_have_the_label_unknown_and_no_observed_positive(known):
    X, Y, folds = draw(1, n=200, known=known)
    stats = statistics(X, Y, folds)
    for fold in range(-1, N_FOLDS):
        left = Y if fold < 0 else np.where(folds == fold, 0, Y)
        for k in range(Y.shape[1]):
            free = (left[:, k] == 0) & ~(left > 0).any(axis=1)
            gram = stats.free_grams[1 + fold, k]
            np.testing.assert_allclose(gram, X[free].T @ X[free], atol=1e-11)
            assert stats.n_free[1 + fold, k] == free.sum()


def test_without_folds_there_is_one():
    X, Y, _ = draw(2)
    stats = RowStatistics.of(X, Y, free=True)
    by_fold = statistics(X, Y, np.where(Y != 0, 0, -1))
    for name in ("known_grams", "targets", "positive_sums", "free_grams"):
        np.testing.assert_allclose(getattr(stats, name)[0], getattr(by_fold, name)[0])
    assert stats.free_grams.shape[0] == len(stats.known_grams) == 1
    assert RowStatistics.of(X, Y).view().free_grams is None


@settings(max_examples=30)
@given(st.integers(0, 100), st.lists(st.integers(0, 50), max_size=5), st.randoms())
def test_chunks_of_every_split_combine_to_the_whole_in_any_order(seed, cuts, random):
    X, Y, folds = draw(seed)
    edges = sorted([0, 50, *cuts])  # equal cuts make chunks without rows
    chunks = [statistics(X[a:b], Y[a:b], folds[a:b]) for a, b in pairwise(edges)]
    random.shuffle(chunks)
    assert_same(reduce(RowStatistics.combine, chunks), statistics(X, Y, folds))


@pytest.mark.parametrize("numbers", [1, 28, 10**6])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_blocks_of_any_size_and_sparse_rows(monkeypatch, numbers, share):
    X, Y, folds = draw(3)
    X[X < 0.5] = 0
    whole = statistics(X, Y, folds)
    monkeypatch.setattr(sufficient_statistics, "BLOCK_NUMBERS", numbers)
    monkeypatch.setattr(sufficient_statistics, "SPARSE_SHARE", share)
    assert_same(statistics(X, Y, folds), whole)
    assert_same(statistics(sparse.csr_array(X), Y, folds), whole)


def test_rows_of_threads_are_not_left_to_the_garbage_collector(rng):
    """Python can hang where it frees them while dask takes a profile."""
    X, Y = rng.normal(size=(40, 3)), rng.choice([-1, 0, 1], size=(40, 5))
    gc.collect()
    gc.disable()
    try:
        RowStatistics.of(X, Y, free=True)
        kinds = {type(found) for found in gc.get_objects()}  # isinstance would ask lazy modules
        assert sufficient_statistics._Gathering not in kinds
    finally:
        gc.enable()


def test_a_column_of_ones_is_appended():
    X, Y, folds = draw(4)
    ones = np.column_stack([X, np.ones(len(X))])
    assert_same(statistics(X, Y, folds, fit_intercept=True), statistics(ones, Y, folds))


def test_labels_known_in_the_same_rows_have_equal_matrices_to_the_bit():
    """Solvers factor equal matrices once."""
    X, Y, _ = draw(5, n=500, d=7)
    Y[:, 1] = -Y[:, 0]
    chunks = [RowStatistics.of(X[a : a + 100], Y[a : a + 100]) for a in range(0, 500, 100)]
    view = reduce(RowStatistics.combine, chunks).view()
    np.testing.assert_array_equal(view.known_grams[0], view.known_grams[1])


def test_a_column_that_is_zero_where_a_label_is_known_stays_zero():
    X, Y, folds = draw(6, n=400, known=0.9)
    X[Y[:, 0] != 0, 2] = 0
    X[:, 2] *= 1e6
    view = statistics(X, Y, folds).view(3.0)
    factors = split_factors(view.factors, view.heights)
    assert not view.known_grams[0, 2].any() and not factors[0][:, 2].any()
    assert view.targets[2, 0] == 0


@pytest.mark.parametrize("weight", [1.0, 0.2, 5.0])
@pytest.mark.parametrize("without", [None, 0, 2])
def test_the_view_of_all_entries_or_without_a_fold(weight, without):
    X, Y, folds = draw(7)
    view = statistics(X, Y, folds).view(weight, without=without)
    left = Y if without is None else np.where(folds == without, 0, Y)
    P = np.where(left > 0, weight, left != 0)
    np.testing.assert_allclose(view.gram, X.T @ X)
    np.testing.assert_allclose(view.targets, X.T @ (P * left), atol=1e-12)
    assert view.weight == pytest.approx(P.sum())
    assert view.n_positives == (left > 0).sum()
    total, factors = 0, split_factors(view.factors, view.heights)
    for k in range(Y.shape[1]):
        np.testing.assert_allclose(view.known_grams[k], X.T @ (P[:, k, None] * X), atol=1e-12)
        X_k = X[left[:, k] > 0]
        R = factors[k]
        np.testing.assert_allclose(R.T @ R, X_k.T @ X_k, atol=1e-12)
        assert len(R) == min(X_k.shape)
        total = total + X_k.T @ X_k
    np.testing.assert_allclose(view.positive_gram, total, atol=1e-12)


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_positives_of_kept_labels_stay_known(weight):
    X, Y, folds = draw(8)
    kept = np.arange(Y.shape[1]) == 1
    given_back = np.where(kept & (Y > 0) & (folds == 0), 1, folds)  # in a fold that stays
    view = statistics(X, Y, folds).view(weight, without=0, kept=kept)
    expected = statistics(X, Y, given_back).view(weight, without=0)
    for name in ("known_grams", "positive_gram", "targets", "weight", "n_positives"):
        np.testing.assert_allclose(getattr(view, name), getattr(expected, name), atol=1e-12)
    views = (view, expected)
    for R, S in zip(*(split_factors(of.factors, of.heights) for of in views), strict=True):
        np.testing.assert_allclose(R.T @ R, S.T @ S, atol=1e-12)


def test_arrays_make_the_same_statistics_to_the_bit():
    found = statistics(*draw(9))
    again = RowStatistics.from_arrays(found.to_arrays() | {"other": np.zeros(3)})
    assert vars(again).keys() == vars(found).keys() and isinstance(again.n_rows, int)
    for name, value in vars(found).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    one, two = (stats.view(2.0, without=1) for stats in (found, again))
    np.testing.assert_array_equal(one.known_grams, two.known_grams)


@pytest.mark.parametrize("n", [0, 3, 4, 5, 63, 64, 200, 2500])
def test_the_factor_of_tall_rows_has_their_gram(rng, n):
    A = rng.normal(size=(n, 4))
    R = triangular([A[: n // 3], A[n // 3 :]])
    np.testing.assert_allclose(R.T @ R, A.T @ A, atol=1e-10)
    assert len(R) == min(A.shape)


def test_counts_tell_whether_all_positives_of_a_label_are_in_one_fold():
    Y = np.array([[1, 1, -1], [1, 1, 0], [-1, 1, -1]])
    folds = np.array([[1, 0, 0], [1, 2, -1], [0, 0, 1]])
    counts = LabelCounts.of(Y, folds, n_folds=3)
    np.testing.assert_array_equal(counts.only, [[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(counts.n_positives, [[0, 2, 0], [2, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(counts.n_known, [[1, 2, 1], [2, 0, 1], [0, 1, 0]])
