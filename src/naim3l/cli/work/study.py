"""Views as the settings name them: features and labels of each, read from its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from naim3l.cli.settings import Config, LabelWords, ViewConfig
from naim3l.files.readers import ReadError, choose_columns, parse_features, parse_labels, read_table
from naim3l.files.readers.columns import MOST_CATEGORIES
from naim3l.files.readers.errors import source_of
from naim3l.files.readers.sources import show_source
from naim3l.input.tables import warn_user
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
    labels = read_view_labels(name, view, table, words)
    own_labels = set() if view.labels_file else set(labels.columns)
    ignored = set(choose_columns(table.columns, view.ignore, where=f"view {name!r}"))
    if view.features is None:
        chosen = [column for column in table.columns if column not in own_labels]
    else:
        chosen = choose_columns(table.columns, view.features, where=f"view {name!r}")
    chosen = [column for column in chosen if column not in ignored]
    text = set(choose_columns(table.columns, view.text, where=f"view {name!r}"))
    if text:  # again, exactly as they are in the file
        table = read_table(view.source, id_column=view.id, text_columns=text)
    features, text_columns = _set_aside(*parse_features(table[chosen], text=text))
    if not features.shape[1]:
        raise ReadError(f"view {name!r}: no column is left for features.")
    return ViewData(features, text_columns, labels)


def _set_aside(features: Any, words: Sequence[str]) -> tuple[Any, list[str]]:
    """Features without text that names the rows; warns of it, and of text with many values.

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
    return features.drop(columns=aside), [column for column in words if column not in set(aside)]


def read_view_labels(
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
