"""Cuts, probabilities and fusion, all learned from the same held-out entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from naim3l._arrays import Mask, Matrix
from naim3l._threads import blas_threads, thread_map
from naim3l.decisions.borrowing import (
    AbsentLabel,
    Borrowing,
    LabelTable,
    Simulation,
    absent_labels,
    learn_borrowing,
)
from naim3l.decisions.bridge import Bridge, learn_bridge
from naim3l.decisions.calibration import Calibration, HeldOutScores, fit_calibrations
from naim3l.decisions.fusion import (
    AUTO,
    USUAL_OVERLAP,
    Evidence,
    add_evidence,
    calibrated,
    fuse_arrays,
    fuse_views,
    learn_overlap,
    overlap_of,
)
from naim3l.decisions.rules import LEARNED, RULES, SIGN, Decisions, fit_cuts, fixed_thresholds
from naim3l.files.stored import Array, MapOf, Maybe, Nested, Number
from naim3l.input.views import FUSED
from naim3l.problem.rows import Problem

N_FOLDS = 5
# Samples of each label that are put together from entries of several tables, rows of each table on
# which a rule is measured; and a seed.
MOST_SIMULATED, SEED = 5000, 0

# By view, the part of scores, (n_rows, n_labels), that is due to columns which several views have,
# and its share of their variance, (n_labels,).
SharedParts = Mapping[str, tuple[Matrix, Matrix]]
Thresholds = dict[str, Matrix]  # (n_labels,) by view; for a wide table under ``FUSED``


@dataclass(frozen=True)
class Price:
    """What a rule reaches on held-out entries: shares of right decisions, and micro-F1."""

    accuracy: Annotated[float, Number(0, 1)]
    guessing: Annotated[float, Number(0, 1)]  # share of each label's more frequent value
    f1: Annotated[float, Number(0, 1)]


@dataclass
class LearnedDecisions:
    """Thresholds, calibrations and fusion of a model."""

    # Scores above which labels are predicted; and those for every learned rule, if any.
    thresholds: Annotated[Thresholds, MapOf(Array("f", "labels"))]
    rules: Annotated[dict[str, Thresholds], MapOf(MapOf(Array("f", "labels")))] = field(
        default_factory=dict
    )
    # With the same keys as thresholds, if probabilities are learned.
    calibrations: Annotated[dict[str, Calibration], MapOf(Nested(Calibration))] = field(
        default_factory=dict
    )
    # How the views of a wide table are fused; None is the mean of scores.
    evidence: Annotated[Evidence | None, Maybe(Nested(Evidence))] = None
    # For separate tables, fused log-odds above which labels are predicted, by learned rule.
    fused_cuts: Annotated[dict[str, Matrix], MapOf(Array("f", "labels"))] = field(
        default_factory=dict
    )
    # Overlap of the views of separate tables, once it was learned from rows in several of them.
    overlap: Annotated[float | None, Maybe(Number(0, 1))] = None
    # What every learned rule reaches.
    prices: Annotated[dict[str, Price], MapOf(Nested(Price))] = field(default_factory=dict)
    # What the known labels of a row say about its unknown ones.
    bridge: Annotated[Bridge | None, Maybe(Nested(Bridge))] = None
    # How labels that a table never records are predicted there, by view; and what that reaches for
    # labels that are recorded, as if they were not.
    borrowing: Annotated[dict[str, Borrowing], MapOf(Nested(Borrowing))] = field(
        default_factory=dict
    )
    simulation: Annotated[Simulation | None, Maybe(Nested(Simulation))] = None

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

    def borrow(self, scores: dict[str, Matrix]) -> dict[str, Matrix]:
        """Scores by view, in which those of labels that the view never records are borrowed."""
        return {
            view: self.borrowing[view].apply(S, self.calibrations[view])
            if view in self.borrowing
            else S
            for view, S in scores.items()
        }

    def absent_labels(self, views: Sequence[str], labels: Sequence[str]) -> list[AbsentLabel]:
        """Labels that views never record, and where their probabilities come from."""
        obstacle = "" if self.simulation is None else self.simulation.obstacle
        return absent_labels(self.borrowing, obstacle, views, labels)

    def fuse_separate(
        self,
        scores: Mapping[str, Matrix],
        rule: Any,
        overlap: Any,
        shared: SharedParts | None = None,
    ) -> "Predictions":
        """Predictions of samples from scores of separate tables, (n_samples, n_labels) each.

        With probabilities, evidence is added up, scores are the log-odds of that, and learned rules
        decide on them. A sample with one view is decided on as in that view; for rules that are not
        learned, the cut is the mean of those of the views. Without probabilities, scores and
        margins above thresholds are means over the views.

        Columns that several views have say the same in each of them, so that the evidence from
        the ``shared`` parts of scores is not added up: its mean over the views counts once.
        """
        at = self.thresholds_of(rule if isinstance(rule, str) else None)
        stacked = np.stack(list(scores.values()))
        alone = fuse_arrays(stacked - np.stack([at[view] for view in scores])[:, None])
        if not self.calibrations:
            return Predictions(fuse_arrays(stacked), alone)
        curves = [self.calibrations[view] for view in scores]
        log_odds, base = calibrated(curves, stacked), np.stack([curve.base for curve in curves])
        several = (~np.isnan(log_odds)).sum(axis=0) > 1
        log_odds[~heard(curves, ~np.isnan(log_odds))] = np.nan
        common = np.stack(self._common(scores, shared or {}))
        common[np.isnan(log_odds)] = np.nan
        log_odds -= common
        if overlap == AUTO and self.overlap is None:
            self.overlap = learn_overlap(log_odds, base)
        if overlap == AUTO:
            overlap = USUAL_OVERLAP if self.overlap is None else self.overlap
        overlap = overlap_of(log_odds, base, overlap)
        fused = add_evidence(log_odds, base, overlap) + fuse_arrays(common)
        of_views = [curve.log_odds_at(at[view]) for view, curve in zip(scores, curves, strict=True)]
        missing = np.isnan(log_odds)
        cuts = fuse_arrays(np.where(missing, np.nan, np.stack(of_views)[:, None]))
        if isinstance(rule, str) and rule in self.fused_cuts:
            cuts = np.where((~missing).sum(axis=0) > 1, self.fused_cuts[rule], cuts)
        # Log-odds of a label whose scores are all equal do not tell on which side of them a cut is.
        return Predictions(fused, np.where(several, fused - cuts, alone), expit(fused))

    def _common(self, scores: Mapping[str, Matrix], shared: SharedParts) -> list[Matrix]:
        """Evidence from shared columns, (n_rows, n_labels) for each view."""
        found = []
        for view, S in scores.items():
            common: Matrix = np.zeros(S.shape)
            if view in shared:
                part, share = shared[view]
                common = self.calibrations[view].evidence_of(part, S, share)
            if view in self.borrowing:  # these labels have no scores of their own
                common[:, self.borrowing[view].absent] = 0.0
            found.append(common)
        return found


def heard(curves: Sequence[Calibration], present: Mask) -> Mask:
    """Which views have a part in fused labels, (n_views, n_samples, n_labels) as ``present``.

    A view whose scores of a label are all equal says nothing about it beside one that does.
    """
    silent = np.stack([curve.slope == 0 for curve in curves])[:, None] & present
    return present & ~(silent & (present & ~silent).any(axis=0))


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

    def take(self, rows: Any) -> "Predictions":
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
    rules: Decisions,
    start: LearnedDecisions,
    problem: Problem,
    scores: Matrix,
    final: Matrix,
    *,
    borrow: bool = True,
    shared: SharedParts | None = None,
) -> LearnedDecisions:
    """Decisions as the rules require, learned from scores of entries by fits without them.

    ``start`` is a result of `fixed_decisions`, ``scores`` (n_rows, n_labels) one of `Folds.scores`,
    and ``final`` are scores of all rows by the final fit. With ``borrow``, labels that a table
    never records are predicted there through others. ``shared`` are parts of the rows' scores, as
    for `LearnedDecisions.fuse_separate`.
    """
    decisions, log_odds, truths, cuts = learn_rules(rules, start, problem, scores, final)
    for rule in cuts:
        decisions.prices[rule] = _price(log_odds, truths, rule)
    if len(truths) > 1:
        rates = logit(problem.table_rates)
        simulated, labels = simulate_samples(list(log_odds.values()), list(truths.values()))
        common: Matrix = np.zeros(simulated.shape)
        if shared and decisions.calibrations:
            # NaN where log-odds are, so that the same entries are drawn.
            by_view = scores_by_block(problem, scores, None, list(truths))
            evidence = decisions._common(by_view, shared)
            evidence_of = [
                np.where(np.isnan(S), np.nan, of)
                for S, of in zip(by_view.values(), evidence, strict=True)
            ]
            common = simulate_samples(evidence_of, list(truths.values()))[0]
        # Drawn independently, so without overlap; only shared columns are those of one entry.
        fused = add_evidence(simulated - common, rates) + _of_one(common)
        found = thread_map(lambda rule: fit_cuts(fused, labels, rule), LEARNED, blas_threads())
        decisions.fused_cuts = dict(zip(LEARNED, found, strict=True))
    if rules.probabilities:
        pairs = [(log_odds[name], truths[name]) for name in truths]
        decisions.bridge = learn_bridge(
            pairs, disjoint=rules.disjoint, groups=problem.groups_of_blocks
        )
        if borrow and len(truths) > 1 and (problem.label_counts[1] == 0).any():
            _learn_borrowing(decisions, problem, log_odds, truths, final, cuts)
    return decisions


def _learn_borrowing(
    decisions: LearnedDecisions,
    problem: Problem,
    log_odds: Thresholds,
    truths: Thresholds,
    final: Matrix,
    cuts: dict[str, Thresholds],
) -> None:
    """Replace curves and thresholds of labels that a table never records."""
    tables = [
        LabelTable(log_odds[name], truths[name], base, n_known > 0)
        for name, base, n_known in zip(
            truths, logit(problem.table_rates), problem.label_counts[1], strict=True
        )
    ]
    decisions.simulation, borrowed = learn_borrowing(tables)
    for name, rows, borrowing in zip(truths, problem.row_slices, borrowed, strict=True):
        if borrowing is None:
            continue
        curve = borrowing.calibrate(decisions.calibrations[name], final[rows])
        decisions.borrowing[name], decisions.calibrations[name] = borrowing, curve
        for rule, thresholds in decisions.rules.items():
            at = curve.scores_at(cuts[rule][name])
            # In place, as the thresholds of the rule of the fit are these.
            thresholds[name][borrowing.absent] = at[borrowing.absent]


def learn_rules(
    rules: Decisions, start: LearnedDecisions, problem: Problem, scores: Matrix, final: Matrix
) -> tuple[LearnedDecisions, Thresholds, Thresholds, dict[str, Thresholds]]:
    """Calibrations and thresholds; held-out log-odds and labels by block, and cuts by rule."""
    # What is learned is put into containers of its own: several fits have the same start.
    decisions = replace(start, rules={}, fused_cuts={}, prices={}, borrowing={})
    names = list(start.thresholds)
    truth = problem.truth_of(problem.Y != 0)
    if problem.samples is not None and problem.n_views > 1 and rules.fusion == "evidence":
        decisions.evidence = _learn_evidence(problem, truth, scores, final)
    parts = [scores_by_block(problem, of, decisions.evidence, names) for of in (scores, final)]
    truths = scores_by_block(problem, truth, None, names)
    tables = [HeldOutScores(parts[0][name], truths[name], parts[1][name]) for name in names]
    curves = dict(zip(names, fit_calibrations(tables, problem.table_rates), strict=True))
    log_odds = {name: curves[name].log_odds(parts[0][name]) for name in names}
    places = list(product(LEARNED, names))
    fit = lambda at: fit_cuts(log_odds[at[1]], truths[at[1]], at[0])  # noqa: E731
    cuts: dict[str, Thresholds] = {rule: {} for rule in LEARNED}
    for (rule, name), of in zip(places, thread_map(fit, places, blas_threads()), strict=True):
        cuts[rule][name] = of
    for rule, of_rule in cuts.items():
        decisions.rules[rule] = {name: curves[name].scores_at(of_rule[name]) for name in names}
    if rules._learned_rule:
        decisions.thresholds = decisions.rules[rules.rule]
    if rules.probabilities:
        decisions.calibrations = curves
    return decisions, log_odds, truths, cuts


def _learn_evidence(problem: Problem, truth: Matrix, scores: Matrix, final: Matrix) -> Evidence:
    """How the views of a wide table are fused."""
    by_view = [problem.by_view_and_sample(of) for of in (scores, truth, final)]
    tables = [HeldOutScores(*of_view) for of_view in zip(*by_view, strict=True)]
    rates = np.repeat(problem.table_rates, len(tables), axis=0)
    return Evidence.of(fit_calibrations(tables, rates), by_view[0])


def simulate_samples(log_odds: Sequence[Matrix], truths: Sequence[Matrix]) -> tuple[Matrix, Matrix]:
    """Samples in all of several separate tables, made of entries with the same known label.

    For each label, entries of every table are drawn at random from those that are yes, and from
    those that are no, as often as they are in all tables: samples as they would be if tables were
    independent given the label. Tables in which only one value is known have no part in it.

    Given are calibrated log-odds of held-out entries, and labels, (n_rows, n_labels) of each table;
    returned are (n_tables, n_samples, n_labels) log-odds, and (n_samples, n_labels) labels. Labels
    may have different numbers of samples; the others are NaN.
    """
    rng, columns = np.random.default_rng(SEED), []
    for k in range(truths[0].shape[1]):
        pools = []
        for L, Y in zip(log_odds, truths, strict=True):
            seen = np.isfinite(L[:, k])
            pools.append([L[seen & (Y[:, k] == value), k] for value in (1, 0)])
        sizes = np.array([[len(pool) for pool in of_table] for of_table in pools])
        n = min(int(sizes.sum(axis=1).max()), MOST_SIMULATED)
        n_yes = round(n * sizes[:, 0].sum() / max(sizes.sum(), 1))
        column = np.full((len(pools), n), np.nan)
        for v in np.flatnonzero(sizes.min(axis=1) > 0):
            column[v, :n_yes] = rng.choice(pools[v][0], n_yes)
            column[v, n_yes:] = rng.choice(pools[v][1], n - n_yes)
        columns.append((column, n_yes))
    n_samples = max(column.shape[1] for column, _ in columns)
    found = np.full((len(truths), n_samples, len(columns)), np.nan)
    truth = np.full(found.shape[1:], np.nan)
    for k, (column, n_yes) in enumerate(columns):
        n = column.shape[1]
        found[:, :n, k], truth[:n, k] = column, np.arange(n) < n_yes
    return found, truth


def _of_one(values: Matrix) -> Matrix:
    """Values (n_samples, n_labels) of one of the tables, (n_tables, ...), for each sample in turn.

    Where that one has none, their mean.
    """
    turn = np.arange(values.shape[1]) % len(values)
    one = values[turn, np.arange(values.shape[1])]
    return np.where(np.isnan(one), fuse_arrays(values), one)


def _price(log_odds: Thresholds, truths: Thresholds, rule: str) -> Price:
    """What a rule reaches on held-out entries of all tables, whose cuts come from other rows."""

    def count(name: str) -> list[int]:
        L, Y = log_odds[name], truths[name]
        rows = np.flatnonzero((np.isfinite(L) & np.isfinite(Y)).any(axis=1))
        rows = rows[:: max(1, -(-len(rows) // MOST_SIMULATED))]
        L, Y = L[rows], Y[rows]
        known, predicted = np.isfinite(L) & np.isfinite(Y), np.zeros(L.shape, dtype=bool)
        for fold in range(N_FOLDS if len(rows) else 0):
            here = np.arange(len(rows)) % N_FOLDS == fold
            predicted[here] = L[here] > fit_cuts(L[~here], Y[~here], rule)
        positive, predicted = known & (Y == 1), known & predicted
        of_label, n_known = positive.sum(axis=0), known.sum(axis=0)
        guessed = np.maximum(of_label, n_known - of_label)
        counted = known & (predicted == positive), guessed, positive & predicted, predicted
        return [int(part.sum()) for part in (*counted, of_label, n_known)]

    counts = np.sum(thread_map(count, truths, blas_threads()), axis=0).tolist()
    right, guessed, found, called, yes, n = counts
    return Price(right / max(n, 1), guessed / max(n, 1), 2 * found / max(yes + called, 1))


def held_out_predictions(
    rules: Decisions,
    start: LearnedDecisions,
    problem: Problem,
    held_out: tuple[Matrix, Matrix],
    fold_of: NDArray[np.intp],
) -> dict[str, Predictions]:
    """Predictions of held-out entries, by view, or of the samples of a wide table.

    Whatever decides on the entries of a fold is learned from the other folds. Parameters are those
    of `learn_decisions`, of which ``held_out`` are the scores, and the final ones; and the result
    of `hold_out_folds`.
    """
    (scores, final), names = held_out, list(start.thresholds)
    found = dict[str, Predictions]()
    for fold in range(max(fold_of.max(), 0) + 1):  # without entries, all are NaN
        here = fold_of == fold
        others = np.where(here, np.nan, scores)
        decisions, *_ = learn_rules(rules, start, problem, others, final)
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
