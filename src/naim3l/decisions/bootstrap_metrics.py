"""Metrics of predictions with bootstrap intervals, beside those of simpler methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from naim3l._arrays import Matrix
from naim3l._threads import one_blas_thread
from naim3l.decisions.calibration import calibration_error
from naim3l.decisions.fusion import fuse_arrays
from naim3l.decisions.learning import Predictions
from naim3l.metrics.measures import MEASURES, ScoredLabels, label_mean

# In the order of tables about a model.
SHOWN = sorted((each for each in MEASURES.values() if each.place), key=lambda each: each.place)
MEAN = "mean over views"
N_RESAMPLES, SEED = 200, 0
LEVEL = 0.95
N_BINS = 10
# Resamples per batch; their weights have the shape (this many, n_rows).
AT_ONCE = 25

# Verdicts on a label, by the interval of its AUC.
WELL, SOMEWHAT = "well above guessing", "somewhat above guessing"
NO_BETTER, TOO_FEW = "no better than guessing", "too few to tell"
VERDICTS = (WELL, SOMEWHAT, NO_BETTER, TOO_FEW)
# An AUC that is surely above the first is well above guessing, which is 0.5. An interval that
# reaches from guessing beyond the second is too wide to tell.
GOOD_AUC, WIDE_AUC = 0.6, 0.75
# With fewer yes or no, intervals are too narrow to be relied on.
ENOUGH_TO_JUDGE = 10


@dataclass(frozen=True)
class EvaluatedBlock:
    """Rows with known labels, and the predictions of a model and of simpler methods.

    Attributes
    ----------
    name : str
        Name of the view, or "fused".
    kind : {"view", "fused"}
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    model, guessing : Predictions
    uncoupled : Predictions or None
        Of the same model without a coupling of the views; None if it was not fitted.
    decided : bool
        Whether the model decides on these scores. It does not on those of single views if its
        decisions are based on fused scores.
    """

    name: str
    kind: str
    truth: Matrix
    model: Predictions
    guessing: Predictions
    uncoupled: Predictions | None = None
    decided: bool = True


def guess(rates: Matrix, n_rows: int) -> Predictions:
    """Predictions by the shares of positives, (n_labels,), alone: the more frequent value."""
    scores = np.broadcast_to(rates, (n_rows, len(rates)))
    return Predictions(scores, scores - 0.5, scores)


@one_blas_thread  # products of thin matrices: threads would only wait
def evaluate_blocks(blocks: Sequence[EvaluatedBlock], label_names: Sequence[str]) -> dict[str, Any]:
    """Metrics of all blocks and labels, beside those of simpler methods.

    Intervals come from the Bayesian bootstrap: 200 times, every row gets a random, exponentially
    distributed weight, and the interval contains the middle 95 % of the values. Weights are never
    zero, so the few positives of a rare label are never all left out. Methods are compared under
    the same weights. Rows are assumed to be independent; where they are not, intervals are too
    narrow.

    Returns
    -------
    dict
        - "blocks": a dict for each block, and first for the mean over views if the model decides
          on several: "name", "kind" ("view", "fused" or "mean"), "n_rows", "n_entries", and
          "metrics": by name "value", "low" and "high"; "guessing" and "uncoupled", the values of
          simpler methods; "gain" over the latter with "value", "low" and "high". "uncoupled" and
          "gain" are None if there is no such method.
        - "labels": a dict for each label and block on which the model decides, and first for the
          mean over views, if there is one: "label", "view" (name of the block), numbers of known
          entries, "yes" and "no", of those that the model predicts, "called", and of those
          of them that are yes, "found"; "accuracy" and "accuracy_guessing", the shares of correct
          decisions of the model and of the more frequent value; "auc" with "auc_low" and
          "auc_high", "average_precision" and "f1", None where they are undefined; and a "verdict".
        - "calibration": see `measure_calibration`, for each of these blocks with probabilities.
    """
    samples = [_Sample(block, number) for number, block in enumerate(blocks)]
    entries = [sample.entry() for sample in samples]
    decided = [sample for sample in samples if sample.block.decided]
    views = [sample for sample in decided if sample.block.kind == "view"]
    if len(views) > 1:
        entries.insert(0, _mean_entry(views))
    labels = []
    for k, name in enumerate(label_names):
        of_label = [_label_entry(sample, k, name) for sample in decided]
        if len(views) > 1:
            labels.append(_mean_label(views, of_label, k))
        labels += of_label
    return {
        "blocks": entries,
        "labels": labels,
        "calibration": [
            measure_calibration(sample.block)
            for sample in decided
            if sample.block.model.probabilities is not None
        ],
    }


class _Sample:
    """Metrics of a block, of all entries and of resamples.

    Attributes
    ----------
    point, draws : ndarrays of shape (n_metrics,) and (n_resamples, n_metrics)
        Of the model.
    guessed : ndarray of shape (n_metrics,)
    other, other_draws : ndarrays of the shapes of the model's
        Of the model without coupling; NaN if there is none.
    aucs : ndarray of shape (1 + n_resamples, n_labels)
        AUC of each label, of the model; first that of all entries.
    """

    def __init__(self, block: EvaluatedBlock, number: int) -> None:
        self.block = block
        n_rows = len(block.truth)
        rng = np.random.default_rng((SEED, number))
        batches = [rng.exponential(size=(AT_ONCE, n_rows)) for _ in range(N_RESAMPLES // AT_ONCE)]
        ones = np.ones((1, n_rows))
        weights = [ones, *batches]
        (self.point, *draws), self.aucs = _resampled(block.truth, block.model, weights)
        self.draws = np.array(draws)
        (self.guessed,), _ = _resampled(block.truth, block.guessing, [ones])
        self.other, self.other_draws = np.full_like(self.point, np.nan), self.draws * np.nan
        if block.uncoupled is not None:
            (self.other, *draws), _ = _resampled(block.truth, block.uncoupled, weights)
            self.other_draws = np.array(draws)

    def entry(self) -> dict[str, Any]:
        return {
            "name": self.block.name,
            "kind": self.block.kind,
            "n_rows": len(self.block.truth),
            "n_entries": int(np.isfinite(self.block.truth).sum()),
            "metrics": _intervals(
                self.point, self.draws, self.guessed, self.other, self.other_draws
            ),
        }


def _resampled(
    truth: Matrix, predicted: Predictions, batches: Sequence[Matrix]
) -> tuple[Matrix, Matrix]:
    """Metrics (n_draws, n_metrics), and AUCs of the labels, (n_draws, n_labels).

    Labels are ranked by scores, and decided on by margins. Weights of the rows come in batches of
    shape (n_draws_of_batch, n_rows).
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


