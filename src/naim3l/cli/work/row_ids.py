"""Which row of a result is which: ids, or numbers of rows where a table has none."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.files.readers import ReadError

# What the ids of views with differently named ids are called, and the numbers of rows without.
IDS, ROWS = "id", "row"
MOST_NAMED = 20  # ids that a warning lists


def check_id_names(X: Mapping[str, Any], labels: Collection[str]) -> None:
    """Refuse ids under the name of a label: both would be columns of the results."""
    for view, table in X.items():
        if table.index.name in labels:
            raise ReadError(
                f"view {view!r}: the id column {table.index.name!r} has the name of a label; name "
                "another one with --id, or rename it."
            )


def free_name(wanted: str, taken: Collection[Any], what: str) -> str:
    """A name that no column has; a warning where it is not the one that readers expect."""
    name = wanted
    while name in taken:
        name += "_"
    if name != wanted:
        warn_user(f"{wanted!r} is a label or an id, so {what} in column {name!r}.")
    return name


def name_rows(result: Any, names: Sequence[str | None]) -> Any:
    """The result with a name for its index, which is written as its first column.

    Parameters
    ----------
    result : DataFrame
        Ids, or numbers of rows (from 0), are the index.
    names : sequence of str or None
        Id column of each view that the rows are from; None where it has none.
    """
    different = set(names)
    if different == {None}:
        name = free_name(ROWS, result.columns, "row numbers are")
    elif len(different) == 1:
        (only,) = different
        return result.rename_axis(only)
    else:
        name = free_name(IDS, result.columns, "ids are")
    return result.rename_axis(name)


def warn_of_rows_without_ids(X: Mapping[str, Any]) -> None:
    """Warn of views without ids beside others that have some."""
    lacking = [view for view, table in X.items() if table.index.name is None]
    if lacking and len(lacking) < len(X):
        warn_user(
            f"views {some(lacking)} have no ids, so their rows are numbered from 0, beside the ids "
            "of other views; name the columns with --id view=column."
        )


def warn_of_empty_rows(X: Mapping[str, Any]) -> None:
    """Warn, once, of rows that have no value, for which there is no answer."""
    parts = []
    for view, table in X.items():
        empty = table.index[table.isna().all(axis=1)].tolist()
        if empty:
            what = "rows" if table.index.name is None else f"{table.index.name}"
            parts.append(f"view {view!r}, {what} {some(empty, MOST_NAMED, str)}")
    if parts:
        warn_user(f"rows without any value have no answer: {'; '.join(parts)}.")


def warn_of_unmatched(X: Mapping[str, Any], left_out: Sequence[str] = ()) -> None:
    """Warn of views that have no id in common with any other.

    Parameters
    ----------
    X : mapping of view to DataFrame
        Ids are the index.
    left_out : sequence of str
        Views without ids.
    """
    if left_out:
        warn_user(
            f"views {some(left_out)} have no ids, so their rows cannot be joined with those of "
            "other views, and are no part of fused results; name the columns with --id view=column."
        )
    for view, table in X.items():
        others = [other.index for name, other in X.items() if name != view]
        if others and not any(table.index.isin(index).any() for index in others):
            warn_user(
                f"view {view!r}: none of its ids, such as {table.index[0]!r}, is in another view "
                f"({others[0][0]!r}), so its rows are fused with none; check the id columns."
            )
