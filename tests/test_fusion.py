import numpy as np
import pandas as pd
import pytest

from naim3l.fusion import fit_weights, fuse, fuse_arrays


def test_mean_over_the_views_that_a_sample_has():
    nan = np.nan
    scores = np.array([[[1.0], [2], [nan], [nan]], [[3.0], [nan], [5], [nan]]])
    np.testing.assert_array_equal(fuse_arrays(scores), [[2], [2], [5], [nan]])


def test_weights_count_among_the_views_that_are_there():
    scores = np.array([[[0.0], [0]], [[1.0], [np.nan]], [[3.0], [4]]])
    weights = np.array([1.0, 2, 1])
    np.testing.assert_allclose(fuse_arrays(scores, weights), [[5 / 4], [2]])
    np.testing.assert_allclose(fuse_arrays(scores, np.array([0.0, 1, 0])), [[1], [2]])


def views_of(rng, noise, n=3000, missing=0.3):
    truth = (rng.random((n, 2)) < 0.5).astype(float)
    scores = np.stack([2 * truth - 1 + s * rng.normal(size=truth.shape) for s in noise])
    scores[np.broadcast_to(rng.random((len(noise), n, 1)) < missing, scores.shape)] = np.nan
    return scores, truth


def test_learned_weights_are_inverse_variances(rng):
    """Of unbiased views with independent noise the best weights are known."""
    noise = np.array([0.5, 1.0, 2.0])
    scores, truth = views_of(rng, noise, missing=0.0)
    best = noise**-2 / (noise**-2).sum()
    np.testing.assert_allclose(fit_weights(scores, truth), best, atol=0.03)


def test_learned_weights_are_a_minimum(rng):
    scores, truth = views_of(rng, [0.5, 1.0])

    def error(weights):
        fused = fuse_arrays(scores, np.asarray(weights))
        return np.nansum((fused - (2 * truth - 1)) ** 2)

    weights = fit_weights(scores, truth)
    assert weights.sum() == pytest.approx(1)
    for step in (-0.02, 0.02):
        assert error(weights) <= error(weights + np.array([step, -step]))


def test_unknown_labels_and_absent_samples_do_not_count(rng):
    scores, truth = views_of(rng, [0.5, 1.0], n=300)
    more = np.concatenate([scores, rng.normal(size=scores.shape)], axis=1)
    unknown = np.concatenate([truth, np.full_like(truth, np.nan)])
    np.testing.assert_allclose(fit_weights(more, unknown), fit_weights(scores, truth))


def frame(rows, index):
    return pd.DataFrame(rows, index=index, columns=["flu", "gout"])


def test_tables_are_matched_by_index():
    clinic, lab = frame([[1.0, 2], [3, 4]], ["a", "b"]), frame([[5.0, 6], [7, 8]], ["c", "a"])
    fused = fuse({"clinic": clinic, "lab": lab[["gout", "flu"]]})
    pd.testing.assert_frame_equal(fused, frame([[4.0, 5.0], [3, 4], [5, 6]], ["a", "b", "c"]))


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        ({}, TypeError, "at least one view"),
        ({"lab": np.ones((2, 2))}, TypeError, "view 'lab': a pandas DataFrame"),
        ({"lab": frame([[1, 2], [3, 4]], ["a", "a"])}, ValueError, "'a' occurs more than once"),
        (
            {"clinic": frame([[1, 2]], ["a"]), "lab": frame([[1, 2]], ["a"])[["flu"]]},
            ValueError,
            "view 'lab': columns differ from those of 'clinic'",
        ),
    ],
)
def test_what_cannot_be_matched_is_refused(scores, error, message):
    with pytest.raises(error, match=message):
        fuse(scores)
