"""NAIM3LCV in rounds: all sites choose what one search of all tables would choose."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV, evaluate
from naim3l.datasets import make_unpaired
from naim3l.estimators import base
from naim3l.federated import simulate
from naim3l.federated.rounds import fit_in_rounds

SEARCH = NAIM3LCV(lams=[0.05, 0.5], ridges=[0.1, 10.0, 1000.0], cv=3, decide="sign", random_state=0)


def make_sites(missing=0.3):
    """Three tables at two sites, of which the second lacks a label."""
    data = make_unpaired(
        (110, 90, 100),
        n_features=(8, 9, 10),
        n_labels=5,
        missing_labels=missing,
        noise=1.5,
        random_state=1,
    )
    X = {view: pd.DataFrame(of).add_prefix("x") for view, of in data.views.items()}
    y = {view: pd.DataFrame(of).add_prefix("dx") for view, of in data.labels.items()}
    y["view2"]["dx3"] = np.nan
    names = {"north": ["view0", "view1"], "south": ["view2"]}
    sites = {site: tuple({v: of[v] for v in own} for of in (X, y)) for site, own in names.items()}
    return sites, X, y


@pytest.fixture
def dealt(monkeypatch):
    """Folds that sites deal, by view; a search of all tables takes the same."""
    found, original = {}, base.hold_out_folds

    def deal(problem, *given, **options):
        if not set(problem.names) <= found.keys():
            folds = original(problem, *given, **options)
            found.update(
                {v: folds[r] for v, r in zip(problem.names, problem.row_slices, strict=True)}
            )
        return np.concatenate([found[view] for view in problem.names])

    monkeypatch.setattr(base, "hold_out_folds", deal)
    return found


def held_out_score(model, fold, folds, X, y):
    """Mean over tables of macro-AUC on the entries of a fold, of a fit without them."""
    without = {view: y[view].mask(folds[view] == fold) for view in y}
    scores = model.fit(X, without).decision_function(X)
    hidden = {view: y[view].where(folds[view] == fold) for view in y}
    return np.mean([evaluate(hidden[view], scores[view])["macro-AUC"] for view in X])


@pytest.mark.filterwarnings("ignore:.*unknown here")
def test_pairs_are_measured_on_the_held_out_rows_of_all_sites(dealt, monkeypatch):
    """By definition: every pair fitted without every fold to all tables in one place."""
    monkeypatch.setattr(NAIM3LCV, "_exhaustive", True)
    sites, X, y = make_sites()
    found = simulate(sites, SEARCH, minimum_count=0).models
    results = found["north"].cv_results_
    expected = [
        np.mean([held_out_score(NAIM3L(lam, ridge=ridge), k, dealt, X, y) for k in range(3)])
        for lam, ridge in zip(results["lam"], results["ridge"], strict=True)
    ]
    assert_allclose(results["mean_test_score"], expected, atol=0.002)  # of coarser fits
    best = np.argmax(expected)
    chosen = NAIM3L(results["lam"][best], ridge=results["ridge"][best]).fit(X, y)
    for site, (own, _) in sites.items():
        model = found[site]
        assert (model.lam_, model.ridge_) == (chosen.lam, chosen.ridge)
        for view in own:
            assert_allclose(model.coef_[view], chosen.coef_[view], atol=1e-8)
            assert_allclose(model.intercept_[view], chosen.intercept_[view], atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*unknown here")
@pytest.mark.parametrize(
    ("missing", "options"),
    [
        (0.3, {}),
        (0.8, {}),  # few known: simple pairs, and ridges of 0 are without bound
        (0.3, {"metric": "rankings", "decide": "guarded"}),
        (0.5, {"metric": "log-loss", "variant": "low-rank", "cv": 4}),
    ],
)
def test_the_search_is_that_of_all_tables_in_one_place(dealt, missing, options):
    """Also which pairs are dropped, and what a table of results says; only folds are the same."""
    sites, X, y = make_sites(missing)
    search = NAIM3LCV(**{"lams": 4, "random_state": 0, "decide": "sign"} | options)
    found = simulate(sites, search, minimum_count=0).models
    central = search.fit(X, y)
    for site, (own, _) in sites.items():
        model = found[site]
        assert (model.lam_, model.ridge_) == (central.lam_, central.ridge_)
        assert model.metric_ == central.metric_
        for name, values in central.cv_results_.items():
            assert_allclose(model.cv_results_[name], values, atol=1e-6, err_msg=name)
        for view in own:
            assert_allclose(model.coef_[view], central.coef_[view], atol=1e-6)
        assert model.has_probabilities == central.has_probabilities
    if missing == 0.8:
        assert np.isnan(central.cv_results_["mean_test_score"]).any()


def test_what_a_search_sends_depends_on_labels_and_pairs_alone():
    """Of a site with other columns and rows, messages have the same sizes."""
    sites, X, y = make_sites(0.0)
    fixed = NAIM3LCV(lams=[0.1], ridges=[1.0, 10.0], cv=2, tol=0, max_iter=3, random_state=0)
    sent = [set(simulate(sites, fixed).bytes_sent["north"])]
    X, y = sites["north"]
    wider = {v: pd.concat([of, of.add_suffix("b")], axis=1).iloc[:60] for v, of in X.items()}
    sites["north"] = wider, {view: of[:60] for view, of in y.items()}
    sent.append(set(simulate(sites, fixed).bytes_sent["north"]))
    assert sent[0] == sent[1]


class Stop(Exception):
    """Ends a fit after its first message."""


def first_ask(model):
    def exchange(ask, arrays):
        asked.append(ask)
        raise Stop

    asked = []
    with pytest.raises(Stop):
        fit_in_rounds(*make_sites(0.0)[0]["north"], model, exchange, site="north")
    return asked[0].what


def test_sites_find_out_at_once_that_they_search_differently():
    alike = first_ask(SEARCH)
    assert alike == first_ask(clone(SEARCH).set_params(random_state=7))
    others = {"cv": 4}, {"lams": [0.1]}, {"metric": "AP"}, {"decide": "guarded"}, {"tol": 1e-3}
    found = {first_ask(NAIM3LCV(**SEARCH.get_params() | other)) for other in others}
    assert len(found | {alike}) == 1 + len(others)


def test_folds_are_fitted_one_after_the_other():
    with pytest.raises(ValueError, match="rounds need n_jobs=None"):
        simulate(make_sites()[0], NAIM3LCV(n_jobs=2))
