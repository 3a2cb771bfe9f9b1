"""Columns of numbers and text from the cells of a text file whose rows are checked."""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import IO, Any

import numpy as np

from naim3l.files.readers.errors import load_extra
from naim3l.files.readers.numbers import COMMA, POINT, perhaps_thousands
from naim3l.input.id_columns import is_named_like_id


@dataclass(frozen=True)
class Layout:
    """Layout of a text file.

    Attributes
    ----------
    encoding, separator : str
    names : list of str
        Names in the header, stripped; "" if a column has none.
    n_rows, n_lines : int
        Number of rows below the header, and number of lines including the header.
    shifts : list of (row, shift)
        From this row on, row i (from 0) is on line i + shift of the file.
    """

    encoding: str
    separator: str
    names: list[str]
    n_rows: int
    n_lines: int
    shifts: list[tuple[int, int]]

    @property
    def has_commas(self) -> bool:
        """Whether numbers may have a decimal comma: not if commas separate the cells."""
        return self.separator != COMMA


Opener = Callable[[], AbstractContextManager[IO[str]]]


def parse_cells(
    opener: Opener, layout: Layout, text_columns: Collection[str], n_rows: int | None = None
) -> tuple[Any, dict[str, str]]:
    """The table, and columns with an ambiguous decimal separator, each with such a cell.

    ``opener`` opens the text, which begins with a header.

    A column has numbers if all of its cells are numbers with one decimal separator, which may
    differ between columns. Columns that are named like an id remain text: 007 is not 7.
    """
    kept = {
        j
        for j, name in enumerate(layout.names)
        if name in text_columns or not name or is_named_like_id(name)
    }
    frame = _read(opener, layout, n_rows, dtype=dict.fromkeys(kept, str))
    thousands: dict[int, str] = {}
    if layout.has_commas:
        words = [j for j in _text_columns(frame) if j not in kept]
        if words:
            again = _read(opener, layout, n_rows, usecols=words, decimal=COMMA)
            numbers = again.drop(columns=_text_columns(again))
            thousands |= _perhaps_thousands(frame[numbers.columns], COMMA)
        doubtful = _doubtful(frame)
        if doubtful:
            texts = _read(opener, layout, n_rows, usecols=doubtful, dtype=str)
            thousands |= _perhaps_thousands(texts, POINT)
        if words:
            parts = [frame.drop(columns=numbers.columns), numbers]
            frame = load_extra("pandas").concat(parts, axis=1)[list(frame.columns)]
    frame.columns = layout.names
    return frame, {layout.names[j]: cell for j, cell in thousands.items()}


def _perhaps_thousands(texts: Any, decimal: str) -> dict[int, str]:
    """Columns of text with an ambiguous decimal separator, each with such a cell."""
    found = {j: perhaps_thousands(texts[j].dropna(), decimal) for j in texts.columns}
    return {j: cell for j, cell in found.items() if cell is not None}


def _read(opener: Opener, layout: Layout, n_rows: int | None, **options: Any) -> Any:
    """The file as read by pandas, with columns named by their positions."""
    pandas = load_extra("pandas")
    with opener() as text:
        # The first lines are copied: pandas would read on, perhaps into bytes that are not text.
        head = None if n_rows is None else StringIO("".join(islice(text, layout.n_lines)))
        frame = pandas.read_csv(
            text if head is None else head,
            sep=layout.separator,
            header=0,
            names=list(range(len(layout.names))),
            index_col=False,
            keep_default_na=False,
            na_values=[""],
            low_memory=False,
            **options,
            **_exact(pandas),
        )
    # pandas reads each column into a separate block; a copy has one block per type, which makes
    # later operations on many columns fast.
    return frame.copy()


def _text_columns(frame: Any) -> list[int]:
    return [j for j, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "biuf"]


def _doubtful(frame: Any) -> Sequence[int]:
    """Columns of whole numbers below 1000 and numbers with three decimals, which are ambiguous."""
    columns = np.array([j for j, dtype in frame.dtypes.items() if dtype == np.float64], dtype=int)
    values = np.abs(frame[columns].to_numpy())
    with np.errstate(invalid="ignore", over="ignore"):
        whole = (values == np.round(values)) & (values < 1000)
        group = (values > 1) & (values < 1000) & ~whole
        group &= np.isclose(1000 * values, np.round(1000 * values), rtol=0, atol=1e-6)
        fits = np.isnan(values) | whole | group
    return columns[fits.all(axis=0) & whole.any(axis=0) & group.any(axis=0)].tolist()


def _exact(pandas: Any) -> dict[str, str]:
    """Options with which pandas reads floats exactly, which is its default from 3.1 on."""
    version = tuple(int(number) for number in re.findall(r"\d+", pandas.__version__)[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}
