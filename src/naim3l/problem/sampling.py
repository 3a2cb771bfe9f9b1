"""Folds and samples of rows, by hashes of row numbers, or of ids.

A hash needs neither all rows at once nor an order in which they are read, so that the same rows
are held out, and the same rows sampled, for any division of the rows into chunks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

from naim3l._arrays import ArrayFields
from naim3l._hashing import STEP, Hashes, mix, splitmix64

ALL_BITS = 2**64 - 1
# What a hash is for: folds and samples are independent of each other.
FOLDS, SAMPLES = 1, 2
OF_IDS = -1  # instead of the number of a view


def fold_keys(seed: int, view: int, rows: NDArray[np.integer]) -> Hashes:
    """Hashes (n,) by which rows are dealt to folds.

    ``rows`` (n,) are the numbers of the rows in their table; views of one wide table have the same
    number, so that samples are held out in all of their views. Of rows with ids, they are hashes of
    these, with `OF_IDS` as the view, so that all rows of an id are held out together.
    """
    return _row_hashes(FOLDS, seed, view, rows)


def deal_keys(n_folds: int, keys: Hashes, Y: NDArray[Any]) -> NDArray[np.int8] | None:
    """Fold in which each label entry (n, n_labels) is held out; -1 where the label is unknown.

    All known entries of a row are in one fold. There are at most 127 folds; None if there are none.
    """
    if not n_folds:
        return None
    # The upper half of a hash, from 0 to 2^32 - 1, is scaled to the number of folds.
    upper = keys >> np.uint64(32)
    folds = ((upper * np.uint64(n_folds)) >> np.uint64(32)).astype(np.int8)
    return np.where(Y == 0, np.int8(-1), folds[:, None])


def repeated(ids: NDArray[Any], n_samples: int) -> NDArray[np.intp] | None:
    """Ids of rows, (n_rows,), numbered from 0; None if all of the samples have different ones."""
    different, numbers = np.unique(ids, return_inverse=True)
    return None if len(different) == n_samples else numbers


@dataclass(frozen=True)
class RowSample(ArrayFields):
    """Random rows of a table: those with the smallest hashes of their numbers.

    Samples of chunks combine to the sample of all rows, which is the same for any chunks.
    """

    limit: int  # largest number of rows
    rows: NDArray[np.int64]  # their numbers in the table, ascending, (n,)
    hashes: Hashes  # (n,)
    highest: int  # hash up to which all rows are in the sample, and no others
    arrays: tuple[Any, ...]  # what is kept of each row, such as its features and its labels

    @classmethod
    def of(
        cls,
        limit: int,
        seed: int,
        view: int,
        rows: NDArray[np.integer],
        arrays: Sequence[Any],
        *,
        n_rows: int | None = None,
    ) -> "RowSample":
        """Sample of one chunk, of which ``rows`` are the numbers in the table.

        Views of one wide table have the same number. With the number of rows of the whole table,
        a chunk keeps few more rows than its share of the sample.
        """
        hashes, highest = _row_hashes(SAMPLES, seed, view, rows), ALL_BITS
        if n_rows is not None and (share := (limit + 6 * limit**0.5) / max(n_rows, 1)) < 1:
            highest = int(share * ALL_BITS)
        return _smallest(limit, rows.astype(np.int64), hashes, highest, arrays)

    def combine(self, other: "RowSample") -> "RowSample":
        """Sample of the rows of both."""
        return _smallest(
            self.limit,
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.hashes, other.hashes]),
            min(self.highest, other.highest),
            [_stack(pair) for pair in zip(self.arrays, other.arrays, strict=True)],
        )

    def up_to(self, highest: int) -> "RowSample":
        """Rows with a hash of at most ``highest``."""
        return _smallest(self.limit, self.rows, self.hashes, highest, self.arrays)


def _smallest(
    limit: int, rows: NDArray[np.int64], hashes: Hashes, highest: int, arrays: Sequence[Any]
) -> RowSample:
    """Sample of at most ``limit`` of the given rows, with hashes of at most ``highest``."""
    kept = np.flatnonzero(hashes <= np.uint64(highest))
    if len(kept) > limit:
        kept = kept[np.lexsort((rows[kept], hashes[kept]))[:limit]]
        highest = int(hashes[kept].max(initial=0))
    kept = kept[np.argsort(rows[kept])]
    arrays = tuple(_safe_indexing(A, kept) for A in arrays)
    return RowSample(limit, rows[kept], hashes[kept], highest, arrays)


def _row_hashes(use: int, seed: int, view: int, rows: NDArray[np.integer]) -> Hashes:
    """Hash of each row for one use, (n,)."""
    key = np.zeros(1, dtype=np.uint64)
    for number in (use, seed, view):
        key = splitmix64(key + np.uint64(number & ALL_BITS))
    return mix(key + rows.astype(np.uint64) * STEP)


def _stack(arrays: tuple[Any, Any]) -> Any:
    """Rows of both arrays."""
    if hasattr(arrays[0], "iloc"):
        import pandas as pd

        return pd.concat(arrays)
    if any(sparse.issparse(A) for A in arrays):
        return sparse.vstack(arrays, format="csr")
    return np.concatenate(arrays)
