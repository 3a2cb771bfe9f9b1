"""Survey of a table: what decides how its columns are used, without the rows themselves.

Surveys of batches are combined to that of the table, which `naim3l.features.plan` judges.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import compress
from typing import Any, NamedTuple
from uuid import UUID

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from naim3l._arrays import Mask
from naim3l._hashing import splitmix64
from naim3l._ids import is_named_like_id
from naim3l._origin import Origin
from naim3l.features.cells import NUMBERS, UNIT, as_text, days, days_of_array, tags_of
from naim3l.features.terms import TermCounts
from naim3l.input.batches import LARGEST, Batch, is_missing, is_unknown, refusal_of_number

# Kinds of columns by their types; of "cells", only the cells tell the kind.
NUMBER, TRUTH, DATE, TEXT, CELLS = "number", "truth", "date", "text", "cells"
AS_NUMBERS = "numbers, or NaN where they are unknown; give text and dates in a data frame"
# Different values that are counted exactly; beyond that, those with the smallest hashes are kept.
MOST_VALUES = 100_000
MOST_PATTERNS = 10_000  # different sets of known columns of rows that are counted
MOST_UNITS = 5  # of a column of numbers with units
ENOUGH_CODES = 3  # different codes that make a column with numbers one of codes
_HEAD = 100  # number of rows that rule out most columns as ids


@dataclass(frozen=True)
class ValueCounts:
    """Different values, and in how many rows they are.

    Beyond `MOST_VALUES`, those with the smallest hashes are a uniform sample of the different
    values, whose largest hash tells how many there are. Hashes do not depend on the process.
    """

    counts: dict[Any, int] | None  # None for numbers, and beyond MOST_VALUES
    hashes: NDArray[np.uint64]  # sorted; empty if there are counts
    repeats: NDArray[np.int64]  # number of rows of each hash
    is_sample: bool = False  # whether there are more values than hashes
    hashed_terms: TermCounts | None = None  # of text that is kept as hashes alone

    @classmethod
    def of(cls, counts: Mapping[Any, int]) -> "ValueCounts":
        """Counts of Python objects, of which equal ones are one value."""
        exact = cls(dict(counts), np.empty(0, np.uint64), np.empty(0, np.int64))
        return exact if len(counts) <= MOST_VALUES else exact._hashed()

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.float64]) -> "ValueCounts":
        """Counts of numbers, (n_rows,), without NaN."""
        values, repeats = numbers + 0.0, np.ones(len(numbers), int)  # -0 and 0 are one value
        few = len(values) and values.max() < (low := values.min()) + len(values)
        if few and (values == np.floor(values)).all():  # need not be sorted
            repeats = np.bincount((values - low).astype(np.intp))
            values = np.flatnonzero(repeats) + low
            repeats = repeats[repeats > 0]
        return cls._smallest(splitmix64(values.view(np.uint64)), repeats)

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

    @property
    def terms(self) -> TermCounts:
        """Counts of the terms of values that are text."""
        if self.hashed_terms is not None:
            return self.hashed_terms
        return TermCounts.of({str(text): n for text, n in (self.counts or {}).items()})

    def combine(self, other: "ValueCounts") -> "ValueCounts":
        """Counts of the rows of both."""
        if self.counts is not None and other.counts is not None:
            return ValueCounts.of(combine_items(self.counts, other.counts, int.__add__))
        a, b = self._hashed(), other._hashed()
        hashes, repeats = np.append(a.hashes, b.hashes), np.append(a.repeats, b.repeats)
        smallest = ValueCounts._smallest(hashes, repeats, a.is_sample or b.is_sample)
        if a.hashed_terms is None or b.hashed_terms is None:
            return smallest
        return replace(smallest, hashed_terms=a.hashed_terms.combine(b.hashed_terms))

    def _hashed(self) -> "ValueCounts":
        if self.counts is None:
            return self
        repeats = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        hashes = np.array([_hash(value) for value in self.counts], dtype=np.uint64)
        return replace(ValueCounts._smallest(hashes, repeats), hashed_terms=self.terms)

    @classmethod
    def _smallest(cls, hashes: Any, repeats: Any, is_sample: bool = False) -> "ValueCounts":
        """Counts of the values with the smallest hashes."""
        different, of_row = np.unique(hashes, return_inverse=True)
        repeats = np.bincount(of_row, weights=repeats, minlength=len(different)).astype(np.int64)
        is_sample = is_sample or len(different) > MOST_VALUES
        return cls(None, different[:MOST_VALUES].copy(), repeats[:MOST_VALUES].copy(), is_sample)


def _hash(value: Any) -> int:
    """Hash of a Python object, the same in every process, and equal for equal objects."""
    if isinstance(value, NUMBERS):
        return int(splitmix64(np.array([hash(value)]).view(np.uint64))[0])
    text = str(value).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest())


# Ids, which name rows instead of describing them. Neither a name alone nor distinct values make an
# id: measurements with decimals are distinct, too. Numbers are ids only if they are whole, and text
# only if it has about as many values as rows.

_ID_CODE = re.compile(
    r"[A-Za-z]+[-_/]?\d+([-_/]\d+)*|\d{4}[-/]\d{3,}"  # P0017, S19/0042; 2019/0001
    r"|[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}",  # UUID
    re.IGNORECASE,
)
# Names of whole numbers that may differ from row to row without being ids.
_MEASURED = re.compile(
    r"(.*[_\-. ])?(year|month|week|day|date|hour|minute|second|time|age|rank|order|dose|level"
    r"|count)s?([_\-. ].*)?",
    re.IGNORECASE,
)
MOST_GROUPS = 30  # distinct values, if not half as many as rows, of a column named like an id
FEWEST_COUNTED = 10  # rows of a column that counts the rows
RARELY_DIFFERENT = 1e-4  # probability of distinct values from the range of ids
_LONG = 10**7  # numbers of 8 digits and more may be codes


@dataclass(frozen=True)
class WholeNumbers:
    """Summary of whole numbers in the order of their rows, of at least one."""

    first: float
    last: float
    low: float
    high: float
    counted: bool  # whether each is larger by 1 than the one before
    n_round: int  # multiples of 10, counted if all numbers are long

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> "WholeNumbers":
        """Summary of an array of shape (n_rows,), without NaN."""
        low, high = numbers.min(), numbers.max()
        with np.errstate(invalid="ignore"):  # infinities
            counted = (np.diff(numbers) == 1).all()
            n_round = (numbers % 10 == 0).sum() if low >= _LONG else 0
        first, last = float(numbers[0]), float(numbers[-1])
        return cls(first, last, float(low), float(high), bool(counted), int(n_round))

    def combine(self, other: "WholeNumbers") -> "WholeNumbers":
        """Summary of these numbers, followed by others."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        counted = self.counted and other.counted and other.first == self.last + 1
        n_round = self.n_round + other.n_round if low >= _LONG else 0
        return WholeNumbers(self.first, other.last, low, high, counted, n_round)


