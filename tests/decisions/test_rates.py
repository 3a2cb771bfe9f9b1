"""How often yes and no are right, from counts by hand and from the definition of intervals."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from naim3l.decisions.rates import CUTS, count_at_cuts, list_cuts, measure_rates, wilson

# 20 rows with the label, 12 of them flagged, and 30 without, 3 of them flagged.
COUNTS = {"yes": 20, "no": 30, "called": 15, "found": 12}


def test_rates_are_those_of_the_table_of_two_by_two():
    found = {name: of["value"] for name, of in measure_rates(COUNTS).items()}
    expected = {"sensitivity": 12 / 20, "specificity": 27 / 30}
    expected |= {"predictive_yes": 12 / 15, "predictive_no": 27 / 35}
    assert found == pytest.approx(expected)


def test_rates_of_nothing_are_unknown():
    rates = measure_rates({"yes": 0, "no": 4, "called": 0, "found": 0})
    assert rates["sensitivity"] == {"value": None, "low": None, "high": None}
    assert rates["predictive_yes"]["value"] is None
    assert rates["specificity"]["value"] == rates["predictive_no"]["value"] == 1


@pytest.mark.parametrize(("n_right", "n"), [(0, 7), (7, 7), (3, 10), (999, 1000), (1, 1)])
def test_ends_of_an_interval_are_where_the_score_test_just_rejects(n_right, n):
    """Wilson's definition: shares p with |n_right / n - p| at most z standard errors of p."""
    z, share = norm.ppf(0.975), n_right / n

    def excess(p):
        return (share - p) ** 2 - z**2 * p * (1 - p) / n

    found = wilson(n_right, n)
    assert 0 <= found["low"] <= found["value"] == share <= found["high"] <= 1
    if share > 0:
        assert found["low"] == pytest.approx(brentq(excess, 1e-12, share - 1e-12 * share))
    if share < 1:
        assert found["high"] == pytest.approx(brentq(excess, share + 1e-12, 1 - 1e-12))


@pytest.mark.parametrize(("share", "n"), [(0.5, 40), (0.1, 60), (0.03, 200), (0.9, 25)])
def test_intervals_contain_the_truth_in_about_95_percent_of_draws(share, n):
    drawn = np.random.default_rng(0).binomial(n, share, size=2000)
    intervals = {k: wilson(k, n) for k in set(drawn.tolist())}
    inside = [intervals[k]["low"] <= share <= intervals[k]["high"] for k in drawn.tolist()]
    assert 0.91 < np.mean(inside) < 0.99


def test_cuts_are_counted_above_probabilities_of_known_rows():
    truth = np.array([1, 1, 0, 0, np.nan, 1])
    probabilities = np.array([0.95, 0.25, 0.25, 0.005, 0.99, np.nan])
    called, found = count_at_cuts(truth, probabilities)
    assert called.tolist() == [3 if cut < 0.25 else 1 for cut in CUTS]
    assert found.tolist() == [2 if cut < 0.25 else 1 for cut in CUTS]
    assert count_at_cuts(truth, None).shape == (2, 0)


def test_of_1000_rows_what_is_flagged_and_what_has_the_label_add_up(rng):
    truth, probabilities = rng.choice([0, 1, np.nan], 300), rng.random(300) ** 2
    decided = probabilities > 0.37
    known = np.isfinite(truth)
    counts = {"yes": int((truth == 1).sum()), "no": int((truth == 0).sum())}
    counts |= {"called": int((decided & known).sum()), "found": int((decided & (truth == 1)).sum())}
    entry = counts | {"cuts": count_at_cuts(truth, probabilities).tolist()}
    first, *others = rows = list_cuts(entry)
    assert first["cut"] is None and [at["cut"] for at in others] == list(CUTS)
    for at in rows:
        assert at["found"] + at["false_alarms"] == pytest.approx(at["flagged"])
        assert at["found"] + at["missed"] == pytest.approx(1000 * counts["yes"] / known.sum())
        rate = at["found"] / (at["found"] + at["missed"])
        assert at["sensitivity"]["value"] == pytest.approx(rate)
    assert first["flagged"] == pytest.approx(1000 * (decided & known).sum() / known.sum())
    flagged = [at["flagged"] for at in others]
    assert flagged == sorted(flagged, reverse=True)
    at_half = next(at for at in others if at["cut"] == 0.5)
    assert at_half["flagged"] == pytest.approx(1000 * (probabilities[known] > 0.5).mean())


def test_models_of_earlier_versions_have_their_own_cut_alone():
    (only,) = list_cuts(COUNTS)
    assert (only["flagged"], only["found"], only["missed"], only["false_alarms"]) == (
        300, 240, 160, 60,
    )  # fmt: skip
    (nothing,) = list_cuts(dict.fromkeys(COUNTS, 0))
    assert nothing["flagged"] == 0 and nothing["sensitivity"]["value"] is None
