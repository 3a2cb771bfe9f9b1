"""Linear models of views with more columns than rows have the weights of a fit to all columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV, Kernel, PerViewLogistic, PerViewRidge, join_views
from naim3l.estimators.training import Alone
from naim3l.problem import rows as problem_rows
from naim3l.problem.cost_model import choose_form
from rows_of_wide_views import TABLES

N_LABELS = 3


def tables(rng, make=TABLES["plain"], n_rows=(14, 9)):
    """Two views with 30 columns, fewer rows, and labels of which a quarter is unknown."""
    X, Y = {}, {}
    for v, n in enumerate(n_rows):
        rows = np.vstack([make(rng) for _ in range(2)])[:n]
        X[f"view{v}"] = rows
        Y[f"view{v}"] = np.where(rows @ rng.normal(size=(30, N_LABELS)) > 0, 1.0, 0.0)
        Y[f"view{v}"][rng.random((n, N_LABELS)) < 0.25] = np.nan
        Y[f"view{v}"][np.arange(n), np.arange(n) % N_LABELS] = 1  # bounded without a ridge, too
        Y[f"view{v}"][0, 1:], Y[f"view{v}"][1, 0] = 0, 0  # with both values of every label
    return X, Y


@pytest.fixture
def fit_both(monkeypatch):
    """The same model with and without rotation, from statistics, whose W-step is exact."""

    def fit(model, X, Y):
        with monkeypatch.context() as patch:
            patch.setattr(Alone, "in_form", lambda _, of: choose_form(of, "statistics"))
            rotated = clone(model).fit(X, Y)
            patch.setattr(problem_rows, "is_rotated", lambda X: False)
            return rotated, clone(model).fit(X, Y)

    return fit


def assert_same_weights(rotated, unrotated, X, tol=1e-8):
    """Equal intercepts, and equal weights in the span of the rows, which are all that is left."""
    for view, table in X.items():
        span = np.linalg.pinv(table) @ table
        W, expected = rotated.coef_[view], span @ unrotated.coef_[view]
        size = np.abs(expected).max()
        assert_allclose(W, expected, rtol=0, atol=tol * size)
        assert_allclose(span @ W, W, rtol=0, atol=1e-12 * size)
        assert_allclose(rotated.intercept_[view], unrotated.intercept_[view], rtol=0, atol=tol)


EXACT = {"features": None, "tol": 1e-11, "max_iter": 4000}


@pytest.mark.parametrize(
    ("make", "fit_intercept", "ridge"),
    [("plain", True, 0), ("plain", False, 1), ("duplicate rows", True, "auto"),
     ("duplicate rows", False, 0), ("rank 3", True, 1), ("rank 3", False, "auto")],
)  # fmt: skip
def test_weights_equal_those_without_rotation(rng, fit_both, ridge, fit_intercept, make):
    X, Y = tables(rng, TABLES[make])
    Y["view0"][5] = Y["view1"][3] = np.nan if ridge else 1  # then "auto" is not 0
    both = fit_both(NAIM3L(0.1, ridge=ridge, fit_intercept=fit_intercept, **EXACT), X, Y)
    assert_same_weights(*both, X)
    assert both[0].ridge_ == pytest.approx(both[1].ridge_, rel=1e-8)
    assert both[0].objective_ == pytest.approx(both[1].objective_, rel=1e-9)


def test_sparse_tables_have_the_weights_of_dense_ones(rng, fit_both):
    X, Y = tables(rng)
    model = NAIM3L(ridge=1, positive_weight=3.0, **EXACT)
    expected = fit_both(model, X, Y)[1]
    assert_same_weights(model.fit({v: sparse.csr_array(X[v]) for v in X}, Y), expected, X)


def test_rows_of_a_wide_table_may_lack_views(rng, fit_both):
    X, Y = tables(rng, n_rows=(14, 14))
    X["view0"][2], X["view1"][3:6] = np.nan, np.nan
    wide, views = join_views(X)
    both = fit_both(NAIM3L(views=views, ridge=1, **EXACT), wide, Y["view0"])
    assert_same_weights(*both, {view: rows[~np.isnan(rows[:, 0])] for view, rows in X.items()})
    assert_allclose(*(model.decision_function(wide) for model in both), atol=1e-7)


def test_models_without_coupling_have_the_same_weights(rng, fit_both):
    X, Y = tables(rng)
    assert_same_weights(*fit_both(PerViewRidge(0.1, features=None), X, Y), X)
    # Within the tolerance of its solver.
    assert_same_weights(*fit_both(PerViewLogistic(features=None), X, Y), X, tol=1e-2)


def test_search_thresholds_and_comparison_are_those_without_rotation(rng, fit_both):
    X, Y = tables(rng, n_rows=(18, 18))
    model = NAIM3LCV([0.1, 1.0], [1.0], cv=2, decide="f1", random_state=0, **EXACT)
    rotated, unrotated = fit_both(model, X, Y)
    assert (rotated.lam_, rotated.ridge_) == (unrotated.lam_, unrotated.ridge_)
    assert_same_weights(rotated, unrotated, X)
    scores = "mean_test_score"
    assert_allclose(rotated.cv_results_[scores], unrotated.cv_results_[scores], atol=1e-8)
    # Fits without a fold are coarse.
    for view, values in unrotated.thresholds_.items():
        assert_allclose(rotated.thresholds_[view], values, rtol=0.01)
        assert_allclose(rotated.predict_proba(X)[view], unrotated.predict_proba(X)[view], atol=0.01)


def test_a_view_with_a_kernel_leaves_the_others_rotated(rng, fit_both):
    X, Y = tables(rng, n_rows=(18, 18))
    options = EXACT | {"features": {"view0": Kernel(recipe=None), "view1": None}}
    model = NAIM3LCV([0.1], [1.0], cv=2, random_state=0, **options)
    rotated, unrotated = fit_both(model, X, Y)
    assert rotated.coef_["view1"].shape == (30, N_LABELS) and list(rotated.dual_coef_) == ["view0"]
    for view, scores in unrotated.decision_function(X).items():
        assert_allclose(rotated.decision_function(X)[view], scores, atol=1e-7)


def test_start_weights_count_by_their_component_in_the_span(rng):
    X, Y = tables(rng)
    W = {view: rng.normal(size=(31, N_LABELS)) for view in X}
    inside = {view: W_v.copy() for view, W_v in W.items()}
    for view, rows in X.items():
        inside[view][:-1] = np.linalg.pinv(rows) @ rows @ W[view][:-1]
    model = NAIM3L(ridge=1, features=None, tol=1e-3)
    first, second = (clone(model).set_params(init=of).fit(X, Y) for of in (W, inside))
    assert_allclose(first.history_[0]["objective"], second.history_[0]["objective"], rtol=1e-9)
    assert_allclose(first.coef_["view1"], second.coef_["view1"], atol=1e-9)
    with pytest.raises(ValueError, match=r"of shape \(31, 3\)"):
        NAIM3L(features=None, init={view: W[view][1:] for view in X}).fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_algorithm_of_the_paper_draws_start_weights_of_all_columns(rng, fit_both):
    X, Y = tables(rng)
    model = NAIM3L(solver="paper", features=None, max_iter=3, random_state=0)
    first, second = fit_both(model, X, Y)
    assert_array_equal(first.coef_["view1"], second.coef_["view1"])
