"""Ridge regression per view: against scikit-learn's, on the known rows of each label."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from naim3l import PerViewRidge
from naim3l.datasets import make_unpaired


@pytest.fixture(scope="module")
def data():
    return make_unpaired(
        70, n_features=(6, 4), n_labels=3, n_latent=3, noise=0.1, missing_labels=0.4, random_state=0
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_scikit_learn_s_ridge_on_the_known_rows_of_each_label(data, fit_intercept):
    model = PerViewRidge(0.7, features=None, fit_intercept=fit_intercept)
    model.fit(data.views, data.labels)
    for view, X in data.views.items():
        for k in range(3):
            known = ~np.isnan(data.labels[view][:, k])
            reference = Ridge(0.7, fit_intercept=fit_intercept)
            reference.fit(X[known], 2 * data.labels[view][known, k] - 1)
            np.testing.assert_allclose(model.coef_[view][:, k], reference.coef_, atol=1e-8)
            assert model.intercept_[view][k] == pytest.approx(reference.intercept_, abs=1e-8)


@pytest.mark.parametrize("transform", [lambda X: X + 1e6, lambda X: 1e8 * X], ids=["far", "large"])
@pytest.mark.filterwarnings("ignore:view .*varies by:naim3l.DataWarning")
def test_columns_far_from_0_or_large_lose_no_digits(data, transform):
    views = {view: transform(X) for view, X in data.views.items()}
    model = PerViewRidge(1.0, features=None).fit(views, data.labels)
    for view, X in views.items():
        known = ~np.isnan(data.labels[view][:, 0])
        reference = Ridge(1.0).fit(X[known], 2 * data.labels[view][known, 0] - 1)
        scores = model.decision_function(views)[view][:, 0]
        np.testing.assert_allclose(scores, reference.predict(X), atol=1e-6)


def test_columns_that_depend_on_each_other_are_no_error_where_the_ridge_is_lost(rng):
    X = 1e9 * rng.normal(size=(30, 2)) @ rng.normal(size=(2, 4))
    Y = (X[:, :1] > 0) * 1.0
    model = PerViewRidge(1e-3, features=None).fit({"a": X}, {"a": Y})
    assert (model.predict({"a": X})["a"] == Y).mean() > 0.8


def test_positives_that_count_twice_are_positives_given_twice(data):
    X, Y = data.views["view0"], data.labels["view0"]
    twice = np.flatnonzero(Y[:, 0] == 1)
    more = {"a": np.vstack([X, X[twice]])}, {"a": np.concatenate([Y[:, :1], Y[twice, :1]])}
    one = PerViewRidge(features=None, positive_weight=2.0).fit({"a": X}, {"a": Y[:, :1]})
    np.testing.assert_allclose(one.coef_["a"], PerViewRidge(features=None).fit(*more).coef_["a"])


@pytest.fixture
def partly_known(data):
    """Labels of which the second view never records the second."""
    labels = {view: Y.copy() for view, Y in data.labels.items()}
    labels["view1"][:, 1] = np.nan
    labels["view0"][:, 1] = np.where(np.arange(70) < 10, 1.0, 0.0)
    return labels


@pytest.mark.parametrize("wide", [False, True], ids=["low", "more columns than rows"])
def test_a_label_that_a_view_never_records_has_the_score_of_its_rate(partly_known, wide, rng):
    """Ten of 70 rows that are known are positive: of labels +-1, that is the mean but for two."""
    views = {view: rng.normal(size=(70, 100 if wide else 5)) for view in partly_known}
    model = PerViewRidge(1.0, features=None).fit(views, partly_known)
    np.testing.assert_array_equal(model.coef_["view1"][:, 1], 0)
    rate = (10 + 1) / (70 + 2)
    scores = model.decision_function(views)
    np.testing.assert_allclose(scores["view1"][:, 1], 2 * rate - 1)
    assert model.base_rates_[1] == pytest.approx(rate)
    # All others are those of a ridge regression, and not changed by it.
    for view, k in (("view0", 0), ("view0", 1), ("view1", 2)):
        known = ~np.isnan(partly_known[view][:, k])
        reference = Ridge(1.0).fit(views[view][known], 2 * partly_known[view][known, k] - 1)
        np.testing.assert_allclose(scores[view][:, k], reference.predict(views[view]), atol=1e-8)


def test_a_rare_label_that_a_view_never_records_is_not_its_most_probable_one(data, partly_known):
    model = PerViewRidge(decide="half", random_state=0).fit(data.views, partly_known)
    P = model.predict_proba(data.views)["view1"]
    np.testing.assert_allclose(P[:, 1], (10 + 1) / (70 + 2))
    assert not model.predict(data.views)["view1"][:, 1].any()


def test_without_an_intercept_its_scores_are_0(data, partly_known):
    model = PerViewRidge(fit_intercept=False).fit(data.views, partly_known)
    np.testing.assert_array_equal(model.decision_function(data.views)["view1"][:, 1], 0)


@pytest.mark.parametrize("ridge", [0.0, -1, 1e11, "auto"])
def test_ridge_must_be_a_positive_number(ridge):
    with pytest.raises(ValueError, match="The 'ridge' parameter of PerViewRidge must be a float"):
        PerViewRidge(ridge).fit({"a": np.eye(3)}, {"a": np.eye(3)})
