"""Choosing among models of any kind on observed label entries held out of their fits."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from naim3l.base import ViewModel
from naim3l.metrics import evaluate
from naim3l.parameters import check_choice

LabelArrays = Mapping[str, NDArray[np.floating]]
Model = TypeVar("Model", bound=ViewModel)

METRICS = tuple(evaluate([[1, 0]], [[1, 0]]))
LOWER_IS_BETTER = ("coverage", "one-error")


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
    metric: str = "AP",
    random_state: Any = None,
) -> Model:
    """The candidate with the highest metric on held-out entries, fitted again on all of them.

    Parameters
    ----------
    candidates : sequence of unfitted models
    X : mapping of str to table
    labels : mapping of str to ndarray, 1 / 0 / NaN = unknown
    share, random_state
        See `hold_out_entries`.
    metric : str
        Key of the dict that `naim3l.evaluate` returns. For "coverage" and "one-error" the lowest
        value is taken, for others the highest.
    """
    check_choice("metric", metric, METRICS)
    kept, held_out = hold_out_entries(labels, share, random_state=random_state)
    values = [
        evaluate(held_out, clone(model).fit(X, kept).decision_function(X))[metric]
        for model in candidates
    ]
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few entries, or labels. "
            "Take another metric or a larger share."
        )
    best = np.nanargmin(values) if metric in LOWER_IS_BETTER else np.nanargmax(values)
    return clone(candidates[int(best)]).fit(X, labels)
