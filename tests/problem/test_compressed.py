"""Statistics of parts combine to the whole, and stand for the rows in every product."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from naim3l.problem.compressed import CompressedProblem, ViewStatistics, combine_all
from naim3l.problem.rows import Problem


def draw(seed, n=50, d=4, c=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.choice([-1, 0, 1], size=(n, c))


def assert_same(one, other):
    for name in ("gram", "known_grams", "positive_gram", "targets", "weight", "n_positives"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10)
    for R, S in zip(one.factors, other.factors, strict=True):
        np.testing.assert_allclose(R.T @ R, S.T @ S, atol=1e-10)
        assert len(R) == len(S)


def test_statistics_are_what_they_say():
    X, Y = draw(0)
    stats = ViewStatistics.from_rows(X, Y)
    np.testing.assert_allclose(stats.gram, X.T @ X)
    np.testing.assert_allclose(stats.targets, X.T @ Y)
    for k, y in enumerate(Y.T):
        known, X_k = X[y != 0], X[y > 0]
        np.testing.assert_allclose(stats.known_grams[k], known.T @ known)
        np.testing.assert_allclose(stats.factors[k].T @ stats.factors[k], X_k.T @ X_k)
        assert len(stats.factors[k]) == min(X_k.shape)
    total = sum(X[y > 0].T @ X[y > 0] for y in Y.T)
    np.testing.assert_allclose(stats.positive_gram, total)
    assert (stats.weight, stats.n_positives) == (np.count_nonzero(Y), np.count_nonzero(Y > 0))


@settings(max_examples=40)
@given(st.integers(0, 100), st.lists(st.integers(0, 50), max_size=5))
def test_parts_of_every_split_combine_to_the_whole(seed, cuts):
    X, Y = draw(seed)
    edges = sorted({0, 50, *cuts})
    parts = [ViewStatistics.from_rows(X[a:b], Y[a:b]) for a, b in pairwise(edges)]
    assert_same(combine_all(parts), ViewStatistics.from_rows(X, Y))


def test_pass_in_small_steps_and_of_sparse_rows(monkeypatch):
    X, Y = draw(1)
    whole = ViewStatistics.from_rows(X, Y)
    assert_same(ViewStatistics.from_rows(sparse.csr_array(X), Y), whole)
    monkeypatch.setattr("naim3l.problem.compressed.PAIR_NUMBERS", 70)  # 7 rows at a time
    assert_same(ViewStatistics.from_rows(X, Y), whole)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_products_equal_those_of_the_rows(make_problem, rng, fit_intercept):
    features, labels, _ = make_problem(seed=3, n_rows=(60, 9), n_features=(4, 7))
    problem = Problem(features, labels, fit_intercept=fit_intercept)
    compressed = CompressedProblem.from_problem(problem, chunk_rows=25)
    W, V = rng.normal(size=(2, problem.n_weights, problem.n_labels))
    np.testing.assert_array_equal(compressed.penalised, problem.penalised)
    np.testing.assert_allclose(compressed.targets, problem.targets, atol=1e-12)
    np.testing.assert_allclose(compressed.multiply_gram(W), problem.multiply_gram(W))
    np.testing.assert_allclose(
        compressed.multiply_positive_gram(W), problem.multiply_positive_gram(W)
    )
    assert compressed.n_observed_positives == problem.n_observed_positives
    (loss, gradient), (loss_c, gradient_c) = (p.loss_and_gradient(W) for p in (problem, compressed))
    assert loss_c == pytest.approx(loss) and compressed.loss(W) == loss_c
    np.testing.assert_allclose(gradient_c, gradient, atol=1e-11)
    assert compressed.n_positives < problem.n_positives
    # Factors are rows up to a rotation: inner products of blocks are what must agree.
    blocks = [(p.label_scores(W), p.label_scores(V), p) for p in (problem, compressed)]
    for k in range(problem.n_labels):
        inner = [A[p.label_slices[k]].T @ B[p.label_slices[k]] for A, B, p in blocks]
        np.testing.assert_allclose(*inner, atol=1e-11)
    both = [p.label_scores_transposed(A) for A, _, p in blocks]
    np.testing.assert_allclose(*both, atol=1e-11)


def test_a_perfect_fit_has_no_negative_loss():
    X = np.eye(3)
    stats = ViewStatistics.from_rows(X, np.array([[1], [-1], [1]]))
    compressed = CompressedProblem([stats], fit_intercept=False)
    assert compressed.loss(np.array([[1.0], [-1.0], [1.0]])) == 0
