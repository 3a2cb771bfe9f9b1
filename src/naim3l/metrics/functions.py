"""One function for each metric, and one for all of them.

Labels, scores and weights may be of any library; errors name the entry that cannot be used.
"""

import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._text import documented
from naim3l.metrics.measures import MEASURES, PROTOCOLS, Metric, ScoredLabels

F = TypeVar("F", bound=Callable[..., float])

_TABLES = """Parameters
----------
y_true : array-like of shape (n_rows, n_labels)
    Labels: 1 is yes, 0 is no, NaN or null is unknown.
scores : array-like of shape (n_rows, n_labels)
    Scores, larger for labels that are more likely.
"""
_THRESHOLD = """threshold : float, default=0.0
    Score above which a label is predicted.
"""
_WEIGHTS = """sample_weight : array-like of shape (n_rows,), optional
    Weights of the rows; by default all rows have weight 1.

Returns
-------
float
"""


def _metric(result: str, *, threshold: bool = False) -> Callable[[F], F]:
    """Decorator that puts the sections which all metrics share before the examples."""

    def describe(function: F) -> F:
        if function.__doc__:  # Python leaves docstrings out with -OO
            meaning, examples = inspect.cleandoc(function.__doc__).split("Examples\n")
            shared = _TABLES + _THRESHOLD * threshold + _WEIGHTS
            function.__doc__ = (
                f"{meaning}{shared}    {result} NaN if nothing can be measured.\n\n"
                f"Examples\n{examples}\n"
            )
        return function

    return describe


@documented(
    protocols=PROTOCOLS,
    measures=", ".join(f'"{name}"' for name in MEASURES),
    losses=", ".join(f'"{name}"' for name, of in MEASURES.items() if of.lower_is_better),
    decisions=", ".join(f'"{name}"' for name, of in MEASURES.items() if of.of_decisions),
)
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
    protocol : <protocols>, default="paper"
        How to treat rows on which a metric is undefined. "paper" leaves them out. "fused", as in
        later papers, counts the average precision of a row without a positive as 0.
    threshold : float, default=0.0
        Score above which a label is predicted, for <decisions>.
    sample_weight : array-like of shape (n_rows,), or mapping {view: array-like}, optional
        Weights of the rows, by view if there are views; by default all rows have weight 1.

    Returns
    -------
    dict of str to float
        Values by name: <measures>. "AUC" is `naim3l.metrics.adapted_auc`. Larger is better, except
        for <losses>. A metric that is undefined in a view is NaN.

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
    metrics = {name: PROTOCOLS[protocol].get(name, of.compute) for name, of in MEASURES.items()}

    def measure(Y: Any, S: Any, w: Any) -> dict[str, float]:
        labels, weights = read_scored(Y, S, w, threshold)
        return {name: metric(labels, weights).item() for name, metric in metrics.items()}

    if not isinstance(y_true, Mapping) and not isinstance(scores, Mapping):
        return measure(y_true, scores, sample_weight)
    _check_same_views(y_true, scores, sample_weight)
    per_view = []
    for view in y_true:
        try:
            w = None if sample_weight is None else sample_weight[view]
            per_view.append(measure(y_true[view], scores[view], w))
        except ValueError as error:
            raise ValueError(f"view {view!r}: {error}") from error
    return {name: float(np.mean([values[name] for values in per_view])) for name in metrics}


