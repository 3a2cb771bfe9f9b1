"""The metrics, one function each, and all of them at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from naim3l.metrics.checked import check_same_views, read_scored
from naim3l.metrics.scored import PROTOCOLS, Metric, ScoredLabels


def hamming_loss(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Share of observed entries whose predicted label is wrong.

    A score equal to the threshold is a "no". With no unknown entry this is scikit-learn's
    ``hamming_loss``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.hamming_loss, y_true, scores, sample_weight, threshold)


def ranking_loss(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over rows of the share of (positive, negative) pairs in the wrong order.

    A tie is an error. Rows that lack positives or negatives are left out; scikit-learn's
    ``label_ranking_loss`` counts them as 0 and agrees otherwise.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.ranking_loss, y_true, scores, sample_weight)


def average_precision(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over rows of the mean precision at the rank of each positive.

    Tied labels share the last of their ranks. Rows that lack positives or negatives are left
    out; scikit-learn's ``label_ranking_average_precision_score`` counts them as 1 and agrees
    otherwise.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.average_precision, y_true, scores, sample_weight)


def adapted_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Area under the curve drawn by the T best-scored labels of every row, T = 1..n_labels.

    For each T the T best labels of a row (all of them where fewer are observed) are called
    positive and TP and FP are pooled over all rows; the trapezoid area under (FPR, TPR) is
    divided by ``FPR(n_labels) - FPR(1)``. Ties are broken by column order. NaN without an
    observed positive, or where the curve has no width (one label, no negatives). It is
    neither the macro nor the micro AUC.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.adapted_auc, y_true, scores, sample_weight)


def coverage(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean number of best-scored labels to take until all positives of a row are among them.

    Tied labels share the last of their ranks. Rows without a positive are left out;
    scikit-learn's ``coverage_error`` counts them as 0 and agrees otherwise.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.coverage, y_true, scores, sample_weight)


def one_error(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Share of rows whose best-scored label is not positive.

    A tie is an error: where several labels share the best score all must be positive, so the
    order of the columns does not matter. Rows without a positive are left out.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.one_error, y_true, scores, sample_weight)


def macro_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over labels of the area under the ROC curve, a tie counting one half.

    Labels observed in one class only are left out. Otherwise as scikit-learn's
    ``roc_auc_score`` with ``average="macro"``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.macro_auc, y_true, scores, sample_weight)


def micro_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Area under the ROC curve of all observed entries pooled, a tie counting one half.

    With no unknown entry this is ``roc_auc_score`` with ``average="micro"``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.micro_auc, y_true, scores, sample_weight)


def macro_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Mean over labels of F1, 0 for a label neither positive nor predicted anywhere.

    Labels without an observed entry are left out. With no unknown entry this is ``f1_score``
    with ``average="macro", zero_division=0``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.macro_f1, y_true, scores, sample_weight, threshold)


def micro_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """F1 of all observed entries pooled, 0 where none is positive or predicted.

    With no unknown entry this is ``f1_score`` with ``average="micro", zero_division=0``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.micro_f1, y_true, scores, sample_weight, threshold)


def example_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Mean over rows of F1, 0 for a row with nothing positive and nothing predicted.

    Rows without an observed entry are left out. With no unknown entry this is ``f1_score``
    with ``average="samples", zero_division=0``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    sample_weight : array-like of shape (n_rows,), optional
    """
    return _measure(ScoredLabels.example_f1, y_true, scores, sample_weight, threshold)


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
    y_true, scores : array-like of shape (n_rows, n_labels), or mappings {view: array-like}
        Views need not have the same rows. A metric undefined in one view has a NaN mean. Labels
        of two data frames are matched by name, of arrays by position. Scores must be finite:
        leave out the rows that lack a view first.
    protocol : {"paper", "fused"}
        How rows on which a metric is undefined are treated. "paper" leaves them out; "fused", as
        later papers do, counts the average precision of a row without a positive as 0.
    threshold : float
        Used by "1-HL" and the F1 values.
    sample_weight : array-like of shape (n_rows,), or mapping {view: array-like}, optional
        Weights of the rows, of each view where there are views.

    Returns
    -------
    dict of str to float
        "1-HL", "1-RL", "AP", "AUC" (the adapted one), "coverage", "one-error", "macro-AUC",
        "micro-AUC", "macro-F1", "micro-F1" and "example-F1". Larger is better, except for
        "coverage" and "one-error".
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


def _measure(
    metric: Metric, y_true: Any, scores: Any, sample_weight: Any, threshold: float = 0.0
) -> float:
    return metric(*read_scored(y_true, scores, sample_weight, threshold)).item()
