import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import log_loss

from naim3l.decisions.calibration import fit_calibration
from naim3l.decisions.fusion import (
    Evidence,
    add_evidence,
    fit_weights,
    fuse,
    fuse_arrays,
    label_groups,
)


def test_mean_over_the_views_that_a_sample_has():
    nan = np.nan
    scores = np.array([[[1.0], [2], [nan], [nan]], [[3.0], [nan], [5], [nan]]])
    np.testing.assert_array_equal(fuse_arrays(scores), [[2], [2], [5], [nan]])


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


def test_fitted_evidence_is_near_the_true_one(rng):
    means = [0.5, 1.5]
    scores, log_odds, base, truth = drawn_views(rng, means, n=20_000)
    fitted = Evidence.plain([fit_calibration(S, truth) for S in scores])
    close = expit(fitted.fuse(scores)) - expit(add_evidence(log_odds, base))
    assert np.nanmax(np.abs(close)) < 0.05


def test_a_sample_with_one_view_has_the_log_odds_of_that_view(rng):
    scores, _, _, truth = drawn_views(rng, [0.5, 1.5], n=500, rate=0.05)
    truth[:, 1] = np.where(np.arange(500) < 30, truth[:, 1], np.nan)  # hardly known
    scores[0, 30:, 1] = np.nan
    rates = np.array([0.05, 0.05])
    curves = [fit_calibration(S, truth, rates) for S in scores]
    fused = Evidence.plain(curves).fuse(scores)
    for v, curve in enumerate(curves):
        alone = ~np.isnan(scores[v]) & np.isnan(scores[1 - v])
        assert alone.any()
        np.testing.assert_allclose(fused[alone], curve.log_odds(scores[v])[alone])


def test_learned_weights_leave_independent_views_alone(rng):
    _, log_odds, base, truth = drawn_views(rng, [1.0, 1.5], n=20_000)
    weights, overlap = fit_weights(log_odds, base, truth)
    np.testing.assert_allclose(weights, 1, atol=0.1)
    np.testing.assert_allclose(overlap, 0, atol=0.1)


@pytest.mark.parametrize("correlation", [0.2, 0.5])
def test_overlap_is_the_correlation_of_what_views_get_wrong(rng, correlation):
    # Of normal scores with one mean and this correlation, the log-odds given n of them are the sum
    # of those given each, divided by 1 + correlation (n - 1).
    _, log_odds, base, truth = drawn_views(rng, [1.0] * 3, n=20_000, correlation=correlation)
    weights, overlap = fit_weights(log_odds, base, truth)
    np.testing.assert_allclose(weights, 1, atol=0.1)
    np.testing.assert_allclose(overlap, correlation, atol=0.1)


def test_what_views_say_again_counts_once_however_many_of_them_there_are(rng):
    _, log_odds, base, truth = drawn_views(rng, [1.0], n=20_000, missing=0.0)
    again = np.repeat(log_odds, 3, axis=0)
    again[rng.random(again.shape[:2]) < 0.4] = np.nan
    weights, overlap = fit_weights(again, base, truth)
    np.testing.assert_allclose(weights, 1, atol=0.1)
    np.testing.assert_allclose(overlap, 1, atol=0.1)
    fused = add_evidence(again, base, overlap=1.0)
    present = ~np.isnan(fused)
    np.testing.assert_allclose(fused[present], log_odds[0][present])


def test_full_overlap_is_the_mean_of_evidence_and_none_its_sum(rng):
    _, log_odds, base, _ = drawn_views(rng, [0.5, 1.0, 2.0], n=50)
    np.testing.assert_allclose(add_evidence(log_odds, base, overlap=1.0), fuse_arrays(log_odds))
    n_views = (~np.isnan(log_odds)).sum(axis=0)
    total = add_evidence(log_odds, base) - base
    np.testing.assert_allclose(total, n_views * (fuse_arrays(log_odds) - base))


def test_learned_weights_are_a_minimum_of_the_log_loss(rng):
    _, log_odds, base, truth = drawn_views(rng, [1.0, 1.0], correlation=0.5)
    log_odds *= [[[0.5]], [[2.0]]]  # badly calibrated: weights must make up for it
    weights, overlap = fit_weights(log_odds, base, truth, pull=0.0)
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


def test_unknown_labels_and_absent_samples_do_not_count(rng):
    _, log_odds, base, truth = drawn_views(rng, [0.5, 1.0], n=300)
    more = np.concatenate([log_odds, rng.normal(size=log_odds.shape)], axis=1)
    unknown = np.concatenate([truth, np.full_like(truth, np.nan)])
    expected = fit_weights(log_odds, base, truth)
    for found, value in zip(fit_weights(more, base, unknown), expected, strict=True):
        np.testing.assert_allclose(found, value)


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
        ({"lab": "scores"}, ValueError, "view 'lab': expected a table"),
        ({"lab": sparse.eye_array(2)}, TypeError, "view 'lab': a sparse matrix"),
        ({"lab": pl.LazyFrame({"flu": [1.0]})}, ValueError, "view 'lab': a lazy frame"),
        (
            {"clinic": frame([[1, 2]], ["a"]), "lab": pl.DataFrame({"flu": [1], "gout": [2]})},
            TypeError,
            "view 'lab': a DataFrame of polars.*, but 'clinic' is a DataFrame of pandas",
        ),
        (
            {"clinic": np.ones((2, 2)), "lab": np.ones((3, 2))},
            ValueError,
            "view 'lab': 3 rows, and 2 of 'clinic'; without an index",
        ),
        (
            {"clinic": np.ones((2, 2)), "lab": np.ones((2, 3))},
            ValueError,
            "view 'lab': columns differ from those of 'clinic'",
        ),
        ({"lab": frame([[1, 2], [3, 4]], ["a", "a"])}, ValueError, "'a' occurs more than once"),
        ({"lab": frame([[1, 2], [3, 4]], ["a", None])}, ValueError, "'lab', row 1: the index is m"),
        (
            {"lab": frame([[1, 2]], ["a"])[["flu", "gout", "flu"]]},
            ValueError,
            r"view 'lab': duplicate column names \['flu'\]",
        ),
        (
            {"lab": frame([["high", 2]], ["a"])},
            ValueError,
            "view 'lab', row 0, column 'flu': 'high' is not a number",
        ),
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


