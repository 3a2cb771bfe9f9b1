"""Tables by view, for both forms in which users can give them.

*Tables apart*: mappings ``{view: table}`` and ``{view: label table}``, each view with rows of
its own. *One wide table*: a row is a sample, views are sets of columns, and a row has NaN in
the views that it lacks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from naim3l._text import some
from naim3l.input.tables import Table, warn_user

# Key of results over all views of a wide table.
FUSED = "fused"
SINGLE_VIEW = "all"


def is_apart(X: Any) -> bool:
    """Whether X is a mapping of tables; SciPy's dictionary-of-keys matrices are not."""
    return isinstance(X, Mapping) and not sparse.issparse(X)


def tables_apart(X: Any, known: Iterable[str] | None = None) -> dict[str, Table]:
    """Table of each view from a mapping; only views in ``known`` are allowed, if it is given."""
    if not is_apart(X):
        raise TypeError(
            f"expected a mapping {{view: table}}, got {type(X).__name__}; views that were fitted "
            "as tables apart are predicted that way too."
        )
    if not X:
        raise ValueError("no view given: the mapping {view: table} is empty.")
    for view in X:
        check_view_name(view)
    if known is not None:
        unknown = [view for view in X if view not in set(known)]
        if unknown:
            raise ValueError(f"unknown views {unknown}; the model was fitted on {list(known)}.")
    tables = {view: Table(table, f"view {view!r}") for view, table in X.items()}
    for table in tables.values():
        check_not_empty(table)
    return tables


def tables_wide(table: Table, columns: Mapping[str, Sequence[int]]) -> dict[str, Table]:
    """Table of each view of a wide table, given the positions of its columns."""
    return {
        view: table.select_columns(positions, f"view {view!r}")
        for view, positions in columns.items()
    }


def resolve_columns(views: Mapping[str, Any] | None, table: Table) -> dict[str, list[int]]:
    """Positions of each view's columns in a wide table.

    Parameters
    ----------
    views : mapping of str to column names, positions, slice or boolean mask, or None
        With None all columns are one view.
    table : Table
    """
    if views is None:
        return {SINGLE_VIEW: list(range(table.shape[1]))}
    if not isinstance(views, Mapping) or not views:
        raise ValueError(f"views must be a mapping {{view: columns}} or None, got {views!r}.")
    resolved = {}
    for view, chosen in views.items():
        check_view_name(view)
        positions = _positions(chosen, table, f"views[{view!r}]")
        if not positions:
            raise ValueError(f"views[{view!r}] has no columns.")
        if len(set(positions)) < len(positions):
            twice = next(j for j, n in Counter(positions).items() if n > 1)
            raise ValueError(f"views[{view!r}] has {table.column_label(twice)} twice.")
        resolved[view] = positions
    return resolved


def check_view_name(view: Any) -> None:
    """Refuse a name that a view cannot have."""
    if not isinstance(view, str):
        raise TypeError(f"view names must be strings, got {view!r}.")
    if view == FUSED:
        raise ValueError(
            f"a view cannot be named {FUSED!r}: results over all views go by that name; rename it."
        )


def _positions(chosen: Any, table: Table, where: str) -> list[int]:
    n_columns = table.shape[1]
    names = {name: j for j, name in enumerate(table.columns or [])}
    if isinstance(chosen, str | int | np.integer):
        chosen = [chosen]
    try:
        # An unordered set of names must not order the features differently in each process.
        entries = sorted(chosen) if isinstance(chosen, set | frozenset) else chosen
        entries = range(n_columns)[chosen] if isinstance(chosen, slice) else list(entries)
    except TypeError:
        raise ValueError(
            f"{where} must be column names, positions, a slice of positions or a mask, "
            f"got {chosen!r}."
        ) from None
    if len(entries) and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != n_columns:
            raise ValueError(f"{where}: a mask of {len(entries)} for {n_columns} columns.")
        return np.flatnonzero(entries).tolist()
    return [_position(entry, names, n_columns, where) for entry in entries]


def _position(entry: Any, names: Mapping[str, int], n_columns: int, where: str) -> int:
    if isinstance(entry, str):
        if not names:
            raise ValueError(
                f"{where}: column {entry!r} is a name, but the table has no column names; "
                "give positions, or a data frame (after a transformer in a pipeline: "
                "transformer.set_output(transform='pandas'))."
            )
        if entry not in names:
            known = some(list(names))
            raise ValueError(f"{where}: unknown column {entry!r}; the table has [{known}].")
        return names[entry]
    is_number = isinstance(entry, int | np.integer) and not isinstance(entry, bool)
    if not is_number or not -n_columns <= entry < n_columns:
        raise ValueError(f"{where}: no column {entry!r} in a table of {n_columns} columns.")
    return int(entry) % n_columns


def check_same_columns(table: Table, names: Sequence[str] | None, n_columns: int) -> None:
    """Refuse a table whose columns are not those of the fit, in their order."""
    given = table.columns
    if names is not None and given is not None and list(names) != given:
        known, found = set(names), set(given)
        missing = [name for name in names if name not in found]
        extra = [name for name in given if name not in known]
        if missing or extra:
            raise ValueError(
                f"{table.where}: columns differ from those of the fit: missing "
                f"[{some(missing)}], unexpected [{some(extra)}]."
            )
        raise ValueError(
            f"{table.where}: columns must be in the order of the fit; reorder with "
            f"table[model.feature_names_in_[view]]. Expected [{some(names)}], got [{some(given)}]."
        )
    if table.shape[1] != n_columns:
        raise ValueError(f"{table.where}: {table.shape[1]} columns, but {n_columns} at the fit.")
    if (names is None) != (given is None):
        lacking = "the table has" if given is None else "the fit had"
        warn_user(f"{table.where}: {lacking} no column names; columns are taken in order.")


def check_not_empty(table: Table) -> None:
    """Refuse a table without rows or without columns."""
    n_rows, n_columns = table.shape
    if n_rows == 0:
        raise ValueError(
            f"{table.where}: Found array with 0 sample(s) (shape={table.shape}) while a minimum "
            "of 1 is required; leave an empty view out."
        )
    if n_columns == 0:
        raise ValueError(
            f"{table.where}: 0 feature(s) (shape={table.shape}) while a minimum of 1 is required; "
            "leave an empty view out."
        )
