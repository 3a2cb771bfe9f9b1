"""Thresholds, probabilities and view weights, all learned from the same held-out entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix
from naim3l._threads import thread_map
from naim3l.decisions.calibration import Calibration, fit_calibration
from naim3l.decisions.fusion import Evidence, fuse_views
from naim3l.decisions.rules import LEARNED, RULES, SIGN, Decisions, fit_thresholds, fixed_thresholds
from naim3l.files.stored import Array, MapOf, Maybe, Nested
from naim3l.input.views import FUSED
from naim3l.problem.rows import Problem

N_FOLDS = 3

Thresholds = dict[str, Matrix]  # (n_labels,) by view; for a wide table under ``FUSED``


@dataclass
class LearnedDecisions:
    """Thresholds, calibrations and view weights of a model."""

    thresholds: Thresholds
    rules: dict[str, Thresholds] = field(default_factory=dict)  # of every learned rule, if any
    calibrations: dict[str, Calibration] = field(default_factory=dict)  # if any, with the same keys
    evidence: Evidence | None = None  # how the views of a wide table are fused; None is the mean

    _stored: ClassVar[Mapping[str, Any]] = {
        "thresholds": MapOf(Array("f", "labels")),
        "rules": MapOf(MapOf(Array("f", "labels"))),
        "calibrations": MapOf(Nested(Calibration)),
        "evidence": Maybe(Nested(Evidence)),
    }

    def thresholds_of(self, rule: str | None) -> Thresholds:
        """Thresholds of a rule that is chosen after the fit; None is the rule of the fit."""
        if rule is None:
            return self.thresholds
        if not isinstance(rule, str) or rule not in RULES:
            raise ValueError(f"decide must be one of {list(RULES)}, got {rule!r}.")
        if rule == SIGN:
            return {block: np.zeros_like(values) for block, values in self.thresholds.items()}
        if rule not in self.rules:
            raise ValueError(
                f"decide={rule!r} needs scores of held-out entries: fit the model with "
                f"decide={rule!r}, or another learned rule."
            )
        return self.rules[rule]


@dataclass(frozen=True)
class Predictions:
    """Scores, decisions and probabilities of a method for rows, (n_rows, n_labels) each."""

    scores: Matrix
    margins: Matrix  # of the scores above the thresholds: positive where the label is predicted
    probabilities: Matrix | None = None

    @classmethod
    def of(cls, scores: Matrix, thresholds: Matrix, curve: Calibration | None) -> "Predictions":
        """Predictions by thresholds (n_labels,), with the probabilities of a curve."""
        probabilities = None if curve is None else curve.probabilities(scores)
        return cls(scores, scores - thresholds, probabilities)

    def take(self, rows: Mask) -> "Predictions":
        """Predictions for some of the rows."""
        parts: Any = [None if part is None else part[rows] for part in vars(self).values()]
        return Predictions(*parts)

    def fill(self, other: "Predictions") -> "Predictions":
        """These predictions, and those of another for the entries that these lack (NaN)."""
        pairs: Any = zip(vars(self).values(), vars(other).values(), strict=True)
        parts: Any = (None if A is None else np.where(np.isnan(A), B, A) for A, B in pairs)
        return Predictions(*parts)


def fixed_decisions(rules: Decisions, blocks: list[str], labels: list[str]) -> LearnedDecisions:
    """Decisions that need no held-out entries; thresholds that are to be learned are 0."""
    return LearnedDecisions({block: fixed_thresholds(rules.rule, labels) for block in blocks})


def learn_decisions(
    rules: Decisions, start: LearnedDecisions, problem: Problem, scores: Matrix
) -> LearnedDecisions:
    """Decisions as the rules require, learned from scores of entries by fits without them.

    ``start`` is a result of `fixed_decisions`, ``scores`` (n_rows, n_labels) one of `Folds.scores`.
    """
    decisions = replace(start)
    rates, names = problem.base_rates, list(start.thresholds)
    truths = scores_by_block(problem, problem.truth_of(problem.Y != 0), None, names)
    if problem.samples is not None and rules.fusion != "mean":
        by_view, learned = problem.by_view_and_sample(scores), rules.fusion == "learned"
        decisions.evidence = Evidence.fit(by_view, truths[FUSED], rates, learned=learned)
    found = scores_by_block(problem, scores, decisions.evidence, names)

    def learn(name: str) -> tuple[Calibration, dict[str, Matrix]]:
        entries = found[name], truths[name]
        curves = fit_calibration(*entries, rates)
        return curves, {rule: fit_thresholds(*entries, rule, curves) for rule in LEARNED}

    of_blocks = thread_map(learn, names, min(problem.n_threads, len(names)))
    blocks = dict(zip(names, of_blocks, strict=True))
    decisions.rules = {rule: {name: of[1][rule] for name, of in blocks.items()} for rule in LEARNED}
    if rules._learned_rule:
        decisions.thresholds = decisions.rules[rules.rule]
    if rules.probabilities:
        decisions.calibrations = {name: curves for name, (curves, _) in blocks.items()}
    return decisions


def held_out_predictions(
    rules: Decisions,
    start: LearnedDecisions,
    problem: Problem,
    scores: Matrix,
    fold_of: NDArray[np.intp],
) -> dict[str, Predictions]:
    """Predictions of held-out entries, by view, or of the samples of a wide table.

    Whatever decides on the entries of a fold is learned from the other folds. Parameters are those
    of `learn_decisions`, and the result of `hold_out_folds`.
    """
    names, found = list(start.thresholds), dict[str, Predictions]()
    for fold in range(max(fold_of.max(), 0) + 1):  # without entries, all are NaN
        here = fold_of == fold
        decisions = learn_decisions(rules, start, problem, np.where(here, np.nan, scores))
        own = scores_by_block(problem, np.where(here, scores, np.nan), decisions.evidence, names)
        for name, S in own.items():
            curve = decisions.calibrations.get(name)
            of_fold = Predictions.of(S, decisions.thresholds[name], curve)
            found[name] = of_fold.fill(found[name]) if name in found else of_fold
    return found


def scores_by_block(
    problem: Problem, scores: Matrix, evidence: Evidence | None, names: Sequence[str]
) -> dict[str, Matrix]:
    """Scores of stacked rows by view, or of the samples of a wide table, fused."""
    if problem.samples is not None:
        return {FUSED: fuse_views(problem.by_view_and_sample(scores), evidence)}
    return {name: scores[rows] for name, rows in zip(names, problem.row_slices, strict=True)}
