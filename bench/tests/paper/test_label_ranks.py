"""Ranks and singular values of labels, on matrices whose ranks are known."""

import numpy as np
import pytest

from naim3l_bench.datasets import open_dataset
from naim3l_bench.datasets.source import MultiView, StoredView
from naim3l_bench.paper import table1 as labels
from naim3l_bench.tasks import Plan

# Label 0 is on all rows; labels 1 and 2 are always together; label 3 is on one row.
PATTERNS = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]])


def make_source(Y):
    return MultiView({"a": StoredView.in_memory(np.zeros((len(Y), 1)))}, Y)


def test_rank_of_a_constructed_matrix():
    assert labels.rank(PATTERNS) == 3
    assert labels.rank(np.zeros((3, 2), dtype=int)) == 0
    assert labels.rank(np.eye(4, dtype=int)[:, :3]) == 3


def test_ranks_of_rows_that_share_a_label():
    # All rows; rows 1 and 2, which differ; the same; row 2 alone.
    assert labels.sub_ranks(PATTERNS) == [3, 2, 2, 1]


def test_labels_that_no_row_has_have_no_part():
    assert labels.sub_ranks(np.array([[1, 0, 1]])) == [1, 1]


def test_both_codings_give_parts_the_same_rank(rng):
    Y = (rng.random((60, 12)) < 0.2).astype(int)
    signed = [np.linalg.matrix_rank(2 * Y[rows > 0] - 1) for rows in Y.T]
    assert labels.sub_ranks(Y) == signed


def test_description_from_its_definition(rng):
    Y = (rng.random((50, 7)) < 0.3).astype(int)
    found = labels.describe(Y)
    assert found["rank"] == {
        "signed": np.linalg.matrix_rank(2 * Y - 1),
        "binary": np.linalg.matrix_rank(Y),
    }
    values = np.array(found["singular_values"])
    assert (np.diff(values) <= 0).all()
    assert np.square(values).sum() == pytest.approx(Y.size, rel=1e-5)  # all entries are -1 or 1
    assert found["sub_rank_mean"] == np.mean(found["sub_ranks"])
    assert found["sub_rank_median"] == np.median(found["sub_ranks"])


def test_task_splits_and_describes_all_rows(rng):
    Y = (rng.random((40, 5)) < 0.4).astype(int)
    plan = Plan({"toy": make_source(Y)}, repeats=3)
    tasks = labels.label_tasks(plan, "toy")
    assert [task.settings["seed"] for task in tasks] == [0, 1, 2]
    outcome = labels.compute(plan.sources, tasks[1].settings)
    assert (outcome["n"], outcome["c"]) == Y.shape
    assert outcome["labels_per_row"] == Y.sum() / 40
    energy = sum(np.square(outcome[part]["singular_values"]).sum() for part in ("train", "test"))
    assert energy == pytest.approx(Y.size, rel=1e-5)


def test_corel5k_has_the_published_ranks(shared_data):
    source = open_dataset("corel5k", shared_data)
    settings = {"dataset": "corel5k", "data": "", "seed": 0}
    outcome = labels.compute({"corel5k": source}, settings)
    assert outcome["train"]["rank"] == {"signed": 259, "binary": 259}
    # The published 249 is one split's; other splits differ by a few.
    assert abs(outcome["test"]["rank"]["signed"] - 249) <= 8
    assert outcome["train"]["sub_rank_median"] < 15
