import numpy as np
import pytest
from scipy.special import log_expit

from naim3l import evaluate
from naim3l.decisions.calibration import fit_calibration
from naim3l.decisions.held_out import (
    METRICS,
    Folds,
    choose_metric,
    hidden_metric,
    hidden_metrics,
    hold_out_folds,
    hold_out_share,
    jackknifed_metric,
    mean_defined,
    measure,
    shuffled_entries,
    whole_share,
)
from naim3l.metrics.measures import ScoredLabels
from naim3l.problem.rows import Problem


def seeded(seed=0):
    return np.random.RandomState(seed)


@pytest.fixture
def labels(rng):
    """Labels 1, 0 and NaN of 120 rows; the last is never known to be yes."""
    Y = np.where(rng.random((120, 5)) < 0.3, np.nan, rng.random((120, 5)) < [0.5, 0.3, 0.2, 0.1, 0])
    return Y.astype(float)


def draw(wide=False):
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(40, 3)), rng.normal(size=(40, 4))]
    Y = rng.choice([-1, 0, 1], size=(40, 5))
    labels = [Y, Y] if wide else [Y, rng.choice([-1, 0, 1], size=(40, 5))]
    samples = np.tile(np.arange(40), 2) if wide else None
    return Problem(features, labels, samples=samples)


class TestShuffledEntries:
    def test_each_known_entry_comes_once_with_its_label_and_value(self, labels):
        found = np.full(labels.shape, np.nan)
        for k, value, rows in shuffled_entries(labels, (1, 0), seeded()):
            assert np.isnan(found[rows, k]).all()
            found[rows, k] = value
        np.testing.assert_array_equal(found, labels)


class TestHoldOutShare:
    def test_only_known_entries_are_held_out(self, labels):
        held_out = hold_out_share(labels, 0.25, seeded())
        assert held_out.any() and not held_out[np.isnan(labels)].any()

    @pytest.mark.parametrize("share", [0, 0.3, 1])
    def test_share_is_that_of_positives_and_of_negatives_rounded_down(self, labels, share):
        held_out = hold_out_share(labels, share, seeded())
        for value in (0, 1):
            of_value = labels == value
            expected = np.floor(share * of_value.sum(axis=0) + 1e-9)
            np.testing.assert_array_equal((held_out & of_value).sum(axis=0), expected)


