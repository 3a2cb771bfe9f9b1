"""One function for each metric, one for all of them, and scorers for scikit-learn.

Labels, scores and weights may be of any library; errors name the entry that cannot be used.
"""

import inspect
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from naim3l._arrays import Mask, Matrix
from naim3l._text import documented
from naim3l._warnings import warn_user
from naim3l.input.batches import Batch
from naim3l.input.labels import USUAL_WORDS, LabelledRows, label_batch
from naim3l.metrics.measures import MEASURES, PROTOCOLS, Metric, ScoredLabels


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
        Scores, larger for labels that are more likely, and finite: leave out rows that lack the
        view. The labels of two data frames are matched by name, those of arrays by position.
    protocol : <protocols>, default="paper"
        How to treat rows on which a metric is undefined. "paper" leaves them out. "fused", as in
        later papers, counts the average precision of a row without a positive as 0.
    threshold : float, default=0.0
        Score above which a label is predicted, for <decisions>; 0.5 for probabilities.
    sample_weight : array-like of shape (n_rows,), or mapping {view: array-like}, optional
        Weights of the rows, by view if there are views; by default all rows have weight 1.

    Returns
    -------
    dict of str to float
        Values by name: <measures>. "AUC" is `naim3l.metrics.adapted_auc`. Larger is better, except
        for <losses>. A metric that is undefined in a view is NaN.

    Examples
    --------
    >>> from naim3l import evaluate
    >>> found = evaluate([[1, 0, 0], [0, 1, None]], [[0.5, -0.1, 0.8], [-0.2, 0.9, 0.3]])
    >>> round(found["AP"], 2), round(found["macro-F1"], 2)
    (0.75, 0.67)
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol is {protocol!r}; known are: {', '.join(map(repr, PROTOCOLS))}.")
    metrics = {name: PROTOCOLS[protocol].get(name, of.compute) for name, of in MEASURES.items()}

    def measure(Y: Any, S: Any, w: Any = None) -> dict[str, float]:
        labels, weights = _read_scored(Y, S, w, threshold)
        return {name: metric(labels, weights).item() for name, metric in metrics.items()}

    given = {"y_true": y_true, "scores": scores, "sample_weight": sample_weight}
    if sample_weight is None:
        del given["sample_weight"]
    if not any(isinstance(tables, Mapping) for tables in given.values()):
        return measure(*given.values())
    per_view = []
    for view in _same_views(given):
        try:
            per_view.append(measure(*(tables[view] for tables in given.values())))
        except ValueError as error:
            raise ValueError(f"view {view!r}: {error}") from error
    return {name: float(np.mean([values[name] for values in per_view])) for name in metrics}


def _same_views(given: dict[str, Any]) -> list[str]:
    """Views of mappings of tables, which must be the same."""
    names = ", ".join(given)
    if not all(isinstance(tables, Mapping) and tables for tables in given.values()):
        raise ValueError(f"{names} must all be tables, or all mappings of one view or more.")
    views = list(dict.fromkeys(view for tables in given.values() for view in tables))
    for name, tables in given.items():
        if lacking := [view for view in views if view not in tables]:
            raise ValueError(f"{names} must have the same views; {name} lacks {lacking}.")
    return views


_DOCSTRING = """<definition>

Parameters
----------
y_true : array-like of shape (n_rows, n_labels)
    Labels: 1 is yes, 0 is no, NaN or null is unknown.
scores : array-like of shape (n_rows, n_labels)
    Scores, larger for labels that are more likely.
<threshold>sample_weight : array-like of shape (n_rows,), optional
    Weights of the rows; by default all rows have weight 1.

Returns
-------
float
    From <span> is better. NaN if nothing can be measured.

Examples
--------
>>> from naim3l.metrics import <name>
>>> y_true = [[1, 0, 0], [0, 1, None]]
>>> scores = [[0.5, -0.1, 0.8], [-0.2, 0.9, 0.3]]
>>> round(<name>(y_true, scores), 2)
<value>
"""
_THRESHOLD = """threshold : float, default=0.0
    Score above which a label is predicted; 0.5 for probabilities.
"""
_LABELS, _WEIGHTS = "1 (yes), 0 (no) and NaN (unknown)", "finite numbers from 0 up"


