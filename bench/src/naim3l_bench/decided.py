"""Decisions of many rules on the test rows of a trial, besides those of guessing."""

import numpy as np
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV, evaluate
from naim3l.extend import Problem, fit_calibration, fit_thresholds, hold_out_folds
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.trials import Trial

NEVER, FREQUENT = "always no", "more frequent value"
SHRUNK, EXPECTED = "f1, shrunk", "expected F1"
MEASURES = ("example-F1", "micro-F1", "macro-F1", "1-HL")
# Known positives at which a label's own threshold counts as much as the common one.
HOLD = 20
PER_ROW = "labels per row"
# Folds of held-out entries, and how accurate fits without them are, as in NAIM3L.
N_FOLDS, FOLD_MAX_ITER, FOLD_TOL = 3, 100, 3e-3


def measure_rules(
    model: NAIM3LCV, problem: Problem, trial: Trial, seed: int
) -> dict[str, dict[str, float]]:
    """Measures of every rule, and of guessing, per view and averaged over views.

    Parameters
    ----------
    model : NAIM3LCV
        Fitted on the trial, with ``calibrate=True`` and no transformer.
    problem : Problem
        Of the trial's training rows.
    trial : Trial
    seed : int
        Of the folds that entries are held out in for "f1, shrunk".
    """
    decided: dict[str, dict[str, Mask]] = {}
    scores = model.decision_function(trial.X_test)
    shrunk = _shrunk_f1(model, problem, trial, seed)
    for view, S in scores.items():
        P = model.calibration_[view].probabilities(S)
        of_view = {
            NEVER: np.zeros(S.shape, dtype=bool),
            FREQUENT: np.broadcast_to(problem.base_rates > 0.5, S.shape),
            "sign": S > 0,
            **{rule: cuts[view] < S for rule, cuts in model.rules_.items()},
            SHRUNK: shrunk[view] < S,
            EXPECTED: best_sets(P),
        }
        for rule, yes in of_view.items():
            decided.setdefault(rule, {})[view] = yes
    truth = {view: trial.truth[rows].astype(float) for view, rows in trial.test_rows.items()}
    return {rule: _measure(truth, by_view) for rule, by_view in decided.items()}


def _measure(truth: dict[str, Matrix], decided: dict[str, Mask]) -> dict[str, float]:
    found = evaluate(truth, {view: np.where(yes, 1.0, -1.0) for view, yes in decided.items()})
    per_row = float(np.mean([yes.sum(axis=1).mean() for yes in decided.values()]))
    return {name: found[name] for name in MEASURES} | {PER_ROW: per_row}


def best_sets(P: Matrix) -> Mask:
    """Labels of each row, (n_rows, n_labels), that maximise its expected F1, nearly.

    The likeliest k labels, where k is the best of ``2 sum(k largest) / (k + sum of all)``: the
    expectation of a ratio is taken for the ratio of expectations. No label at all, whose F1 is 1
    if none is true, is compared with the probability of that, labels taken as independent.

    Examples
    --------
    >>> best_sets(np.array([[0.9, 0.6, 0.1], [0.1, 0.1, 0.05]])).tolist()
    [[True, True, False], [False, False, False]]
    """
    order = np.argsort(-P, axis=1, kind="stable")
    summed = np.cumsum(np.take_along_axis(P, order, axis=1), axis=1)
    expected = 2 * summed / (np.arange(1, P.shape[1] + 1) + P.sum(axis=1, keepdims=True))
    size = np.where(np.prod(1 - P, axis=1) >= expected.max(axis=1), 0, expected.argmax(axis=1) + 1)
    return np.argsort(order, axis=1) < size[:, None]


def _shrunk_f1(model: NAIM3LCV, problem: Problem, trial: Trial, seed: int) -> dict[str, Matrix]:
    """Thresholds of "f1", in standard deviations of a label's scores, drawn to a common one."""
    scores = _held_out_scores(model, problem, trial, seed)
    truth = problem.truth_of(problem.Y != 0)
    thresholds = {}
    for view, rows in zip(model.views_, problem.row_slices, strict=True):
        calibration = fit_calibration(scores[rows], truth[rows], problem.base_rates)
        log_odds = calibration.log_odds(scores[rows])
        own = fit_thresholds(log_odds, truth[rows], "f1", calibration)
        stacked = log_odds.reshape(-1, 1), truth[rows].reshape(-1, 1)
        common = fit_thresholds(*stacked, "f1", calibration)
        n_yes = (truth[rows] == 1).sum(axis=0)
        cut = (n_yes * own + HOLD * common) / (n_yes + HOLD)
        rises = calibration.slope > 0
        at = (cut - calibration.offset) / np.where(rises, calibration.slope, 1)
        thresholds[view] = np.where(rises, at, np.inf)
    return thresholds


def _held_out_scores(model: NAIM3LCV, problem: Problem, trial: Trial, seed: int) -> Matrix:
    """Scores (n_rows, n_labels) of all views stacked, each by a fit without its entry."""
    chosen = NAIM3L(
        model.lam_,
        ridge=model.ridge_,
        transformer=None,
        max_iter=FOLD_MAX_ITER,
        tol=FOLD_TOL,
    )
    fold_of = hold_out_folds(problem, N_FOLDS, np.random.RandomState(seed))
    scores = np.full(problem.Y.shape, np.nan)
    for fold in range(N_FOLDS):
        hidden = fold_of == fold
        parts = zip(trial.Y_train.items(), problem.row_slices, strict=True)
        kept = {view: np.where(hidden[rows], np.nan, Y) for (view, Y), rows in parts}
        found = clone(chosen).fit(trial.X_train, kept).decision_function(trial.X_train)
        stacked = np.concatenate(list(found.values()))
        scores[hidden] = stacked[hidden]
    return scores