def test_shares_are_those_of_exact_arithmetic():
    counts = np.arange(1000)
    for percent in range(101):
        np.testing.assert_array_equal(whole_share(percent / 100, counts), percent * counts // 100)


class TestHoldOutFolds:
    @pytest.mark.parametrize("n_folds", [2, 3, 7])
    def test_each_observed_entry_is_in_exactly_one_fold(self, make_problem, n_folds):
        *_, problem = make_problem(n_rows=(120, 90))
        fold_of = hold_out_folds(problem, n_folds, seeded())
        assert fold_of.max() == n_folds - 1
        np.testing.assert_array_equal(fold_of >= 0, problem.P)
        for rows in problem.row_slices:
            for value in (1, -1):
                held_out = problem.Y[rows] == value
                sizes = [(held_out & (fold_of[rows] == k)).sum(axis=0) for k in range(n_folds)]
                assert np.ptp(sizes, axis=0).max() <= 1

    def test_only_positive_of_a_label_in_a_view_stays_in_training(self):
        Y = -np.ones((6, 3))
        Y[2, 0] = Y[1, 1] = Y[4, 1] = 1
        fold_of = hold_out_folds(Problem([np.eye(6)], [Y]), 5, seeded())
        assert fold_of[2, 0] == -1
        assert fold_of[1, 1] != fold_of[4, 1]
        assert (fold_of < 0).sum() == 1

    def test_entries_of_a_sample_are_held_out_in_all_its_views(self):
        problem = draw(wide=True)
        fold_of = hold_out_folds(problem, 3, seeded())
        np.testing.assert_array_equal(fold_of[:40], fold_of[40:])
        np.testing.assert_array_equal(fold_of >= 0, problem.P)


def test_no_entry_is_scored_by_a_fit_that_saw_it():
    problem = draw()
    fold_of = hold_out_folds(problem, 3, seeded())
    seen = []

    def solve(part):
        seen.append(part.P)
        return np.full((problem.n_weights, 5), float(len(seen)))

    folds = Folds.of(problem, fold_of)
    scores = folds.scores(folds.fits(solve))
    np.testing.assert_array_equal(np.isnan(scores), fold_of < 0)
    for fold, P in enumerate(seen):
        np.testing.assert_array_equal(P, problem.P * (fold_of != fold))
        ones = problem.multiply(np.full((problem.n_weights, 5), fold + 1.0))
        np.testing.assert_allclose(scores[fold_of == fold], ones[fold_of == fold])


class TestMetrics:
    def case(self, wide):
        problem = draw(wide)
        hidden = hold_out_folds(problem, 2, seeded()) == 0
        W = np.random.default_rng(1).normal(size=(problem.n_weights, 5))
        truth = np.where(hidden, problem.Y > 0, np.nan)
        return problem, hidden, W, truth, problem.multiply(W)

    def test_of_a_wide_problem_are_those_of_fused_scores(self):
        problem, hidden, W, truth, S = self.case(wide=True)
        expected = evaluate(truth[:40], (S[:40] + S[40:]) / 2)["AP"]
        assert hidden_metric(problem, hidden, W, "AP") == pytest.approx(expected)

    def test_of_separate_tables_are_averaged(self):
        problem, hidden, W, truth, S = self.case(wide=False)
        expected = [evaluate(truth[rows], S[rows])["AP"] for rows in problem.row_slices]
        assert hidden_metrics(problem, hidden, W, "AP") == pytest.approx(expected)
        assert hidden_metric(problem, hidden, W, "AP") == pytest.approx(np.mean(expected))

    def test_log_loss_under_weights_is_the_weighted_mean_of_calibrated_entries(self, rng):
        *_, truth, S = self.case(wide=False)
        log_odds, known = fit_calibration(S, truth).log_odds(S), ~np.isnan(truth)
        losses = -log_expit(np.where(truth > 0, log_odds, -log_odds))
        weights = rng.random((3, len(truth)))
        expected = [(w[:, None] * losses)[known].sum() / (w @ known).sum() for w in weights]
        for Y, of_weights in ((truth, expected), (np.full_like(truth, np.nan), np.nan)):
            found = METRICS["log-loss"].compute(ScoredLabels(Y == 1, Y == 0, S), weights)
            np.testing.assert_allclose(found, of_weights)
        assert measure(truth, S, "log-loss") == pytest.approx(losses[known].mean())

    def test_auto_takes_average_precision_where_every_fold_can_rank(self):
        ranked, not_ranked = np.array([[1, 0], [np.nan, 1]]), np.array([[1, np.nan], [np.nan, 0]])
        assert choose_metric("auto", [ranked, ranked]) == "AP"
        assert choose_metric("auto", [ranked, not_ranked]) == "log-loss"
        assert choose_metric("auto", [ranked[:, :1]]) == "log-loss"
        assert choose_metric("macro-F1", [not_ranked]) == "macro-F1"


class TestJackknife:
    @pytest.mark.parametrize("metric", ["AP", "macro-AUC", "coverage"])
    def test_values_are_those_of_the_rows_outside_of_each_block(self, rng, metric):
        problem = draw()
        hidden = hold_out_folds(problem, 2, seeded()) == 0
        W = rng.normal(size=(problem.n_weights, 5))
        found = jackknifed_metric(problem, hidden, W, metric, n_blocks=3)
        assert found[0] == pytest.approx(hidden_metric(problem, hidden, W, metric))
        truth, scores = problem.truth_of(hidden), problem.multiply(W)
        for block in range(3):
            values = []
            for rows in problem.row_slices:
                Y, S = truth[rows], scores[rows]
                with_entries = np.flatnonzero(~np.isnan(Y).all(axis=1))
                outside = np.delete(with_entries, np.s_[block::3])
                values.append(evaluate(Y[outside], S[outside])[metric])
            assert found[1 + block] == pytest.approx(mean_defined(values))
