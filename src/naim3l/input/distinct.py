"""Different values of a column and how often they occur, counted part by part.

Up to `MOST_VALUES` values are counted exactly. Beyond that, the values with the smallest hashes
are kept: a uniform sample of the different values, whose largest hash says how many there are.
Hashes do not depend on the process, so that parts may be counted by different workers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 100_000


@dataclass(frozen=True)
class ValueCounts:
    """Different values, and in how many rows they are; parts of a column can be combined.

    Attributes
    ----------
    counts : dict of value to int, or None
        None for numbers, and beyond `MOST_VALUES`: only hashes are known then.
    hashes : ndarray of uint64, of shape (n_hashes,)
        Sorted; empty if there are ``counts``.
    repeats : ndarray of int64, of shape (n_hashes,)
        Number of rows of each hash.
    is_sample : bool
        Whether there are more values than hashes.
    """

    counts: dict[Any, int] | None
    hashes: NDArray[np.uint64]
    repeats: NDArray[np.int64]
    is_sample: bool = False

    @classmethod
    def of(cls, counts: Mapping[Any, int]) -> "ValueCounts":
        """Counts of Python objects, of which equal ones are one value."""
        if len(counts) <= MOST_VALUES:
            return cls(dict(counts), np.empty(0, np.uint64), np.empty(0, np.int64))
        return cls._smallest(_hashes(counts), np.fromiter(counts.values(), np.int64, len(counts)))

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.float64]) -> "ValueCounts":
        """Counts of numbers, (n_rows,), without NaN."""
        bits = (numbers + 0.0).view(np.uint64)  # -0 and 0 are one value
        return cls._cut(*np.unique(mix(bits), return_counts=True))

    @property
    def n_values(self) -> int:
        """Number of different values; an estimate if there are more than `MOST_VALUES`."""
        if self.counts is not None:
            return len(self.counts)
        if not self.is_sample:
            return len(self.hashes)
        return round((len(self.hashes) - 1) / (float(self.hashes[-1]) / 2.0**64))

    @property
    def all_differ(self) -> bool:
        """Whether no value is in several rows; of a sample, whether none of the sample is."""
        if self.counts is not None:
            return all(n == 1 for n in self.counts.values())
        return bool((self.repeats == 1).all())

    def combine(self, other: "ValueCounts") -> "ValueCounts":
        """Counts of the rows of both parts."""
        if self.counts is not None and other.counts is not None:
            counts = dict(self.counts)
            for value, n in other.counts.items():
                counts[value] = counts.get(value, 0) + n
            return ValueCounts.of(counts)
        a, b = self._hashed(), other._hashed()
        return ValueCounts._smallest(
            np.concatenate([a.hashes, b.hashes]),
            np.concatenate([a.repeats, b.repeats]),
            a.is_sample or b.is_sample,
        )

    def _hashed(self) -> "ValueCounts":
        if self.counts is None:
            return self
        repeats = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        return ValueCounts._smallest(_hashes(self.counts), repeats)

    @classmethod
    def _smallest(
        cls, hashes: NDArray[np.uint64], repeats: NDArray[np.int64], is_sample: bool = False
    ) -> "ValueCounts":
        """Counts of the values with the smallest hashes."""
        different, of_row = np.unique(hashes, return_inverse=True)
        repeats = np.bincount(of_row, weights=repeats, minlength=len(different)).astype(np.int64)
        return cls._cut(different, repeats, is_sample)

    @classmethod
    def _cut(
        cls, hashes: NDArray[np.uint64], repeats: NDArray[np.int64], is_sample: bool = False
    ) -> "ValueCounts":
        is_sample = is_sample or len(hashes) > MOST_VALUES
        return cls(None, hashes[:MOST_VALUES].copy(), repeats[:MOST_VALUES].copy(), is_sample)


def _hashes(values: Iterable[Any]) -> NDArray[np.uint64]:
    """Hashes of Python objects, the same in every process, and equal for equal objects."""
    return np.array([_hash(value) for value in values], dtype=np.uint64)


def _hash(value: Any) -> int:
    if isinstance(value, int | float | Decimal | np.number | np.bool_):
        return int(mix(np.array([hash(value)]).view(np.uint64))[0])
    return int.from_bytes(
        blake2b(str(value).encode(errors="surrogatepass"), digest_size=8).digest()
    )


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One-to-one map of 64 bits in which every bit depends on all others (splitmix64)."""
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
