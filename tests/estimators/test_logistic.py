"""Logistic regression per view: against scikit-learn's, on the known rows of each label."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from naim3l import PerViewLogistic
from naim3l.datasets import make_unpaired
from naim3l.estimators import linear


@pytest.fixture(scope="module")
def data():
    return make_unpaired(
        70, n_features=(6, 4), n_labels=3, n_latent=3, noise=0.5, missing_labels=0.4, random_state=0
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_scikit_learn_s_on_the_known_rows_of_each_label(data, fit_intercept):
    model = PerViewLogistic(0.7, features=None, fit_intercept=fit_intercept)
    model.fit(data.views, data.labels)
    for view, X in data.views.items():
        for k, y in enumerate(data.labels[view].T):
            known = ~np.isnan(y)
            reference = LogisticRegression(C=0.7, fit_intercept=fit_intercept, tol=1e-8)
            reference.fit(X[known], y[known])
            np.testing.assert_allclose(model.coef_[view][:, k], reference.coef_[0], atol=1e-3)
            expected = reference.intercept_ if fit_intercept else 0
            assert model.intercept_[view][k] == pytest.approx(expected, abs=1e-3)


def test_a_label_with_one_value_has_the_log_odds_of_its_frequency(data):
    Y = {view: labels.copy() for view, labels in data.labels.items()}
    Y["view0"][:, 1], Y["view0"][:, 2] = 0, np.nan
    model = PerViewLogistic().fit(data.views, Y)
    assert not model.coef_["view0"][:, 1:].any()
    rates = model.base_rates_  # of all views, which keep the frequency here off 0
    expected = logit([2 * rates[1] / 72, rates[2]])
    np.testing.assert_allclose(model.intercept_["view0"][1:], expected)


def test_positives_that_count_twice_are_positives_given_twice(data):
    X, Y = data.views["view0"], data.labels["view0"]
    twice = np.flatnonzero(Y[:, 0] == 1)
    more = {"a": np.vstack([X, X[twice]])}, {"a": np.concatenate([Y[:, :1], Y[twice, :1]])}
    one = PerViewLogistic(features=None, positive_weight=2.0).fit({"a": X}, {"a": Y[:, :1]})
    two = PerViewLogistic(features=None).fit(*more)
    np.testing.assert_allclose(one.coef_["a"], two.coef_["a"], atol=1e-4)


def test_gradients_find_what_newton_steps_find(rng, monkeypatch):
    X = {"a": sparse.random_array((60, 300), density=0.05, rng=rng).tocsr()}
    Y = {"a": (X["a"] @ rng.normal(size=(300, 2)) > 0).astype(float)}
    expected = PerViewLogistic(features=None).fit(X, Y).coef_["a"]
    monkeypatch.setattr(linear, "NEWTON_COLUMNS", 0)
    found = PerViewLogistic(features=None).fit(X, Y).coef_["a"]
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_c_must_be_positive():
    with pytest.raises(ValueError, match="The 'C' parameter of PerViewLogistic must be a float"):
        PerViewLogistic(0).fit({"a": np.eye(3)}, {"a": np.eye(3)})
