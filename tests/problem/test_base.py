"""What all forms of a problem have in common: penalties, weights of columns, blocks of labels."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracle
from naim3l._arrays import distinct, eigh
from naim3l.problem import base
from naim3l.problem.base import consecutive_slices
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem


@pytest.mark.parametrize("sizes", [[3], [2, 0, 5], [0, 0], np.array([1, 4])])
def test_slices_follow_each_other_and_have_the_given_sizes(sizes):
    slices = consecutive_slices(sizes)
    assert [s.stop - s.start for s in slices] == list(sizes)
    together = np.concatenate([np.arange(100)[s] for s in slices])
    np.testing.assert_array_equal(together, np.arange(sum(sizes)))


@pytest.mark.parametrize("n_equal", [0, 1], ids=["another first row", "the same first row"])
def test_distinct_arrays_are_found_by_all_of_their_numbers(n_equal):
    one, two = np.arange(12.0).reshape(2, 3, 2)
    two[:n_equal] = one[:n_equal]
    which, inverse = distinct(np.array([one, two, one, one + 1, two]))
    assert which.tolist() == [0, 1, 3] and inverse.tolist() == [0, 1, 0, 2, 1]


class TestWeights:
    def test_sizes_are_those_of_weights_and_labels(self, make_problem):
        features, labels, problem = make_problem()
        stacked = np.concatenate(labels)
        for form in (problem, StatisticsProblem.of(problem)):
            assert form.n_labels == stacked.shape[1]
            assert form.n_positives == (stacked > 0).sum()
            assert form.n_weights == sum(X.shape[1] + 1 for X in features)
            assert [form.n_columns(v) for v in range(2)] == [X.shape[1] for X in features]

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_all_weights_but_intercepts_that_labels_determine_are_penalised(
        self, make_problem, fit_intercept
    ):
        features, labels, _ = make_problem()
        labels[1][:, 3] = 0
        problem = Problem(features, labels, fit_intercept=fit_intercept)
        expected = oracle.penalised(features, labels, fit_intercept)
        for form in (problem, StatisticsProblem.of(problem)):
            np.testing.assert_array_equal(form.penalised, expected)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_weights_are_split_by_view_and_stacked_again(self, make_problem, rng, fit_intercept):
        features, labels, _ = make_problem()
        problem = Problem(features, labels, fit_intercept=fit_intercept)
        W = rng.normal(size=(problem.n_weights, problem.n_labels))
        for form in (problem, StatisticsProblem.of(problem)):
            coefficients, intercepts = form.split_weights(W)
            scores = [X @ C + b for X, C, b in zip(features, coefficients, intercepts, strict=True)]
            np.testing.assert_allclose(np.concatenate(scores), problem.multiply(W))
            if fit_intercept:
                pairs = zip(coefficients, intercepts, strict=True)
                coefficients = [np.vstack(pair) for pair in pairs]
            np.testing.assert_array_equal(form.stack_weights(coefficients), W)

    def test_weights_of_rotated_views_are_those_of_their_columns(self, rng):
        X = [rng.normal(size=(6, 20)), rng.normal(size=(30, 4))]
        plain = Problem(X, [np.ones((6, 3)), -np.ones((30, 3))])
        problem = plain.rotated()
        assert [problem.n_columns(v) for v in range(2)] == [20, 4]
        assert [s.stop - s.start for s in problem.weight_slices] == [7, 5]
        blocks = [rng.normal(size=(X_v.shape[1] + 1, 3)) for X_v in X]
        W = problem.stack_weights(blocks)
        np.testing.assert_allclose(problem.multiply(W), plain.multiply(np.concatenate(blocks)))
        coefficients, intercepts = problem.split_weights(W)
        for X_v, C, b, block in zip(X, coefficients, intercepts, blocks, strict=True):
            np.testing.assert_allclose(X_v @ C + b, X_v @ block[:-1] + block[-1])

    def test_the_largest_score_is_that_of_the_rows_or_a_bound(self, make_problem, rng):
        *_, problem = make_problem()
        W = rng.normal(size=(problem.n_weights, problem.n_labels))
        largest = np.abs(problem.multiply(W)).max()
        assert problem.largest_score(W) == largest
        bound = StatisticsProblem.of(problem).largest_score(W)
        assert largest <= bound <= largest * np.sqrt(problem.Y.size)
        for form in (problem, StatisticsProblem.of(problem)):
            assert not form.largest_score(1e200 * W) < 1e100


class TestBlocks:
    @pytest.mark.parametrize("threaded", [True, False], ids=["threads", "one thread"])
    @pytest.mark.parametrize("share", [2.0, 0.9, 0.0], ids=["alone", "stacked", "all in one stack"])
    def test_labels_are_visited_alone_stacked_and_in_threads(
        self, make_problem, rng, monkeypatch, threaded, share
    ):
        monkeypatch.setattr(base, "LARGE_NUMBERS", 1 if threaded else 10**9)
        monkeypatch.setattr(base, "STACKED_SHARE", share)
        features, labels, _ = make_problem(n_labels=9)
        labels[0][:, 3] = labels[1][:, 3] = 0  # one label without a block
        problem = Problem(features, labels)
        A = rng.normal(size=(problem.n_block_rows, problem.n_labels))
        blocks = [A[rows] for rows in problem.label_slices]
        norms = [np.linalg.norm(block) for block in blocks]

        def scale(group, changed, read):
            of_group = np.linalg.norm(read, axis=(-2, -1))
            changed += read * of_group[..., None, None]
            return of_group.sum()

        found = np.zeros_like(A)
        total = sum(problem.change_labels(scale, [found], [A]))
        expected = np.concatenate([block * size for block, size in zip(blocks, norms, strict=True)])
        np.testing.assert_allclose(found, expected)
        assert total == pytest.approx(sum(norms))

    def test_sums_do_not_depend_on_which_thread_is_done_first(self, monkeypatch):
        monkeypatch.setattr(base, "LARGE_NUMBERS", 1)
        monkeypatch.setattr(base, "STACKED_SHARE", 2.0)  # every label for itself
        Y = np.array([[1, 1, 1], [1, 1, -1], [1, -1, -1]])
        problem = Problem([np.eye(3)], [Y])
        problem.n_threads = 3
        values = {3: 1.0, 2: 1e16, 1: -1e16}  # by rows of the block: the order of sums shows
        last_is_done = threading.Event()

        def value(group, stack):
            n_rows = stack.shape[-2]
            if n_rows == 1:
                last_is_done.set()
            elif n_rows == 3:
                last_is_done.wait(10)
            return values[n_rows]

        A = np.ones((problem.n_block_rows, problem.n_labels))
        assert 1.0 + 1e16 - 1e16 == 0.0 and 1e16 - 1e16 + 1.0 == 1.0
        assert sum(problem.change_labels(value, [], [A])) == 0.0

    def test_errors_in_threads_are_passed_on(self, make_problem, monkeypatch):
        _, _, problem = make_problem()
        monkeypatch.setattr(base, "LARGE_NUMBERS", 1)

        def fail(group, stack):
            raise np.linalg.LinAlgError("no decomposition")

        with pytest.raises(np.linalg.LinAlgError, match="no decomposition"):
            problem.change_labels(fail, [], [np.ones((problem.n_block_rows, problem.n_labels))])

    def test_stacks_of_statistics_are_parts_of_the_array(self, make_problem, rng):
        *_, problem = make_problem(seed=5, n_rows=(90, 40), n_features=(6, 5), n_labels=14)
        statistics = StatisticsProblem.of(problem)
        scores = statistics.label_scores(rng.normal(size=(problem.n_weights, 14)))
        seen = []

        def check(group, stack):
            assert np.shares_memory(stack, scores)
            labels = statistics.label_groups[group]
            for k, block in zip(labels, stack, strict=True):
                rows = statistics.label_slices[k]
                size = rows.stop - rows.start
                np.testing.assert_array_equal(block[:size], scores[rows])
                assert (block[size:] == 0).all()
            seen.extend(labels)

        statistics.change_labels(check, [scores], [])
        filled = [k for k, rows in enumerate(statistics.label_slices) if rows.stop > rows.start]
        assert sorted(seen) == filled
        used = np.concatenate([np.arange(14_000)[rows] for rows in statistics.label_slices])
        assert len(np.unique(used)) == len(used) and used.max() < statistics.n_block_rows


@pytest.mark.parametrize("fails", [False, True])
def test_eigenvectors_are_found_where_the_fast_routine_fails(fails, monkeypatch):
    def refuse(stack):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    A = np.random.default_rng(0).normal(size=(2, 3, 5, 5))
    A = A + np.swapaxes(A, 2, 3)
    if fails:  # as it does for some finite matrices, which depend on the version of LAPACK
        monkeypatch.setattr(np.linalg, "eigh", refuse)
    for stack in (A, A[0, 0]):
        values, V = eigh(stack)
        assert (np.diff(values) >= 0).all()
        assert_allclose(np.swapaxes(V, -1, -2) @ V, np.broadcast_to(np.eye(5), V.shape), atol=1e-12)
        assert_allclose((V * values[..., None, :]) @ np.swapaxes(V, -1, -2), stack, atol=1e-12)
