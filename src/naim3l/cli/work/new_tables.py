"""Tables for a fitted model: its columns and labels, whatever else a file has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from naim3l.cli.settings import Config, LabelWords, ViewConfig
from naim3l.cli.work.building import word_columns
from naim3l.cli.work.study import ViewData, read_view_labels
from naim3l.estimators.linear import LinearViewModel
from naim3l.files.readers import ReadError, read_table
from naim3l.files.readers.errors import close_names, quote, source_of
from naim3l.files.readers.features import parse_known
from naim3l.files.readers.ids import guess_id, is_named_like_id, set_ids
from naim3l.input.tables import warn_user


def read_new(
    model: LinearViewModel, sources: Mapping[str, str], *, id_column: str | None = None
) -> dict[str, Any]:
    """Tables to predict from, with the columns of the fit in their types and ids as index.

    Parameters
    ----------
    model : fitted model
    sources : mapping of view to source as `read_table` takes it
    id_column : str, optional
        By default a column that looks like an id and is not a feature.
    """
    tables = {}
    for view, source in sources.items():
        table = _read_with_id(model, view, source, id_column)
        tables[view] = _columns_of_fit(model, view, table)
    return tables


def read_known(model: LinearViewModel, config: Config) -> dict[str, ViewData]:
    """Views of a fitted model with what is known of its labels.

    Features are the columns of the fit, whatever else a table has. Labels that the settings do not
    name are unknown; where they name none, all of the model's labels in the table are taken, and
    where they name no id, one that looks like it.
    """
    return {name: _read_known(model, name, view, config.labels)
            for name, view in config.views.items()}  # fmt: skip


def _read_known(model: LinearViewModel, name: str, view: ViewConfig, words: LabelWords) -> ViewData:
    table = _read_with_id(model, name, view.source, view.id)
    found = replace(view, id=table.index.name)
    labels = read_view_labels(name, found, table, words, default=model.label_names_)
    for label in labels.columns:
        if label not in model.label_names_:
            raise ReadError(
                f"view {name!r}: the model has no label {label!r}; "
                f"{close_names(label, model.label_names_)}"
            )
    features = _columns_of_fit(model, name, table)
    return ViewData(features, word_columns(model, name), labels.reindex(columns=model.label_names_))


def _read_with_id(model: LinearViewModel, view: str, source: str, id_column: str | None) -> Any:
    """Table of a view of the fit, ids as index; by default, a column that is not a feature."""
    if view not in model.views_:
        raise ReadError(f"the model has no view {view!r}; it was fitted on {model.views_}.")
    words = word_columns(model, view)
    table = read_table(source, id_column=id_column, text_columns=words)
    if id_column is not None:
        return table
    known = {*_names_of_fit(model, view), *model.label_names_}
    guessed, _ = guess_id(table, other_than=known)
    if guessed is not None:
        return set_ids(table, guessed)
    left_out = [name for name in table.columns if is_named_like_id(name) and name not in known]
    if left_out:
        warn_user(
            f"{source_of(table)}: column {left_out[0]!r} is named like an id, but some of its "
            "cells are equal, missing or not ids, so results have no ids; name the column with "
            "--id."
        )
    return table


def _columns_of_fit(model: LinearViewModel, view: str, table: Any) -> Any:
    """The columns that the model was fitted on, in the types that they had."""
    columns, there = _names_of_fit(model, view), set(table.columns)
    for column in columns:
        # A name, whatever it begins with: as a pattern, "@file" would have files read.
        if column not in there:
            raise ReadError(
                f"view {view!r}, {source_of(table)}: no column {quote(column)}; "
                f"{close_names(column, table.columns)}"
            )
    takes_missing = model.features_[view].accepts_missing
    return parse_known(table[columns], word_columns(model, view), takes_missing=takes_missing)


def _names_of_fit(model: LinearViewModel, view: str) -> list[str]:
    """Columns that a view had in training."""
    names = None if model.reader_.wide else model.reader_.column_names(view)
    if names is None:
        raise ReadError(
            f"view {view!r}: the model was fitted on tables without column names, or on one wide "
            "table, so that columns of files cannot be matched; use it from Python."
        )
    return names
