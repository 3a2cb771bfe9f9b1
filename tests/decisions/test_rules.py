"""Cuts of the rules against their definitions."""

import numpy as np
import pytest
from scipy.special import expit, logit

from naim3l import Decisions
from naim3l.decisions.rules import GUARD, HOLD_CUT, LEARNED, RULES, fit_cuts, fixed_thresholds

by_rule = pytest.mark.parametrize("rule", LEARNED)


def held_out(rng, n_rows=200, n_labels=4, unknown=0.3, noise=1.0):
    """Log-odds that are calibrated, and the truth; some of either are unknown."""
    rates = np.array([0.5, 0.2, 0.1, 0.01])[:n_labels]
    truth = (rng.random((n_rows, n_labels)) < rates).astype(float)
    scores = 2 * truth - 1 + noise * rng.normal(size=truth.shape)
    log_odds = np.log(rates / (1 - rates)) + 2 * scores / noise**2
    truth[rng.random(truth.shape) < unknown] = np.nan
    log_odds[rng.random(truth.shape) < unknown / 10] = np.nan
    return log_odds, truth


def entries(log_odds, truth):
    """Log-odds of the known entries, and whether they are positive."""
    known = np.isfinite(truth) & np.isfinite(log_odds)
    return log_odds[known], truth[known] == 1


def f1_of(log_odds, yes, cut):
    called = log_odds > cut
    return 2 * (called & yes).sum() / max(called.sum() + yes.sum(), 1)


def accuracy(log_odds, yes, cut):
    return ((log_odds > cut) == yes).mean()


def every_cut(log_odds):
    return [*log_odds, log_odds.min() - 1]


def test_f1_is_the_best_of_all_cuts(rng):
    log_odds, truth = held_out(rng, n_labels=3)
    for k, cut in enumerate(fit_cuts(log_odds, truth, "f1")):
        own, yes = entries(log_odds[:, k], truth[:, k])
        assert f1_of(own, yes, cut) == pytest.approx(
            max(f1_of(own, yes, t) for t in every_cut(own))
        )


def test_labels_with_few_positives_share_the_best_common_cut(rng):
    log_odds, truth = held_out(rng)
    truth[:, 2:] = np.where(truth[:, 2:] == 1, 0, truth[:, 2:])
    truth[:3, 2], truth[3:6, 3], log_odds[:6, 2:] = 1, 1, 0.5
    cuts = fit_cuts(log_odds, truth, "f1")
    assert cuts[2] == cuts[3] != cuts[0]
    shared, yes = entries(log_odds[:, 2:], truth[:, 2:])
    best = max(f1_of(shared, yes, t) for t in every_cut(shared))
    assert f1_of(shared, yes, cuts[2]) == pytest.approx(best)


def test_cardinality_predicts_as_many_as_are_true(rng):
    log_odds, truth = held_out(rng)
    (cut,) = set(fit_cuts(log_odds, truth, "cardinality"))
    known, yes = entries(log_odds, truth)
    assert (known > cut).sum() == yes.sum()


def test_half_is_a_probability_of_one_half(rng):
    log_odds, truth = held_out(rng)
    np.testing.assert_array_equal(fit_cuts(log_odds, truth, "half"), 0)