@_metric("From 0 to 1, lower is better.", threshold=True)
def hamming_loss(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Share of observed entries whose predicted label is wrong.

    A score equal to the threshold is a "no". With no unknown entry this is scikit-learn's
    ``hamming_loss``.

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


@_metric("From 0 to 1, lower is better.")
def ranking_loss(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over rows of the share of (positive, negative) pairs in the wrong order.

    A tie is an error. Rows that lack positives or negatives are left out; scikit-learn's
    ``label_ranking_loss`` counts them as 0 and agrees otherwise.

    Examples
    --------
    One of the two pairs of the first row is in the wrong order, none in the second row:

    >>> from naim3l.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    0.25
    """
    return _measure(ScoredLabels.ranking_loss, y_true, scores, sample_weight)


@_metric("From 0 to 1, larger is better.")
def average_precision(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over rows of the mean precision at the rank of each positive.

    Tied labels share the last of their ranks. Rows that lack positives or negatives are left
    out; scikit-learn's ``label_ranking_average_precision_score`` counts them as 1 and agrees
    otherwise.

    Examples
    --------
    The positive label has rank 2 in the first row and rank 1 in the second:

    >>> from naim3l.metrics import average_precision
    >>> average_precision([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    0.75
    """
    return _measure(ScoredLabels.average_precision, y_true, scores, sample_weight)


@_metric("From 0 to 1, larger is better.")
def adapted_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Area under the curve drawn by the T best-scored labels of every row, T = 1..n_labels.

    For each T the T best labels of a row (all of them if fewer are observed) are predicted, and
    TP and FP are counted over all rows; the trapezoid area under (FPR, TPR) is divided by
    ``FPR(n_labels) - FPR(1)``. Ties are broken by column order. The value is NaN without an
    observed positive, or if the curve has no width (one label, no negatives). It is neither the
    macro nor the micro AUC.

    Examples
    --------
    The points (FP, TP) for T = 1, 2, 3 are (1, 1), (2, 2) and (4, 2):

    >>> from naim3l.metrics import adapted_auc
    >>> round(adapted_auc([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]]), 2)
    0.92
    """
    return _measure(ScoredLabels.adapted_auc, y_true, scores, sample_weight)


@_metric("From 1 to n_labels, lower is better.")
def coverage(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean number of best-scored labels to take until all positives of a row are among them.

    Tied labels share the last of their ranks. Rows without a positive are left out;
    scikit-learn's ``coverage_error`` counts them as 0 and agrees otherwise.

    Examples
    --------
    Two labels cover the positive of the first row, one covers that of the second:

    >>> from naim3l.metrics import coverage
    >>> coverage([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    1.5
    """
    return _measure(ScoredLabels.coverage, y_true, scores, sample_weight)


@_metric("From 0 to 1, lower is better.")
def one_error(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Share of rows whose best-scored label is not positive.

    A tie is an error: where several labels share the best score all must be positive, so the
    order of the columns does not matter. Rows without a positive are left out.

    Examples
    --------
    The best-scored label is wrong in the first of two rows:

    >>> from naim3l.metrics import one_error
    >>> one_error([[1, 0, 0], [0, 1, 0]], [[0.5, 0.1, 0.8], [0.2, 0.9, 0.3]])
    0.5
    """
    return _measure(ScoredLabels.one_error, y_true, scores, sample_weight)


@_metric("From 0 to 1, larger is better.")
def macro_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Mean over labels of the area under the ROC curve, a tie counting one half.

    Labels observed in one class only are left out. Otherwise as scikit-learn's
    ``roc_auc_score`` with ``average="macro"``.

    Examples
    --------
    The first label is ranked perfectly over the rows, the second in half of the pairs:

    >>> from naim3l.metrics import macro_auc
    >>> macro_auc([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.2, 0.5], [0.3, 0.7]])
    0.75
    """
    return _measure(ScoredLabels.macro_auc, y_true, scores, sample_weight)


@_metric("From 0 to 1, larger is better.")
def micro_auc(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
    """Area under the ROC curve of all observed entries pooled, a tie counting one half.

    With no unknown entry this is ``roc_auc_score`` with ``average="micro"``.

    Examples
    --------
    Six of the eight pairs of a positive and a negative entry are in the right order:

    >>> from naim3l.metrics import micro_auc
    >>> micro_auc([[1, 0], [0, 1], [0, 0]], [[0.9, 0.1], [0.2, 0.5], [0.6, 0.7]])
    0.75
    """
    return _measure(ScoredLabels.micro_auc, y_true, scores, sample_weight)


@_metric("From 0 to 1, larger is better.", threshold=True)
def macro_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Mean over labels of F1, 0 for a label neither positive nor predicted anywhere.

    Labels without an observed entry are left out. With no unknown entry this is ``f1_score``
    with ``average="macro", zero_division=0``.

    Examples
    --------
    F1 is 1 for the first label and 2/3 for the second:

    >>> from naim3l.metrics import macro_f1
    >>> round(macro_f1([[1, 0], [0, 1]], [[0.9, 0.1], [-0.2, 0.5]]), 2)
    0.83
    """
    return _measure(ScoredLabels.macro_f1, y_true, scores, sample_weight, threshold)


@_metric("From 0 to 1, larger is better.", threshold=True)
def micro_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """F1 of all observed entries pooled, 0 where none is positive or predicted.

    With no unknown entry this is ``f1_score`` with ``average="micro", zero_division=0``.

    Examples
    --------
    Both positives are among the three predicted labels:

    >>> from naim3l.metrics import micro_f1
    >>> micro_f1([[1, 0], [0, 1]], [[0.9, 0.1], [-0.2, 0.5]])
    0.8
    """
    return _measure(ScoredLabels.micro_f1, y_true, scores, sample_weight, threshold)


@_metric("From 0 to 1, larger is better.", threshold=True)
def example_f1(
    y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
) -> float:
    """Mean over rows of F1, 0 for a row with nothing positive and nothing predicted.

    Rows without an observed entry are left out. With no unknown entry this is ``f1_score``
    with ``average="samples", zero_division=0``.

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


def read_scored(
    y_true: Any, scores: Any, sample_weight: Any = None, threshold: Any = 0.0
) -> tuple[ScoredLabels, NDArray[np.float64]]:
    """Labels and scores of one table, and weights of shape (1, n_rows); see `naim3l.metrics`."""
    Y, S = _as_floats(y_true, "y_true"), _as_floats(scores, "scores")
    if Y.shape != S.shape:
        raise ValueError(f"y_true has shape {Y.shape}, scores have {S.shape}; they must agree.")
    positive, negative = Y == 1, Y == 0
    bad = ~(positive | negative | np.isnan(Y))
    _refuse(bad, y_true, "y_true", "1 (yes), 0 (no) and NaN (unknown)")
    _refuse(~np.isfinite(S), scores, "scores", "finite numbers")
    S = S[:, _label_order(y_true, scores)]
    return ScoredLabels(positive, negative, S, threshold), _read_weights(sample_weight, len(S))


def _check_same_views(y_true: Any, scores: Any, sample_weight: Any) -> None:
    """Refuse anything but mappings that have the same views; weights may be None."""
    if not (isinstance(y_true, Mapping) and isinstance(scores, Mapping) and y_true):
        raise ValueError("y_true and scores must be two tables, or two mappings of >= 1 view.")
    given = {"scores": scores}
    if sample_weight is not None:
        if not isinstance(sample_weight, Mapping):
            raise ValueError("sample_weight must be a mapping of views, as y_true and scores are.")
        given["sample_weight"] = sample_weight
    for name, tables in given.items():
        only_one = [v for v in {**y_true, **tables} if v not in y_true or v not in tables]
        if only_one:
            raise ValueError(
                f"y_true and {name} must have the same views; not in both: {only_one}."
            )


def _read_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Weights of shape (1, n_rows), all 1 for None."""
    if sample_weight is None:
        return np.ones((1, n_rows))
    shape = np.shape(sample_weight)
    if shape != (n_rows,):
        raise ValueError(f"sample_weight must be (n_rows,) = ({n_rows},), got shape {shape}.")
    weights = _to_floats(_as_array(sample_weight))
    bad = ~(np.isfinite(weights) & (weights >= 0))
    _refuse(bad, sample_weight, "sample_weight", "finite numbers from 0 up")
    return weights[None]


def _label_order(y_true: Any, scores: Any) -> Any:
    """Columns of the scores in the order of the labels, by name if both are named frames."""
    names, given = (list(getattr(table, "columns", [])) for table in (y_true, scores))
    named = names and given and all(isinstance(name, str) for name in names + given)
    if not named or names == given:
        return slice(None)
    if set(names) != set(given):
        raise ValueError(f"y_true has the labels {names}, scores have {given}; they must agree.")
    return [given.index(name) for name in names]


def _as_array(values: Any) -> NDArray[Any]:
    """Real numbers unchanged, anything else as Python objects, so that errors can quote it."""
    dense = values.toarray() if sparse.issparse(values) else values
    raw = np.asarray(dense)
    return raw if raw.dtype.kind in "biuf" else np.asarray(dense, dtype=object)


def _as_floats(values: Any, name: str) -> NDArray[np.float64]:
    """Float table in which null is NaN, and values that are not numbers are infinite."""
    raw = _as_array(values)
    if raw.ndim != 2:
        advice = "; for a single label use reshape(-1, 1)" if raw.ndim == 1 else ""
        raise ValueError(f"{name} must be (n_rows, n_labels), got shape {raw.shape}{advice}.")
    return _to_floats(raw)


def _to_floats(raw: NDArray[Any]) -> NDArray[np.float64]:
    if raw.dtype.kind == "O":
        raw = np.frompyfunc(_as_float, 1, 1)(raw)
    return raw.astype(np.float64)


def _as_float(value: Any) -> float:
    if isinstance(value, (numbers.Real, np.bool_)):
        return float(value)
    is_null = value is None or type(value).__name__ == "NAType"  # the second is pandas.NA
    return np.nan if is_null else np.inf


def _refuse(bad: NDArray[np.bool_], values: Any, name: str, allowed: str) -> None:
    """Raise an error that names the first bad entry, if there is one."""
    if bad.any():
        place = np.unravel_index(np.argmax(bad), bad.shape)
        value = _as_array(values)[place]
        value = value.item() if isinstance(value, np.generic) else value
        where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), place, strict=False))
        raise ValueError(f"{name} has {value!r} in {where}; allowed are {allowed}.")
