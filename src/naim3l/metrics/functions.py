"""The metrics, one function each."""

from typing import Any

from naim3l.metrics.checked import read_scored
from naim3l.metrics.scored import Metric, ScoredLabels


def hamming_loss(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Share of observed entries whose predicted label is wrong.

    A score equal to the threshold is a "no". With no unknown entry this is scikit-learn's
    ``hamming_loss``.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    threshold : float, default=0.0
        Score above which a label is predicted.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, lower is better. NaN if nothing can be measured.

    Examples
    --------
    One of the three known entries is predicted wrongly:

    >>> import numpy as np
    >>> from naim3l.metrics import hamming_loss
    >>> y_true = [[1, 0], [0, np.nan]]
    >>> round(hamming_loss(y_true, [[0.9, -0.2], [0.4, 0.8]]), 2)
    0.33
    """
    return _measure(ScoredLabels.hamming_loss, y_true, scores, sample_weight, threshold)


def ranking_loss(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over rows of the share of (positive, negative) pairs in the wrong order.

    A tie is an error. Rows that lack positives or negatives are left out; scikit-learn's
    ``label_ranking_loss`` counts them as 0 and agrees otherwise.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, lower is better. NaN if nothing can be measured.

    Examples
    --------
    One of the two pairs of the first row is in the wrong order, none in the second row:

    >>> from naim3l.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    0.25
    """
    return _measure(ScoredLabels.ranking_loss, y_true, scores, sample_weight)


def average_precision(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over rows of the mean precision at the rank of each positive.

    Tied labels share the last of their ranks. Rows that lack positives or negatives are left
    out; scikit-learn's ``label_ranking_average_precision_score`` counts them as 1 and agrees
    otherwise.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    The positive label has rank 2 in the first row and rank 1 in the second:

    >>> from naim3l.metrics import average_precision
    >>> average_precision([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    0.75
    """
    return _measure(ScoredLabels.average_precision, y_true, scores, sample_weight)


def adapted_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Area under the curve drawn by the T best-scored labels of every row, T = 1..n_labels.

    For each T the T best labels of a row (all of them if fewer are observed) are predicted, and
    TP and FP are counted over all rows; the trapezoid area under (FPR, TPR) is divided by
    ``FPR(n_labels) - FPR(1)``. Ties are broken by column order. The value is NaN without an
    observed positive, or if the curve has no width (one label, no negatives). It is neither the
    macro nor the micro AUC.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    The points (FP, TP) for T = 1, 2, 3 are (1, 1), (2, 2) and (4, 2):

    >>> from naim3l.metrics import adapted_auc
    >>> round(adapted_auc([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]]), 2)
    0.92
    """
    return _measure(ScoredLabels.adapted_auc, y_true, scores, sample_weight)


def coverage(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean number of best-scored labels to take until all positives of a row are among them.

    Tied labels share the last of their ranks. Rows without a positive are left out;
    scikit-learn's ``coverage_error`` counts them as 0 and agrees otherwise.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 1 to n_labels, lower is better. NaN if nothing can be measured.

    Examples
    --------
    Two labels cover the positive of the first row, one covers that of the second:

    >>> from naim3l.metrics import coverage
    >>> coverage([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    1.5
    """
    return _measure(ScoredLabels.coverage, y_true, scores, sample_weight)


def one_error(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Share of rows whose best-scored label is not positive.

    A tie is an error: where several labels share the best score all must be positive, so the
    order of the columns does not matter. Rows without a positive are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, lower is better. NaN if nothing can be measured.

    Examples
    --------
    The best-scored label is wrong in the first of two rows:

    >>> from naim3l.metrics import one_error
    >>> one_error([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    0.5
    """
    return _measure(ScoredLabels.one_error, y_true, scores, sample_weight)


def macro_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over labels of the area under the ROC curve, a tie counting one half.

    Labels observed in one class only are left out. Otherwise as scikit-learn's
    ``roc_auc_score`` with ``average="macro"``.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    The first label is ranked perfectly over the rows, the second in half of the pairs:

    >>> from naim3l.metrics import macro_auc
    >>> macro_auc([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.2, 0.5], [0.3, 0.7]])
    0.75
    """
    return _measure(ScoredLabels.macro_auc, y_true, scores, sample_weight)


def micro_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Area under the ROC curve of all observed entries pooled, a tie counting one half.

    With no unknown entry this is ``roc_auc_score`` with ``average="micro"``.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    Six of the eight pairs of a positive and a negative entry are in the right order:

    >>> from naim3l.metrics import micro_auc
    >>> micro_auc([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.2, 0.5], [0.6, 0.7]])
    0.75
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
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    threshold : float, default=0.0
        Score above which a label is predicted.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    F1 is 1 for the first label and 2/3 for the second:

    >>> from naim3l.metrics import macro_f1
    >>> round(macro_f1([[1, 0], [0, 1]], [[0.9, 0.1], [-0.2, 0.5]]), 2)
    0.83
    """
    return _measure(ScoredLabels.macro_f1, y_true, scores, sample_weight, threshold)


def micro_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """F1 of all observed entries pooled, 0 where none is positive or predicted.

    With no unknown entry this is ``f1_score`` with ``average="micro", zero_division=0``.

    Parameters
    ----------
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    threshold : float, default=0.0
        Score above which a label is predicted.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    Both positives are among the three predicted labels:

    >>> from naim3l.metrics import micro_f1
    >>> micro_f1([[1, 0], [0, 1]], [[0.9, 0.1], [-0.2, 0.5]])
    0.8
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
    y_true : array-like of shape (n_rows, n_labels)
        Labels: 1 is yes, 0 is no, NaN or null is unknown.
    scores : array-like of shape (n_rows, n_labels)
        Scores, larger for labels that are more likely.
    threshold : float, default=0.0
        Score above which a label is predicted.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows; by default all rows have weight 1.

    Returns
    -------
    float
        From 0 to 1, larger is better. NaN if nothing can be measured.

    Examples
    --------
    F1 is 2/3 in the first row and 1 in the second:

    >>> from naim3l.metrics import example_f1
    >>> round(example_f1([[1, 0], [0, 1]], [[0.9, 0.1], [-0.2, 0.5]]), 2)
    0.83
    """
    return _measure(ScoredLabels.example_f1, y_true, scores, sample_weight, threshold)


def _measure(
    metric: Metric, y_true: Any, scores: Any, sample_weight: Any, threshold: float = 0.0
) -> float:
    return metric(*read_scored(y_true, scores, sample_weight, threshold)).item()
