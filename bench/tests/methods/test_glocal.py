"""GLOCAL: planted factors, missing views and labels, and the estimator around the solver."""

from itertools import pairwise

import numpy as np
import pytest

from naim3l_bench.methods import GLOCAL

VIEWS = {"a": slice(0, 5), "b": slice(5, 9)}
AS_GIVEN = {"views": VIEWS, "features": None, "random_state": 0}


def planted(rng, n_rows=300, rank=2, n_labels=6):
    """Rows of two views; labels are signs of combinations of few latent labels."""
    X = rng.normal(size=(n_rows, 9))
    return X, (X @ rng.normal(size=(9, rank)) @ rng.normal(size=(rank, n_labels)) > 0) * 1.0


def test_recovers_planted_labels_of_complete_rows(rng):
    X, Y = planted(rng)
    model = GLOCAL(rank=2, **AS_GIVEN).fit(X[:200], Y[:200])
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.9
    assert np.linalg.matrix_rank(np.vstack([model.coef_, model.intercept_])) == 2


def test_learns_from_missing_views_and_labels(rng):
    X, Y = planted(rng)
    train, known = X[:200].copy(), Y[:200].copy()
    train[::5, :5], train[1::5, 5:] = np.nan, np.nan
    known[rng.random(known.shape) < 0.5] = np.nan
    model = GLOCAL(rank=2, **AS_GIVEN).fit(train, known)
    np.testing.assert_allclose(model.fill_, np.nanmean(train, axis=0))
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.85
    missing = np.isnan(known)
    assert np.mean(model.impute_labels(train, known)[missing] == Y[:200][missing]) > 0.75


def test_the_objective_does_not_rise(rng):
    model = GLOCAL(lam1=1.0, lam2=1.0, max_iter=15, tol=0, **AS_GIVEN).fit(*planted(rng))
    values = [record["objective"] for record in model.history_]
    assert len(values) == 15 and model.objective_ == values[-1]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))


def test_without_an_intercept_scores_are_linear(rng):
    model = GLOCAL(fit_intercept=False, **AS_GIVEN).fit(*planted(rng, n_rows=60))
    assert not model.intercept_.any()


@pytest.mark.parametrize("n_rows", [2, 3])
@pytest.mark.filterwarnings("ignore:labels never observed")
def test_fewer_rows_than_clusters(rng, n_rows):
    X, Y = planted(rng, n_rows=40)
    assert GLOCAL(n_clusters=5, **AS_GIVEN).fit(X[:n_rows], Y[:n_rows]).predict(X).shape == Y.shape


@pytest.mark.parametrize("scale", [1.0, 1e8])
@pytest.mark.filterwarnings("ignore:view .*varies by:naim3l.DataWarning")
def test_more_columns_than_rows_and_next_to_no_ridge(rng, scale):
    X = scale * rng.normal(size=(12, 40))
    Y = (X[:, :3] > 0).astype(float)
    model = GLOCAL(ridge=1e-10, max_iter=5, tol=0, features=None, random_state=0).fit(X, Y)
    assert (model.predict(X) == Y).all()


def test_equal_rows_are_one_cluster():
    X, Y = np.ones((6, 9)), np.tile([[1.0], [0.0]], (3, 1))
    model = GLOCAL(**AS_GIVEN).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), 0, atol=1e-8)


def test_the_seed_determines_the_fit(rng):
    X, Y = planted(rng, n_rows=60)
    one, two = (GLOCAL(decide="guarded", **AS_GIVEN).fit(X, Y) for _ in "12")
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
