"""Seconds of computations."""

from time import process_time, sleep

from threadpoolctl import threadpool_info

from naim3l_bench.clock import timed

WORK = 0.1  # seconds, several ticks of the coarsest clock


def work():
    until = process_time() + WORK
    while process_time() < until:
        pass


def test_work_counts_and_waiting_does_not():
    assert timed(work)[1] >= WORK
    assert timed(sleep, 2 * WORK)[1] < WORK


def test_there_is_one_thread_meanwhile():
    before = threadpool_info()
    inside, _ = timed(threadpool_info)
    assert inside and {pool["num_threads"] for pool in inside} == {1}
    assert threadpool_info() == before
