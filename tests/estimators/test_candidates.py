import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

from naim3l.datasets import make_unpaired
from naim3l.estimators import NAIM3LCV, PerViewRidge
from naim3l.estimators.candidates import best_on_held_out, compare_on_held_out, score_held_out


@pytest.fixture
def data():
    return make_unpaired(120, n_features=(12, 10), n_labels=5, n_latent=4, noise=0.5,
                         missing_labels=0.3, random_state=0)  # fmt: skip


def test_every_candidate_is_fitted_on_the_entries_that_are_not_held_out(data):
    fits = []

    class Watched(PerViewRidge):
        def fit(self, X, y=None):
            fits.append(y)
            return super().fit(X, y)

    candidates = [Watched(1.0), Watched(10.0)]
    best_on_held_out(candidates, data.views, data.labels, share=0.25, random_state=0)
    first, second, last = fits
    assert last is data.labels
    for view, Y in data.labels.items():
        np.testing.assert_array_equal(first[view], second[view])
        known, kept = ~np.isnan(Y), ~np.isnan(first[view])
        np.testing.assert_array_equal(first[view][kept], Y[kept])
        for value in (0, 1):
            n_held_out = (known & ~kept & (value == Y)).sum(axis=0)
            np.testing.assert_array_equal(n_held_out, (value == Y).sum(axis=0) // 4)


@pytest.mark.filterwarnings("ignore:labels never observed positive")
def test_a_metric_undefined_on_held_out_entries_is_an_error(data):
    never = {view: np.zeros((len(Y), 2)) for view, Y in data.labels.items()}
    for Y in never.values():
        Y[0, 0] = 1  # a single positive stays where it is
    with pytest.raises(ValueError, match="metric 'AP' is undefined on the held-out entries"):
        best_on_held_out([PerViewRidge(1.0)], data.views, never, metric="AP", random_state=0)


def test_candidates_of_one_label_are_told_apart(data):
    one_label = {view: Y[:, :1] for view, Y in data.labels.items()}
    blind = PerViewRidge(features=FunctionTransformer(np.zeros_like))
    candidates = [blind, PerViewRidge()]
    best = best_on_held_out(candidates, data.views, one_label, random_state=0)
    assert best.features == "auto"
    with pytest.raises(ValueError, match="metric='AP' ranks the labels of a row"):
        best_on_held_out(candidates, data.views, one_label, metric="AP")


@pytest.mark.parametrize("metric", ["one-error", "AP", "micro-AUC"])
def test_best_is_lowest_or_highest_as_the_metric_wants(data, metric):
    candidates = [PerViewRidge(1e9), PerViewRidge(1.0)]
    best = best_on_held_out(candidates, data.views, data.labels, metric=metric, random_state=0)
    assert best.ridge == 1.0


def test_best_candidate_is_chosen_and_fitted_on_everything(data):
    """Against a ridge so strong that scores carry only label frequencies."""
    candidates = [PerViewRidge(1e9), PerViewRidge(1.0)]
    best = best_on_held_out(candidates, data.views, data.labels, random_state=0)
    assert best.ridge == 1.0
    whole = PerViewRidge(1.0).fit(data.views, data.labels)
    np.testing.assert_array_equal(best.coef_["view0"], whole.coef_["view0"])


class Remembering(PerViewRidge):
    """Ridge regression that keeps the labels of each fit."""

    fits = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.fits.append(y)
        return super().fit(X, y)


def test_entries_are_held_out_in_turn_and_scored_without_them(data):
    Remembering.fits.clear()
    scores = score_held_out(Remembering(), data.views, data.labels, cv=3, random_state=0)
    expected = {view: np.full(Y.shape, np.nan) for view, Y in data.labels.items()}
    assert len(Remembering.fits) == 3
    for kept in Remembering.fits:
        found = PerViewRidge().fit(data.views, kept).decision_function(data.views)
        for view, Y in data.labels.items():
            hidden = np.isnan(kept[view]) & ~np.isnan(Y)
            assert np.isnan(expected[view][hidden]).all()  # in one fold only
            expected[view][hidden] = found[view][hidden]
    for view, Y in data.labels.items():
        np.testing.assert_array_equal(scores[view], expected[view])
        only = (Y == 1) & ((Y == 1).sum(axis=0) == 1)  # a single positive stays where it is
        np.testing.assert_array_equal(np.isnan(scores[view]), np.isnan(Y) | only)


def test_folds_are_those_of_the_search(data):
    """A search without the regulariser is ridge regression on the same folds."""
    ridges = [1.0, 10.0]
    options = {"cv": 4, "metric": "AP", "random_state": 3}
    models = [PerViewRidge(ridge) for ridge in ridges]
    best, values = compare_on_held_out(models, data.views, data.labels, **options)
    search = NAIM3LCV([1.0], ridges, variant="loss", decide="sign", **options)
    search._exhaustive = True
    search.fit(data.views, data.labels)
    np.testing.assert_allclose(values, search.cv_results_["mean_test_score"], atol=2e-3)
    assert ridges[best] == search.ridge_


def test_a_wide_table_has_scores_of_its_rows(data):
    X, Y = data.views["view0"], data.labels["view0"]
    wide = score_held_out(PerViewRidge(), X, Y, random_state=0)
    apart = score_held_out(PerViewRidge(), {"view0": X}, {"view0": Y}, random_state=0)
    np.testing.assert_array_equal(wide, apart["view0"])