@pytest.mark.parametrize("noise", [0.3, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("n_rows", [50, 1000])
def test_guarded_is_the_best_f1_of_all_cuts_that_are_expected_to_cost_little(rng, noise, n_rows):
    """What is called at a probability p below one half costs p - (1 - p) right decisions."""
    log_odds, truth = held_out(rng, n_rows, noise=noise)
    known, yes = entries(log_odds, truth)
    p, n = expit(known), len(known)

    def cost(cut):
        return np.sum((1 - 2 * p)[(known > cut) & (p < 0.5)])

    cuts = [*every_cut(known), known.max()]
    best = max(f1_of(known, yes, cut) for cut in cuts if cost(cut) <= GUARD * n)
    (cut,) = set(fit_cuts(log_odds, truth, "guarded"))
    # With n entries, it is the mean of that cut and of HOLD_CUT / n cuts of one half.
    found = expit(cut) + (expit(cut) - 0.5) * HOLD_CUT / n
    assert found <= 0.5 and cost(logit(found)) <= GUARD * n
    if found < 0.5 - 1e-9:
        assert f1_of(known, yes, logit(found)) == pytest.approx(best)
    else:
        assert f1_of(known[p > 0.5], yes[p > 0.5], 0) >= f1_of(known, yes, 0) - 1e-12


def test_of_calibrated_probabilities_guarded_is_about_as_accurate_as_half(rng):
    """And has a higher F1."""
    log_odds, truth = held_out(rng, 20_000)
    known, yes = entries(log_odds, truth)
    (cut,) = set(fit_cuts(log_odds, truth, "guarded"))
    new = entries(*held_out(np.random.default_rng(1), 20_000))
    for of in ((known, yes), new):
        assert accuracy(*of, cut) >= accuracy(*of, 0.0) - GUARD - 0.002
        assert f1_of(*of, cut) > f1_of(*of, 0.0)


@pytest.mark.parametrize("moved", [-3.0, 0.0, 3.0, 100.0])
@pytest.mark.parametrize("n_rows", [1, 10, 200])
def test_a_guarded_cut_is_at_most_one_half_and_near_to_it_with_few_entries(rng, moved, n_rows):
    log_odds, truth = held_out(rng, n_rows)
    truth[0, 0], log_odds[0, 0] = 1.0, 0.0
    n = len(entries(log_odds, truth)[0])
    for cut in expit(fit_cuts(log_odds + moved, truth, "guarded")):
        assert 0.5 - 0.5 * n / (n + HOLD_CUT) <= cut <= 0.5


@by_rule
def test_unknown_and_unscored_entries_do_not_count(rng, rule):
    log_odds, truth = held_out(rng)
    more_log_odds, more_truth = (np.vstack([a, a]) for a in (log_odds, truth))
    more_log_odds[200:300], more_truth[300:] = np.nan, np.nan
    np.testing.assert_array_equal(
        fit_cuts(more_log_odds, more_truth, rule), fit_cuts(log_odds, truth, rule)
    )


@by_rule
def test_order_of_rows_and_labels_does_not_matter(rng, rule):
    log_odds, truth = held_out(rng)
    rows, labels = rng.permutation(len(truth)), np.array([2, 0, 3, 1])
    found = fit_cuts(log_odds[rows][:, labels], truth[rows][:, labels], rule)
    np.testing.assert_array_equal(found, fit_cuts(log_odds, truth, rule)[labels])


def test_ties_fall_on_one_side():
    log_odds = np.array([[-1.0], [-1.0], [-2.0], [-2.0]])
    truth = np.array([[1.0], [1.0], [1.0], [0.0]])
    assert fit_cuts(log_odds, truth, "cardinality").item() in (-1.5, -3.0)
    # F1 of all four is 6/7, of the two first ones 4/5.
    thrice = np.tile(log_odds, (3, 1)), np.tile(truth, (3, 1))
    assert fit_cuts(*thrice, "f1").item() == -3.0


@by_rule
@pytest.mark.parametrize("log_odds", [-1.0, np.nan])
def test_without_a_positive_none_is_called_that_is_improbable(rule, log_odds):
    cuts = fit_cuts(np.full((3, 2), log_odds), np.zeros((3, 2)), rule)
    assert np.isfinite(cuts).all() and (cuts >= -1).all() and (cuts <= 0).all()
    assert fit_cuts(np.ones((0, 2)), np.ones((0, 2)), rule).tolist() == [0, 0]


def test_fixed_thresholds():
    names = ["a", "b"]
    assert fixed_thresholds("sign", names).tolist() == [0, 0]
    assert fixed_thresholds(0.2, names).tolist() == [0.2, 0.2]
    assert fixed_thresholds({"b": -1}, names).tolist() == [0, -1]


def test_only_a_learned_rule_brings_probabilities_by_itself():
    for rule in (*RULES, 0.3, {"a": 0.1}):
        found = Decisions.of(rule, ["a", "b"])
        learned = isinstance(rule, str) and rule in LEARNED
        assert found.rule == rule
        assert found.probabilities == found._learned_rule == found._learn == learned
    given = Decisions("sign", fusion="mean")
    assert Decisions.of(given) is given and given._learn and not given._learned_rule
    assert not Decisions("sign", probabilities=False)._learn
    assert Decisions("f1", probabilities=False)._learn


def test_evidence_is_the_fusion_that_is_not_asked_for():
    assert Decisions.of("f1").fusion == Decisions().fusion == "evidence"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("best", r"decide must be one of \['sign', 'guarded', .*\], a finite number"),
        (np.nan, "decide must be one of"),
        (True, "decide must be one of"),
        ({"a": "x"}, r"decide\['a'\] must be a finite number"),
        ({"c": 0.0}, r"decide: no labels \['c'\]; the data have \['a', 'b'\]"),
        (Decisions(fusion="max"), "decide: fusion must be one of"),
        (Decisions(fusion="learned"), r"one of \('evidence', 'mean'\), got 'learned'"),
        (Decisions(probabilities="yes"), "decide: probabilities must be a bool"),
    ],
)
def test_wrong_values_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Decisions.of(wrong, ["a", "b"])