@dataclass(frozen=True)
class IdEvidence:
    """What the cells of a column tell about whether it is an id."""

    n_known: int
    values: ValueCounts | None = None  # None for columns that are never ids
    numbers: WholeNumbers | None = None  # if the column has whole numbers
    codes: bool = False  # whether it has text, all of which are codes

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.float64]) -> "IdEvidence":
        """Evidence from an array of shape (n_rows,), without NaN."""
        if not len(numbers) or not (numbers == np.floor(numbers)).all():
            return cls(len(numbers))
        return cls(len(numbers), ValueCounts.of_numbers(numbers), WholeNumbers.of(numbers))

    def combine(self, other: "IdEvidence") -> "IdEvidence":
        """Evidence from these cells, followed by others."""
        if not self.n_known or not other.n_known:
            return self if self.n_known else other
        n_known, numbers = self.n_known + other.n_known, None
        if self.values is None or other.values is None:
            return IdEvidence(n_known)
        if self.numbers is not None and other.numbers is not None:
            numbers = self.numbers.combine(other.numbers)
        elif self.numbers is not None or other.numbers is not None:
            return IdEvidence(n_known)
        values = self.values.combine(other.values)
        return IdEvidence(n_known, values, numbers, self.codes and other.codes)

    def why_id(self, name: str) -> str:
        """The reason why a column of this name is likely to be an id; empty if it is not."""
        n_known, values = self.n_known, self.values
        if values is None:
            return ""
        n_values = n_known if values.all_differ else values.n_values
        many = 2 * n_values > n_known
        if n_values < 2:
            return ""
        if is_named_like_id(name) and (many or n_values > MOST_GROUPS):
            number = f"{'about ' if values.is_sample else ''}{n_values}"
            return f"it is named like an id and has {number} different values in {n_known} rows"
        if self.numbers is not None:
            return _why_numbers(name, self.numbers, n_known, values.all_differ) if many else ""
        return "its values are codes that all differ" if self.codes and values.all_differ else ""


def _why_numbers(name: str, numbers: WholeNumbers, n_rows: int, all_differ: bool) -> str:
    """The reason why mostly distinct whole numbers are ids, independently of the name."""
    low, high = numbers.low, numbers.high
    if _MEASURED.fullmatch(name) or not np.isfinite([low, high]).all():
        return ""
    if all_differ:
        if n_rows >= FEWEST_COUNTED and numbers.counted:
            return "it counts the rows"
        # Expected number of equal pairs if values were drawn from their range (birthday problem).
        n_pairs = n_rows * (n_rows - 1) / 2 / (high - low + 1)
        if n_pairs > -np.log(RARELY_DIFFERENT):
            return f"its values all differ, though they range from {low:.0f} to {high:.0f} only"
    is_long = low >= _LONG and np.floor(np.log10(low)) == np.floor(np.log10(high))
    # Large amounts are mostly round.
    if is_long and n_rows >= FEWEST_COUNTED and numbers.n_round < 0.5 * n_rows:
        return f"its values are long numbers of the same length, such as {low:.0f}"
    return ""


