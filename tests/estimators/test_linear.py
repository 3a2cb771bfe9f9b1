"""Linear models of views with more columns than rows have the weights of a fit to all columns."""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

import naim3l
from naim3l import NAIM3L, NAIM3LCV, PerViewLogistic, PerViewRidge, join_views
from naim3l.estimators import compared, naim3l_cv
from naim3l.estimators import naim3l as naim3l_model
from naim3l.explain import top_features
from naim3l.problem import rows as problem_rows
from naim3l.problem.choice import choose_form
from naim3l.report import summarise
from rows_of_wide_views import TABLES

N_LABELS = 3


def tables(rng, make=TABLES["plain"], n_rows=(14, 9), container=np.asarray):
    """Two views with 30 columns, fewer rows, and labels of which a quarter is unknown."""
    X, Y = {}, {}
    for v, n in enumerate(n_rows):
        rows = np.vstack([make(rng) for _ in range(2)])[:n]
        X[f"view{v}"] = container(rows)
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
            patch.setattr(naim3l_model, "choose_form", lambda of: choose_form(of, "compressed"))
            rotated = clone(model).fit(X, Y)
            patch.setattr(problem_rows, "pays", lambda X: False)
            return rotated, clone(model).fit(X, Y)

    return fit


def assert_same_weights(rotated, unrotated, X, tol=1e-8):
    """Equal intercepts, and equal weights in the span of the rows, which are all that is left."""
    for view, table in X.items():
        dense = table.toarray() if sparse.issparse(table) else np.asarray(table)
        span = np.linalg.pinv(dense) @ dense
        W, expected = rotated.coef_[view], span @ unrotated.coef_[view]
        size = np.abs(expected).max()
        assert_allclose(W, expected, rtol=0, atol=tol * size)
        assert_allclose(span @ W, W, rtol=0, atol=1e-12 * size)
        assert_allclose(rotated.intercept_[view], unrotated.intercept_[view], rtol=0, atol=tol)


EXACT = {"transformer": None, "tol": 1e-11, "max_iter": 4000}


