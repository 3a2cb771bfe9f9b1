"""Sites apart learn the weights of one fit to all of their tables, however this is done."""

import pytest
from numpy.testing import assert_allclose

from naim3l import NAIM3L, LabelSubspaceRidge
from naim3l.federated import simulate
from sites_apart import LABELS, JoinedSites, make_sites

MODELS = {
    "one round": (LabelSubspaceRidge(ridge=2.0, shrinkage=0.6, decide="sign"), 1e-10),
    "rounds": (NAIM3L(lam=0.5, ridge=1.5), 1e-8),
    "rounds, low-rank": (NAIM3L(lam=0.5, ridge=1.5, variant="low-rank", tol=1e-7), 1e-8),
}


def all_tables(sites):
    X, y = ({view: of for pair in sites.values() for view, of in pair[i].items()} for i in (0, 1))
    return X, {view: of.reindex(columns=LABELS) for view, of in y.items()}


def in_chunks(tables, dd):
    return {view: dd.from_pandas(of, npartitions=3) for view, of in tables.items()}


def fit_sites(way, sites, model, request):
    """Models of all sites, by one of the `WAYS` in which their tables and sums can be handled."""
    if way == "tables in chunks":
        dd = request.getfixturevalue("dd")
        sites = {site: tuple(in_chunks(of, dd) for of in pair) for site, pair in sites.items()}
    if way == "secure sums":
        reason = "needs cryptography: pip install 'naim3l[federated]'"
        pytest.importorskip("cryptography", reason=reason)
    if way == "over a network":
        pytest.importorskip("flwr", reason="needs flwr: pip install 'naim3l[flwr]'")
        fit = JoinedSites(request.getfixturevalue("tmp_path"), list(sites), model)
        return fit.of_all(sites, model, labels=LABELS)
    secure = way == "secure sums"
    return simulate(sites, model, labels=LABELS, minimum_count=0, secure=secure).models


# What is lost: by rounding, by other sums of chunks, and by the multiples that masks hide.
WAYS = {"tables in memory": 0.0, "tables in chunks": 1e-6, "secure sums": 1e-6}
WAYS["over a network"] = 0.0
MARKS = {
    "tables in chunks": [pytest.mark.dask],
    "over a network": [pytest.mark.flwr, pytest.mark.filterwarnings("ignore::DeprecationWarning")],
}
CASES = [
    pytest.param(how, way, marks=MARKS.get(way, ()))
    for how in MODELS
    for way in WAYS
    if how != "one round" or way not in ("secure sums", "over a network")  # files are for people
    if how != "rounds, low-rank" or way != "over a network"  # takes a while
]
LAYOUTS = ["tables apart", "several tables", "rows of one table"]


@pytest.mark.filterwarnings("ignore:.*unknown here")
@pytest.mark.parametrize(("how", "way"), CASES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_sites", [2, 4])
def test_sites_learn_the_weights_of_one_fit(how, n_sites, layout, way, request):
    (model, accuracy), sites = MODELS[how], make_sites(n_sites, layout)
    central = model.fit(*all_tables(sites))
    coef, intercept = central.coef_, central.intercept_
    found = fit_sites(way, sites, model, request)
    accuracy = max(accuracy, WAYS[way])
    for site, (own, _) in sites.items():
        mine = found[site]
        assert mine.views_ == list(own) and list(mine.label_names_) == LABELS
        for view in own:
            assert_allclose(mine.coef_[view], coef[view], atol=accuracy, rtol=0)
            assert_allclose(mine.intercept_[view], intercept[view], atol=accuracy, rtol=0)


@pytest.mark.dask
@pytest.mark.filterwarnings("ignore:.*unknown here")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", MODELS)
def test_so_does_one_fit_to_tables_in_chunks(how, layout, dd):
    model = MODELS[how][0]
    X, y = all_tables(make_sites(4, layout))
    central = model.fit(X, y).coef_
    found = model.fit(in_chunks(X, dd), in_chunks(y, dd)).coef_
    for view in X:
        assert_allclose(found[view], central[view], atol=1e-6)
