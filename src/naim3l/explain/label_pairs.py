"""Pairs of labels: which occur together, and which tell about each other beyond the features."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control, norm

from naim3l._arrays import Matrix
from naim3l.decisions.rules import ENOUGH_POSITIVES
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain.model_views import check_explained, read_truth

LEVEL = 0.95
TOGETHER, APART, UNCLEAR, TOO_FEW = "together", "apart", "unclear", "too few"


class LabelPair(NamedTuple):
    """How often two labels are both yes.

    Attributes
    ----------
    first, second : str
        Names of the labels.
    n_rows, both : int
        Rows in which both are known, and those in which both are yes.
    expected : float
        Number of such rows if the labels were independent, with the same number of yes each.
    lift : float
        ``both / expected``; NaN where nothing is expected.
    low, high : float
        95 % interval of the lift.
    verdict : str
        "together" or "apart" where this is unlikely to be a coincidence, otherwise "unclear", and
        "too few" where not even five such rows are observed or expected.

    Examples
    --------
    >>> from naim3l.explain import LabelPair
    >>> LabelPair("flu", "cough", 90, 30, 15.0, 2.0, 1.6, 2.3, "together").lift
    2.0
    """

    first: str
    second: str
    n_rows: int
    both: int
    expected: float
    lift: float
    low: float
    high: float
    verdict: str


def label_cooccurrence(model: LinearViewModel, X: Any, y: Any) -> list[LabelPair]:
    """Pairs of labels that occur together more or less often than expected, from observed labels.

    Nothing here depends on scores. The interval is that of the odds ratio of the two labels, with
    1/2 added to each of the four counts, converted to a lift. A pair is "together" or "apart" only
    if the procedure of Benjamini and Hochberg finds it, at a false discovery rate of 5 %, among all
    pairs with enough rows. Rows are assumed to be independent.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    X : tables in the form of the fit
        Rows that the labels belong to.
    y : label tables in the form of the fit
        The rows of all views count; unknown entries do not.

    Returns
    -------
    list of LabelPair
        All pairs: those that are "together" or "apart", then "unclear", then "too few"; of each,
        those whose odds ratio is most certainly far from 1 first.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import label_cooccurrence
    >>> data = datasets.make_unpaired(200, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> for pair in label_cooccurrence(model, data.views, data.labels):
    ...     print(pair.first, pair.second, pair.both, round(pair.expected), pair.verdict)
    label1 label2 165 146 together
    label0 label2 190 176 together
    label0 label1 198 206 apart
    """
    check_explained(model)
    truth = np.concatenate(list(read_truth(model, X, y).values()))
    return compare_pairs(truth == 1, np.isfinite(truth), model.label_names_)


def compare_pairs(yes: Any, known: Any, names: list[str]) -> list[LabelPair]:
    """Pairs of columns of two Boolean arrays of shape (n_rows, n_labels); see above."""
    first, second = np.triu_indices(len(names), 1)
    yes, known = np.asarray(yes, dtype=float), np.asarray(known, dtype=float)
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


class InformingPair(NamedTuple):
    """How two labels go together, beyond what features say.

    Attributes
    ----------
    first, second : str
        Names of the labels.
    correlation : float
        Correlation of what held-out probabilities leave open of them, drawn to 0 where few rows
        tell. Above 0, a yes that the features do not explain makes a yes of the other more likely.
    low, high : float
        95 % interval of the correlation.
    n_rows : int
        Rows in which both are known.

    Examples
    --------
    >>> from naim3l.explain import InformingPair
    >>> InformingPair("flu", "cough", 0.4, 0.2, 0.6, 90).correlation
    0.4
    """

    first: str
    second: str
    correlation: float
    low: float
    high: float
    n_rows: int


def informing_labels(model: Any) -> list[InformingPair]:
    """Pairs of labels by which a row's known labels tell about its unknown ones.

    Parameters
    ----------
    model : estimator
        Fitted model with probabilities.

    Returns
    -------
    list of InformingPair
        All pairs that are known together in some row, those whose correlation is most certainly
        not 0 first; empty if no two labels are.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import informing_labels
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), noise=1, random_state=0)
    >>> model = NAIM3L(decide="guarded", random_state=0).fit(data.views, data.labels)
    >>> pair = informing_labels(model)[0]
    >>> pair.first, pair.second, pair.n_rows
    ('label3', 'label4', 120)
    """
    bridge = model.decisions_.bridge
    if bridge is None:
        return []
    R, counts = bridge.residuals.matrix(), bridge.residuals.counts
    # Fisher's transformation, whose standard error depends on the number of rows alone.
    centre = np.arctanh(np.clip(R, -0.999999, 0.999999))
    error = norm.ppf((1 + LEVEL) / 2) / np.sqrt(np.maximum(counts - 3, 1))
    low, high = np.tanh(centre - error), np.tanh(centre + error)
    first, second = np.nonzero(np.triu(counts, 1))
    order = np.argsort(-(np.abs(centre) - error)[first, second], kind="stable")
    names = model.label_names_
    found = []
    for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True):
        interval = float(low[i, j]), float(high[i, j])
        found.append(
            InformingPair(names[i], names[j], float(R[i, j]), *interval, int(counts[i, j]))
        )
    return found
