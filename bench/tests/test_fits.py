import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.metrics import average_precision_score

from naim3l import NAIM3L, NAIM3LCV, Decisions, Kernel, PerViewRidge, evaluate
from naim3l.metrics import average_precision, macro_f1
from naim3l_bench.fits import METHODS, run_method
from naim3l_bench.trials import by_sample, draw_challenge, make_trial


@pytest.fixture
def trial(source):
    settings = {"alpha": 0.3, "beta": 0.3, "aligned": False, "seed": 0}
    return make_trial(source, draw_challenge(source, settings), features="train", seed=0)


def test_tuned_ridge_is_the_ridge_with_the_best_held_out_metric(trial):
    choices = [1e-3, 1.0, 1e5]
    outcome = METHODS["ridge, tuned"](trial, {"ridges": choices, "cv": 3}, 0)
    alone = [
        METHODS["ridge, tuned"](trial, {"ridges": [ridge], "cv": 3}, 0).numbers["held_out"]
        for ridge in choices
    ]
    best = choices[int(np.argmax(alone))]
    assert outcome.numbers == {"ridge": best, "held_out": max(alone)}
    model = PerViewRidge(best, features=None).fit(trial.X_train, trial.Y_train)
    for view, S in model.decision_function(trial.X_test).items():
        np.testing.assert_allclose(outcome.scores[view], S)


def test_algorithm_1_is_solver_paper(trial):
    parameters = {"lam": 0.4, "mu": 5.0, "max_iter": 12, "tol": 0.0, "at": [3, 12]}
    outcome = METHODS["Algorithm 1"](trial, parameters, 7)
    model = NAIM3L(0.4, solver="paper", features=None, max_iter=12, tol=0, random_state=7)
    model.fit(trial.X_train, trial.Y_train)
    for view, S in model.decision_function(trial.X_test).items():
        np.testing.assert_allclose(outcome.scores[view], S)
    assert outcome.numbers["objective"][-1] == pytest.approx(model.objective_)
    assert set(outcome.numbers["path"]) == {"3", "12"}


def test_stopped_run_keeps_its_last_weights_for_later_checkpoints(trial):
    parameters = {"lam": 0.4, "mu": 5.0, "max_iter": 500, "tol": 1e-2, "at": [1, 500]}
    numbers = METHODS["Algorithm 1"](trial, parameters, 0).numbers
    assert numbers["converged"] and numbers["n_iter"] < 500
    assert set(numbers["path"]) == {"1", "500"}


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("NAIM3L", {"lam": 0.4}),
        ("NAIM3L, tuned", {"lams": [0.1, 0.4], "ridges": [1.0]}),
        ("ridge, tuned", {"ridges": [1.0, 10.0], "cv": 2}),
    ],
)
def test_every_method_beats_chance_and_is_reproducible(trial, method, parameters):
    first, again = (run_method(trial, method, parameters, 3) for _ in range(2))
    assert first["metrics"] == again["metrics"]
    assert first["metrics"]["per view"]["1-RL"] > 0.6


@pytest.fixture
def raw(source):
    settings = {"alpha": 0.3, "beta": 0.3, "aligned": False, "seed": 0}
    return make_trial(source, draw_challenge(source, settings), features="raw", seed=0)


def test_tuned_model_without_the_regulariser_is_ridge(raw):
    parameters = {
        "lams": [1.0],
        "ridges": [0.5, 50.0],
        "variant": "loss",
        "kernel": "rbf",
        "n_landmarks": 20,
        "search_gamma": False,
        "tol": 1e-8,
    }
    outcome = METHODS["model, tuned"](raw, parameters, 0)
    ridge = PerViewRidge(outcome.numbers["ridge"], features=Kernel("rbf", n_landmarks=20))
    for view, S in ridge.fit(raw.X_train, raw.Y_train).decision_function(raw.X_test).items():
        np.testing.assert_allclose(outcome.scores[view], S, atol=1e-5)
    assert outcome.numbers["gamma"] == ridge.gamma_
    assert set(outcome.calibrations) == set(raw.X_train)


