"""Answers of a fitted model about rows, as tables: predictions, and labels that are filled in."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.features.survey import column_types, missing_cells
from naim3l.files.errors import load_extra
from naim3l.input.batches import Batch
from naim3l.report.evaluated_blocks import fuse_rows

KINDS = ("labels", "scores", "probabilities")
# What the ids of views with differently named ids are called, and the numbers of rows without.
IDS, ROWS = "id", "row"
MOST_NAMED = 20  # ids that a warning lists


@dataclass(frozen=True)
class Predict:
    """Predictions for rows of a view, as a data frame; ids, or numbers of rows, are the index.

    Attributes
    ----------
    model : fitted model
        Whose results are data frames.
    view, kind : str
    decide : str or None
        Another rule for labels than the model's.
    column : str or None
        Name of a first column, which names the view.
    index : str
        Name of the ids.
    """

    model: Any
    view: str
    kind: str
    decide: str | None
    column: str | None
    index: str

    def __call__(self, features: Batch, labels: Any = None) -> Any:
        X = {self.view: features}
        if self.kind == "probabilities":
            table = self.model.predict_proba(X)[self.view]
        else:
            table = self.model.decision_function(X)[self.view]
        if self.kind == "labels":  # as by `predict`, but unknown in rows that have no value
            known, at = table.notna(), self.model.decisions_.thresholds_of(self.decide)
            table = table.gt(at[self.view]).astype("int64")
            table = table if known.all(axis=None) else table.astype("Int64").where(known)
        if self.column is not None:
            table.insert(0, self.column, self.view)
        return table.rename_axis(self.index)


def make_predictions(
    model: Any, ids: Mapping[str, str | None], kind: str, decide: str | None
) -> dict[str, Predict]:
    """Functions of the features of each view, given the names of their ids."""
    check_answers(model, ids, kind)
    model.decisions_.thresholds_of(decide)  # refuses an unknown rule
    lacking = [view for view, column in ids.items() if column is None]
    if lacking and len(lacking) < len(ids):
        warn_user(
            f"views {some(lacking)} have no ids, so their rows are numbered from 0, beside the ids "
            "of other views; name the columns with --id view=column."
        )
    labels, column = model.label_names_, None
    if len(ids) > 1:
        column = _free_name("view", {*labels, *ids.values()}, "names of views are")
    index = name_of_rows(labels, ids.values())
    return {view: Predict(model, view, kind, decide, column, index) for view in ids}


def check_answers(model: Any, ids: Mapping[str, str | None], kind: str) -> None:
    """Refuse what a model cannot answer, given the ids of views; results will be data frames."""
    for view, column in ids.items():
        if column in model.label_names_:  # both would be columns of the results
            raise ValueError(
                f"view {view!r}: the id column {column!r} has the name of a label; name another "
                "one with --id, or rename it."
            )
    if kind == "probabilities" and not model.has_probabilities:
        raise ValueError(
            'this model has no probabilities; fit it with decide="guarded", or another rule that '
            "is learned."
        )
    model.set_output(transform="pandas")


def id_names(X: Mapping[str, Batch]) -> dict[str, str | None]:
    return {view: batch.data.index.name for view, batch in X.items()}


def name_of_rows(columns: Collection[str], ids: Iterable[str | None]) -> str:
    """Name of the ids, or numbers, of rows of results with these columns, of views with these."""
    different = set(ids)
    if different == {None}:
        return _free_name(ROWS, columns, "row numbers are")
    only = different.pop() if len(different) == 1 else None
    return only or _free_name(IDS, columns, "ids are")


def _free_name(wanted: str, taken: Collection[Any], what: str) -> str:
    """A name that no column has; a warning where it is not the one that readers expect."""
    name = wanted
    while name in taken:
        name += "_"
    if name != wanted:
        warn_user(f"{wanted!r} is a label or an id, so {what} in column {name!r}.")
    return name


def predict_rows(model: Any, X: Mapping[str, Batch], kind: str, decide: str | None = None) -> Any:
    """Predictions for all views in one data frame; with several, a column names the view."""
    answers = make_predictions(model, id_names(X), kind, decide)
    warn_of_empty_rows(model, X)
    tables = [answers[view](batch) for view, batch in X.items()]
    return load_extra("pandas").concat(tables) if len(tables) > 1 else tables[0]


def predict_fused(model: Any, X: Mapping[str, Batch], kind: str, decide: str | None = None) -> Any:
    """Predictions with one row per id: what its views add to the frequency of a label is added up.

    Scores are log-odds, see `naim3l.fuse`.
    """
    ids = id_names(X)
    check_answers(model, ids, kind)
    for view, column in ids.items():
        if column is None:  # rows would be joined by their places
            raise ValueError(
                f"view {view!r}: its rows have no ids to join them by; name the column with --id."
            )
    warn_of_empty_rows(model, X)
    warn_of_unmatched(X)
    probabilities, scores, margins = fuse_rows(model, model.decision_function(X), decide)
    yes = (margins > 0).astype("Int64").where(margins.notna())  # unknown where no view has a cell
    fused = {"labels": yes, "scores": scores, "probabilities": probabilities}[kind]
    return fused.rename_axis(name_of_rows(model.label_names_, ids.values()))


def empty_rows(model: Any, view: str, batch: Batch) -> Any:
    """Which rows have no value, (n_rows,), so that there is no answer."""
    has_plan = view in getattr(model, "columns_", {})
    missing = missing_cells(batch, column_types(batch)) if has_plan else batch.missing()
    return missing.all(axis=1)


def warn_of_empty_rows(model: Any, X: Mapping[str, Batch]) -> None:
    """Warn, once, of rows that have no value, for which there is no answer."""
    parts = []
    for view, batch in X.items():
        index = batch.data.index
        empty = index[empty_rows(model, view, batch)].tolist()
        if empty:
            what = "rows" if index.name is None else index.name
            parts.append(f"view {view!r}, {what} {some(empty, MOST_NAMED, str)}")
    if parts:
        warn_user(f"rows without any value have no answer: {'; '.join(parts)}.")


def warn_of_unmatched(X: Mapping[str, Batch], left_out: Sequence[str] = ()) -> None:
    """Warn of views that have no id in common with any other, and of those without ids."""
    if left_out:
        warn_user(
            f"views {some(left_out)} have no ids, so their rows cannot be joined with those of "
            "other views, and are no part of fused results; name the columns with --id view=column."
        )
    for view, batch in X.items():
        own = batch.data.index
        others = [other.data.index for name, other in X.items() if name != view]
        if others and not any(own.isin(index).any() for index in others):
            warn_user(
                f"view {view!r}: none of its ids, such as {own[0]!r}, is in another view "
                f"({others[0][0]!r}), so its rows are fused with none; check the id columns."
            )


@dataclass(frozen=True)
class FillIn:
    """Labels of rows of a view with the unknown ones filled in, as by `impute_labels`.

    Beside each label are its confidence, in a column with "_confidence" behind the name, and
    whether it was filled in, 1 or 0, in one with "_filled"; "_" is added to names that are taken.
    The confidence is the probability of the value that was filled in, 1 where the label was known,
    and missing where it stays unknown.

    Attributes
    ----------
    model : fitted model
        Whose results are data frames.
    view : str
    min_confidence : float or None
        Labels whose most probable value is less probable stay unknown.
    decode : callable or None
        Makes label tables (1, 0, NaN = unknown) of all labels of the model from those of a batch.
    """

    model: Any
    view: str
    min_confidence: float | None = None
    decode: Any = None

    def __call__(self, features: Batch, labels: Any) -> Any:
        known = labels if self.decode is None else self.decode(labels)
        X = {self.view: features}
        filled = self.model.impute_labels(X, {self.view: known}, self.min_confidence)[self.view]
        probabilities = self.model.predict_proba(X)[self.view]
        columns: dict[str, Any] = {}
        for label in known.columns:
            value, yes = filled[label], np.asarray(probabilities[label])
            given = known[label].notna()
            sure = np.where(given, 1.0, np.where(value == 1, yes, 1 - yes))
            columns[label] = value.astype("Int64")  # whole numbers, even beside missing ones
            for word, cells, what in (
                ("confidence", np.where(value.isna(), np.nan, sure), "confidences"),
                ("filled", (~given & value.notna()).astype(int), "marks of filled-in labels"),
            ):
                taken = {*known.columns, *columns, known.index.name}
                columns[_free_name(f"{label}_{word}", taken, f"{what} of {label!r} are")] = cells
        table = load_extra("pandas").DataFrame(columns, index=known.index)
        return table.rename_axis(name_of_rows(table.columns, [known.index.name]))
