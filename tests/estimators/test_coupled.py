"""Fits that are measured beside guessing, and beside ridge regression of each view."""

import copy

import numpy as np
import pytest
from sklearn.base import clone

import naim3l
from naim3l import NAIM3L, NAIM3LCV, Decisions, evaluate, join_views
from naim3l.datasets import make_unpaired
from naim3l.decisions.held_out import (
    FEW_KNOWN,
    Folds,
    best_of_folds,
    few_known,
    hidden_metric,
    hold_out_folds,
)
from naim3l.decisions.learning import N_FOLDS
from naim3l.estimators import PerViewRidge, ridge_fits
from naim3l.estimators.comparison import Comparison
from naim3l.estimators.ridge_fits import RIDGES, RidgeFits, all_pairs
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective


def draw(**more):
    options = {"n_features": (9, 8), "n_labels": 4, "noise": 1.5, "missing_labels": 0.3}
    return make_unpaired(120, random_state=0, **(options | more))


@pytest.fixture(scope="module")
def data():
    return draw()


@pytest.fixture(scope="module")
def fitted(data):
    model = NAIM3L(1.0, ridge=1.0, decide="guarded", random_state=0)
    assert model.compare(data.views, data.labels) is model.held_out_
    return model


def problem_of(seed=0, n_rows=(60, 50), n_labels=4):
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, 6)) for n in n_rows]
    hidden = rng.normal(size=(6, n_labels))
    labels = [
        np.where(X @ hidden + rng.normal(size=(len(X), n_labels)) > 0, 1, -1) for X in features
    ]
    return Problem(features, [np.where(rng.random(Y.shape) < 0.3, 0, Y) for Y in labels])


def test_the_ridge_is_best_on_the_folds_and_for_each_fold_on_the_others():
    problem = problem_of()
    fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
    folds = Folds.of(problem, fold_of)
    found = RidgeFits.of(folds, problem.base_rates, "AP", all_pairs())
    (ridge, _), chosen, without = found.best([0.0])
    values, fits = np.empty((3, len(RIDGES))), {}
    for fold in range(3):
        hidden = fold_of == fold
        for i, candidate in enumerate(RIDGES):
            W = fits[fold, i] = problem.without(hidden).ridge_solutions([candidate])[0]
            values[fold, i] = hidden_metric(problem, hidden, W, "AP")
    best = int(np.argmax(values.mean(axis=0)))
    assert ridge == RIDGES[best]
    for fold in range(3):
        np.testing.assert_allclose(chosen[fold], fits[fold, best], rtol=1e-9)
        of_others = int(np.argmax(np.delete(values, fold, axis=0).mean(axis=0)))
        np.testing.assert_allclose(without[fold], fits[fold, of_others], rtol=1e-9)


def test_the_best_of_folds_is_the_first_of_equals_and_skips_what_is_undefined():
    values = np.array([[0.1, 0.5, np.nan, 0.5], [0.2, np.nan, np.nan, 0.5]])
    assert best_of_folds(values, "AP") == 1 and best_of_folds(values, "one-error") == 0
    assert best_of_folds(np.full((2, 3), np.nan), "AP") == 0


def folds_of(labels, *, entries=False):
    """Fold of each entry of labels, by view, as of a model with random_state=0."""
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in labels.values()]
    problem = Problem([np.zeros((len(Y), 1)) for Y in signed], signed)
    fold_of = hold_out_folds(problem, N_FOLDS, np.random.RandomState(0), entries=entries)
    return {view: fold_of[of] for view, of in zip(labels, problem.row_slices, strict=True)}


def mean_of_folds(Y, fold_of, scores, **options):
    """Means over the folds of the metrics of their entries."""
    truths = [np.where(fold_of == fold, Y, np.nan) for fold in range(N_FOLDS)]
    found = [evaluate(truth, scores, **options) for truth in truths]
    return {name: np.nanmean([of_fold[name] for of_fold in found]) for name in found[0]}


@pytest.mark.parametrize("by", ["rows", "entries"])
def test_guessing_is_that_of_the_frequencies_in_each_fold(data, fitted, by):
    found = fitted.held_out_
    if by == "entries":
        found = clone(fitted).compare(data.views, data.labels, by=by)
    assert found["by"] == by and found["boosting"] == "not asked for"
    folds = folds_of(data.labels, entries=by == "entries")
    for block in found["blocks"][1:]:
        Y, rates = data.labels[block["name"]], fitted.view_rates_[block["name"]]
        guess = np.tile(rates, (len(Y), 1))
        expected = mean_of_folds(Y, folds[block["name"]], guess, threshold=0.5)
        for name in ("1-HL", "AP", "macro-AUC"):
            assert block["metrics"][name]["guessing"] == pytest.approx(expected[name])
        own, of_all = np.nanmean(Y, axis=0), fitted.base_rates_
        assert ((rates - own) * (rates - of_all) <= 1e-12).all()  # shrunk towards those of all
        assert block["n_entries"] == np.isfinite(Y).sum()


def test_the_model_without_coupling_is_ridge_regression(data, fitted):
    other = fitted.uncoupled_
    assert isinstance(other, PerViewRidge) and other.ridge in RIDGES
    expected = PerViewRidge(other.ridge, decide="guarded", random_state=0)
    expected.fit(data.views, data.labels)
    for view in data.views:
        np.testing.assert_allclose(other.coef_[view], expected.coef_[view], rtol=1e-9)
        np.testing.assert_allclose(other.intercept_[view], expected.intercept_[view], rtol=1e-9)
        found, known = (model.predict_proba(data.views)[view] for model in (other, expected))
        np.testing.assert_allclose(found, known, rtol=1e-6)