@pytest.mark.parametrize("make", ["plain", "duplicate rows", "rank 3"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [0, 1, "auto"])
def test_weights_equal_those_without_rotation(rng, fit_both, ridge, fit_intercept, make):
    X, Y = tables(rng, TABLES[make])
    Y["view0"][5] = Y["view1"][3] = np.nan if ridge else 1  # then "auto" is not 0
    both = fit_both(NAIM3L(0.1, ridge=ridge, fit_intercept=fit_intercept, **EXACT), X, Y)
    assert_same_weights(*both, X)
    assert both[0].ridge_ == pytest.approx(both[1].ridge_, rel=1e-8)
    assert both[0].objective_ == pytest.approx(both[1].objective_, rel=1e-9)


@pytest.mark.parametrize("positive_weight", [1.0, 3.0])
def test_sparse_tables_have_the_weights_of_dense_ones(rng, fit_both, positive_weight):
    X, Y = tables(rng)
    model = NAIM3L(ridge=1, positive_weight=positive_weight, **EXACT)
    expected = fit_both(model, X, Y)[1]
    assert_same_weights(model.fit({v: sparse.csr_array(X[v]) for v in X}, Y), expected, X)


def test_rows_of_a_wide_table_may_lack_views(rng, fit_both):
    X, Y = tables(rng, n_rows=(14, 14))
    X["view0"][2], X["view1"][3:6] = np.nan, np.nan
    wide, views = join_views(X)
    both = fit_both(NAIM3L(views=views, ridge=1, **EXACT), wide, Y["view0"])
    assert_same_weights(*both, {view: rows[~np.isnan(rows[:, 0])] for view, rows in X.items()})
    assert_allclose(*(model.decision_function(wide) for model in both), atol=1e-7)


@pytest.mark.parametrize("ridge", [0.1, 10.0])
def test_ridge_regression_has_the_same_weights(rng, fit_both, ridge):
    X, Y = tables(rng)
    assert_same_weights(*fit_both(PerViewRidge(ridge, transformer=None), X, Y), X)


def test_logistic_regression_has_the_same_weights_within_its_tolerance(rng, fit_both):
    X, Y = tables(rng)
    assert_same_weights(*fit_both(PerViewLogistic(transformer=None), X, Y), X, tol=1e-2)


def test_search_thresholds_and_comparison_are_those_without_rotation(rng, fit_both):
    X, Y = tables(rng, n_rows=(18, 18))
    options = {"calibrate": True, "threshold": "f1", "compare": True, "random_state": 0}
    rotated, unrotated = fit_both(NAIM3LCV([0.1, 1.0], [1.0], cv=2, **options, **EXACT), X, Y)
    assert (rotated.lam_, rotated.ridge_) == (unrotated.lam_, unrotated.ridge_)
    assert_same_weights(rotated, unrotated, X)
    assert_same_weights(rotated.uncoupled_, unrotated.uncoupled_, X)
    scores = "mean_test_score"
    assert_allclose(rotated.cv_results_[scores], unrotated.cv_results_[scores], atol=1e-8)
    # Fits without a fold are coarse.
    for view, values in unrotated.thresholds_.items():
        assert_allclose(rotated.thresholds_[view], values, rtol=0.01)
        assert_allclose(rotated.predict_proba(X)[view], unrotated.predict_proba(X)[view], atol=0.01)


def test_a_view_with_a_kernel_leaves_the_others_rotated(rng, fit_both):
    X, Y = tables(rng, n_rows=(18, 18))
    kernel = {"view0": "rbf", "view1": None}
    model = NAIM3LCV([0.1], [1.0], cv=2, kernel=kernel, random_state=0, **EXACT)
    rotated, unrotated = fit_both(model, X, Y)
    assert rotated.coef_["view1"].shape == (30, N_LABELS)
    for view, scores in unrotated.decision_function(X).items():
        assert_allclose(rotated.decision_function(X)[view], scores, atol=1e-7)


def test_a_fit_resumes_from_its_checkpoint(rng, tmp_path):
    X, Y = tables(rng)
    model = NAIM3L(ridge=1, checkpoint=tmp_path / "fit.npz", random_state=0, **EXACT)
    first = clone(model).fit(X, Y)
    again = clone(model).fit(X, Y)
    assert again.n_iter_ == first.n_iter_
    assert_array_equal(again.coef_["view0"], first.coef_["view0"])


def test_start_weights_count_by_their_component_in_the_span(rng):
    X, Y = tables(rng)
    W = {view: rng.normal(size=(31, N_LABELS)) for view in X}
    inside = {view: W_v.copy() for view, W_v in W.items()}
    for view, rows in X.items():
        inside[view][:-1] = np.linalg.pinv(rows) @ rows @ W[view][:-1]
    model = NAIM3L(ridge=1, transformer=None, tol=1e-3)
    first, second = (clone(model).set_params(init=of).fit(X, Y) for of in (W, inside))
    assert_allclose(first.history_[0]["objective"], second.history_[0]["objective"], rtol=1e-9)
    assert_allclose(first.coef_["view1"], second.coef_["view1"], atol=1e-9)
    with pytest.raises(ValueError, match=r"of shape \(31, 3\)"):
        NAIM3L(transformer=None, init={view: W[view][1:] for view in X}).fit(X, Y)


def test_a_fit_started_at_its_weights_ends_there(rng):
    X, Y = tables(rng)
    model = NAIM3L(ridge=1, **EXACT).fit(X, Y)
    start = {view: np.vstack([model.coef_[view], model.intercept_[view]]) for view in X}
    again = NAIM3L(ridge=1, init=start, **EXACT).fit(X, Y)
    assert_allclose(again.coef_["view0"], model.coef_["view0"], atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_algorithm_of_the_paper_draws_start_weights_of_all_columns(rng, fit_both):
    X, Y = tables(rng)
    model = NAIM3L(solver="paper", transformer=None, max_iter=3, random_state=0)
    first, second = fit_both(model, X, Y)
    assert_array_equal(first.coef_["view1"], second.coef_["view1"])


def test_files_explanations_and_reports_have_the_original_columns(rng, tmp_path):
    X, Y = tables(rng)
    frames = {v: pd.DataFrame(X[v], columns=[f"term{j}" for j in range(30)]) for v in X}
    model = NAIM3L(ridge=1, transformer=None).fit(frames, Y)
    scores = model.decision_function(frames)["view0"]
    assert_allclose(scores, X["view0"] @ model.coef_["view0"] + model.intercept_["view0"])
    model.save(tmp_path / "model.skops")
    loaded = naim3l.load(tmp_path / "model.skops")
    assert_array_equal(loaded.decision_function(frames)["view0"], scores)
    features = top_features(model, "label1")["for"]
    assert {feature.column for feature in features} <= set(frames["view0"].columns)
    assert [len(of) for of in summarise(model, frames, Y)["columns"].values()] == [30, 30]


@pytest.mark.parametrize(
    ("model", "titles"),
    [
        (NAIM3L(calibrate=True), {"fit": 0, "held-out folds": 3}),
        (NAIM3LCV([0.1], [1.0], compare=True, threshold="f1"), {"without coupling": 4}),
    ],
    ids=["NAIM3L", "NAIM3LCV"],
)
def test_every_search_has_a_progress_bar(rng, monkeypatch, model, titles):
    X, Y = tables(rng, n_rows=(18, 18))
    steps = {}

    @contextmanager
    def bar(title, total, *, shown):
        assert shown
        steps[title] = []
        yield lambda note="", by=1: steps[title].append(by)
        assert title == "fit" or sum(steps[title]) == total

    for module in (compared, naim3l_model, naim3l_cv):
        monkeypatch.setattr(module, "progress_bar", bar)
    clone(model).set_params(transformer=None, verbose=1, random_state=0).fit(X, Y)
    assert all(sum(steps[title]) >= total for title, total in titles.items())
