"""Statistics by fold are what their definitions say, and those of parts combine to the whole."""

import gc
from functools import reduce
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from naim3l.problem import row_sums
from naim3l.problem.row_sums import LabelCounts, PartStatistics, triangular

N_FOLDS = 3
ARRAYS = ("n_rows", "gram", "known_grams", "targets", "positive_sums", "free_grams", "n_free")


def draw(seed, n=50, d=4, c=5, known=0.6):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((n, c)) < 0.25, 1, -1) * (rng.random((n, c)) < known)
    folds = np.where(Y != 0, rng.integers(0, N_FOLDS, Y.shape), -1)
    return rng.normal(size=(n, d)), Y.astype(np.int8), folds.astype(np.int8)


def statistics(X, Y, folds, **options):
    return PartStatistics.of(X, Y, folds, n_folds=N_FOLDS, free=True, **options)


def assert_same(one, other):
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10)
    np.testing.assert_array_equal(one.counts.known, other.counts.known)
    np.testing.assert_array_equal(one.counts.positives, other.counts.positives)
    for R, S in zip(chain(*one.factors), chain(*other.factors), strict=True):
        np.testing.assert_allclose(R.T @ R, S.T @ S, atol=1e-10)
        assert len(R) == len(S)


def test_statistics_of_each_fold_are_what_they_say():
    X, Y, folds = draw(0)
    stats = statistics(X, Y, folds)
    np.testing.assert_allclose(stats.gram, X.T @ X)
    for f in range(N_FOLDS):
        for k in range(Y.shape[1]):
            here, yes = folds[:, k] == f, (folds[:, k] == f) & (Y[:, k] > 0)
            np.testing.assert_allclose(stats.known_grams[f, k], X[here].T @ X[here], atol=1e-12)
            np.testing.assert_allclose(stats.targets[f, :, k], X[here].T @ Y[here, k], atol=1e-12)
            np.testing.assert_allclose(stats.positive_sums[f, :, k], X[yes].sum(0), atol=1e-12)
            R = stats.factors[f][k]
            np.testing.assert_allclose(R.T @ R, X[yes].T @ X[yes], atol=1e-12)
            assert len(R) == min(yes.sum(), X.shape[1])
            assert stats.counts.known[f, k] == here.sum()
            assert stats.counts.positives[f, k] == yes.sum()


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
    stats = PartStatistics.of(X, Y, free=True)
    by_fold = statistics(X, Y, np.where(Y != 0, 0, -1))
    for name in ("known_grams", "targets", "positive_sums", "free_grams"):
        np.testing.assert_allclose(getattr(stats, name)[0], getattr(by_fold, name)[0])
    assert stats.free_grams.shape[0] == len(stats.known_grams) == 1
    assert PartStatistics.of(X, Y).view().free_grams is None


@settings(max_examples=30)
@given(st.integers(0, 100), st.lists(st.integers(0, 50), max_size=5), st.randoms())
def test_parts_of_every_split_combine_to_the_whole_in_any_order(seed, cuts, random):
    X, Y, folds = draw(seed)
    edges = sorted([0, 50, *cuts])  # equal cuts make parts without rows
    parts = [statistics(X[a:b], Y[a:b], folds[a:b]) for a, b in pairwise(edges)]
    random.shuffle(parts)
    assert_same(reduce(PartStatistics.combine, parts), statistics(X, Y, folds))


@pytest.mark.parametrize("numbers", [1, 28, 10**6])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_blocks_of_any_size_and_sparse_rows(monkeypatch, numbers, share):
    X, Y, folds = draw(3)
    X[X < 0.5] = 0
    whole = statistics(X, Y, folds)
    monkeypatch.setattr(row_sums, "BLOCK_NUMBERS", numbers)
    monkeypatch.setattr(row_sums, "SPARSE_SHARE", share)
    assert_same(statistics(X, Y, folds), whole)
    assert_same(statistics(sparse.csr_array(X), Y, folds), whole)


def test_rows_of_threads_are_not_left_to_the_garbage_collector(rng):
    """Python can hang where it frees them while dask takes a profile."""
    X, Y = rng.normal(size=(40, 3)), rng.choice([-1, 0, 1], size=(40, 5))
    gc.collect()
    gc.disable()
    try:
        PartStatistics.of(X, Y, free=True)
        assert not any(isinstance(found, row_sums._Gathering) for found in gc.get_objects())
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
    parts = [PartStatistics.of(X[a : a + 100], Y[a : a + 100]) for a in range(0, 500, 100)]
    view = reduce(PartStatistics.combine, parts).view()
    np.testing.assert_array_equal(view.known_grams[0], view.known_grams[1])


def test_a_column_that_is_zero_where_a_label_is_known_stays_zero():
    X, Y, folds = draw(6, n=400, known=0.9)
    X[Y[:, 0] != 0, 2] = 0
    X[:, 2] *= 1e6
    view = statistics(X, Y, folds).view(3.0)
    assert not view.known_grams[0, 2].any() and not view.factors[0][:, 2].any()
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
    total = 0
    for k in range(Y.shape[1]):
        np.testing.assert_allclose(view.known_grams[k], X.T @ (P[:, k, None] * X), atol=1e-12)
        X_k = X[left[:, k] > 0]
        np.testing.assert_allclose(view.factors[k].T @ view.factors[k], X_k.T @ X_k, atol=1e-12)
        assert len(view.factors[k]) == min(X_k.shape)
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
    for R, S in zip(view.factors, expected.factors, strict=True):
        np.testing.assert_allclose(R.T @ R, S.T @ S, atol=1e-12)


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
    np.testing.assert_array_equal(counts.positives, [[0, 2, 0], [2, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(counts.known, [[1, 2, 1], [2, 0, 1], [0, 1, 0]])
