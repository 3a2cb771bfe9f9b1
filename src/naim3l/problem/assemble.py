"""The problem of all views, from their features and labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.input.labels import check_observed
from naim3l.input.reader import View
from naim3l.input.tables import warn_of_rows
from naim3l.problem.rows import Problem


def assemble(
    views: Mapping[str, View],
    encoded: Mapping[str, tuple[Any, NDArray[np.bool_]]],
    label_names: Sequence[str],
    *,
    wide: bool,
    **options: Any,
) -> Problem:
    """Problem of the rows that have their view.

    Parameters
    ----------
    views : mapping of str to View
    encoded : mapping of str to (features, present)
        Results of `naim3l.features.encoding.ViewFeatures`.
    label_names : sequence of str
    wide : bool
        Whether rows of different views with the same number are one sample.
    **options
        ``fit_intercept`` and ``positive_weight`` of `Problem`.
    """
    present = {view: rows for view, (_, rows) in encoded.items()}
    observed = {view: views[view].signed[rows] for view, rows in present.items()}
    samples = None
    if wide:
        if not (anywhere := np.any(list(present.values()), axis=0)).all():
            warn_of_rows(~anywhere, "have no view at all and are left out")
        samples = np.concatenate([np.flatnonzero(rows) for rows in present.values()])
    check_observed(observed, label_names, wide=wide)
    features, labels = [X for X, _ in encoded.values()], list(observed.values())
    return Problem(features, labels, names=list(views), samples=samples, **options)
