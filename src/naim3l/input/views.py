"""Views in both forms in which users can give them, and names with which tables are checked.

*Separate tables*: mappings ``{view: table}`` and ``{view: label table}``, each view with rows of
its own. *One wide table*: views are sets of columns, with NaN in the rows that lack the view.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.files.stored import Flag, ListOf, MapOf, Maybe, Names, Nested, Text, Whole
from naim3l.input.batches import Batch

# Key of results over all views of a wide table.
FUSED = "fused"
SINGLE_VIEW = "all"
WIDE_TABLE = "X"
MOST_SHOWN = 5  # rows that a message lists


def is_separate(X: Any) -> bool:
    """Whether X is a mapping of tables; SciPy's dictionary-of-keys matrices are not."""
    return isinstance(X, Mapping) and not sparse.issparse(X)


def check_view_names(X: Any, known: list[str] | None = None) -> None:
    """Refuse anything but a mapping from names that views can have, or that are ``known``."""
    if not is_separate(X):
        raise TypeError(
            f"expected a mapping {{view: table}}, got {type(X).__name__}; views that were fitted "
            "as separate tables are predicted that way too."
        )
    if not X:
        raise ValueError("no view given: the mapping {view: table} is empty.")
    for view in X:
        check_view_name(view)
    unknown = [] if known is None else [view for view in X if view not in known]
    if unknown:
        raise ValueError(f"unknown views {unknown}; the model was fitted on {known}.")


def check_view_name(view: Any) -> None:
    """Refuse a name that a view cannot have."""
    if not isinstance(view, str):
        raise TypeError(f"view names must be strings, got {view!r}.")
    if view == FUSED:
        raise ValueError(
            f"a view cannot be named {FUSED!r}: results over all views go by that name; rename it."
        )


def check_label_form(X: Any, y: Any) -> bool:
    """Whether X is a mapping of tables; refuses labels that are not given as the tables are.

    None is refused when labels are read.
    """
    separate = is_separate(X)
    if y is not None and separate != is_separate(y):
        raise TypeError(
            f"a mapping of tables takes a mapping {{view: label table}}, got {type(y).__name__}."
            if separate
            else "one wide table takes one label table, got a mapping."
        )
    if y is not None and separate and set(X) != set(y):
        raise ValueError(
            f"views and label tables differ: views without labels {sorted(set(X) - set(y))}, "
            f"labels without a view {sorted(set(y) - set(X), key=str)}."
        )
    return separate


def check_not_empty(batch: Batch, *, lazy: bool = False) -> None:
    """Refuse a table without columns, or without rows unless it is read later."""
    for n, what in zip(batch.shape, ("Found array with 0 sample(s)", "0 feature(s)"), strict=True):
        if not n and not (lazy and "sample" in what):
            raise ValueError(
                f"{batch.origin}: {what} (shape={batch.shape}) while a minimum of 1 is required; "
                "leave an empty view out."
            )


@dataclass
class TableColumns:
    """Columns of one table of the training data."""

    n: Annotated[int, Whole(1, size="table columns")]
    names: Annotated[list[str] | None, Maybe(Names("table columns"))]


