"""Models of any kind on observed label entries that are held out of their fits."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from naim3l._arrays import Mask
from naim3l.decisions import held_out
from naim3l.estimators.base import ViewModel
from naim3l.input.views import FUSED
from naim3l.problem.rows import Problem

# Labels of separate tables, by view, or of one wide table: 1, 0, NaN = unknown.
LabelArrays = Mapping[str, NDArray[np.floating]] | NDArray[np.floating]
Tables = Mapping[str, NDArray[Any]]  # by view; one wide table under ``FUSED``


def best_on_held_out(candidates: Sequence[ViewModel], X: Any, labels: Any, **options: Any) -> Any:
    """The candidate that is best on held-out entries, fitted again on all entries."""
    best, _ = compare_on_held_out(candidates, X, labels, **options)
    return clone(candidates[best]).fit(X, labels)


def compare_on_held_out(
    candidates: Sequence[ViewModel],
    X: Any,
    labels: LabelArrays,
    *,
    share: float = 0.2,
    cv: int | None = None,
    metric: str = held_out.AUTO,
    random_state: Any = None,
) -> tuple[int, list[float]]:
    """Position of the best candidate, the first of several, and the metric of each.

    Parameters
    ----------
    candidates : sequence of unfitted models
        Models to compare; they are cloned.
    X : mapping of str to table, or one wide table
        As ``fit`` of the models takes it.
    labels : mapping of str to ndarray, or one ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown, in the form of ``X``.
    share : float, default=0.2
        Share of each label's positives, and of its negatives, to hold out, rounded down.
    cv : int, optional
        Number of folds in which all entries are held out in turn, instead of a share of them.
    metric : str, default="auto"
        As in `naim3l.NAIM3LCV`; the mean over tables, and then over folds.
    random_state : int, RandomState or None, default=None
        Determines which entries are held out.

    Returns
    -------
    best : int
        Position among the candidates.
    values : list of float
        NaN if the objective of a candidate is unbounded below, or the metric is undefined.

    Examples
    --------
    >>> from naim3l import PerViewRidge, datasets
    >>> from naim3l.extend import compare_on_held_out
    >>> data = datasets.make_unpaired(90, n_features=(9, 8), n_labels=4, noise=0.5, random_state=0)
    >>> models = [PerViewRidge(1e6), PerViewRidge(1.0)]
    >>> options = {"metric": "log-loss", "random_state": 0}
    >>> best, _ = compare_on_held_out(models, data.views, data.labels, **options)
    >>> models[best].ridge
    1.0
    """
    tables, rng = _tables(labels), check_random_state(random_state)
    if cv is None:
        # Negatives are drawn first, so that a seed keeps choosing the same entries.
        draw = partial(held_out.hold_out_share, share=share, rng=rng, values=(0, 1))
        parts = [{view: draw(Y) for view, Y in tables.items()}]
    else:
        parts = _folds(tables, cv, rng)
    truths = [_where(hidden, tables, shown=True) for hidden in parts]
    every = [np.concatenate(list(truth.values())) for truth in truths]
    metric, mean, values = held_out.choose_metric(metric, every), held_out.mean_defined, []
    for model in candidates:
        value = np.nan
        with suppress(FloatingPointError):  # its objective is unbounded below
            found = [_scores_without(model, X, labels, hidden) for hidden in parts]
            value = mean(
                mean(held_out.measure(truth[view], scores[view], metric) for view in truth)
                for truth, scores in zip(truths, found, strict=True)
            )
        values.append(value)
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few of them are known, "
            "or no candidate could be fitted. Use another metric, a larger share, or candidates "
            "with more regularisation."
        )
    best = np.nanargmin(values) if metric in held_out.LOWER_IS_BETTER else np.nanargmax(values)
    return int(best), values


def score_held_out(
    model: ViewModel, X: Any, labels: LabelArrays, *, cv: int = 3, random_state: Any = None
) -> Any:
    """Score of each known entry by a fit without it.

    Parameters
    ----------
    model : unfitted model
        It is cloned.
    X : mapping of str to table, or one wide table
        As ``fit`` of the model takes it.
    labels : mapping of str to ndarray, or one ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown, in the form of ``X``.
    cv : int, default=3
        Number of folds in which entries are held out in turn.
    random_state : int, RandomState or None, default=None
        Determines the folds.

    Returns
    -------
    dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
        Scores in the form of the labels; NaN where they are unknown, and for a label's only
        positive in a table, which is never held out.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l import PerViewRidge, datasets
    >>> from naim3l.extend import score_held_out
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), missing_labels=0.5, random_state=0)
    >>> scores = score_held_out(PerViewRidge(), data.views, data.labels, random_state=0)
    >>> bool((np.isnan(scores["view0"]) == np.isnan(data.labels["view0"])).all())
    True
    """
    tables = _tables(labels)
    found = {view: np.full(Y.shape, np.nan) for view, Y in tables.items()}
    for hidden in _folds(tables, cv, check_random_state(random_state)):
        for view, scores in _scores_without(model, X, labels, hidden).items():
            found[view][hidden[view]] = scores[hidden[view]]
    return found if isinstance(labels, Mapping) else found[FUSED]


def _folds(tables: Tables, n_folds: int, rng: np.random.RandomState) -> list[dict[str, Mask]]:
    """Masks by table of the entries of each fold."""
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in tables.values()]
    problem = Problem([np.zeros((len(Y), 1)) for Y in signed], signed)
    fold_of = held_out.hold_out_folds(problem, n_folds, rng, entries=True)
    return [
        {view: fold_of[rows] == fold for view, rows in zip(tables, problem.row_slices, strict=True)}
        for fold in range(n_folds)
    ]


def _where(entries: Mapping[str, Mask], tables: Tables, *, shown: bool) -> dict[str, NDArray]:
    """Labels of the marked entries alone, or of all others."""
    return {view: np.where(entries[view] == shown, Y, np.nan) for view, Y in tables.items()}


def _scores_without(model: ViewModel, X: Any, labels: Any, hidden: Mapping[str, Mask]) -> Tables:
    """Scores of all rows by a fit without the marked entries, by table."""
    kept = _where(hidden, _tables(labels), shown=False)
    fitted = clone(model).fit(X, kept if isinstance(labels, Mapping) else kept[FUSED])
    return _tables(fitted.decision_function(X))


def _tables(of_form: Any) -> Tables:
    return of_form if isinstance(of_form, Mapping) else {FUSED: of_form}