def test_a_model_without_coupling_gains_nothing(data, monkeypatch):
    """With lam close to 0 both are the same, if there is only one ridge to choose."""
    monkeypatch.setattr(ridge_fits, "RIDGES", (2.0,))
    found = NAIM3L(1e-6, ridge=2.0, random_state=0).compare(data.views, data.labels)
    for metric in found["blocks"][0]["metrics"].values():
        assert abs(metric["gain"]["value"]) < 2e-3


def test_the_pair_of_a_fold_is_chosen_without_it(data, monkeypatch):
    monkeypatch.setattr(NAIM3LCV, "_exhaustive", True)
    kept = {}

    def compare(self, asked, problem, held_out, W):
        kept.update(problem=problem, folds=held_out[0], fits=held_out[1])

    monkeypatch.setattr(NAIM3LCV, "_compare", compare)
    model = NAIM3LCV([0.1, 1.0, 5.0], [0.5, 20.0], random_state=1)
    model._fit(data.views, data.labels, None, compare=Comparison(False, False, data.views))
    results = model.cv_results_
    values = np.array([results[f"split{fold}_test_score"] for fold in range(5)])
    for fold in range(5):
        best = np.argmax(np.delete(values, fold, axis=0).mean(axis=0))
        objective = Objective(
            kept["folds"].without(fold), results["lam"][best], ridge=results["ridge"][best]
        )
        tight = solve_fast(objective, max_iter=1000, tol=1e-6).W
        # Fits within folds are loose: their scores differ little on the scale of labels.
        assert np.abs(kept["problem"].multiply(kept["fits"][fold] - tight)).mean() < 0.02


def test_wide_tables_are_measured_fused():
    data = draw(aligned=True, missing_labels=0.0)
    wide, views = join_views(data.views)
    model = NAIM3L(1.0, ridge=1.0, views=views, random_state=0,
                   decide=Decisions("guarded", fusion="evidence"))  # fmt: skip
    (block,) = model.compare(wide, data.labels["view0"])["blocks"]
    assert block["name"] == block["kind"] == "fused" and block["n_rows"] == 120
    assert block["metrics"]["macro-AUC"]["value"] > 0.6
    assert model.uncoupled_.predict(wide).shape == (120, 4)


def test_comparing_changes_no_prediction_and_is_not_part_of_a_fit(data, fitted):
    alone = clone(fitted).fit(data.views, data.labels)
    for view in data.views:
        np.testing.assert_array_equal(alone.coef_[view], fitted.coef_[view])
        np.testing.assert_array_equal(alone.thresholds_[view], fitted.thresholds_[view])
    assert not hasattr(alone, "held_out_") and not hasattr(alone, "uncoupled_")
    with pytest.raises(AttributeError, match=r"uncoupled_ needs a fit by compare\(\)"):
        _ = alone.uncoupled_


def test_a_saved_model_keeps_the_comparison(data, fitted, tmp_path):
    copy.deepcopy(fitted).save(tmp_path / "m.naim3l")
    loaded = naim3l.load(tmp_path / "m.naim3l")
    assert loaded.held_out_ == fitted.held_out_
    for view, scores in fitted.uncoupled_.decision_function(data.views).items():
        found = loaded.uncoupled_.decision_function(data.views)[view]
        np.testing.assert_array_equal(found, scores)
    fitted.uncoupled_.save(tmp_path / "other.naim3l")
    other = naim3l.load(tmp_path / "other.naim3l")
    assert other.columns_ == fitted.columns_ and other.ridge == fitted.uncoupled_.ridge


def test_an_interrupted_fit_keeps_its_weights_and_its_checkpoint(data, tmp_path, monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt

    model = NAIM3L(decide="half", random_state=0, ridge=1.0)
    monkeypatch.setattr("naim3l.estimators.base.learn_decisions", stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data.views, data.labels, checkpoint=tmp_path / "c")
    assert model.predict(data.views, decide="sign")["view0"].shape == (120, 4)
    with pytest.raises(naim3l.estimators.base.NotFittedError, match="before probabilities were"):
        model.predict_proba(data.views)
    model.save(tmp_path / "m.naim3l")
    assert (tmp_path / "c").exists()


class TestBestOfFolds:
    SIMPLICITY = np.array([2, 1, 0])

    def test_the_simplest_within_a_standard_error_is_taken(self):
        # The second is worse by 1 in every fold, the third by 1 in the mean, with an error of 2.
        values = np.array([[9.0, 8.0, 6.0], [9.0, 8.0, 12.0], [9.0, 8.0, 6.0]])
        assert best_of_folds(values, "AP") == 0
        assert best_of_folds(values, "AP", self.SIMPLICITY) == 2
        assert best_of_folds(-values, "one-error", self.SIMPLICITY) == 2

    def test_what_is_clearly_worse_is_not_taken(self):
        values = np.array([[9.0, 8.0, 5.0], [9.0, 8.0, 6.0], [9.0, 8.0, 5.0]])
        assert best_of_folds(values, "AP", self.SIMPLICITY) == 0

    def test_undefined_metrics_and_single_folds(self):
        values = np.array([[9.0, np.nan, 8.0]])
        assert best_of_folds(values, "AP", self.SIMPLICITY) == 0
        assert best_of_folds(np.full((3, 3), np.nan), "AP", self.SIMPLICITY) == 0

    def test_few_known_entries_count_per_label_and_table(self):
        def problem(n_known):
            Y = np.zeros((2 * FEW_KNOWN, 3))
            Y[:n_known, :2] = np.where(np.arange(n_known) % 2, 1, -1)[:, None]  # the third: never
            return Problem([np.eye(len(Y))] * 2, [Y, Y])

        assert few_known(problem(FEW_KNOWN - 1)) and not few_known(problem(FEW_KNOWN))
