import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import log_loss

from naim3l.decisions import fusion
from naim3l.decisions.calibration import Calibration, fit_calibration
from naim3l.decisions.fusion import (
    Blend,
    Evidence,
    add_evidence,
    blend,
    blend_weights,
    fit_weights,
    fuse,
    label_groups,
)


def drawn_views(rng, means, n=4000, rate=0.3, missing=0.3, correlation=0.0):
    """Scores normal around +-mean given the label, their true log-odds, and the labels."""
    truth = (rng.random((n, 2)) < rate).astype(float)
    shared, own = rng.normal(size=truth.shape), rng.normal(size=(len(means), *truth.shape))
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    scores = np.reshape(means, (-1, 1, 1)) * (2 * truth - 1) + noise
    scores[np.broadcast_to(rng.random((len(means), n, 1)) < missing, scores.shape)] = np.nan
    base = np.full(2, logit(rate))
    return scores, base + 2 * np.reshape(means, (-1, 1, 1)) * scores, base, truth


def test_evidence_of_independent_views_adds_up_to_the_posterior(rng):
    means = [0.5, 1.0, 2.0]
    scores, log_odds, base, _ = drawn_views(rng, means, n=50)
    yes, no = np.full((50, 2), 0.3), np.full((50, 2), 0.7)
    for mean, S in zip(means, scores, strict=True):  # Bayes' rule, view by view
        present = ~np.isnan(S)
        yes[present] *= norm.pdf(S[present], mean)
        no[present] *= norm.pdf(S[present], -mean)
    lacking = np.isnan(scores).all(axis=0)
    assert lacking.any()
    expected = np.where(lacking, np.nan, yes / (yes + no))
    np.testing.assert_allclose(expit(add_evidence(log_odds, base)), expected)


def test_a_sample_with_one_view_has_the_log_odds_of_that_view(rng):
    scores, _, _, truth = drawn_views(rng, [0.5, 1.5], n=500, rate=0.05)
    truth[:, 1] = np.where(np.arange(500) < 30, truth[:, 1], np.nan)  # hardly known
    scores[0, 30:, 1] = np.nan
    rates = np.array([0.05, 0.05])
    curves = [fit_calibration(S, truth, rates) for S in scores]
    fused = Evidence.fit(scores, truth, rates, learned=False).fuse(scores)
    for v, curve in enumerate(curves):
        alone = ~np.isnan(scores[v]) & np.isnan(scores[1 - v])
        assert alone.any()
        np.testing.assert_allclose(fused[alone], curve.log_odds(scores[v])[alone])


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_overlap_is_the_correlation_of_what_views_get_wrong(rng, correlation):
    # Of normal scores with one mean and this correlation, the log-odds given n of them are the sum
    # of those given each, divided by 1 + correlation (n - 1).
    _, log_odds, base, truth = drawn_views(rng, [1.0] * 3, n=20_000, correlation=correlation)
    weights, overlap = fit_weights(log_odds, base, truth)
    np.testing.assert_allclose(weights, 1, atol=0.1)
    np.testing.assert_allclose(overlap, correlation, atol=0.1)


def test_learned_weights_are_a_minimum_of_the_log_loss(rng, monkeypatch):
    monkeypatch.setattr(fusion, "PULL", 0.0)
    _, log_odds, base, truth = drawn_views(rng, [1.0, 1.0], correlation=0.5)
    log_odds *= [[[0.5]], [[2.0]]]  # badly calibrated: weights must make up for it
    weights, overlap = fit_weights(log_odds, base, truth)
    assert 0 < overlap[0] < 1  # not at a bound, where a minimum may have a slope

    def loss(weights, overlap):
        fused = add_evidence(log_odds, base, weights, overlap)
        seen = ~np.isnan(fused)
        return log_loss(truth[seen], expit(fused[seen]))

    for step in (-0.05, 0.05):
        assert loss(weights, overlap) < loss(weights, overlap + step)
        for view in range(2):
            moved = weights.copy()
            moved[view] += step
            assert loss(weights, overlap) < loss(moved, overlap)


def test_labels_of_like_frequency_share_weights(rng):
    truth = (rng.random((500, 6)) < [0.01, 0.02, 0.1, 0.11, 0.5, 0.5]).astype(float)
    groups = label_groups(truth)
    assert (np.diff(groups) >= 0).all() and groups[0] == groups[1] and groups[-1] == 2
    log_odds = rng.normal(size=(2, *truth.shape))
    weights, overlap = fit_weights(log_odds, np.zeros(6), truth)
    for group in np.unique(groups):
        assert np.ptp(weights[:, groups == group], axis=1).max() == 0
        assert np.ptp(overlap[groups == group]) == 0


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
        ({"lab": sparse.eye_array(2)}, TypeError, "view 'lab': a sparse matrix"),
        (
            {"clinic": frame([[1, 2]], ["a"]), "lab": pl.DataFrame({"flu": [1], "gout": [2]})},
            TypeError,
            "view 'lab': a polars.*DataFrame, but view 'clinic' is a pandas.*DataFrame",
        ),
        (
            {"clinic": np.ones((2, 2)), "lab": np.ones((3, 2))},
            ValueError,
            "view 'lab': 3 rows, and 2 of view 'clinic'; without an index",
        ),
        (
            {"clinic": np.ones((2, 2)), "lab": np.ones((2, 3))},
            ValueError,
            "view 'lab': columns differ from those of view 'clinic'",
        ),
        ({"lab": frame([[1, 2], [3, 4]], ["a", "a"])}, ValueError, "'a' occurs more than once"),
        ({"lab": frame([[1, 2], [3, 4]], ["a", None])}, ValueError, "'lab', row 1: the index is m"),
        (
            {"clinic": frame([[1, 2]], ["a"]), "lab": frame([[1, 2]], ["a"])[["flu"]]},
            ValueError,
            "view 'lab': columns differ from those of view 'clinic'",
        ),
    ],
)
def test_what_cannot_be_matched_is_refused(scores, error, message):
    with pytest.raises(error, match=message):
        fuse(scores)


