"""The training data of a model: sizes and missing entries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l.decisions.quality import MEAN
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import view_kernels
from naim3l.features.column_uses import CONSTANT
from naim3l.input.views import FUSED
from naim3l.report.judged import truth_of

# Rows are drawn in at most this many groups.
MAP_ROWS = 60


def describe_data(model: LinearViewModel, X: Any, y: Any) -> dict[str, Any]:
    """Sizes and missing ratios of the training tables.

    Parameters
    ----------
    model : fitted model
    X, y : tables and label tables of the fit

    Returns
    -------
    dict
        "form", "n_rows" and "unknown" (share of label entries) over all tables, "views" (a dict for
        each), "labels" (numbers of known yes and no and share of unknown entries, over all tables),
        and "maps", one for each label table: "name", "n_rows", "unknown" (shares by group of rows
        and label) and "lacking" (for each view, the share of rows without it in each group).
    """
    truth = _read_truth(model, X, y)
    scores = model.view_scores(X)
    present = {view: np.asarray(~np.isnan(S).any(axis=1)) for view, S in scores.items()}
    # A wide table has one label table, and all of its views are drawn next to it.
    if model.reader_.wide:
        groups = {"all views": (truth[model.views_[0]], present)}
    else:
        groups = {view: (truth[view], {view: present[view]}) for view in scores}
    stacked = np.concatenate([labels for labels, _ in groups.values()])
    return {
        "form": model.reader_.form_,
        "n_rows": len(stacked),
        "n_labels": stacked.shape[1],
        "unknown": float(np.isnan(stacked).mean()),
        "lacking": float(1 - np.mean(np.concatenate(list(present.values())))),
        "views": [_describe_view(model, view, present[view], truth[view]) for view in scores],
        "labels": [
            {"label": name} | count
            for name, count in zip(model.label_names_, count_entries(stacked), strict=True)
        ],
        "maps": [_map(name, labels, has) for name, (labels, has) in groups.items()],
    }


def _read_truth(model: LinearViewModel, X: Any, y: Any) -> dict[str, Matrix]:
    labels = model.reader_.labels(X, y)
    return {view: truth_of(model, table) for view, table in labels.items()}


def count_entries(truth: Matrix) -> list[dict[str, Any]]:
    """Numbers of known yes and no, and the share of unknown entries, for each label."""
    yes, no = (truth == 1).sum(axis=0), (truth == 0).sum(axis=0)
    unknown = np.isnan(truth).mean(axis=0)
    return [
        {"yes": int(y), "no": int(n), "unknown": float(u)}
        for y, n, u in zip(yes, no, unknown, strict=True)
    ]


def count_by_block(model: LinearViewModel, X: Any, y: Any) -> dict[str, list[dict[str, Any]]]:
    """`count_entries` for the rows of each view, and of all views together.

    The latter are those of the mean over views, and of fused answers.
    """
    truth = _read_truth(model, X, y)
    if model.reader_.wide:
        return {FUSED: count_entries(next(iter(truth.values())))}
    together = count_entries(np.concatenate(list(truth.values())))
    counts = {view: count_entries(labels) for view, labels in truth.items()}
    return counts | {MEAN: together, FUSED: together}


def _describe_view(
    model: LinearViewModel,
    view: str,
    present: NDArray[np.bool_],
    truth: Matrix,
) -> dict[str, Any]:
    known, kernel = truth[present], view_kernels(model)[view]
    return {
        "name": view,
        "n_rows": len(present),
        "n_present": int(present.sum()),
        "lacking": float(1 - present.mean()),
        "n_columns": model.reader_.n_columns(view),
        "n_features": int(model.coef_[view].shape[0]),
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "unknown": float(np.isnan(known).mean()) if known.size else None,
        "dropped": _dropped(model, view),
    }


def _dropped(model: LinearViewModel, view: str) -> list[str]:
    """Columns that the view's recipe dropped because they are constant."""
    return [use.name for use in model.columns_[view] if use.reason == CONSTANT]


def _map(name: str, truth: Matrix, present: dict[str, NDArray[np.bool_]]) -> dict[str, Any]:
    groups = np.array_split(np.arange(len(truth)), min(MAP_ROWS, len(truth)))
    return {
        "name": name,
        "n_rows": len(truth),
        "unknown": [np.isnan(truth[rows]).mean(axis=0).round(3).tolist() for rows in groups],
        "lacking": {
            view: [round(float(1 - has[rows].mean()), 3) for rows in groups]
            for view, has in present.items()
        },
    }
