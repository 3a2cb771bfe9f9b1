"""All methods of the package on one's own tables, measured on whole rows that are held out."""

import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state

from naim3l._progress import progress_bar
from naim3l.decisions.bootstrap_metrics import half_width
from naim3l.estimators.blend import BlendNAIM3L
from naim3l.estimators.boosting import PerViewBoosting
from naim3l.estimators.linear import PerViewLogistic, PerViewRidge
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.estimators.subspace import LabelSubspaceRidge
from naim3l.input.batches import id_groups
from naim3l.input.labels import decode_labels
from naim3l.input.sources import any_chunked
from naim3l.input.views import is_separate
from naim3l.metrics.functions import evaluate

GUESSING, RIDGE = "guessing", "ridge"
COMPARED = ("macro-AUC", "AP", "1-HL")
LOG_LOSS = "log-loss"


def all_methods(random_state: Any = 0, features: Any = "auto") -> dict[str, Any]:
    """The methods of `compare_methods`, unfitted, by name; each has probabilities."""
    given: dict[str, Any] = {"decide": "half", "random_state": random_state}
    given["features"] = features
    coupled, subspace = NAIM3LCV(**given), LabelSubspaceRidge(**given)
    members = [("coupled", clone(coupled)), ("subspace", clone(subspace))]
    return {
        RIDGE: PerViewRidge(**given),
        "logistic": PerViewLogistic(**given),
        "boosting": PerViewBoosting(**given),
        "subspace": subspace,
        "NAIM3L": coupled,
        "half and half": BlendNAIM3L(
            members, weights="equal", decide="half", random_state=random_state
        ),
    }


def compare_methods(
    X: Mapping[str, Any],
    y: Mapping[str, Any],
    methods: Mapping[str, Any] | None = None,
    *,
    n_folds: int = 5,
    random_state: Any = 0,
    verbose: int = 0,
) -> Iterator[dict[str, Any]]:
    """Fit methods to one's own tables, and measure each on whole rows that it has not seen.

    Rows are divided into folds, those of one id together, and each method is fitted without each
    fold. Parameters are chosen, and probabilities learned, inside of each fit.

    Parameters
    ----------
    X, y : mapping of view to table
        Tables in memory, apart, and their labels, as for `NAIM3LCV`.
    methods : mapping of str to estimator, optional
        By default guessing, ridge and logistic regression and boosting of each table alone,
        `LabelSubspaceRidge`, `NAIM3LCV`, and the mean of the log-odds of the last two.
    n_folds : int, default=5
        Number of folds, at least 2.
    random_state : int, RandomState instance or None, default=0
        Deals rows to folds.
    verbose : int, default=0
        Show a progress bar.

    Yields
    ------
    dict
        One for each method when it is measured: its name as ``method``, seconds of processor time,
        ``means`` of "macro-AUC", "AP", "1-HL" and "log-loss" over views and folds, and ``gains``
        over the first method after guessing: value, low and high ends of 95 % intervals.

    Examples
    --------
    >>> from naim3l.datasets import make_patients
    >>> from naim3l.estimators import PerViewRidge, compare_methods
    >>> data = make_patients(200, random_state=0)
    >>> methods = {"ridge": PerViewRidge(decide="half")}
    >>> found = compare_methods(data.views, data.labels, methods, n_folds=2)
    >>> [(of["method"], round(of["means"]["macro-AUC"], 1)) for of in found]
    [('guessing', 0.5), ('ridge', 0.7)]
    """
    if not (is_separate(X) and is_separate(y)) or any_chunked(X):
        raise TypeError("compare_methods takes mappings of tables in memory, X and y.")
    methods = all_methods(random_state) if methods is None else methods
    folds = _deal(X, n_folds, check_random_state(random_state))
    y, first = _alike(y), None
    truths = {view: np.asarray(decode_labels(of), dtype=float) for view, of in y.items()}
    with progress_bar("compare", n_folds * len(methods), shown=verbose > 0) as advance:
        for name in (GUESSING, *methods):
            start, of_folds = time.process_time(), []
            for fold in range(n_folds):
                test = {view: of == fold for view, of in folds.items()}
                left = {view: of[~test[view]] for view, of in truths.items()}
                if name == GUESSING:
                    P = {view: _rates(left[view], test[view].sum()) for view in X}
                else:
                    P = _predict(methods[name], X, y, test)
                    advance(name)
                of_folds.append(_measure({v: truths[v][rows] for v, rows in test.items()}, P))
            seconds = time.process_time() - start
            if name != GUESSING and first is None:
                first = of_folds
            yield {
                "method": name,
                "seconds": seconds,
                "means": {key: _mean([of[key] for of in of_folds]) for key in of_folds[0]},
                "gains": _gains(of_folds, first) if first not in (None, of_folds) else {},
            }


