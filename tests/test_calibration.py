import numpy as np
import pytest
from scipy.special import expit

from naim3l.calibration import calibration_error, fit_calibration


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


def test_rare_labels_take_the_common_curve_moved_by_their_frequency(rng):
    scores, truth = drawn(rng, 4000, np.array([2.0] * 6), np.array([-1.0, -2, -3, -1, -2, -7]))
    found = fit_calibration(scores, truth)
    assert found.own.tolist() == [True] * 5 + [False]
    # Rarer than all others: its offset must be the lowest, and its probabilities about right.
    assert found.offset[5] < found.offset[:5].min() and found.slope[5] > 0
    assert found.probabilities(scores)[:, 5].mean() == pytest.approx(truth[:, 5].mean(), abs=0.01)


def test_probabilities_are_ordered_as_scores_and_nan_stays(rng):
    scores, truth = drawn(rng, 500, np.array([2.0]), np.array([0.0]))
    found = fit_calibration(scores, truth)
    p = found.probabilities(np.array([[-1.0], [0.0], [1.0], [np.nan]]))[:, 0]
    assert 0 < p[0] < p[1] < p[2] < 1 and np.isnan(p[3])


def test_calibrated_beats_uncalibrated_on_new_entries(rng):
    slopes, offsets = np.array([4.0, 4.0]), np.array([-2.0, 1.0])
    found = fit_calibration(*drawn(rng, 3000, slopes, offsets))
    scores, truth = drawn(rng, 3000, slopes, offsets)
    error = calibration_error(truth, found.probabilities(scores))
    assert error < 0.03 < calibration_error(truth, expit(scores))


def test_without_both_classes_the_frequency_is_all_there_is():
    found = fit_calibration(np.zeros((8, 1)), np.zeros((8, 1)))
    np.testing.assert_allclose(found.probabilities(np.zeros((1, 1))), 0.1)


def test_calibration_error_of_hand_made_bins():
    p = np.array([[0.05, 0.05, 0.95, 0.95]])
    truth = np.array([[0, 1, 1, np.nan]])
    # Two entries of mean 0.05 with half of them true, one of 0.95 that is true.
    assert calibration_error(truth, p) == pytest.approx((2 * 0.45 + 0.05) / 3)
    assert calibration_error(np.array([[1.0]]), np.array([[1.0]])) == 0
    assert np.isnan(calibration_error(np.array([[np.nan]]), np.array([[0.5]])))