def _mean_entry(samples: Sequence[_Sample]) -> dict[str, Any]:
    """Means over the views in which a metric is defined."""
    entries = [sample.entry() for sample in samples]
    keys = ("point", "draws", "guessed", "other", "other_draws")
    means = [fuse_arrays(np.array([getattr(sample, key) for sample in samples])) for key in keys]
    return {
        "name": MEAN,
        "kind": "mean",
        **{key: sum(entry[key] for entry in entries) for key in ("n_rows", "n_entries")},
        "metrics": _intervals(*means),
    }


def _intervals(
    point: Matrix, draws: Matrix, guessed: Matrix, other: Matrix, other_draws: Matrix
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(measure.name for measure in SHOWN):
        found[name] = {
            **_around(point[i], draws[:, i]),
            "guessing": float(guessed[i]),
            "uncoupled": None,
            "gain": None,
        }
        if not np.isnan(other[i]):
            gain = _around(point[i] - other[i], draws[:, i] - other_draws[:, i])
            found[name] |= {"uncoupled": float(other[i]), "gain": gain}
    return found


def _around(value: float, draws: Matrix) -> dict[str, float]:
    """A value and its interval, which always contains it."""
    low, high = _interval(draws)
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


def _label_entry(sample: _Sample, k: int, name: str) -> dict[str, Any]:
    """Metrics of a label of a block."""
    block = sample.block
    known = np.isfinite(block.truth[:, k])
    truth, scores = block.truth[known, k] == 1, block.model.scores[known, k]
    called, guessed = block.model.margins[known, k] > 0, block.guessing.margins[known, k] > 0
    both = 0 < truth.sum() < len(truth)
    counts = {
        "yes": int(truth.sum()),
        "no": int((~truth).sum()),
        "called": int(called.sum()),
        "found": int((called & truth).sum()),
        "n_correct": int((called == truth).sum()),
        "n_correct_guessing": int((guessed == truth).sum()),
    }
    precision = float(average_precision_score(truth, scores)) if both else float("nan")
    return _summed({"label": name, "view": block.name}, counts, sample.aucs[:, k], precision)


def _mean_label(
    samples: Sequence[_Sample], entries: list[dict[str, Any]], k: int
) -> dict[str, Any]:
    """Metrics of a label over several views: sums of counts, means of the others."""
    names = {sample.block.name for sample in samples}
    entries = [entry for entry in entries if entry["view"] in names]
    keys = ("yes", "no", "called", "found", "n_correct", "n_correct_guessing")
    counts = {key: sum(entry[key] for entry in entries) for key in keys}
    aucs = np.array([sample.aucs[:, k] for sample in samples])
    precisions = [entry["average_precision"] for entry in entries]
    known = {"label": entries[0]["label"], "view": MEAN}
    mean = fuse_arrays(np.array(precisions, dtype=float)[:, None]).item()
    return _summed(known, counts, fuse_arrays(aucs), mean)


def _summed(
    names: dict[str, str], counts: dict[str, int], aucs: Matrix, precision: float
) -> dict[str, Any]:
    """Entry of a label from counts, and from its AUC and the AUCs of the resamples."""
    n_known = counts["yes"] + counts["no"]
    # Rounding errors of weighted sums may exceed 1.
    low, high = (min(end, 1.0) if end == end else end for end in _interval(aucs[1:]))
    return {
        **names,
        **counts,
        "accuracy": _ratio(counts["n_correct"], n_known),
        "accuracy_guessing": _ratio(counts["n_correct_guessing"], n_known),
        "auc": None if np.isnan(aucs[0]) else float(aucs[0]),
        "auc_low": low,
        "auc_high": high,
        "average_precision": None if np.isnan(precision) else precision,
        "f1": _ratio(2 * counts["found"], counts["yes"] + counts["called"]),
        "verdict": judge_auc(low, high, min(counts["yes"], counts["no"])),
    }


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def measure_calibration(block: EvaluatedBlock) -> dict[str, Any]:
    """Mean probability and share of positives in ten bins."""
    probabilities = block.model.probabilities
    assert probabilities is not None
    known = np.isfinite(block.truth) & np.isfinite(probabilities)
    p, yes = probabilities[known], block.truth[known]
    place = np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)
    n = np.bincount(place, minlength=N_BINS)
    mean, share = (np.bincount(place, values, minlength=N_BINS) for values in (p, yes))
    return {
        "name": block.name,
        "error": calibration_error(block.truth, probabilities),
        "n_entries": len(p),
        "bins": [
            {
                "low": i / N_BINS,
                "high": (i + 1) / N_BINS,
                "n": int(n[i]),
                "probability": float(mean[i] / n[i]) if n[i] else None,
                "share": float(share[i] / n[i]) if n[i] else None,
            }
            for i in range(N_BINS)
        ],
    }
