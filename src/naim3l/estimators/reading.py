"""Tables and labels of both input forms, read into a problem and read again at predict time."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from naim3l.decisions.thresholds import check_threshold
from naim3l.features.kernels import (
    N_LANDMARKS,
    KernelMap,
    check_gamma,
    check_kernel,
    check_landmarks,
    of_view,
)
from naim3l.features.recipes import encode, make_transformer, wants_numbers
from naim3l.input.labels import LabelTable, check_observed, check_rows, match_labels, read_labels
from naim3l.input.tables import Table, warn_user
from naim3l.input.views import (
    check_same_columns,
    is_apart,
    resolve_columns,
    tables_apart,
    tables_wide,
)
from naim3l.problem.rows import Problem


class ViewReader(BaseEstimator):
    """Base of the models: remembers form, views, names and transformers of the fit.

    A subclass has the parameters below.
    """

    views: Mapping[str, Any] | None
    transformer: Any
    fit_intercept: bool
    label_coding: str
    threshold: Any
    # Of those models that have them.
    kernel: Any = None
    n_landmarks: int | None = N_LANDMARKS
    gamma: Any = "auto"
    positive_weight: float = 1.0

    def _read_training(self, X: Any, y: Any) -> Problem:
        """Problem of all views; fits transformers, remembers form and names."""
        # A fit that fails leaves no model behind, and one in another form no names.
        for name in ("coef_", "intercept_", "feature_names_in_", "n_features_in_"):
            if hasattr(self, name):
                delattr(self, name)
        self._coding = self.label_coding
        tables = self._fit_tables(X)
        labels = self._read_labels(X, y, tables)
        signed, self.label_names_ = match_labels(labels)
        self._labels_named = any(table.table.columns for table in labels.values())
        self._check_names(tables)
        check_threshold(self.threshold, self.label_names_)
        self._one_column = all(table.one_column for table in labels.values())
        features, observed, present = {}, {}, {}
        self.transformers_, self._as_numbers = {}, {}
        for view, table in tables.items():
            self.transformers_[view] = make_transformer(
                self.transformer, view, self._kernel_map(view)
            )
            self._as_numbers[view] = wants_numbers(self.transformer, view)
            features[view], present[view] = self._encode(view, table, fit=True)
            observed[view] = signed[view][present[view]]
        if self._wide and not (anywhere := np.any(list(present.values()), axis=0)).all():
            warn_rows(~anywhere, "have no view at all and are left out")
        check_observed(observed, self.label_names_)
        problem = Problem(
            list(features.values()),
            list(observed.values()),
            fit_intercept=self.fit_intercept,
            positive_weight=self.positive_weight,
            names=self.views_,
            samples=np.concatenate([np.flatnonzero(p) for p in present.values()])
            if self._wide
            else None,
        )
        self.base_rates_ = problem.base_rates
        return problem

    def _fit_tables(self, X: Any) -> dict[str, Table]:
        """Table of each view; remembers the form, the views and the column names."""
        self._wide = not is_apart(X)
        if self._wide:
            table = Table(X, "X")
            self._view_columns = resolve_columns(self.views, table)
            validate_data(self, X, skip_check_array=True)
            self.views_ = list(self._view_columns)
            return tables_wide(table, self._view_columns)
        if self.views is not None:
            raise ValueError(
                "views= names the columns of one wide table; with a mapping of tables leave it out."
            )
        tables = tables_apart(X)
        self.views_ = list(tables)
        self.n_features_in_ = {view: table.shape[1] for view, table in tables.items()}
        names = {view: np.array(table.columns, dtype=object) for view, table in tables.items()
                 if table.columns is not None}  # fmt: skip
        if names:
            self.feature_names_in_ = names
        return tables

    def _read_labels(self, X: Any, y: Any, tables: dict[str, Table]) -> dict[str, LabelTable]:
        """Label table of each view, checked against its rows; one and the same if wide."""
        if self._wide or y is None:  # what is said of missing labels is the same in both forms
            if is_apart(y):
                raise TypeError("one wide table takes one label table, got a mapping.")
            labels = read_labels(y, self._coding, "y")
            check_rows(Table(X, "X"), labels)
            return dict.fromkeys(tables, labels)
        if not is_apart(y):
            raise TypeError(
                f"a mapping of tables takes a mapping {{view: label table}}, got "
                f"{type(y).__name__}."
            )
        without, extra = set(tables) - set(y), set(y) - set(tables)
        if without or extra:
            raise ValueError(
                f"views and label tables differ: views without labels {sorted(without)}, "
                f"labels without a view {sorted(extra, key=str)}."
            )
        labels_apart = {
            view: read_labels(y[view], self._coding, f"view {view!r}") for view in tables
        }
        for view, table in tables.items():
            check_rows(table, labels_apart[view])
        return labels_apart

    def _check_names(self, tables: dict[str, Table]) -> None:
        for name in ("transformer", "kernel", "gamma"):
            value = getattr(self, name)
            extra = sorted(set(value) - set(tables), key=str) if is_apart(value) else []
            if extra:
                raise ValueError(f"{name}: no views {extra}; the data have {list(tables)}.")
        for view, table in tables.items():
            shared = sorted(set(table.columns or []) & set(self.label_names_))
            if shared and self._labels_named:
                warn_user(
                    f"view {view!r}: columns {shared} have the names of labels; if they are the "
                    "labels, leave them out of the features."
                )

    def _kernel_map(self, view: str) -> KernelMap | None:
        """Unfitted kernel map of a view, None where its model is linear in the features."""
        kernel = of_view("kernel", self.kernel, view)
        if kernel is None:
            return None
        gamma = of_view("gamma", self.gamma, view)
        return KernelMap(kernel, n_landmarks=self.n_landmarks, gamma=gamma)

    def _check_kernel_parameters(self) -> None:
        for name, kernel in _entries("kernel", self.kernel):
            if kernel is not None:
                check_kernel(name, kernel)
        for name, gamma in _entries("gamma", self.gamma):
            if gamma is not None or not is_apart(self.gamma):  # None: a view without a kernel
                check_gamma(name, gamma)
        check_landmarks(self.n_landmarks)

    def _encode(self, view: str, table: Table, *, fit: bool = False) -> tuple[Any, NDArray]:
        transformer = self.transformers_[view]
        return encode(table, transformer, as_numbers=self._as_numbers[view], fit=fit)

    def _known_tables(self, X: Any) -> dict[str, Table]:
        """Table of each view at predict time, checked against the fit."""
        if self._wide:
            if is_apart(X):
                raise TypeError(
                    "the model was fitted on one wide table, got a mapping; naim3l.join_views "
                    "makes one table of tables with the same rows."
                )
            table = Table(X, "X")
            resolve_columns(None, table)  # refuses an empty table
            validate_data(self, X, skip_check_array=True, reset=False)
            return tables_wide(table, self._view_columns)
        tables = tables_apart(X, known=self.views_)
        names = getattr(self, "feature_names_in_", {})
        for view, table in tables.items():
            check_same_columns(table, names.get(view), self.n_features_in_[view])
        return tables

    def _label_positions(self, labels: LabelTable) -> list[int]:
        """For each column of a label table, its position among the labels of the fit."""
        columns, n_columns = labels.table.columns, labels.signed.shape[1]
        if columns is not None and self._labels_named:
            if set(columns) == set(self.label_names_):
                return [self.label_names_.index(name) for name in columns]
        elif n_columns == len(self.label_names_):
            return list(range(n_columns))
        raise ValueError(
            f"{labels.table.where}: labels {columns or n_columns} are not those of the fit, "
            f"{self.label_names_}."
        )


def _entries(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A parameter's value, or those of its mapping, under the names that errors call them by."""
    if is_apart(value):
        yield from ((f"{name}[{view!r}]", entry) for view, entry in value.items())
    else:
        yield name, value


def warn_rows(rows: NDArray[np.bool_], what: str) -> None:
    listed = np.flatnonzero(rows)
    shown = ", ".join(map(str, listed[:5])) + (", ..." if len(listed) > 5 else "")
    warn_user(f"X: {len(listed)} rows ({shown}) {what}.")
