"""Which columns rows have: how many rows would lack a view if some of its columns were left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.input.distinct import mix

MOST_PATTERNS = 10_000


@dataclass(frozen=True)
class RowPatterns:
    """Numbers of rows by the columns that are known in them; those of parts can be combined.

    Attributes
    ----------
    n_columns : int
    n_present : int
        Number of rows with a cell that is not missing.
    partly : dict of bytes to int, or None
        Numbers of the rows that lack some cells but not all, by the columns that they have, as
        bits; None if more than `MOST_PATTERNS` of these differ.
    """

    n_columns: int
    n_present: int
    partly: dict[bytes, int] | None

    @classmethod
    def of(cls, missing: Any) -> "RowPatterns":
        """Patterns of a mask of missing cells, (n_rows, n_columns)."""
        n_columns = missing.shape[1]
        n_missing = np.asarray(missing.sum(axis=1)).ravel()
        n_present = int((n_missing < n_columns).sum())
        lacking = np.flatnonzero((n_missing > 0) & (n_missing < n_columns))
        if not len(lacking):
            return cls(n_columns, n_present, {})
        if sparse.issparse(missing):  # has no columns of text, for which the number matters
            return cls(n_columns, n_present, None)
        # The first rows often have too many patterns already.
        partly = _count_rows(~missing[lacking[: 2 * MOST_PATTERNS]])
        if partly is not None and len(lacking) > 2 * MOST_PATTERNS:
            partly = _count_rows(~missing[lacking])
        return cls(n_columns, n_present, partly)

    def combine(self, other: "RowPatterns") -> "RowPatterns":
        """Patterns of the rows of both parts."""
        partly = None
        if self.partly is not None and other.partly is not None:
            partly = dict(self.partly)
            for known, n in other.partly.items():
                partly[known] = partly.get(known, 0) + n
            partly = partly if len(partly) <= MOST_PATTERNS else None
        return RowPatterns(self.n_columns, self.n_present + other.n_present, partly)

    def select_columns(self, columns: Sequence[int]) -> "RowPatterns":
        """Patterns of some of the columns; all rows count as before if there are too many."""
        if self.partly is None:
            return RowPatterns(len(columns), self.n_present, None)
        partly: dict[bytes, int] = {}
        n_absent = 0
        for known, n in self.partly.items():
            bits = np.unpackbits(np.frombuffer(known, np.uint8), count=self.n_columns)[columns]
            if not bits.any():
                n_absent += n
            elif not bits.all():
                chosen = np.packbits(bits).tobytes()
                partly[chosen] = partly.get(chosen, 0) + n
        return RowPatterns(len(columns), self.n_present - n_absent, partly)


def _count_rows(known: NDArray[np.bool_]) -> dict[bytes, int] | None:
    """Numbers of equal rows by their bits, None if more than `MOST_PATTERNS` differ."""
    bits = np.packbits(known, axis=1)
    words = np.pad(bits, [(0, 0), (0, -bits.shape[1] % 8)]).view(np.uint64)
    keys = words[:, 0]
    for word in words.T[1:]:
        keys = mix(keys) ^ word
    _, rows, counts = np.unique(keys, return_index=True, return_counts=True)
    if len(rows) > MOST_PATTERNS:
        return None
    return dict(zip((bits[i].tobytes() for i in rows), counts.tolist(), strict=True))