# Logarithms of skewed numbers. Amounts, concentrations and counts often spread over decades, to the
# right: standardised as they are, a few rows would decide. Counts of numbers by quarters of an
# octave, between 2^(k/4) and 2^((k+1)/4), tell how skewed they are, and how skewed their logarithms
# are. They are whole numbers, so that they do not depend on how rows are divided into batches.

PER_OCTAVE = 4
ZERO = -10_000  # the bin of 0
# Zeros of some programs are tiny numbers: those below this share of the largest count as 0.
TINY = 1e-12
LOW_SHARE = 0.25  # of the positive numbers, which are below the shift
SKEWED, LESS = 1.5, 0.5  # least skewness of the numbers, and most of logarithms as a share of it


def count_sizes(
    numbers: NDArray[np.float64], repeats: NDArray[Any] | None = None
) -> Counter[int] | None:
    """Rows in each bin, of numbers (n,) in so many rows each; None if one is negative."""
    if numbers.min(initial=0) < 0:
        return None
    if not numbers.max(initial=0) <= LARGEST:  # others are refused
        kept = numbers <= LARGEST
        numbers, repeats = numbers[kept], None if repeats is None else repeats[kept]
    with np.errstate(divide="ignore"):
        sizes = np.floor(PER_OCTAVE * np.log2(numbers))
    bins = np.maximum(sizes, ZERO).astype(int) - ZERO
    n = np.bincount(bins, repeats).astype(int)
    at = np.flatnonzero(n)
    return Counter(dict(zip((at + ZERO).tolist(), n[at].tolist(), strict=True)))


def add_sizes(first: Counter[int] | None, second: Counter[int] | None) -> Counter[int] | None:
    """Rows of both in each bin."""
    return None if first is None or second is None else first + second


def find_shift(counts: Mapping[int, int]) -> float:
    """What is added to numbers before the logarithm; 0 if none should be taken.

    It is a lower quartile, rounded down to a power of 2: logarithms without it would spread zeros
    and the smallest numbers as far as the largest.
    """
    values, n = _values(counts)
    at = np.flatnonzero(values)
    if not len(at):
        return 0.0
    of_positive = np.cumsum(n[at])
    low = values[at][np.searchsorted(of_positive, LOW_SHARE * of_positive[-1])]
    shift = float(2.0 ** np.floor(np.log2(low)))
    before, after = _skewness(values, n), _skewness(np.log(values + shift), n)
    return shift if before >= SKEWED and abs(after) <= LESS * before else 0.0


def mean_logarithm(counts: Mapping[int, int], shift: float) -> float:
    """Mean of the shifted logarithms, with each number at the middle of its bin."""
    values, n = _values(counts)
    return float(np.average(take_logarithm(values, shift), weights=n))


def take_logarithm(numbers: ArrayLike, shift: float) -> NDArray[np.float64]:
    """``log(numbers + shift)``; negative numbers, which no training row has, count as 0."""
    return np.log(np.maximum(numbers, 0) + shift)


