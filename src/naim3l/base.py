"""One linear model per view: reading both input forms, scores, decisions, imputation.

What a method adds is how the weights of all views are found; see ``estimator.NAIM3L``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from naim3l.labels import (
    CODINGS,
    LabelTable,
    check_observed,
    check_rows,
    fill_unknown,
    match_labels,
    read_labels,
)
from naim3l.metrics import evaluate
from naim3l.parameters import check_choice
from naim3l.problem import Problem
from naim3l.solvers import SolverResult
from naim3l.tables import Table, warn_user
from naim3l.transform import accepts_missing, encode, make_transformer, wants_numbers
from naim3l.views import check_same_columns, is_apart, resolve_columns, tables_apart, tables_wide

OUTPUTS = ("default", "pandas", "polars")
FUSED = "fused"


class LinearViewModel(BaseEstimator):
    """Base of the methods that learn one linear model per view.

    A subclass has the parameters ``views``, ``transformer``, ``fit_intercept`` and
    ``label_coding``; its ``fit`` calls ``_read_training``, finds stacked weights for the problem
    it gets, and hands them to ``_keep_weights``.
    """

    views: Mapping[str, Any] | None
    transformer: Any
    fit_intercept: bool
    label_coding: str

    def decision_function(self, X: Any) -> Any:
        """Scores, larger where a label is more likely; positive means yes.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping may hold some of the views only.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            Per view for tables apart; for a wide table the mean over the views that a row
            has. NaN in a row that lacks the view (every view, for a wide table).
        """
        check_is_fitted(self, "coef_")
        tables = self._known_tables(X)
        scores = self._scores(tables)
        if self._wide:
            lacking = np.asarray(np.isnan(scores[FUSED]).all(axis=1))
            if lacking.any():
                _warn_rows(lacking, "have no view at all: their scores are NaN")
        return self._contain(scores, X, tables)

    def predict(self, X: Any) -> Any:
        """Labels in the coding of the fit: yes where the score is positive, else no.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit; each row must have the view (some view, if wide).

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
        """
        check_is_fitted(self, "coef_")
        tables = self._known_tables(X)
        scores = self._scores(tables)
        for view, S in scores.items():
            lacking = np.flatnonzero(np.isnan(S).any(axis=1))
            if len(lacking):
                where = "X" if self._wide else f"view {view!r}"
                raise ValueError(
                    f"{where}, row {lacking[0]}: all values are missing, so there is nothing to "
                    f"predict from ({len(lacking)} such rows); drop these rows first."
                )
        decisions = {view: self._decide(S).astype(np.int64) for view, S in scores.items()}
        return self._contain(decisions, X, tables)

    def impute_labels(self, X: Any, y: Any) -> Any:
        """Label tables with the unknown entries predicted and the known ones untouched.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
        y : mapping of str to label table, or one label table
            Matching ``X`` row by row.

        Returns
        -------
        Label tables of the kind of ``y``
            An entry stays unknown in a row that has no features to predict it from.
        """
        filled = {}
        for view, S, labels in self._scores_and_labels(X, y):
            values = np.where(np.isnan(S), np.nan, self._decide(S))
            values = values[:, self._label_positions(labels)]
            filled[view] = fill_unknown(labels, values, self._coding)
        return filled[FUSED] if self._wide else filled

    def score(self, X: Any, y: Any) -> float:
        """Average precision on the known labels, averaged over views.

        Rows that lack the view are left out. With a single label there are no labels to
        rank: the share of right decisions is returned instead.
        """
        values = []
        for _, S, labels in self._scores_and_labels(X, y):
            signed = labels.signed[:, np.argsort(self._label_positions(labels))]
            truth = np.where(signed == 0, np.nan, signed > 0)
            present = ~np.isnan(S).any(axis=1)
            metrics = evaluate(truth[present], S[present])
            values.append(metrics["1-HL" if S.shape[1] == 1 else "AP"])
        return float(np.mean(values))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of scores and predictions, as for scikit-learn's transformers.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is NumPy; data frames carry the label names and, in pandas, the index of
            the rows. None changes nothing.
        """
        if transform is not None:
            check_choice("transform", transform, OUTPUTS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        # Rows that are NaN throughout lack the view; single NaN are for the transformer to take.
        tags.input_tags.allow_nan = not isinstance(self.transformer, Mapping) and accepts_missing(
            self.transformer
        )
        return tags

    # Training, in the order in which a subclass needs it.

    def _check_form_parameters(self) -> None:
        check_choice("fit_intercept", self.fit_intercept, (True, False))
        check_choice("label_coding", self.label_coding, CODINGS)

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
        self._one_column = all(table.one_column for table in labels.values())
        features, observed, present = {}, {}, {}
        self.transformers_, self._as_numbers = {}, {}
        for view, table in tables.items():
            self.transformers_[view] = make_transformer(self.transformer, view)
            self._as_numbers[view] = wants_numbers(self.transformer, view)
            features[view], present[view] = self._encode(view, table, fit=True)
            observed[view] = signed[view][present[view]]
        if self._wide and not (anywhere := np.any(list(present.values()), axis=0)).all():
            _warn_rows(~anywhere, "have no view at all and are left out")
        check_observed(observed, self.label_names_)
        return Problem(
            list(features.values()), list(observed.values()), fit_intercept=self.fit_intercept
        )

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
        if is_apart(self.transformer):
            extra = sorted(set(self.transformer) - set(tables), key=str)
            if extra:
                raise ValueError(f"transformer: no views {extra}; the data have {list(tables)}.")
        for view, table in tables.items():
            shared = sorted(set(table.columns or []) & set(self.label_names_))
            if shared and self._labels_named:
                warn_user(
                    f"view {view!r}: columns {shared} have the names of labels; if they are the "
                    "labels, leave them out of the features."
                )

    def _encode(self, view: str, table: Table, *, fit: bool = False) -> tuple[Any, NDArray]:
        transformer = self.transformers_[view]
        return encode(table, transformer, as_numbers=self._as_numbers[view], fit=fit)

    def _keep_weights(self, problem: Problem, W: NDArray[np.floating]) -> None:
        coefficients, intercepts = problem.split_weights(W)
        self.coef_ = dict(zip(self.views_, coefficients, strict=True))
        self.intercept_ = dict(zip(self.views_, intercepts, strict=True))

    def _keep_result(self, problem: Problem, result: SolverResult) -> None:
        """What an iterative solver found; an interrupt goes on after that."""
        if result.history:  # else interrupted before the first iteration ended
            self._keep_weights(problem, result.W)
            self.n_iter_ = result.n_iter
            self.converged_ = result.converged
            self.stationarity_ = result.stationarity
            self.objective_ = result.history[-1]["objective"]
            self.history_ = result.history
        if result.interrupted:
            raise KeyboardInterrupt

    # Prediction.

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

    def _score_view(self, view: str, table: Table) -> NDArray[np.float64]:
        features, present = self._encode(view, table)
        scores = np.full((table.shape[0], len(self.label_names_)), np.nan)
        if present.any():
            scores[present] = features @ self.coef_[view] + self.intercept_[view]
        return scores

    def _scores(self, tables: dict[str, Table]) -> dict[str, NDArray[np.float64]]:
        """Scores per view, or under the key FUSED their mean over the views that a row has."""
        scores = {view: self._score_view(view, table) for view, table in tables.items()}
        if not self._wide:
            return scores
        stacked = np.stack(list(scores.values()))
        present = ~np.isnan(stacked)
        count = present.sum(axis=0)
        total = np.where(present, stacked, 0).sum(axis=0)
        return {FUSED: np.where(count > 0, total / np.maximum(count, 1), np.nan)}

    def _scores_and_labels(
        self, X: Any, y: Any
    ) -> Iterator[tuple[str, NDArray[np.float64], LabelTable]]:
        """Name, scores and labels of each view; of the whole under FUSED if wide."""
        check_is_fitted(self, "coef_")
        tables = self._known_tables(X)
        labels = self._read_labels(X, y, tables)
        for view, S in self._scores(tables).items():
            yield view, S, next(iter(labels.values())) if self._wide else labels[view]

    def _decide(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        yes, no, _ = CODINGS[self._coding][0]
        return np.where(scores > 0, yes, no)

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

    def _contain(self, values: dict[str, NDArray], X: Any, tables: dict[str, Table]) -> Any:
        """Scores or decisions as users get them: in the configured container, or bare if wide."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        if container == "default":
            if self._wide:
                return values[FUSED].ravel() if self._one_column else values[FUSED]
            return values
        frames = {}
        for view, array in values.items():
            frame = nw.from_numpy(array, list(self.label_names_), backend=container).to_native()
            like = X if self._wide else tables[view].data
            if container == "pandas" and hasattr(like, "iloc"):
                frame.index = like.index
            frames[view] = frame
        return frames[FUSED] if self._wide else frames


def _warn_rows(rows: NDArray[np.bool_], what: str) -> None:
    listed = np.flatnonzero(rows)
    shown = ", ".join(map(str, listed[:5])) + (", ..." if len(listed) > 5 else "")
    warn_user(f"X: {len(listed)} rows ({shown}) {what}.")
