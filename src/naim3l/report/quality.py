"""Quality of scores, with bootstrap intervals."""

from itertools import chain
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from naim3l._arrays import Matrix
from naim3l.decisions.calibration import calibration_error
from naim3l.metrics import macro_auc
from naim3l.metrics.checked import read_scored
from naim3l.metrics.scored import PAPER
from naim3l.problem.blocks import one_blas_thread
from naim3l.report.judged import Block

METRICS = ("1-HL", "1-RL", "AP", "AUC", "macro-F1", "example-F1")
N_RESAMPLES, SEED = 200, 0
LEVEL = 0.95
N_BINS = 10
# Resamples per batch; their weights have the shape (this many, n_rows).
AT_ONCE = 25


@one_blas_thread  # products of thin matrices: threads would only wait
def measure(blocks: list[Block]) -> list[dict[str, Any]]:
    """Metrics of each block with 95 % intervals, and of the mean over views.

    Intervals come from the Bayesian bootstrap: 200 times, every row gets a random, exponentially
    distributed weight, and the interval contains the middle 95 % of the values. Weights are never
    zero, so the few positives of a rare label are never all left out. Rows are assumed to be
    independent; where they are not, intervals are too narrow.

    Parameters
    ----------
    blocks : list of Block

    Returns
    -------
    list of dict
        "name", "kind" ("view", "fused" or "mean"), "n_rows", "n_entries", and "metrics":
        by name "value", "low" and "high".
    """
    measured, points, draws = [], [], []
    for number, block in enumerate(blocks):
        point, drawn = _resample(block, number)
        points.append(point)
        draws.append(drawn)
        measured.append(
            {
                "name": block.name,
                "kind": "fused" if block.fused else "view",
                "n_rows": len(block.scores),
                "n_entries": int(np.isfinite(block.truth).sum()),
                "metrics": _intervals(point, drawn),
            }
        )
    if len(blocks) > 1 and not any(block.fused for block in blocks):
        mean: dict[str, Any] = {"name": "mean over views", "kind": "mean"}
        for key in ("n_rows", "n_entries"):
            mean[key] = sum(entry[key] for entry in measured)
        mean["metrics"] = _intervals(np.mean(points, axis=0), np.mean(draws, axis=0))
        measured.insert(0, mean)
    return measured


def _resample(block: Block, number: int) -> tuple[Matrix, Matrix]:
    """Values of the metrics, (6,), and of the resamples, (n_resamples, 6)."""
    labels, ones = read_scored(block.truth, block.scores, threshold=block.thresholds)
    rng = np.random.default_rng((SEED, number))
    draws = (
        rng.exponential(size=(AT_ONCE, len(block.scores))) for _ in range(N_RESAMPLES // AT_ONCE)
    )
    point, *parts = (
        np.column_stack([PAPER[name](labels, weights) for name in METRICS])
        for weights in chain([ones], draws)
    )
    return point[0], np.concatenate(parts)


def _intervals(point: Matrix, draws: Matrix) -> dict[str, dict[str, float]]:
    tail = (1 - LEVEL) / 2
    # All or no draws of a metric are NaN: weights are positive, so what is defined stays so.
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return {
        name: {
            "value": float(point[i]),
            "low": float(min(low[i], point[i])),
            "high": float(max(high[i], point[i])),
        }
        for i, name in enumerate(METRICS)
    }


def measure_labels(block: Block, names: list[str]) -> list[dict[str, Any]]:
    """Metrics, threshold and calibration curve of each label of a block.

    "yes" and "no" count the known entries, "called" those that the model predicts as yes, and
    "found" those of them that are yes. "auc" and "average_precision" are None where they are
    undefined.
    """
    return [_measure_label(block, k, name) for k, name in enumerate(names)]


def _measure_label(block: Block, k: int, name: str) -> dict[str, Any]:
    known = np.isfinite(block.truth[:, k])
    truth, scores = block.truth[known, k] == 1, block.scores[known, k]
    called = scores > block.thresholds[k]
    n_yes, n_called, n_found = int(truth.sum()), int(called.sum()), int((called & truth).sum())
    both = 0 < n_yes < len(truth)
    curve = block.calibration
    return {
        "label": name,
        "yes": n_yes,
        "no": len(truth) - n_yes,
        "called": n_called,
        "found": n_found,
        "auc": macro_auc(truth[:, None], scores[:, None]) if both else None,
        "average_precision": float(average_precision_score(truth, scores)) if both else None,
        "f1": 2 * n_found / (n_yes + n_called) if n_yes + n_called else None,
        "threshold": float(block.thresholds[k]),
        "slope": None if curve is None else float(curve.slope[k]),
        "own_curve": None if curve is None else bool(curve.own[k]),
    }


def measure_calibration(block: Block) -> dict[str, Any] | None:
    """Mean probability and share of positives in ten bins; None without a calibration."""
    if block.calibration is None:
        return None
    chances = block.calibration.probabilities(block.scores)
    known = np.isfinite(block.truth)
    p, yes = chances[known], block.truth[known]
    place = np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)
    n = np.bincount(place, minlength=N_BINS)
    mean, share = (np.bincount(place, values, minlength=N_BINS) for values in (p, yes))
    return {
        "name": block.name,
        "error": calibration_error(block.truth, chances),
        "n_entries": len(p),
        "n_own": int(block.calibration.own.sum()),
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
