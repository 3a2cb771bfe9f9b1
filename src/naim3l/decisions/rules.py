"""Rules for when a label is predicted; a new one is a function in `LEARNED`, and in `RULES`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from naim3l._arrays import Mask, Matrix
from naim3l._text import documented
from naim3l.decisions.fusion import FUSIONS
from naim3l.files.stored import Flag, MapOf, Number, OneOf, Text

SIGN = "sign"
# What each rule does, as the rest of a sentence that begins with its name.
RULES = {
    SIGN: "is a score above 0, the paper's rule, which predicts rare labels almost never",
    "guarded": "is the probability with the highest F1 over all entries, among those at which "
    "decisions are expected to be at most half a point less accurate than those of 'half', and "
    "close to one half if few entries are known",
    "cardinality": "is one probability for all labels, at which as many are predicted as are "
    "positive",
    "f1": "is the probability with the highest F1 of each label, which labels with few known "
    "positives share",
    "half": "is a probability of one half, so that the more probable value wins",
}
# With fewer known positives than this a label shares the cut of all such labels.
ENOUGH_POSITIVES = 5
# Share of the entries by which "guarded" decisions may be expected to be less accurate than those
# of the more probable values, and number of known entries that count as much as a cut of one half.
GUARD, HOLD_CUT = 0.005, 500


def _half(log_odds: Matrix, yes: Mask, known: Mask) -> Matrix:
    return np.zeros(log_odds.shape[1])


def _guarded(log_odds: Matrix, yes: Mask, known: Mask) -> Matrix:
    n_known = int(known.sum())
    if not yes.any():
        return np.zeros(log_odds.shape[1])
    ranked, _, f1, possible = _cuts(log_odds[known], yes[known])
    p = expit(ranked)
    # What it is expected to cost to predict the first entries, with 1 - 2 p for one below a half.
    price = np.append(0.0, np.cumsum(np.maximum(1 - 2 * p, 0.0)))
    best = np.argmax(np.where(possible & (price <= GUARD * n_known), f1, -1))
    cut = min(float(expit(_below(ranked, int(best)))), 0.5)
    # Few entries tell neither F1 nor probabilities well.
    return np.full(log_odds.shape[1], logit(0.5 - (0.5 - cut) * n_known / (n_known + HOLD_CUT)))


def _cardinality(log_odds: Matrix, yes: Mask, known: Mask) -> Matrix:
    n_yes = int(yes.sum())
    return np.full(log_odds.shape[1], _below(-np.sort(-log_odds[known]), n_yes) if n_yes else 0.0)


def _f1(log_odds: Matrix, yes: Mask, known: Mask) -> Matrix:
    rare = yes.sum(axis=0) < ENOUGH_POSITIVES
    shared = known & rare
    cuts = np.full(log_odds.shape[1], _best_f1(log_odds[shared], yes[shared]))
    for k in np.flatnonzero(~rare):
        cuts[k] = _best_f1(log_odds[known[:, k], k], yes[known[:, k], k])
    return cuts


# Log-odds of each label, (n_labels,), above which it is predicted, from those of held-out entries
# (n_rows, n_labels), and masks of the positive and of the known ones.
LEARNED = {"guarded": _guarded, "cardinality": _cardinality, "f1": _f1, "half": _half}


@documented(
    rules=RULES,
    fusions=FUSIONS,
    meanings=" ".join(f'"{name}" {meaning}.' for name, meaning in RULES.items()),
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
        same held-out entries, shrunk towards those of other labels if few of its entries are known.
    fusion : <fusions>, default="evidence"
        How the views of a row of a wide table are fused. "evidence" adds up what each view says
        beyond the rate of a label, and learns how much the views overlap; it needs a learned rule,
        or probabilities. "mean" is the mean of their scores. Separate tables are fused by the
        method ``fuse`` of a model.
    disjoint : bool, default=False
        Whether no sample is in two of several separate tables. What known labels of a row say
        about its unknown ones is then checked with the rows of all tables; otherwise a sample in
        two tables would give itself away, and each table is checked by itself.

    Examples
    --------
    >>> from naim3l import NAIM3L, Decisions
    >>> NAIM3L(decide=Decisions("f1", fusion="mean")).decide.rule
    'f1'
    """

    rule: Any = "guarded"
    probabilities: bool = True
    fusion: str = "evidence"
    disjoint: bool = False

    _stored: ClassVar[Mapping[str, Any]] = {
        "rule": OneOf({"name": Text(RULES), "number": Number(), "labels": MapOf(Number())}),
        "probabilities": Flag(),
        "fusion": Text(FUSIONS),
        "disjoint": Flag(),
    }

    @classmethod
    def of(cls, decide: Any, label_names: list[str] | None = None) -> "Decisions":
        """The value of the parameter ``decide``, checked; a fixed rule by itself learns nothing.

        Parameters
        ----------
        decide : str, float, mapping of label to float, or Decisions
            As models take it.
        label_names : list of str, optional
            The labels that a mapping may name.

        Returns
        -------
        Decisions
            The object itself, or one with this rule.

        Examples
        --------
        >>> from naim3l import Decisions
        >>> Decisions.of("sign").probabilities
        False
        """
        found = decide
        if not isinstance(decide, Decisions):
            found = cls(decide, probabilities=isinstance(decide, str) and decide in LEARNED)
        _check_rule(found.rule, label_names)
        if found.fusion not in FUSIONS:
            raise ValueError(f"decide: fusion must be one of {FUSIONS}, got {found.fusion!r}.")
        for name in ("probabilities", "disjoint"):
            if not isinstance(getattr(found, name), bool | np.bool_):
                value = getattr(found, name)
                raise ValueError(f"decide: {name} must be a bool, got {value!r}.")
        return found

    @property
    def _learned_rule(self) -> bool:
        """Whether thresholds are learned."""
        return isinstance(self.rule, str) and self.rule in LEARNED

    @property
    def _learn(self) -> bool:
        """Whether held-out scores are needed."""
        return self._learned_rule or self.probabilities


