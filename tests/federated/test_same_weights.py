"""Sites apart learn the weights of one fit to all of their tables, however this is done."""

import pytest
from numpy.testing import assert_allclose

from naim3l import NAIM3L, LabelSubspaceRidge
from naim3l.federated import simulate
from sites_apart import LABELS, make_sites

MODELS = {
    "one round": (LabelSubspaceRidge(ridge=2.0, shrinkage=0.6, decide="sign"), 1e-10),
    "rounds": (NAIM3L(lam=0.5, ridge=1.5), 1e-8),
    "rounds, low-rank": (NAIM3L(lam=0.5, ridge=1.5, variant="low-rank", tol=1e-7), 1e-8),
}


def all_tables(sites):
    X, y = ({view: of for pair in sites.values() for view, of in pair[i].items()} for i in (0, 1))
    return X, {view: of.reindex(columns=LABELS) for view, of in y.items()}


@pytest.mark.filterwarnings("ignore:.*unknown here")
@pytest.mark.parametrize("layout", ["tables apart", "several tables", "rows of one table"])
@pytest.mark.parametrize("n_sites", [2, 4])
@pytest.mark.parametrize("how", MODELS)
def test_sites_learn_the_weights_of_one_fit(how, n_sites, layout):
    (model, accuracy), sites = MODELS[how], make_sites(n_sites, layout)
    X, y = all_tables(sites)
    central = model.fit(X, y)
    coef, intercept = central.coef_, central.intercept_
    found = simulate(sites, model, labels=LABELS, minimum_count=0)
    for site, (own, _) in sites.items():
        mine = found.models[site]
        assert mine.views_ == list(own) and list(mine.label_names_) == LABELS
        for view in own:
            assert_allclose(mine.coef_[view], coef[view], atol=accuracy, rtol=0)
            assert_allclose(mine.intercept_[view], intercept[view], atol=accuracy, rtol=0)


@pytest.mark.dask
@pytest.mark.filterwarnings("ignore:.*unknown here")
@pytest.mark.parametrize("how", ["one round", "rounds"])
def test_chunks_too(how, dd):
    """One fit to tables in chunks, and sites whose tables are in chunks."""
    (model, _), sites = MODELS[how], make_sites(2, "tables apart")
    chunked = {
        site: tuple(
            {view: dd.from_pandas(of, npartitions=3) for view, of in part.items()} for part in pair
        )
        for site, pair in sites.items()
    }
    X, y = all_tables(sites)
    X, y = (
        {view: dd.from_pandas(of, npartitions=3) for view, of in part.items()} for part in (X, y)
    )
    central = model.fit(X, y).coef_
    for tables in (sites, chunked):
        found = simulate(tables, model, labels=LABELS, minimum_count=0)
        for site, (own, _) in sites.items():
            for view in own:
                assert_allclose(found.models[site].coef_[view], central[view], atol=1e-6)
