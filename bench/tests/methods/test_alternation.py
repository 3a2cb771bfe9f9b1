"""When the loop of updates ends, and what it returns."""

import pytest

from naim3l_bench.methods.alternation import alternate


def updates(*objectives):
    """An update that returns these objectives in turn; an exception among them is raised."""
    left = iter(objectives)

    def update():
        value = next(left)
        if isinstance(value, BaseException):
            raise value
        return {"objective": value}

    return update


def test_ends_where_the_relative_decrease_is_small():
    learned = alternate(updates(100.0, 50.0, 49.9, 0.0), max_iter=9, tol=0.01)
    assert [record["objective"] for record in learned.history] == [100, 50, 49.9]
    assert learned.converged and not learned.interrupted


@pytest.mark.parametrize(("tol", "values"), [(0.01, (8.0, 4.0, 2.0)), (0, (8.0, 8.0, 8.0))])
def test_ends_at_max_iter_without_convergence(tol, values):
    learned = alternate(updates(*values), max_iter=3, tol=tol)
    assert len(learned.history) == 3 and not learned.converged


def test_negative_objectives_are_compared_by_their_size():
    learned = alternate(updates(-1.0, -2.0, -2.0, -2.0), max_iter=9, tol=0.01)
    assert len(learned.history) == 3 and learned.converged


def test_another_rule_can_decide():
    ended = iter([False, False, True])
    learned = alternate(updates(3.0, 3.0, 1.0, 0.0), 9, 0.01, has_ended=lambda: next(ended))
    assert len(learned.history) == 3 and learned.converged
    assert not alternate(updates(3.0, 3.0), 2, 0.01, has_ended=lambda: False).converged


def test_an_interrupt_keeps_the_iterations_before_it():
    learned = alternate(updates(3.0, KeyboardInterrupt()), max_iter=9, tol=0.01)
    assert learned.interrupted and not learned.converged
    assert learned.history == [{"objective": 3.0}]