def test_logistic_regression_is_tuned_and_calibrated_as_the_model_is(raw):
    shared = {"kernel": "rbf", "n_landmarks": 20, "cv": 2}
    outcome = METHODS["logistic, tuned"](raw, {"Cs": [1.0], **shared}, 0)
    alone = {"lams": [1.0], "ridges": [1.0], "variant": "loss"}
    ridge = METHODS["model, tuned"](raw, {**alone, "metric": "log-loss", **shared}, 0)
    assert outcome.numbers["gamma"] == ridge.numbers["gamma"]  # so features are the same
    assert outcome.calibrations.keys() == ridge.calibrations.keys()
    plain = {"features": None, "cv": 2}
    losses = {C: METHODS["logistic, tuned"](raw, {"Cs": [C], **plain}, 0).numbers["held_out"]
              for C in (0.01, 1.0)}  # fmt: skip
    chosen = METHODS["logistic, tuned"](raw, {"Cs": [0.01, 1.0], **plain}, 0).numbers
    assert chosen["C"] == min(losses, key=losses.get)
    assert chosen["held_out"] == min(losses.values())


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("model, tuned", {"lams": [0.1, 0.4], "ridges": [1.0], "kernel": "rbf"}),
        ("logistic, tuned", {"Cs": [1.0], "cv": 2}),
    ],
)
def test_calibrated_scores_are_measured_in_every_way(raw, method, parameters):
    metrics = run_method(raw, method, parameters, 0)["metrics"]
    outcome = METHODS[method](raw, parameters, 0)
    log_odds = {v: outcome.calibrations[v].log_odds(S) for v, S in outcome.scores.items()}
    table = by_sample(raw, log_odds)
    table[~raw.shown.T] = np.nan
    shares = [(np.nansum(Y, axis=0), (~np.isnan(Y)).sum(axis=0)) for Y in raw.Y_train.values()]
    yes, known = np.sum(shares, axis=0)
    base = logit((yes + 1) / (known + 2))
    fused = np.nansum(table - base, axis=0) + base
    expected = evaluate(raw.truth, fused, protocol="fused")
    assert metrics["evidence"] == pytest.approx(expected)
    per_view = [evaluate(raw.truth[raw.test_rows[v]], L)["AP"] for v, L in log_odds.items()]
    assert metrics["calibrated"]["AP"] == pytest.approx(np.mean(per_view))
    known = np.mean([(Y > 0).sum(axis=0) for Y in raw.Y_train.values()], axis=0)
    group = [k for k in range(raw.truth.shape[1]) if 5 <= known[k] < 20]
    expected = [average_precision_score(raw.truth[:, k], fused[:, k]) for k in group]
    told = metrics["label AP"]["5 to 20"]
    assert told["labels"] == len(expected)
    assert not expected or told["AP"] == pytest.approx(np.mean(expected))


@pytest.mark.torch
def test_networks_bring_their_own_log_odds(raw):
    parameters = {
        "n_components": 3,
        "features": "scale",
        "network": {"hidden": [4]},
        "training": {"max_epochs": 3},
    }
    outcome = METHODS["deep"](raw, parameters, 0)
    assert outcome.numbers == {"epochs": 3}
    for view, curve in outcome.calibrations.items():
        np.testing.assert_array_equal(curve.log_odds(outcome.scores[view]), outcome.scores[view])


def test_fusions_of_aligned_rows_are_those_of_the_wide_form(source):
    settings = {"alpha": 0.3, "beta": 0.3, "aligned": True, "seed": 0}
    trial = make_trial(source, draw_challenge(source, settings), features="raw", seed=0)
    numbers = METHODS["fusions"](trial, {"lam": 0.2, "ridge": 1.0}, 0).numbers
    frames = {
        view: pd.DataFrame(X, index=trial.train_rows[view]).add_prefix(view)
        for view, X in trial.X_train.items()
    }
    labels = [pd.DataFrame(Y, index=trial.train_rows[v]) for v, Y in trial.Y_train.items()]
    wide = pd.concat(frames.values(), axis=1).sort_index()
    Y = pd.concat(labels)
    Y = Y[~Y.index.duplicated()].sort_index().add_prefix("label")
    views = {view: list(frame.columns) for view, frame in frames.items()}
    test = pd.concat(
        [pd.DataFrame(X, index=trial.test_rows[view]).add_prefix(view)
         for view, X in trial.X_test.items()], axis=1,
    ).sort_index()  # fmt: skip
    for way, fusion in (("mean", "mean"), ("overlap learned", "evidence")):
        options = {"decide": Decisions("sign", True, fusion), "random_state": 0}
        model = NAIM3L(0.2, ridge=1.0, views=views, features=None, **options).fit(wide, Y)
        S = model.decision_function(test) if fusion == "mean" else model.predict_proba(test)
        expected = average_precision(trial.truth, S)
        assert numbers["all views"][way]["AP"] == pytest.approx(expected, abs=1e-6)


def test_rules_are_measured_on_the_decisions_of_the_model(trial):
    parameters = {"lams": [0.4], "ridges": [1.0]}
    numbers = METHODS["rules"](trial, parameters, 0).numbers
    model = NAIM3LCV(features=None, random_state=0, **parameters)
    model.fit(trial.X_train, trial.Y_train)
    truth = {view: trial.truth[rows] for view, rows in trial.test_rows.items()}
    for rule in ("sign", *model.decisions_.rules):
        decided = model.predict(trial.X_test, decide=rule)
        f1 = [macro_f1(truth[view], Y, threshold=0.5) for view, Y in decided.items()]
        assert numbers[rule]["macro-F1"] == pytest.approx(np.mean(f1))
        per_row = np.mean([Y.sum(axis=1).mean() for Y in decided.values()])
        assert numbers[rule]["labels per row"] == pytest.approx(per_row)
    right = np.mean([(Y == 0).mean() for Y in truth.values()])
    assert numbers["always no"]["1-HL"] == pytest.approx(right)
    known = np.concatenate(list(trial.Y_train.values()))
    mostly_yes = np.nansum(known, axis=0) > np.sum(known == 0, axis=0)
    right = np.mean([(mostly_yes == Y).mean() for Y in truth.values()])
    assert numbers["more frequent value"]["1-HL"] == pytest.approx(right)


def test_complete_samples_are_fused(trial):
    numbers = METHODS["decisions"](trial, {"lam": 0.4}, 0).numbers
    assert numbers["AP, all views fused"] > 0.5 and numbers["AP, best view"] > 0.5
