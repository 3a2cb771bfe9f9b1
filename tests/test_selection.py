import numpy as np
import pytest

from naim3l.baselines import PerViewRidge
from naim3l.datasets import make_unpaired
from naim3l.selection import best_on_held_out, hold_out_entries


@pytest.fixture
def data():
    return make_unpaired(120, n_features=(12, 10), n_labels=5, n_latent=4, noise=0.5,
                         missing_labels=0.3, random_state=0)  # fmt: skip


def test_each_observed_entry_is_on_exactly_one_side(data):
    kept, held_out = hold_out_entries(data.labels, 0.25, random_state=0)
    for view, Y in data.labels.items():
        on_sides = (~np.isnan(kept[view])).astype(int) + ~np.isnan(held_out[view])
        np.testing.assert_array_equal(on_sides, ~np.isnan(Y))
        for side in (kept[view], held_out[view]):
            known = ~np.isnan(side)
            np.testing.assert_array_equal(side[known], Y[known])


def test_share_is_that_of_positives_and_of_negatives_rounded_down(data):
    _, held_out = hold_out_entries(data.labels, 0.3, random_state=0)
    for view, Y in data.labels.items():
        for value in (0, 1):
            counts = (value == Y).sum(axis=0)
            expected = np.floor(0.3 * counts + 1e-9)
            np.testing.assert_array_equal((held_out[view] == value).sum(axis=0), expected)


def test_seed_decides(data):
    first, again, other = (
        hold_out_entries(data.labels, random_state=seed)[0]["view0"] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other, equal_nan=True)


def test_best_candidate_is_chosen_and_fitted_on_everything(data):
    """Against a ridge so strong that scores carry only label frequencies."""
    candidates = [PerViewRidge(1e9), PerViewRidge(1.0)]
    best = best_on_held_out(candidates, data.views, data.labels, random_state=0)
    assert best.ridge == 1.0
    whole = PerViewRidge(1.0).fit(data.views, data.labels)
    np.testing.assert_array_equal(best.coef_["view0"], whole.coef_["view0"])
