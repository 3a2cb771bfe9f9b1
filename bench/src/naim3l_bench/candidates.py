"""Models of any kind on observed label entries that are held out of their fits."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit
from sklearn.base import clone
from sklearn.utils import check_random_state

from naim3l import evaluate
from naim3l.extend import fit_calibration
from naim3l_bench.arrays import Mask
from naim3l_bench.challenge import hold_out_share

LOG_LOSS, WIDE = "log-loss", ""  # a metric; the name of one wide table
# Labels of separate tables, by view, or of one wide table: 1, 0, NaN = unknown.
LabelArrays = Mapping[str, NDArray[np.floating]] | NDArray[np.floating]
Tables = Mapping[str, NDArray[Any]]  # by view; one wide table under ``WIDE``


def compare_on_held_out(
    candidates: Sequence[Any],
    X: Any,
    labels: LabelArrays,
    *,
    metric: str,
    share: float = 0.2,
    cv: int | None = None,
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
    metric : str
        "log-loss" under the best calibration curves, or a key of `naim3l.evaluate` of which more is
        better; the mean over tables, and then over folds.
    share : float, default=0.2
        Share of each label's positives, and of its negatives, to hold out, rounded down.
    cv : int, optional
        Number of folds in which all entries are held out in turn, instead of a share of them.
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
    >>> from naim3l_bench.candidates import compare_on_held_out
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
        draw = partial(hold_out_share, share=share, rng=rng, values=(0, 1))
        parts = [{view: draw(Y) for view, Y in tables.items()}]
    else:
        parts = _folds(tables, cv, rng)
    truths, values = [_where(hidden, tables, shown=True) for hidden in parts], []
    for model in candidates:
        value = np.nan
        with suppress(FloatingPointError):  # its objective is unbounded below
            found = [_scores_without(model, X, labels, hidden) for hidden in parts]
            value = _mean(
                _mean(_measure(truth[view], scores[view], metric) for view in truth)
                for truth, scores in zip(truths, found, strict=True)
            )
        values.append(value)
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few of them are known, "
            "or no candidate could be fitted. Use another metric, a larger share, or candidates "
            "with more regularisation."
        )
    best = np.nanargmin(values) if metric == LOG_LOSS else np.nanargmax(values)
    return int(best), values


def score_held_out(
    model: Any, X: Any, labels: Tables, *, cv: int = 3, random_state: Any = None
) -> Tables:
    """Score of each known entry by a fit without it, by view.

    Scores are NaN where labels are unknown, and for a label's only positive in a table, which is
    never held out. Parameters are those of `compare_on_held_out`.
    """
    found = {view: np.full(Y.shape, np.nan) for view, Y in labels.items()}
    for hidden in _folds(labels, cv, check_random_state(random_state)):
        for view, scores in _scores_without(model, X, labels, hidden).items():
            found[view][hidden[view]] = scores[hidden[view]]
    return found


def _measure(truth: NDArray[Any], scores: NDArray[Any], metric: str) -> float:
    """A metric of one table (n_rows, n_labels) of held-out entries."""
    if metric != LOG_LOSS:
        return evaluate(truth, scores)[metric]
    log_odds, known = fit_calibration(scores, truth).log_odds(scores), np.isfinite(truth)
    losses = -log_expit(np.where(truth > 0, log_odds, -log_odds)[known])
    return float(losses.mean()) if known.any() else np.nan


def _mean(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN; NaN if all are."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else np.nan


def _folds(tables: Tables, n_folds: int, rng: np.random.RandomState) -> list[dict[str, Mask]]:
    """Masks by table of the entries of each fold; those of each label and value take turns."""
    fold_of, turn = {view: np.full(Y.shape, -1) for view, Y in tables.items()}, 0
    for view, Y in tables.items():
        for k, column in enumerate(Y.T):
            for value in (1, 0):
                rows = rng.permutation(np.flatnonzero(column == value))
                fold_of[view][rows, k] = (turn + np.arange(len(rows))) % n_folds
                turn += len(rows)
            # All positives of a label are never held out together.
            positive = column == 1
            if len(np.unique(fold_of[view][positive, k])) == 1:
                fold_of[view][positive, k] = -1
    return [{view: of == fold for view, of in fold_of.items()} for fold in range(n_folds)]


def _where(entries: Mapping[str, Mask], tables: Tables, *, shown: bool) -> dict[str, NDArray]:
    """Labels of the marked entries alone, or of all others."""
    return {view: np.where(entries[view] == shown, Y, np.nan) for view, Y in tables.items()}


def _scores_without(model: Any, X: Any, labels: Any, hidden: Mapping[str, Mask]) -> Tables:
    """Scores of all rows by a fit without the marked entries, by table."""
    kept = _where(hidden, _tables(labels), shown=False)
    fitted = clone(model).fit(X, kept if isinstance(labels, Mapping) else kept[WIDE])
    return _tables(fitted.decision_function(X))


def _tables(of_form: Any) -> Tables:
    return of_form if isinstance(of_form, Mapping) else {WIDE: of_form}
