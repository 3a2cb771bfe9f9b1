"""Multi-label metrics that skip unknown labels.

Conventions, the same for every function here:

- ``y_true`` of shape (n_rows, n_labels) holds 1 = yes, 0 = no, NaN (or null) = unknown;
- ``scores`` of the same shape are finite, larger = more relevant; a label is predicted where
  ``score > threshold``;
- an unknown entry is skipped, never guessed: each row is ranked and counted over its observed
  labels, as if the others did not exist in it, and the scores of the others do not matter;
- where nothing is left to measure the value is NaN.

Both arguments may be NumPy arrays, SciPy sparse arrays, data frames or nested lists.
"""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def hamming_loss(y_true: Any, scores: Any, *, threshold: float = 0.0) -> float:
    """Share of observed entries whose predicted label is wrong.

    A score equal to the threshold is a "no". With no unknown entry this is scikit-learn's
    ``hamming_loss``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    """
    table = _read(y_true, scores)
    wrong = (table.scores > threshold) != table.positive
    return _mean(wrong[table.observed])


def ranking_loss(y_true: Any, scores: Any) -> float:
    """Mean over rows of the share of (positive, negative) pairs in the wrong order.

    A tie is an error. Rows that lack positives or negatives are left out; scikit-learn's
    ``label_ranking_loss`` counts them as 0 and agrees otherwise.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    row, rank, hits = table.ranked_positives
    n_wrong = np.bincount(row, rank - hits, minlength=len(table.scores))
    n_pairs = table.positive.sum(axis=1) * table.negative.sum(axis=1)
    return _mean(n_wrong[n_pairs > 0] / n_pairs[n_pairs > 0])


def average_precision(y_true: Any, scores: Any) -> float:
    """Mean over rows of the mean precision at the rank of each positive.

    Tied labels share the last of their ranks. Rows that lack positives or negatives are left
    out; scikit-learn's ``label_ranking_average_precision_score`` counts them as 1 and agrees
    otherwise.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    row, rank, hits = table.ranked_positives
    precision = np.bincount(row, hits / rank, minlength=len(table.scores))
    kept = table.positive.any(axis=1) & table.negative.any(axis=1)
    return _mean(precision[kept] / table.positive.sum(axis=1)[kept])


def adapted_auc(y_true: Any, scores: Any) -> float:
    """Area under the curve drawn by the T best-scored labels of every row, T = 1..n_labels.

    For each T the T best labels of a row (all of them where fewer are observed) are called
    positive and TP and FP are pooled over all rows; the trapezoid area under (FPR, TPR) is
    divided by ``FPR(n_labels) - FPR(1)``. Ties are broken by column order. NaN without an
    observed positive, or where the curve has no width (one label, no negatives). It is
    neither the macro nor the micro AUC.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    _, positive, negative = table.best_first
    tp, fp = np.cumsum(positive.sum(axis=0)), np.cumsum(negative.sum(axis=0))
    if not tp.size or tp[-1] == 0 or fp[-1] == fp[0]:
        return float("nan")
    # FPR is fp / fp[-1] in the area and in the divisor alike, so fp[-1] cancels.
    return float(np.trapezoid(tp / tp[-1], fp) / (fp[-1] - fp[0]))


def coverage(y_true: Any, scores: Any) -> float:
    """Mean number of best-scored labels to take until all positives of a row are among them.

    Tied labels share the last of their ranks. Rows without a positive are left out;
    scikit-learn's ``coverage_error`` counts them as 0 and agrees otherwise.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    lowest = np.min(table.scores, axis=1, where=table.positive, initial=np.inf)
    depth = (table.observed & (table.scores >= lowest[:, None])).sum(axis=1)
    return _mean(depth[table.positive.any(axis=1)])


def one_error(y_true: Any, scores: Any) -> float:
    """Share of rows whose best-scored label is not positive.

    A tie is an error: where several labels share the best score all must be positive, so the
    order of the columns does not matter. Rows without a positive are left out.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    best_positive = np.max(table.scores, axis=1, where=table.positive, initial=-np.inf)
    best_negative = np.max(table.scores, axis=1, where=table.negative, initial=-np.inf)
    return _mean((best_negative >= best_positive)[table.positive.any(axis=1)])


def macro_auc(y_true: Any, scores: Any) -> float:
    """Mean over labels of the area under the ROC curve, a tie counting one half.

    Labels observed in one class only are left out. Otherwise as scikit-learn's
    ``roc_auc_score`` with ``average="macro"``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    columns = zip(table.scores.T, table.positive.T, table.negative.T, strict=True)
    areas = [_roc_auc(s[positive], s[negative]) for s, positive, negative in columns]
    return _mean([area for area in areas if not np.isnan(area)])


