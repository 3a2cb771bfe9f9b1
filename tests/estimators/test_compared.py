"""Fits that are measured beside guessing, and beside ridge regression of each view."""

import copy

import numpy as np
import pytest
from sklearn.base import clone

import naim3l
from naim3l import NAIM3L, NAIM3LCV, evaluate, join_views
from naim3l.datasets import make_unpaired
from naim3l.decisions.held_out import Folds, held_out_scores, hidden_metric, hold_out_folds
from naim3l.decisions.rules import Rules, fixed_decisions, held_out_answers, learn_decisions
from naim3l.estimators import PerViewRidge, compared
from naim3l.estimators.compared import RIDGES, choose_ridge
from naim3l.estimators.ridge import masked_ridge, masked_ridges
from naim3l.files.models import ModelFileError
from naim3l.files.models.state import check_state
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
    return NAIM3L(1.0, ridge=1.0, calibrate=True, compare=True, random_state=0).fit(
        data.views, data.labels
    )


def problem_of(seed=0, n_rows=(60, 50), n_labels=4):
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, 6)) for n in n_rows]
    hidden = rng.normal(size=(6, n_labels))
    labels = [
        np.where(X @ hidden + rng.normal(size=(len(X), n_labels)) > 0, 1, -1) for X in features
    ]
    return Problem(features, [np.where(rng.random(Y.shape) < 0.3, 0, Y) for Y in labels])


def test_several_ridges_are_solved_as_each_alone():
    problem = problem_of()
    found = masked_ridges(problem, [0.3, 5.0])
    for W, ridge in zip(found, [0.3, 5.0], strict=True):
        np.testing.assert_allclose(W, masked_ridge(problem, ridge), rtol=1e-12)
    wide = Problem([np.random.default_rng(1).normal(size=(20, 50))], [problem.Y[:20]])
    found = masked_ridges(wide, [0.3, 5.0])
    np.testing.assert_allclose(found[1], masked_ridge(wide, 5.0), rtol=1e-12)


def test_the_ridge_is_best_on_the_folds_and_for_each_fold_on_the_others():
    problem = problem_of()
    fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
    ridge, chosen, without = choose_ridge(Folds.of(problem, fold_of), "AP")
    values, fits = np.empty((3, len(RIDGES))), {}
    for fold in range(3):
        hidden = fold_of == fold
        for i, candidate in enumerate(RIDGES):
            W = fits[fold, i] = masked_ridge(problem.without(hidden), candidate)
            values[fold, i] = hidden_metric(problem, hidden, W, "AP")
    best = int(np.argmax(values.mean(axis=0)))
    assert ridge == RIDGES[best]
    for fold in range(3):
        np.testing.assert_allclose(chosen[fold], fits[fold, best], rtol=1e-9)
        of_others = int(np.argmax(np.delete(values, fold, axis=0).mean(axis=0)))
        np.testing.assert_allclose(without[fold], fits[fold, of_others], rtol=1e-9)


def test_folds_whose_fits_differ_by_a_constant_can_be_ranked_together():
    """Rows of one view with the same scores in every fold, but for the fold's intercept."""
    problem = problem_of()
    fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
    W = np.random.default_rng(3).normal(size=(problem.n_weights, 4))
    fits = [W.copy() for _ in range(3)]
    for fold, shifted in enumerate(fits):
        for weights in problem.weight_slices:
            shifted[weights.stop - 1] += 10.0 * fold  # the intercepts
    found = held_out_scores(problem, fold_of, fits, levelled=True)
    expected = np.where(fold_of < 0, np.nan, problem.multiply(W))
    difference = (found - expected)[fold_of >= 0]
    np.testing.assert_allclose(difference, difference[0])
    plain = held_out_scores(problem, fold_of, fits)
    np.testing.assert_allclose((plain - expected)[fold_of == 2], 20.0)


