"""Thresholds, probabilities and view weights, learned together.

All three are learned from scores of entries that are held out in turn, so that one set of
additional fits is enough for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l._parameters import check_choice
from naim3l._threads import thread_map
from naim3l.decisions.calibration import Calibration, fit_calibration
from naim3l.decisions.contenders import Answers
from naim3l.decisions.fusion import FUSIONS, Evidence, fuse_arrays
from naim3l.decisions.thresholds import (
    LEARNED,
    RULES,
    SIGN,
    check_rule,
    fit_thresholds,
    fixed_thresholds,
)
from naim3l.files.stored import Array, Flag, MapOf, Maybe, Nested, Number, OneOf, Text
from naim3l.input.views import FUSED
from naim3l.problem.rows import Problem

N_FOLDS = 3

Thresholds = dict[str, Matrix]  # by block: a view, or all views of one wide table
Rulebook = dict[str, Thresholds]


@dataclass(frozen=True)
class Decisions:
    """How scores become answers: labels, probabilities, and one score from several views.

    Parameters
    ----------
    rule : {"sign", "guarded", "cardinality", "f1", "half"}, float, or mapping of label to float, \
default="guarded"
        When a label is predicted. "sign" is a score above 0, the paper's rule, which predicts rare
        labels almost never; a number is another threshold of the score. The other rules are
        learned from entries that are held out of additional coarse fits: "f1" maximises the F1 of
        each label in each view; "cardinality" is one threshold per view, at which as many labels
        are predicted as are positive; "half" is a probability of one half; "guarded" maximises the
        F1 over all entries without making decisions less accurate than each label's more frequent
        value.
    probabilities : bool, default=True
        Whether `predict_proba` is available: a calibration curve per label is learned from the
        same held-out entries, shrunk towards a common one if few of its entries are known.
    fusion : {"mean", "evidence", "learned"}, default="mean"
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
        check_choice("decide: fusion", found.fusion, FUSIONS)
        check_choice("decide: probabilities", found.probabilities, (True, False))
        return found

    @property
    def learned_rule(self) -> bool:
        """Whether thresholds are learned."""
        return isinstance(self.rule, str) and self.rule in LEARNED

    def learn(self, wide: bool) -> bool:
        """Whether held-out scores are needed."""
        return self.learned_rule or self.probabilities or (wide and self.fusion != "mean")


@dataclass
class LearnedDecisions:
    """Thresholds, calibrations and view weights of a model.

    Attributes
    ----------
    thresholds : dict of str to ndarray of shape (n_labels,)
        Thresholds by view; for a wide table under the key ``FUSED``.
    rules : dict of str to dict of str to ndarray of shape (n_labels,)
        Thresholds of every learned rule; empty if nothing was learned.
    calibrations : dict of str to Calibration
        Calibrations with the same keys; empty without ``probabilities``.
    evidence : Evidence or None
        How the views of a wide table are fused; None is the mean of their scores.
    """

    thresholds: Thresholds
    rules: Rulebook = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    evidence: Evidence | None = None

    _stored: ClassVar[Mapping[str, Any]] = {
        "thresholds": MapOf(Array("f", "labels")),
        "rules": MapOf(MapOf(Array("f", "labels"))),
        "calibrations": MapOf(Nested(Calibration)),
        "evidence": Maybe(Nested(Evidence)),
    }


def fixed_decisions(
    rules: Decisions, blocks: Sequence[str], label_names: list[str]
) -> LearnedDecisions:
    """Decisions that need no held-out entries; thresholds that are to be learned are 0."""
    known = "sign" if isinstance(rules.rule, str) else rules.rule
    return LearnedDecisions({block: fixed_thresholds(known, label_names) for block in blocks})


