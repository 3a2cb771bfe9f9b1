"""Blocks of all labels in one array. How they are stacked and shared out is in test_rows.py."""

from threading import get_ident

import numpy as np
import pytest

import oracle
from naim3l.problem.blocks import (
    blas_threads,
    consecutive_slices,
    distinct,
    kept_threads,
    map_views,
    one_blas_thread,
    thread_map,
)
from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.rows import Problem


@pytest.mark.parametrize("sizes", [[3], [2, 0, 5], [0, 0], np.array([1, 4])])
def test_slices_follow_each_other_and_have_the_given_sizes(sizes):
    slices = consecutive_slices(sizes)
    assert [s.stop - s.start for s in slices] == list(sizes)
    together = np.concatenate([np.arange(100)[s] for s in slices])
    np.testing.assert_array_equal(together, np.arange(sum(sizes)))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_values_come_in_the_order_of_the_items(n_threads):
    assert thread_map(lambda i: i**2, range(20), n_threads) == [i**2 for i in range(20)]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_blas_keeps_to_one_thread_within_threads_and_has_its_own_again_after(n_threads):
    before = blas_threads()
    assert thread_map(lambda _: blas_threads(), range(3), n_threads) == [1, 1, 1]
    assert one_blas_thread(blas_threads)() == 1
    assert blas_threads() == before


def test_limits_within_limits_are_lifted_again():
    before = blas_threads()
    outer = one_blas_thread(lambda: one_blas_thread(blas_threads)() + blas_threads())
    assert outer() == 2
    assert thread_map(lambda _: outer(), range(4), 2) == [2] * 4
    assert blas_threads() == before


def test_an_error_of_one_item_is_raised():
    def divide(i):
        return 1 // i

    for n_threads in (1, 2):
        with pytest.raises(ZeroDivisionError):
            thread_map(divide, [1, 0, 2], n_threads)


def test_kept_threads_do_all_the_work(n_threads=2):
    with kept_threads(n_threads):
        with kept_threads(n_threads):  # no others within
            found = [thread_map(lambda _: get_ident(), range(20), n_threads) for _ in range(5)]
        assert thread_map(lambda i: i, range(3), n_threads) == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            thread_map(lambda i: 1 // i, [1, 0], n_threads)
    assert len({ident for idents in found for ident in idents}) <= n_threads
    assert get_ident() not in found[0]
    assert thread_map(lambda i: i, range(3), n_threads) == [0, 1, 2]  # with threads of its own
    with kept_threads(1):
        assert thread_map(lambda _: get_ident(), range(2), 1) == [get_ident()] * 2


def test_threads_start_no_threads():
    def identities(_):
        return {get_ident(), *thread_map(lambda _: get_ident(), range(3), 3)}

    inner = thread_map(identities, range(4), 2)
    assert all(len(found) == 1 for found in inner)
    assert get_ident() not in set.union(*inner)


@pytest.mark.parametrize("n_views", [1, 2, 5])
def test_views_leave_threads_to_the_function_if_there_are_more(n_views):
    found = map_views(lambda v: (v, get_ident()), n_views, 3)
    assert [v for v, _ in found] == list(range(n_views))
    assert all((thread == get_ident()) == (n_views < 3) for _, thread in found)


@pytest.mark.parametrize("n_equal", [0, 1], ids=["another first row", "the same first row"])
def test_distinct_arrays_are_found_by_all_of_their_numbers(n_equal):
    one, two = np.arange(12.0).reshape(2, 3, 2)
    two[:n_equal] = one[:n_equal]
    which, inverse = distinct(np.array([one, two, one, one + 1, two]))
    assert which.tolist() == [0, 1, 3] and inverse.tolist() == [0, 1, 0, 2, 1]


class TestLabelBlocks:
    def test_sizes_are_those_of_weights_and_labels(self, make_problem):
        features, labels, problem = make_problem()
        stacked = np.concatenate(labels)
        assert problem.n_labels == stacked.shape[1]
        assert problem.n_positives == (stacked > 0).sum()
        assert problem.n_weights == sum(X.shape[1] + 1 for X in features)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_all_weights_but_intercepts_are_penalised(self, make_problem, fit_intercept):
        features, labels, _ = make_problem()
        problem = Problem(features, labels, fit_intercept=fit_intercept)
        last = [X.shape[1] for X in features]
        expected = np.concatenate([np.arange(n + fit_intercept) < n for n in last])
        np.testing.assert_array_equal(problem.penalised.T, [expected] * problem.n_labels)

    def test_an_intercept_that_no_label_entry_determines_is_penalised(self, make_problem):
        features, labels, _ = make_problem()
        labels[1][:, 3] = 0
        problem = Problem(features, labels)
        np.testing.assert_array_equal(problem.penalised, oracle.penalised(features, labels))
        compressed = CompressedProblem.from_problem(problem)
        np.testing.assert_array_equal(compressed.penalised, problem.penalised)

    def test_loss_is_half_the_sum_of_squared_errors_of_known_entries(self, make_problem, rng):
        _, labels, problem = make_problem()
        W, Y = rng.normal(size=(problem.n_weights, problem.n_labels)), np.concatenate(labels)
        errors = (problem.multiply(W) - Y)[Y != 0]
        assert problem.loss(W) == pytest.approx(0.5 * np.sum(errors**2))