def _check_rule(rule: Any, label_names: list[str] | None) -> None:
    if isinstance(rule, Mapping):
        for label, value in rule.items():
            if not _is_number(value):
                raise ValueError(f"decide[{label!r}] must be a finite number, got {value!r}.")
        unknown = [label for label in rule if label not in (label_names or rule)]
        if unknown:
            raise ValueError(f"decide: no labels {unknown}; the data have {label_names}.")
    elif not _is_number(rule) and not (isinstance(rule, str) and rule in RULES):
        raise ValueError(
            f"decide must be one of {list(RULES)}, a finite number, a mapping {{label: number}}, "
            f"or Decisions(...), got {rule!r}."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def fixed_thresholds(rule: Any, label_names: list[str]) -> Matrix:
    """Thresholds (n_labels,) that need no learning; labels that are not in a mapping have 0."""
    if isinstance(rule, Mapping):
        return np.array([float(rule.get(name, 0.0)) for name in label_names])
    return np.full(len(label_names), 0.0 if isinstance(rule, str) else float(rule))


def fit_cuts(log_odds: Matrix, truth: Matrix, rule: str) -> Matrix:
    """Log-odds (n_labels,) above which labels are predicted.

    Parameters
    ----------
    log_odds : ndarray of shape (n_rows, n_labels)
        Calibrated log-odds of held-out entries; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rule : str
        One of those of `naim3l.Decisions` that are learned.

    Returns
    -------
    ndarray of shape (n_labels,)
        Cuts.
    """
    known = np.isfinite(log_odds) & np.isfinite(truth)
    return LEARNED[rule](log_odds, known & (truth == 1), known)


def _best_f1(scores: Matrix, yes: Mask) -> float:
    """Cut with the highest F1; 0 without a positive."""
    if not yes.any():
        return 0.0
    ranked, _, f1, possible = _cuts(scores, yes)
    return _below(ranked, int(np.argmax(np.where(possible, f1, -1))))


def _cuts(scores: Matrix, yes: Mask) -> tuple[Matrix, Matrix, Matrix, Mask]:
    """Descending scores (n,), and of the first 0, 1, ..., n of them: hits, F1, no tie is split."""
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.append(0, np.cumsum(yes[order]))
    f1 = 2 * hits / np.maximum(np.arange(len(hits)) + hits[-1], 1)
    return ranked, hits, f1, np.concatenate([[True], ranked[1:] < ranked[:-1], [True]])


def _below(ranked: Matrix, n_called: int) -> float:
    """Threshold below the first of descending scores, midway to the next smaller one."""
    if not n_called:
        return float(ranked[0] + 1.0)
    last = ranked[n_called - 1]
    smaller = ranked[ranked < last]
    return float((last + smaller[0]) / 2) if len(smaller) else float(last - 1.0)
