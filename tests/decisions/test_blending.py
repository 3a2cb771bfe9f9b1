import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import log_loss

from naim3l.decisions.blending import Blend, blend, blend_weights
from naim3l.decisions.calibration import Calibration


@pytest.fixture
def drawn(rng):
    """Two independent pieces of evidence, the base rates, and labels drawn from their sum."""
    base = logit(np.array([0.1, 0.2, 0.4]))
    evidence = rng.normal(size=(2, 3000, 3))
    truth = (rng.random((3000, 3)) < expit(base + evidence.sum(axis=0))).astype(float)
    return evidence, base, truth


def loss(evidence, base, truth, weights):
    P = expit(blend(base + evidence, base, weights))
    return log_loss(truth.ravel(), P.ravel())


def test_weights_have_the_lowest_log_loss(drawn, rng):
    evidence, base, truth = drawn
    mixed = np.stack([0.5 * evidence[0], 2 * evidence[1], evidence[0] + rng.normal(size=(3000, 3))])
    weights = blend_weights(base + mixed, base, truth, pull=1e-6)
    least = loss(mixed, base, truth, weights)
    for m in range(3):
        for step in (-0.1, 0.1):
            other = weights.copy()
            other[m] = np.maximum(other[m] + step, 0)
            assert loss(mixed, base, truth, other) >= least - 1e-9


def test_true_evidence_has_weight_one_and_noise_none(drawn, rng):
    evidence, base, truth = drawn
    three = np.stack([*evidence, rng.normal(size=(3000, 3))])
    weights = blend_weights(base + three, base, truth)
    np.testing.assert_allclose(weights[:2], 1, atol=0.25)
    assert (weights[2] < 0.15).all()


def test_misleading_evidence_has_no_negative_weight(drawn):
    evidence, base, truth = drawn
    weights = blend_weights(base + np.stack([evidence[0], -evidence[1]]), base, truth)
    np.testing.assert_array_equal(weights[1], 0)


def test_equal_models_share_the_weight(drawn):
    evidence, base, truth = drawn
    total = evidence.sum(axis=0)
    weights = blend_weights(base + np.stack([total, total]), base, truth)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-3)
    np.testing.assert_allclose(weights.sum(axis=0), 1, atol=0.15)


def test_entries_that_a_model_lacks_do_not_count(drawn):
    evidence, base, truth = drawn
    lacking = base + evidence
    lacking[1, :500] = np.nan
    np.testing.assert_allclose(
        blend_weights(lacking, base, truth), blend_weights(lacking[:, 500:], base, truth[500:])
    )
    unknown = truth.copy()
    unknown[500:1000] = np.nan
    kept = np.r_[0:500, 1000:3000]
    np.testing.assert_allclose(
        blend_weights(base + evidence, base, unknown),
        blend_weights(base + evidence[:, kept], base, truth[kept]),
    )


def test_scores_are_calibrated_before_they_are_weighted(rng):
    base, weights = np.array([-1.0, 0.5]), np.array([[0.3, 0.6], [0.5, 0.0]])
    slopes, offsets = rng.random((2, 2)), rng.normal(size=(2, 2))
    curves = [Calibration(slopes[m], offsets[m], base, slopes[m] > 0) for m in range(2)]
    scores = rng.normal(size=(2, 5, 2))
    found = Blend(curves, weights).log_odds(scores)
    for row in range(5):
        for label in range(2):
            added = sum(
                weights[m, label]
                * (slopes[m, label] * scores[m, row, label] + offsets[m, label] - base[label])
                for m in range(2)
            )
            assert found[row, label] == pytest.approx(base[label] + added)