NAMES = ["flu", "gout"]


@pytest.mark.parametrize("rates", [None, [0.5, 0.2]])
@pytest.mark.parametrize(
    ("make", "rows_of"),
    [
        (np.asarray, np.asarray),
        (lambda rows: pd.DataFrame(rows, columns=NAMES), pd.DataFrame.to_numpy),
        (lambda rows: pl.DataFrame(rows, schema=NAMES, orient="row"), pl.DataFrame.to_numpy),
        (lambda rows: pa.table(dict(zip(NAMES, rows.T, strict=True))),
         lambda table: np.column_stack([column.to_numpy() for column in table.columns])),
    ],
    ids=["NumPy", "pandas", "polars", "pyarrow"],
)  # fmt: skip
def test_rows_in_the_same_order_are_fused_in_any_container(make, rows_of, rates, rng):
    P = rng.uniform(0.1, 0.9, size=(3, 5, 2))
    P[1, 2], P[:, 4] = np.nan, np.nan  # one sample lacks a view, one all of them
    tables = {f"view{v}": make(rows) for v, rows in enumerate(P)}
    fused = fuse(tables, base_rates=rates)
    assert type(fused) is type(tables["view0"])
    expected = fuse_arrays(P) if rates is None else expit(add_evidence(logit(P), logit(rates)))
    np.testing.assert_allclose(rows_of(fused), expected)


def test_columns_of_polars_are_matched_by_name_and_nulls_are_missing():
    clinic = pl.DataFrame({"flu": [1.0, None], "gout": [3.0, None]})
    lab = pl.DataFrame({"gout": [5.0, 2.0], "flu": [7.0, 4.0]})
    fused = fuse({"clinic": clinic, "lab": lab})
    assert fused.columns == ["flu", "gout"] and fused.rows() == [(4.0, 4.0), (4.0, 2.0)]
    rates = fuse({"clinic": clinic / 10}, base_rates={"gout": 0.3, "flu": 0.1})
    np.testing.assert_allclose(rates.row(0), [0.1, 0.3])


def test_columns_without_a_name_are_matched_by_number():
    clinic, lab = pd.DataFrame([[1.0, 2.0]]), pd.DataFrame([[6.0, 5.0]], columns=[1, 0])
    pd.testing.assert_frame_equal(fuse({"a": clinic, "b": lab}), pd.DataFrame([[3.0, 4.0]]))


def test_keys_keep_their_name_and_kind():
    rows = [[1.0, 2], [3, 4]]
    clinic = frame(rows, pd.Index(["a", "b"], name="patient"))
    fused = fuse({"clinic": clinic, "lab": frame(rows, pd.Index(["c", "a"], name="patient"))})
    assert fused.index.name == "patient" and list(fused.index) == ["a", "b", "c"]
    pairs = [pd.MultiIndex.from_tuples(t, names=["site", "id"]) for t in (
        [(1, "x"), (2, "x")], [(2, "x"), (2, "y")])]  # fmt: skip
    fused = fuse({"clinic": frame(rows, pairs[0]), "lab": frame(rows, pairs[1])})
    assert list(fused.index) == [(1, "x"), (2, "x"), (2, "y")] and fused.index.names == [
        "site",
        "id",
    ]
    assert list(fused.loc[(2, "x")]) == [2, 3]


def test_nullable_numbers_are_numbers():
    clinic, lab = frame([[0.5, 0.25], [0.5, 0.75]], ["a", "b"]), frame([[0.5, None]], ["c"])
    tables = {"clinic": clinic.convert_dtypes(), "lab": lab.convert_dtypes()}
    for rates in (None, [0.5, 0.5]):
        fused = fuse(tables, base_rates=rates)
        np.testing.assert_allclose(fused, [[0.5, 0.25], [0.5, 0.75], [0.5, np.nan]])


def test_base_rates_are_matched_by_name():
    scores = {"clinic": frame([[0.8, 0.5]], ["a"]), "lab": frame([[0.9, 0.2]], ["a"])}
    expected = fuse(scores, base_rates=[0.5, 0.2])
    for rates in (pd.Series({"gout": 0.2, "flu": 0.5}), {"gout": 0.2, "flu": 0.5}):
        pd.testing.assert_frame_equal(fuse(scores, base_rates=rates), expected)
    with pytest.raises(ValueError, match="base_rates: no entry for label 'gout'"):
        fuse(scores, base_rates={"flu": 0.5})
    with pytest.raises(ValueError, match="base_rates must be numbers"):
        fuse(scores, base_rates=["half", "some"])


def test_probabilities_of_tables_add_what_they_say_beyond_the_base_rates():
    clinic, lab = frame([[0.8, 0.5], [0.2, 0.1]], ["a", "b"]), frame([[0.9, 0.2]], ["a"])
    fused = fuse({"clinic": clinic, "lab": lab}, base_rates=[0.5, 0.2])
    expected = expit(logit(0.8) + logit(0.9))  # a base rate of one half says nothing
    assert fused.loc["a", "flu"] == pytest.approx(expected)
    assert fused.loc["a", "gout"] == pytest.approx(0.5)  # the lab says no more than the base rate
    assert fused.loc["b"].tolist() == pytest.approx([0.2, 0.1])


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