@dataclass
class TableNames:
    """Form and names of the training data, with which later tables are checked."""

    wide: Annotated[bool, Flag()]  # one table with a row per sample, instead of separate tables
    views: Annotated[list[str], Names("views")]
    # By view, or of the one wide table, "X".
    tables: Annotated[dict[str, TableColumns], MapOf(Nested(TableColumns))]
    # Positions of each view's columns that are not dropped.
    used: Annotated[dict[str, list[int]], MapOf(ListOf(Whole(0), "columns"), keys="views")]
    labels: Annotated[list[str], Names("labels")] = field(default_factory=list)
    labels_named: Annotated[bool, Flag()] = False
    one_column: Annotated[bool, Flag()] = False  # whether labels were one-dimensional
    owner: Annotated[str, Text()] = "NAIM3L"  # class of the model, for messages of scikit-learn

    @classmethod
    def of(
        cls, tables: Mapping[str, Batch], views: Mapping[str, Any] | None, *, wide: bool, owner: str
    ) -> "TableNames":
        """Names of the tables of a fit, which may be without rows; ``views`` is the parameter."""
        if views is not None and not wide:
            raise ValueError(
                "views= names the columns of one wide table; with a mapping of tables leave it out."
            )
        columns = {name: TableColumns(of.shape[1], of.columns) for name, of in tables.items()}
        used = {view: list(range(of.n)) for view, of in columns.items()}
        if not wide:
            return cls(False, list(used), columns, used, owner=owner)
        used = resolve_columns(views, tables[WIDE_TABLE])
        names = cls(True, list(used), columns, used, owner=owner)
        names.validate(tables[WIDE_TABLE].head, reset=True)
        return names

    def _check_stored(self) -> None:
        """Refuse positions beyond the columns of a table, and tables of other views."""
        expected = [WIDE_TABLE] if self.wide else self.views
        if list(self.tables) != expected:
            raise ValueError(f"tables should be those of {expected}.")
        for view, positions in self.used.items():
            n = self.tables[self.table_of(view)].n
            distinct = len(set(positions)) == len(positions)
            if not (positions and distinct and max(positions) < n):
                raise ValueError(f"view {view!r} has columns that its table does not have.")

    @property
    def blocks(self) -> list[str]:
        """Names of the tables of scores: the views, or all views of a wide table together."""
        return [FUSED] if self.wide else self.views

    def table_of(self, view: str) -> str:
        return WIDE_TABLE if self.wide else view

    def keep(self, columns: Mapping[str, Sequence[int]]) -> None:
        """Use only some columns of views, given by positions among those used so far."""
        for view, kept in columns.items():
            self.used[view] = [self.used[view][j] for j in kept]

    def column_names(self, view: str) -> list[str] | None:
        """Names of a view's columns that are used; None if they have none."""
        names = self.tables[self.table_of(view)].names
        return None if names is None else [names[j] for j in self.used[view]]

    def column_labels(self, view: str) -> list[str]:
        """Names of a view's columns, or where they are in the table: "column 3"."""
        return self.column_names(view) or [f"column {j}" for j in self.used[view]]

    def needed_columns(self) -> dict[str, list[str] | None]:
        """Names of the columns that later tables need, by table; None if they have no names."""
        if self.wide:
            return {WIDE_TABLE: self.tables[WIDE_TABLE].names}
        return {view: self.column_names(view) for view in self.views}

    def check_form(self, X: Any) -> None:
        """Refuse tables that are not in the form of the fit."""
        if not self.wide:
            check_view_names(X, known=self.views)
        elif is_separate(X):
            raise TypeError(
                "the model was fitted on one wide table, got a mapping; naim3l.join_views "
                "makes one table of tables with the same rows or ids."
            )

    def split(self, table: str, batch: Batch) -> dict[str, Batch]:
        """Batch of each view of a table, with the columns that are used, checked by name."""
        if self.wide:
            self.validate(batch.head, reset=False)
            origins = {view: batch.origin.of_table(f"view {view!r}") for view in self.views}
            return {v: batch.select_columns(self.used[v], of) for v, of in origins.items()}
        used, known = self.used[table], self.tables[table]
        dropped = len(used) < known.n
        if dropped and batch.columns is not None and batch.columns == self.column_names(table):
            return {table: batch}
        check_same_columns(batch, known.names, known.n)
        return {table: batch.select_columns(used) if dropped else batch}

    def label_positions(self, batch: Batch) -> list[int]:
        """For each column of a label table, its position among the labels of the fit."""
        if batch.columns is not None and self.labels_named:
            if set(batch.columns) == set(self.labels):
                return [self.labels.index(name) for name in batch.columns]
        elif batch.shape[1] == len(self.labels):
            return list(range(batch.shape[1]))
        raise ValueError(
            f"{batch.origin}: labels {batch.columns or batch.shape[1]} are not those of the fit, "
            f"{self.labels}."
        )

    def truth_of(self, rows: Any) -> NDArray[np.float64]:
        """Labels of `LabelledRows` in the order of those of the fit, 1, 0, NaN = unknown."""
        return rows.truth[:, np.argsort(self.label_positions(rows.labels))]

    def warn_of_labels_among_features(self) -> None:
        """Warn of columns of views that have the names of labels."""
        for view in self.views if self.labels_named else ():
            shared = sorted(set(self.column_names(view) or []) & set(self.labels))
            if shared:
                warn_user(
                    f"view {view!r}: columns {shared} have the names of labels; if they are the "
                    "labels, leave them out of the features."
                )

    def validate(self, X: Any, *, reset: bool) -> None:
        """Check the columns of a wide table as scikit-learn does, with the name of the model."""
        checked = type(self.owner, (BaseEstimator,), {})()
        if not reset:
            checked.n_features_in_ = self.tables[WIDE_TABLE].n
            if (names := self.tables[WIDE_TABLE].names) is not None:
                checked.feature_names_in_ = np.array(names, dtype=object)
        validate_data(checked, X, skip_check_array=True, reset=reset)

    @property
    def n_features_in_(self) -> int | dict[str, int]:
        counts = {name: columns.n for name, columns in self.tables.items()}
        return counts[WIDE_TABLE] if self.wide else counts

    @property
    def feature_names_in_(self) -> NDArray | dict[str, NDArray]:
        named = {name: of.names for name, of in self.tables.items() if of.names is not None}
        names = {name: np.array(of, dtype=object) for name, of in named.items()}
        if not names:
            raise AttributeError("the tables of the fit had no column names")
        return names[WIDE_TABLE] if self.wide else names

    @property
    def classes_(self) -> NDArray:
        """Names of the labels, (n_labels,); of labels of one dimension, the values no and yes."""
        if self.wide and self.one_column:
            return np.array([0, 1])
        return np.array(self.labels, dtype=object)