def _values(counts: Mapping[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The middle of each bin, in ascending order, and the numbers of rows."""
    bins = np.array(sorted(counts))
    n = np.array([counts[k] for k in bins.tolist()], dtype=float)
    values = np.where(bins == ZERO, 0.0, 2.0 ** ((bins + 0.5) / PER_OCTAVE))
    return np.where(values < TINY * values.max(initial=0), 0.0, values), n


def _skewness(values: NDArray[np.float64], n: NDArray[np.float64]) -> float:
    deviations = values - np.average(values, weights=n)
    scale = np.abs(deviations).max()
    if not scale > 0:
        return 0.0
    second, third = (np.average((deviations / scale) ** p, weights=n) for p in (2, 3))
    return float(third / second**1.5)


_NO_SIZES: Counter[int] = Counter()


class Amounts(NamedTuple):
    """Sum and range of numbers; those beyond `LARGEST` are not in the sum."""

    total: float = 0.0
    lowest: float = np.inf
    highest: float = -np.inf
    sizes: Counter[int] | None = _NO_SIZES  # see `count_sizes`

    def combine(self, other: "Amounts") -> "Amounts":
        ends = min(self.lowest, other.lowest), max(self.highest, other.highest)
        return Amounts(self.total + other.total, *ends, add_sizes(self.sizes, other.sizes))


@dataclass(frozen=True)
class CellSurvey:
    """What the known cells of a column of text, or of Python objects, are."""

    n: Counter[str]  # cells with each of `tags_of`; all, "known"; and "text"
    sums: dict[str, Amounts]  # by reading
    first: dict[str, tuple[str, Any]]  # place and cell, with each tag
    texts: ValueCounts  # known cells as text
    numbers: IdEvidence  # from the cells as numbers, if all of them are
    all_id_codes: bool = False
    codes: frozenset[str] = frozenset()  # different ones, at most ENOUGH_CODES
    fault: Exception | None = None  # for the first cell that cannot be read or compared

    @property
    def ids(self) -> IdEvidence:
        """Evidence about whether the column is an id, if its cells are not numbers."""
        is_text = self.n["text"] == self.n["known"]
        return IdEvidence(self.n["known"], self.texts if is_text else None, codes=self.all_id_codes)

    @classmethod
    def of(cls, batch: Batch, j: int, *, as_words: bool = False) -> "CellSurvey":
        """Survey of a column; ``as_words`` if its cells are words whatever they spell."""
        try:
            codes, cells = batch.distinct(j)
        except (TypeError, ValueError) as error:
            missing = missing_cells(batch.select_columns([j]), [CELLS])
            return cls._unusable(int(len(batch) - missing.sum()), error)
        rows = np.bincount(codes[codes >= 0], minlength=len(cells)).tolist()
        known = [(k, cell, rows[k]) for k, cell in enumerate(cells) if not is_unknown(cell)]
        texts = Counter[str]()
        for _, cell, n in known:
            texts[as_text(cell)] += n
        n_known = sum(n for *_, n in known)
        n_text = sum(n for _, cell, n in known if isinstance(cell, str | UUID))
        is_code = all(_ID_CODE.fullmatch(text) for text in texts)
        n_of = Counter(known=n_known, text=n_text)
        survey = cls(n_of, {}, {}, ValueCounts.of(texts), IdEvidence(n_known), is_code)
        return survey if as_words else survey._tagged(batch, j, codes, known)

    def _tagged(
        self, batch: Batch, j: int, codes: NDArray[np.intp], known: list[tuple[int, Any, int]]
    ) -> "CellSurvey":
        """The survey with tags of the different known cells, given by code, cell and rows."""
        n, found, firsts = self.n, list[str](), dict[str, tuple[int, Any]]()
        sums = defaultdict[str, Amounts](Amounts)
        read = defaultdict[str, list[tuple[float, int, int]]](list)
        for k, cell, n_rows in known:
            tags, values = tags_of(cell)
            for tag in tags if "date-like" in tags else (*tags, "no date"):
                n[tag] += n_rows
                firsts.setdefault(tag, (k, cell))
            for reading, value in values.items():
                is_large = abs(value) > LARGEST
                if is_large:
                    firsts.setdefault(f"large{reading}", (k, cell))
                total = 0.0 if is_large else n_rows * value
                sums[reading] = sums[reading].combine(Amounts(total, value, value))
                read[reading].append((value, n_rows, k))
            if "code" in tags:
                found.append(cell)
        of_numbers = self.numbers
        for reading, found_in in read.items():
            cells, rows, at = np.array(found_in).T
            sums[reading] = sums[reading]._replace(sizes=count_sizes(cells, rows))
            if n[f"number{reading}"] == n["known"] > n["truth"]:  # the same if both are possible
                numbers = np.full(codes.max(initial=-1) + 1, np.nan)
                numbers[at.astype(int)] = cells
                in_rows = numbers[codes[codes >= 0]]
                of_numbers = IdEvidence.of_numbers(in_rows[~np.isnan(in_rows)])
        first = {
            tag: (batch.place(int(np.argmax(codes == k)), j), cell)
            for tag, (k, cell) in firsts.items()
        }
        some_codes = frozenset(sorted(found)[:ENOUGH_CODES])  # the same for any batches
        some_sums = _without_many_units(sums)
        return replace(self, n=n, sums=some_sums, first=first, numbers=of_numbers, codes=some_codes)

    def combine(self, other: "CellSurvey") -> "CellSurvey":
        """Survey of these cells, followed by others."""
        if (fault := self.fault or other.fault) is not None:
            return CellSurvey._unusable(self.n["known"] + other.n["known"], fault)
        return CellSurvey(
            self.n + other.n,
            _without_many_units(combine_items(self.sums, other.sums, Amounts.combine)),
            other.first | self.first,
            self.texts.combine(other.texts),
            self.numbers.combine(other.numbers),
            self.all_id_codes and other.all_id_codes,
            frozenset(sorted(self.codes | other.codes)[:ENOUGH_CODES]),
        )

    def units(self, least: int) -> dict[str, Amounts]:
        """Amounts by unit, of cells that all have one, each in at least so many rows; or none."""
        units = {r.removeprefix(UNIT): of for r, of in sorted(self.sums.items()) if UNIT in r}
        rows = [sum((of.sizes or {}).values()) for of in units.values()]
        return units if sum(rows) == self.n["known"] and min(rows, default=0) >= least else {}

    @classmethod
    def _unusable(cls, n_known: int, fault: Exception) -> "CellSurvey":
        n = Counter(known=n_known)
        return cls(n, {}, {}, ValueCounts.of({}), IdEvidence(n_known), fault=fault)


def _without_many_units(sums: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Sums without units if there are too many, after which they are not those of all cells."""
    units = {reading for reading in sums if UNIT in reading}
    return {r: of for r, of in sums.items() if r not in units or len(units) <= MOST_UNITS}


@dataclass(frozen=True)
class RowPatterns:
    """Numbers of rows by the columns known in them: how many lack a view without some."""

    n_columns: int
    n_present: int  # rows with a cell that is not missing
    # Rows that lack some cells, by bits of the columns that they have; None if too many differ.
    partly: dict[bytes, int] | None

    @classmethod
    def of(cls, missing: Any) -> "RowPatterns":
        """Patterns of a mask of missing cells, (n_rows, n_columns)."""
        n_rows, n_columns = missing.shape
        if sparse.issparse(missing):  # has no columns of text, for which the patterns matter
            n_missing = np.asarray(missing.sum(axis=1)).ravel()
            all_or_none = np.isin(n_missing, (0, n_columns)).all()
            return cls(n_columns, int((n_missing < n_columns).sum()), {} if all_or_none else None)
        bits = np.packbits(np.ascontiguousarray(missing), axis=1)
        lacks_all = (bits == np.packbits(np.ones(n_columns, dtype=bool))).all(axis=1)
        known = ~bits[bits.any(axis=1) & ~lacks_all]
        rows, partly = known.view(f"V{bits.shape[1]}").ravel(), Counter[bytes]()
        for start in range(0, len(rows), MOST_PATTERNS):
            partly.update(rows[start : start + MOST_PATTERNS].tolist())
            if len(partly) > MOST_PATTERNS:
                break
        few = dict(partly) if len(partly) <= MOST_PATTERNS else None
        return cls(n_columns, n_rows - int(lacks_all.sum()), few)

    def combine(self, other: "RowPatterns") -> "RowPatterns":
        """Patterns of the rows of both."""
        partly = None
        if self.partly is not None and other.partly is not None:
            partly = combine_items(self.partly, other.partly, int.__add__)
            partly = partly if len(partly) <= MOST_PATTERNS else None
        return RowPatterns(self.n_columns, self.n_present + other.n_present, partly)

    def n_with(self, columns: Sequence[int]) -> int:
        """Number of rows with a known cell in some columns; all rows if there are too many."""
        if not self.partly:
            return self.n_present
        bits = np.frombuffer(b"".join(self.partly), np.uint8).reshape(len(self.partly), -1)
        known = np.unpackbits(bits, axis=1)[:, list(columns)].any(axis=1)
        return self.n_present - int(np.array([*self.partly.values()])[~known].sum())


@dataclass(frozen=True)
class TableSurvey:
    """Summary of the columns of a table, or of a batch of its rows."""

    origin: Origin  # of the first batch
    columns: list[str] | None  # names, None if there are none
    labels: list[str]  # columns in messages, such as "column 'age'"
    types: list[Counter[str]]  # of each column, known cells by the type it has in their batch
    n_rows: int
    rows: RowPatterns
    n_known: NDArray[np.int_]  # (n_columns,), as are the sums and ranges of typed numbers and days
    totals: NDArray[np.float64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    # Row, and error, for the first typed number of a column that is infinite or too large.
    too_large: dict[int, tuple[int, Exception]] = field(default_factory=dict)
    # Of typed numbers that are not sparse, see `count_sizes`.
    sizes: dict[int, Counter[int] | None] = field(default_factory=dict)
    cells: dict[int, CellSurvey] = field(default_factory=dict)  # of text and Python objects
    ids: dict[int, IdEvidence] = field(default_factory=dict)  # from numbers, if columns have names
    ties: "LabelTies | None" = None  # to labels, if these are given, and not very many

    @classmethod
    def of(
        cls,
        batch: Batch,
        text: Collection[str] = (),
        cells: Collection[int] = (),
        signed: NDArray[np.int8] | None = None,
    ) -> "TableSurvey":
        """Survey; columns in ``text`` are text, those at ``cells`` are read cell by cell.

        With labels ``signed`` (n_rows, n_labels), 1 = yes, -1 = no, leaks can be found.
        """
        n_rows, n_columns = batch.shape
        types = [
            CELLS if j in cells and kind != TEXT else kind
            for j, kind in enumerate(column_types(batch, text))
        ]
        missing = missing_cells(batch, types)
        n_known = n_rows - _column_counts(missing)
        labels = batch.column_labels()
        counts = [Counter({kind: n}) for kind, n in zip(types, n_known.tolist(), strict=True)]
        amounts = np.zeros(n_columns), np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
        about, rows = (batch.origin, batch.columns, labels, counts), RowPatterns.of(missing)
        survey = cls(*about, n_rows, rows, n_known, *amounts)
        numeric = [j for j, kind in enumerate(types) if kind in (NUMBER, TRUTH)]
        typed = survey._add_numbers(batch, numeric, missing)
        for j, kind in enumerate(types):
            if kind == DATE:
                numbers = days_of_column(batch, j)
                numbers = numbers[~np.isnan(numbers)]
                survey.totals[j] = numbers.sum()
                survey.lowest[j] = numbers.min(initial=np.inf)
                survey.highest[j] = numbers.max(initial=-np.inf)
            elif kind in (TEXT, CELLS):
                survey.cells[j] = CellSurvey.of(batch, j, as_words=kind == TEXT)
                if batch.columns is not None:
                    survey.ids[j] = survey.cells[j].numbers
        is_sparse = sparse.issparse(typed) or sparse.issparse(missing)
        if signed is None or is_sparse or n_columns * signed.shape[1] > MOST_PAIRS:
            return survey
        values: Any = {j: _values_of_numbers(typed[k]) for k, j in enumerate(numeric)}
        values |= {j: _values_of_text(batch, j) for j in survey.cells}
        return replace(survey, ties=LabelTies.of(signed, missing, values))

    def find_leaks(self, labels: Sequence[str]) -> dict[int, tuple[float, str]]:
        """How surely columns tell one of the labels, and why, of those that seem to."""
        if (ties := self.ties) is None:
            return {}
        found = {j: ties.suspicion(j, labels) for j in range(len(self.labels))}
        return {j: of for j, of in found.items() if of[0]}

    def column_label(self, j: int) -> str:
        return self.labels[j]

    def place(self, j: int) -> str:
        """Column ``j`` of the table in messages."""
        return f"{self.origin.table}, {self.labels[j]}"

    def combine(self, other: "TableSurvey") -> "TableSurvey":
        """Survey of these rows, followed by others."""
        if (self.columns, len(self.labels)) != (other.columns, len(other.labels)):
            raise ValueError(
                f"{other.origin}: its columns differ from those of {self.origin}; give all parts "
                "the same columns."
            )
        later = {j: (i + self.n_rows, error) for j, (i, error) in other.too_large.items()}
        return replace(
            self,
            types=[a + b for a, b in zip(self.types, other.types, strict=True)],
            n_rows=self.n_rows + other.n_rows,
            rows=self.rows.combine(other.rows),
            n_known=self.n_known + other.n_known,
            totals=self.totals + other.totals,
            lowest=np.minimum(self.lowest, other.lowest),
            highest=np.maximum(self.highest, other.highest),
            too_large=later | self.too_large,
            sizes=combine_items(self.sizes, other.sizes, add_sizes),
            cells=combine_items(self.cells, other.cells, CellSurvey.combine),
            ids=combine_items(self.ids, other.ids, IdEvidence.combine),
            ties=None if self.ties is None or other.ties is None else self.ties.combine(other.ties),
        )

    def n_typed(self, j: int) -> int:
        """Number of known cells in batches in which a column has a type of numbers or dates."""
        return sum(self.types[j][kind] for kind in (NUMBER, TRUTH, DATE))

    def amounts(self, readings: Mapping[int, str]) -> dict[int, Amounts]:
        """Sum and range of columns, with their cells read as numbers, truth values or dates."""
        found = {}
        for j, reading in readings.items():
            typed = float(self.totals[j]), float(self.lowest[j]), float(self.highest[j])
            of_cells = self.cells[j].sums.get(reading) if j in self.cells else None
            found[j] = Amounts(*typed, self.sizes.get(j, _NO_SIZES)).combine(of_cells or Amounts())
        return found

    def _add_numbers(self, batch: Batch, numeric: list[int], missing: Any) -> Any:
        """Add what typed numbers and truth values tell; returns these, by column if dense."""
        if not numeric or not self.n_rows:
            return np.empty((len(numeric), self.n_rows))
        numbers = batch.number_columns(numeric, allowed=AS_NUMBERS)
        if is_sparse := sparse.issparse(numbers):
            filled = numbers.copy()
            filled.data[np.isnan(filled.data)] = 0
            with np.errstate(invalid="ignore", over="ignore"):  # of numbers that are too large
                self.totals[numeric] = np.asarray(filled.sum(axis=0)).ravel()
            self.lowest[numeric] = filled.min(axis=0).toarray().ravel()
            self.highest[numeric] = filled.max(axis=0).toarray().ravel()
        for k, j in enumerate(numeric):
            if not is_sparse:
                lacks = self.n_known[j] < self.n_rows
                self._add_column(batch, j, numbers[k][~missing[:, j]] if lacks else numbers[k])
            if max(-self.lowest[j], self.highest[j]) > LARGEST:
                column = numbers[:, [k]].toarray() if is_sparse else numbers[k]
                self._add_large(batch, j, column.ravel())
        return numbers

    def _add_column(self, batch: Batch, j: int, known: NDArray[np.float64]) -> None:
        """Add what the known cells of a column of numbers tell, (n_known,)."""
        with np.errstate(invalid="ignore", over="ignore"):
            self.totals[j] = known.sum()
        self.lowest[j], self.highest[j] = known.min(initial=np.inf), known.max(initial=-np.inf)
        self.sizes[j] = count_sizes(known) if self.lowest[j] >= 0 else None
        if batch.columns is not None:
            head = known[:_HEAD]
            whole = not self.types[j][TRUTH] and (head == np.floor(head)).all()
            self.ids[j] = IdEvidence.of_numbers(known) if whole else IdEvidence(len(known))

    def _add_large(self, batch: Batch, j: int, column: NDArray[np.float64]) -> None:
        """Leave numbers that are infinite or too large out of the sum, and refuse the first."""
        large = np.abs(column) > LARGEST
        row = int(np.argmax(large))
        self.totals[j] = np.nansum(column[~large])
        error = ValueError(refusal_of_number(batch.place(row, j), column[row]))
        self.too_large[j] = row, error


def combine_items(first: dict[Any, Any], second: dict[Any, Any], combine: Any) -> dict[Any, Any]:
    """Results of two batches by name or value, which one of them may lack."""
    return first | second | {j: combine(first[j], second[j]) for j in first if j in second}


def find_ids(survey: TableSurvey) -> dict[int, str]:
    """Positions and reasons of columns that are likely ids; those without names never are."""
    if survey.columns is None:
        return {}
    found = {}
    for j, name in enumerate(survey.columns):
        evidence, cells = survey.ids.get(j), survey.cells.get(j)
        if cells is not None and max(cells.n["number."], cells.n["number,"]) < cells.n["known"]:
            evidence = None if survey.n_typed(j) else cells.ids
        if evidence is not None and (reason := evidence.why_id(name)):
            found[j] = reason
    return found


# Leaks: columns that tell a label, such as the age at which a disease was found.

MOST_PAIRS = 50_000  # columns times labels; beyond it, nothing is counted
MOST_TIED = 60  # different values of text that are counted
EXACT_ROWS = 2**16  # far fewer than single precision counts exactly
_EXACT = 16  # whole numbers up to here are counted singly
_OTHER = "another number"
FEWEST_TIED = 10  # rows with yes, and with no
# Difference between the shares of rows with yes and with no in which a column is known, or has a
# value, that no column reaches which is known before the label: of surveys, records and pictures,
# the largest were 0.69 and 0.82. Or the ratio of two such shares, if the larger one is not small.
KNOWN_GAP, VALUE_GAP = 0.8, 0.9
LEAST_SHARE, LARGE_RATIO = 0.2, 100


@dataclass(frozen=True)
class LabelTies:
    """In how many rows with yes, and with no, of each label columns are known, and have values."""

    rows: NDArray[np.int64]  # (2, n_labels)
    known: NDArray[np.int64]  # (n_columns, 2, n_labels)
    values: dict[int, dict[str, NDArray[np.int64]] | None]  # by column; None if there are too many

    @classmethod
    def of(cls, signed: NDArray[np.int8], missing: Mask, values: Mapping[int, Any]) -> "LabelTies":
        """Ties of rows to labels (n_rows, n_labels): 1 = yes, -1 = no.

        ``values`` has the codes (n_rows,), -1 for missing, and the values of some columns.
        """
        signs = np.hstack([signed > 0, signed < 0]) & ~missing.all(axis=1, keepdims=True)
        (row, sign), n_signs = signs.nonzero(), signs.shape[1]
        rows = np.bincount(sign, minlength=n_signs).reshape(2, -1)

        def count(codes: NDArray[np.integer], n: int) -> NDArray[np.int64]:
            entries = codes.take(row).astype(np.intp)
            entries += 1
            entries *= n_signs
            entries += sign
            return np.bincount(entries, minlength=(n + 1) * n_signs)[n_signs:].reshape(
                n, 2, n_signs // 2
            )

        n_known = np.zeros((missing.shape[1], n_signs))
        for start in range(0, len(signs), EXACT_ROWS):
            at = slice(start, start + EXACT_ROWS)
            n_known += (~missing[at]).T.astype(np.float32) @ signs[at].astype(np.float32)
        known = n_known.astype(np.int64).reshape(-1, 2, n_signs // 2)
        tied: dict[int, Any] = dict.fromkeys(values)
        for j, (codes, keys) in values.items():
            if len(keys) <= MOST_TIED:  # all known cells have a value that is the only one
                n = known[j : j + 1] if len(keys) == 1 else count(codes, len(keys))
                tied[j] = dict(zip(keys, n, strict=True))
        return cls(rows, known, tied)

    def combine(self, other: "LabelTies") -> "LabelTies":
        """Ties of the rows of both."""

        def add(a: Any, b: Any) -> Any:
            both = None if a is None or b is None else combine_items(a, b, np.add)
            return both if both is None or len(both) <= MOST_TIED else None

        values = combine_items(self.values, other.values, add)
        return LabelTies(self.rows + other.rows, self.known + other.known, values)

    def suspicion(self, j: int, labels: Sequence[str]) -> tuple[float, str]:
        """How surely a column tells one of the labels, and why; 0 if it does not seem to."""
        tied: list[Any] = [("known", self.known[j], self.rows, KNOWN_GAP, LARGE_RATIO)]
        for value, n in (self.values.get(j) or {}).items():
            tied.append((f"is {value}", n, self.known[j], VALUE_GAP, np.inf))
        best = 0.0, ""
        for what, n, of, least, ratio in tied:
            gap, large_ratio = _contrast(n, of)
            gap = np.where((gap >= least) | (large_ratio >= ratio), gap, 0)
            k = int(gap.argmax())
            if gap[k] > best[0]:
                yes, no = np.round(100 * n[:, k] / of[:, k])
                reason = f"{what} in {yes:.0f} % of the rows with {labels[k]} = yes"
                best = float(gap[k]), f"{reason} and in {no:.0f} % of those with no"
        return best


def _contrast(n: NDArray[np.int64], of: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Difference between shares (2, n_labels), towards 0 if rows are few; and their ratio.

    The ratio is that of shares, or of what they lack of 1; 0 if the larger of them is small.
    """
    gaps, ratios = [], []
    for part in (n, of - n):
        for one, other in ((0, 1), (1, 0)):
            large, small = part[one] / (of[one] + 1), (part[other] + 1) / (of[other] + 1)
            gaps.append(large - small)
            ratios.append(np.where(large >= LEAST_SHARE, large / small, 0))
    enough = of.min(axis=0) >= FEWEST_TIED
    return np.max(gaps, axis=0) * enough, np.max(ratios, axis=0) * enough


def _values_of_numbers(numbers: NDArray[np.float64]) -> tuple[NDArray[np.int8], list[str]]:
    """Codes (n_rows,), -1 for missing, of small whole numbers, and of all others together."""
    exact = np.rint(numbers) == numbers
    exact = exact & (np.abs(numbers) <= _EXACT) if exact.any() else exact
    missing = np.isnan(numbers)
    if not exact.any():
        return -missing.astype(np.int8), [_OTHER] * (not missing.all())
    codes = np.where(exact, numbers + _EXACT, 2 * _EXACT + 1).astype(np.int8)
    codes[missing] = -1
    found = np.bincount(codes[~missing], minlength=2 * _EXACT + 2) > 0
    keys = compress([*map(str, range(-_EXACT, _EXACT + 1)), _OTHER], found)
    return np.append(np.cumsum(found, dtype=np.int8) - 1, np.int8(-1))[codes], [*keys]


def _values_of_text(batch: Batch, j: int) -> tuple[NDArray[np.intp], list[str]]:
    """Codes (n_rows,), -1 for missing, of the values of a column as text."""
    try:
        codes, cells = batch.distinct(j)
    except (TypeError, ValueError):  # reported if they are used
        return np.full(len(batch), -1), []
    if len(cells) > 10 * MOST_TIED:  # without a look at each
        return codes, list(map(str, range(len(cells))))
    texts = ["" if is_unknown(cell) else as_text(cell) for cell in cells]
    keys = sorted(set(texts) - {""})
    of_text = {text: k for k, text in enumerate(keys)}
    return np.array([*(of_text.get(text, -1) for text in texts), -1])[codes], keys


def column_types(batch: Batch, text: Collection[str] = ()) -> list[str]:
    """Kind of each column by its type; columns of arrays have numbers or truth values."""
    if not batch.is_frame:
        return [TRUTH if batch.data.dtype == bool else NUMBER] * batch.shape[1]
    names, as_words = batch.columns or [""] * batch.shape[1], set(text)
    types = batch.dtypes
    return [TEXT if n in as_words else _type(batch, j, types[j]) for j, n in enumerate(names)]


def _type(batch: Batch, j: int, dtype: Any) -> str:
    if dtype == nw.Boolean:
        return TRUTH
    if dtype.is_numeric():
        return NUMBER
    if dtype.is_temporal():
        return DATE
    if dtype in (nw.Categorical, nw.Enum):
        return TEXT
    return CELLS if batch.sparse_numbers(j) is None else NUMBER


def missing_cells(batch: Batch, types: Sequence[str]) -> Any:
    """Mask of the cells that are missing, or words for missing ones; sparse if the batch is."""
    cells_of = [j for j, kind in enumerate(types) if kind in (TEXT, CELLS)]
    missing = np.copy(batch.missing, order="K") if cells_of else batch.missing
    for j in cells_of:
        try:
            codes, cells = batch.distinct(j)
            missing[:, j] |= np.array([*map(is_unknown, cells), True])[codes]  # the last is for -1
        except TypeError:  # cells that cannot be compared, which are reported if they are used
            missing[:, j] |= [is_unknown(cell) for cell in batch.cells(j)]
        except ValueError:  # cells that cannot be read, which are reported then, too
            continue
    return missing


def _column_counts(marks: Any) -> NDArray[np.int_]:
    """Number of the marked rows of each column, (n_columns,)."""
    if sparse.issparse(marks):
        return np.asarray(marks.sum(axis=0)).ravel().astype(int)
    return np.array([np.count_nonzero(column) for column in marks.T], dtype=int)


def days_of_column(batch: Batch, j: int) -> NDArray[np.float64]:
    """Typed dates of a column as numbers of days, (n_rows,), NaN where missing."""
    values = batch.values(j)
    if values.dtype.kind in "mM":  # at once: cell by cell is slow
        return days_of_array(values)
    found = [None if is_missing(cell) else days(cell) for cell in batch.cells(j)]
    return np.array(found, dtype=float)
