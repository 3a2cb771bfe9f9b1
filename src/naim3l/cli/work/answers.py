"""Predictions, filled-in labels and metrics of a fitted model."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from naim3l._text import plain
from naim3l._warnings import warn_user
from naim3l.cli.work.row_ids import (
    check_id_names,
    free_name,
    name_rows,
    warn_of_empty_rows,
    warn_of_rows_without_ids,
    warn_of_unmatched,
)
from naim3l.cli.work.study import ViewData, split
from naim3l.decisions.quality import measure
from naim3l.decisions.rules import thresholds_of
from naim3l.estimators.linear import LinearViewModel
from naim3l.files.readers import ReadError
from naim3l.input.labels import CODINGS
from naim3l.input.views import FUSED
from naim3l.report.judged import fuse_rows, read_blocks

KINDS = ("labels", "scores", "probabilities")


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
    prepare_answers(model, X, kind)
    warn_of_empty_rows(X)
    if fused:
        return _fused(model, X, kind, decide)
    return _stacked(predict_views(model, X, kind, decide))


def prepare_answers(model: LinearViewModel, X: Mapping[str, Any], kind: str) -> None:
    """Refuse what a model cannot answer; its answers will be data frames.

    Parameters
    ----------
    model : fitted model
    X : mapping of view to table
        Which may have no rows.
    kind : str
        As in `predict_tables`.
    """
    check_id_names(X, model.label_names_)
    if kind == "probabilities":
        check_calibrated(model)
    model.set_output(transform="pandas")


def predict_views(
    model: LinearViewModel, X: Mapping[str, Any], kind: str, decide: str | None
) -> Mapping[str, Any]:
    """Predictions of each view, parameters as in `predict_tables`."""
    if kind == "probabilities":
        return model.predict_proba(X)
    scores = model.decision_function(X)
    return scores if kind == "scores" else _decided(model, scores, decide)


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


def _stacked(tables: Mapping[str, Any]) -> Any:
    import pandas as pd

    names = [table.index.name for table in tables.values()]
    if len(tables) == 1:
        return name_rows(next(iter(tables.values())), names)
    warn_of_rows_without_ids(tables)
    column = name_of_views(next(iter(tables.values())), names)
    return name_rows(
        pd.concat([name_view(table, column, view) for view, table in tables.items()]), names
    )


def name_of_views(table: Any, ids: Iterable[str | None]) -> str:
    """Name of the column that names the view of each row."""
    return free_name("view", {*table.columns, *ids}, "names of views are")


def name_view(table: Any, column: str, view: str) -> Any:
    """The table with the name of its view as its first column."""
    named = table.copy()
    named.insert(0, column, view)
    return named


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
    check_calibrated(model)
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


def check_calibrated(model: LinearViewModel) -> None:
    if not model.calibrate:
        raise ReadError("this model has no probabilities; fit it with calibrate=True.")


def evaluate_views(model: LinearViewModel, data: Mapping[str, ViewData]) -> dict[str, Any]:
    """Metrics of the model's answers about known labels, beside simpler methods.

    Returns
    -------
    dict
        Result of `naim3l.decisions.quality.measure`, with None for NaN: blocks are the views, and
        "fused" where two views share ids.
    """
    X, Y = split(data)
    if not any(labels.notna().to_numpy().any() for labels in Y.values()):
        raise ReadError("no label is known in these tables, so there is nothing to compare with.")
    warn_of_empty_rows(X)
    for name, labels in Y.items():
        if not labels.notna().to_numpy().any():
            warn_user(f"view {name!r}: no label is known in it, so its predictions are not judged.")
    blocks = read_blocks(model, X, Y)
    fused = any(block.kind == FUSED for block in blocks)
    if len(X) > 1:
        named = {name: table for name, table in X.items() if table.index.name is not None}
        had_ids = {name for name, roles in model.roles_.items() if roles.id is not None}
        left_out = [name for name in X if name not in named and (fused or name in had_ids)]
        # Without a fused block no id is in two views, as is usual of tables of different rows.
        warn_of_unmatched(named if fused else {}, left_out)
    measured: dict[str, Any] = plain(measure(blocks, model.label_names_))
    return measured