def test_noise_is_not_ranked_below_guessing():
    """Without levelling, AUC of the intercepts alone is far below one half."""
    aucs = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        Y = np.where(rng.random((60, 20)) < 0.1, 1, -1)
        problem = Problem([rng.normal(size=(60, 4))], [Y])
        fold_of = hold_out_folds(problem, 3, np.random.RandomState(seed))
        fits = Folds.of(problem, fold_of).fits(lambda part: masked_ridge(part, 1e3))
        truth = problem.truth_of(fold_of >= 0)
        for levelled in (True, False):
            scores = held_out_scores(problem, fold_of, fits, levelled=levelled)
            aucs.append(evaluate(truth, np.nan_to_num(scores))["macro-AUC"])
    levelled, plain = np.reshape(aucs, (-1, 2)).mean(axis=0)
    assert abs(levelled - 0.5) < 0.03 < 0.5 - plain


def test_decisions_on_a_fold_are_learned_from_the_others():
    problem = problem_of()
    fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
    _, fits, _ = choose_ridge(Folds.of(problem, fold_of), "AP")
    scores = held_out_scores(problem, fold_of, fits)
    rules = Rules("f1", True, "mean")
    start = fixed_decisions(rules, ["a", "b"], list("wxyz"))
    found = held_out_answers(rules, start, problem, scores, fold_of)
    for fold in range(3):
        decisions = learn_decisions(
            rules, start, problem, np.where(fold_of == fold, np.nan, scores)
        )
        for view, rows in zip("ab", problem.row_slices, strict=True):
            here = (fold_of == fold)[rows]
            S = scores[rows]
            expected = (S - decisions.thresholds[view])[here]
            np.testing.assert_allclose(found[view].margins[here], expected)
            expected = decisions.calibrations[view].probabilities(S)[here]
            np.testing.assert_allclose(found[view].probabilities[here], expected)
    np.testing.assert_array_equal(np.isnan(found["a"].scores), fold_of[problem.row_slices[0]] < 0)


def test_figures_are_on_the_scale_of_evaluation(data, fitted):
    """Rows are ranked by all of their known labels, and not by those of one fold."""
    new = draw(missing_labels=0.0)
    scores = fitted.decision_function(data.views)
    seen = evaluate(data.labels, scores)
    mean = fitted.held_out_["blocks"][0]
    n_known = sum(int((~np.isnan(Y)).sum()) for Y in data.labels.values())
    assert mean["n_entries"] == n_known
    assert abs(mean["metrics"]["AP"]["value"] - seen["AP"]) < 0.12  # seen entries are easier
    assert set(mean["metrics"]) <= set(evaluate(new.labels, scores))


def test_guessing_is_that_of_the_frequencies(data, fitted):
    for block in fitted.held_out_["blocks"][1:]:
        Y = data.labels[block["name"]]
        rates = np.nanmean(Y, axis=0)
        always = np.tile(rates, (len(Y), 1))
        expected = evaluate(Y, always, threshold=0.5)
        for name in ("1-HL", "AP", "macro-AUC"):
            assert block["metrics"][name]["guessing"] == pytest.approx(expected[name])
        np.testing.assert_allclose(fitted.view_rates_[block["name"]], rates, atol=0.02)


def test_the_model_without_coupling_is_ridge_regression(data, fitted):
    other = fitted.uncoupled_
    assert isinstance(other, PerViewRidge) and other.ridge in RIDGES
    expected = PerViewRidge(other.ridge, calibrate=True, random_state=0).fit(
        data.views, data.labels
    )
    for view in data.views:
        np.testing.assert_allclose(other.coef_[view], expected.coef_[view], rtol=1e-9)
        np.testing.assert_allclose(other.intercept_[view], expected.intercept_[view], rtol=1e-9)
        found, known = (model.predict_proba(data.views)[view] for model in (other, expected))
        np.testing.assert_allclose(found, known, rtol=1e-6)


def test_a_model_without_coupling_gains_nothing(data, monkeypatch):
    """With lam close to 0 both are the same, if there is only one ridge to choose."""
    monkeypatch.setattr(compared, "RIDGES", (2.0,))
    model = NAIM3L(1e-6, ridge=2.0, compare=True, random_state=0).fit(data.views, data.labels)
    for metric in model.held_out_["blocks"][0]["metrics"].values():
        assert abs(metric["gain"]["value"]) < 2e-3


