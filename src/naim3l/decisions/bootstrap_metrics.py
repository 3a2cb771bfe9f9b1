"""Metrics of predictions with bootstrap intervals, beside those of simpler methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.metrics import average_precision_score

from naim3l._arrays import Matrix
from naim3l._threads import one_blas_thread
from naim3l.decisions.fusion import fuse_arrays
from naim3l.decisions.learning import Predictions
from naim3l.decisions.rates import count_at_cuts
from naim3l.metrics.measures import MEASURES, ScoredLabels, headline, label_mean

# Methods beside a model whose metrics have no intervals.
SIMPLER = ("guessing", "subspace", "boosting")
# In the order of tables about a model.
SHOWN = sorted((each for each in MEASURES.values() if each.place), key=lambda each: each.place)
MEAN = "mean over views"
N_RESAMPLES, SEED, LEVEL = 200, 0, 0.95
N_BINS = 10  # of probabilities
# Resamples per batch; their weights have the shape (this many, n_rows).
AT_ONCE = 25

# Verdicts on how rows are ranked for a label, by the interval of its AUC. They say nothing of yes
# and no, which are right less often than guessing for many a label that is ranked well.
WELL, SOMEWHAT = "ranked well", "ranked somewhat"
NO_BETTER, TOO_FEW = "ranked no better than guessing", "too few to tell"
VERDICTS = (WELL, SOMEWHAT, NO_BETTER, TOO_FEW)
# An AUC that is surely above the first ranks well; guessing has 0.5. An interval that reaches from
# guessing beyond the second is too wide to tell.
GOOD_AUC, WIDE_AUC = 0.6, 0.75
# With fewer yes or no, intervals are too narrow to be relied on.
ENOUGH_TO_JUDGE = 10
# Entries that are yes, no, predicted, and both predicted and yes; and right decisions.
COUNTS = ("yes", "no", "called", "found", "n_correct", "n_correct_guessing")


@dataclass(frozen=True)
class EvaluatedBlock:
    """Rows with known labels, and the predictions of a model and of simpler methods."""

    name: str  # that of the view, or "fused"
    kind: str  # "view" or "fused"
    truth: Matrix  # (n_rows, n_labels): 1, 0, NaN = unknown
    model: Predictions
    guessing: Predictions
    uncoupled: Predictions | None = None  # of the same model without coupling, if it was fitted
    subspace: Predictions | None = None  # of ridge regression in a label space, if it was measured
    boosting: Predictions | None = None  # of boosting per label and view, if it was measured
    apart: Predictions | None = None  # of the same model, without columns that views share
    decided: bool = True  # whether the model decides on these scores, not only on fused ones
    folds: Matrix | None = None  # fold of each entry, NaN = in none, if entries were held out
    leads: bool = False  # whether results begin with it: enough rows in several separate tables
    groups: NDArray[np.intp] | None = None  # number of the id of each row, if rows have ids

    @cached_property
    def parts(self) -> list[tuple[Any, Matrix]]:
        """Rows of each fold, and their known entries in it; or all rows."""
        every = slice(None), self.truth
        if self.folds is None:
            return [every]
        found = []
        for fold in np.unique(self.folds[np.isfinite(self.folds)]):
            here = self.folds == fold
            rows = np.flatnonzero(here.any(axis=1))
            found.append((rows, np.where(here[rows], self.truth[rows], np.nan)))
        return found or [every]


def guess(rates: Matrix, n_rows: int) -> Predictions:
    """Predictions by the shares of positives, (n_labels,), alone: the more frequent value."""
    scores = np.broadcast_to(rates, (n_rows, len(rates)))
    return Predictions(scores, scores - 0.5, scores)


@one_blas_thread  # products of thin matrices: threads would only wait
def evaluate_blocks(blocks: Sequence[EvaluatedBlock], label_names: Sequence[str]) -> dict[str, Any]:
    """Metrics of all blocks and labels, beside those of simpler methods.

    Metrics of held-out entries are means over the folds. Intervals come from the Bayesian
    bootstrap: 200 times, every row gets a random, exponentially distributed weight, and the
    interval contains the middle 95 % of the values. Weights are never zero, so the few positives of
    a rare label are never all left out. Rows of one id in a block have one weight; all others are
    assumed to be independent, without which intervals are too narrow. Methods are compared under
    the same weights. The interval of a gain also covers the choice of the rows that were trained
    on: it contains the mean of the K folds' gains with t (1 / K + 1 / (K - 1))^(1/2) standard
    deviations on both sides (Nadeau & Bengio, 2003).

    The results are "blocks", dicts of `_block_entry`, and first one of the mean over views if the
    model decides on several, unless another one leads; "labels", dicts of `_label_entry` for each
    label and block on which the model decides, and for that mean; and "calibration", dicts of
    `measure_calibration` for those of these blocks that have probabilities.
    """
    samples = [_Sample(block, number) for number, block in enumerate(blocks)]
    entries = [_block_entry(each.block.name, each.block.kind, [each]) for each in samples]
    decided = [sample for sample in samples if sample.block.decided]
    views = [i for i, sample in enumerate(decided) if sample.block.kind == "view"]
    if len(views) > 1:
        entries.insert(0, _block_entry(MEAN, "mean", [decided[i] for i in views]))
    leading = [block.name for block in blocks if block.leads]
    entries.sort(key=lambda entry: entry["name"] not in leading)  # the others keep their order
    labels = []
    for k, name in enumerate(label_names):
        parts = [
            (
                *_count(sample.block, k),
                fuse_arrays(sample.aucs[..., k, None])[:, 0],
                _cuts(sample, k),
            )
            for sample in decided
        ]
        if len(views) > 1:
            labels.append(_label_entry(name, MEAN, [parts[i] for i in views]))
        for sample, part in zip(decided, parts, strict=True):
            labels.append(_label_entry(name, sample.block.name, [part]))
    known = (each.block for each in decided if each.block.model.probabilities is not None)
    calibration = [measure_calibration(block) for block in known]
    return {"blocks": entries, "labels": labels, "calibration": calibration}


class _Sample:
    """Metrics of a block."""

    def __init__(self, block: EvaluatedBlock, number: int) -> None:
        self.block = block
        n_rows, rng = len(block.truth), np.random.default_rng((SEED, number))
        groups = np.arange(n_rows) if block.groups is None else block.groups
        different, of_row = np.unique(groups, return_inverse=True)
        size = AT_ONCE, len(different)
        batches = [rng.exponential(size=size)[:, of_row] for _ in range(N_RESAMPLES // AT_ONCE)]
        weights = [np.ones((1, n_rows)), *batches]
        # Of each fold, then of all entries and of resamples: (n_folds, 1 + n_resamples, ...).
        self.values, self.aucs = self._measure(block.model, weights)
        self.other, self.apart = (
            np.full_like(self.values, np.nan) if of is None else self._measure(of, weights)[0]
            for of in (block.uncoupled, block.apart)
        )
        given = {name: getattr(block, name) for name in SIMPLER}
        self.simpler = {
            name: self.values[:, :1] * np.nan if of is None else self._measure(of, weights[:1])[0]
            for name, of in given.items()
        }

    def _measure(self, predicted: Predictions, weights: Sequence[Matrix]) -> tuple[Matrix, Matrix]:
        """Metrics of each fold, and AUCs of the labels."""
        of_folds = [
            _resampled(truth, predicted.take(rows), [of[:, rows] for of in weights])
            for rows, truth in self.block.parts
        ]
        values, aucs = zip(*of_folds, strict=True)
        return np.stack(values), np.stack(aucs)


def _resampled(
    truth: Matrix, predicted: Predictions, batches: Sequence[Matrix]
) -> tuple[Matrix, Matrix]:
    """Metrics (n_draws, n_metrics), and AUCs of the labels, (n_draws, n_labels).

    Weights of the rows come in batches of shape (n_draws_of_batch, n_rows).
    """
    positive, negative = truth == 1, truth == 0
    scored = ScoredLabels(positive, negative, predicted.scores)
    decided = ScoredLabels(positive, negative, predicted.margins)
    values, aucs = [], []
    for weights in batches:
        by_label = scored.label_aucs(weights)
        aucs.append(by_label.T)
        columns = [
            label_mean(weights, by_label)  # which are not to be computed twice
            if measure.name == "macro-AUC"
            else measure.compute(decided if measure.of_decisions else scored, weights)
            for measure in SHOWN
        ]
        values.append(np.column_stack(columns))
    return np.concatenate(values), np.concatenate(aucs)


def _block_entry(name: str, kind: str, samples: Sequence[_Sample]) -> dict[str, Any]:
    """Metrics of a block, or means over the blocks in which a metric is defined.

    "headline" is the name of the metric of what the model is for. Each metric has "value", "low"
    and "high"; the values of simpler methods, "uncoupled" and those of `SIMPLER`; the "gain" over
    the uncoupled one with "value", "low" and "high", or None; and likewise "shared", the gain from
    columns that views share.
    """
    truths = [sample.block.truth for sample in samples]
    # Means over blocks for each fold, and then over folds.
    by_fold = [_over_blocks([getattr(sample, key) for sample in samples]) for key in _COUPLED]
    values, other, apart = (fuse_arrays(of) for of in by_fold)
    parts = {key: _over_blocks([sample.simpler[key] for sample in samples]) for key in SIMPLER}
    reached = {key: fuse_arrays(of)[0] for key, of in parts.items()}
    metrics: dict[str, dict[str, Any]] = {}
    for i, measure in enumerate(SHOWN):
        simpler: dict[str, Any] = {key: _or_none(of[i]) for key, of in reached.items()}
        simpler["uncoupled"] = _or_none(other[0, i])
        for key, without, of in (("gain", other, by_fold[1]), ("shared", apart, by_fold[2])):
            gains = by_fold[0][:, :, i] - of[:, :, i]
            simpler[key] = None if np.isnan(without[0, i]) else _gain(gains)
        metrics[measure.name] = _around(values[:, i]) | simpler
    n_entries = sum(int(np.isfinite(truth).sum()) for truth in truths)
    sizes = {"n_rows": sum(map(len, truths)), "n_entries": n_entries}
    head = headline(truths[0].shape[1])
    return {"name": name, "kind": kind, **sizes, "headline": head, "metrics": metrics}


_COUPLED = ("values", "other", "apart")  # whose differences have intervals


def _over_blocks(of_blocks: Sequence[Matrix]) -> Matrix:
    """Means over blocks, which may have different numbers of folds, (n_folds, n_draws, ...)."""
    most = max(map(len, of_blocks))
    pad = [[(0, most - len(of))] + [(0, 0)] * (of.ndim - 1) for of in of_blocks]
    padded = [
        np.pad(of, width, constant_values=np.nan) for of, width in zip(of_blocks, pad, strict=True)
    ]
    return fuse_arrays(np.stack(padded))


def _gain(of_folds: Matrix) -> dict[str, Any]:
    """Mean of the folds' gains, (n_folds, n_draws), and its interval."""
    found = _around(fuse_arrays(of_folds[:, :, None])[:, 0])
    if len(of_folds) == 1:
        return found
    gains = of_folds[np.isfinite(of_folds[:, 0]), 0]
    if len(gains) < 2:
        return found | {"low": float("nan"), "high": float("nan")}
    half = half_width(gains)
    # Five folds may agree by chance; then the resampled rows tell more.
    low, high = found["value"] - half, found["value"] + half
    return found | {"low": float(min(low, found["low"])), "high": float(max(high, found["high"]))}


