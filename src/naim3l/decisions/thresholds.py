"""Thresholds of scores, fixed or learned from entries that were held out of the fit."""

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from naim3l._arrays import Mask, Matrix
from naim3l.decisions.calibration import Calibration

SIGN = "sign"
# With fewer known positives than this a label shares the threshold of all such labels.
ENOUGH_POSITIVES = 5
# Share of the held-out entries by which "guarded" decisions may be less accurate than each label's
# more frequent value. On new rows they lose up to twice as much.
GUARD = 0.005


def check_rule(name: str, rule: Any, label_names: list[str] | None = None) -> None:
    """Refuse anything but the name of a rule, a number, or a mapping of labels to numbers."""
    if isinstance(rule, Mapping):
        for label, value in rule.items():
            if not _is_number(value):
                raise ValueError(f"{name}[{label!r}] must be a finite number, got {value!r}.")
        unknown = [label for label in rule if label not in (label_names or rule)]
        if unknown:
            raise ValueError(f"{name}: no labels {unknown}; the data have {label_names}.")
    elif not _is_number(rule) and not (isinstance(rule, str) and rule in RULES):
        raise ValueError(
            f"{name} must be one of {list(RULES)}, a finite number, a mapping {{label: number}}, "
            f"or Decisions(...), got {rule!r}."
        )


def fixed_thresholds(threshold: Any, label_names: list[str]) -> Matrix:
    """Thresholds (n_labels,) that need no learning; labels that are not in a mapping have 0."""
    if isinstance(threshold, Mapping):
        return np.array([float(threshold.get(name, 0.0)) for name in label_names])
    return np.full(len(label_names), 0.0 if threshold == SIGN else float(threshold))


def fit_thresholds(scores: Matrix, truth: Matrix, rule: str, calibration: Calibration) -> Matrix:
    """Thresholds (n_labels,) above which labels are predicted.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Scores of held-out entries, by fits without them; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rule : {"guarded", "cardinality", "f1", "half"}
        "f1": the threshold with the best F1 of each label; labels with few known positives share
        the one that is best for all of them. "cardinality": one threshold for all labels, at which
        as many known entries are predicted as are positive. The other rules use one threshold of
        the probability for all labels. "half": one half, so that the more probable value is
        predicted. "guarded": the one with the best F1 over all entries, among those at which
        decisions are at most half a point less often correct than each label's more frequent
        value.
    calibration : Calibration
        Calibration of these scores, for "guarded" and "half".
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    return LEARNED[rule](scores, known & (truth == 1), known, calibration)


def _half(scores: Matrix, yes: Mask, known: Mask, calibration: Calibration) -> Matrix:
    return _score_at(0.0, scores, calibration)


def _guarded(scores: Matrix, yes: Mask, known: Mask, calibration: Calibration) -> Matrix:
    cut = _guarded_cut(calibration.log_odds(scores), yes, known)
    return _score_at(cut, scores, calibration)


def _cardinality(scores: Matrix, yes: Mask, known: Mask, calibration: Calibration) -> Matrix:
    return np.full(scores.shape[1], _as_many_as_true(scores[known], yes[known]))


def _f1(scores: Matrix, yes: Mask, known: Mask, calibration: Calibration) -> Matrix:
    rare = yes.sum(axis=0) < ENOUGH_POSITIVES
    shared = known & rare
    thresholds = np.full(scores.shape[1], _best_f1(scores[shared], yes[shared]))
    for k in np.flatnonzero(~rare):
        thresholds[k] = _best_f1(scores[known[:, k], k], yes[known[:, k], k])
    return thresholds


# Rules by name, as functions of held-out scores, of which entries are positive and known, and of
# the calibration of the scores.
LEARNED: dict[str, Callable[[Matrix, Mask, Mask, Calibration], Matrix]] = {
    "guarded": _guarded,
    "cardinality": _cardinality,
    "f1": _f1,
    "half": _half,
}
RULES = (SIGN, *LEARNED)


def _guarded_cut(log_odds: Matrix, yes: Mask, known: Mask) -> float:
    """Log-odds with the best F1 over all entries, among those that ``GUARD`` allows.

    If it allows none, because the scores are worse than guessing, the most accurate one.
    """
    n_known, n_yes = int(known.sum()), int(yes.sum())
    if not n_known:
        return 0.0
    of_label = yes.sum(axis=0)
    right_by_guessing = np.maximum(of_label, known.sum(axis=0) - of_label).sum()
    order = np.argsort(-log_odds[known], kind="stable")
    ranked = log_odds[known][order]
    n_called = np.arange(n_known + 1)
    hits = np.concatenate([[0], np.cumsum(yes[known][order])])
    right = hits + (n_known - n_yes) - (n_called - hits)
    f1 = 2 * hits / np.maximum(n_called + n_yes, 1)
    possible = np.concatenate([[True], np.append(ranked[1:] < ranked[:-1], True)])  # not amid ties
    allowed = possible & (right >= right_by_guessing - GUARD * n_known)
    if allowed.any():
        best = int(np.argmax(np.where(allowed, f1, -1.0)))
    else:
        best = int(np.argmax(np.where(possible, right, -1)))
    return _below(ranked, best - 1) if best else float(ranked[0] + 1.0)


def _score_at(log_odds: float, scores: Matrix, calibration: Calibration) -> Matrix:
    """Score of each label, (n_labels,), whose probability has these log-odds.

    A label whose probability does not increase with its score is predicted always or never,
    depending on its frequency: its threshold is beyond all of its scores.
    """
    rises = calibration.slope > 0
    found = (log_odds - calibration.offset) / np.where(rises, calibration.slope, 1.0)
    finite = np.where(np.isfinite(scores), scores, 0.0)
    always = np.where(calibration.base > log_odds, finite.min(axis=0) - 1, finite.max(axis=0) + 1)
    return np.where(rises, found, always)


def _best_f1(scores: Matrix, yes: Mask) -> float:
    """Threshold with the highest F1, midway between two scores; 0 without a positive."""
    if not yes.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(yes[order])
    f1 = 2 * hits / (np.arange(1, len(ranked) + 1) + hits[-1])
    last_of_ties = np.append(ranked[1:] < ranked[:-1], True)
    best = int(np.argmax(np.where(last_of_ties, f1, -1)))
    return _below(ranked, best)


def _as_many_as_true(scores: Matrix, yes: Mask) -> float:
    """Threshold with as many scores above it as there are positives; 0 without one."""
    n_yes = int(yes.sum())
    return _below(-np.sort(-scores), n_yes - 1) if n_yes else 0.0


def _below(ranked: Matrix, last: int) -> float:
    """Midpoint of the score at ``last`` and the next smaller one; scores are descending."""
    smaller = ranked[ranked < ranked[last]]
    return float((ranked[last] + smaller[0]) / 2) if len(smaller) else float(ranked[last] - 1.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
