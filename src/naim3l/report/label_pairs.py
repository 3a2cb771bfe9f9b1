"""Which labels occur together in the label tables, as observed."""

from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control, norm

from naim3l._arrays import Matrix
from naim3l.decisions.rules import ENOUGH_POSITIVES

LEVEL = 0.95
TOGETHER, APART, UNCLEAR, TOO_FEW = "together", "apart", "unclear", "too few"


class LabelPair(NamedTuple):
    """How often two labels are both yes."""

    first: str
    second: str
    n_rows: int  # in which both are known
    both: int  # of these, in which both are yes
    expected: float  # number of such rows if labels with as many yes were independent
    lift: float  # both / expected; NaN where nothing is expected
    low: float  # its 95 % interval
    high: float
    # "together" or "apart" where this is unlikely to be a coincidence, otherwise "unclear", and
    # "too few" where not even five such rows are observed or expected.
    verdict: str


def compare_pairs(truth: Matrix, names: list[str]) -> list[LabelPair]:
    """Pairs of labels that occur together more or less often than expected, the clearest first.

    Labels (n_rows, n_labels) are 1, 0, NaN = unknown. The interval is that of the odds ratio of the
    two labels, with 1/2 added to each of the four counts, converted to a lift. A pair is "together"
    or "apart" only if the procedure of Benjamini and Hochberg finds it, at a false discovery rate
    of 5 %, among all pairs with enough rows. Rows are assumed to be independent.
    """
    first, second = np.triu_indices(len(names), 1)
    yes, known = (truth == 1).astype(float), np.isfinite(truth).astype(float)
    n, both = (known.T @ known)[first, second], (yes.T @ yes)[first, second]
    of_first, of_second = (yes.T @ known)[first, second], (known.T @ yes)[first, second]
    expected = of_first * of_second / np.maximum(n, 1)
    z = norm.ppf((1 + LEVEL) / 2)
    log_odds, error = _log_odds(both, of_first, of_second, n)
    with np.errstate(invalid="ignore"):  # 0 / 0 where nothing is expected
        counts = [both] + [
            _cell(np.exp(log_odds + side * z * error), of_first, of_second, n) for side in (-1, 1)
        ]
        lift, low, high = (count / expected for count in counts)
    verdicts = _judge(both, expected, log_odds, error)
    pairs = [
        LabelPair(
            *(names[first[i]], names[second[i]], int(n[i]), int(both[i]), float(expected[i])),
            *(float(lift[i]), float(min(low[i], lift[i])), float(max(high[i], lift[i]))),
            verdicts[i],
        )
        for i in np.argsort(-np.abs(log_odds) + z * error, kind="stable")
    ]
    return sorted(pairs, key=lambda pair: {UNCLEAR: 1, TOO_FEW: 2}.get(pair.verdict, 0))


def _log_odds(both: Matrix, a: Matrix, b: Matrix, n: Matrix) -> tuple[Matrix, Matrix]:
    """Logarithm of the odds ratio of each pair, and its standard error."""
    counts = np.stack([both, a - both, b - both, n - a - b + both]) + 0.5
    logs = np.log(counts)
    return logs[0] - logs[1] - logs[2] + logs[3], np.sqrt((1 / counts).sum(axis=0))


def _cell(odds: Matrix, a: Matrix, b: Matrix, n: Matrix) -> Matrix:
    """The count of both that has an odds ratio, where ``a`` and ``b`` of ``n`` rows are yes."""
    # The root of m (n - a - b + m) = odds (a - m) (b - m), stable for odds ratios close to 1.
    p = n - a - b + odds * (a + b)
    return 2 * odds * a * b / (p + np.sqrt(np.maximum(p**2 - 4 * (odds - 1) * odds * a * b, 0)))


def _judge(both: Matrix, expected: Matrix, log_odds: Matrix, error: Matrix) -> list[str]:
    enough = np.maximum(both, expected) >= ENOUGH_POSITIVES
    verdicts = np.where(enough, UNCLEAR, TOO_FEW).astype(object)
    if enough.any():
        p_values = 2 * norm.sf(np.abs(log_odds[enough]) / error[enough])
        found = np.flatnonzero(enough)[false_discovery_control(p_values) <= 1 - LEVEL]
        verdicts[found] = np.where(log_odds[found] > 0, TOGETHER, APART)
    return list(verdicts)
