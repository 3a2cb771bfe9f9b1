"""All metrics at once, of one table or of several views."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from naim3l.metrics.checked import check_same_views, read_scored
from naim3l.metrics.scored import PROTOCOLS


def evaluate(
    y_true: Any,
    scores: Any,
    *,
    protocol: str = "paper",
    threshold: float = 0.0,
    sample_weight: Any = None,
) -> dict[str, float]:
    """All metrics of one table, or their means over views.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels), or mapping {view: array-like}
        Labels: 1 is yes, 0 is no, NaN or null is unknown. Views need not have the same rows.
    scores : array-like of shape (n_rows, n_labels), or mapping {view: array-like}
        Scores, larger for labels that are more likely. The labels of two data frames are matched
        by name, those of arrays by position. Scores must be finite: leave out rows that lack the
        view.
    protocol : {"paper", "fused"}, default="paper"
        How to treat rows on which a metric is undefined. "paper" leaves them out. "fused", as in
        later papers, counts the average precision of a row without a positive as 0.
    threshold : float, default=0.0
        Score above which a label is predicted, for "1-HL" and the F1 values.
    sample_weight : array-like of shape (n_rows,), or mapping {view: array-like}, optional
        Weights of the rows, by view if there are views; by default all rows have weight 1.

    Returns
    -------
    dict of str to float
        "1-HL", "1-RL", "AP", "AUC" (`naim3l.metrics.adapted_auc`), "coverage", "one-error",
        "macro-AUC", "micro-AUC", "macro-F1", "micro-F1" and "example-F1". Larger is better,
        except for "coverage" and "one-error". A metric that is undefined in a view is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l import evaluate
    >>> y_true = np.array([[1, 0, 0], [0, 1, np.nan]])
    >>> scores = np.array([[0.5, -0.1, 0.8], [-0.2, 0.9, 0.3]])
    >>> for name, value in evaluate(y_true, scores).items():
    ...     print(f"{name:10} {value:.2f}")
    1-HL       0.80
    1-RL       0.75
    AP         0.75
    AUC        0.88
    coverage   1.50
    one-error  0.50
    macro-AUC  1.00
    micro-AUC  0.83
    macro-F1   0.67
    micro-F1   0.80
    example-F1 0.83
    """
    if protocol not in PROTOCOLS:
        known = ", ".join(repr(name) for name in PROTOCOLS)
        raise ValueError(f"protocol is {protocol!r}; the known ones are: {known}.")
    metrics = PROTOCOLS[protocol]

    def measure(Y: Any, S: Any, w: Any) -> dict[str, float]:
        labels, weights = read_scored(Y, S, w, threshold)
        return {name: metric(labels, weights).item() for name, metric in metrics.items()}

    if not isinstance(y_true, Mapping) and not isinstance(scores, Mapping):
        return measure(y_true, scores, sample_weight)
    check_same_views(y_true, scores, sample_weight)
    per_view = []
    for view in y_true:
        try:
            w = None if sample_weight is None else sample_weight[view]
            per_view.append(measure(y_true[view], scores[view], w))
        except ValueError as error:
            raise ValueError(f"view {view!r}: {error}") from error
    return {name: float(np.mean([values[name] for values in per_view])) for name in metrics}
