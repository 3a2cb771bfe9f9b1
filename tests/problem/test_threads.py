"""Threads give values in order, BLAS has one thread meanwhile, and threads start no threads."""

from threading import get_ident

import pytest

from naim3l._threads import blas_threads, kept_threads, map_views, one_blas_thread, thread_map


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


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_of_one_item_is_raised(n_threads):
    with pytest.raises(ZeroDivisionError):
        thread_map(lambda i: 1 // i, [1, 0, 2], n_threads)


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