def _public(
    metric: Metric, span: str, value: float, *, decides: bool = False
) -> Callable[..., float]:
    """The public function of a metric, with its range and its value for the example."""

    def of_scores(y_true: Any, scores: Any, *, sample_weight: Any = None) -> float:
        return metric(*_read_scored(y_true, scores, sample_weight)).item()

    def of_decisions(
        y_true: Any, scores: Any, *, threshold: float = 0.0, sample_weight: Any = None
    ) -> float:
        return metric(*_read_scored(y_true, scores, sample_weight, threshold)).item()

    function = of_decisions if decides else of_scores
    _describe(function, metric, span=span, value=str(value), threshold=_THRESHOLD * decides)
    return function


def _describe(function: Any, metric: Any, **texts: str) -> None:
    """Give a public function the name and the definition of the metric that it computes."""
    function.__name__ = function.__qualname__ = metric.__name__
    if metric.__doc__:  # Python leaves docstrings out with -OO
        texts |= {"definition": inspect.cleandoc(metric.__doc__), "name": metric.__name__}
        function.__doc__ = _DOCSTRING
        documented(**texts)(function)


_SHARE, _LOSS = "0 to 1, larger", "0 to 1, lower"
hamming_loss = _public(ScoredLabels.hamming_loss, _LOSS, 0.2, decides=True)
ranking_loss = _public(ScoredLabels.ranking_loss, _LOSS, 0.25)
average_precision = _public(ScoredLabels.average_precision, _SHARE, 0.75)
adapted_auc = _public(ScoredLabels.adapted_auc, _SHARE, 0.88)
coverage = _public(ScoredLabels.coverage, "1 to n_labels, lower", 1.5)
one_error = _public(ScoredLabels.one_error, _LOSS, 0.5)
macro_auc = _public(ScoredLabels.macro_auc, _SHARE, 1.0)
micro_auc = _public(ScoredLabels.micro_auc, _SHARE, 0.83)
macro_f1 = _public(ScoredLabels.macro_f1, _SHARE, 0.67, decides=True)
micro_f1 = _public(ScoredLabels.micro_f1, _SHARE, 0.8, decides=True)
example_f1 = _public(ScoredLabels.example_f1, _SHARE, 0.83, decides=True)


def make_scorer(metric: str) -> "LabelScorer":
    """Scorer that skips unknown labels, for ``scoring=`` of `GridSearchCV` or `cross_val_score`.

    Parameters
    ----------
    metric : str
        One of the keys that `evaluate` returns. Those that depend on a threshold are computed from
        the model's decisions, all others from its scores. Metrics of which less is better are
        negated, because scikit-learn maximises.

    Returns
    -------
    callable
        ``scorer(model, X, y)`` is the metric of a fitted model, or of a pipeline that ends in one,
        for a wide table. Rows without any view are left out.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from naim3l import NAIM3L, datasets, join_views
    >>> data = datasets.make_unpaired(60, aligned=True, random_state=0)
    >>> wide, views = join_views(data.views)
    >>> model, scorer = NAIM3L(views=views), make_scorer("macro-AUC")
    >>> cross_val_score(model, wide, data.labels["view0"], scoring=scorer).shape
    (5,)
    """
    if metric not in MEASURES:
        raise ValueError(f"metric is {metric!r}; known are: {', '.join(map(repr, MEASURES))}.")
    return LabelScorer(metric)


@dataclass(frozen=True)
class LabelScorer:
    """What `make_scorer` returns."""

    metric: str

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        measure, truth = MEASURES[self.metric], _truth(model, y)
        scores = _columns(model.decision_function(X))
        present = np.asarray(~np.isnan(scores).any(axis=1))
        scores = scores[present]
        if measure.of_decisions and present.any():
            scores = _columns(model.predict(Batch(X, "X").take_rows(present).data))
        value = evaluate(truth[present], scores)[self.metric]
        return -value if measure.lower_is_better else value


