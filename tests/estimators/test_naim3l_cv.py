"""The choice of lam and ridge, and of gammas, on entries that are held out."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L, Kernel, evaluate
from naim3l.datasets import make_unpaired
from naim3l.decisions.held_out import hidden_metrics, hold_out_folds
from naim3l.estimators import naim3l_cv as cv_module
from naim3l.estimators.naim3l_cv import NAIM3LCV, choose_gammas
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective


@pytest.fixture(scope="module")
def data():
    return make_unpaired(120, n_features=(12, 10), n_labels=5, n_latent=4, noise=0.5,
                         missing_labels=0.3, random_state=0)  # fmt: skip


def quick(**parameters):
    return NAIM3LCV(
        **{"lams": (1.0, 0.3, 0.1), "ridges": (0.0, 1.0), "cv": 3, "random_state": 0} | parameters
    )


@pytest.fixture(scope="module")
def fitted(data):
    return data, quick().fit(data.views, data.labels)


def test_view_with_one_positive_is_fitted(data):
    labels = {view: Y.copy() for view, Y in data.labels.items()}
    labels["view1"][labels["view1"] == 1] = 0
    labels["view1"][3, 2] = 1
    assert np.isfinite(quick(lams=(1.0, 0.1)).fit(data.views, labels).best_score_)


def test_chosen_pair_is_the_best_of_the_table(fitted):
    _, model = fitted
    table = pd.DataFrame(model.cv_results_)
    assert len(table) == 6
    best = table.loc[table["mean_test_score"].idxmax()]
    assert (model.lam_, model.ridge_) == (best["lam"], best["ridge"])
    assert model.best_score_ == best["mean_test_score"]
    assert best["rank_test_score"] == 1
    folds = table[[f"split{k}_test_score" for k in range(3)]]
    np.testing.assert_allclose(folds.mean(axis=1), table["mean_test_score"])
    np.testing.assert_allclose(folds.std(axis=1, ddof=0), table["std_test_score"])


@pytest.mark.parametrize("metric", ["coverage", "one-error"])
def test_lowest_is_best_where_lower_is_better(fitted, metric):
    data, _ = fitted
    model = quick(metric=metric).fit(data.views, data.labels)
    means = model.cv_results_["mean_test_score"]
    assert model.best_score_ == means.min()
    assert model.cv_results_["rank_test_score"][np.argmin(means)] == 1


def test_final_fit_is_that_of_the_chosen_pair(fitted):
    data, model = fitted
    plain = NAIM3L(model.lam_, ridge=model.ridge_, solver="fast").fit(data.views, data.labels)
    for view in data.views:
        np.testing.assert_array_equal(model.coef_[view], plain.coef_[view])
        np.testing.assert_array_equal(model.intercept_[view], plain.intercept_[view])
    for name in ("n_iter_", "converged_", "stationarity_", "objective_", "history_", "views_",
                 "label_names_"):  # fmt: skip
        assert getattr(model, name) == getattr(plain, name), name
    assert model.score(data.views, data.labels) == plain.score(data.views, data.labels)


@pytest.mark.parametrize("metric", ["AP", "macro-AUC"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scores_of_a_fold_are_those_of_fits_by_hand(fitted, fit_intercept, metric):
    """Whole rows are held out."""
    data, _ = fitted
    model = quick(fit_intercept=fit_intercept, metric=metric).fit(data.views, data.labels)
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in data.labels.values()]
    problem = Problem(list(data.views.values()), signed)
    fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
    hidden = dict(zip(data.views, [fold_of[rows] == 1 for rows in problem.row_slices], strict=True))
    kept = {view: np.where(hidden[view], np.nan, Y) for view, Y in data.labels.items()}
    truth = {view: np.where(hidden[view], Y, np.nan) for view, Y in data.labels.items()}
    table, away = model.cv_results_, []
    for lam, ridge, value in zip(
        table["lam"], table["ridge"], table["split1_test_score"], strict=True
    ):
        by_hand = NAIM3L(
            lam, ridge=ridge, solver="fast", tol=1e-6, max_iter=2000, fit_intercept=fit_intercept
        ).fit(data.views, kept)
        expected = evaluate(truth, by_hand.decision_function(data.views))[metric]
        away.append(abs(value - expected))
    # Fits of a search are less accurate, and may order two labels of a row differently.
    assert np.median(away) < 1e-3 and max(away) < 0.01


def ridge_chosen(X, Y):
    model = NAIM3LCV((0.05,), (0.0, 300.0), features=None, metric="micro-AUC", random_state=0)
    return model.fit(X, Y).ridge_


def test_metric_of_few_labels_is_macro_auc_and_of_many_both(fitted, rng):
    data, model = fitted
    assert model.metric_ == "macro-AUC"
    many = {view: (rng.random((len(Y), 25)) < 0.4).astype(float) for view, Y in data.labels.items()}
    assert quick(lams=[0.1], ridges=[10.0], cv=2).fit(data.views, many).metric_ == "rankings"


def test_strong_ridge_is_chosen_for_many_features_of_little_use(rng):
    X = {view: rng.normal(size=(60, 30)) for view in "ab"}
    Y = {
        view: (table[:, :1] * [1, 1, -1, -1] + 2 * rng.normal(size=(60, 4)) > 0).astype(float)
        for view, table in X.items()
    }
    assert ridge_chosen(X, Y) == 300.0


def test_no_ridge_is_chosen_where_small_features_decide_and_large_ones_distract(rng):
    scale = np.array([0.05, 0.05, 0.05, 1, 1, 1])
    X = {view: rng.normal(size=(80, 6)) * scale for view in "ab"}
    mixing = rng.normal(size=(3, 4))
    Y = {view: (table[:, :3] @ mixing > 0).astype(float) for view, table in X.items()}
    assert ridge_chosen(X, Y) == 0.0


def test_wide_table_is_scored_on_fused_samples_whose_entries_no_view_saw():
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(60, 6)), "b": rng.normal(size=(60, 5))}
    Y = (X["a"][:, :4] + X["b"][:, :4] > 0).astype(float)
    views = {"a": slice(0, 6), "b": slice(6, 11)}
    model = quick(lams=[0.4], ridges=[1.0], cv=2, views=views, features=None, metric="AP")
    model.fit(np.hstack(list(X.values())), Y)
    samples = np.tile(np.arange(60), 2)
    problem = Problem(list(X.values()), [2 * Y - 1] * 2, samples=samples)
    hidden = hold_out_folds(problem, 2, np.random.RandomState(0)) == 0
    part = problem.with_labels(np.where(hidden, 0, problem.Y))
    W = solve_fast(Objective(part, 0.4, ridge=1.0), max_iter=100, tol=3e-3).W
    S = problem.multiply(W)
    expected = evaluate(np.where(hidden[:60], Y, np.nan), (S[:60] + S[60:]) / 2)["AP"]
    assert model.cv_results_["split0_test_score"][0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lams": ()}, "lams must be a sequence of at least one number"),
        ({"lams": "many"}, "'lams' parameter of NAIM3LCV must be"),
        ({"lams": (1.0, 0.0)}, r"lams\[1\] must be a number from 1e-10 to 1e10, got 0.0"),
        ({"lams": {True}}, r"lams\[0\] must be a number .*, got True"),
        ({"ridges": 1.0}, "'ridges' parameter of NAIM3LCV must be a str among {'auto'} or an arr"),
        ({"ridges": (1.0, np.nan)}, r"ridges\[1\] must be a number from 0 to 1e10, got nan"),
        ({"cv": 1}, "'cv' parameter of NAIM3LCV must be an int in the range"),
        ({"metric": "accuracy"}, "'metric' parameter of NAIM3LCV must be a str among"),
    ],
)
def test_bad_parameters_are_refused(fitted, parameters, message):
    data, _ = fitted
    with pytest.raises(ValueError, match=message):
        quick(**parameters).fit(data.views, data.labels)


def test_metric_that_is_nowhere_defined_is_refused(data):
    one_each = {view: np.zeros((len(Y), 2)) for view, Y in data.labels.items()}
    for Y in one_each.values():
        Y[[0, 1], [0, 1]] = 1  # the only positives of their labels are never held out
    with pytest.raises(ValueError, match="metric 'macro-AUC' is undefined on the held-out entries"):
        quick(metric="macro-AUC").fit(data.views, one_each)
    assert quick().fit(data.views, one_each).metric_ == "log-loss"


def test_an_objective_without_a_bound_at_every_pair_is_an_error(data):
    few = {
        view: np.where(np.arange(len(Y))[:, None] < 9, Y, np.nan) for view, Y in data.labels.items()
    }
    with pytest.raises(FloatingPointError, match="smaller lams, larger ridges, or variant"):
        quick(lams=(100.0,), ridges=(0.0,), metric="log-loss").fit(data.views, few)


class TestGammas:
    """Gammas are chosen per view, by ridge regression on entries that it does not see."""

    START: ClassVar = {"a": 1.0, "b": 10.0, "c": None}
    FACTORS: ClassVar = [0.1, 1.0, 10.0]
    GOOD: ClassVar = {"a": 0.1, "b": 100.0}  # gammas whose features tell the labels

    @pytest.fixture
    def case(self, rng, monkeypatch):
        """Function that makes the problem of some gammas, the entries to hold out, and a log."""
        Y, noise = rng.choice([-1.0, 1.0], size=(60, 3)), rng.normal(size=(60, 3))
        tried = []

        def problem_at(gammas):
            tried.append(dict(gammas))
            telling = [gamma == self.GOOD.get(view) for view, gamma in gammas.items()]
            return Problem([Y + 0.3 * noise if tells else noise for tells in telling], [Y] * 3)

        monkeypatch.setattr(cv_module, "GAMMA_FACTORS", self.FACTORS)
        hidden = hold_out_folds(problem_at(self.START), 3, np.random.RandomState(0)) == 0
        tried.clear()
        return problem_at, hidden, tried

    @pytest.mark.parametrize("metric", ["AP", "log-loss"])
    def test_each_view_takes_the_factor_that_suits_it(self, case, metric):
        problem_at, hidden, tried = case
        chosen, features = choose_gammas(self.START, problem_at, hidden, metric, "cpu")
        assert chosen == {**self.GOOD, "c": None}
        assert tried == [{"a": f * 1.0, "b": f * 10.0, "c": None} for f in self.FACTORS]
        expected = problem_at(chosen).features
        for found, best in zip(features[:2], expected, strict=False):
            np.testing.assert_array_equal(found, best)
        assert features[2] is None  # as it was

    def test_the_choice_is_the_best_of_exact_ridge_regressions(self, case, rng, monkeypatch):
        _, hidden, _ = case
        Y = rng.choice([-1.0, 1.0], size=(60, 3))
        features = {f: [f * Y + rng.normal(size=(60, 3)) for _ in range(3)] for f in (0.2, 0.5)}
        monkeypatch.setattr(cv_module, "GAMMA_FACTORS", list(features))

        def problem_at(gammas):
            return Problem(features[gammas["a"]], [Y] * 3)

        chosen, _ = choose_gammas(dict.fromkeys("abc", 1.0), problem_at, hidden, "AP", "cpu")
        values = {}
        for factor in features:
            problem = problem_at({"a": factor})
            solutions = problem.without(hidden).ridge_solutions(cv_module.GAMMA_RIDGES)
            values[factor] = np.max(
                [hidden_metrics(problem, hidden, W, "AP") for W in solutions], axis=0
            )
        best = [max(values, key=lambda factor: values[factor][v]) for v in range(3)]
        assert list(chosen.values()) == best

    def test_a_view_without_a_defined_value_keeps_its_start(self, case):
        problem_at, hidden, _ = case
        chosen, _ = choose_gammas(self.START, problem_at, np.zeros_like(hidden), "AP", "cpu")
        assert chosen == self.START

    def test_only_gammas_that_are_free_are_chosen(self, fitted):
        data, _ = fitted
        features = {"view0": Kernel(gamma=0.3, n_landmarks=20), "view1": Kernel(n_landmarks=20)}
        model = quick(lams=[0.1], features=features).fit(data.views, data.labels)
        start = NAIM3L(features=features, random_state=0).fit(data.views, data.labels).gamma_
        assert model.gamma_["view0"] == 0.3
        factor = model.gamma_["view1"] / start["view1"]
        assert np.isclose(factor, cv_module.GAMMA_FACTORS).any()
        for view, kernel in model.kernel_maps_.items():
            assert kernel.gamma == model.gamma_[view]
            scores = model.decision_function(data.views)[view]
            again = model.features_[view].encode(model._batches(data.views)[view])[0]
            np.testing.assert_allclose(
                again @ model.coef_[view] + model.intercept_[view], scores, rtol=1e-9
            )