def learn_decisions(
    rules: Decisions, start: LearnedDecisions, problem: Problem, scores: Matrix
) -> LearnedDecisions:
    """Decisions as the rules require, learned from scores of entries by fits without them.

    Parameters
    ----------
    rules : Decisions
    start : LearnedDecisions
        Result of `fixed_decisions`.
    problem : Problem
    scores : ndarray of shape (n_rows, n_labels)
        Result of `held_out_scores`; NaN elsewhere.
    """
    decisions = replace(start)
    rates, names = problem.base_rates, list(start.thresholds)
    truths = scores_by_block(problem, problem.truth_of(problem.Y != 0), None, names)
    if problem.samples is not None and rules.fusion != "mean":
        by_view = problem.by_view_and_sample(scores)
        learned = rules.fusion == "learned"
        decisions.evidence = _fit_evidence(by_view, truths[FUSED], rates, learned)
    found = scores_by_block(problem, scores, decisions.evidence, names)
    blocks = {name: (found[name], truths[name]) for name in names}

    def learn(name: str) -> tuple[Calibration, list[Matrix]]:
        curves = fit_calibration(*blocks[name], rates)
        return curves, [fit_thresholds(*blocks[name], rule, curves) for rule in LEARNED]

    of_blocks = thread_map(learn, names, min(problem.n_threads, len(names)))
    calibrations = {name: curves for name, (curves, _) in zip(names, of_blocks, strict=True)}
    decisions.rules = {
        rule: {name: of[1][i] for name, of in zip(names, of_blocks, strict=True)}
        for i, rule in enumerate(LEARNED)
    }
    if rules.learned_rule:
        decisions.thresholds = decisions.rules[rules.rule]
    if rules.probabilities:
        decisions.calibrations = calibrations
    return decisions


def held_out_answers(
    rules: Decisions,
    start: LearnedDecisions,
    problem: Problem,
    scores: Matrix,
    fold_of: NDArray[np.intp],
) -> dict[str, Answers]:
    """Answers about held-out entries, by view, or of the samples of a wide table.

    Whatever decides on the entries of a fold is learned from the other folds, so that rare labels
    are not decided on by thresholds that were chosen for the same entries.

    Parameters
    ----------
    rules, start, problem, scores
        As in `learn_decisions`.
    fold_of : ndarray of int, of shape (n_rows, n_labels)
        Result of `hold_out_folds`.
    """
    names, found = list(start.thresholds), dict[str, Answers]()
    for fold in range(max(fold_of.max(), 0) + 1):  # without entries, all answers are NaN
        here = fold_of == fold
        decisions = learn_decisions(rules, start, problem, np.where(here, np.nan, scores))
        own = scores_by_block(problem, np.where(here, scores, np.nan), decisions.evidence, names)
        for name, S in own.items():
            curve = decisions.calibrations.get(name)
            answers = Answers.decided(S, decisions.thresholds[name], curve)
            found[name] = answers.beside(found[name]) if name in found else answers
    return found


def scores_by_block(
    problem: Problem, scores: Matrix, evidence: Evidence | None, names: Sequence[str]
) -> dict[str, Matrix]:
    """Scores of stacked rows by view, or of the samples of a wide table, fused.

    Parameters
    ----------
    problem : Problem
    scores : ndarray of shape (n_rows, n_labels)
        Scores or labels, which are the same in all views of a sample; NaN where there are none.
    evidence : Evidence or None
        How the views of a sample are fused; None is the mean.
    names : sequence of str
        Names of the views, or ``FUSED`` alone.
    """
    if problem.samples is not None:
        return {FUSED: fuse_views(problem.by_view_and_sample(scores), evidence)}
    return {name: scores[rows] for name, rows in zip(names, problem.row_slices, strict=True)}


def thresholds_of(rule: str | None, thresholds: Thresholds, learned: Rulebook) -> Thresholds:
    """Thresholds of a rule that is chosen after the fit.

    Parameters
    ----------
    rule : one of `RULES`, or None
        None is the rule of the fit.
    thresholds : dict of str to ndarray of shape (n_labels,)
        Thresholds of the fit.
    learned : dict of str to dict of str to ndarray of shape (n_labels,)
        Thresholds of every learned rule; empty if nothing was learned.
    """
    if rule is None:
        return thresholds
    check_choice("decide", rule, RULES)
    if rule == SIGN:
        return {block: np.zeros_like(values) for block, values in thresholds.items()}
    if not learned:
        raise ValueError(
            f"decide={rule!r} needs scores of held-out entries: fit the model with "
            f"decide={rule!r}, or another learned rule."
        )
    return learned[rule]


def fuse_views(scores: Matrix, evidence: Evidence | None) -> NDArray[np.float64]:
    """Scores (n_samples, n_labels) of those by view, (n_views, n_samples, n_labels)."""
    return fuse_arrays(scores) if evidence is None else evidence.fuse(scores)


def _fit_evidence(scores: Matrix, truth: Matrix, rates: Matrix, learned: bool) -> Evidence:
    calibrations = [fit_calibration(S, truth, rates) for S in scores]
    evidence = Evidence.plain(calibrations)
    return evidence.learned(scores, truth) if learned else evidence
