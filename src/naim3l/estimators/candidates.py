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

LabelArrays = Mapping[str, NDArray[np.floating]]
Model = TypeVar("Model", bound=ViewModel)


def best_on_held_out(
    candidates: Sequence[Model],
    X: Mapping[str, Any],
    labels: LabelArrays,
    *,
    share: float = 0.2,
    metric: str = AUTO,
    random_state: Any = None,
) -> Model:
    """The candidate that is best on held-out entries, fitted again on all entries.

    Parameters
    ----------
    candidates : sequence of unfitted models
    X : mapping of str to table
    labels : mapping of str to ndarray, 1 / 0 / NaN = unknown
    share : float
        Share of each label's positives, and of its negatives, to hold out in each view; the
        numbers of entries are rounded down.
    metric : str
        As in `naim3l.estimators.naim3l_cv.NAIM3LCV`.
    random_state : int, RandomState or None
    """
    check_metric(metric)
    rng = check_random_state(random_state)
    kept, held_out = {}, {}
    for view, Y in labels.items():
        # Negatives are drawn first, so that a seed keeps choosing the same entries.
        hidden = hold_out_share(Y, share, rng, values=(0, 1))
        kept[view], held_out[view] = np.where(hidden, np.nan, Y), np.where(hidden, Y, np.nan)
    metric = choose_metric(metric, [np.concatenate(list(held_out.values()))])
    values = []
    for model in candidates:
        scores = clone(model).fit(X, kept).decision_function(X)
        values.append(mean_defined(measure(held_out[view], scores[view], metric) for view in X))
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few of them are known. "
            "Use another metric, or a larger share."
        )
    best = np.nanargmin(values) if metric in LOWER_IS_BETTER else np.nanargmax(values)
    return clone(candidates[int(best)]).fit(X, labels)
