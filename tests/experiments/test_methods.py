import numpy as np
import pytest

from naim3l.baselines import PerViewRidge
from naim3l.estimator import NAIM3L
from naim3l.experiments.methods import METHODS, run_method
from naim3l.experiments.trials import draw_challenge, make_trial
from naim3l.metrics import macro_f1


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
    model = PerViewRidge(best, transformer=None).fit(trial.X_train, trial.Y_train)
    for view, S in model.decision_function(trial.X_test).items():
        np.testing.assert_allclose(outcome.scores[view], S)


def test_algorithm_1_is_solver_paper(trial):
    parameters = {"lam": 0.4, "mu": 5.0, "max_iter": 12, "tol": 0.0, "at": [3, 12]}
    outcome = METHODS["Algorithm 1"](trial, parameters, 7)
    model = NAIM3L(0.4, solver="paper", transformer=None, max_iter=12, tol=0, random_state=7)
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
    assert first["seconds"] > 0


def test_decisions_are_measured_at_the_learned_thresholds(trial):
    numbers = METHODS["decisions"](trial, {"lam": 0.4, "threshold": "f1"}, 0).numbers
    model = NAIM3L(0.4, transformer=None, threshold="f1", calibrate=True, random_state=0)
    predicted = model.fit(trial.X_train, trial.Y_train).predict(trial.X_test)
    f1 = [
        macro_f1(trial.truth[trial.test_rows[view]], Y, threshold=0.5)
        for view, Y in predicted.items()
    ]
    assert numbers["macro-F1"] == pytest.approx(np.mean(f1))
    per_row = np.mean([Y.sum(axis=1).mean() for Y in predicted.values()])
    assert numbers["labels per row"] == pytest.approx(per_row)
    assert numbers["AP, all views fused"] > 0.5 and numbers["AP, best view"] > 0.5
