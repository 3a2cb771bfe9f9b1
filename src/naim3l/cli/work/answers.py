"""Predictions, filled-in labels and metrics of a fitted model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logit

from naim3l.cli.work.row_ids import (
    check_id_names,
    free_name,
    name_rows,
    warn_of_empty_rows,
    warn_of_rows_without_ids,
    warn_of_unmatched,
)
from naim3l.cli.work.study import ViewData, split
from naim3l.decisions.fusion import LEAST_PROBABILITY, fuse
from naim3l.decisions.rules import thresholds_of
from naim3l.estimators.linear import LinearViewModel
from naim3l.files.readers import ReadError
from naim3l.input.labels import CODINGS
from naim3l.input.views import FUSED
from naim3l.metrics import evaluate
from naim3l.metrics.scored import OF_DECISIONS

KINDS = ("labels", "scores", "probabilities")
# Labels, scores, and how far the scores are above the thresholds: frames of the same rows.
Judged = tuple[Any, ...]


def predict_tables(
    model: LinearViewModel,
    X: Mapping[str, Any],
    kind: str = "labels",
    *,
    fused: bool = False,
    decide: str | None = None,
) -> Any:
    """Predictions in one data frame, a row per row; ids, or numbers of rows, are the index.

    Parameters
    ----------
    model : fitted model
    X : mapping of view to table, as `read_new` gives
    kind : {"labels", "scores", "probabilities"}
    fused : bool
        One row per id: what its views add to the frequency of a label is added up, see
        `naim3l.fuse`; scores are then log-odds. Otherwise, with several views, a first column names
        the view. It is called "view", or "view_" where that is a label or an id.
    decide : str, optional
        Another rule for labels than the model's.
    """
    check_id_names(X, model.label_names_)
    if kind == "probabilities":
        _check_calibrated(model)
    model.set_output(transform="pandas")
    warn_of_empty_rows(X)
    if fused:
        return _fused(model, X, kind, decide)
    if kind == "probabilities":
        return _stacked(model.predict_proba(X))
    scores = model.decision_function(X)
    return _stacked(scores if kind == "scores" else _decided(model, scores, decide))


def _decided(
    model: LinearViewModel, scores: Mapping[str, Any], decide: str | None
) -> dict[str, Any]:
    """Labels as `predict` gives them, but unknown in rows that have no value."""
    at = thresholds_of(decide, model.thresholds_, model.rules_)
    yes, no, _ = CODINGS[model.reader_.label_coding][0]
    decided = {}
    for view, table in scores.items():
        labels = table.gt(at[view]).astype("int64") * int(yes - no) + int(no)
        known = table.notna()
        decided[view] = labels if known.all(axis=None) else labels.astype("Int64").where(known)
    return decided


def _fused(model: LinearViewModel, X: Mapping[str, Any], kind: str, decide: str | None) -> Any:
    for view, table in X.items():
        if table.index.name is None:  # rows would be joined by their places
            raise ReadError(
                f"view {view!r}: its rows have no ids to join them by; name the column with --id."
            )
    warn_of_unmatched(X)
    probabilities, scores, margins = fuse_rows(model, model.decision_function(X), decide)
    yes = (margins > 0).astype("Int64").where(margins.notna())  # unknown where no view has a cell
    fused = {"labels": yes, "scores": scores, "probabilities": probabilities}[kind]
    return name_rows(fused, [table.index.name for table in X.values()])


def fuse_rows(
    model: LinearViewModel, scores: Mapping[str, Any], decide: str | None = None
) -> tuple[Any, Any, Any]:
    """Probabilities, scores, and margins above the thresholds of all ids that some view has.

    Evidence of calibrated probabilities is added up, scores are the log-odds of that, and
    thresholds are the means of what those of an id's views come to in log-odds: an id with one
    view is decided on as in that view. A model without calibration has no probabilities (None),
    and takes means of scores and of margins.

    Parameters
    ----------
    model : fitted model
    scores : mapping of view to DataFrame of shape (n_rows, n_labels)
        Ids are the index.
    decide : str, optional
        Another rule than the model's.

    Returns
    -------
    probabilities, scores, margins : DataFrame of shape (n_ids, n_labels)
    """
    at = thresholds_of(decide, model.thresholds_, model.rules_)
    if not model.calibrate:
        margins = {view: table - at[view] for view, table in scores.items()}
        return None, fuse(scores), fuse(margins)
    curves = {view: model.calibration_[view] for view in scores}
    probabilities = fuse(
        {view: curves[view].probabilities(table) for view, table in scores.items()},
        base_rates=model.base_rates_,
    )
    log_odds = logit(probabilities.clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
    thresholds = {}
    for view, table in scores.items():
        # A view whose scores say nothing about a label has no part in its threshold.
        informative = np.where(curves[view].slope == 0, np.nan, 1)
        # The product keeps ids, and unknown the rows that lack the view.
        thresholds[view] = 0 * table + informative * curves[view].log_odds(at[view])
    # Where no view is informative, nothing speaks for a yes: the margin is 0.
    return probabilities, log_odds, log_odds - fuse(thresholds).fillna(log_odds)


def _stacked(tables: Mapping[str, Any]) -> Any:
    import pandas as pd

    names = [table.index.name for table in tables.values()]
    if len(tables) == 1:
        return name_rows(next(iter(tables.values())), names)
    warn_of_rows_without_ids(tables)
    first = next(iter(tables.values()))
    column = free_name("view", {*first.columns, *names}, "names of views are")
    parts = []
    for view, table in tables.items():
        part = table.copy()
        part.insert(0, column, view)
        parts.append(part)
    return name_rows(pd.concat(parts), names)


def impute(
    model: LinearViewModel, data: Mapping[str, ViewData], min_confidence: float | None = None
) -> dict[str, Any]:
    """Labels of each view with the unknown ones filled in, as by `impute_labels`.

    Beside each label are its confidence, in a column with "_confidence" behind the name, and
    whether it was filled in, 1 or 0, in one with "_filled"; "_" is added to names that are taken.
    The confidence is the probability of the value that was filled in, 1 where the label was known,
    and missing where it stays unknown.

    Parameters
    ----------
    model : fitted model
    data : mapping of view to ViewData
    min_confidence : float, optional
        Labels whose most probable value is less probable stay unknown.
    """
    import pandas as pd

    X, Y = split(data)
    check_id_names(X, model.label_names_)
    _check_calibrated(model)
    filled, probabilities = model.impute_labels(X, Y, min_confidence), model.predict_proba(X)
    tables = {}
    for name, labels in Y.items():
        columns: dict[str, Any] = {}
        taken = {*labels.columns, labels.index.name}
        for label in labels.columns:
            value, yes = filled[name][label], np.asarray(probabilities[name][label])
            known = labels[label].notna()
            columns[label] = value.astype("Int64")  # whole numbers, even beside missing ones
            sure = np.where(known, 1.0, np.where(value == 1, yes, 1 - yes))
            beside = {
                "confidence": (np.where(value.isna(), np.nan, sure), "confidences"),
                "filled": ((~known & value.notna()).astype(int), "marks of filled-in labels"),
            }
            for word, (cells, what) in beside.items():
                column = free_name(f"{label}_{word}", taken, f"{what} of {label!r} are")
                taken.add(column)
                columns[column] = cells
        tables[name] = name_rows(pd.DataFrame(columns, index=labels.index), [labels.index.name])
    return tables


def _check_calibrated(model: LinearViewModel) -> None:
    if not model.calibrate:
        raise ReadError("this model has no probabilities; fit it with calibrate=True.")


def evaluate_views(model: LinearViewModel, data: Mapping[str, ViewData]) -> dict[str, Any]:
    """Metrics of predictions on known labels.

    Returns
    -------
    dict
        "views": all metrics of `naim3l.evaluate` by view, decisions at the model's thresholds, and
        under "fused" where two views share ids. "labels": known yes and no, AUC and F1 of each
        label over the rows of all views. "labels_by_view": the same by view and label.
    """
    import pandas as pd

    model.set_output(transform="pandas")
    X, Y = split(data)
    rows: dict[str, Judged] = {}
    for name, scores in model.decision_function(X).items():
        present = scores.notna().all(axis=1)  # rows that lack the view have no score
        margins = scores - model.thresholds_[name]
        tables = (Y[name][model.label_names_], scores, margins)
        rows[name] = tuple(table[present] for table in tables)
    if not any(judged[0].notna().to_numpy().any() for judged in rows.values()):
        raise ReadError("no label is known in these tables, so there is nothing to compare with.")
    together = tuple(pd.concat(list(tables)) for tables in zip(*rows.values(), strict=True))
    fused = _judged_fused(model, rows)
    if fused is not None:
        rows[FUSED] = fused
    return {
        "views": {name: _measure(of_view) for name, of_view in rows.items()},
        "labels": _by_label(together),
        "labels_by_view": {name: _by_label(of_view) for name, of_view in rows.items()},
    }


def _judged_fused(model: LinearViewModel, rows: Mapping[str, Judged]) -> Judged | None:
    """Rows of all views that have ids, joined by them; None if no id is in two views."""
    import pandas as pd

    named = {name: judged for name, judged in rows.items() if judged[0].index.name is not None}
    if len(named) < 2:
        return None
    _, scores, margins = fuse_rows(model, {name: judged[1] for name, judged in named.items()})
    if len(scores) == sum(len(judged[0]) for judged in named.values()):
        return None
    left_out = [name for name in rows if name not in named]
    warn_of_unmatched({name: judged[1] for name, judged in named.items()}, left_out)
    known = pd.concat([judged[0] for judged in named.values()]).groupby(level=0).max()
    return known.loc[scores.index], scores, margins.loc[scores.index]


def _measure(judged: Judged) -> dict[str, float]:
    """All metrics; labels are ranked by scores, and decided on by margins above the thresholds."""
    Y, S, margins = (table.to_numpy() for table in judged)
    decided = evaluate(Y, margins)
    return evaluate(Y, S) | {name: decided[name] for name in OF_DECISIONS}


def _by_label(judged: Judged) -> dict[str, dict[str, Any]]:
    """Known yes and no, AUC and F1 of each label."""
    numbers = {}
    for name, known in judged[0].items():
        values = _measure(tuple(table[[name]] for table in judged))
        counts = {"yes": int((known == 1).sum()), "no": int((known == 0).sum())}
        numbers[name] = counts | {"AUC": values["macro-AUC"], "F1": values["macro-F1"]}
    return numbers
