"""Two equal fits are equal to the last bit, in what they record, too."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from naim3l import NAIM3L, NAIM3LCV
from naim3l.datasets import make_unpaired
from naim3l.problem import base


@pytest.fixture(autouse=True)
def in_threads(monkeypatch):
    """Labels of every size are divided among threads."""
    monkeypatch.setattr(base, "LARGE_NUMBERS", 1)


@pytest.fixture(scope="module")
def data():
    return make_unpaired(150, n_features=(12, 9), n_labels=12, missing_labels=0.3, random_state=0)


def assert_same(one, other):
    assert one.history_ == other.history_
    for view in one.views_:
        np.testing.assert_array_equal(one.coef_[view], other.coef_[view])
        np.testing.assert_array_equal(one.thresholds_[view], other.thresholds_[view])


@pytest.mark.parametrize("solver", ["fast", "paper"])
def test_history_is_the_same_and_has_no_times(data, solver):
    model = NAIM3L(0.1, solver=solver, max_iter=8, tol=0, decide="f1", random_state=0)
    one, other = (NAIM3L(**model.get_params()).fit(data.views, data.labels) for _ in range(2))
    assert_same(one, other)
    assert not any("seconds" in name or "time" in name for name in one.history_[0])


def test_threads_that_labels_are_divided_among_make_no_difference(data):
    """The loop keeps BLAS to one thread, whatever the number that it divides labels among."""
    models = []
    for n_threads in (1, 2):
        model = NAIM3L(0.1, max_iter=8, tol=0)
        with threadpool_limits(1, user_api="blas"):
            problem = model._read_training(data.views, data.labels)
            problem.n_threads = n_threads
            model._keep_result(problem, model._solve(problem))
        models.append(model)
    assert_same(*models)


def test_folds_at_a_time_make_no_difference(data):
    settings = {"max_iter": 8, "tol": 0, "random_state": 0}
    one, other = (
        NAIM3LCV([0.1, 1.0], [1.0], n_jobs=n_jobs, **settings).fit(data.views, data.labels)
        for n_jobs in (1, 3)
    )
    assert_same(one, other)
    for name, values in one.cv_results_.items():
        np.testing.assert_array_equal(values, other.cv_results_[name])
