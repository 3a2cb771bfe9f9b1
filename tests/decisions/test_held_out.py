"""What is held out, scores of that by fits without it, and metrics of these."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit

from naim3l import NAIM3LCV, evaluate
from naim3l.decisions.calibration import fit_calibration
from naim3l.decisions.held_out import (
    METRICS,
    Folds,
    choose_metric,
    hidden_metric,
    hidden_metrics,
    hold_out_folds,
    jackknifed_metric,
    mean_defined,
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


def folds_by(kind, problem, n_folds, seed=0):
    return hold_out_folds(problem, n_folds, seeded(seed), entries=kind == "entries")


class TestHoldOutFolds:
    by_kind = pytest.mark.parametrize("kind", ["rows", "entries"])

    @by_kind
    @pytest.mark.parametrize("n_folds", [2, 3, 7])
    def test_each_known_entry_is_in_exactly_one_fold(self, make_problem, n_folds, kind):
        *_, problem = make_problem(n_rows=(120, 90))
        fold_of = folds_by(kind, problem, n_folds)
        assert set(np.unique(fold_of)) == set(range(-1, n_folds))
        np.testing.assert_array_equal(fold_of >= 0, problem.P)

    @pytest.mark.parametrize("n_folds", [2, 3, 7])
    def test_values_of_each_label_are_shared_equally_if_entries_are_held_out(
        self, make_problem, n_folds
    ):
        *_, problem = make_problem(n_rows=(120, 90))
        fold_of = folds_by("entries", problem, n_folds)
        for rows in problem.row_slices:
            for value in (1, -1):
                held_out = problem.Y[rows] == value
                sizes = [(held_out & (fold_of[rows] == k)).sum(axis=0) for k in range(n_folds)]
                assert np.ptp(sizes, axis=0).max() <= 1

    @pytest.mark.parametrize("observed", [1.0, 0.6, 0.15])
    def test_known_entries_of_a_row_are_held_out_together(self, make_problem, observed):
        *_, problem = make_problem(n_rows=(120, 90), observed=observed, positive=0.5)
        fold_of = folds_by("rows", problem, 3)
        for row in fold_of:
            assert len(set(row) - {-1}) <= 1
        some = [row for row, Y in zip(fold_of, problem.Y, strict=True) if (Y != 0).sum() > 1]
        together = folds_by("entries", problem, 3)[(problem.Y != 0).sum(axis=1) > 1]
        assert some and any(
            len(set(row) - {-1}) > 1 for row in together
        )  # as entries, they are not

    @pytest.mark.parametrize("n_folds", [2, 3, 5])
    @pytest.mark.parametrize("positive", [0.1, 0.4])
    def test_rows_are_stratified_by_their_rarest_positive(self, make_problem, n_folds, positive):
        *_, problem = make_problem(n_rows=(150, 110), positive=positive)
        problem.Y[:, 0] = np.where(problem.Y[:, 0] > 0, -1, problem.Y[:, 0])  # and is never one
        problem.Y[4, 0] = problem.Y[9, 0] = problem.Y[200, 0] = problem.Y[210, 0] = 1
        fold_of = folds_by("rows", problem, n_folds).max(axis=1)
        sizes = np.bincount(fold_of[fold_of >= 0], minlength=n_folds)
        assert np.ptp(sizes) <= 1
        for rows in problem.row_slices:
            Y, folds = problem.Y[rows] > 0, fold_of[rows]
            of_labels = np.where(Y, Y.sum(axis=0), np.inf)
            rarest = np.where(Y.any(axis=1), of_labels.argmin(axis=1), -1)
            for k in np.unique(rarest[rarest >= 0]):
                of_folds = np.bincount(folds[rarest == k], minlength=n_folds)
                assert np.ptp(of_folds) <= 1

    def test_rows_without_positives_are_stratified_by_their_rarest_negative(self):
        Y = np.zeros((60, 3))
        Y[:, 2] = -1
        Y[:12, 0] = -1
        Y[6:30, 1] = -1
        fold_of = hold_out_folds(Problem([np.ones((60, 1))], [Y]), 3, seeded())[:, 2]
        for rows, n in [(slice(12), 4), (slice(12, 30), 6), (slice(30, 60), 10)]:
            assert np.bincount(fold_of[rows]).tolist() == [n] * 3

    @by_kind
    def test_only_positive_of_a_label_in_a_view_stays_in_training(self, kind):
        Y = -np.ones((6, 3))
        Y[2, 0] = Y[1, 1] = Y[4, 1] = 1
        fold_of = folds_by(kind, Problem([np.eye(6)], [Y]), 5)
        assert fold_of[2, 0] == -1
        assert fold_of[1, 1] != fold_of[4, 1]
        assert (fold_of < 0).sum() == 1

    @by_kind
    @pytest.mark.parametrize("seed", range(5))
    def test_positives_of_a_label_in_a_view_are_never_all_held_out(self, kind, seed, make_problem):
        """Also if its rows are stratified by other labels."""
        *_, problem = make_problem(seed, n_rows=(40, 30), n_labels=12, positive=0.08)
        fold_of, together = folds_by(kind, problem, 2, seed), 0
        for rows in problem.row_slices:
            positive = problem.Y[rows] > 0
            for fold in range(2):
                left = (positive & (fold_of[rows] != fold)).any(axis=0)
                np.testing.assert_array_equal(left, positive.any(axis=0))
            none = positive & (fold_of[rows] == -1)
            # All positives of a label, or none of them; and negatives are held out in any case.
            for k in range(12):
                assert none[:, k].sum() in (0, positive[:, k].sum())
            together += none.sum()
        assert together > 0
        np.testing.assert_array_equal(fold_of[problem.Y < 0] >= 0, True)

    @by_kind
    def test_entries_of_a_sample_are_held_out_in_all_its_views(self, kind):
        problem = draw(wide=True)
        fold_of = folds_by(kind, problem, 3)
        np.testing.assert_array_equal(fold_of[:40], fold_of[40:])
        np.testing.assert_array_equal(fold_of >= 0, problem.P)

    def test_samples_of_a_wide_table_that_lack_views_are_held_out_as_one(self, rng):
        Y, rows = rng.choice([-1, 0, 1], size=(50, 4)), [np.arange(30), np.arange(20, 50)]
        problem = Problem(
            [rng.normal(size=(30, 2)) for _ in rows], [Y[of] for of in rows],
            samples=np.concatenate(rows),
        )  # fmt: skip
        fold_of = folds_by("rows", problem, 3)
        np.testing.assert_array_equal(fold_of[20:30], fold_of[30:40])
        of_samples = np.concatenate([fold_of[:30], fold_of[40:]]).max(axis=1)
        assert np.ptp(np.bincount(of_samples[of_samples >= 0])) <= 1

    @by_kind
    def test_the_seed_decides(self, kind, make_problem):
        *_, problem = make_problem()
        one, same, other = (folds_by(kind, problem, 3, seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()

    @by_kind
    def test_rows_without_known_labels_are_in_no_fold(self, kind):
        problem = Problem([np.ones((9, 1))], [np.zeros((9, 2))])
        assert (folds_by(kind, problem, 3) == -1).all()


@pytest.mark.parametrize("entries", [False, True])
def test_no_entry_is_scored_by_a_fit_that_saw_it(entries, rng):
    """Scores of a fit have the mean and the standard deviation of the final ones in each view."""
    problem = draw()
    fold_of = hold_out_folds(problem, 3, seeded(), entries=entries)
    seen, weights = [], rng.normal(size=(3, problem.n_weights, 5))

    def solve(part):
        seen.append(part.P)
        return weights[len(seen) - 1]

    folds, final = Folds.of(problem, fold_of), rng.normal(size=problem.Y.shape)
    scores = folds.scores([solve(folds.without(fold)) for fold in range(len(folds))], final)
    # Unknown entries have scores if no fit without the fold saw a label of their row.
    fold_of, hidden = fold_of.copy(), fold_of
    for i, of_row in enumerate(hidden):
        folds_of_row = np.unique(of_row[problem.Y[i] != 0])
        if len(folds_of_row) == 1:
            fold_of[i, problem.Y[i] == 0] = folds_of_row[0]
    assert entries or (fold_of > hidden).any()
    np.testing.assert_array_equal(np.isnan(scores), fold_of < 0)
    for fold, P in enumerate(seen):
        np.testing.assert_array_equal(P, problem.P * (hidden != fold))
        assert not P[(fold_of == fold) & (hidden != fold)].any()
        S = problem.multiply(weights[fold])
        for rows in problem.row_slices:
            moved = final[rows].mean(axis=0) + final[rows].std(axis=0) * (
                (S[rows] - S[rows].mean(axis=0)) / S[rows].std(axis=0)
            )
            here = fold_of[rows] == fold
            np.testing.assert_allclose(scores[rows][here], moved[here])


def test_fits_on_the_scale_of_the_final_one_keep_their_scores(rng):
    problem = draw()
    folds, W = Folds.of(problem, hold_out_folds(problem, 3, seeded())), rng.normal(size=(9, 5))
    final = problem.multiply(W)
    fits = [3 * W, W, 0.1 * W]  # as if they were fitted to other shares of positives
    known = folds.fold_of >= 0
    np.testing.assert_allclose(folds.scores(fits, final)[known], final[known])


def test_equal_scores_of_a_fit_are_the_mean_of_the_final_ones(rng):
    problem = draw()
    folds, final = Folds.of(problem, hold_out_folds(problem, 2, seeded())), rng.random((80, 5))
    zero = np.zeros((problem.n_weights, 5))
    scores, expected = folds.scores([zero, zero], final), np.repeat(final[:, :1] * 0, 5, axis=1)
    for rows in problem.row_slices:
        expected[rows] = final[rows].mean(axis=0)
    known = folds.fold_of >= 0
    np.testing.assert_allclose(scores[known], expected[known])


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

    def test_rankings_are_the_geometric_mean_of_both(self):
        *_, truth, S = self.case(wide=False)
        expected = evaluate(truth, S)
        both = np.sqrt(expected["AP"] * expected["macro-AUC"])
        labels = ScoredLabels(truth == 1, truth == 0, S)
        assert METRICS["rankings"].compute(labels, np.ones((1, len(truth)))) == pytest.approx(both)
        assert "rankings" not in expected
        with pytest.raises(ValueError, match="metric='rankings' ranks the labels of a row"):
            choose_metric("rankings", [truth[:, :1]])

    def test_auto_takes_what_every_fold_can_measure(self):
        """AP and macro-AUC of more than 20 labels, macro-AUC of fewer; log-loss if undefined."""
        ranked, not_ranked = np.array([[1, 0], [1, np.nan]]), np.array([[1, np.nan], [np.nan, 0]])
        assert choose_metric("auto", [ranked, ranked]) == "log-loss"  # no label has both values
        both = np.array([[1, np.nan], [0, np.nan]])
        assert choose_metric("auto", [both, both]) == "macro-AUC"
        assert choose_metric("auto", [both, ranked]) == "log-loss"
        assert choose_metric("auto", [both[:, :1]]) == "macro-AUC"
        many, few, not_many = (np.tile(Y, 11) for Y in (ranked, both, not_ranked))
        assert choose_metric("auto", [many, many]) == "AP"  # no label of these has both
        every = np.tile(np.array([[1, 0], [0, 1]]), 11)
        assert choose_metric("auto", [every, every]) == "rankings"
        assert choose_metric("auto", [every, many]) == "AP"
        assert choose_metric("auto", [many, few]) == "log-loss"  # no row of these has both
        assert choose_metric("auto", [not_many]) == "log-loss"
        assert choose_metric("macro-F1", [not_ranked]) == "macro-F1"
        with pytest.raises(ValueError, match="metric='AP' ranks the labels of a row"):
            choose_metric("AP", [both[:, :1]])
        with pytest.raises(ValueError, match="metric must be one of"):
            choose_metric("accuracy", [both])


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


class TestRepeatedIds:
    """Rows of one id, in a table or in several, are held out together."""

    by_kind = pytest.mark.parametrize("kind", ["rows", "entries"])

    @staticmethod
    def draw(wide=False):
        """Sixty ids with one to several rows in two tables; some of them are in both."""
        problem, rng = draw(wide), np.random.default_rng(1)
        groups = rng.integers(0, 30, 40)
        problem.groups = np.concatenate([groups, groups if wide else rng.integers(20, 60, 40)])
        return problem

    @by_kind
    @pytest.mark.parametrize("wide", [False, True])
    def test_no_label_of_an_id_is_in_two_folds(self, kind, wide):
        problem = self.draw(wide)
        fold_of = folds_by(kind, problem, 4)
        assert set(np.unique(fold_of)) == {-1, 0, 1, 2, 3}
        assert (fold_of[problem.Y == 0] == -1).all()
        for group in np.unique(problem.groups):
            rows = problem.groups == group
            for k in range(5):
                assert len(np.unique(fold_of[rows, k][problem.Y[rows, k] != 0])) <= 1
            if kind == "rows":
                assert len({*np.unique(fold_of[rows])} - {-1}) <= 1

    @by_kind
    def test_a_table_keeps_positives_of_each_label(self, kind):
        problem = self.draw()
        problem = problem.with_labels(
            np.where(problem.groups[:, None] == 21, 1, -1) + 0 * problem.Y
        )
        fold_of = folds_by(kind, problem, 3)
        for rows in problem.row_slices:  # all positives are those of one id
            assert (fold_of[rows][problem.Y[rows] > 0] == -1).all()
        assert (fold_of[problem.Y < 0] >= 0).all()

    @by_kind
    def test_folds_have_about_as_many_ids(self, kind):
        problem = self.draw()
        fold_of = folds_by(kind, problem, 3)
        ids = [len(np.unique(problem.groups[(fold_of == fold).any(axis=1)])) for fold in range(3)]
        assert max(ids) - min(ids) <= (2 if kind == "rows" else 20)

    def test_ids_that_differ_change_nothing(self):
        features = np.random.default_rng(2).normal(size=(80, 3))
        labels = np.where(features[:, :1] + np.arange(2) > 0.5, 1.0, 0.0)
        kinds = [None, "id"]
        found = [
            NAIM3LCV(lams=3, random_state=0).fit(*self.named(features, labels, name))
            for name in kinds
        ]
        for view in found[0].coef_:
            np.testing.assert_array_equal(*(model.coef_[view] for model in found))

    @staticmethod
    def named(features, labels, name):
        tables = [
            {
                view: pd.DataFrame(of[rows]).add_prefix(kind).set_index(pd.Index(rows, name=name))
                for view, rows in (("a", np.arange(40)), ("b", np.arange(40, 80)))
            }
            for kind, of in (("column", features), ("label", labels))
        ]
        return tables
