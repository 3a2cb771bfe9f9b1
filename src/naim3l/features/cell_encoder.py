"""Numbers from cells of all kinds: missing cells are filled in, text becomes columns."""

import datetime
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from naim3l.features.column_kinds import BOOLEAN, DATE, NUMBER, TEXT, days_of, texts_of
from naim3l.features.column_sums import AS_NUMBERS
from naim3l.features.survey import TableSurvey
from naim3l.input.distinct import MOST_VALUES
from naim3l.input.numeric import check_finite
from naim3l.input.tables import LARGEST, Table

# Text with more different values than this is not categorical: the most frequent become columns.
MOST_CATEGORIES = 30
# A value of text in fewer rows than this is one of the rare ones of its column.
RARE_WORD = 3


class CellEncoder(TransformerMixin, BaseEstimator):
    """Turn the cells of a table into numbers, without any missing one.

    Missing numbers are replaced by the mean of their column. Truth values become 0 and 1, and
    dates become days since 1970-01-01. Each of the `MOST_CATEGORIES` most frequent values of a
    column of text becomes a column of 0 and 1, as does a missing cell; values in fewer than
    `RARE_WORD` rows, all others, and later those that were not in the training rows share one.

    Parameters
    ----------
    text : sequence of str
        Columns that are text, even if their cells are numbers.

    Attributes
    ----------
    kinds_ : ndarray of int8, of shape (n_columns,)
        Kind of each column, as its position in `naim3l.features.column_kinds.KINDS`.
    missing_ : ndarray of float, of shape (n_columns,)
        Share of missing cells in each column.
    means_ : ndarray of float, of shape (n_columns,)
        Means of the columns, with which missing cells are filled in; 0 for columns of text, and
        for empty ones.
    encoder_ : OneHotEncoder or None
        For the columns of text, of which the columns of the result come last.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [61, None, 35], "ward": ["A", "B", "A"]})
    >>> CellEncoder().fit_transform(table)[:, 0]
    array([61., 48., 35.])
    """

    def __init__(self, text: Sequence[str] = ()):
        self.text = text

    def fit(self, X: Any, y: Any = None) -> Self:
        return self.fit_survey(TableSurvey.of(_as_table(X), text=self.text, aside=False))

    def fit_survey(self, survey: TableSurvey) -> Self:
        """`fit` from the survey of a table, or of all parts of one.

        Parameters
        ----------
        survey : TableSurvey
            Rows that lack the view do not count. Its columns of text are those of ``text``.
        """
        self.__dict__.pop("feature_names_in_", None)
        if survey.columns is not None:
            self.feature_names_in_ = np.array(survey.columns, dtype=object)
        self.n_features_in_ = len(survey.labels)
        self.kinds_ = np.array([*survey.find_kinds().values()], dtype=np.int8)
        is_text = self.kinds_ == TEXT
        survey.check_numbers(np.flatnonzero(~is_text).tolist())
        n_rows = survey.n_present
        self.missing_ = (n_rows - survey.n_known) / max(n_rows, 1)
        self.means_ = np.where(is_text, 0, survey.sums.totals / np.maximum(survey.n_known, 1))
        self.encoder_ = _fit_one_hot(survey, np.flatnonzero(is_text).tolist())
        return self

    def transform(self, X: Any) -> Any:
        check_is_fitted(self)
        table = _as_table(X)
        if table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{table.where}: {table.shape[1]} columns, but {self.n_features_in_} at the fit."
            )
        is_text = self.kinds_ == TEXT
        numbers = None if is_text.all() else self._numbers(table)
        if numbers is not None and _count_missing(numbers).any():
            numbers = _fill(numbers, self.means_[~is_text])
        if self.encoder_ is None:
            return numbers
        words = self.encoder_.transform(self._words(table))
        return words if numbers is None else np.hstack([numbers, words])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the columns of the result; those of a value are "column_value"."""
        check_is_fitted(self)
        if input_features is None:
            default = [f"x{j}" for j in range(self.n_features_in_)]
            input_features = getattr(self, "feature_names_in_", default)
        given = np.asarray(input_features, dtype=object)
        names = given[self.kinds_ != TEXT].tolist()
        if self.encoder_ is not None:
            parts = [given[self.kinds_ == TEXT].tolist(), *_frequent_and_rare(self.encoder_)]
            for name, frequent, rare in zip(*parts, strict=True):
                values = ["missing" if value is None else value for value in frequent]
                names += [f"{name}_{value}" for value in [*values, *["other values"] * bool(rare)]]
        return np.array(_distinct(names), dtype=object)

    def n_values(self) -> dict[int, tuple[int, int]]:
        """Number of frequent and of rare values of each column of text, by position."""
        if self.encoder_ is None:
            return {}
        parts = zip(*_frequent_and_rare(self.encoder_), strict=True)
        counts = [(len(frequent), len(rare)) for frequent, rare in parts]
        return dict(zip(np.flatnonzero(self.kinds_ == TEXT).tolist(), counts, strict=True))

    def row_of_zeros(self) -> NDArray[Any]:
        """A row that it accepts, (1, n_columns): zeros, and the first of the days."""
        row = np.zeros((1, self.n_features_in_), dtype=object)
        row[:, self.kinds_ == DATE] = datetime.date(1970, 1, 1)
        return row

    def _numbers(self, table: Table) -> Any:
        """Numbers, truth values and days, NaN where missing, (n_rows, n_columns without text)."""
        numeric = np.flatnonzero(np.isin(self.kinds_, (NUMBER, BOOLEAN))).tolist()
        part = table if len(numeric) == table.shape[1] else table.select_columns(
            numeric, table.where)  # fmt: skip
        numbers = part.numbers(allowed=AS_NUMBERS) if numeric else np.empty((table.shape[0], 0))
        stored = numbers.data if sparse.issparse(numbers) else numbers
        if (np.abs(stored) > LARGEST).any():
            known = _fill(numbers, np.zeros(len(numeric)))
            check_finite(part, known, np.ones(table.shape[0], dtype=bool))
        dates = np.flatnonzero(self.kinds_ == DATE).tolist()
        if not dates:
            return numbers
        columns = [*numeric, *dates]
        numbers = np.column_stack([numbers, *(days_of(table, j) for j in dates)])
        return numbers[:, np.argsort(columns)]

    def _words(self, table: Table) -> NDArray[Any]:
        """Text, None where missing, (n_rows, n_columns of text)."""
        columns = np.flatnonzero(self.kinds_ == TEXT).tolist()
        words = np.empty((table.shape[0], len(columns)), dtype=object)
        for k, j in enumerate(columns):
            words[:, k] = texts_of(table, j)
        return words

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _as_table(X: Any) -> Table:
    return X if isinstance(X, Table) else Table(X, "X")


def _fit_one_hot(survey: TableSurvey, columns: Sequence[int]) -> OneHotEncoder | None:
    """Encoder of the columns of text, as if it were fitted to their cells."""
    if not columns:
        return None
    categories, rows = [], []
    for j in columns:
        cells = survey.cells[j]
        if cells.values.is_sample:
            raise ValueError(
                f"{survey.where}, {survey.labels[j]}: more than {MOST_VALUES} different values of "
                "text, which is an id or free text; leave the column out, or group its values."
            )
        texts = cells.texts()
        counts: dict[str | None, int] = {text: texts[text] for text in sorted(texts)}
        if survey.n_present > cells.n_known:
            counts[None] = survey.n_present - cells.n_known
        categories.append([*counts])
        rows.append(np.repeat(np.array([*counts], dtype=object), _levels([*counts.values()])))
    words = np.full((max(map(len, rows)), len(columns)), "", dtype=object)  # "" is no category
    for k, column in enumerate(rows):
        words[: len(column), k] = column
    encoder = OneHotEncoder(
        categories=categories,
        handle_unknown="infrequent_if_exist",
        min_frequency=RARE_WORD,
        max_categories=MOST_CATEGORIES + 1,  # the last is for all others
        sparse_output=False,
    )
    return encoder.fit(words).set_params(categories="auto")


def _levels(counts: Sequence[int]) -> NDArray[np.int_]:
    """Small numbers that say the same of rare and of the most frequent values as their counts."""
    levels, of_value = np.unique(counts, return_inverse=True)
    # Fewer than MOST_CATEGORIES values have counts above the lowest of these ranks.
    ranks = np.arange(len(levels)) - max(len(levels) - MOST_CATEGORIES, 0)
    return np.where(levels < RARE_WORD, levels, RARE_WORD + np.maximum(ranks, -1) + 1)[of_value]


def _frequent_and_rare(encoder: OneHotEncoder) -> tuple[list[list[Any]], list[list[Any]]]:
    """Values of each column that have a column of their own, and those that share one."""
    rare = [[] if few is None else few.tolist() for few in encoder.infrequent_categories_]
    frequent = [
        [value for value in values if value not in set(few)]
        for values, few in zip(encoder.categories_, rare, strict=True)
    ]
    return frequent, rare


def _distinct(names: list[str]) -> list[str]:
    """Names, of which those that occur before have an underscore appended."""
    taken: set[str] = set()
    for k, name in enumerate(names):
        while name in taken:
            name += "_"
        names[k] = name
        taken.add(name)
    return names


def _count_missing(numbers: Any) -> NDArray[np.int_]:
    """Number of NaN in each column."""
    if sparse.issparse(numbers):
        columns = numbers.indices[np.isnan(numbers.data)]
        return np.bincount(columns, minlength=numbers.shape[1])
    return np.isnan(numbers).sum(axis=0)


def _fill(numbers: Any, values: NDArray[np.float64]) -> Any:
    """A copy of the numbers with the value of the column where one is missing."""
    if not sparse.issparse(numbers):
        return np.where(np.isnan(numbers), values, numbers)
    filled = numbers.copy()
    missing = np.isnan(filled.data)
    filled.data[missing] = values[filled.indices[missing]]
    return filled
