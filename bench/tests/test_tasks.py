from dataclasses import replace

import pytest

from naim3l_bench.datasets import CATALOG
from naim3l_bench.tasks import DEFAULT_LAM, Plan, Task, distinct, paper_lam, usual_lam


def test_fewer_seeds_are_the_first_ones(plan):
    assert plan.repeats == 2
    assert plan.at_most(1).seeds == range(1) and plan.at_most(5) == plan
    assert plan.at_most(1).protocols == plan.protocols


def test_seeds_can_begin_anywhere_and_are_the_same_tasks(plan):
    later = replace(plan, first_seed=1)
    assert list(later.seeds) == [1, 2] and list(later.at_most(1).seeds) == [1]
    whole, part = (
        [task.key for task in of.fits("small", "NAIM3L", {}, protocol="clean")]
        for of in (replace(plan, repeats=3), later)
    )
    assert part == whole[1:]


def test_equal_tasks_are_kept_once_in_their_order():
    first, second = Task("labels", {"a": 1, "b": 2}), Task("labels", {"a": 2})
    again = Task("labels", {"b": 2, "a": 1})
    assert [task.key for task in distinct([first, second, again])] == [first.key, second.key]


@pytest.mark.parametrize("name", ["corel5k", "corel5k-genuine"])
def test_lambda_is_that_of_the_paper(name):
    assert paper_lam(name) == usual_lam(name) == CATALOG["corel5k"].lam


def test_lambda_of_other_data_is_the_default():
    assert paper_lam("small") is None and usual_lam("small") == DEFAULT_LAM


def test_values_to_try_are_part_of_the_plan(source):
    plan = Plan({"small": source})
    assert plan.grids == Plan({}).grids and plan.grids.lams[0] < plan.grids.lams[-1]
