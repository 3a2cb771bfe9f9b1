"""Checked views from the tables and labels of users, for training and for prediction."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from naim3l.input.labels import (
    CODINGS,
    LabelTable,
    check_rows,
    match_labels,
    read_labels,
    refuse_names,
)
from naim3l.input.tables import Table, warn_user
from naim3l.input.views import (
    check_not_empty,
    check_same_columns,
    is_apart,
    resolve_columns,
    tables_apart,
    tables_wide,
)

APART, WIDE = FORMS = ("apart", "wide")
_OF_COLUMNS = ("n_features_in_", "feature_names_in_")  # attributes that scikit-learn sets


class View(NamedTuple):
    """A view of the training data: its table, and its labels as 1 = yes, -1 = no, 0 = unknown."""

    table: Table
    signed: NDArray[np.int8]


def of_reader(name: str) -> Any:
    """Property of a model that its reader has; missing before the fit, as in scikit-learn."""

    def read(model: Any) -> Any:
        reader = vars(model).get("reader_")
        if reader is None or not hasattr(reader, name):
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {name!r}")
        return getattr(reader, name)

    return property(read)


class TableReader:
    """Reader of tables and labels of either form, with the form and names of the training data.

    Parameters
    ----------
    views : mapping of str to columns, optional
        Columns of each view of a wide table, as for :class:`naim3l.NAIM3L`.
    label_coding : {"binary", "signed"}, default="binary"
    owner : str
        Class of the model, for messages of scikit-learn.

    Attributes
    ----------
    form_ : {"apart", "wide"}
        Whether the tables were a mapping, or one table with a row per sample.
    views_, label_names_ : list of str
    n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.
    columns_ : dict of str to list of int, or None
        Positions of each view's columns in its table, without those set aside; None if every
        view has all columns of its own table.
    labels_named_ : bool
        Whether the label tables had column names.
    one_column_ : bool
        Whether labels were one-dimensional.
    """

    def __init__(
        self,
        views: Mapping[str, Any] | None = None,
        label_coding: str = "binary",
        owner: str = "NAIM3L",
    ):
        self.views = views
        self.label_coding = label_coding
        self.owner = owner

    def read_training(
        self,
        X: Any,
        y: Any,
        set_aside: Callable[[str, Table], Collection[int]] = lambda view, table: (),
    ) -> dict[str, View]:
        """Checked views of the training data, whose form and names are stored.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
        y : mapping of str to label table, or one label table
        set_aside : function of the name of a view and its table
            Positions of the columns that are not used as features.

        Returns
        -------
        dict of str to View
            In a wide table all views have the same labels.
        """
        tables = self._first_tables(X)
        labels = self._read_labels(X, y, tables)
        for view, table in tables.items():
            if (kept := self.leave_out(view, set_aside(view, table))) is not None:
                tables[view] = table.select_columns(kept, table.where)
        signed = self.name_labels(labels)
        self.warn_of_labels_among_features(tables)
        return {view: View(table, signed[view]) for view, table in tables.items()}

    def tables(self, X: Any) -> dict[str, Table]:
        """Table of each view for prediction, checked against the training data.

        A mapping need not have all views.
        """
        if self.wide:
            if is_apart(X):
                raise TypeError(
                    "the model was fitted on one wide table, got a mapping; naim3l.join_views "
                    "makes one table of tables with the same rows or ids."
                )
            table = Table(X, "X")
            check_not_empty(table)
            self._validate(X, reset=False)
            assert self.columns_ is not None
            return tables_wide(table, self.columns_)
        tables = tables_apart(X, known=self.views_)
        return {view: self._columns_of_fit(view, table) for view, table in tables.items()}

    def _columns_of_fit(self, view: str, table: Table) -> Table:
        """The columns that the fit used; new tables may lack those set aside."""
        n_columns = self.n_features_in_[view]
        set_aside = self.n_columns(view) < n_columns
        if set_aside and table.columns is not None and table.columns == self.column_names(view):
            return table
        check_same_columns(table, getattr(self, "feature_names_in_", {}).get(view), n_columns)
        if not set_aside:
            return table
        assert self.columns_ is not None
        return table.select_columns(self.columns_[view], table.where)

    def labels(self, X: Any, y: Any) -> dict[str, LabelTable]:
        """Label table of each view in ``X``, checked against its rows; the same for all if wide."""
        apart = not self.wide and is_apart(X)
        tables = {view: Table(t, f"view {view!r}") for view, t in X.items()} if apart else {}
        return self._read_labels(X, y, tables)

    def _read_labels(self, X: Any, y: Any, tables: Mapping[str, Table]) -> dict[str, LabelTable]:
        self.check_label_form(y, tables)
        if self.wide or y is None:  # the error about missing labels is the same in both forms
            if y is not None:
                refuse_names(y, Table(X, "X"))
            labels = read_labels(y, self.label_coding, "y")
            check_rows(Table(X, "X"), labels)
            return dict.fromkeys(self.views_, labels)
        labels_apart = {}
        for view, table in tables.items():
            refuse_names(y[view], table)
            labels_apart[view] = read_labels(y[view], self.label_coding, table.where)
            check_rows(table, labels_apart[view])
        return labels_apart

    def check_label_form(self, y: Any, views: Collection[str]) -> None:
        """Refuse labels that are not given as the tables are; None is left to `read_labels`."""
        if self.wide or y is None:
            if is_apart(y):
                raise TypeError("one wide table takes one label table, got a mapping.")
            return
        if not is_apart(y):
            raise TypeError(
                f"a mapping of tables takes a mapping {{view: label table}}, got "
                f"{type(y).__name__}."
            )
        without, extra = set(views) - set(y), set(y) - set(views)
        if without or extra:
            raise ValueError(
                f"views and label tables differ: views without labels {sorted(without)}, "
                f"labels without a view {sorted(extra, key=str)}."
            )

    def signed(self, labels: LabelTable) -> NDArray[np.int8]:
        """Labels as 1, -1 and 0, with the columns in the order of the fit, (n_rows, n_labels)."""
        return labels.signed[:, np.argsort(self.label_positions(labels))]

    def label_positions(self, labels: LabelTable) -> list[int]:
        """For each column of a label table, its position among the labels of the fit."""
        columns, n_columns = labels.table.columns, labels.signed.shape[1]
        if columns is not None and self.labels_named_:
            if set(columns) == set(self.label_names_):
                return [self.label_names_.index(name) for name in columns]
        elif n_columns == len(self.label_names_):
            return list(range(n_columns))
        raise ValueError(
            f"{labels.table.where}: labels {columns or n_columns} are not those of the fit, "
            f"{self.label_names_}."
        )

    @property
    def wide(self) -> bool:
        return self.form_ == WIDE

    @property
    def classes_(self) -> NDArray:
        """Names of the labels, (n_labels,); of labels of one dimension, the values no and yes.

        As for scikit-learn's models of many labels, columns of scores are aligned with them.
        """
        if self.wide and self.one_column_:
            yes, no, _ = CODINGS[self.label_coding][0]
            return np.array([no, yes], dtype=np.int64)
        return np.array(self.label_names_, dtype=object)

    def n_columns(self, view: str) -> int:
        """Number of a view's columns, without those set aside."""
        return int(self.n_features_in_[view]) if self.columns_ is None else len(self.columns_[view])

    def column_names(self, view: str) -> list[str] | None:
        """Names of a view's columns, without those set aside; None if it has no names."""
        names: Any = getattr(self, "feature_names_in_", None)
        if names is not None and not self.wide:
            names = names.get(view)
        if names is not None and self.columns_ is not None:
            names = names[self.columns_[view]]
        return None if names is None else [str(name) for name in names]

    def column_labels(self, view: str) -> list[str]:
        """Names of a view's columns, or where they are in the table: "column 3"."""
        if (names := self.column_names(view)) is not None:
            return names
        at = range(self.n_columns(view)) if self.columns_ is None else self.columns_[view]
        return [f"column {j}" for j in at]

    def _first_tables(self, X: Any) -> dict[str, Table]:
        """Table of each view; stores the form, the views and the column names."""
        if not is_apart(X):
            table = Table(X, "X")
            check_not_empty(table)
            return self.name_wide(table)
        self.check_no_views()
        tables = tables_apart(X)
        self.name_apart(tables)
        return tables

    def check_no_views(self) -> None:
        """Refuse ``views`` beside a mapping of tables."""
        if self.views is not None:
            raise ValueError(
                "views= names the columns of one wide table; with a mapping of tables leave it out."
            )

    def name_wide(self, table: Table) -> dict[str, Table]:
        """Table of each view of a wide table, whose form and names are stored."""
        self.form_ = WIDE
        self.columns_: dict[str, list[int]] | None = resolve_columns(self.views, table)
        self.views_ = list(self.columns_)
        self._validate(table.data, reset=True)
        return tables_wide(table, self.columns_)

    def name_apart(self, tables: Mapping[str, Table]) -> None:
        """Store the form and the names of tables apart."""
        self.form_, self.columns_, self.views_ = APART, None, list(tables)
        self.n_features_in_ = {view: table.shape[1] for view, table in tables.items()}
        names = {view: np.array(table.columns, dtype=object) for view, table in tables.items()
                 if table.columns is not None}  # fmt: skip
        if names:
            self.feature_names_in_ = names

    def name_labels(self, labels: Mapping[str, LabelTable]) -> dict[str, NDArray[np.int8]]:
        """Signed labels of each view with the columns in one order; stores their names."""
        signed, self.label_names_ = match_labels(labels)
        self.labels_named_ = any(table.table.columns for table in labels.values())
        self.one_column_ = all(table.one_column for table in labels.values())
        return signed

    def _validate(self, X: Any, *, reset: bool) -> None:
        """Check the columns of a wide table as scikit-learn does, with the name of the model."""
        checked = type(self.owner, (BaseEstimator,), {})()
        known = {name: value for name, value in vars(self).items() if name in _OF_COLUMNS}
        vars(checked).update(known)
        validate_data(checked, X, skip_check_array=True, reset=reset)
        vars(self).update(vars(checked))

    def leave_out(self, view: str, unused: Collection[int]) -> list[int] | None:
        """Positions of the other columns of a view, which are stored; None if all are used."""
        if not unused:
            return None
        kept = [j for j in range(self.n_columns(view)) if j not in unused]
        if not kept:
            raise ValueError(f"view {view!r}: no column is left, as all of them are set aside.")
        if self.columns_ is None:
            self.columns_ = {name: list(range(n)) for name, n in self.n_features_in_.items()}
        self.columns_[view] = [self.columns_[view][j] for j in kept]
        return kept

    def warn_of_labels_among_features(self, tables: Mapping[str, Table]) -> None:
        """Warn of columns of views that have the names of labels."""
        for view, table in tables.items():
            shared = sorted(set(table.columns or []) & set(self.label_names_))
            if shared and self.labels_named_:
                warn_user(
                    f"view {view!r}: columns {shared} have the names of labels; if they are the "
                    "labels, leave them out of the features."
                )
