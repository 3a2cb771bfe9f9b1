"""Survey of a column of cells of any kind, which tells its kind; surveys of parts are combined."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

import numpy as np

from naim3l._text import quote
from naim3l.features.column_kinds import BOOLEAN, DATE, NUMBER, TEXT, as_text, count_cells
from naim3l.features.dates import days, is_date_like, why_no_date
from naim3l.input.distinct import ValueCounts
from naim3l.input.id_columns import OTHER, IdEvidence
from naim3l.input.tables import Table, is_missing, is_unknown

_TRUTH = (bool, np.bool_)
_AMOUNTS = (int, float, Decimal, np.number)


class Cell(NamedTuple):
    """A cell, and its place in errors."""

    place: str
    value: Any


@dataclass(frozen=True)
class CellSurvey:
    """What is known about the cells of a column of text or of Python objects.

    Cells that are not missing count; those that are none of the words for missing ones are known.

    Attributes
    ----------
    n_cells, n_known : int
    n_numbers : int
        Number of known cells that are numbers, or text that spells one.
    values : ValueCounts
        Of all cells, as Python objects.
    ids : IdEvidence
    only_numbers, only_truth, only_dates : bool
        Whether all known cells are numbers or truth values; truth values; dates, or text that is
        written like a date.
    text, odd, undated, strange : Cell or None
        The first cell that is text; that does not spell a number; that is written like a date and
        is none; and that is neither text nor a number.
    fault : Exception or None
        Error for the first cell that cannot be read or compared.
    """

    n_cells: int
    n_known: int
    n_numbers: int
    values: ValueCounts
    ids: IdEvidence
    only_numbers: bool
    only_truth: bool
    only_dates: bool
    text: Cell | None = None
    odd: Cell | None = None
    undated: Cell | None = None
    strange: Cell | None = None
    fault: Exception | None = None

    @classmethod
    def of(cls, table: Table, j: int, *, aside: bool = True) -> "CellSurvey":
        """Survey of a column; evidence of ids only if columns can be set ``aside``."""
        try:
            cells, counts = count_cells(table, j)
        except (TypeError, ValueError) as error:
            return cls._of_fault(table, j, error)
        known = {cell: n for cell, n in counts.items() if not is_unknown(cell)}
        numeric = {cell: n for cell, n in known.items() if _spells_number(cell)}
        only_dates = all(map(is_date_like, known))

        def first(found: Iterable[Any]) -> Cell | None:
            value = next(iter(found), None)
            if value is None:
                return None
            i = next(i for i, cell in enumerate(cells) if cell is value)  # pandas.NA has no ==
            return Cell(table.place(i, j), value)

        return cls(
            counts.total(),
            sum(known.values()),
            sum(numeric.values()),
            ValueCounts.of(counts),
            _id_evidence(cells, counts) if aside else IdEvidence(counts.total(), OTHER),
            len(numeric) == len(known) and _only(known, (*_TRUTH, *_AMOUNTS)),
            _only(known, _TRUTH),
            only_dates,
            first(cell for cell in counts if isinstance(cell, str)),
            first(c for c in counts if c not in numeric and not _spells_number(c)),
            first(cell for cell in known if days(cell) is None) if only_dates else None,
            first(c for c in known if not isinstance(c, (str, UUID, *_AMOUNTS, *_TRUTH))),
        )

    @classmethod
    def _of_fault(cls, table: Table, j: int, error: Exception) -> "CellSurvey":
        try:
            cells = table.cells(j)
        except OverflowError:
            missing = table.select_columns([j], table.where).missing().ravel().tolist()
            cells = [None if lacking else 0 for lacking in missing]
        n_cells = sum(not is_missing(cell) for cell in cells)
        return cls._unusable(n_cells, sum(not is_unknown(cell) for cell in cells), error)

    @classmethod
    def _unusable(cls, n_cells: int, n_known: int, fault: Exception | None) -> "CellSurvey":
        ids = IdEvidence(n_cells, OTHER)
        return cls(n_cells, n_known, 0, ValueCounts.of({}), ids, False, False, False, fault=fault)

    def combine(self, other: "CellSurvey") -> "CellSurvey":
        """Survey of these cells, followed by others."""
        n_cells, n_known = self.n_cells + other.n_cells, self.n_known + other.n_known
        fault = self.fault or other.fault
        if fault is not None:
            return CellSurvey._unusable(n_cells, n_known, fault)
        only_dates = self.only_dates and other.only_dates
        return CellSurvey(
            n_cells,
            n_known,
            self.n_numbers + other.n_numbers,
            self.values.combine(other.values),
            self.ids.combine(other.ids),
            self.only_numbers and other.only_numbers,
            self.only_truth and other.only_truth,
            only_dates,
            self.text or other.text,
            self.odd or other.odd,
            (self.undated or other.undated) if only_dates else None,
            self.strange or other.strange,
        )

    @property
    def has_numbers(self) -> bool:
        """Whether there are known cells, and all are numbers or truth values."""
        return self.n_known > 0 and self.only_numbers and self.text is None

    @property
    def has_days(self) -> bool:
        """Whether there are known cells, and all are dates."""
        return self.n_known > 0 and self.only_dates and self.undated is None

    def texts(self) -> dict[str, int]:
        """Known cells as text, and in how many rows they are."""
        texts: dict[str, int] = {}
        for cell, n in (self.values.counts or {}).items():
            if not is_unknown(cell):
                text = as_text(cell)
                texts[text] = texts.get(text, 0) + n
        return texts

    def check_readable(self) -> None:
        """Raise the error for the first cell that cannot be read or compared."""
        if self.fault is not None:
            raise self.fault

    def kind(self, column: str) -> int:
        """Kind of the column by its cells.

        Parameters
        ----------
        column : str
            The column in errors that say how to convert it, such as "table['y']".

        Raises
        ------
        ValueError
            If text consists of numbers for the most part, or of dates whose order of day and month
            is ambiguous.
        TypeError
            If there are cells that are neither numbers nor text nor dates.
        """
        self.check_readable()
        if self.only_numbers:
            if self.text is not None:  # such as "?"
                if not self.n_known:
                    return TEXT
                self._refuse_numbers_as_text(column)
            return BOOLEAN if self.n_known and self.only_truth else NUMBER
        if self.only_dates:
            self._check_order(column)
            return DATE
        if self.strange is not None:
            raise TypeError(
                f"{self.strange.place}: {quote(self.strange.value)} is not a number, nor text like "
                "other cells of the column, nor is the column one of dates; correct it, or leave "
                "the column out."
            )
        if 2 * self.n_numbers >= self.n_known:
            self._refuse_numbers_as_text(column)
        return TEXT

    def _refuse_numbers_as_text(self, column: str) -> NoReturn:
        cell = self.odd or self.text
        assert cell is not None
        cure = "" if self.odd is None else f".replace({cell.value!r}, np.nan)"
        raise ValueError(
            f"{cell.place}: {quote(cell.value)} is text, though {self.n_numbers} of {self.n_cells} "
            f"cells of the column are numbers. Convert it, in pandas with {column}{cure}"
            f".astype(float); if its values are codes and not amounts, with {column}"
            '.astype("category").'
        )

    def _check_order(self, column: str) -> None:
        """Refuse text that is written like a date, but is none that can be read."""
        if self.undated is not None:
            place, cell = self.undated
            raise ValueError(
                f"{place}: {quote(cell)} cannot be read as a date: {why_no_date(cell)}. Write "
                "dates like 2024-01-31, in pandas with to_datetime; if the values are codes and "
                f'not dates, use {column}.astype("category").'
            )


def _id_evidence(cells: list[Any], counts: dict[Any, int]) -> IdEvidence:
    """Evidence of ids; the order of rows matters only for numbers, so that text is read once."""
    evidence = IdEvidence.of(list(counts))
    if evidence.numbers is not None:
        return IdEvidence.of([cell for cell in cells if not is_missing(cell)])
    return IdEvidence(sum(counts.values()), evidence.sort)


def _only(cells: Iterable[Any], kinds: tuple[type, ...]) -> bool:
    return all(isinstance(cell, kinds) for cell in cells)


def _spells_number(cell: Any) -> bool:
    if not isinstance(cell, str):
        return isinstance(cell, (*_TRUTH, *_AMOUNTS))
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return False
    return True