def half_width(gains: Matrix) -> float:
    """Half of the interval of Nadeau and Bengio around the mean of the folds' gains, (n_folds,)."""
    n = len(gains)
    spread = np.sqrt((1 / n + 1 / (n - 1)) * gains.var(ddof=1))
    return float(t.ppf((1 + LEVEL) / 2, n - 1) * spread)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _around(values: Matrix) -> dict[str, Any]:
    """The value of all entries, and the interval of the resamples, which always contains it."""
    value, (low, high) = values[0], _interval(values[1:])
    return {"value": float(value), "low": float(min(low, value)), "high": float(max(high, value))}


def _interval(draws: Matrix) -> tuple[float, float]:
    # All or no draws of a metric are NaN: weights are positive, so what is defined stays so.
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def judge_auc(low: float, high: float, n_fewer: int) -> str:
    """Verdict on a label by the interval of its AUC, and the number of its rarer value."""
    if n_fewer < ENOUGH_TO_JUDGE or np.isnan(low):
        return TOO_FEW
    if low <= 0.5:
        return TOO_FEW if high > WIDE_AUC else NO_BETTER
    return WELL if low > GOOD_AUC else SOMEWHAT


def _count(block: EvaluatedBlock, k: int) -> tuple[list[int], float]:
    """Numbers of entries of a label, in the order of `COUNTS`, and its average precision."""
    known = np.isfinite(block.truth[:, k])
    truth, scores = block.truth[known, k] == 1, block.model.scores[known, k]
    called, guessed = block.model.margins[known, k] > 0, block.guessing.margins[known, k] > 0
    masks = (truth, ~truth, called, called & truth, called == truth, guessed == truth)
    both = 0 < truth.sum() < len(truth)
    precision = float(average_precision_score(truth, scores)) if both else float("nan")
    return [int(mask.sum()) for mask in masks], precision


