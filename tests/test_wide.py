"""Views with far more columns than rows: no matrix of pairs of columns, or a plain refusal."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV
from naim3l.estimators import PerViewLogistic, PerViewRidge, logistic, ridge
from naim3l.problem import choice as forms
from naim3l.problem import rows as problem
from naim3l.problem.choice import choose_form
from naim3l.problem.rows import Problem
from naim3l.solvers import fast, solve_fast
from naim3l.solvers.objective import Objective
from study import run

AS_GIVEN = {"transformer": None, "random_state": 0}
MODELS = [
    NAIM3L(**AS_GIVEN),
    NAIM3LCV([0.1], [1.0], cv=2, max_iter=5, tol=0, **AS_GIVEN),
    PerViewRidge(**AS_GIVEN),
    PerViewLogistic(**AS_GIVEN),
]


def wide(n_rows=20, n_columns=8000, n_labels=3):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n_rows, n_columns), density=0.01, rng=rng).tocsr()
    Y = (X @ rng.normal(size=(n_columns, n_labels)) > 0).astype(float)
    return {"text": X}, {"text": Y}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_memory_is_that_of_some_copies_of_the_weights(model):
    X, Y = wide()
    tracemalloc.start()
    model = clone(model).fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * model.coef_["text"].nbytes  # one matrix of columns would be 2,700 times it
    assert np.mean(model.predict(X, decide="sign")["text"] == Y["text"]) > 0.9


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("amount", [1.0, 5.0])
def test_products_with_rows_replace_matrices_of_columns(
    make_problem, monkeypatch, container, amount
):
    features, labels, _ = make_problem(n_rows=(40, 12), n_features=(6, 30))

    def solve():
        rows = Problem([container(X) for X in features], labels)
        return rows, solve_fast(Objective(rows, 0.4, ridge=amount), form="rows", tol=1e-4)

    with_grams, expected = solve()
    monkeypatch.setattr(problem, "GRAM_COLUMNS", 0)
    without, found = solve()
    assert with_grams.grams[1] is not None and without.grams[1] is None
    W = expected.W
    np.testing.assert_allclose(without.multiply_gram(W), with_grams.multiply_gram(W))
    np.testing.assert_allclose(
        without.multiply_positive_gram(W), with_grams.multiply_positive_gram(W)
    )
    assert found.converged
    reached = [result.history[-1]["objective"] for result in (found, expected)]
    assert reached[0] == pytest.approx(reached[1], rel=1e-5)


def test_an_interrupt_amid_an_iteration_keeps_the_last_whole_one(monkeypatch):
    X, Y = wide(30, 3000)
    rows = Problem([X["text"]], [2 * Y["text"] - 1])
    assert rows.grams == [None]
    objective = Objective(rows, 0.4, ridge=1.0)
    expected = solve_fast(objective, form="rows", max_iter=2, tol=0)
    calls = []

    def shrink(*arguments):
        calls.append(arguments)
        if len(calls) == 3:  # two iterations, and amid the third
            raise KeyboardInterrupt
        return whole(*arguments)

    whole = fast.shrink_relaxed
    monkeypatch.setattr(fast, "shrink_relaxed", shrink)
    stopped = solve_fast(objective, form="rows", max_iter=9, tol=0)
    assert stopped.interrupted and stopped.history == expected.history
    np.testing.assert_array_equal(stopped.W, expected.W)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_by_rows_is_ridge_by_columns(rng, container, fit_intercept):
    X, Y = container(rng.normal(3, 1, size=(12, 30))), rng.normal(size=(12, 2))
    counts = rng.uniform(1, 3, size=12)
    mean = np.zeros(30)
    if fit_intercept:
        mean, Y = counts @ X / counts.sum(), Y - counts @ Y / counts.sum()
    by_columns, by_rows = (
        solve(X, mean, Y, counts, [0.7]) for solve in (ridge._by_columns, ridge._by_rows)
    )
    np.testing.assert_allclose(by_rows, by_columns, atol=1e-10)


def test_logistic_by_gradients_is_logistic_by_newton_steps(monkeypatch):
    X, Y = wide(60, 300)
    expected = PerViewLogistic(**AS_GIVEN).fit(X, Y).coef_["text"]
    monkeypatch.setattr(logistic, "NEWTON_COLUMNS", 0)
    np.testing.assert_allclose(
        PerViewLogistic(**AS_GIVEN).fit(X, Y).coef_["text"], expected, atol=1e-3
    )


class TestRefusal:
    @pytest.fixture(autouse=True)
    def small_machine(self, monkeypatch):
        monkeypatch.setattr(forms, "physical_memory", lambda: 2**19)

    @pytest.mark.parametrize("model", [*MODELS[:3], NAIM3L(solver="paper", **AS_GIVEN)], ids=str)
    def test_names_the_view_its_columns_and_the_cure(self, model):
        X, Y = wide(200, 3000)
        error = r"view 'text' \(200 rows, 3000 columns\): .*GiB.*transformer='scale'.*fewer columns"
        with pytest.raises(MemoryError, match=error):
            clone(model).fit(X, Y)

    def test_names_the_labels_where_they_are_too_many(self, rng):
        rows = Problem([rng.normal(size=(300, 4))], [np.ones((300, 40))])
        with pytest.raises(
            MemoryError, match=r"12000 labels observed positive, out of 40: .*fewer la"
        ):
            choose_form(rows, "rows")

    def test_is_reported_on_the_command_line(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(forms, "physical_memory", lambda: 1000)
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.normal(size=(30, 3)), columns=list("abc"))
        table.assign(sick=np.arange(30) % 2).to_csv("lab.csv", index=False)
        done = run("fit", "lab=lab.csv", "--labels", "sick", "-o", "m.skops")
        assert done.exit_code == 1 and done.stderr.startswith("naim3l: view 'lab' (30 rows, 3 col")


def test_a_system_that_does_not_tell_its_memory_refuses_nothing(monkeypatch):
    monkeypatch.delattr(forms.os, "sysconf", raising=False)
    assert forms.physical_memory() is None
    forms.check_memory(Problem([np.eye(3)], [np.eye(3)]), 0, 1e30)
