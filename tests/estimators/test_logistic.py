import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from naim3l import load
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewLogistic


@pytest.fixture(scope="module")
def data():
    return make_unpaired(70, n_features=(6, 4), n_labels=3, n_latent=3, noise=0.5,
                         missing_labels=0.4, random_state=0)  # fmt: skip


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_scikit_learn_s_on_the_known_rows_of_each_label(data, fit_intercept):
    model = PerViewLogistic(0.7, transformer=None, fit_intercept=fit_intercept)
    model.fit(data.views, data.labels)
    for view, X in data.views.items():
        for k, y in enumerate(data.labels[view].T):
            known = ~np.isnan(y)
            reference = LogisticRegression(C=0.7, fit_intercept=fit_intercept, tol=1e-8)
            reference.fit(X[known], y[known])
            np.testing.assert_allclose(model.coef_[view][:, k], reference.coef_[0], atol=1e-3)
            expected = reference.intercept_ if fit_intercept else 0
            assert model.intercept_[view][k] == pytest.approx(expected, abs=1e-3)


def test_a_label_that_is_always_no_has_the_log_odds_of_its_frequency(data):
    Y = {view: labels.copy() for view, labels in data.labels.items()}
    Y["view0"][:, 1] = 0
    model = PerViewLogistic().fit(data.views, Y)
    assert not model.coef_["view0"][:, 1].any()
    rate = model.base_rates_[1]  # of all views, which keeps the frequency here off 0
    assert model.intercept_["view0"][1] == pytest.approx(logit(2 * rate / 72))


def test_a_label_unknown_in_a_view_has_the_log_odds_of_its_rate_elsewhere(data):
    Y = {view: labels.copy() for view, labels in data.labels.items()}
    Y["view0"][:, 1] = np.nan
    model = PerViewLogistic().fit(data.views, Y)
    assert model.intercept_["view0"][1] == pytest.approx(logit(model.base_rates_[1]))


def test_positives_that_count_twice_are_positives_given_twice(data):
    X, Y = data.views["view0"], data.labels["view0"]
    twice = np.flatnonzero(Y[:, 0] == 1)
    more = {"a": np.vstack([X, X[twice]])}, {"a": np.concatenate([Y[:, :1], Y[twice, :1]])}
    one = PerViewLogistic(transformer=None, positive_weight=2.0).fit({"a": X}, {"a": Y[:, :1]})
    two = PerViewLogistic(transformer=None).fit(*more)
    np.testing.assert_allclose(one.coef_["a"], two.coef_["a"], atol=1e-4)


def test_can_be_saved_and_loaded(data, tmp_path):
    model = PerViewLogistic(kernel="rbf", n_landmarks=9).fit(data.views, data.labels)
    model.save(tmp_path / "model.skops")
    again = load(tmp_path / "model.skops").decision_function(data.views)
    for view, S in model.decision_function(data.views).items():
        np.testing.assert_allclose(again[view], S)


def test_c_must_be_positive():
    with pytest.raises(ValueError, match="C must be a finite number > 0, got 0"):
        PerViewLogistic(0).fit({"a": np.eye(3)}, {"a": np.eye(3)})
