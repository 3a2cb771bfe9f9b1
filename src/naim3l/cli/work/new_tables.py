"""Tables for a fitted model: its columns, labels and ids, whatever else a file has."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from naim3l._warnings import warn_user
from naim3l.cli.settings import Config
from naim3l.cli.work.label_columns import choose_labels, open_labels, parse_view_labels
from naim3l.cli.work.study import ViewData
from naim3l.estimators.linear import LinearViewModel
from naim3l.features.column_kinds import DATE, TEXT
from naim3l.files.readers import ReadError, read_table
from naim3l.files.readers.errors import close_names, quote, source_of
from naim3l.files.readers.features import parse_known
from naim3l.files.readers.ids import guess_id, set_ids
from naim3l.input.id_columns import in_order_of_names
from naim3l.input.roles import ViewRoles


def read_new(
    model: LinearViewModel,
    sources: Mapping[str, str],
    *,
    ids: Mapping[str, str | None] | None = None,
    read: Callable[..., Any] = read_table,
) -> dict[str, Any]:
    """Tables to predict from, with the columns of the fit in their types and ids as index.

    Parameters
    ----------
    model : fitted model
    sources : mapping of view to source as `read_table` takes it
    ids : mapping of view to column, optional
        Columns with the ids. By default the one of the fit, or one that looks like an id and is
        not a feature.
    read : function
        As `read_table`; for tables that are read in parts, it reads their first rows.
    """
    tables = {}
    for view, source in sources.items():
        table = _read_with_id(model, view, source, (ids or {}).get(view), read)
        tables[view] = _columns_of_fit(model, view, table)
    return tables


def read_known(
    model: LinearViewModel, config: Config, read: Callable[..., Any] = read_table
) -> dict[str, ViewData]:
    """Views of a fitted model with what is known of its labels.

    Features are the columns of the fit, whatever else a table has. What the settings do not say
    is as it was at the fit: ids, the words of labels, and which labels there are. Labels that a
    table lacks are unknown.
    """
    views = config.views
    tables = {name: _read_with_id(model, name, view.source, view.id, read)
              for name, view in views.items()}  # fmt: skip
    sources = {name: open_labels(name, view, tables[name]) for name, view in views.items()}
    default = {name: _labels_of_fit(model, name, source) for name, source in sources.items()}
    data = {}
    for name, columns in choose_labels(config, sources, default).items():
        for label in columns:
            if label not in model.label_names_:
                raise ReadError(
                    f"view {name!r}: the model has no label {label!r}; "
                    f"{close_names(label, model.label_names_)}"
                )
        given = config.labels.yes or config.labels.no or config.labels.unknown
        words = config.labels if given else _roles(model, name)
        labels = parse_view_labels(tables[name], sources[name], columns, words)
        features = _columns_of_fit(model, name, tables[name])
        data[name] = ViewData(
            features,
            columns_of_kind(model, name, TEXT),
            labels.reindex(columns=model.label_names_),
            replace(_roles(model, name), labels=columns, yes=words.yes, no=words.no,
                    unknown=words.unknown),
        )  # fmt: skip
    return data


def _roles(model: LinearViewModel, view: str) -> ViewRoles:
    """What the columns of a view were; of a model that was fitted in Python, nothing is known."""
    return model.roles_.get(view, ViewRoles())


def _labels_of_fit(model: LinearViewModel, view: str, table: Any) -> list[str]:
    """Labels of the model that a table has, unless its column was something else at the fit."""
    others = {*_names_of_fit(model, view), *_roles(model, view).ignored}
    there = set(table.columns) - others
    return [label for label in model.label_names_ if label in there]


def _read_with_id(
    model: LinearViewModel, view: str, source: str, id_column: str | None, read: Callable[..., Any]
) -> Any:
    """Table of a view of the fit, ids as index; by default, a column that is not a feature."""
    if view not in model.views_:
        raise ReadError(f"the model has no view {view!r}; it was fitted on {model.views_}.")
    roles = _roles(model, view)
    of_fit = [] if roles.id is None else [roles.id]
    table = read(
        source, id_column=id_column, text_columns=[*columns_of_kind(model, view, TEXT), *of_fit]
    )
    if id_column is not None:
        return table
    known = {*_names_of_fit(model, view), *model.label_names_, *roles.ignored}
    names = [name for name in (*of_fit, *in_order_of_names(table.columns))
             if name in table.columns and name not in known]  # fmt: skip
    found = names[0] if of_fit and of_fit == names[:1] else guess_id(table, other_than=known)[0]
    if found is not None:
        names = [found, *names]
        try:
            return set_ids(table, found)
        except ReadError:  # warned of below
            pass
    if names:
        warn_user(
            f"{source_of(table)}: column {names[0]!r} should have the ids, but some of its cells "
            "are equal, missing or not ids, so results have row numbers instead; name another "
            "column with --id."
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
    words, dates = (columns_of_kind(model, view, kind) for kind in (TEXT, DATE))
    takes_missing = model.features_[view].accepts_missing
    return parse_known(table[columns], words, dates, takes_missing=takes_missing)


def columns_of_kind(model: LinearViewModel, view: str, kind: int) -> list[str]:
    """Columns that had a kind in training; none if the model has its own transformer."""
    encoder = model.features_[view].cell_encoder
    if encoder is None:
        return []
    return [name for name, of in zip(_names_of_fit(model, view), encoder.kinds_, strict=True)
            if of == kind]  # fmt: skip


def _names_of_fit(model: LinearViewModel, view: str) -> list[str]:
    """Columns that a view had in training."""
    names = None if model.reader_.wide else model.reader_.column_names(view)
    if names is None:
        raise ReadError(
            f"view {view!r}: the model was fitted on tables without column names, or on one wide "
            "table, so that columns of files cannot be matched; use it from Python."
        )
    return names
