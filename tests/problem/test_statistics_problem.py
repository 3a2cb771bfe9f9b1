"""Statistics stand for the rows in every product."""

import numpy as np
import pytest

from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import RowStatistics


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_products_equal_those_of_the_rows(make_problem, rng, fit_intercept):
    features, labels, _ = make_problem(seed=3, n_rows=(60, 9), n_features=(4, 7))
    problem = Problem(features, labels, fit_intercept=fit_intercept, positive_weight=2.5)
    statistics = StatisticsProblem.of(problem, chunk_rows=25)
    W, V = rng.normal(size=(2, problem.n_weights, problem.n_labels))
    np.testing.assert_allclose(statistics.targets, problem.targets, atol=1e-12)
    np.testing.assert_allclose(statistics.multiply_gram(W), problem.multiply_gram(W))
    np.testing.assert_allclose(
        statistics.multiply_positive_gram(W), problem.multiply_positive_gram(W)
    )
    (loss, gradient), (loss_c, gradient_c) = (p.loss_and_gradient(W) for p in (problem, statistics))
    assert loss_c == pytest.approx(loss)
    np.testing.assert_allclose(gradient_c, gradient, atol=1e-11)
    assert statistics.n_block_rows < problem.n_block_rows
    # Factors are rows up to a rotation: inner products of blocks are what must agree.
    blocks = [(p.label_scores(W), p.label_scores(V), p) for p in (problem, statistics)]
    for k in range(problem.n_labels):
        inner = [A[p.label_slices[k]].T @ B[p.label_slices[k]] for A, B, p in blocks]
        np.testing.assert_allclose(*inner, atol=1e-11)
    both = [p.label_scores_transposed(A) for A, _, p in blocks]
    np.testing.assert_allclose(*both, atol=1e-11)


def test_roots_give_the_products_of_the_rows(make_problem, rng):
    *_, problem = make_problem(n_features=(3, 2), n_labels=9)
    statistics = StatisticsProblem.of(problem)
    W = rng.normal(size=(problem.n_weights, 9))
    R = statistics.gram_roots
    RRW = statistics.multiply_blocks(R, statistics.multiply_blocks([root.T for root in R], W))
    np.testing.assert_allclose(RRW, problem.multiply_gram(W), atol=1e-10)
    few = StatisticsProblem.of(make_problem(n_features=(8, 7), n_labels=9)[-1])
    assert few.gram_roots is None


def test_a_perfect_fit_has_no_negative_loss():
    X = np.eye(3)
    stats = RowStatistics.of(X, np.array([[1], [-1], [1]])).view()
    statistics = StatisticsProblem([stats], fit_intercept=False)
    assert statistics.loss_and_gradient(np.array([[1.0], [-1.0], [1.0]]))[0] == 0