def _truth(model: Any, labels: Any) -> Matrix:
    """Labels as 1, 0 and NaN, in the order of the model's where both have names."""
    batch, one_column = label_batch(labels, "y")
    truth = LabelledRows.of(batch, USUAL_WORDS, one_column=one_column).truth
    names, classes = batch.columns, list(model.classes_)
    if names is None or set(names) != set(classes):
        return truth
    return truth[:, [names.index(name) for name in classes]]


def _columns(values: Any) -> Matrix:
    """Scores or decisions of shape (n_rows, n_labels), whatever their container."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _read_scored(
    y_true: Any, scores: Any, sample_weight: Any, threshold: Any = None
) -> tuple[ScoredLabels, Matrix]:
    """Labels and scores of one table, and weights of shape (1, n_rows); see `naim3l.metrics`.

    Warns of probabilities where a threshold of 0 decides; None if nothing is decided.
    """
    Y = read_floats(y_true, "y_true", None, _LABELS, lambda y: np.isnan(y) | (y == 0) | (y == 1))
    S = read_floats(scores, "scores", Y.shape, "finite numbers", np.isfinite)
    w = np.ones(len(Y)) if sample_weight is None else sample_weight
    w = read_floats(w, "sample_weight", Y.shape[:1], _WEIGHTS, lambda w: (w >= 0) & (w < np.inf))
    in_range, between = (S >= 0) & (S <= 1), (S > 0) & (S < 1)
    if threshold == 0 and in_range.all() and between.any():  # predictions are 0 and 1 alone
        warn_user(
            "scores: all are from 0 to 1, like probabilities, but threshold=0 predicts every label "
            "above 0; give threshold=0.5 for probabilities."
        )
    ordered = S[:, _label_order(y_true, scores)]
    return ScoredLabels(Y == 1, Y == 0, ordered, threshold or 0.0), w[None]


def read_floats(
    values: Any, name: str, shape: Any, allowed: str, is_allowed: Callable[[Matrix], Mask]
) -> Matrix:
    """Floats in which null is NaN; errors name the first entry that is not allowed."""
    dense = values.toarray() if sparse.issparse(values) else values
    raw = np.asarray(dense)
    if raw.dtype.kind not in "biuf":  # Python objects, so that the error can quote them
        raw = np.asarray(dense, dtype=object)
    expected = (*raw.shape, 0, 0)[:2] if shape is None else shape
    if raw.shape != expected:
        needed = "(n_rows, n_labels)" if shape is None else str(shape)
        advice = "; for a single label use reshape(-1, 1)" if raw.ndim == 1 < len(expected) else ""
        raise ValueError(f"{name} must be {needed}, got shape {raw.shape}{advice}.")
    floats = (np.frompyfunc(_as_float, 1, 1)(raw) if raw.dtype == object else raw).astype(float)
    bad = ~is_allowed(floats)
    if bad.any():
        place = np.unravel_index(np.argmax(bad), bad.shape)
        value = raw[place].item() if isinstance(raw[place], np.generic) else raw[place]
        where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), place, strict=False))
        raise ValueError(f"{name} has {value!r} in {where}; allowed are {allowed}.")
    return floats


def _as_float(value: Any) -> float:
    if isinstance(value, (numbers.Real, np.bool_)):
        return float(value)
    return np.nan if value is None or type(value).__name__ == "NAType" else np.inf  # pandas.NA


def _label_order(y_true: Any, scores: Any) -> Any:
    """Columns of the scores in the order of the labels, by name if both are named frames."""
    names, given = (list(getattr(table, "columns", [])) for table in (y_true, scores))
    named = names and given and all(isinstance(name, str) for name in names + given)
    if not named or names == given:
        return slice(None)
    if set(names) != set(given):
        raise ValueError(f"y_true has the labels {names}, scores have {given}; they must agree.")
    return [given.index(name) for name in names]
