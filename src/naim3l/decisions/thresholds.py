"""Thresholds of scores, fixed or learned from entries that were held out of the fit."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix

RULES = ("sign", "f1", "cardinality")
LEARNED = ("f1", "cardinality")
# With fewer known positives than this a label shares the threshold of all such labels.
ENOUGH_POSITIVES = 5


def check_threshold(threshold: Any, label_names: list[str] | None = None) -> None:
    """Refuse anything but a rule, a number, or a mapping of labels to numbers."""
    if isinstance(threshold, Mapping):
        for name, value in threshold.items():
            if not _is_number(value):
                raise ValueError(f"threshold[{name!r}] must be a finite number, got {value!r}.")
        unknown = [name for name in threshold if name not in (label_names or threshold)]
        if unknown:
            raise ValueError(f"threshold: no labels {unknown}; the data have {label_names}.")
    elif not _is_number(threshold) and not (isinstance(threshold, str) and threshold in RULES):
        raise ValueError(
            f"threshold must be one of {list(RULES)}, a finite number, or a mapping "
            f"{{label: number}}, got {threshold!r}."
        )


def fixed_thresholds(threshold: Any, label_names: list[str]) -> Matrix:
    """Thresholds (n_labels,) that need no learning; labels that are not in a mapping have 0."""
    if isinstance(threshold, Mapping):
        return np.array([float(threshold.get(name, 0.0)) for name in label_names])
    return np.full(len(label_names), 0.0 if threshold == "sign" else float(threshold))


def fit_thresholds(scores: Matrix, truth: Matrix, rule: str) -> Matrix:
    """Thresholds (n_labels,) above which labels are predicted.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Scores of held-out entries, by fits without them; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rule : {"f1", "cardinality"}
        "f1": the threshold with the best F1 of each label; labels with few known positives share
        the one that is best for all of them. "cardinality": one threshold for all labels, at which
        as many known entries are predicted as are positive.
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    yes = known & (truth == 1)
    if rule == "cardinality":
        return np.full(scores.shape[1], _as_many_as_true(scores[known], yes[known]))
    rare = yes.sum(axis=0) < ENOUGH_POSITIVES
    shared = known & rare
    thresholds = np.full(scores.shape[1], _best_f1(scores[shared], yes[shared]))
    for k in np.flatnonzero(~rare):
        thresholds[k] = _best_f1(scores[known[:, k], k], yes[known[:, k], k])
    return thresholds


def _best_f1(scores: Matrix, yes: NDArray[np.bool_]) -> float:
    """Threshold with the highest F1, midway between two scores; 0 without a positive."""
    if not yes.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(yes[order])
    f1 = 2 * hits / (np.arange(1, len(ranked) + 1) + hits[-1])
    last_of_ties = np.append(ranked[1:] < ranked[:-1], True)
    best = int(np.argmax(np.where(last_of_ties, f1, -1)))
    return _below(ranked, best)


def _as_many_as_true(scores: Matrix, yes: NDArray[np.bool_]) -> float:
    """Threshold with as many scores above it as there are positives; 0 without one."""
    n_yes = int(yes.sum())
    return _below(-np.sort(-scores), n_yes - 1) if n_yes else 0.0


def _below(ranked: Matrix, last: int) -> float:
    """Midpoint of the score at ``last`` and the next smaller one; scores are descending."""
    smaller = ranked[ranked < ranked[last]]
    return float((ranked[last] + smaller[0]) / 2) if len(smaller) else float(ranked[last] - 1.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
