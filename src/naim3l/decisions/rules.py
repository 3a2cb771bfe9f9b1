"""Rules for when a label is predicted, and how users choose one.

A new rule is a function of held-out scores, and an entry of `RULES`; docstrings and the command
line take its name and meaning from there.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from naim3l._arrays import Mask, Matrix
from naim3l._text import documented
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.fusion import FUSIONS
from naim3l.files.stored import Flag, MapOf, Number, OneOf, Text

SIGN = "sign"
# With fewer known positives than this a label shares the threshold of all such labels.
ENOUGH_POSITIVES = 5
# Share of the held-out entries by which "guarded" decisions may be less accurate than each label's
# more frequent value. On new rows they lose up to twice as much.
GUARD = 0.005


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


@dataclass(frozen=True)
class Rule:
    """A rule for when a label is predicted.

    Attributes
    ----------
    meaning : str
        What the rule does, as the rest of a sentence that begins with its name.
    learn : callable or None
        Thresholds (n_labels,) of held-out scores (n_rows, n_labels), of which entries are positive
        and known, and of the calibration of the scores. None if nothing is learned.
    """

    meaning: str
    learn: Callable[[Matrix, Mask, Mask, Calibration], Matrix] | None = None


RULES = {
    SIGN: Rule("is a score above 0, the paper's rule, which predicts rare labels almost never"),
    "guarded": Rule(
        "is the probability with the highest F1 over all entries, among those at which decisions "
        "are at most half a point less accurate than each label's more frequent value",
        _guarded,
    ),
    "cardinality": Rule(
        "is one threshold per view, at which as many labels are predicted as are positive",
        _cardinality,
    ),
    "f1": Rule(
        "is the threshold with the highest F1 of each label in each view, which labels with few "
        "known positives share",
        _f1,
    ),
    "half": Rule("is a probability of one half, so that the more probable value wins", _half),
}
LEARNED = {name: rule.learn for name, rule in RULES.items() if rule.learn is not None}


@documented(
    rules=RULES,
    fusions=FUSIONS,
    meanings=" ".join(f'"{name}" {rule.meaning}.' for name, rule in RULES.items()),
)
@dataclass(frozen=True)
class Decisions:
    """How scores become predictions: labels, probabilities, and one score from several views.

    Parameters
    ----------
    rule : <rules>, float, or mapping of label to float, default="guarded"
        When a label is predicted. <meanings> All but "sign" are learned from entries that are held
        out of additional coarse fits. A number is a fixed threshold of the score.
    probabilities : bool, default=True
        Whether `predict_proba` is available: a calibration curve per label is learned from the
        same held-out entries, shrunk towards a common one if few of its entries are known.
    fusion : <fusions>, default="mean"
        How the views of a row of a wide table are fused. "mean" is the mean of their scores.
        "evidence" calibrates each view on held-out entries, and adds up its evidence beyond the
        base rate of a label. "learned" also learns weights per view and group of labels, and how
        much the views overlap. For separate tables, see `naim3l.fuse`.

    Examples
    --------
    >>> from naim3l import NAIM3L, Decisions
    >>> NAIM3L(decide=Decisions("f1", fusion="evidence")).decide.rule
    'f1'
    """

    rule: Any = "guarded"
    probabilities: bool = True
    fusion: str = "mean"

    _stored: ClassVar[Mapping[str, Any]] = {
        "rule": OneOf({"name": Text(RULES), "number": Number(), "labels": MapOf(Number())}),
        "probabilities": Flag(),
        "fusion": Text(FUSIONS),
    }

    @classmethod
    def of(cls, decide: Any, label_names: list[str] | None = None) -> "Decisions":
        """The value of the parameter ``decide``; a fixed rule by itself learns nothing."""
        found = decide
        if not isinstance(decide, Decisions):
            learned = isinstance(decide, str) and decide in LEARNED
            found = cls(decide, probabilities=learned)
        check_rule("decide", found.rule, label_names)
        if found.fusion not in FUSIONS:
            raise ValueError(
                f"decide: fusion must be one of {list(FUSIONS)}, got {found.fusion!r}."
            )
        if not isinstance(found.probabilities, bool | np.bool_):
            raise ValueError(
                f"decide: probabilities must be True or False, got {found.probabilities!r}."
            )
        return found

    @property
    def learned_rule(self) -> bool:
        """Whether thresholds are learned."""
        return isinstance(self.rule, str) and self.rule in LEARNED

    def learn(self, wide: bool) -> bool:
        """Whether held-out scores are needed."""
        return self.learned_rule or self.probabilities or (wide and self.fusion != "mean")


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


def fixed_thresholds(rule: Any, label_names: list[str]) -> Matrix:
    """Thresholds (n_labels,) that need no learning; labels that are not in a mapping have 0."""
    if isinstance(rule, Mapping):
        return np.array([float(rule.get(name, 0.0)) for name in label_names])
    return np.full(len(label_names), 0.0 if isinstance(rule, str) else float(rule))


def fit_thresholds(scores: Matrix, truth: Matrix, rule: str, calibration: Calibration) -> Matrix:
    """Thresholds (n_labels,) above which labels are predicted.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Scores of held-out entries, by fits without them; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rule : str
        One of those of `naim3l.Decisions` that are learned.
    calibration : Calibration
        Calibration of these scores.

    Returns
    -------
    ndarray of shape (n_labels,)
        Thresholds of the scores.
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    return LEARNED[rule](scores, known & (truth == 1), known, calibration)


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
