"""Views as the settings name them: features and labels of each, read from its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from naim3l.readers import (
    Config,
    LabelWords,
    ReadError,
    ViewConfig,
    choose_columns,
    parse_features,
    parse_labels,
    read_table,
)
from naim3l.readers.errors import source_of
from naim3l.readers.sources import show_source
from naim3l.views import check_view_name


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
    """

    features: Any
    words: list[str]
    labels: Any = None


def split(data: Mapping[str, ViewData]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Features and labels of views, as models take them."""
    return (
        {name: view.features for name, view in data.items()},
        {name: view.labels for name, view in data.items()},
    )


def read_training(config: Config) -> dict[str, ViewData]:
    """Views of the settings, with their labels."""
    for name in config.views:
        check_view_name(name)  # before the tables are read, which may take long
    return {name: _read_view(name, view, config.labels) for name, view in config.views.items()}


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


def _read_view(name: str, view: ViewConfig, words: LabelWords) -> ViewData:
    table = read_table(view.source, id_column=view.id)
    labels = read_labels(name, view, table, words)
    own_labels = [] if view.labels_file else list(labels.columns)
    ignored = choose_columns(table.columns, view.ignore, where=f"view {name!r}")
    if view.features is None:
        chosen = [column for column in table.columns if column not in {*own_labels, *ignored}]
    else:
        chosen = choose_columns(table.columns, view.features, where=f"view {name!r}")
        chosen = [column for column in chosen if column not in ignored]
    if not chosen:
        raise ReadError(f"view {name!r}: no column is left for features.")
    features, text = parse_features(table[chosen])
    return ViewData(features, text, labels)


def read_labels(
    name: str, view: ViewConfig, table: Any, words: LabelWords, default: Sequence[str] = ()
) -> Any:
    """Labels of the rows of a table, of its own columns or of a file of labels.

    Parameters
    ----------
    name : str
        Of the view.
    view : ViewConfig
    table : DataFrame of shape (n_rows, n_columns)
        Of the view, ids as index.
    words : LabelWords
    default : sequence of str
        Those of them that are there are taken where the view names no labels.

    Returns
    -------
    labels : DataFrame of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    """
    source = table
    if view.labels_file is not None:
        if view.id is None:
            raise ReadError(
                f"view {name!r}: labels in a file of their own are matched by id; name the id "
                "column."
            )
        source = read_table(view.labels_file, id_column=view.id)
        if not source.index.isin(table.index).any():
            raise ReadError(
                f"view {name!r}: no id of {source_of(source)} occurs in {source_of(table)}."
            )
    wanted = view.labels or [label for label in default if label in source.columns]
    if not wanted:
        raise ReadError(
            f"view {name!r}: no label columns are named; give names or patterns with --labels, or "
            f"the key labels of [views.{name}]."
        )
    columns = choose_columns(source.columns, wanted, where=f"labels of view {name!r}")
    labels = parse_labels(source[columns], yes=words.yes, no=words.no, unknown=words.unknown)
    return labels if view.labels_file is None else labels.reindex(table.index)
