"""Models of any kind, compared on entries that are held out of their fits."""

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

from naim3l import PerViewRidge
from naim3l.datasets import make_unpaired
from naim3l_bench.candidates import compare_on_held_out, score_held_out


@pytest.fixture
def data():
    return make_unpaired(
        120, n_features=(12, 10), n_labels=5, n_latent=4, noise=0.5, missing_labels=0.3,
        random_state=0,
    )  # fmt: skip


class Watched(PerViewRidge):
    seen = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.seen.append(y)
        return super().fit(X, y)


def test_every_candidate_is_fitted_on_the_entries_that_are_not_held_out(data):
    Watched.seen.clear()
    candidates = [Watched(1.0), Watched(10.0)]
    options = {"metric": "AP", "share": 0.25, "random_state": 0}
    compare_on_held_out(candidates, data.views, data.labels, **options)
    first, second = Watched.seen
    for view, Y in data.labels.items():
        np.testing.assert_array_equal(first[view], second[view])
        known, kept = ~np.isnan(Y), ~np.isnan(first[view])
        np.testing.assert_array_equal(first[view][kept], Y[kept])
        for value in (0, 1):
            n_held_out = (known & ~kept & (value == Y)).sum(axis=0)
            np.testing.assert_array_equal(n_held_out, (value == Y).sum(axis=0) // 4)


def test_folds_hold_out_every_entry_once(data):
    Watched.seen.clear()
    scores = score_held_out(Watched(1.0), data.views, data.labels, cv=3, random_state=0)
    for view, Y in data.labels.items():
        n_hidden = sum(np.isnan(fit[view]) & ~np.isnan(Y) for fit in Watched.seen)
        np.testing.assert_array_equal(n_hidden, ~np.isnan(Y))
        np.testing.assert_array_equal(np.isnan(scores[view]), np.isnan(Y))


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("metric", ["log-loss", "AP", "micro-AUC"])
def test_best_is_lowest_or_highest_as_the_metric_wants(data, metric, cv):
    """Against a ridge so strong that scores carry only label frequencies."""
    candidates = [PerViewRidge(1e9), PerViewRidge(1.0)]
    options = {"metric": metric, "random_state": 0}
    best, values = compare_on_held_out(candidates, data.views, data.labels, cv=cv, **options)
    assert best == 1 and len(values) == 2


def test_one_wide_table_is_compared_as_well(data):
    X, Y = data.views["view0"], data.labels["view0"]
    options = {"metric": "macro-AUC", "random_state": 0}
    blind = PerViewRidge(features=FunctionTransformer(np.zeros_like))
    assert compare_on_held_out([blind, PerViewRidge()], X, Y, **options)[0] == 1


@pytest.mark.filterwarnings("ignore:labels never observed positive")
def test_a_metric_undefined_on_held_out_entries_is_an_error(data):
    never = {view: np.zeros((len(Y), 2)) for view, Y in data.labels.items()}
    for Y in never.values():
        Y[0, 0] = 1  # a single positive stays where it is
    with pytest.raises(ValueError, match="metric 'AP' is undefined on the held-out entries"):
        compare_on_held_out([PerViewRidge()], data.views, never, metric="AP", random_state=0)