def test_the_pair_of_a_fold_is_chosen_without_it(data):
    model = NAIM3LCV(
        lams=[0.1, 1.0, 5.0], ridges=[0.5, 20.0], compare=True, exhaustive=True, random_state=1
    )
    problem, folds = model._hold_out_training(data.views, data.labels)
    search = model._search(folds, None)
    values = np.array([model.cv_results_[f"split{fold}_test_score"] for fold in range(3)])
    chosen = model._chosen_without(search)
    fits = model._fits(search, chosen, None)
    for fold in range(3):
        assert chosen[fold] == np.argmax(np.delete(values, fold, axis=0).mean(axis=0))
        lam, ridge = search.pairs[chosen[fold]]
        objective = Objective(folds.without(fold), lam, ridge=ridge)
        tight = solve_fast(objective, max_iter=1000, tol=1e-6).W
        # Fits within folds are loose: their scores differ little on the scale of labels.
        assert np.abs(problem.multiply(fits[fold] - tight)).mean() < 0.02


def test_wide_tables_are_measured_fused():
    data = draw(aligned=True, missing_labels=0.0)
    wide, views = join_views(data.views)
    model = NAIM3L(
        1.0, ridge=1.0, views=views, compare=True, calibrate=True, fusion="evidence",
        random_state=0,
    ).fit(wide, data.labels["view0"])  # fmt: skip
    (block,) = model.held_out_["blocks"]
    assert block["name"] == block["kind"] == "fused" and block["n_rows"] == 120
    assert block["metrics"]["macro-AUC"]["value"] > 0.6
    assert model.uncoupled_.predict(wide).shape == (120, 4)


def test_without_compare_nothing_is_measured(data):
    model = NAIM3LCV(lams=[1.0], ridges=[1.0], random_state=0).fit(data.views, data.labels)
    assert not hasattr(model, "held_out_") and not hasattr(model, "uncoupled_")
    with pytest.raises(AttributeError, match="uncoupled_ needs compare=True"):
        _ = model.uncoupled_


def test_comparing_changes_no_prediction(data, fitted):
    alone = clone(fitted).set_params(compare=False).fit(data.views, data.labels)
    for view in data.views:
        np.testing.assert_array_equal(alone.coef_[view], fitted.coef_[view])
        np.testing.assert_array_equal(alone.thresholds_[view], fitted.thresholds_[view])


def test_a_saved_model_keeps_the_comparison(data, fitted, tmp_path):
    fitted.save(tmp_path / "m.skops")
    loaded = naim3l.load(tmp_path / "m.skops")
    assert loaded.held_out_ == fitted.held_out_
    for view, scores in fitted.uncoupled_.decision_function(data.views).items():
        found = loaded.uncoupled_.decision_function(data.views)[view]
        np.testing.assert_array_equal(found, scores)
    fitted.uncoupled_.save(tmp_path / "other.skops")
    other = naim3l.load(tmp_path / "other.skops")
    assert other.columns_ == fitted.columns_ and other.ridge == fitted.uncoupled_.ridge


def spoiled(model, path, value):
    """A copy of the model with another value at a path of its comparison."""
    changed = copy.deepcopy(model)
    place = {"held": changed.held_out_, "other": vars(changed.uncoupled_parts_)}[path[0]]
    for key in path[1:-1]:
        place = vars(place[key]) if hasattr(place[key], "__dict__") else place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["held", "blocks"], 3),
        (["held", "blocks", 0, "metrics"], {}),
        (["held", "blocks", 0, "metrics", "AP", "value"], "high"),
        (["held", "labels", 0, "verdict"], "splendid"),
        (["held", "labels", 0, "label"], "unheard of"),
        (["held", "calibration", 0, "bins"], [1]),
        (["other", "ridge"], float("nan")),
        (["other", "ridge"], -1.0),
        (["other", "coef"], {}),
        (["other", "coef", "view0"], np.zeros((2, 4))),
        (["other", "intercept", "view0"], np.full(4, np.inf)),
        (["other", "decisions"], None),
        (["other", "decisions", "thresholds"], {}),
        (["other", "decisions", "calibrations", "view0"], 1),
    ],
)
def test_a_file_with_an_impossible_comparison_is_refused(fitted, path, value):
    check_state(fitted, 100)
    with pytest.raises(
        ModelFileError,
        match=r"held_out_|uncoupled_parts_|coef_|intercept_|thresholds_|calibration_",
    ):
        check_state(spoiled(fitted, path, value), 100)
