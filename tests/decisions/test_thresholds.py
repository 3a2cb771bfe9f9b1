import numpy as np
import pytest

from naim3l.decisions.thresholds import check_threshold, fit_thresholds, fixed_thresholds
from naim3l.metrics import macro_f1


def held_out(rng, n_rows=200, n_labels=4, unknown=0.3):
    truth = (rng.random((n_rows, n_labels)) < [0.5, 0.2, 0.1, 0.01][:n_labels]).astype(float)
    scores = truth + rng.normal(size=truth.shape)
    truth[rng.random(truth.shape) < unknown] = np.nan
    return scores, truth


def f1_of(scores, yes, threshold):
    called = scores > threshold
    return 2 * (called & yes).sum() / max(called.sum() + yes.sum(), 1)


def test_f1_rule_is_the_best_of_all_thresholds(rng):
    scores, truth = held_out(rng, n_labels=3)
    for k, threshold in enumerate(fit_thresholds(scores, truth, "f1")):
        known = ~np.isnan(truth[:, k])
        s, yes = scores[known, k], truth[known, k] == 1
        every = [f1_of(s, yes, t) for t in [*s, s.min() - 1]]
        assert f1_of(s, yes, threshold) == pytest.approx(max(every))


def test_labels_with_few_positives_share_the_best_common_threshold(rng):
    scores, truth = held_out(rng)
    truth[:, 2:] = np.where(truth[:, 2:] == 1, 0, truth[:, 2:])
    truth[:3, 2], truth[3:6, 3] = 1, 1
    thresholds = fit_thresholds(scores, truth, "f1")
    assert thresholds[2] == thresholds[3] != thresholds[0]
    known = ~np.isnan(truth[:, 2:])
    s, yes = scores[:, 2:][known], truth[:, 2:][known] == 1
    assert f1_of(s, yes, thresholds[2]) == pytest.approx(max(f1_of(s, yes, t) for t in s - 1e-9))


def test_cardinality_calls_as_many_as_are_true(rng):
    scores, truth = held_out(rng)
    (threshold,) = set(fit_thresholds(scores, truth, "cardinality"))
    known = ~np.isnan(truth)
    assert (scores[known] > threshold).sum() == (truth[known] == 1).sum()


def test_f1_beats_sign_where_positive_scores_are_rare(rng):
    scores, truth = held_out(rng, n_labels=3)
    scores -= 2  # as a squared loss does with rare labels
    centred = scores - fit_thresholds(scores, truth, "f1")
    assert macro_f1(truth, centred) > macro_f1(truth, scores)


def test_unknown_and_unscored_entries_do_not_count(rng):
    scores, truth = held_out(rng)
    more_scores, more_truth = (np.vstack([a, a]) for a in (scores, truth))
    more_scores[200:300], more_truth[300:] = np.nan, np.nan
    for rule in ("f1", "cardinality"):
        np.testing.assert_array_equal(
            fit_thresholds(more_scores, more_truth, rule), fit_thresholds(scores, truth, rule)
        )


def test_ties_fall_on_one_side():
    scores = np.array([[1.0], [1.0], [0.0], [0.0]])
    truth = np.array([[1.0], [1.0], [1.0], [0.0]])
    (threshold,) = fit_thresholds(scores, np.vstack([truth]), "cardinality")
    assert threshold in (0.5, -1.0)
    (best,) = fit_thresholds(np.tile(scores, (3, 1)), np.tile(truth, (3, 1)), "f1")
    assert best == -1.0  # F1 of all four 6/7, of the two ones 4/5


@pytest.mark.parametrize("rule", ["f1", "cardinality"])
def test_without_a_positive_the_sign_decides(rule):
    assert fit_thresholds(np.ones((3, 2)), np.zeros((3, 2)), rule).tolist() == [0, 0]


def test_fixed_thresholds():
    names = ["a", "b"]
    assert fixed_thresholds("sign", names).tolist() == [0, 0]
    assert fixed_thresholds(0.2, names).tolist() == [0.2, 0.2]
    assert fixed_thresholds({"b": -1}, names).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("best", "threshold must be one of"),
        (np.nan, "threshold must be one of"),
        (True, "threshold must be one of"),
        ({"a": "x"}, r"threshold\['a'\] must be a finite number"),
        ({"c": 0.0}, r"threshold: no labels \['c'\]; the data have \['a', 'b'\]"),
    ],
)
def test_wrong_thresholds_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        check_threshold(wrong, ["a", "b"])