NAMES = ["flu", "gout"]


@pytest.mark.parametrize("rates", [None, [0.5, 0.2]])
@pytest.mark.parametrize(
    ("make", "rows_of"),
    [
        (np.asarray, np.asarray),
        (lambda rows: pd.DataFrame(rows, columns=NAMES), pd.DataFrame.to_numpy),
        (lambda rows: pl.DataFrame(rows, schema=NAMES, orient="row"), pl.DataFrame.to_numpy),
        (
            lambda rows: pa.table(dict(zip(NAMES, rows.T, strict=True))),
            lambda table: np.column_stack([column.to_numpy() for column in table.columns]),
        ),
    ],
    ids=["NumPy", "pandas", "polars", "pyarrow"],
)
def test_rows_in_the_same_order_are_fused_in_any_container(make, rows_of, rates, rng):
    P = rng.uniform(0.1, 0.9, size=(3, 5, 2))
    P[1, 2], P[:, 4] = np.nan, np.nan  # one sample lacks a view, one all of them
    tables = {f"view{v}": make(rows) for v, rows in enumerate(P)}
    fused = fuse(tables, base_rates=rates)
    assert type(fused) is type(tables["view0"])
    expected = (
        np.ma.masked_invalid(P).mean(axis=0).filled(np.nan)
        if rates is None
        else expit(add_evidence(logit(P), logit(rates)))
    )
    np.testing.assert_allclose(rows_of(fused), expected)


def test_base_rates_are_matched_by_name():
    scores = {"clinic": frame([[0.8, 0.5]], ["a"]), "lab": frame([[0.9, 0.2]], ["a"])}
    expected = fuse(scores, base_rates=[0.5, 0.2])
    for rates in (pd.Series({"gout": 0.2, "flu": 0.5}), {"gout": 0.2, "flu": 0.5}):
        pd.testing.assert_frame_equal(fuse(scores, base_rates=rates), expected)
    with pytest.raises(ValueError, match="base_rates: no entry for label 'gout'"):
        fuse(scores, base_rates={"flu": 0.5})
    with pytest.raises(ValueError, match="base_rates must be 2 numbers"):
        fuse(scores, base_rates=["half", "some"])


@pytest.mark.parametrize(
    ("rates", "chance", "message"),
    [([0.5], 0.5, "2 numbers"), ([0, 0.5], 0.5, "between 0 and 1"), ([0.5, 0.5], -1.5, "-1.5")],
)
def test_base_rates_go_with_probabilities(rates, chance, message):
    with pytest.raises(ValueError, match=message):
        fuse({"lab": frame([[chance, 0.5]], ["a"])}, base_rates=rates)


def test_overlap_divides_the_evidence_of_several_views():
    rates = np.array([0.2, 0.5])
    P = {"a": np.array([[0.3, 0.9], [0.4, 0.6]]), "b": np.array([[0.6, 0.7], [np.nan, np.nan]])}
    evidence = [logit(P["a"][0]) - logit(rates), logit(P["b"][0]) - logit(rates)]
    found = fuse(P, base_rates=rates, overlap=0.5)
    np.testing.assert_allclose(found[0], expit(logit(rates) + np.sum(evidence, axis=0) / 1.5))
    np.testing.assert_allclose(found[1], P["a"][1])  # one view alone counts in full
    same = {"a": P["a"], "b": P["a"]}
    np.testing.assert_allclose(fuse(same, base_rates=rates, overlap=1.0), P["a"])
    for overlap in (-0.1, 1.5, "much"):
        with pytest.raises(ValueError, match="overlap must be"):
            fuse(P, base_rates=rates, overlap=overlap)
    with pytest.raises(ValueError, match="no effect on the mean"):
        fuse(P, overlap=0.5)


# Blends of models.


@pytest.fixture
def models(rng):
    """Two independent pieces of evidence, the base rates, and labels drawn from their sum."""
    base = logit(np.array([0.1, 0.2, 0.4]))
    evidence = rng.normal(size=(2, 3000, 3))
    truth = (rng.random((3000, 3)) < expit(base + evidence.sum(axis=0))).astype(float)
    return evidence, base, truth


def blend_loss(evidence, base, truth, weights):
    P = expit(blend(base + evidence, base, weights))
    return log_loss(truth.ravel(), P.ravel())


def test_weights_of_a_blend_have_the_lowest_log_loss(models, rng, monkeypatch):
    monkeypatch.setattr(fusion, "PULL", 1e-6)
    evidence, base, truth = models
    mixed = np.stack([0.5 * evidence[0], 2 * evidence[1], evidence[0] + rng.normal(size=(3000, 3))])
    weights = blend_weights(base + mixed, base, truth)
    least = blend_loss(mixed, base, truth, weights)
    for m in range(3):
        for step in (-0.1, 0.1):
            other = weights.copy()
            other[m] = np.maximum(other[m] + step, 0)
            assert blend_loss(mixed, base, truth, other) >= least - 1e-9


def test_true_evidence_has_weight_one_and_noise_none(models, rng):
    evidence, base, truth = models
    three = np.stack([*evidence, rng.normal(size=(3000, 3))])
    weights = blend_weights(base + three, base, truth)
    np.testing.assert_allclose(weights[:2], 1, atol=0.25)
    assert (weights[2] < 0.15).all()


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
