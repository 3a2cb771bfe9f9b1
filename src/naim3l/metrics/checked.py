"""Labels, scores and weights of any library as checked arrays."""

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.metrics.scored import ScoredLabels


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


def check_same_views(y_true: Any, scores: Any, sample_weight: Any) -> None:
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
