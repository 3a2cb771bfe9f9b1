"""Searches in which clearly worse pairs are dropped, compared with searches of all pairs."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from naim3l import NAIM3LCV
from naim3l.datasets import make_unpaired
from naim3l.decisions.calibration import HeldOutScores, fit_calibrations
from naim3l.decisions.held_out import N_BLOCKS, Folds, hold_out_folds
from naim3l.estimators import naim3l_cv as search_module
from naim3l.estimators.naim3l_cv import (
    CLEARLY,
    MOST_RIDGE,
    FoldFits,
    Search,
    clearly_worse,
    close_to_best,
)
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective

LAMS, RIDGES = [0.1, 0.3, 1.0, 3.0, 10.0], [0.1, 10.0, 1000.0]


def draw(seed=0, **options):
    return make_unpaired(
        150, n_features=(8, 7), n_labels=6, n_latent=4, noise=0.5, missing_labels=0.3,
        random_state=seed, **options,
    )  # fmt: skip


class Exhaustive(NAIM3LCV):
    _exhaustive = True


def tuned(kind=NAIM3LCV, **parameters):
    return kind(**{"lams": LAMS, "ridges": RIDGES, "cv": 3, "random_state": 0} | parameters)


@pytest.fixture(scope="module")
def data():
    return draw()


def folds_of(data):
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in data.labels.values()]
    problem = Problem(list(data.views.values()), signed)
    return Folds.of(problem, hold_out_folds(problem, 3, np.random.RandomState(0)))


@pytest.fixture(scope="module")
def raced(data):
    return tuned().fit(data.views, data.labels)


@pytest.fixture(scope="module")
def exhaustive(data):
    return tuned(Exhaustive).fit(data.views, data.labels)


class TestClearlyWorse:
    def losses(self, rng, n_rows=200, **means):
        """Losses of means of rows, as of pairs that differ by given amounts."""
        rows = rng.normal(size=n_rows)
        values = {name: rows + mean + 0.1 * rng.normal(size=n_rows) for name, mean in means.items()}
        blocks = np.arange(n_rows) % N_BLOCKS
        return values, np.array([
            [x.mean(), *(x[blocks != block].mean() for block in range(N_BLOCKS))]
            for x in values.values()
        ])  # fmt: skip

    def test_the_standard_error_is_that_of_the_paired_difference(self, rng):
        for shift in np.linspace(0, 0.05, 40):
            values, losses = self.losses(rng, best=0.0, other=shift)
            difference = values["other"] - values["best"]
            # The jackknife of a mean is the standard error of means of blocks.
            of_blocks = difference.reshape(-1, N_BLOCKS).mean(axis=0)
            error = of_blocks.std(ddof=1) / np.sqrt(N_BLOCKS)
            expected = difference.mean() > CLEARLY * error
            assert clearly_worse(losses[1:], losses[0])[0] == expected

    def test_a_shift_that_no_row_escapes_is_clear_however_much_rows_differ(self, rng):
        _, losses = self.losses(rng, best=0.0, near=0.001, far=0.1)
        assert clearly_worse(losses, losses[0]).tolist() == [False, False, True]
        assert close_to_best(losses[::-1]) == [1, 2]

    def test_unbounded_pairs_are_dropped_and_undefined_metrics_drop_none(self, rng):
        _, losses = self.losses(rng, best=0.0, other=0.0)
        unbounded = np.full((1, losses.shape[1]), np.inf)
        assert close_to_best(np.vstack([unbounded, losses])) == [1, 2]
        undefined = np.full((2, losses.shape[1]), np.nan)
        assert close_to_best(np.vstack([unbounded, undefined])) == [1, 2]
        assert close_to_best(unbounded) == []
        losses[1, 5] = np.nan  # undefined without a block: nothing is clear
        losses[1, 0] += 100
        assert close_to_best(losses) == [0, 1]


@pytest.mark.parametrize(("metric", "seed"), [("AP", 0), ("log-loss", 1), ("macro-AUC", 2)])
def test_dropping_pairs_does_not_change_the_choice(metric, seed):
    data = draw(seed)
    raced, exhaustive = (
        tuned(kind, metric=metric, random_state=seed).fit(data.views, data.labels)
        for kind in (NAIM3LCV, Exhaustive)
    )
    results = exhaustive.cv_results_
    n_fits = [
        np.isfinite([model.cv_results_[f"split{fold}_test_score"] for fold in range(3)]).sum()
        for model in (raced, exhaustive)
    ]
    assert n_fits[1] == 3 * len(LAMS) * len(RIDGES) > n_fits[0] / 0.8
    at = (results["lam"] == raced.lam_) & (results["ridge"] == raced.ridge_)
    error = results["std_test_score"][at] / np.sqrt(2)
    loss = abs(results["mean_test_score"][at] - exhaustive.best_score_)
    assert (raced.lam_, raced.ridge_) == (exhaustive.lam_, exhaustive.ridge_) or loss < error


def test_dropped_pairs_keep_what_they_had_and_come_after_the_others(raced):
    table = pd.DataFrame(raced.cv_results_)
    splits = table[[f"split{fold}_test_score" for fold in range(3)]].notna().to_numpy()
    complete, dropped, never = splits.all(axis=1), splits[:, 0] & ~splits[:, 1], ~splits[:, 0]
    assert complete.any() and dropped.any() and (complete | dropped | never).all()
    ranks = table["rank_test_score"]
    assert ranks[complete].max() < ranks[dropped].min()
    if never.any():
        assert ranks[dropped].max() < ranks[never].min()
    for group in (complete, dropped):
        of_group = table[group].sort_values("rank_test_score")["mean_test_score"]
        assert of_group.is_monotonic_decreasing
    np.testing.assert_allclose(
        table["mean_test_score"][dropped], table["split0_test_score"][dropped]
    )


def test_paths_end_where_the_metric_has_clearly_fallen(raced, exhaustive):
    """All lams of the first fold up to there are tried, and none beyond."""
    first, everything = (
        model.cv_results_["split0_test_score"].reshape(len(RIDGES), -1)
        for model in (raced, exhaustive)
    )
    tried = np.isfinite(first)
    np.testing.assert_allclose(first[tried], everything[tried], atol=0.01)
    assert not tried.all()
    for row in tried:
        assert row[: row.sum()].all()


def test_calibration_is_that_of_fits_solved_anew(data):
    model = tuned(decide="half", features=None).fit(data.views, data.labels)
    folds = folds_of(data)
    problem = folds.rows
    chosen = {"lam": model.lam_, "ridge": model.ridge_}
    parts = map(folds.without, range(len(folds)))
    solved = [solve_fast(Objective(part, **chosen)).W for part in parts]
    final = problem.multiply(solve_fast(Objective(problem, **chosen)).W)
    scores, truth = folds.scores(solved, final), problem.truth_of(problem.Y != 0)
    tables = [HeldOutScores(scores[at], truth[at], final[at]) for at in problem.row_slices]
    anew = fit_calibrations(tables, problem.table_rates)
    for view, table, expected in zip(data.views, tables, anew, strict=True):
        found = model.decisions_.calibrations[view]
        np.testing.assert_allclose(
            found.probabilities(table.final), expected.probabilities(table.final), atol=0.02
        )
        np.testing.assert_allclose(
            model.decision_function(data.views)[view], table.final, atol=0.02
        )


def test_interrupted_search_resumes_to_the_same_result(data, tmp_path, monkeypatch):
    search, at = tuned(decide="f1", n_jobs=1), {"checkpoint": tmp_path / "fit.checkpoint"}
    whole = clone(search)
    whole.compare(data.views, data.labels)
    fit_fold, n_folds = Search._fit_fold, []

    def interrupted(self, *args):
        n_folds.append(1)
        if len(n_folds) == 3:
            raise KeyboardInterrupt
        return fit_fold(self, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Search, "_fit_fold", interrupted)
        clone(search).compare(data.views, data.labels, **at)
    n_folds.clear()
    monkeypatch.setattr(Search, "_fit_fold", lambda *args: (n_folds.append(1), fit_fold(*args))[1])
    resumed = clone(search)
    resumed.compare(data.views, data.labels, **at)
    assert len(n_folds) == 1
    for name, column in whole.cv_results_.items():
        np.testing.assert_array_equal(resumed.cv_results_[name], column)
    for view in data.views:
        np.testing.assert_array_equal(resumed.coef_[view], whole.coef_[view])
        np.testing.assert_array_equal(resumed.thresholds_[view], whole.thresholds_[view])
    assert resumed.held_out_ == whole.held_out_


def test_weights_that_were_not_kept_are_solved_again(data, raced, monkeypatch):
    monkeypatch.setattr(FoldFits, "forget_worse", lambda fits: fits.weights.clear())
    again = tuned().fit(data.views, data.labels)
    for view in data.views:
        np.testing.assert_allclose(
            again.predict_proba(data.views)[view], raced.predict_proba(data.views)[view], atol=0.02
        )


def test_if_all_pairs_that_are_left_are_unbounded_the_others_are_fitted(data, monkeypatch):
    """The best pair of the first fold cannot be fitted in the others."""
    folds = folds_of(data)
    pairs = [(0.1, 10.0), (30.0, 10.0)]
    solve, n_unbounded = search_module.solve_loosely, []

    def unbounded(objective, **options):
        if objective.lam == 0.1 and len(n_unbounded) >= 1:
            raise FloatingPointError
        n_unbounded.append(objective.lam)
        return solve(objective, **options)

    monkeypatch.setattr(search_module, "solve_loosely", unbounded)
    search = Search(folds, 3, pairs, "AP")
    search.run(1, None, shown=False)
    assert search.complete.all() and search.bounded.tolist() == [False, True]


def test_a_larger_lam_than_an_unbounded_one_is_not_tried(data, monkeypatch):
    folds = folds_of(data)
    tried = []

    def unbounded(objective, **options):
        tried.append((objective.lam, objective.ridge))
        raise FloatingPointError

    monkeypatch.setattr(search_module, "solve_loosely", unbounded)
    search = Search(folds, 3, [(0.1, 0.0), (1.0, 0.0), (0.1, 1.0)], "AP")
    search.run(1, None, shown=False)
    assert tried == [(0.1, 0.0), (0.1, 1.0)]
    assert not search.bounded.any()


class TestBeyondTheGrid:
    """Where the largest ridge is the best and ridges are not given, larger ones are tried."""

    NOISY = make_unpaired(
        60, n_features=(15, 12), n_labels=4, noise=3.0, missing_labels=0.2, random_state=1
    )
    SMALL: ClassVar = {"cv": 3, "random_state": 0, "metric": "macro-AUC"}

    @pytest.fixture(scope="class")
    @classmethod
    def widened(cls):
        return NAIM3LCV(3, **cls.SMALL).fit(cls.NOISY.views, cls.NOISY.labels)

    @staticmethod
    def grid(model):
        return list(zip(model.cv_results_["lam"], model.cv_results_["ridge"], strict=True))

    def test_the_best_pair_is_inside_or_at_a_bound(self, widened):
        results = widened.cv_results_
        splits = [results[f"split{fold}_test_score"] for fold in range(3)]
        mean = np.where(np.isfinite(splits).all(axis=0), results["mean_test_score"], 0)
        _, ridge = self.grid(widened)[np.argmax(mean)]
        assert ridge < results["ridge"].max() or ridge == MOST_RIDGE
        assert widened.ridge_ > 10  # noise asks for more than the grid has at first

    def test_pairs_of_the_grid_are_as_if_it_were_not_widened(self, widened):
        first = self.grid(widened)[:9]
        lams, ridges = (sorted({*of}) for of in zip(*first, strict=True))
        given = NAIM3LCV(lams, ridges, **self.SMALL).fit(self.NOISY.views, self.NOISY.labels)
        assert self.grid(given) == first and len(self.grid(widened)) > 9
        np.testing.assert_array_equal(
            widened.cv_results_["mean_test_score"][:9], given.cv_results_["mean_test_score"]
        )

    def test_added_pairs_are_fits_like_others(self, widened):
        """They begin at other weights, and end at the same."""
        for i, (lam, ridge) in enumerate(self.grid(widened)):
            if i < 9 or np.isnan(widened.cv_results_["split2_test_score"][i]):
                continue
            alone = NAIM3LCV([lam], [ridge], **self.SMALL).fit(self.NOISY.views, self.NOISY.labels)
            for fold in range(3):
                name = f"split{fold}_test_score"
                assert alone.cv_results_[name][0] == pytest.approx(
                    widened.cv_results_[name][i], abs=0.02
                )

    def test_all_pairs_in_all_folds_are_widened_too(self):
        model = Exhaustive(2, **self.SMALL).fit(self.NOISY.views, self.NOISY.labels)
        assert len(self.grid(model)) > 6
        assert all(
            np.isfinite(model.cv_results_[f"split{fold}_test_score"]).all() for fold in (0, 1)
        )

    def test_an_interrupted_fit_resumes_with_the_same_pairs(self, widened, tmp_path, monkeypatch):
        solve, calls = search_module.solve_loosely, []

        def interrupted(*given, **options):
            calls.append(given)
            if len(calls) == 22:  # among those beyond the grid
                raise KeyboardInterrupt
            return solve(*given, **options)

        path = {"checkpoint": tmp_path / "fit.checkpoint"}
        model = NAIM3LCV(3, **self.SMALL)
        monkeypatch.setattr(search_module, "solve_loosely", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(self.NOISY.views, self.NOISY.labels, **path)
        monkeypatch.setattr(search_module, "solve_loosely", solve)
        model.fit(self.NOISY.views, self.NOISY.labels, **path)
        for name, values in widened.cv_results_.items():
            np.testing.assert_array_equal(model.cv_results_[name], values)
        for view, W in widened.coef_.items():
            np.testing.assert_array_equal(model.coef_[view], W)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_a_single_ridge_that_is_given_is_the_only_one(data, ridge):
    model = tuned(lams=[0.1, 1.0], ridges=[ridge]).fit(data.views, data.labels)
    assert model.cv_results_["ridge"].tolist() == [ridge] * 2
