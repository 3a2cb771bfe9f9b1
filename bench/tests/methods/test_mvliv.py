"""MVL-IV: planted points, missing views and labels, and the estimator around the solver."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

import naim3l
from naim3l_bench.methods import MVLIV
from naim3l_bench.methods.mvliv import FactoredViews
from planted_rows import VIEWS, planted, with_gaps

AS_GIVEN = {"views": VIEWS, "features": None, "random_state": 0}


@pytest.fixture
def small(rng):
    return planted(rng, n_rows=40)


def test_recovers_planted_labels_also_from_one_view(rng):
    X, Y = planted(rng)
    options = {"rank": 3, "ridge": 0.01, "tol": 0, "max_iter": 50}
    model = MVLIV(**options, **AS_GIVEN).fit(X[:200], Y[:200])
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.9
    only_a = X.copy()
    only_a[:, 7:] = np.nan
    # Three dimensions are seen in either view, so that the other one adds little.
    expected = model.decision_function(X)
    assert np.abs(model.decision_function(only_a) - expected).max() < 0.1 * np.ptp(expected)


def test_learns_from_missing_views_and_labels(rng):
    X, Y = planted(rng)
    train, known = with_gaps(rng, X[:200], Y[:200])
    model = MVLIV(rank=3, **AS_GIVEN).fit(train, known)
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.85
    missing = np.isnan(known)
    assert np.mean(model.impute_labels(train, known)[missing] == Y[:200][missing]) > 0.8


def test_the_objective_does_not_rise(rng):
    data = with_gaps(rng, *planted(rng, n_rows=60))
    model = MVLIV(max_iter=20, tol=0, **AS_GIVEN).fit(*data)
    values = [record["objective"] for record in model.history_]
    assert len(values) == 20 and model.objective_ == values[-1]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))


def test_scores_do_not_depend_on_the_units_of_a_view(rng, small):
    X, Y = small
    other = X.copy()
    other[:, :7] = 1000 * X[:, :7] - 40
    one, two = (MVLIV(tol=1e-6, **AS_GIVEN).fit(table, Y) for table in (X, other))
    np.testing.assert_allclose(two.decision_function(other), one.decision_function(X), atol=1e-6)


def test_a_label_that_is_always_known_as_no_is_predicted_so(rng, small):
    X, Y = small
    Y[:, 0] = 0
    with pytest.warns(naim3l.DataWarning, match="never observed"):
        model = MVLIV(**AS_GIVEN).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X)[:, 0], -1, atol=1e-8)


def test_positives_can_weigh_more(small):
    X, Y = small
    even, more = (MVLIV(positive_weight=w, **AS_GIVEN).fit(X, Y) for w in (1.0, 5.0))
    assert more.decision_function(X).mean() > even.decision_function(X).mean() + 0.1


def test_an_interrupt_is_raised_and_keeps_the_last_iteration(small, monkeypatch):
    calls, solve = [], FactoredViews.solve_C

    def interrupted(self, H):
        calls.append(H)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return solve(self, H)

    monkeypatch.setattr(FactoredViews, "solve_C", interrupted)
    model = MVLIV(tol=0, **AS_GIVEN)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*small)
    monkeypatch.undo()
    same = clone(model).set_params(max_iter=2).fit(*small)
    np.testing.assert_array_equal(
        model.decision_function(small[0]), same.decision_function(small[0])
    )
