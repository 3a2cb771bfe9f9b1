"""Places of the parts of a table, with which errors about cells name the file and its row."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where the rows of one part of a table come from; ``str(place)`` is its name in errors.

    Attributes
    ----------
    where : str
        Name of the table, for example ``"view 'lab'"``.
    pieces : tuple of (name, first row, number of rows)
        Origins of the rows in their order, such as a file and the number of the first row in it.
        A partition of dask is one piece, whose number of rows is -1 if it is unknown.

    Examples
    --------
    >>> place = Place("view 'lab'", (("a.parquet", 600, 400), ("b.parquet", 0, 100)))
    >>> place.of_row(405)
    "view 'lab', b.parquet, row 5"
    """

    where: str
    pieces: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        first, last = self.pieces[0], self.pieces[-1]
        if first[2] < 0:
            return f"{self.where}, {first[0]}"
        end = f"{last[0]}, row " if len(self.pieces) > 1 else ""
        last_row = last[1] + max(last[2] - 1, 0)
        return f"{self.where}, {first[0]}, rows {first[1]} to {end}{last_row}"

    def of_row(self, row: int) -> str:
        """Name of a row, which is counted from the start of the part."""
        for name, first_row, n_rows in self.pieces:
            if n_rows < 0 or row < n_rows:
                return f"{self.where}, {name}, row {first_row + row}"
            row -= n_rows
        return f"{self}, row {row}"

    def is_named_in(self, message: str) -> bool:
        """Whether a message is about this part, and says so."""
        return any(message.startswith(f"{self.where}, {name}") for name, _, _ in self.pieces)

    def locate(self, message: str) -> str | None:
        """A message about the table as one about this part; None if it is about something else."""
        if self.is_named_in(message):
            return message
        found = re.match(rf"{re.escape(self.where)}(?:, row (\d+))?(?=[,:])", message)
        if found is None:
            return None
        start = str(self) if found[1] is None else self.of_row(int(found[1]))
        return start + message[found.end() :]


@contextmanager
def naming(places: Sequence[Place]) -> Iterator[None]:
    """Context whose errors name the parts, and the rows by their numbers in files."""
    try:
        yield
    except Exception as error:
        given = error.args[0] if places and error.args else None
        if isinstance(given, str) and not any(place.is_named_in(given) for place in places):
            located = (place.locate(given) for place in places)
            message = next((text for text in located if text), f"{places[0]}: {given}")
            error.args = (message, *error.args[1:])
        raise
