"""Choice among models of any kind on observed label entries held out of their fits."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from naim3l.decisions.held_out import (
    AUTO,
    LOWER_IS_BETTER,
    check_metric,
    choose_metric,
    hold_out_share,
    mean_defined,
    measure,
)
from naim3l.estimators.base import ViewModel
from naim3l.input.views import FUSED

# Labels of tables apart, by view, or of one wide table: 1, 0, NaN = unknown.
LabelArrays = Mapping[str, NDArray[np.floating]] | NDArray[np.floating]
Model = TypeVar("Model", bound=ViewModel)


def best_on_held_out(
    candidates: Sequence[Model],
    X: Any,
    labels: LabelArrays,
    *,
    share: float = 0.2,
    metric: str = AUTO,
    random_state: Any = None,
) -> Model:
    """The candidate that is best on held-out entries, fitted again on all entries.

    Parameters
    ----------
    candidates, X, labels, share, metric, random_state
        As in `compare_on_held_out`.
    """
    options: dict[str, Any] = {"share": share, "metric": metric, "random_state": random_state}
    best, _ = compare_on_held_out(candidates, X, labels, **options)
    return clone(candidates[best]).fit(X, labels)


def compare_on_held_out(
    candidates: Sequence[ViewModel],
    X: Any,
    labels: LabelArrays,
    *,
    share: float = 0.2,
    metric: str = AUTO,
    random_state: Any = None,
) -> tuple[int, list[float]]:
    """Position of the best candidate, the first of several, and the metric of each.

    Parameters
    ----------
    candidates : sequence of unfitted models
    X : mapping of str to table, or one wide table
    labels : mapping of str to ndarray, or one ndarray; 1 / 0 / NaN = unknown
        In the form of ``X``.
    share : float
        Share of each label's positives, and of its negatives, to hold out in each table; the
        numbers of entries are rounded down.
    metric : str
        As in `naim3l.estimators.naim3l_cv.NAIM3LCV`.
    random_state : int, RandomState or None

    Returns
    -------
    best : int
    values : list of float
        NaN if the objective of a candidate is unbounded below, or the metric is undefined.
    """
    check_metric(metric)
    rng = check_random_state(random_state)
    kept, held_out = {}, {}
    for view, Y in _tables(labels).items():
        # Negatives are drawn first, so that a seed keeps choosing the same entries.
        hidden = hold_out_share(Y, share, rng, values=(0, 1))
        kept[view], held_out[view] = np.where(hidden, np.nan, Y), np.where(hidden, Y, np.nan)
    metric = choose_metric(metric, [np.concatenate(list(held_out.values()))])
    values = []
    for model in candidates:
        try:
            fitted = clone(model).fit(X, kept if isinstance(labels, Mapping) else kept[FUSED])
        except FloatingPointError:
            values.append(np.nan)
            continue
        scores = _tables(fitted.decision_function(X))
        values.append(mean_defined(measure(Y, scores[v], metric) for v, Y in held_out.items()))
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few of them are known, "
            "or no candidate could be fitted. Use another metric, a larger share, or candidates "
            "with more regularisation."
        )
    best = np.nanargmin(values) if metric in LOWER_IS_BETTER else np.nanargmax(values)
    return int(best), values


def _tables(of_form: Any) -> Mapping[str, NDArray[Any]]:
    """Tables by view; one wide table under ``FUSED``."""
    return of_form if isinstance(of_form, Mapping) else {FUSED: of_form}
