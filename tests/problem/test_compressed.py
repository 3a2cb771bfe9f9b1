"""Statistics stand for the rows in every product."""

import numpy as np
import pytest

from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.row_sums import PartStatistics
from naim3l.problem.rows import Problem


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


def test_stacks_of_blocks_are_parts_of_the_array(make_problem, rng):
    *_, problem = make_problem(seed=5, n_rows=(90, 40), n_features=(6, 5), n_labels=14)
    compressed = CompressedProblem.from_problem(problem)
    scores = compressed.label_scores(rng.normal(size=(problem.n_weights, 14)))
    seen = []

    def double(group, stack):
        assert np.shares_memory(stack, scores)
        labels = compressed.label_groups[group]
        for k, block in zip(labels, stack, strict=True):
            rows = compressed.label_slices[k]
            size = rows.stop - rows.start
            np.testing.assert_array_equal(block[:size], scores[rows])
            assert (block[size:] == 0).all()
        seen.extend(labels)

    compressed.change_labels(double, [scores], [])
    filled = [k for k, rows in enumerate(compressed.label_slices) if rows.stop > rows.start]
    assert sorted(seen) == filled
    used = np.concatenate([np.arange(14_000)[rows] for rows in compressed.label_slices])
    assert len(np.unique(used)) == len(used) and used.max() < compressed.n_positives


def test_roots_give_the_products_of_the_rows(make_problem, rng):
    *_, problem = make_problem(n_features=(3, 2), n_labels=9)
    compressed = CompressedProblem.from_problem(problem)
    W = rng.normal(size=(problem.n_weights, 9))
    R = compressed.gram_roots
    RRW = compressed.multiply_blocks(R, compressed.multiply_blocks([root.T for root in R], W))
    np.testing.assert_allclose(RRW, problem.multiply_gram(W), atol=1e-10)
    few = CompressedProblem.from_problem(make_problem(n_features=(8, 7), n_labels=9)[-1])
    assert few.gram_roots is None


def test_a_perfect_fit_has_no_negative_loss():
    X = np.eye(3)
    stats = PartStatistics.of(X, np.array([[1], [-1], [1]])).view()
    compressed = CompressedProblem([stats], fit_intercept=False)
    assert compressed.loss(np.array([[1.0], [-1.0], [1.0]])) == 0
