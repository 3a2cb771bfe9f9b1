"""Which labels of a row tell about its others, beyond what the features say."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

LEVEL = 0.95


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
