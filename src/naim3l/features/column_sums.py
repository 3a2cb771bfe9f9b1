"""Sums and sizes of the numbers in the columns of a table, and the first cells that are refused."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.features.column_kinds import days_of
from naim3l.input.numeric import check_finite
from naim3l.input.tables import LARGEST, Table, first_cell, mark_cells

AS_NUMBERS = "numbers, as at the fit, or NaN where they are unknown"


@dataclass(frozen=True)
class ColumnSums:
    """What is known about the numbers of each column; sums of parts can be combined.

    Attributes
    ----------
    totals, sizes : ndarray of float, of shape (n_columns,)
        Sums and largest absolute values of the numbers, or of the days of dates; 0 for text, and
        for columns that are refused.
    unreadable : dict of int to Exception
        Errors for the first cell of a column that is not a number or a date after all.
    too_large : dict of int to (int, Exception)
        Row, and error, for the first number of a column that is infinite or too large.
    """

    totals: NDArray[np.float64]
    sizes: NDArray[np.float64]
    unreadable: dict[int, Exception] = field(default_factory=dict)
    too_large: dict[int, tuple[int, Exception]] = field(default_factory=dict)

    @classmethod
    def zeros(cls, n_columns: int) -> "ColumnSums":
        """Sums of no rows."""
        return cls(np.zeros(n_columns), np.zeros(n_columns))

    def add_numbers(self, part: Table, columns: list[int], numbers: Any) -> None:
        """Set those of some columns: ``part`` has these alone, and its cells are ``numbers``."""
        if part.shape[0] == 0:
            return
        with np.errstate(invalid="ignore", over="ignore"):  # of numbers that are too large
            totals = np.asarray(numbers.sum(axis=0)).ravel()
            if np.isnan(totals).any():
                numbers = _without_missing(numbers)
                totals = np.asarray(numbers.sum(axis=0)).ravel()
        self.totals[columns] = totals
        ends = numbers.min(axis=0), numbers.max(axis=0)
        if sparse.issparse(numbers):
            ends = ends[0].toarray().ravel(), ends[1].toarray().ravel()
        self.sizes[columns] = np.maximum(-ends[0], ends[1])
        for k in np.flatnonzero(self.sizes[columns] > LARGEST).tolist():
            one, column = part.select_columns([k], part.where), numbers[:, [k]]
            cell = first_cell(mark_cells(column, lambda values: np.abs(values) > LARGEST))
            assert cell is not None
            try:
                check_finite(one, column, np.ones(part.shape[0], dtype=bool))
            except ValueError as error:
                self.too_large[columns[k]] = cell[0], error
                self.totals[columns[k]] = 0

    def add_cells(self, table: Table, j: int) -> None:
        """Set those of a column of Python objects that are numbers."""
        part = table.select_columns([j], table.where)
        try:
            self.add_numbers(part, [j], part.numbers(allowed=AS_NUMBERS))
        except (ValueError, TypeError) as error:
            self.unreadable[j] = error

    def add_dates(self, table: Table, j: int) -> None:
        """Set those of a column of dates."""
        try:
            days = np.asarray(days_of(table, j), dtype=float)
        except ValueError as error:
            self.unreadable[j] = error
            return
        days = days[~np.isnan(days)]
        self.totals[j], self.sizes[j] = days.sum(), np.abs(days).max(initial=0)

    def combine(self, other: "ColumnSums", n_rows: int, without: Collection[int]) -> "ColumnSums":
        """Sums of these ``n_rows`` rows, followed by others, 0 for the columns ``without``."""
        unreadable = other.unreadable | self.unreadable
        too_large = {j: (i + n_rows, error) for j, (i, error) in other.too_large.items()}
        too_large |= self.too_large
        totals, sizes = self.totals + other.totals, np.maximum(self.sizes, other.sizes)
        unused = [*without, *unreadable]
        totals[[*unused, *too_large]] = sizes[unused] = 0
        return ColumnSums(
            totals,
            sizes,
            {j: unreadable[j] for j in sorted(unreadable) if j not in without},
            {j: too_large[j] for j in sorted(too_large) if j not in unused},
        )

    def select_columns(self, columns: Sequence[int]) -> "ColumnSums":
        """Sums of some of the columns."""
        return ColumnSums(
            self.totals[columns],
            self.sizes[columns],
            renumber(self.unreadable, columns),
            renumber(self.too_large, columns),
        )

    def check(self, columns: Collection[int]) -> None:
        """Raise the error for the first cell of the columns that is refused."""
        for j in columns:
            if j in self.unreadable:
                raise self.unreadable[j]
        large = [(i, j) for j, (i, _) in self.too_large.items() if j in columns]
        if large:
            raise self.too_large[min(large)[1]][1]


def renumber(found: Mapping[int, Any], columns: Sequence[int]) -> dict[int, Any]:
    """What was found in some of the columns, by their positions among these."""
    return {k: found[j] for k, j in enumerate(columns) if j in found}


def _without_missing(numbers: Any) -> Any:
    """The numbers, with 0 for those that are missing."""
    if not sparse.issparse(numbers):
        return np.where(np.isnan(numbers), 0, numbers)
    filled = numbers.copy()
    filled.data[np.isnan(filled.data)] = 0
    return filled
