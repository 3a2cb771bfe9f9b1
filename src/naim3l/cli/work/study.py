"""Views as the settings name them: features and labels of each, read from its files."""

from collections.abc import Callable, Collection, Mapping, Sequence
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
from naim3l.features.column_kinds import DATE, KINDS, NUMBER, TEXT
from naim3l.features.column_uses import SET_ASIDE, ColumnUse
from naim3l.features.survey import TableSurvey
from naim3l.features.unused_columns import IN_SETTINGS, set_aside
from naim3l.files.readers import ReadError, choose_columns, parse_features, read_table
from naim3l.files.readers.errors import source_of
from naim3l.files.readers.ids import guess_id, set_ids
from naim3l.files.readers.kinds import read_column
from naim3l.files.sources import show_source
from naim3l.input.roles import ViewRoles
from naim3l.input.tables import Table, warn_user
from naim3l.input.views import check_view_name

# Share of known cells in the first rows below which all rows decide if a column is almost empty.
FEWEST_LATER = 0.5


@dataclass(frozen=True)
class ViewData:
    """Features of a view as they were read, and its labels if it has any.

    Attributes
    ----------
    features : DataFrame of shape (n_rows, n_columns)
        Numbers, NaN where missing, text and dates, None where missing; ids are the index.
    words : list of str
        Columns of text.
    labels : DataFrame of shape (n_rows, n_labels), or None
        1, 0, NaN = unknown.
    roles : ViewRoles
        What the columns of the file are.
    aside : list of ColumnUse
        Columns of the file that are not features.
    """

    features: Any
    words: list[str]
    labels: Any = None
    roles: ViewRoles = field(default_factory=ViewRoles)
    aside: list[ColumnUse] = field(default_factory=list)


def split(data: Mapping[str, ViewData]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Features and labels of views, as models take them."""
    return (
        {name: view.features for name, view in data.items()},
        {name: view.labels for name, view in data.items()},
    )


def read_training(
    config: Config, read: Callable[..., Any] = read_table, judged_later: Collection[str] = ()
) -> dict[str, ViewData]:
    """Views of the settings, with the labels of all of them; unknown where a view lacks one.

    Parameters
    ----------
    config : Config
    read : function
        As `read_table`; for tables that are read in parts, it reads their first rows.
    judged_later : collection of str
        Views whose almost empty columns are kept, as the fit judges them by all rows.
    """
    views = config.views
    for name in views:
        check_view_name(name)  # before the tables are read, which may take long
    tables = {name: _read_table(name, view, read) for name, view in views.items()}
    sources = {name: open_labels(name, view, tables[name]) for name, view in views.items()}
    columns = choose_labels(config, sources)
    data, labels = {}, {}
    for name, view in views.items():
        table, source, own = tables.pop(name), sources.pop(name), columns[name]
        labels[name] = parse_view_labels(table, source, own, config.labels)
        labelled = own if source is table else ()
        data[name] = _read_features(name, view, table, labelled, read, name in judged_later)
        unlisted = set(data[name].features.columns) - set(view.features or [])
        warn_of_other_outcomes(name, table, source[own], unlisted, config.labels)
        words = {key: getattr(config.labels, key) for key in ("yes", "no", "unknown")}
        roles = replace(data[name].roles, labels=own, **words)
        data[name] = replace(data[name], roles=roles)
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


def _read_table(name: str, view: ViewConfig, read: Callable[..., Any]) -> Any:
    """Table of a view, ids as index; a column that is plainly the id need not be named."""
    table = read(view.source, id_column=view.id)
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


def _read_features(
    name: str, view: ViewConfig, table: Any, labels: Collection[str], read: Callable[..., Any],
    judged_later: bool,
) -> ViewData:  # fmt: skip
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
        table = read(view.source, id_column=table.index.name, text_columns=text)
    features, words = parse_features(table[chosen], text=text)
    sparse = features.columns[features.notna().mean() < FEWEST_LATER] if judged_later else ()
    unused = set_aside(
        TableSurvey.of(Table(features, f"{where}, {source_of(features)}"), text=words),
        keep={*listed, *sparse} - set(words),
        cures=IN_SETTINGS,
    )
    aside = [use.name for use in unused.values()]
    features = features.drop(columns=aside)
    if not features.shape[1]:
        raise ReadError(f"view {name!r}: no column is left for features.")
    words = [column for column in words if column not in aside]
    roles = ViewRoles(id=table.index.name, ignored=[*ignored, *aside])
    others = [_not_a_feature(table[label], "a label") for label in labels if label not in chosen]
    others += [_not_a_feature(table[column], SET_ASIDE, "ignored in the settings")
               for column in ignored if column not in labels]  # fmt: skip
    if table.index.name is not None:
        others.insert(0, _not_a_feature(table.index.to_series(), "the id of the rows"))
    return ViewData(features, words, roles=roles, aside=[*others, *unused.values()])


def _not_a_feature(column: Any, use: str, reason: str = "") -> ColumnUse:
    """Use of a column of a file that is not a feature."""
    kind = read_column(column).kind
    known = KINDS[NUMBER] if kind == "number" else KINDS[DATE] if "date" in kind else KINDS[TEXT]
    return ColumnUse(str(column.name), known, float(column.isna().mean()), use, reason)
