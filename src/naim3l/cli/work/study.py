"""Views as the settings name them: features and labels of each, read from its files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from naim3l.cli.settings import Config, ViewConfig
from naim3l.cli.work.label_columns import (
    choose_labels,
    open_labels,
    parse_view_labels,
    same_labels,
    warn_of_other_outcomes,
)
from naim3l.files.readers import ReadError, choose_columns, parse_features, read_table
from naim3l.files.readers.columns import MOST_CATEGORIES
from naim3l.files.readers.errors import source_of
from naim3l.files.readers.ids import guess_id, set_ids
from naim3l.files.readers.sources import show_source
from naim3l.input.id_columns import find_id_columns
from naim3l.input.roles import ViewRoles
from naim3l.input.tables import Table, warn_user
from naim3l.input.views import check_view_name


@dataclass(frozen=True)
class ViewData:
    """Features of a view as they were read, and its labels if it has any.

    Attributes
    ----------
    features : DataFrame of shape (n_rows, n_columns)
        Numbers, NaN where missing, and text, None where missing; ids are the index.
    words : list of str
        Columns of text.
    labels : DataFrame of shape (n_rows, n_labels), or None
        1, 0, NaN = unknown.
    roles : ViewRoles
        What the columns of the file are.
    """

    features: Any
    words: list[str]
    labels: Any = None
    roles: ViewRoles = field(default_factory=ViewRoles)


def split(data: Mapping[str, ViewData]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Features and labels of views, as models take them."""
    return (
        {name: view.features for name, view in data.items()},
        {name: view.labels for name, view in data.items()},
    )


def read_training(config: Config) -> dict[str, ViewData]:
    """Views of the settings, with the labels of all of them; unknown where a view lacks one."""
    views = config.views
    for name in views:
        check_view_name(name)  # before the tables are read, which may take long
    tables = {name: _read_table(name, view) for name, view in views.items()}
    sources = {name: open_labels(name, view, tables[name]) for name, view in views.items()}
    columns = choose_labels(config, sources)
    data, labels = {}, {}
    for name, view in views.items():
        table, source, own = tables.pop(name), sources.pop(name), columns[name]
        labels[name] = parse_view_labels(table, source, own, config.labels)
        read = _read_features(name, view, table, own if source is table else ())
        unlisted = set(read.features.columns) - set(view.features or [])
        warn_of_other_outcomes(name, table, source[own], unlisted, config.labels)
        words = {key: getattr(config.labels, key) for key in ("yes", "no", "unknown")}
        data[name] = replace(read, roles=replace(read.roles, labels=own, **words))
    labels = same_labels(labels)
    return {name: replace(view, labels=labels[name]) for name, view in data.items()}


def with_sources(config: Config, sources: Sequence[str]) -> Config:
    """Settings with other tables of some of the views, given as ``name=source``, and no others."""
    views = {}
    for name, source in parse_sources(sources).items():
        if name not in config.views:
            raise ReadError(
                f"there is no view {name!r} to test; the views are {list(config.views)}."
            )
        views[name] = replace(config.views[name], source=source)
    return replace(config, views=views)


def parse_sources(arguments: Sequence[str]) -> dict[str, str]:
    """Views given as ``name=source``."""
    sources: dict[str, str] = {}
    for argument in arguments:
        name, equals, source = argument.partition("=")
        if not equals or not name.replace("_", "").replace("-", "").isalnum():
            raise ReadError(
                f"{show_source(argument)!r} is not of the form name=path, such as "
                "clinic=clinic.csv."
            )
        if name in sources:
            raise ReadError(f"view {name!r} is given twice.")
        if not source:
            raise ReadError(f"view {name!r} has no path.")
        sources[name] = source
    return sources


def _read_table(name: str, view: ViewConfig) -> Any:
    """Table of a view, ids as index; a column that is plainly the id need not be named."""
    table = read_table(view.source, id_column=view.id)
    if view.id is not None or view.labels_file is not None:  # rows are not matched by a guess
        return table
    ignored = choose_columns(table.columns, view.ignore, where=f"view {name!r}")
    guessed, why = guess_id(table, other_than={*ignored, *(view.features or [])})
    if guessed is None:
        return table
    warn_user(
        f"view {name!r}: column {guessed!r} is taken for the id ({why}). Confirm it with --id, or "
        "id in the settings; if it is a feature, list it by name under features there."
    )
    return set_ids(table, guessed)


def _read_features(name: str, view: ViewConfig, table: Any, labels: Collection[str]) -> ViewData:
    """Features of a view without its labels, and what became of the other columns."""
    where = f"view {name!r}"
    ignored = choose_columns(table.columns, view.ignore, where=where)
    chosen = choose_columns(table.columns, view.features or [], where=where)
    if view.features is None:
        chosen = list(table.columns)
    listed = set(view.features or [])
    left_out = {*ignored, *(label for label in labels if label not in listed)}
    chosen = [column for column in chosen if column not in left_out]
    text = set(choose_columns(table.columns, view.text, where=where))
    if text:  # again, exactly as they are in the file
        table = read_table(view.source, id_column=table.index.name, text_columns=text)
    features, words = parse_features(table[chosen], text=text)
    aside = _ids_among(name, features, listed - set(words))
    aside += _long_lists(features, [column for column in words if column not in aside])
    features = features.drop(columns=aside)
    if not features.shape[1]:
        raise ReadError(f"view {name!r}: no column is left for features.")
    words = [column for column in words if column not in aside]
    roles = ViewRoles(id=table.index.name, ignored=[*ignored, *aside])
    return ViewData(features, words, roles=roles)


def _ids_among(name: str, features: Any, listed: Collection[str]) -> list[str]:
    """Columns that seem to be ids, which are no features; warns of them."""
    found = find_id_columns(Table(features, f"view {name!r}"))
    reasons = {features.columns[j]: reason for j, reason in found.items()}
    aside = [column for column in reasons if column not in listed]
    for column in aside:
        warn_user(
            f"view {name!r}, {source_of(features)}, column {column!r}: {reasons[column]}. It is "
            "left out, since an id is not a feature. Name it as the id, or ignore it; if it is a "
            "feature, list it by name under features in the settings."
        )
    return aside


def _long_lists(features: Any, words: Sequence[str]) -> list[str]:
    """Columns of text that name the rows; warns of them, and of other text with many values.

    Each of the `MOST_CATEGORIES` most frequent values of a column becomes a column, and so do all
    others together.
    """
    aside = []
    for column in words:
        n_values, n_known = features[column].nunique(), int(features[column].notna().sum())
        what = f"{source_of(features)}, column {column!r}: {n_values} different values of text in"
        if 2 * n_values > n_known:
            aside.append(column)
            warn_user(
                f"{what} {n_known} rows, which is an id or free text: the column is left out. "
                "Ignore it, or group its values."
            )
        elif n_values > MOST_CATEGORIES:
            warn_user(
                f"{what} {n_known} rows. The {MOST_CATEGORIES} most frequent are kept, all others "
                "are taken as one; group the values to keep more."
            )
    return aside
