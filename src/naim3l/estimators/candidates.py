"""Choosing among models of any kind on observed label entries held out of their fits."""

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
    mean_defined,
    measure,
)
from naim3l.estimators.base import ViewModel

LabelArrays = Mapping[str, NDArray[np.floating]]
Model = TypeVar("Model", bound=ViewModel)


def hold_out_entries(
    labels: LabelArrays, share: float = 0.2, *, random_state: Any = None
) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Observed label entries divided in two: those to fit on, and those held out.

    Entries, not rows, are drawn, positives and negatives of each label alike, so that a rare
    label is neither lost to the fit nor to the test.

    Parameters
    ----------
    labels : mapping of str to ndarray of shape (n_rows, n_labels)
        1 / 0 / NaN = unknown.
    share : float
        Of the observed entries of each label in each view, rounded down.
    random_state : int, RandomState or None

    Returns
    -------
    kept, held_out : dict of str to ndarray
        Label tables of the same shapes; each observed entry is known in exactly one of them.
    """
    rng = check_random_state(random_state)
    kept, held_out = {}, {}
    for view, Y in labels.items():
        hidden = np.zeros(Y.shape, dtype=bool)
        for k in range(Y.shape[1]):
            for value in (0, 1):
                rows = rng.permutation(np.flatnonzero(Y[:, k] == value))
                hidden[rows[: int(share * len(rows) + 1e-9)], k] = True
        kept[view] = np.where(hidden, np.nan, Y)
        held_out[view] = np.where(hidden, Y, np.nan)
    return kept, held_out


def best_on_held_out(
    candidates: Sequence[Model],
    X: Mapping[str, Any],
    labels: LabelArrays,
    *,
    share: float = 0.2,
    metric: str = AUTO,
    random_state: Any = None,
) -> Model:
    """The candidate that is best on held-out entries, fitted again on all of them.

    Parameters
    ----------
    candidates : sequence of unfitted models
    X : mapping of str to table
    labels : mapping of str to ndarray, 1 / 0 / NaN = unknown
    share, random_state
        See `hold_out_entries`.
    metric : str
        As in `naim3l.estimators.naim3l_cv.NAIM3LCV`.
    """
    check_metric(metric)
    kept, held_out = hold_out_entries(labels, share, random_state=random_state)
    metric = choose_metric(metric, [np.concatenate(list(held_out.values()))])
    values = []
    for model in candidates:
        scores = clone(model).fit(X, kept).decision_function(X)
        values.append(mean_defined(measure(held_out[view], scores[view], metric) for view in X))
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few of them are known. "
            "Take another metric, or a larger share."
        )
    best = np.nanargmin(values) if metric in LOWER_IS_BETTER else np.nanargmax(values)
    return clone(candidates[int(best)]).fit(X, labels)
