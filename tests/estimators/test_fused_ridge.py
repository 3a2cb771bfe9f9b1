"""One ridge on all views: against scikit-learn's on rows filled by hand."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from naim3l import Kernel
from naim3l.estimators import FusedRidge, PerViewRidge

VIEWS = {"a": slice(0, 4), "b": slice(4, 7)}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(50, 7))
    Y = (X @ rng.normal(size=(7, 3)) + 0.5 * rng.normal(size=(50, 3)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    X[::4, 4:], X[1::4, :4] = np.nan, np.nan
    return X, Y


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_scikit_learn_s_ridge_on_filled_rows(table, fit_intercept):
    X, Y = table
    model = FusedRidge(0.7, views=VIEWS, features=None, fit_intercept=fit_intercept).fit(X, Y)
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    new = np.full((2, 7), np.nan)
    new[0, :4], new[1] = 1.0, 2.0
    scores = model.decision_function(new)
    np.testing.assert_allclose(model.fill_, np.nanmean(X, axis=0))
    for k in range(3):
        known = ~np.isnan(Y[:, k])
        reference = Ridge(0.7, fit_intercept=fit_intercept)
        reference.fit(filled[known], 2 * Y[known, k] - 1)
        np.testing.assert_allclose(model.coef_[:, k], reference.coef_, atol=1e-8)
        assert model.intercept_[k] == pytest.approx(reference.intercept_, abs=1e-8)
        expected = reference.predict(np.where(np.isnan(new), model.fill_, new))
        np.testing.assert_allclose(scores[:, k], expected)


def test_one_view_is_the_per_view_ridge(table):
    X, Y = np.nan_to_num(table[0]), table[1]
    options = {"ridge": 2.0, "positive_weight": 3.0, "features": Kernel("rbf")}
    fused, apart = (kind(**options).fit(X, Y) for kind in (FusedRidge, PerViewRidge))
    np.testing.assert_allclose(fused.decision_function(X), apart.decision_function(X), atol=1e-8)


def test_a_label_that_needs_both_views_is_only_learned_from_both(rng):
    X = rng.choice([-1.0, 1.0], size=(400, 2)) + 0.1 * rng.normal(size=(400, 2))
    Y = (X.sum(axis=1, keepdims=True) > 1).astype(float)
    model = FusedRidge(views={"a": [0], "b": [1]}, features=None).fit(X[:200], Y[:200])
    assert model.score(X[200:], Y[200:]) == 1
    alone = model.view_scores(X[200:])["a"]
    assert np.mean((alone > 0) == Y[200:]) < 0.9
