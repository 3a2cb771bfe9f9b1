"""iMVWL: planted factors, missing views or labels or both, and the estimator around the solver."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naim3l
from naim3l_bench.methods import IMVWL
from planted_rows import VIEWS, with_gaps

AS_GIVEN = {"views": VIEWS, "features": None, "random_state": 0}


def topics(rng, n_rows=240, n_topics=4, n_labels=6):
    """Rows of two views that are sums of topics; labels say which topics, some of them twice."""
    V = rng.random((n_rows, n_topics)) < 0.4
    X = V @ rng.random((n_topics, 13)) + 0.05 * rng.random((n_rows, 13))
    return X, V[:, np.arange(n_labels) % n_topics] * 1.0


@pytest.fixture
def small(rng):
    return topics(rng, n_rows=40)


@pytest.mark.parametrize(
    ("views", "labels"),
    [(False, False), (True, False), (False, True), (True, True)],
    ids=["complete", "incomplete views", "missing labels", "both"],
)
def test_ranks_labels_of_new_rows(rng, views, labels):
    X, Y = topics(rng)
    train, known = with_gaps(rng, X[:160], Y[:160], views=views, labels=labels)
    model = IMVWL(rank=6, **AS_GIVEN).fit(train, known)
    metrics = naim3l.evaluate(Y[160:], model.decision_function(X[160:]))
    assert metrics["macro-AUC"] > 0.95


def test_a_view_can_stand_for_another(rng):
    X, Y = topics(rng)
    model = IMVWL(rank=6, tol=0, max_iter=400, **AS_GIVEN).fit(*with_gaps(rng, X, Y))
    only_a = X.copy()
    only_a[:, 7:] = np.nan
    # All topics are seen in either view, so that the other one adds little.
    one, two = model.decision_function(X), model.decision_function(only_a)
    assert np.corrcoef(one.ravel(), two.ravel())[0, 1] > 0.9


def test_the_objective_does_not_rise_and_factors_are_not_negative(rng):
    data = with_gaps(rng, *topics(rng, n_rows=60))
    model = IMVWL(label_weight=2.0, lam=0.01, max_iter=130, tol=0, **AS_GIVEN).fit(*data)
    values = [record["objective"] for record in model.history_]
    assert len(values) == 130 and model.objective_ == values[-1]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))
    assert model.basis_.min() >= 0 and model.predictor_.min() >= 0
    assert model.correlations_.min() < 0


@pytest.mark.parametrize("seed", [2, 4])
def test_the_penalty_keeps_a_long_fit_from_scoring_new_rows_worse(rng, seed):
    """With noisy features, and many dimensions for training rows that mostly have one view."""
    data = naim3l.datasets.make_unpaired(
        300, n_features=(30, 20), n_labels=6, aligned=True, missing_labels=0.5, random_state=seed
    )
    X, views = naim3l.join_views(data.views)
    X += X.std() * np.random.default_rng(seed).normal(size=X.shape)
    train, truth = X[:180].copy(), data.complete_labels["view0"][180:]
    train[:70, views["view0"]] = train[70:140, views["view1"]] = np.nan

    def precision(model):
        return naim3l.evaluate(truth, model.decision_function(X[180:]))["AP"]

    short, long = (
        IMVWL(rank=40, views=views, features=None, random_state=0, max_iter=max_iter, tol=0)
        .fit(train, data.labels["view0"][:180])
        for max_iter in (60, 500)
    )  # fmt: skip
    penalised = precision(long)
    assert penalised > precision(short) - 0.01
    long.penalty_ = 1e-6 * long.penalty_
    assert penalised > precision(long) + 0.02


def test_features_of_training_rows_are_mapped_to_the_unit_interval(rng, small):
    X, Y = small
    model = IMVWL(max_iter=1, tol=0, **AS_GIVEN).fit(X, Y)
    np.testing.assert_allclose(model.centre_, X.min(axis=0))
    np.testing.assert_allclose(model.centre_ + model.scale_, X.max(axis=0))
    beyond = np.vstack([X.min(axis=0) - 1, X.max(axis=0) + 1])
    at_bounds = np.vstack([X.min(axis=0), X.max(axis=0)])
    expected = model.decision_function(at_bounds)
    np.testing.assert_allclose(model.decision_function(beyond), expected)


def test_scores_do_not_depend_on_units(rng, small):
    X, Y = small
    one = IMVWL(max_iter=100, tol=0, **AS_GIVEN).fit(X, Y).decision_function(X)
    two = (
        IMVWL(max_iter=100, tol=0, **AS_GIVEN)
        .fit(1000 * X - 40, Y)
        .decision_function(1000 * X - 40)
    )
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_positives_can_weigh_more(small):
    X, Y = small
    options = {"rank": 2, "max_iter": 100, "tol": 0, **AS_GIVEN}  # too few to fit all labels
    even, more = (IMVWL(positive_weight=w, **options).fit(X, Y) for w in (1.0, 5.0))
    assert more.decision_function(X).mean() > even.decision_function(X).mean() + 0.02


def test_the_seed_determines_the_fit(rng):
    X, Y = with_gaps(rng, *topics(rng, n_rows=60))
    options = {"rank": 4, "max_iter": 40, "tol": 0, "decide": "half", **AS_GIVEN}
    one, two = (IMVWL(**options).fit(X, Y) for _ in "12")
    np.testing.assert_array_equal(one.basis_, two.basis_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_fit_that_has_not_converged_warns(small):
    with pytest.warns(
        ConvergenceWarning, match=r"IMVWL did not converge in max_iter=2 .*\. Raise tol:"
    ):
        IMVWL(max_iter=2, **AS_GIVEN).fit(*small)


def test_an_interrupt_is_raised(small, monkeypatch):
    def interrupted(self, at):
        raise KeyboardInterrupt

    monkeypatch.setattr("naim3l_bench.methods.imvwl.WeakLabels.update_S", interrupted)
    with pytest.raises(KeyboardInterrupt):
        IMVWL(**AS_GIVEN).fit(*small)
