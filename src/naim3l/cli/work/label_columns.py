"""Which columns are the labels of each view, and what their cells mean."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.cli.settings import Config, LabelConfig, ViewConfig
from naim3l.files.readers import ReadError, choose_columns, parse_labels, read_table
from naim3l.files.readers.columns import label_likeness
from naim3l.files.readers.errors import source_of
from naim3l.input.roles import ViewRoles

Words = LabelConfig | ViewRoles  # both have further words for yes, no and unknown


def open_labels(name: str, view: ViewConfig, table: Any) -> Any:
    """The table that has the labels of a view, ids as index: its own, or that of a labels file."""
    if view.labels_file is None:
        return table
    if table.index.name is None:
        raise ReadError(
            f"view {name!r}: labels in a file of their own are matched by id; name the id column."
        )
    source = read_table(view.labels_file, id_column=table.index.name)
    if not source.index.isin(table.index).any():
        raise ReadError(
            f"view {name!r}: no id of {source_of(source)} occurs in {source_of(table)}."
        )
    return source


def choose_labels(
    config: Config, sources: Mapping[str, Any], default: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[str]]:
    """Label columns of each view.

    Parameters
    ----------
    config : Config
        Labels of a view must be in its table; those named for all views in one of the tables.
    sources : mapping of view to DataFrame
        As `open_labels` gives them.
    default : mapping of view to columns, optional
        Taken where the settings name none.

    Raises
    ------
    ReadError
        If a name or pattern fits no column, or a view has no label.
    """
    own = {name: choose_columns(sources[name].columns, view.labels, where=_where([name]))
           for name, view in config.views.items() if view.labels}  # fmt: skip
    others = [name for name in config.views if name not in own]
    columns = dict.fromkeys(column for name in others for column in sources[name].columns)
    shared = choose_columns(columns, config.labels.columns, where=_where(others)) if others else []
    chosen = {}
    for name in config.views:
        found = own.get(name) or _among(shared, sources[name].columns)
        if shared and not found:
            choose_columns(sources[name].columns, shared[:1], where=_where([name]))  # refuses
        chosen[name] = found or list((default or {}).get(name, ()))
        if not chosen[name]:
            raise ReadError(
                f"view {name!r}: no label columns are named; give names or patterns with --labels, "
                f"or with the key labels of [views.{name}] in the settings."
            )
    return chosen


def _where(views: Sequence[str]) -> str:
    return f"labels of view{'s' * (len(views) > 1)} {', '.join(map(repr, views))}"


def _among(names: Sequence[str], columns: Collection[str]) -> list[str]:
    there = set(columns)
    return [name for name in names if name in there]


def parse_view_labels(table: Any, source: Any, columns: Sequence[str], words: Words) -> Any:
    """Labels of the rows of a table, shape (n_rows, n_labels): 1, 0, NaN = unknown."""
    labels = parse_labels(source[list(columns)], yes=words.yes, no=words.no, unknown=words.unknown)
    return labels if source is table else labels.reindex(table.index)


def same_labels(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Labels of each view with the columns of all; those that a view lacks are unknown in it."""
    names = list(dict.fromkeys(name for table in labels.values() for name in table.columns))
    for view, table in labels.items():
        lacking = [name for name in names if name not in table.columns]
        if lacking:
            warn_user(
                f"view {view!r}: labels {some(lacking)} are in other views only, and unknown here."
            )
    return {view: table.reindex(columns=names) for view, table in labels.items()}


def warn_of_other_outcomes(
    name: str, table: Any, labels: Any, features: Collection[str], words: LabelConfig
) -> None:
    """Warn of features that look like labels as those given do.

    With labels in words, these are all features in such words. Columns of 0 and 1 are often
    features, so that with such labels only those right beside a label are named.

    Parameters
    ----------
    name : str
        Of the view.
    table : DataFrame of shape (n_rows, n_columns)
    labels : DataFrame of shape (n_rows, n_labels)
        As they were read.
    features : collection of str
        Columns of the table that nobody has listed by name.
    words : LabelConfig
    """

    def look(frame: Any, columns: Iterable[str]) -> dict[str, str | None]:
        given = (words.yes, words.no, words.unknown)
        return {column: label_likeness(frame[column], *given) for column in columns}

    columns = list(table.columns)
    looks = look(table, (column for column in columns if column in features))
    alike = {column for column, likeness in looks.items() if likeness == "sure"}
    if "perhaps" in look(labels, labels.columns).values():
        alike |= {
            *_beside(columns, labels.columns, looks),
            *_beside(columns[::-1], labels.columns, looks),
        }
    if alike:
        listed = some([column for column in columns if column in alike])
        warn_user(
            f"view {name!r}: columns {listed} look like further labels, but are used as features. "
            "Name them as labels, ignore them, or list them by name under features to confirm."
        )


def _beside(
    columns: Sequence[str], labels: Collection[str], looks: Mapping[str, str | None]
) -> Iterator[str]:
    """Columns that look like labels, from each label on to the first that does not."""
    after_label = False
    for column in columns:
        is_label = column in labels
        after_label = is_label or (after_label and looks.get(column) is not None)
        if after_label and not is_label:
            yield column
