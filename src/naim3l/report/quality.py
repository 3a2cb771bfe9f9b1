"""Quality of scores, with bootstrap intervals.

Every metric here is a ratio of sums over rows, so a resample only needs row weights: the sums of
each row are computed once, and a resample costs a few products.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from naim3l.decisions.calibration import calibration_error
from naim3l.metrics import _read, macro_auc
from naim3l.problem.blocks import one_blas_thread
from naim3l.report.judged import Block

Matrix = NDArray[np.float64]

METRICS = ("1-HL", "1-RL", "AP", "AUC", "macro-F1", "example-F1")
N_RESAMPLES, SEED = 200, 0
LEVEL = 0.95
N_BINS = 10
# Resamples per batch; their weights have the shape (this many, n_rows).
AT_ONCE = 25


class RowSums:
    """The sums per row from which the metrics are computed.

    Parameters
    ----------
    block : Block
    """

    def __init__(self, block: Block) -> None:
        table = _read(block.truth, block.scores)
        self.n_rows = len(block.scores)
        self.observed = table.observed.sum(axis=1)
        yes = table.observed & (block.scores > block.thresholds)
        self.wrong = (table.observed & (yes != table.positive)).sum(axis=1)
        self.right = (yes & table.positive).astype(np.float64)
        self.called = yes.astype(np.float64) + table.positive
        self.label_known = table.observed.any(axis=0)
        self.row_known = table.observed.any(axis=1)
        n_called = self.called.sum(axis=1)
        self.row_f1 = 2 * self.right.sum(axis=1) / np.maximum(n_called, 1)
        row, rank, hits = table.ranked_positives
        n_yes, n_no = table.positive.sum(axis=1), table.negative.sum(axis=1)
        self.ranked = n_yes * n_no > 0
        inverted = np.bincount(row, rank - hits, minlength=self.n_rows)
        self.inverted = inverted / np.maximum(n_yes * n_no, 1)
        self.precision = np.bincount(row, hits / rank, minlength=self.n_rows) / np.maximum(n_yes, 1)
        _, positive, negative = table.best_first
        self.positive, self.negative = positive.astype(np.float64), negative.astype(np.float64)

    def metrics(self, weights: Matrix) -> Matrix:
        """Metrics in the order of METRICS, (n_resamples, 6), for weights (n_resamples, n_rows)."""
        over_ranked = weights @ self.ranked
        per_label = _divide(2 * (weights @ self.right), weights @ self.called, otherwise=0)
        per_label = per_label[:, self.label_known]
        columns = [
            1 - _divide(weights @ self.wrong, weights @ self.observed),
            1 - _divide(weights @ (self.inverted * self.ranked), over_ranked),
            _divide(weights @ (self.precision * self.ranked), over_ranked),
            self._adapted_auc(weights),
            per_label.mean(axis=1) if per_label.size else np.full(len(weights), np.nan),
            _divide(weights @ (self.row_f1 * self.row_known), weights @ self.row_known),
        ]
        return np.column_stack(columns)

    def _adapted_auc(self, weights: Matrix) -> Matrix:
        tp = np.cumsum(weights @ self.positive, axis=1)
        fp = np.cumsum(weights @ self.negative, axis=1)
        area = np.trapezoid(_divide(tp, tp[:, -1:]), fp, axis=1)
        return _divide(area, fp[:, -1] - fp[:, 0])


def _divide(a: Any, b: Any, otherwise: float = np.nan) -> Matrix:
    """Quotient, or ``otherwise`` where the divisor is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, where=b > 0, out=np.full(a.shape, float(otherwise)))


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
    sums = RowSums(block)
    rng = np.random.default_rng((SEED, number))
    parts = [
        sums.metrics(rng.exponential(size=(AT_ONCE, sums.n_rows)))
        for _ in range(N_RESAMPLES // AT_ONCE)
    ]
    return sums.metrics(np.ones((1, sums.n_rows)))[0], np.concatenate(parts)


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