def _cuts(sample: _Sample, k: int) -> Matrix:
    block = sample.block
    chances = block.model.probabilities
    return count_at_cuts(block.truth[:, k], None if chances is None else chances[:, k])


def _label_entry(
    label: str, block: str, parts: Sequence[tuple[list[int], float, Matrix, Matrix]]
) -> dict[str, Any]:
    """Metrics of a label in a block, or over several: sums of counts, means of the others.

    Parts are counts, average precision, the AUC of all entries followed by those of resamples, and
    counts at cuts. What is undefined is None.
    """
    counted, precisions, ranked, at_cuts = zip(*parts, strict=True)
    counts = dict(zip(COUNTS, map(sum, zip(*counted, strict=True)), strict=True))
    precision = fuse_arrays(np.array(precisions)[:, None]).item()
    aucs = fuse_arrays(np.array(ranked))
    n_known = counts["yes"] + counts["no"]
    # Rounding errors of weighted sums may exceed 1.
    low, high = (min(end, 1.0) if end == end else end for end in _interval(aucs[1:]))
    return {
        "label": label,
        "view": block,
        **counts,
        "accuracy": _ratio(counts["n_correct"], n_known),
        "accuracy_guessing": _ratio(counts["n_correct_guessing"], n_known),
        "auc": None if np.isnan(aucs[0]) else float(aucs[0]),
        "auc_low": low,
        "auc_high": high,
        "average_precision": None if np.isnan(precision) else precision,
        "f1": _ratio(2 * counts["found"], counts["yes"] + counts["called"]),
        "verdict": judge_auc(low, high, min(counts["yes"], counts["no"])),
        "cuts": sum(at_cuts).tolist(),  # called, and found, at each of `CUTS`
    }


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def measure_calibration(block: EvaluatedBlock) -> dict[str, Any]:
    """Mean probability and share of positives in ten bins, and their mean distance."""
    probabilities = block.model.probabilities
    assert probabilities is not None
    known = np.isfinite(block.truth) & np.isfinite(probabilities)
    p, yes = probabilities[known], block.truth[known]
    place = np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)
    n, of_p, of_yes = (np.bincount(place, of, minlength=N_BINS).tolist() for of in (None, p, yes))
    bins = [
        {"low": i / N_BINS, "high": (i + 1) / N_BINS, "n": n[i]}
        | {"probability": _ratio(of_p[i], n[i]), "share": _ratio(of_yes[i], n[i])}
        for i in range(N_BINS)
    ]
    excess = np.subtract(of_p, of_yes)  # of a bin: n (mean p - share)
    error = float(np.abs(excess).sum() / len(p)) if len(p) else float("nan")
    return {"name": block.name, "error": error, "n_entries": len(p), "bins": bins}
