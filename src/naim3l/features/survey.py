"""Survey of a table: what decides how its columns are used, without the rows themselves.

A survey of one part of a table can be combined with that of the next, so that columns of tables
that do not fit into memory are judged by the same rules as those that do.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from naim3l.features.cell_survey import CellSurvey
from naim3l.features.column_kinds import BOOLEAN, CELLS, DATE, NUMBER, TEXT, types_of
from naim3l.features.column_sums import AS_NUMBERS, ColumnSums, renumber
from naim3l.features.row_patterns import RowPatterns
from naim3l.input.distinct import ValueCounts
from naim3l.input.id_columns import OTHER, WHOLE, IdEvidence, why_evident
from naim3l.input.numeric import check_not_tiny
from naim3l.input.tables import Table

_HEAD = 100  # number of rows that rule out most columns as ids
_NAMES = {NUMBER: "numbers", BOOLEAN: "truth values", DATE: "dates", TEXT: "text", CELLS: "text"}


@dataclass(frozen=True)
class TableSurvey:
    """Summary of the columns of a table, or of one part of its rows.

    Attributes
    ----------
    where, place : str
        Names in messages of the whole table, and of the (first) part.
    columns : list of str or None
        Names of the columns, None if they have none.
    labels : list of str
        Columns in messages, such as "column 'age'".
    types : ndarray of int8, of shape (n_columns,)
        Kinds by type, see `naim3l.features.column_kinds.types_of`.
    n_rows : int
    rows : RowPatterns
        Which rows have the view.
    n_known : ndarray of int, of shape (n_columns,)
        Number of known cells; words for missing cells are unknown.
    sums : ColumnSums
        Of the columns of numbers, truth values and dates.
    cells : dict of int to CellSurvey
        Of the columns of text and of Python objects.
    ids : dict of int to (IdEvidence, ValueCounts)
        Of the other columns, if they have names and are not dates.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.features.survey import TableSurvey
    >>> from naim3l.input.tables import Table
    >>> parts = [np.array([[1.0, np.nan]]), np.array([[3.0, 5.0]])]
    >>> first, second = (TableSurvey.of(Table(part, "view 'lab'")) for part in parts)
    >>> first.combine(second).sums.totals
    array([4., 5.])
    """

    where: str
    place: str
    columns: list[str] | None
    labels: list[str]
    types: NDArray[np.int8]
    n_rows: int
    rows: RowPatterns
    n_known: NDArray[np.int_]
    sums: ColumnSums
    cells: dict[int, CellSurvey]
    ids: dict[int, tuple[IdEvidence, ValueCounts]]

    @classmethod
    def of(
        cls,
        table: Table,
        where: str | None = None,
        text: Collection[str] = (),
        *,
        aside: bool = True,
    ) -> "TableSurvey":
        """Survey of a table, or of a part of one.

        Parameters
        ----------
        table : Table
        where : str, optional
            Name of the whole table in messages, if ``table`` is a part.
        text : collection of str
            Columns that are text, even if their cells are numbers.
        aside : bool
            Whether columns can be set aside. Otherwise evidence of ids is not collected, and every
            row counts as one that has the view.
        """
        n_rows, n_columns = table.shape
        missing, types = table.missing(), types_of(table, text)
        survey = cls(
            where or table.where,
            table.where if table.origin is None else str(table.origin),
            table.columns,
            [table.column_label(j) for j in range(n_columns)],
            types,
            n_rows,
            RowPatterns.of(missing) if aside else RowPatterns(n_columns, n_rows, None),
            n_rows - np.asarray(missing.sum(axis=0)).ravel().astype(int),
            ColumnSums.zeros(n_columns),
            {},
            {},
        )
        numeric = np.flatnonzero((types == NUMBER) | (types == BOOLEAN)).tolist()
        if numeric:
            survey._add_numbers(table, numeric, aside=aside and table.columns is not None)
        for j in np.flatnonzero(types == DATE).tolist():
            survey.sums.add_dates(table, j)
        for j in np.flatnonzero((types == TEXT) | (types == CELLS)).tolist():
            survey._add_cells(table, j, aside=aside)
        return survey

    @property
    def n_present(self) -> int:
        """Number of rows that have the view."""
        return self.rows.n_present

    def column_label(self, j: int) -> str:
        """Column ``j`` in messages."""
        return self.labels[j]

    def combine(self, other: "TableSurvey") -> "TableSurvey":
        """Survey of the rows of this part, followed by those of another."""
        if (self.columns, len(self.labels)) != (other.columns, len(other.labels)):
            raise ValueError(
                f"{other.place}: its columns differ from those of {self.place}; give all parts the "
                "same columns."
            )
        types = self._combine_types(other)
        cells, ids = {}, {}
        for j in np.flatnonzero((types == TEXT) | (types == CELLS)).tolist():
            found = [survey.cells[j] for survey in (self, other) if j in survey.cells]
            cells[j] = found[0].combine(*found[1:]) if len(found) > 1 else found[0]
        for j in sorted({*self.ids, *other.ids} - set(cells)):
            pairs = [survey.ids[j] for survey in (self, other) if j in survey.ids]
            ids[j] = _combine_ids(*pairs) if len(pairs) > 1 else pairs[0]
        # Cells that are numbers, or dates, in one part only have no sums.
        without = {j for j in cells if types[j] == TEXT or not (
            cells[j].has_numbers or cells[j].has_days)}  # fmt: skip
        return replace(
            self,
            types=types,
            n_rows=self.n_rows + other.n_rows,
            rows=self.rows.combine(other.rows),
            n_known=self.n_known + other.n_known,
            sums=self.sums.combine(other.sums, self.n_rows, without),
            cells=cells,
            ids=ids,
        )

    def select_columns(self, columns: Sequence[int]) -> "TableSurvey":
        """Survey of some of the columns; rows without cells in these lack the view."""
        chosen = list(columns)
        return replace(
            self,
            columns=None if self.columns is None else [self.columns[j] for j in chosen],
            labels=[self.labels[j] for j in chosen],
            types=self.types[chosen],
            rows=self.rows.select_columns(chosen),
            n_known=self.n_known[chosen],
            sums=self.sums.select_columns(chosen),
            cells=renumber(self.cells, chosen),
            ids=renumber(self.ids, chosen),
        )

    def find_kinds(self, columns: Collection[int] | None = None) -> dict[int, int]:
        """Kinds of columns, all of them by default, as positions in `column_kinds.KINDS`.

        Raises
        ------
        ValueError, TypeError
            See `CellSurvey.kind`.
        """
        kinds = {}
        for j in range(len(self.labels)) if columns is None else columns:
            kinds[j] = int(self.types[j])
            if kinds[j] == TEXT:
                self.cells[j].check_readable()
            elif kinds[j] == CELLS:
                named = f"table[{self.columns[j]!r}]" if self.columns else "the column"
                kinds[j] = self.cells[j].kind(named)
        return kinds

    def find_ids(self) -> dict[int, str]:
        """Positions of the columns that are likely to be ids, and the reasons.

        Columns without names, such as those of arrays, are never treated as ids.
        """
        if self.columns is None:
            return {}
        found = self.ids | {j: (cells.ids, cells.values) for j, cells in self.cells.items()}
        reasons = {j: why_evident(self.columns[j], *found[j]) for j in sorted(found)}
        return {j: reason for j, reason in reasons.items() if reason}

    def check_numbers(self, columns: Collection[int]) -> None:
        """Refuse columns with cells that are no numbers, with too large, or too small ones."""
        self.sums.check(columns)
        sizes = np.zeros((1, len(self.labels)))
        sizes[:, list(columns)] = self.sums.sizes[list(columns)]
        check_not_tiny(self, sizes)

    def _add_numbers(self, table: Table, numeric: list[int], *, aside: bool) -> None:
        """Add what numbers and truth values tell."""
        part = table if len(numeric) == table.shape[1] else table.select_columns(
            numeric, table.where)  # fmt: skip
        numbers = part.numbers(allowed=AS_NUMBERS)
        self.sums.add_numbers(part, numeric, numbers)
        if not aside:
            return
        head = numbers[:_HEAD]
        whole = (np.isnan(head) | (head == np.floor(head))).all(axis=0)
        for k, j in enumerate(numeric):
            evidence, known = IdEvidence(int(self.n_known[j]), OTHER), np.empty(0)
            if whole[k]:
                known = numbers[:, k]
                known = known[~np.isnan(known)] if self.n_known[j] < self.n_rows else known
                evidence = IdEvidence.of_numbers(known)
            counted = known if evidence.sort == WHOLE else known[:0]
            self.ids[j] = evidence, ValueCounts.of_numbers(counted)

    def _add_cells(self, table: Table, j: int, *, aside: bool) -> None:
        """Add what text and Python objects tell."""
        found = CellSurvey.of(table, j, aside=aside)
        self.cells[j], self.n_known[j] = found, found.n_known
        if self.types[j] == CELLS and found.has_numbers:
            self.sums.add_cells(table, j)
        elif self.types[j] == CELLS and found.has_days:
            self.sums.add_dates(table, j)

    def _combine_types(self, other: "TableSurvey") -> NDArray[np.int8]:
        """Types of the columns of both; a part without any cell has that of the other."""
        types = self.types.copy()
        for j in np.flatnonzero(self.types != other.types).tolist():
            pair = {int(self.types[j]), int(other.types[j])}
            if not self._has_cells(j):
                types[j] = other.types[j]
            elif not other._has_cells(j):
                continue
            elif pair in ({NUMBER, BOOLEAN}, {TEXT, CELLS}):
                types[j] = min(pair)  # numbers, and text
            else:
                raise TypeError(
                    f"{other.place}, {self.labels[j]}: it has {_NAMES[int(other.types[j])]}, but "
                    f"{_NAMES[int(self.types[j])]} in {self.place}; give the column one type in "
                    "all parts."
                )
        return types

    def _has_cells(self, j: int) -> bool:
        return bool(self.cells[j].n_cells if j in self.cells else self.n_known[j])


def _combine_ids(
    first: tuple[IdEvidence, ValueCounts], second: tuple[IdEvidence, ValueCounts]
) -> tuple[IdEvidence, ValueCounts]:
    evidence = first[0].combine(second[0])
    if evidence.sort != WHOLE:  # values do not matter
        return evidence, ValueCounts.of_numbers(np.empty(0))
    return evidence, first[1].combine(second[1])
