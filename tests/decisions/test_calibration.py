import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression

from naim3l.decisions.calibration import (
    HOLD_OFFSET,
    HOLD_SLOPE,
    _common_curve,
    _Entries,
    _own_curves,
    calibration_error,
    fit_calibration,
)


def drawn(rng, n_rows, slopes, offsets):
    scores = rng.normal(size=(n_rows, len(slopes)))
    truth = (rng.random(scores.shape) < expit(scores * slopes + offsets)).astype(float)
    return scores, truth


def test_planted_curves_are_found(rng):
    slopes, offsets = np.array([1.0, 3.0, 0.5]), np.array([-1.0, 0.0, 1.0])
    scores, truth = drawn(rng, 20_000, slopes, offsets)
    found = fit_calibration(scores, truth)
    assert found.own.all()
    np.testing.assert_allclose(found.slope, slopes, atol=0.15)
    np.testing.assert_allclose(found.offset, offsets, atol=0.1)


def test_rare_labels_are_held_to_the_common_curve_moved_by_their_frequency(rng):
    scores, truth = drawn(rng, 4000, np.array([2.0] * 6), np.array([-1.0, -2, -3, -1, -2, -9]))
    found = fit_calibration(scores, truth)
    assert found.own[:5].all()
    # Rarer than all others: its offset must be the lowest, and its probabilities about right.
    assert found.offset[5] < found.offset[:5].min() and found.slope[5] > 1
    assert found.probabilities(scores)[:, 5].mean() == pytest.approx(truth[:, 5].mean(), abs=0.01)


def test_curves_are_the_most_likely_ones_under_their_prior(rng):
    """No other slope and offset of a label has a lower log-loss plus distance from the common."""
    scores, truth = drawn(rng, 150, np.array([0.5, 2.0, 3.0]), np.array([-3.0, -2.0, 1.0]))
    known = rng.random(truth.shape) < 0.8
    truth = np.where(known, truth, np.nan)
    found = fit_calibration(scores, truth)
    centre, spread = (
        np.array([f(scores[known[:, k], k]) for k in range(3)]) for f in (np.mean, np.std)
    )
    common = _common_curve(_Entries.of((scores - centre) / spread, truth, known), found.base)
    for k in range(3):
        z, y = ((scores - centre) / spread)[known[:, k], k], truth[known[:, k], k]
        slope, offset = common[0][k], common[1][k]

        def loss(ab, z=z, y=y, slope=slope, offset=offset):
            log_odds = ab[0] * z + ab[1]
            held = HOLD_SLOPE * (ab[0] - slope) ** 2 + HOLD_OFFSET * (ab[1] - offset) ** 2
            return -log_expit(np.where(y > 0, log_odds, -log_odds)).sum() + held / 2

        best = minimize(loss, [1.0, 0.0]).x
        np.testing.assert_allclose(found.slope[k] * spread[k], best[0], atol=1e-4)
        np.testing.assert_allclose(found.offset[k] + found.slope[k] * centre[k], best[1], atol=1e-4)


@pytest.mark.parametrize("n_rows", [100, 117, 231, 402])
def test_of_one_label_the_common_curve_is_its_own(rng, n_rows):
    """Labels of one frequency tell nothing of what frequency does."""
    scores, truth = drawn(rng, n_rows, np.array([2.0]), np.array([-1.0]))
    found = fit_calibration(scores, truth)
    standard = (scores - scores.mean()) / scores.std()
    model = LogisticRegression(tol=1e-8).fit(standard, truth[:, 0])
    slope, offset = _common_curve(_Entries.of(standard, truth, truth >= 0), found.base)
    assert slope[0] == pytest.approx(model.coef_[0, 0], abs=1e-4)
    assert offset[0] == pytest.approx(model.intercept_[0], abs=1e-4)
    assert found.slope[0] > 1


def test_curves_converge_where_a_score_is_far_from_all_others(rng):
    scores, truth = rng.normal(size=(300, 200)), (rng.random((300, 200)) < 0.02) * 1.0
    scores[0], truth[0] = 18 + rng.normal(size=200), 0  # a full step from here cycles
    slope, offset = np.ones(200), np.full(200, -4.0)
    a, b = _own_curves(_Entries.of(scores, truth, truth >= 0), slope, offset)
    error = expit(a * scores + b) - truth
    grad_a = (scores * error).sum(axis=0) + HOLD_SLOPE * (a - slope)
    grad_b = error.sum(axis=0) + HOLD_OFFSET * (b - offset)
    assert max(np.abs(grad_a).max(), np.abs(grad_b).max()) < 1e-5


def test_a_label_whose_only_positive_is_never_held_out_is_not_taken_to_be_rarer(rng):
    """Of labels with one positive, all entries but that one are there."""
    scores, truth = drawn(rng, 2000, np.full(300, 2.0), np.full(300, -9.5))
    scores[:, :10], truth[:, :10] = drawn(rng, 2000, np.full(10, 2.0), np.full(10, -3.0))
    rates = (truth.sum(axis=0) + 1) / 2002
    seen = np.where((truth == 1) & (truth.sum(axis=0) == 1), np.nan, truth)
    single = truth.sum(axis=0) == 1
    assert single.sum() > 20
    found = fit_calibration(scores, seen, rates)
    expected, true = found.probabilities(scores)[:, single].sum(), truth[:, single].sum()
    assert 0.6 < expected / true < 2.5
    assert not found.own[single].any()


def test_a_label_without_known_entries_keeps_its_rate(rng):
    scores, truth = drawn(rng, 200, np.array([2.0, 2.0]), np.array([-1.0, -1.0]))
    truth[:, 1] = np.nan
    found = fit_calibration(scores, truth, np.array([0.3, 0.05]))
    np.testing.assert_allclose(found.probabilities(scores)[:, 1], 0.05)
    np.testing.assert_allclose(found.log_odds(scores)[:, 1], found.base[1])


@pytest.mark.parametrize("known_rows", [0, 1, 2])
def test_labels_that_are_hardly_known_keep_finite_curves(rng, known_rows):
    scores, truth = drawn(rng, 300, np.array([2.0, 2.0]), np.array([-1.0, -1.0]))
    truth[known_rows:, 1] = np.nan
    found = fit_calibration(1e3 * scores, truth)
    assert np.isfinite([found.slope, found.offset]).all() and not found.own[1]


@pytest.mark.parametrize("truth", [[0, 0, 0, 0], [1, 0, 1, 0]])
def test_without_both_classes_of_a_label_the_frequency_is_all_there_is(truth):
    """Two labels of which none has both yes and no."""
    truth = np.reshape(truth, (2, 2)) * 1.0
    found = fit_calibration(np.zeros((2, 2)), truth)
    expected = (truth.sum(axis=0) + 1) / 4
    np.testing.assert_allclose(found.probabilities(np.zeros((1, 2)))[0], expected)


def test_calibration_error_of_hand_made_bins():
    p = np.array([[0.05, 0.05, 0.95, 0.95]])
    truth = np.array([[0, 1, 1, np.nan]])
    # Two entries of mean 0.05 with half of them true, one of 0.95 that is true.
    assert calibration_error(truth, p) == pytest.approx((2 * 0.45 + 0.05) / 3)
    assert calibration_error(np.array([[1.0]]), np.array([[1.0]])) == 0
    assert np.isnan(calibration_error(np.array([[np.nan]]), np.array([[0.5]])))