def micro_auc(y_true: Any, scores: Any) -> float:
    """Area under the ROC curve of all observed entries pooled, a tie counting one half.

    With no unknown entry this is ``roc_auc_score`` with ``average="micro"``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    """
    table = _read(y_true, scores)
    return _roc_auc(table.scores[table.positive], table.scores[table.negative])


def macro_f1(y_true: Any, scores: Any, *, threshold: float = 0.0) -> float:
    """Mean over labels of F1, 0 for a label neither positive nor predicted anywhere.

    Labels without an observed entry are left out. With no unknown entry this is ``f1_score``
    with ``average="macro", zero_division=0``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    """
    return _mean(_f1(_read(y_true, scores), threshold, axis=0))


def micro_f1(y_true: Any, scores: Any, *, threshold: float = 0.0) -> float:
    """F1 of all observed entries pooled, 0 where none is positive or predicted.

    With no unknown entry this is ``f1_score`` with ``average="micro", zero_division=0``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    """
    return _mean(_f1(_read(y_true, scores), threshold, axis=None))


def example_f1(y_true: Any, scores: Any, *, threshold: float = 0.0) -> float:
    """Mean over rows of F1, 0 for a row with nothing positive and nothing predicted.

    Rows without an observed entry are left out. With no unknown entry this is ``f1_score``
    with ``average="samples", zero_division=0``.

    Parameters
    ----------
    y_true, scores : array-like of shape (n_rows, n_labels)
    threshold : float
    """
    return _mean(_f1(_read(y_true, scores), threshold, axis=1))


