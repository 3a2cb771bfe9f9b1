"""Where a value came from: the one way in which messages name tables, files, rows and columns."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Origin:
    """Where the rows of a batch come from.

    Examples
    --------
    >>> from naim3l._origin import Origin
    >>> Origin("view 'lab'", "lab.csv", lines=((0, 2),)).place(3, "column 'age'")
    "view 'lab', lab.csv, row 3 (line 5), column 'age'"
    """

    table: str = ""  # name in messages, such as "view 'lab'"; empty if only the source is known
    source: str = ""  # file or partition, without passwords; empty for a table in memory
    first_row: int = 0  # in the source, counted from 0
    # From this row of the source on, row i is on line i + shift of a text file or sheet.
    lines: tuple[tuple[int, int], ...] = ()
    rows: NDArray[np.intp] | None = None  # numbers in the source, if these are only some of them
    # Of rows of several sources, which are numbered over them, the first number of each.
    pieces: tuple[tuple[int, "Origin"], ...] = ()

    def __str__(self) -> str:
        return ", ".join(part for part in (self.table, self.source) if part)

    def place(self, row: int | None = None, column: str = "") -> str:
        """The table, the file, the row of the batch with its line, and the column, if known."""
        parts = [str(self)]
        if row is not None:
            number = self.first_row + row if self.rows is None else int(self.rows[row])
            if self.pieces:
                at = bisect_right(self.pieces, number, key=lambda piece: piece[0]) - 1
                start, piece = self.pieces[at]
                return piece.of_table(self.table).place(number - start, column)
            parts.append(f"row {number}{self._line(number)}")
        return ", ".join(part for part in (*parts, column) if part)

    def of_table(self, table: str) -> "Origin":
        """The same rows as part of a table that has a name."""
        return replace(self, table=table)

    def take(self, rows: Any) -> "Origin":
        """Origin of some of the rows, given by their positions or a mask."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)
        kept = self.first_row + rows if self.rows is None else np.asarray(self.rows)[rows]
        return replace(self, rows=kept)

    def numbers(self, n_rows: int) -> NDArray[np.intp]:
        """Numbers of all rows of a batch, each in its source."""
        numbers, ends = np.arange(n_rows), [start for start, _ in self.pieces[1:]]
        starts = [0, *ends] if self.pieces else [0]
        firsts = [origin.first_row for _, origin in self.pieces] or [self.first_row]
        lengths = np.diff([*starts, n_rows])
        return numbers + np.repeat(np.array(firsts) - starts, lengths)

    def _line(self, number: int) -> str:
        if not self.lines:
            return ""
        _, shift = self.lines[bisect_right(self.lines, number, key=lambda entry: entry[0]) - 1]
        return f" (line {number + shift})"