def resolve_columns(views: Mapping[str, Any] | None, batch: Batch) -> dict[str, list[int]]:
    """Positions of each view's columns in a wide table; with None all columns are one view."""
    if views is None:
        return {SINGLE_VIEW: list(range(batch.shape[1]))}
    if not isinstance(views, Mapping) or not views:
        raise ValueError(f"views must be a mapping {{view: columns}} or None, got {views!r}.")
    resolved = {}
    for view, chosen in views.items():
        check_view_name(view)
        positions = _positions(chosen, batch, f"views[{view!r}]")
        if not positions:
            raise ValueError(f"views[{view!r}] has no columns.")
        if len(set(positions)) < len(positions):
            twice = next(j for j, n in Counter(positions).items() if n > 1)
            raise ValueError(f"views[{view!r}] has {batch.column_label(twice)} twice.")
        resolved[view] = positions
    return resolved


def _positions(chosen: Any, batch: Batch, where: str) -> list[int]:
    n_columns = batch.shape[1]
    names = {name: j for j, name in enumerate(batch.columns or [])}
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
    positions = []
    for entry in entries:
        if isinstance(entry, str) and not names:
            raise ValueError(
                f"{where}: column {entry!r} is a name, but the table has no column names; "
                "give positions, or a data frame (after a transformer in a pipeline: "
                "transformer.set_output(transform='pandas'))."
            )
        if isinstance(entry, str) and entry not in names:
            known = some(list(names))
            raise ValueError(f"{where}: unknown column {entry!r}; the table has [{known}].")
        at = names[entry] if isinstance(entry, str) else entry
        is_number = isinstance(at, int | np.integer) and not isinstance(at, bool)
        if not is_number or not -n_columns <= at < n_columns:
            raise ValueError(f"{where}: no column {entry!r} in a table of {n_columns} columns.")
        positions.append(int(at) % n_columns)
    return positions


def check_same_columns(batch: Batch, names: Collection[str] | None, n_columns: int) -> None:
    """Refuse a table whose columns are not those of the fit, in their order."""
    given = batch.columns
    if names is not None and given is not None and list(names) != given:
        known, found = set(names), set(given)
        missing = [name for name in names if name not in found]
        extra = [name for name in given if name not in known]
        raise ValueError(
            f"{batch.origin}: columns differ from those of the fit: missing [{some(missing)}], "
            f"unexpected [{some(extra)}]."
            if missing or extra
            else f"{batch.origin}: columns must be in the order of the fit; reorder with "
            f"table[model.feature_names_in_[view]]. Expected [{some(list(names))}], got "
            f"[{some(given)}]."
        )
    if batch.shape[1] != n_columns:
        raise ValueError(f"{batch.origin}: {batch.shape[1]} columns, but {n_columns} at the fit.")
    if (names is None) != (given is None):
        lacking = "the table has" if given is None else "the fit had"
        warn_user(f"{batch.origin}: {lacking} no column names; columns are taken in order.")


def rows_without_view(n_rows: int, first: Sequence[int]) -> str:
    """Message about rows of a wide table without any view, given how many, and the first."""
    shown = ", ".join(map(str, first[:MOST_SHOWN])) + (", ..." if n_rows > MOST_SHOWN else "")
    return f"{WIDE_TABLE}: {n_rows} rows ({shown}) have no view at all"
