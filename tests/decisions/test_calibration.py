"""Calibration: slopes are the most likely ones, and probabilities average to the rates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logit
from scipy.stats import rankdata

from naim3l.decisions.calibration import (
    HOLD_OFFSET,
    HOLD_SLOPE,
    LEAST_SLOPE,
    MOST_SLOPE,
    USUAL,
    Calibration,
    HeldOutScores,
    _Entries,
    _own_curves,
    compress,
    fit_calibration,
    fit_calibrations,
    held_out_losses,
)


def drawn(rng, n_rows, slopes, offsets, unknown=0.0):
    """Normal scores, and labels of logistic models of them."""
    scores = rng.normal(size=(n_rows, len(slopes)))
    truth = (rng.random(scores.shape) < expit(scores * slopes + offsets)).astype(float)
    truth[rng.random(truth.shape) < unknown] = np.nan
    return scores, truth


def rates_of(*truths):
    """Share of positives of each label in each table."""
    return np.array([(np.nansum(Y, axis=0) + 1) / ((Y >= 0).sum(axis=0) + 2) for Y in truths])


def tables_of(rng, unknown=0.3):
    """Two tables of three labels, of which the second one lacks the last label."""
    slopes, offsets = np.array([0.5, 2.0, 3.0]), np.array([-3.0, -1.0, 1.0])
    pairs = [drawn(rng, n, slopes, offsets, unknown) for n in (150, 90)]
    pairs[1][1][:, 2] = np.nan
    tables = [HeldOutScores(S, Y, S) for S, Y in pairs]
    return tables, rates_of(*(Y for _, Y in pairs))


def log_loss(log_odds, yes):
    return -log_expit(np.where(yes > 0, log_odds, -log_odds)).sum()


def standard(scores):
    z = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    beyond = np.maximum(np.abs(z) - USUAL, 0)
    return np.where(beyond > 0, np.sign(z) * (USUAL + np.log1p(beyond)), z)


def by_label(table, base):
    """Standardised scores, truth and base log-odds of the known entries of each label."""
    z = standard(table.final)
    return [
        (z[seen, k], table.truth[seen, k], base[k]) for k, seen in enumerate((table.truth >= 0).T)
    ]


def held_slope(parts, around):
    """The most likely slope of some labels, at least 0, by its definition."""

    def loss(slope):
        losses = (log_loss(base + slope * z, y) for z, y, base in parts)
        return sum(losses) + HOLD_SLOPE / 2 * (slope - around) ** 2

    options = {"xatol": 1e-10, "maxiter": 1000}
    return minimize_scalar(loss, bounds=(0, MOST_SLOPE), method="bounded", options=options).x


def held_curve(z, y, around, base):
    """The most likely slope and offset of a label, by their definition."""

    def loss(ab):
        held = HOLD_SLOPE * (ab[0] - around) ** 2 + HOLD_OFFSET * (ab[1] - base) ** 2
        return log_loss(ab[0] * z + ab[1], y) + held / 2

    return minimize(loss, [around, base], method="BFGS", options={"gtol": 1e-7}).x


class TestSlopes:
    def test_each_of_three_nested_steps_has_the_lowest_penalised_log_loss(self, rng):
        tables, rates = tables_of(rng)
        parts = [by_label(*pair) for pair in zip(tables, logit(rates), strict=True)]
        common = held_slope(parts[0] + parts[1], 0.0)
        for of_labels, found in zip(parts, fit_calibrations(tables, rates), strict=True):
            of_table = held_slope(of_labels, common)
            for (z, y, base), slope in zip(of_labels, found.slope, strict=True):
                expected, _ = held_curve(z, y, of_table, base)
                assert slope == pytest.approx(max(expected, LEAST_SLOPE), abs=1e-4)

    def test_a_label_without_entries_has_the_slope_of_its_table(self, rng):
        tables, rates = tables_of(rng)
        parts = [by_label(*pair) for pair in zip(tables, logit(rates), strict=True)]
        found = fit_calibrations(tables, rates)[1]
        expected = held_slope(parts[1], held_slope(parts[0] + parts[1], 0.0))
        assert found.slope[2] == pytest.approx(expected, abs=1e-5)
        assert not found.own[2]

    def test_a_table_without_entries_has_the_slope_of_all(self, rng):
        (first, _), rates = tables_of(rng)
        scores = rng.normal(size=(40, 3))
        empty = HeldOutScores(np.full((40, 3), np.nan), np.full((40, 3), np.nan), scores)
        found = fit_calibrations([first, empty], np.stack([rates[0], rates[0]]))[1]
        common = held_slope(by_label(first, logit(rates[0])), 0.0)
        np.testing.assert_allclose(found.slope, common, atol=1e-5)

    def test_they_are_the_least_where_scores_are_inverted(self, rng):
        scores, truth = drawn(rng, 60, np.array([-3.0, -3.0]), np.zeros(2))
        found = fit_calibration(scores, truth)
        np.testing.assert_array_equal(found.slope, LEAST_SLOPE)

    def test_known_entries_with_inverted_scores_do_not_invert_probabilities(self, rng):
        """As of a label with four known entries, of which both positives have the lowest scores."""
        scores, truth = drawn(rng, 400, np.array([2.0, 2.0, 2.0]), np.full(3, -1.0))
        order = np.argsort(scores[:, 2])
        truth[:, 2] = np.nan
        truth[order[:2], 2], truth[order[-2:], 2] = 1, 0
        found = fit_calibration(scores, truth, np.array([0.3, 0.3, 0.3]))
        assert found.slope[2] >= LEAST_SLOPE
        P = found.probabilities(scores)[:, 2]
        np.testing.assert_array_equal(rankdata(P), rankdata(scores[:, 2]))

    def test_separable_entries_have_a_bounded_slope(self, rng):
        scores = rng.normal(size=(200_000, 1))
        found = fit_calibration(scores, (scores > 0) * 1.0)
        assert np.isfinite(found.slope).all() and 10 < found.slope[0] <= MOST_SLOPE

    def test_planted_ones_are_found_and_own_with_many_entries(self, rng):
        slopes, offsets = np.array([1.0, 3.0, 0.5]), np.array([-1.0, 0.0, 1.0])
        scores, truth = drawn(rng, 20_000, slopes, offsets)
        found = fit_calibration(scores, truth, rates_of(truth)[0])
        assert found.own.all()
        np.testing.assert_allclose(found.slope / found.spread, slopes, rtol=0.06)
        new_scores, _ = drawn(rng, 20_000, slopes, offsets)
        P = found.probabilities(new_scores)
        np.testing.assert_allclose(P, expit(slopes * new_scores + offsets), atol=0.03)

    def test_they_are_own_where_the_entries_tell_more_than_the_prior(self, rng):
        scores, truth = drawn(rng, 4000, np.full(3, 2.0), np.array([-1.0, -1, -1]))
        truth[20:, 1], truth[:, 2] = np.nan, np.nan
        assert fit_calibration(scores, truth).own.tolist() == [True, False, False]

    def test_newton_steps_converge_where_a_score_is_far_from_all_others(self, rng):
        scores, truth = rng.normal(size=(300, 200)), (rng.random((300, 200)) < 0.02) * 1.0
        scores[0], truth[0] = 18 + rng.normal(size=200), 0  # a full step from here cycles
        slope, offset = np.ones(200), np.full(200, -4.0)
        a, b = _own_curves(_Entries.of(scores, truth, truth >= 0, offset), slope, offset)
        error = expit(a * scores + b) - truth
        grad_a = (scores * error).sum(axis=0) + HOLD_SLOPE * (a - slope)
        grad_b = error.sum(axis=0) + HOLD_OFFSET * (b - offset)
        assert max(np.abs(grad_a).max(), np.abs(grad_b).max()) < 1e-5


SHAPES = {
    "normal": lambda z: z,
    "skewed": lambda z: np.exp(3 * z),
    "huge": lambda z: 1e100 * z,
    "tiny": lambda z: 1e-9 * z,
    "far": lambda z: 1e6 + z,
    "nearly constant": lambda z: 1 + 1e-9 * z,
    "constant": lambda z: np.full_like(z, 0.7),
    "one outlier": lambda z: np.where(np.arange(len(z))[:, None] == 3, 1e8, z),
    "two values": lambda z: np.sign(z),
}
by_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


class TestRates:
    @by_shape
    @pytest.mark.parametrize("rates", [[0.5, 0.3], [0.001, 0.999], [1e-9, 1e-4]])
    def test_probabilities_of_training_rows_average_to_the_rate(self, rng, shape, rates):
        z, truth = drawn(rng, 301, np.array([4.0, 0.5]), np.zeros(2), unknown=0.5)
        scores = shape(z)
        final = shape(rng.normal(size=(211, 2)) + 0.5)
        table = HeldOutScores(np.where(truth >= 0, scores, np.nan), truth, final)
        (found,) = fit_calibrations([table], np.array([rates]))
        P = found.probabilities(final)
        np.testing.assert_allclose(P.mean(axis=0), rates, rtol=1e-7)
        assert ((P > 0) & (P < 1)).all()

    def test_equal_scores_have_the_probability_of_the_rate(self, rng):
        scores, truth = drawn(rng, 50, np.ones(2), np.zeros(2))
        scores[:, 1] = 7.3
        found = fit_calibration(scores, truth, np.array([0.4, 0.85]))
        assert found.slope[1] == 0
        new = np.array([[0.0, -1e9], [1.0, 7.3], [2.0, 1e9]])
        np.testing.assert_allclose(found.probabilities(new)[:, 1], 0.85)

    def test_rates_of_one_table_count_one_more_positive_and_negative(self, rng):
        scores, truth = drawn(rng, 80, np.ones(2), np.array([-1.0, 1.0]), unknown=0.4)
        found = fit_calibration(scores, truth)
        np.testing.assert_allclose(expit(found.base), rates_of(truth)[0])

    def test_a_label_known_only_as_no_is_improbable_where_it_is(self, rng):
        """Two tables of 60, 40 and 0, and of 0, 60 and 50 rows of three classes."""
        classes = [np.repeat([0, 1], [60, 40]), np.repeat([1, 2], [60, 50])]
        truths = [np.eye(3)[of] for of in classes]
        tables = []
        for Y in truths:
            scores = 2 * Y - 1 + rng.normal(size=Y.shape)
            tables.append(HeldOutScores(scores, Y, scores))
        rates = np.array([(Y.sum(axis=0) + 2 * Y.mean()) / (len(Y) + 2) for Y in truths])
        first, second = fit_calibrations(tables, rates)
        P, Q = first.probabilities(tables[0].final), second.probabilities(tables[1].final)
        assert P[:, 2].mean() == pytest.approx(rates[0, 2]) and rates[0, 2] < 0.01
        assert Q[:, 0].mean() == pytest.approx(rates[1, 0]) and rates[1, 0] < 0.01
        assert P[:, 2].max() < 0.2 and Q[:, 0].max() < 0.2


class TestScores:
    @by_shape
    def test_probabilities_rank_rows_as_scores_do(self, rng, shape):
        """Strictly, also beyond the usual scores."""
        z, truth = drawn(rng, 200, np.array([2.0, -1.0]), np.zeros(2))
        scores = shape(z)
        found = fit_calibration(scores, truth)
        new = np.vstack(
            [scores, found.centre + found.spread * np.outer([-60, -5, 5, 6, 60], [1, 1])]
        )
        log_odds = found.log_odds(new)
        for k in np.flatnonzero(found.slope > 0):
            np.testing.assert_array_equal(rankdata(log_odds[:, k]), rankdata(new[:, k]))

    @by_shape
    def test_score_at_log_odds_has_them(self, rng, shape):
        z, truth = drawn(rng, 200, np.array([2.0, 0.1]), np.array([0.0, -2.0]))
        found = fit_calibration(shape(z), truth)
        rises = found.slope > 0
        for log_odds in (0.0, -1.0, np.array([2.0, -3.0])):
            at = found.scores_at(log_odds)
            expected = np.broadcast_to(log_odds, 2)
            # Near to each other, scores far from 0 have few digits.
            np.testing.assert_allclose(found.log_odds(at)[rises], expected[rises], atol=1e-5)

    def test_log_odds_that_no_score_reaches_are_beyond_all_scores(self, rng):
        scores, truth = drawn(rng, 100, np.array([1.0]), np.zeros(1))
        found = fit_calibration(scores, truth)
        low, high = found.scores_at(-1e6), found.scores_at(1e6)
        assert np.isfinite([low, high]).all()
        assert low < -1e9 and high > 1e9

    def test_equal_scores_are_all_above_or_all_below_that_of_log_odds(self, rng):
        scores, truth = np.full((20, 2), 3.0), np.zeros((20, 2))
        found = fit_calibration(scores, truth, np.array([0.3, 0.7]))
        np.testing.assert_array_equal(scores[0] > found.scores_at(0.0), [False, True])
        np.testing.assert_array_equal(scores[0] > found.scores_at(np.array([-2.0, 2.0])), [1, 0])

    def test_log_odds_are_base_and_evidence_and_missing_scores_are_nan(self, rng):
        scores, truth = drawn(rng, 100, np.ones(2), np.zeros(2))
        found = fit_calibration(scores, truth)
        z = (scores - scores.mean(axis=0)) / scores.std(axis=0)  # of usual size
        assert np.abs(z).max() < USUAL
        np.testing.assert_allclose(found.evidence(scores), found.slope * z - found.shift)
        np.testing.assert_allclose(found.log_odds(scores), found.base + found.evidence(scores))
        np.testing.assert_allclose(logit(found.probabilities(scores)), found.log_odds(scores))
        scores[4] = np.nan
        assert np.isnan(found.probabilities(scores)[4]).all()

    @settings(max_examples=50)
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(0.05, 100))
    def test_log_odds_rise_with_any_scores(self, scores, slope):
        one = np.ones(1)
        curve = Calibration(0 * one, one, slope * one, 0 * one, 0 * one, one > 0)
        scores = np.sort(scores)[:, None]
        steps = np.diff(curve.log_odds(scores), axis=0)
        assert (steps >= 0).all() and (steps[np.diff(scores, axis=0) > 1e-6] > 0).all()
        at = np.concatenate([curve.scores_at(x) for x in curve.log_odds(scores)[:, 0]])
        np.testing.assert_allclose(at, scores[:, 0], rtol=1e-6, atol=1e-9)


class TestInvariance:
    """What a calibration may not depend on."""

    def test_units_of_scores(self, rng):
        tables, rates = tables_of(rng)
        a, b = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -3.0, 1e4])
        others = [HeldOutScores(a * t.scores + b, t.truth, a * t.final + b) for t in tables]
        for t, u, one, other in zip(
            tables,
            others,
            fit_calibrations(tables, rates),
            fit_calibrations(others, rates),
            strict=True,
        ):
            np.testing.assert_allclose(one.slope, other.slope, rtol=1e-6)
            np.testing.assert_allclose(
                one.log_odds(t.final), other.log_odds(u.final), rtol=0, atol=1e-6
            )

    def test_order_of_rows(self, rng):
        tables, rates = tables_of(rng)
        order = [rng.permutation(len(t.truth)) for t in tables]
        others = [
            HeldOutScores(t.scores[o], t.truth[o], t.final[rng.permutation(o)])
            for t, o in zip(tables, order, strict=True)
        ]
        pairs = zip(fit_calibrations(tables, rates), fit_calibrations(others, rates), strict=True)
        for one, other in pairs:
            for name in ("centre", "spread", "slope", "shift", "base"):
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)

    def test_order_of_labels(self, rng):
        tables, rates = tables_of(rng)
        order = np.array([2, 0, 1])
        others = [
            HeldOutScores(t.scores[:, order], t.truth[:, order], t.final[:, order]) for t in tables
        ]
        pairs = zip(
            fit_calibrations(tables, rates), fit_calibrations(others, rates[:, order]), strict=True
        )
        for one, other in pairs:
            np.testing.assert_allclose(one.slope[order], other.slope, rtol=1e-6)
            np.testing.assert_allclose(one.shift[order], other.shift, rtol=1e-6, atol=1e-9)
            np.testing.assert_array_equal(one.own[order], other.own)

    def test_order_of_tables(self, rng):
        tables, rates = tables_of(rng)
        found = fit_calibrations(tables, rates)
        other = fit_calibrations(tables[::-1], rates[::-1])[::-1]
        for one, two in zip(found, other, strict=True):
            np.testing.assert_allclose(one.slope, two.slope, rtol=1e-6)
            np.testing.assert_allclose(one.shift, two.shift, rtol=1e-6, atol=1e-9)

    def test_scores_and_truth_of_entries_that_are_not_both_known(self, rng):
        (table, _), rates = tables_of(rng)
        unknown = np.isnan(table.truth)
        scores = np.where(unknown, np.nan, table.scores)
        truth = table.truth.copy()
        scores[:10], truth[10:20] = np.nan, np.nan
        some = HeldOutScores(scores, truth, table.final)
        seen = np.isfinite(scores) & np.isfinite(truth)
        same = HeldOutScores(
            np.where(seen, scores, np.nan), np.where(seen, truth, np.nan), table.final
        )
        np.testing.assert_array_equal(some.known, seen)
        one, two = (fit_calibrations([t], rates[:1])[0] for t in (some, same))
        np.testing.assert_array_equal(one.slope, two.slope)


class TestExtremes:
    @by_shape
    @pytest.mark.parametrize("known_rows", [0, 1, 2, 300])
    @pytest.mark.parametrize("value", [0.0, 1.0, None])
    def test_curves_are_finite(self, rng, shape, known_rows, value):
        """A label is hardly known, or has one value only."""
        z, truth = drawn(rng, 300, np.array([2.0, 2.0]), np.array([-1.0, -1.0]))
        if value is not None:
            truth[:, 1] = value
        truth[known_rows:, 1] = np.nan
        found = fit_calibration(shape(z), truth)
        for part in (found.centre, found.spread, found.slope, found.shift, found.base):
            assert np.isfinite(part).all()
        assert np.isfinite(found.log_odds(1e3 * shape(z))).all()
        assert (found.own[1] == 0) or known_rows == 300

    @pytest.mark.parametrize("n_rows", [0, 1, 2])
    def test_few_rows(self, n_rows):
        scores, truth = np.arange(2.0 * n_rows).reshape(-1, 2), np.ones((n_rows, 2))
        found = fit_calibration(scores, truth, np.array([0.2, 0.6]))
        P = found.probabilities(np.zeros((1, 2)))
        assert ((P > 0) & (P < 1)).all()
        if n_rows < 2:
            np.testing.assert_allclose(P, [[0.2, 0.6]])


def test_losses_are_those_of_the_best_slope(rng):
    scores, truth = drawn(rng, 200, np.array([0.5, 2.0]), np.array([-1.0, 0.0]), 0.3)
    scores[:20, 0] = np.nan
    base = np.array([-1.0, 0.2])
    table = HeldOutScores(scores, truth, np.nan_to_num(scores))
    centre, spread = table.final.mean(axis=0), table.final.std(axis=0)
    z = compress((scores - centre) / spread)

    def losses(slope):
        p = expit(base + slope * z)
        return np.where(table.known, -np.log(np.where(truth > 0, p, 1 - p)), 0.0)

    best = minimize_scalar(lambda a: losses(a).sum() + HOLD_SLOPE / 2 * a * a, (0, 1), tol=1e-12)
    np.testing.assert_allclose(held_out_losses(table, base), losses(best.x), atol=1e-6)
