"""Fusion of views and blends of models: Bayes' rule, and overlap learned without labels."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import log_loss

from naim3l.decisions import fusion
from naim3l.decisions.calibration import Calibration, HeldOutScores, fit_calibrations
from naim3l.decisions.fusion import (
    FEWEST_ROWS,
    MOST_OVERLAP,
    PRIOR_ROWS,
    PULL,
    USUAL_OVERLAP,
    Blend,
    Evidence,
    add_evidence,
    blend,
    blend_weights,
    fuse,
    fuse_arrays,
    fuse_views,
    label_groups,
    learn_covariance,
    learn_overlap,
    overlap_of,
)


def drawn_views(rng, means, n=4000, rates=(0.3, 0.3), missing=0.3, correlation=0.0):
    """Scores normal around +-mean given the label, their true log-odds, their base, and labels.

    Given the label, the scores of two views have the correlation.
    """
    truth = (rng.random((n, len(rates))) < rates).astype(float)
    shared, own = rng.normal(size=truth.shape), rng.normal(size=(len(means), *truth.shape))
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    scores = np.reshape(means, (-1, 1, 1)) * (2 * truth - 1) + noise
    scores[np.broadcast_to(rng.random((len(means), n, 1)) < missing, scores.shape)] = np.nan
    base = logit(np.asarray(rates))
    return scores, base + 2 * np.reshape(means, (-1, 1, 1)) * scores, base, truth


class TestAddedEvidence:
    def test_of_independent_views_it_gives_the_posterior(self, rng):
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

    @pytest.mark.parametrize("correlation", [0.0, 0.4, 0.9])
    @pytest.mark.parametrize("n_views", [2, 3])
    def test_of_equally_correlated_views_it_gives_the_posterior(self, rng, n_views, correlation):
        """Of normal scores with one mean, and this correlation given the label."""
        scores, log_odds, base, _ = drawn_views(
            rng, [0.8] * n_views, n=30, missing=0, correlation=correlation
        )
        cov = correlation + (1 - correlation) * np.eye(n_views)
        of_value = [
            multivariate_normal([mean] * n_views, cov).pdf(np.moveaxis(scores, 0, -1))
            for mean in (0.8, -0.8)
        ]
        expected = 0.3 * of_value[0] / (0.3 * of_value[0] + 0.7 * of_value[1])
        np.testing.assert_allclose(expit(add_evidence(log_odds, base, correlation)), expected)

    @pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
    def test_one_view_is_that_view(self, rng, overlap):
        _, log_odds, _, _ = drawn_views(rng, [0.5, 1.5, 1.0], n=500)
        bases = rng.normal(size=(3, 2))
        fused = add_evidence(log_odds, bases, overlap)
        for v in range(3):
            others = np.delete(log_odds, v, axis=0)
            alone = ~np.isnan(log_odds[v]) & np.isnan(others).all(axis=0)
            assert alone.any()
            np.testing.assert_allclose(fused[alone], log_odds[v][alone], rtol=1e-12)
            only = add_evidence(log_odds[v : v + 1], bases[v : v + 1], overlap)
            np.testing.assert_allclose(only, log_odds[v], rtol=1e-12)

    @pytest.mark.parametrize("n_views", [2, 5])
    def test_identical_views_with_overlap_1_count_once(self, rng, n_views):
        log_odds = rng.normal(size=(40, 3))
        fused = add_evidence(np.stack([log_odds] * n_views), np.array([-1.0, 0, 2]), 1.0)
        np.testing.assert_allclose(fused, log_odds)

    def test_with_overlap_1_it_is_the_mean(self, rng):
        _, log_odds, base, _ = drawn_views(rng, [0.5, 1.5, 1.0], n=100)
        np.testing.assert_allclose(add_evidence(log_odds, base, 1.0), fuse_arrays(log_odds))

    def test_a_view_at_its_rate_adds_nothing_but_counts(self, rng):
        log_odds, bases = rng.normal(size=(2, 30, 2)), np.array([[0.5, -2.0], [0.5, -2.0]])
        log_odds[1] = bases[1]
        np.testing.assert_allclose(add_evidence(log_odds, bases), log_odds[0])

    def test_rates_of_the_views_of_a_sample_are_averaged_as_log_odds(self):
        bases = logit(np.array([[0.2], [0.6]]))
        log_odds = np.array([[[1.0], [1.0]], [[0.5], [np.nan]]])
        found = add_evidence(log_odds, bases, 0.5)
        start = bases.mean()
        both = start + (1.0 - bases[0, 0] + 0.5 - bases[1, 0]) / 1.5
        np.testing.assert_allclose(found, [[both], [1.0]])


class TestLearnedOverlap:
    RATES = (0.05, 0.2, 0.5)

    @pytest.mark.parametrize("correlation", [0.0, 0.25, 0.5, 0.8])
    @pytest.mark.parametrize("mean", [0.4, 1.0, 2.0])
    def test_it_is_the_correlation_given_the_label(self, rng, correlation, mean):
        """Whatever the labels tell of both views: their evidence is correlated by that, too."""
        _, log_odds, base, _ = drawn_views(
            rng, [mean, mean], n=30_000, rates=self.RATES, correlation=correlation
        )
        assert learn_overlap(log_odds, base) == pytest.approx(correlation, abs=0.03)

    def test_views_may_be_unequally_good(self, rng):
        _, log_odds, base, _ = drawn_views(
            rng, [0.5, 1.5, 1.0], n=30_000, rates=self.RATES, correlation=0.5
        )
        assert learn_overlap(log_odds, base) == pytest.approx(0.5, abs=0.03)

    def test_no_other_number_fuses_new_rows_better(self, rng):
        draw = {"rates": self.RATES, "correlation": 0.5, "missing": 0.0}
        _, log_odds, base, _ = drawn_views(rng, [1.0] * 3, n=20_000, **draw)
        found = learn_overlap(log_odds, base)
        _, log_odds, base, truth = drawn_views(rng, [1.0] * 3, n=20_000, **draw)

        def loss(overlap):
            return log_loss(truth.ravel(), expit(add_evidence(log_odds, base, overlap)).ravel())

        assert loss(found) < min(loss(found - 0.15), loss(found + 0.15))

    def test_rates_may_differ_between_views(self, rng):
        """As of a table of the ill, and one of everyone: what is added to the rates is the same."""
        _, log_odds, base, _ = drawn_views(rng, [1.0, 1.0], n=2000, rates=self.RATES)
        bases = np.stack([base, base])
        assert learn_overlap(log_odds, bases) == learn_overlap(log_odds, base)
        moved = log_odds + np.array([[[0.0]], [[1.0]]])
        assert learn_overlap(moved, bases + np.array([[0.0], [1.0]])) == pytest.approx(
            learn_overlap(log_odds, base), abs=0.05
        )

    @pytest.mark.parametrize("correlation", [0.0, 0.6])
    def test_order_of_views_rows_and_labels_does_not_matter(self, rng, correlation):
        _, log_odds, base, _ = drawn_views(
            rng, [0.5, 1.0, 1.5], n=300, rates=self.RATES, correlation=correlation
        )
        found = learn_overlap(log_odds, base)
        rows, labels = rng.permutation(300), [2, 0, 1]
        for other in (
            learn_overlap(log_odds[::-1], base),
            learn_overlap(log_odds[:, rows], base),
            learn_overlap(log_odds[:, :, labels], base[labels]),
        ):
            assert other == pytest.approx(found, rel=1e-9)

    def test_samples_without_views_tell_nothing(self, rng):
        _, log_odds, base, _ = drawn_views(rng, [1.0, 1.0], n=400, missing=0, correlation=0.5)
        more = np.concatenate([log_odds, np.full((2, 50, 2), np.nan)], axis=1)
        assert learn_overlap(more, base) == pytest.approx(learn_overlap(log_odds, base))

    def test_without_rows_enough_it_is_unknown(self, rng):
        _, log_odds, base, _ = drawn_views(rng, [1.0, 1.0], n=100, missing=0)
        log_odds[0, FEWEST_ROWS - 1 :] = np.nan
        assert learn_overlap(log_odds, base) is None
        assert learn_overlap(log_odds[:1], base) is None
        assert learn_overlap(log_odds[:, :0], base) is None
        assert learn_overlap(np.full_like(log_odds, np.nan), base) is None
        assert overlap_of(log_odds, base) == USUAL_OVERLAP
        assert overlap_of(log_odds, base, 0.7) == 0.7

    def test_evidence_that_is_always_0_tells_nothing(self):
        assert learn_overlap(np.zeros((2, 100, 3)), np.zeros(3)) is None

    @pytest.mark.parametrize("n", [FEWEST_ROWS, 200])
    def test_few_rows_are_drawn_to_the_usual_overlap(self, rng, n):
        log_odds = np.stack([rng.normal(size=(n, 2))] * 2)  # the same: as much as is allowed
        expected = (n * MOST_OVERLAP + PRIOR_ROWS * USUAL_OVERLAP) / (n + PRIOR_ROWS)
        assert learn_overlap(log_odds, np.zeros(2)) == pytest.approx(expected)

    def test_it_is_never_negative(self, rng):
        one = rng.normal(size=(200, 2))
        expected = PRIOR_ROWS * USUAL_OVERLAP / (200 + PRIOR_ROWS)
        assert learn_overlap(np.stack([one, -one]), np.zeros(2)) == pytest.approx(expected)


class TestOverlapsOfPairs:
    MEANS = np.array([0.6, 1.0, 0.8])
    R = np.array([[1, 0.4, 0.1], [0.4, 1, 0.2], [0.1, 0.2, 1]])

    @property
    def covariance(self):
        """That of the evidence 2 m z of scores z with means m and -m, and correlations R."""
        return 4 * self.R * np.outer(self.MEANS, self.MEANS)

    def drawn(self, rng, n=20_000, rate=0.3):
        truth = (rng.random((n, 2)) < rate).astype(float)
        noise = np.moveaxis(rng.multivariate_normal(np.zeros(3), self.R, size=(n, 2)), 2, 0)
        scores = self.MEANS[:, None, None] * (2 * truth - 1) + noise
        scores[np.broadcast_to(rng.random((3, n, 1)) < 0.3, scores.shape)] = np.nan
        base = logit(np.full(2, rate))
        return scores, base + 2 * self.MEANS[:, None, None] * scores, base

    def test_the_result_is_the_posterior_of_correlated_views(self, rng):
        scores, log_odds, base = self.drawn(rng, n=60)
        fused = add_evidence(log_odds, base, self.covariance)
        for i, k in np.argwhere(~np.isnan(fused)):
            seen = ~np.isnan(scores[:, i, k])
            z, m, R = scores[seen, i, k], self.MEANS[seen], self.R[np.ix_(seen, seen)]
            yes, no = (multivariate_normal.logpdf(z, mean, R) for mean in (m, -m))
            assert fused[i, k] == pytest.approx(base[k] + yes - no)
        np.testing.assert_array_equal(np.isnan(fused), np.isnan(scores).all(axis=0))

    def test_it_is_learned_without_labels(self, rng):
        _, log_odds, base = self.drawn(rng)
        found = learn_covariance(log_odds, base)
        np.testing.assert_allclose(found, self.covariance, atol=0.1)

    @pytest.mark.parametrize("overlap", [0.0, 0.4, 0.9])
    def test_equal_overlaps_of_equal_views_are_one_number(self, rng, overlap):
        _, log_odds, base = self.drawn(rng, n=80)
        equal = 3.0 * (overlap + (1 - overlap) * np.eye(3))
        fused = add_evidence(log_odds, base, equal)
        np.testing.assert_allclose(fused, add_evidence(log_odds, base, overlap))

    def test_no_evidence_counts_against_itself(self):
        """The best factor of the weak one of two views that overlap would be negative."""
        covariance = np.array([[0.1, 0.9], [0.9, 10.0]])
        assert (np.linalg.solve(covariance, np.diag(covariance)) < 0).any()
        log_odds = np.array([[[2.0]], [[5.0]]])
        assert add_evidence(log_odds, np.zeros(1), covariance) == pytest.approx(5.0)

    def test_of_few_rows_it_is_the_usual_number(self, rng):
        _, log_odds, base = self.drawn(rng, n=FEWEST_ROWS - 1)
        assert learn_covariance(log_odds, base) is None
        P = dict(zip("abc", expit(log_odds), strict=True))
        found = fuse(P, base_rates=expit(base), overlap="pairs")
        np.testing.assert_allclose(found, fuse(P, base_rates=expit(base), overlap=USUAL_OVERLAP))

    def test_order_of_views_does_not_matter(self, rng):
        _, log_odds, base = self.drawn(rng, n=300)
        P = dict(zip("abc", expit(log_odds), strict=True))
        given = {"base_rates": expit(base), "overlap": "pairs"}
        turned = fuse({view: P[view] for view in "cab"}, **given)
        np.testing.assert_allclose(fuse(P, **given), turned)


class TestWideTables:
    def test_a_sample_with_one_view_has_the_log_odds_of_that_view(self, rng):
        scores, _, _, truth = drawn_views(rng, [0.5, 1.5], n=500, rates=(0.05, 0.05))
        truth[:, 1] = np.where(np.arange(500) < 30, truth[:, 1], np.nan)  # hardly known
        curves = fit_calibrations(
            [HeldOutScores(S, truth, S) for S in scores], np.full((2, 2), 0.05)
        )
        evidence = Evidence.of(curves, scores)
        log_odds = np.stack([c.log_odds(S) for c, S in zip(curves, scores, strict=True)])
        assert evidence.overlap == learn_overlap(log_odds, logit(np.full(2, 0.05)))
        fused = fuse_views(scores, evidence)
        np.testing.assert_allclose(fused, add_evidence(log_odds, curves[0].base, evidence.overlap))
        for v in range(2):
            alone = ~np.isnan(scores[v]) & np.isnan(scores[1 - v])
            assert alone.any()
            np.testing.assert_allclose(fused[alone], log_odds[v][alone])
        few = Evidence.of(curves, scores[:, :5])
        assert few.overlap == USUAL_OVERLAP

    def test_without_evidence_it_is_the_mean(self, rng):
        scores = drawn_views(rng, [0.5, 1.5], n=20)[0]
        found = np.ma.masked_invalid(scores).mean(axis=0).filled(np.nan)
        np.testing.assert_allclose(fuse_views(scores, None), found)


def test_labels_of_like_frequency_share_weights(rng):
    truth = (rng.random((500, 6)) < [0.01, 0.02, 0.1, 0.11, 0.5, 0.5]).astype(float)
    groups = label_groups(truth)
    assert (np.diff(groups) >= 0).all() and groups[0] == groups[1] and groups[-1] == 2
    weights = blend_weights(rng.normal(size=(2, *truth.shape)), np.zeros(6), truth)
    for group in np.unique(groups):
        assert np.ptp(weights[:, groups == group], axis=1).max() == 0


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
        else expit(add_evidence(logit(P), logit(rates), USUAL_OVERLAP))  # of few rows
    )
    np.testing.assert_allclose(rows_of(fused), expected)


def test_base_rates_by_view():
    scores = {"clinic": frame([[0.8, 0.5]], ["a"]), "lab": frame([[0.9, 0.2]], ["a"])}
    rates = {"clinic": [0.5, 0.2], "lab": [0.7, 0.1]}
    found = fuse(scores, base_rates=rates, overlap=0.5).to_numpy()
    P = np.stack([table.to_numpy() for table in scores.values()])
    expected = expit(add_evidence(logit(P), logit(list(rates.values())), 0.5))
    np.testing.assert_allclose(found, expected)
    by_name = {
        "more": [0.1, 0.1],
        "clinic": {"gout": 0.2, "flu": 0.5},
        "lab": pd.Series({"gout": 0.1, "flu": 0.7}),
    }
    np.testing.assert_allclose(fuse(scores, base_rates=by_name, overlap=0.5), expected)
    by_name["lab"] = by_name["lab"].to_dict()  # without any sequence
    del by_name["more"]
    np.testing.assert_allclose(fuse(scores, base_rates=by_name, overlap=0.5), expected)
    for wrong, message in [
        ({"clinic": [0.5, 0.2]}, "no entry for view 'lab'"),
        ({"clinic": [0.5, 0.2], "lab": [0.7]}, "base_rates must be 2 numbers"),
        ({"clinic": [0.5, 0.2], "lab": {"flu": 0.5}}, "no entry for label 'gout'"),
    ]:
        with pytest.raises(ValueError, match=message):
            fuse(scores, base_rates=wrong)


def test_labels_may_be_named_as_views_are():
    """Rates of labels are numbers, and those of views are not."""
    names = ["clinic", "lab"]
    scores = {view: pd.DataFrame([[0.8, 0.5]], columns=names) for view in names}
    of_labels = {"clinic": 0.3, "lab": 0.6}
    expected = fuse(scores, base_rates=[0.3, 0.6])
    pd.testing.assert_frame_equal(fuse(scores, base_rates=of_labels), expected)


def test_auto_is_the_overlap_of_the_rows_that_are_fused(rng):
    _, log_odds, base, _ = drawn_views(rng, [1.0, 1.0], n=300, correlation=0.6)
    P = dict(zip("ab", expit(log_odds), strict=True))
    rates = expit(base)
    overlap = learn_overlap(log_odds, base)
    assert overlap > 0.3
    found = fuse(P, base_rates=rates)
    np.testing.assert_allclose(found, fuse(P, base_rates=rates, overlap="auto"))
    np.testing.assert_allclose(found, fuse(P, base_rates=rates, overlap=overlap))
    few = {view: table[:15] for view, table in P.items()}
    usual = fuse(few, base_rates=rates, overlap=USUAL_OVERLAP)
    np.testing.assert_allclose(fuse(few, base_rates=rates), usual)


def test_certain_probabilities_stay_finite():
    fused = fuse({"a": np.array([[1.0, 0.0]]), "b": np.array([[0.0, 0.0]])}, base_rates=[0.5, 0.1])
    assert fused[0, 0] == pytest.approx(0.5) and 0 < fused[0, 1] < 1e-9


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
    for overlap in (-0.1, 1.5, "much", True, None, np.nan, np.array([0.1, 0.2])):
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


def penalised(w, evidence, base, truth, centre):
    """Log-loss of entries, and half the strength of the prior times the squared distance."""
    if min(w) < 0:
        return np.inf
    P = expit(base + np.tensordot(w, evidence, 1))
    return (
        log_loss(truth.ravel(), P.ravel(), normalize=False) + PULL / 2 * ((w - centre) ** 2).sum()
    )


def test_weights_minimise_their_penalised_log_loss(models, rng):
    evidence, base, truth = (of[..., :300, :] if of.ndim > 1 else of for of in models)
    evidence = np.stack([0.3 * evidence[0], evidence[1], 0.5 * rng.normal(size=(300, 3))])
    evidence[2] -= 0.3 * truth  # a model that is wrong
    squares = (evidence**2).sum(axis=(1, 2))

    def least(labels, centre):
        of_labels = evidence[..., labels], base[labels], truth[:, labels], centre
        options = {"xatol": 1e-6, "fatol": 1e-9, "maxfev": 5000}
        return minimize(penalised, centre, of_labels, "Nelder-Mead", options=options).x

    common = least(slice(None), squares / squares.sum())
    weights, groups = blend_weights(base + evidence, base, truth), label_groups(truth)
    assert len(np.unique(groups)) > 1
    for group in np.unique(groups):
        expected = least(groups == group, common)
        found = weights[:, groups == group]
        np.testing.assert_allclose(found, np.tile(expected[:, None], found.shape[1]), atol=1e-3)
    assert weights.min() >= 0 and weights[2].max() < 1e-6


def test_weights_are_shrunk_to_what_each_model_says(rng, monkeypatch):
    monkeypatch.setattr(fusion, "PULL", 1e9)
    evidence = rng.normal(size=(3, 50, 2)) * np.array([1.0, 2.0, 0.0])[:, None, None]
    truth = np.full((50, 2), np.nan)
    truth[:9] = rng.random((9, 2)) < 0.5
    weights = blend_weights(evidence, np.zeros(2), truth)
    shares = (evidence[:, :9] ** 2).sum(axis=(1, 2))
    expected = np.tile((shares / shares.sum())[:, None], 2)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert (weights[2] == 0).all()
    silent = blend_weights(np.zeros((2, 50, 2)), np.zeros(2), truth)
    assert (silent == 0.5).all()  # whatever they are, the blend has base rates


def test_true_evidence_has_weight_one_and_noise_none(models, rng):
    evidence, base, truth = models
    three = np.stack([*evidence, rng.normal(size=(3000, 3))])
    weights = blend_weights(base + three, base, truth)
    np.testing.assert_allclose(weights[:2], 1, atol=0.25)
    assert (weights[2] < 0.15).all()


def test_scores_are_calibrated_before_they_are_weighted(rng):
    base, weights = np.array([-1.0, 0.5]), np.array([[0.3, 0.6], [0.5, 0.0]])
    parts = {name: rng.normal(size=(2, 2)) for name in ("centre", "shift")}
    spread, slope = rng.uniform(0.5, 2, size=(2, 2)), rng.random((2, 2))
    curves = [
        Calibration(parts["centre"][m], spread[m], slope[m], parts["shift"][m], base, slope[m] > 0)
        for m in range(2)
    ]
    scores = rng.uniform(-1, 1, size=(2, 5, 2))  # none is far from the others
    found = Blend(curves, weights).log_odds(scores)
    for row in range(5):
        for k in range(2):
            added = 0.0
            for m in range(2):
                z = (scores[m, row, k] - parts["centre"][m, k]) / spread[m, k]
                assert abs(z) < 4
                added += weights[m, k] * (slope[m, k] * z - parts["shift"][m, k])
            assert found[row, k] == pytest.approx(base[k] + added)


class TestRowsOfOneIndex:
    """Several rows of one index in a table count as one, the mean of their log-odds."""

    def test_log_odds_of_rows_are_averaged_before_tables_are_fused(self):
        log_odds = {"clinic": [[1.0], [3.0], [-1.0]], "lab": [[0.5], [0.25]]}
        indexes = {"clinic": ["a", "a", "b"], "lab": ["a", "c"]}
        tables = {
            view: pd.DataFrame(expit(of), index=indexes[view], columns=["flu"])
            for view, of in log_odds.items()
        }
        found = fuse(tables, base_rates=[0.5], overlap=0)
        assert found.index.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(found["flu"], expit([2.0 + 0.5, -1.0, 0.25]))

    def test_rows_without_a_score_are_left_out(self):
        table = pd.DataFrame({"flu": [0.5, np.nan, 2.5, np.nan]}, index=["a", "a", "a", "b"])
        other = pd.DataFrame({"flu": [0.5]}, index=["a"])
        found = fuse({"clinic": table, "lab": other})
        np.testing.assert_allclose(found["flu"], [1.0, np.nan])

    def test_several_rows_of_one_table_are_not_several_tables(self):
        tables = {
            view: pd.DataFrame({"flu": [0.5, 0.7]}, index=[view, view])
            for view in ("clinic", "lab")
        }
        with pytest.warns(UserWarning, match="no sample is in two tables"):
            assert len(fuse(tables)) == 2
