"""Metrics as scorers, for the model selection of scikit-learn."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.input.batches import Batch
from naim3l.input.labels import USUAL_WORDS, LabelledRows, label_batch
from naim3l.input.views import is_separate
from naim3l.metrics.functions import evaluate
from naim3l.metrics.measures import MEASURES


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
        averaged over the views of a mapping of tables. Rows that lack the view are left out. It
        can be pickled.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from naim3l import NAIM3L, join_views
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, aligned=True, random_state=0)
    >>> wide, views = join_views(data.views)
    >>> model = NAIM3L(views=views)
    >>> scorer = make_scorer("macro-AUC")
    >>> cross_val_score(model, wide, data.labels["view0"], scoring=scorer).shape
    (5,)
    """
    if metric not in MEASURES:
        raise ValueError(
            f"metric is {metric!r}; the known ones are: {', '.join(map(repr, MEASURES))}."
        )
    return LabelScorer(metric)


@dataclass(frozen=True)
class LabelScorer:
    """What `make_scorer` returns."""

    metric: str

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        values = [evaluate(*tables)[self.metric] for tables in self._tables(model, X, y)]
        sign = -1 if MEASURES[self.metric].lower_is_better else 1
        return sign * float(np.mean(values))

    def _tables(self, model: Any, X: Any, y: Any) -> Iterator[tuple[NDArray, NDArray]]:
        """Labels, and scores or decisions, of the rows of each view that have it."""
        scores = model.decision_function(X)
        for view in X if is_separate(X) else [None]:
            rows, labels, S = (X, y, scores) if view is None else (X[view], y[view], scores[view])
            where = "y" if view is None else f"view {view!r}"
            truth, S = _truth(model, labels, where), _columns(S)
            present = np.asarray(~np.isnan(S).any(axis=1))
            if MEASURES[self.metric].of_decisions and present.any():
                rows = Batch(rows, where).take_rows(present).data
                decided = model.predict(rows) if view is None else model.predict({view: rows})[view]
                yield truth[present], _columns(decided)
            else:
                yield truth[present], S[present]


def _truth(model: Any, labels: Any, where: str) -> NDArray[np.float64]:
    """Labels as 1, 0 and NaN, in the order of the model's where both have names."""
    batch, one_column = label_batch(labels, where)
    signed = LabelledRows.of(batch, USUAL_WORDS, one_column=one_column).signed
    truth = np.where(signed == 0, np.nan, signed > 0)
    names, classes = batch.columns, list(model.classes_)
    if names is None or names == classes or set(names) != set(classes):
        return truth
    return truth[:, [names.index(name) for name in classes]]


def _columns(values: Any) -> NDArray[np.float64]:
    """Scores or decisions of shape (n_rows, n_labels), whatever their container."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, 1) if array.ndim == 1 else array