def _deal(X: Mapping[str, Any], n_folds: int, rng: Any) -> dict[str, NDArray[np.intp]]:
    """Fold of each row, by view; rows of one id are in one fold."""
    sizes = [len(table) if hasattr(table, "iloc") else np.shape(table)[0] for table in X.values()]
    groups = id_groups(list(X.values()))
    if groups is None:
        groups = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    n_groups = max(int(of.max(initial=0)) for of in groups) + 1
    if not 2 <= n_folds <= n_groups:
        raise ValueError(f"n_folds must be 2 to {n_groups}, the number of samples, got {n_folds}.")
    fold_of = rng.permutation(n_groups) % n_folds
    return {view: fold_of[of] for view, of in zip(X, groups, strict=True)}


def _alike(y: Mapping[str, Any]) -> dict[str, Any]:
    """Label tables, of which data frames all have the labels of any of them."""
    if not all(hasattr(of, "reindex") and hasattr(of, "columns") for of in y.values()):
        return dict(y)
    names = list(dict.fromkeys(name for of in y.values() for name in of.columns))
    return {view: of.reindex(columns=names) for view, of in y.items()}


def _rates(Y: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
    """Share of yes of each label, of two more entries, for so many rows."""
    rates = (np.nansum(Y, axis=0) + 1) / (np.isfinite(Y).sum(axis=0) + 2)
    return np.tile(rates, (n_rows, 1))


def _take(tables: Mapping[str, Any], rows: Mapping[str, NDArray[np.bool_]]) -> dict[str, Any]:
    return {view: _safe_indexing(of, np.flatnonzero(rows[view])) for view, of in tables.items()}


def _predict(method: Any, X: Any, y: Any, test: Mapping[str, NDArray[np.bool_]]) -> Any:
    """Probabilities of the rows of a fold by a fit to the others."""
    left = {view: ~rows for view, rows in test.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` gives them once, for all rows
        model = clone(method).fit(_take(X, left), _take(y, left))
    found = model.predict_proba(_take(X, test))
    return {view: np.asarray(of) for view, of in found.items()}


def _measure(truths: Mapping[str, Any], P: Mapping[str, Any]) -> dict[str, float]:
    """Measures of probabilities, means over views; rows without an answer do not count."""
    answered = {view: np.isfinite(of).all(axis=1) for view, of in P.items()}
    truths = {view: of[answered[view]] for view, of in truths.items()}
    P = {view: np.clip(of[answered[view]], 1e-15, 1 - 1e-15) for view, of in P.items()}
    found = evaluate(truths, P, threshold=0.5)
    losses = [
        -np.nanmean(xlogy(of, P[view]) + xlogy(1 - of, 1 - P[view])) for view, of in truths.items()
    ]
    return {name: found[name] for name in COMPARED} | {LOG_LOSS: _mean(losses)}


def _mean(values: list[float]) -> float:
    known = [of for of in values if np.isfinite(of)]
    return float(np.mean(known)) if known else float("nan")


def _gains(of_folds: Any, first: Any) -> dict[str, dict[str, float]]:
    """Mean differences to the first method, and intervals of Nadeau and Bengio."""
    found = {}
    for key in first[0]:
        pairs = zip(of_folds, first, strict=True)
        gains = np.array([a[key] - b[key] for a, b in pairs])
        value, half = float(gains.mean()), half_width(gains)
        found[key] = {"value": value, "low": value - half, "high": value + half}
    return found
