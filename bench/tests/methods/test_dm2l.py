"""DM2L: NAIM3L on one concatenated view, and its objective from the definition."""

from itertools import pairwise

import numpy as np
import pytest

from naim3l import NAIM3L
from naim3l.estimators import FusedRidge
from naim3l_bench.methods import DM2L

VIEWS = {"a": slice(0, 4), "b": slice(4, 7)}
AS_GIVEN = {"views": VIEWS, "features": None}


@pytest.fixture
def table(rng):
    """Rows of two views whose labels are linear in them; missing views and labels."""
    X = rng.normal(size=(80, 7))
    Y = (X @ rng.normal(size=(7, 2)) @ rng.normal(size=(2, 5)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    X[::6, 4:], X[1::6, :4] = np.nan, np.nan
    return X, Y


def objective(model, X, Y):
    """The objective at the weights, written out label by label."""
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    S = filled @ model.coef_ + model.intercept_
    value = np.nansum((S - (2 * Y - 1)) ** 2) / 2 + model.ridge / 2 * np.sum(model.coef_**2)
    for k in range(Y.shape[1]):
        value += model.lam * np.linalg.norm(S[Y[:, k] == 1], "nuc")
    return value - model.lam * np.linalg.norm(S, "nuc")


def test_weights_minimise_the_objective_of_the_definition(table, rng):
    X, Y = table
    model = DM2L(0.3, ridge=0.5, tol=1e-6, max_iter=2000, **AS_GIVEN).fit(X, Y)
    least = objective(model, X, Y)
    assert model.objective_ == pytest.approx(least, rel=1e-6)
    coef, intercept = model.coef_, model.intercept_
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(5):
            model.coef_ = coef + size * rng.normal(size=coef.shape)
            model.intercept_ = intercept + size * rng.normal(size=intercept.shape)
            assert objective(model, X, Y) > least


def test_the_objective_does_not_rise_between_outer_steps(table):
    history = DM2L(1.0, ridge=0.1, tol=0, max_iter=40, **AS_GIVEN).fit(*table).history_
    outer = [record["objective"] for record in history if record["outer"]]
    assert len(outer) > 2
    assert all(after <= before + 1e-9 for before, after in pairwise(outer))


def test_one_complete_view_is_naim3l(table):
    X, Y = np.nan_to_num(table[0]), table[1]
    options = {"ridge": 1.0, "positive_weight": 2.0, "features": "rbf", "decide": "f1",
               "random_state": 0}  # fmt: skip
    fused, apart = (kind(0.2, **options).fit(X, Y) for kind in (DM2L, NAIM3L))
    np.testing.assert_allclose(fused.decision_function(X), apart.decision_function(X))
    np.testing.assert_allclose(fused.thresholds_["fused"], apart.thresholds_["fused"])


def test_without_a_regulariser_it_is_the_fused_ridge(table):
    X, Y = table
    ridge = FusedRidge(2.0, **AS_GIVEN).fit(X, Y)
    model = DM2L(1e-9, ridge=2.0, tol=1e-8, max_iter=2000, **AS_GIVEN).fit(X, Y)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-5)


def test_recovers_planted_labels_of_complete_rows(rng):
    X = rng.normal(size=(300, 7))
    Y = (X @ rng.normal(size=(7, 2)) @ rng.normal(size=(2, 6)) > 0).astype(float)
    model = DM2L(**AS_GIVEN).fit(X[:200], Y[:200])
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.9
