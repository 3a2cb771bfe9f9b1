"""Thresholds of the rules against their definitions."""

import numpy as np
import pytest

from naim3l import Decisions
from naim3l.decisions.calibration import Calibration, fit_calibration
from naim3l.decisions.rules import GUARD, LEARNED, RULES, fit_thresholds, fixed_thresholds


def held_out(rng, n_rows=200, n_labels=4, unknown=0.3):
    truth = (rng.random((n_rows, n_labels)) < [0.5, 0.2, 0.1, 0.01][:n_labels]).astype(float)
    scores = truth + rng.normal(size=truth.shape)
    truth[rng.random(truth.shape) < unknown] = np.nan
    return scores, truth


def fitted(scores, truth, rule):
    return fit_thresholds(scores, truth, rule, fit_calibration(scores, truth))


def f1_of(scores, yes, threshold):
    called = scores > threshold
    return 2 * (called & yes).sum() / max(called.sum() + yes.sum(), 1)


def accuracy(scores, truth, thresholds):
    known = np.isfinite(truth)
    return ((scores > thresholds) == (truth == 1))[known].mean()


def test_f1_is_the_best_of_all_thresholds(rng):
    scores, truth = held_out(rng, n_labels=3)
    for k, threshold in enumerate(fitted(scores, truth, "f1")):
        known = ~np.isnan(truth[:, k])
        s, yes = scores[known, k], truth[known, k] == 1
        every = [f1_of(s, yes, t) for t in [*s, s.min() - 1]]
        assert f1_of(s, yes, threshold) == pytest.approx(max(every))


def test_labels_with_few_positives_share_the_best_common_threshold(rng):
    scores, truth = held_out(rng)
    truth[:, 2:] = np.where(truth[:, 2:] == 1, 0, truth[:, 2:])
    truth[:3, 2], truth[3:6, 3] = 1, 1
    thresholds = fitted(scores, truth, "f1")
    assert thresholds[2] == thresholds[3] != thresholds[0]
    known = ~np.isnan(truth[:, 2:])
    s, yes = scores[:, 2:][known], truth[:, 2:][known] == 1
    assert f1_of(s, yes, thresholds[2]) == pytest.approx(max(f1_of(s, yes, t) for t in s - 1e-9))


def test_cardinality_predicts_as_many_as_are_true(rng):
    scores, truth = held_out(rng)
    (threshold,) = set(fitted(scores, truth, "cardinality"))
    known = ~np.isnan(truth)
    assert (scores[known] > threshold).sum() == (truth[known] == 1).sum()


def test_half_predicts_the_more_probable_value(rng):
    scores, truth = held_out(rng, n_rows=2000)
    calibration = fit_calibration(scores, truth)
    assert (calibration.slope > 0).all()
    more_probable = calibration.probabilities(scores) > 0.5
    np.testing.assert_array_equal(scores > fitted(scores, truth, "half"), more_probable)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_guarded_is_the_best_f1_of_all_cuts_that_are_accurate_enough(rng, noise):
    _, truth = held_out(rng)
    scores = np.nan_to_num(truth + noise * rng.normal(size=truth.shape))
    calibration = fit_calibration(scores, truth)
    assert (calibration.slope > 0).all()
    known, yes = np.isfinite(truth), truth == 1
    log_odds = calibration.log_odds(scores)
    guessing = np.maximum(yes.sum(axis=0), (known & ~yes).sum(axis=0)).sum() / known.sum()
    allowed = [
        f1_of(log_odds[known], yes[known], cut)
        for cut in [*log_odds[known], log_odds[known].min() - 1]
        if accuracy(log_odds, truth, cut) >= guessing - GUARD - 1e-12
    ]
    thresholds = fitted(scores, truth, "guarded")
    assert f1_of((scores - thresholds)[known], yes[known], 0) == pytest.approx(max(allowed))
    assert accuracy(scores, truth, thresholds) >= guessing - GUARD - 1e-12


def test_guarded_is_most_accurate_where_scores_are_worse_than_guessing(rng):
    truth = (rng.random((400, 2)) < [0.9, 0.1]).astype(float)
    scores = rng.normal(size=truth.shape)
    zeros = np.zeros(2)
    # One curve for two labels of different frequency: every cut is far from guessing.
    calibration = Calibration(zeros + 1, zeros, zeros, zeros > 0)
    thresholds = fit_thresholds(scores, truth, "guarded", calibration)
    shares = [accuracy(scores, truth, t) for t in [*scores.ravel(), scores.min() - 1]]
    assert accuracy(scores, truth, thresholds) == pytest.approx(max(shares))


def test_labels_with_uninformative_scores_are_decided_by_their_frequency(rng):
    scores, truth = held_out(rng)
    base, zeros = np.array([2.0, -2.0, 2.0, -2.0]), np.zeros(4)
    calibration = Calibration(np.array([0.0, 0.0, -1.0, -1.0]), zeros, base, zeros > 0)
    thresholds = fit_thresholds(scores, truth, "half", calibration)
    decided = np.broadcast_to(base > 0, scores.shape)
    np.testing.assert_array_equal(scores > thresholds, decided)


def test_unknown_and_unscored_entries_do_not_count(rng):
    scores, truth = held_out(rng)
    more_scores, more_truth = (np.vstack([a, a]) for a in (scores, truth))
    more_scores[200:300], more_truth[300:] = np.nan, np.nan
    for rule in LEARNED:
        np.testing.assert_array_equal(
            fitted(more_scores, more_truth, rule), fitted(scores, truth, rule)
        )


def test_ties_fall_on_one_side():
    scores = np.array([[1.0], [1.0], [0.0], [0.0]])
    truth = np.array([[1.0], [1.0], [1.0], [0.0]])
    assert fitted(scores, truth, "cardinality").item() in (0.5, -1.0)
    # F1 of all four is 6/7, of the two ones 4/5.
    assert fitted(np.tile(scores, (3, 1)), np.tile(truth, (3, 1)), "f1").item() == -1.0


@pytest.mark.parametrize("rule", ["f1", "cardinality"])
def test_without_a_positive_the_sign_decides(rule):
    assert fitted(np.ones((3, 2)), np.zeros((3, 2)), rule).tolist() == [0, 0]


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
        assert found.probabilities == found._learned_rule == found._learn(wide=True) == learned
    both = Decisions("sign", probabilities=False, fusion="learned")
    assert Decisions.of(both) is both and both._learn(wide=True) and not both._learn(wide=False)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("best", r"decide must be one of \['sign', 'guarded', .*\], a finite number"),
        (np.nan, "decide must be one of"),
        (True, "decide must be one of"),
        ({"a": "x"}, r"decide\['a'\] must be a finite number"),
        ({"c": 0.0}, r"decide: no labels \['c'\]; the data have \['a', 'b'\]"),
        (Decisions(fusion="max"), "decide: fusion must be one of"),
        (Decisions(probabilities="yes"), "decide: probabilities must be a bool"),
    ],
)
def test_wrong_values_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Decisions.of(wrong, ["a", "b"])