def evaluate(
    y_true: Any, scores: Any, *, protocol: str = "paper", threshold: float = 0.0
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

    Returns
    -------
    dict of str to float
        "1-HL", "1-RL", "AP", "AUC" (the adapted one), "coverage", "one-error", "macro-AUC",
        "micro-AUC", "macro-F1", "micro-F1" and "example-F1". Larger is better, except for
        "coverage" and "one-error".
    """
    if protocol not in _PROTOCOLS:
        known = ", ".join(repr(name) for name in _PROTOCOLS)
        raise ValueError(f"protocol is {protocol!r}; the known ones are: {known}.")
    compute = _PROTOCOLS[protocol]
    if not isinstance(y_true, Mapping) and not isinstance(scores, Mapping):
        return compute(_read(y_true, scores), threshold)
    _check_same_views(y_true, scores)
    per_view = []
    for view in y_true:
        try:
            per_view.append(compute(_read(y_true[view], scores[view]), threshold))
        except ValueError as error:
            raise ValueError(f"view {view!r}: {error}") from error
    return {name: _mean([values[name] for values in per_view]) for name in per_view[0]}


@dataclass(frozen=True)
class _Table:
    """Checked input, each array of shape (n_rows, n_labels), and its sort, made at most once."""

    positive: NDArray[np.bool_]
    negative: NDArray[np.bool_]
    scores: NDArray[np.float64]

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        return self.positive | self.negative

    @cached_property
    def best_first(self) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Negated scores, positives, negatives; each row sorted, its unknown entries last."""
        keys = np.where(self.observed, -self.scores, np.inf)
        order = np.argsort(keys, axis=1, kind="stable")  # ties by column order
        keys, positive, negative = (
            np.take_along_axis(table, order, axis=1)
            for table in (keys, self.positive, self.negative)
        )
        return keys, positive, negative

    @cached_property
    def ranked_positives(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """For each positive: its row, and how many labels / positives score at least as high."""
        keys, positive, _ = self.best_first
        last = np.ones(keys.shape, dtype=bool)  # the last label of each group of ties
        last[:, :-1] = keys[:, :-1] != keys[:, 1:]
        n_labels = keys.shape[1]
        ends = np.where(last, np.arange(n_labels), n_labels)
        ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        row, position = np.nonzero(positive)
        end = ends[row, position]
        hits = np.cumsum(positive, axis=1, dtype=np.intp)[row, end]
        return row, end + 1, hits


def _read(y_true: Any, scores: Any) -> _Table:
    """Checked arrays; a table that was read before passes through, so `evaluate` sorts once."""
    if isinstance(y_true, _Table):
        return y_true
    Y = _as_floats(y_true, "y_true")
    S = _as_floats(scores, "scores")[..., _label_order(y_true, scores)]
    if Y.shape != S.shape:
        raise ValueError(f"y_true has shape {Y.shape}, scores have {S.shape}; they must agree.")
    positive, negative = Y == 1, Y == 0
    bad = ~(positive | negative | np.isnan(Y))
    _refuse(bad, y_true, "y_true", "1 (yes), 0 (no) and NaN (unknown)")
    _refuse(~np.isfinite(S), scores, "scores", "finite numbers")
    return _Table(positive, negative, S)


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
    """Real numbers as they are, anything else as Python objects, so that errors can quote it."""
    dense = values.toarray() if sparse.issparse(values) else values
    raw = np.asarray(dense)
    return raw if raw.dtype.kind in "biuf" else np.asarray(dense, dtype=object)


def _as_floats(values: Any, name: str) -> NDArray[np.float64]:
    """Float table in which null is NaN and what is not a number is infinite."""
    raw = _as_array(values)
    if raw.ndim != 2:
        advice = "; for a single label use reshape(-1, 1)" if raw.ndim == 1 else ""
        raise ValueError(f"{name} must be (n_rows, n_labels), got shape {raw.shape}{advice}.")
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
        i, j = np.unravel_index(np.argmax(bad), bad.shape)
        value = _as_array(values)[i].tolist()[j]
        raise ValueError(f"{name} has {value!r} in row {i}, column {j}; allowed are {allowed}.")


def _check_same_views(y_true: Any, scores: Any) -> None:
    if not (isinstance(y_true, Mapping) and isinstance(scores, Mapping) and y_true):
        raise ValueError("y_true and scores must be two tables, or two mappings of >= 1 view.")
    only_one = [view for view in {**y_true, **scores} if view not in y_true or view not in scores]
    if only_one:
        raise ValueError(f"y_true and scores must have the same views; not in both: {only_one}.")


def _mean(values: Any) -> float:
    """Plain mean, NaN of nothing, without NumPy's warning."""
    return float(np.mean(values)) if np.size(values) else float("nan")


def _roc_auc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Share of (positive, negative) pairs of scores in the right order; a tie is one half."""
    if not positive.size or not negative.size:
        return float("nan")
    negative = np.sort(negative)
    positive = np.sort(positive)  # neighbouring searches then touch neighbouring memory
    below = np.searchsorted(negative, positive, side="left")
    not_above = np.searchsorted(negative, positive, side="right")
    return float((below.sum() + not_above.sum()) / (2 * positive.size * negative.size))


def _f1(table: _Table, threshold: float, axis: int | None) -> NDArray[np.float64]:
    """F1 along an axis, 0 where undefined, without the rows or labels that are all unknown."""
    predicted = table.observed & (table.scores > threshold)
    n_right = (predicted & table.positive).sum(axis=axis)
    n_called = predicted.sum(axis=axis) + table.positive.sum(axis=axis)
    return (2 * n_right / np.maximum(n_called, 1))[table.observed.any(axis=axis)]


def _paper(table: _Table, threshold: float) -> dict[str, float]:
    S = table.scores
    return {
        "1-HL": 1 - hamming_loss(table, S, threshold=threshold),
        "1-RL": 1 - ranking_loss(table, S),
        "AP": average_precision(table, S),
        "AUC": adapted_auc(table, S),
        "coverage": coverage(table, S),
        "one-error": one_error(table, S),
        "macro-AUC": macro_auc(table, S),
        "micro-AUC": micro_auc(table, S),
        "macro-F1": macro_f1(table, S, threshold=threshold),
        "micro-F1": micro_f1(table, S, threshold=threshold),
        "example-F1": example_f1(table, S, threshold=threshold),
    }


def _fused(table: _Table, threshold: float) -> dict[str, float]:
    metrics = _paper(table, threshold)
    kept = (table.positive.any(axis=1) & table.negative.any(axis=1)).sum()
    empty = (table.observed.any(axis=1) & ~table.positive.any(axis=1)).sum()
    if empty:
        metrics["AP"] = float(np.nan_to_num(metrics["AP"]) * kept / (kept + empty))
    return metrics


_PROTOCOLS: dict[str, Callable[[_Table, float], dict[str, float]]] = {
    "paper": _paper,
    "fused": _fused,
}
