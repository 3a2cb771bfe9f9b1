"""NAIM3L in rounds: what crosses sites, and what happens if they are not alike."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from naim3l import NAIM3L, DataWarning, LabelSubspaceRidge, PerViewRidge
from naim3l.datasets import make_unpaired
from naim3l.federated import simulate
from naim3l.federated.rounds import SHRINK, Ask, answer
from naim3l.federated.shares import symmetric, triangles
from naim3l.solvers.nuclear import singular_value_threshold, trace_norm

MODEL = NAIM3L(lam=0.4, ridge=1.0)


@pytest.fixture(scope="module")
def data():
    return make_unpaired(
        (90, 80), n_features=(8, 9), n_labels=4, missing_labels=0.3, noise=1, random_state=0
    )


@pytest.fixture(scope="module")
def sites(data):
    views = zip(("north", "south"), data.views, strict=True)
    return {site: ({v: data.views[v]}, {v: data.labels[v]}) for site, v in views}


def test_triangles_and_back(rng):
    G = rng.normal(size=(3, 2, 5, 5))
    G = G + G.swapaxes(-1, -2)
    assert triangles(G).shape == (3, 2, 15)
    assert_allclose(symmetric(triangles(G)), G, rtol=0)


def test_shrinkage_of_sums_thresholds_the_stack(rng):
    """Rows of two sites, shrunken apart by what their Gram matrices give together."""
    A, B = rng.normal(size=(7, 4)), rng.normal(size=(3, 4))
    grams = {s: {"grams": triangles((M.T @ M)[None])} for s, M in (("a", A), ("b", B))}
    found = answer(dict.fromkeys("ab", Ask(SHRINK, 0.9)), grams)
    T, stack = symmetric(found["shrinkage"])[0], np.vstack([A, B])
    expected = singular_value_threshold(stack, 0.9)
    assert_allclose(np.vstack([A @ T, B @ T]), expected, atol=1e-12)
    assert_allclose(found["norm"], trace_norm(stack), rtol=1e-12)


def test_what_is_sent_depends_on_labels_alone(sites, data):
    """Per iteration the label Grams and the global one, as triangles, and nine numbers."""
    found, c = simulate(sites, MODEL, minimum_count=0), 4
    triangle = c * (c + 1) // 2
    sizes = {8 * n for n in (1, 2, 2 * c, c + 1, 3, 9, triangle, c * triangle)}
    for site in sites:
        sent = found.bytes_sent[site]
        assert set(sent) <= sizes
        n_iter = found.models[site].n_iter_
        assert sent.count(8 * c * triangle) >= n_iter
        assert len(sent) <= 5 * n_iter + 10
    wider = {s: ({v: np.hstack([X, X]) for v, X in x.items()}, y) for s, (x, y) in sites.items()}
    again = simulate(wider, MODEL, minimum_count=0)
    assert set(again.bytes_sent["north"]) <= sizes


def test_rates_are_those_of_all_sites_and_probabilities_local(sites, data):
    model = NAIM3L(lam=0.4, ridge=1.0, decide="guarded", random_state=0)
    found, central = simulate(sites, model), model.fit(data.views, data.labels)
    for site, (X, _) in sites.items():
        [view] = X
        assert_allclose(found.models[site].base_rates_, central.base_rates_, rtol=1e-14)
        assert_allclose(found.models[site].coef_[view], central.coef_[view], atol=1e-8)
        P = found.models[site].predict_proba(X)[view]
        assert np.abs(P - central.predict_proba(X)[view]).mean() < 0.1


def test_sites_that_are_not_alike_are_told(sites):
    north, (X, y) = sites["north"], sites["south"]
    fewer = {"north": north, "south": (X, {v: Y[:, :3] for v, Y in y.items()})}
    with pytest.raises(ValueError, match="'north' and 'south' are not at the same step"):
        simulate(fewer, MODEL, minimum_count=0)
    with pytest.raises(ValueError, match="for numbers and the end"):
        answer({"a": Ask("numbers"), "b": Ask("the end")}, {"a": {}, "b": {}})


def test_an_error_at_one_site_ends_the_others(sites):
    X, y = sites["south"]
    broken = {"north": sites["north"], "south": ({v: A * np.inf for v, A in X.items()}, y)}
    with pytest.raises(ValueError, match="infin"), np.errstate(invalid="ignore"):
        simulate(broken, MODEL)


def test_a_label_that_takes_part_nowhere_is_named(sites):
    rare = {}
    for site, (X, y) in sites.items():
        rare[site] = X, {v: np.where(np.arange(4) == 1, np.nan, Y) for v, Y in y.items()}
    with pytest.warns(DataWarning, match="labels 'label1' take part at no site"):
        simulate(rare, MODEL, minimum_count=0)


@pytest.mark.filterwarnings("ignore:.*take part at no site", "ignore:.*nothing is said of them")
@pytest.mark.parametrize("decide", ["sign", "guarded"])
def test_a_label_that_takes_part_nowhere_is_learned_from_the_own_rows(sites, decide):
    """By ridge regression, and with the rate of the own rows."""
    n_yes, rare = {"north": 4, "south": 8}, {}
    for site, (X, y) in sites.items():
        [(view, Y)] = y.items()
        yes = np.arange(len(Y)) < n_yes[site]
        rare[site] = X, {view: np.where(np.arange(4) == 1, yes[:, None], Y)}
    model = NAIM3L(lam=0.4, ridge=1.0, decide=decide, random_state=0)
    found = simulate(rare, model).models
    for site, (X, y) in rare.items():
        [view], mine = X, found[site]
        alone = PerViewRidge(ridge=1.0).fit(X, y).decision_function(X)[view]
        assert_allclose(mine.decision_function(X)[view][:, 1], alone[:, 1], atol=1e-10)
        rate = (n_yes[site] + 1) / (len(X[view]) + 2)
        assert_allclose(mine.base_rates_[1], rate)
        if decide == "guarded":
            P = mine.predict_proba(X)[view][:, 1]
            assert_allclose(P.mean(), rate, rtol=0.05)
            yes = np.arange(len(P)) < n_yes[site]
            assert P[yes].mean() > P[~yes].mean()


@pytest.mark.filterwarnings("ignore:.*nothing is said of them")
def test_so_is_a_label_that_is_too_rare_at_one_site(sites):
    X, y = sites["south"]
    [(view, Y)] = y.items()
    later = np.arange(len(Y))[:, None] >= 12
    few = np.where((np.arange(4) == 2) & later, np.nan, Y)
    hidden = np.where(np.arange(4) == 2, np.nan, Y)
    found = simulate(sites | {"south": (X, {view: few})}, MODEL).models
    plain = simulate(sites | {"south": (X, {view: hidden})}, MODEL).models
    alone = PerViewRidge(ridge=1.0).fit(X, {view: few})
    assert_allclose(found["south"].coef_[view][:, 2], alone.coef_[view][:, 2], atol=1e-10)
    others = [0, 1, 3]  # as if the site did not have the label
    mine, expected = (of["south"].coef_[view][:, others] for of in (found, plain))
    assert_allclose(mine, expected, atol=1e-12)
    [of] = sites["north"][0]
    assert_allclose(found["north"].coef_[of], plain["north"].coef_[of], atol=1e-12)
    assert found["north"].base_rates_[2] == found["south"].base_rates_[2]


def test_models_that_cannot_be_fitted_in_rounds_are_refused(sites):
    with pytest.raises(ValueError, match="ridge must be a number"):
        simulate(sites, NAIM3L())
    for other in ({"solver": "paper"}, {"init": {}}, {"device": "auto"}):
        with pytest.raises(ValueError, match="rounds need solver='auto'"):
            simulate(sites, NAIM3L(ridge=1.0, **other))
    with pytest.raises(TypeError, match="rounds are for NAIM3L and NAIM3LCV, got str"):
        simulate(sites, "NAIM3L")
    with pytest.raises(ValueError, match="there are no sites"):
        simulate({}, MODEL)


def test_one_round_is_by_files(sites):
    found = simulate(sites, LabelSubspaceRidge(ridge=1.0, decide="sign"), minimum_count=0)
    assert len(found.bytes_sent["north"]) == 1
    assert 1000 < found.bytes_sent["north"][0] < found.bytes_received["north"][0] < 3000
