"""Detection of columns with ids, which name rows instead of describing them.

Neither a name alone nor distinct values make an id: measurements with decimals are distinct, too.
Numbers are ids only if they are whole, and text only if it has about as many values as rows.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from naim3l.input.distinct import ValueCounts
from naim3l.input.tables import is_missing

_NAMES = (  # the most certain first
    re.compile(r"id|uid|uuid|guid|pid|mrn|ssn|key|index|idx|row[_ ]?id", re.IGNORECASE),
    re.compile(
        r".*[_\-. ](id|uid|uuid|guid|pid|mrn|key|nr|no)|(id|key)[_\-. ].*"
        r"|(patient|case|subject|record|sample|participant|person)[_\-. ]?(no|nr|num|number|code)",
        re.IGNORECASE,
    ),
    re.compile(r".*[a-z](Id|ID|Key|Nr|No)"),
    re.compile(r"case|subject|record|participant", re.IGNORECASE),
    re.compile(r"row[_ ]?names?|unnamed(_|: ?)\d+", re.IGNORECASE),
)
_CODE = re.compile(
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
# A column that is named like an id may repeat values, but has more distinct values than this, or
# more than half as many as rows.
MOST_GROUPS = 30
FEWEST_COUNTED = 10  # fewest rows of a column that counts the rows
# Distinct values are ids if values drawn from their range would be distinct with a probability
# below this.
RARELY_DIFFERENT = 1e-4
_LONG = 10**7  # numbers of 8 digits and more may be codes
WHOLE, CODES, TEXTS, OTHER = "whole", "code", "text", "other"  # sorts of cells


def is_named_like_id(name: str) -> bool:
    """Whether a column has a name that is typical of ids."""
    return any(names.fullmatch(name) for names in _NAMES)


def in_order_of_names(names: Iterable[str]) -> list[str]:
    """The names that are typical of ids, the most certain first."""
    listed = list(names)
    found = [name for pattern in _NAMES for name in listed if pattern.fullmatch(name)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class WholeNumbers:
    """Summary of whole numbers in the order of their rows, of at least one.

    Attributes
    ----------
    first, last, low, high : float
    counted : bool
        Whether each number is larger by 1 than the one before.
    n_round : int
        Number of multiples of 10, counted if all numbers are long.
    """

    first: float
    last: float
    low: float
    high: float
    counted: bool
    n_round: int

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
        return WholeNumbers(
            self.first,
            other.last,
            min(self.low, other.low),
            max(self.high, other.high),
            self.counted and other.counted and other.first == self.last + 1,
            self.n_round + other.n_round if min(self.low, other.low) >= _LONG else 0,
        )


@dataclass(frozen=True)
class IdEvidence:
    """What the cells of a column say about whether it is an id, besides how many differ.

    Attributes
    ----------
    n_known : int
        Number of cells that are not missing.
    sort : {"whole", "code", "text", "other"}
        Whole numbers, text that is all codes, other text, and columns that are never ids.
    numbers : WholeNumbers or None
        None unless the column has whole numbers.
    """

    n_known: int
    sort: str
    numbers: WholeNumbers | None = None

    @classmethod
    def of(cls, cells: Sequence[Any]) -> "IdEvidence":
        """Evidence from Python objects, none of which is missing, in the order of their rows."""
        different = set(map(type, cells))
        if all(issubclass(kind, str | UUID) for kind in different):
            is_code = all(_CODE.fullmatch(str(cell)) for cell in cells)
            return cls(len(cells), CODES if is_code else TEXTS)
        if any(kind is bool or not issubclass(kind, int | float | Decimal) for kind in different):
            return cls(len(cells), OTHER)
        return cls.of_numbers(np.array([_as_float(cell) for cell in cells]))

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.float64]) -> "IdEvidence":
        """Evidence from an array of shape (n_rows,), without NaN."""
        if not (numbers == np.floor(numbers)).all():
            return cls(len(numbers), OTHER)
        return cls(len(numbers), WHOLE, WholeNumbers.of(numbers) if len(numbers) else None)

    def combine(self, other: "IdEvidence") -> "IdEvidence":
        """Evidence from these cells, followed by others."""
        if not self.n_known or not other.n_known:
            return self if self.n_known else other
        n_known, sorts = self.n_known + other.n_known, {self.sort, other.sort}
        if self.numbers is not None and other.numbers is not None:
            return IdEvidence(n_known, WHOLE, self.numbers.combine(other.numbers))
        if sorts <= {CODES, TEXTS}:
            return IdEvidence(n_known, TEXTS if TEXTS in sorts else CODES)
        return IdEvidence(n_known, OTHER)


def why_id(name: str, cells: Any) -> str:
    """The reason why a column is likely to be an id; empty if it is not.

    Parameters
    ----------
    name : str
    cells : sequence or array of shape (n_rows,)
        Numbers or text, in the order of the rows; missing cells do not count.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        numbers = cells[~np.isnan(cells)].astype(float)
        return why_evident(name, IdEvidence.of_numbers(numbers), ValueCounts.of_numbers(numbers))
    known = [cell for cell in cells if not is_missing(cell)]
    evidence = IdEvidence.of(known)
    counts = {} if evidence.sort == OTHER else Counter(known)  # others may have no hash
    return why_evident(name, evidence, ValueCounts.of(counts))


def why_evident(name: str, evidence: IdEvidence, values: ValueCounts) -> str:
    """`why_id` from evidence, and from the counts of the values that are not missing."""
    n_known, all_differ = evidence.n_known, values.all_differ
    n_values = n_known if all_differ else values.n_values
    if evidence.sort == OTHER or n_values < 2:
        return ""
    many = 2 * n_values > n_known
    if is_named_like_id(name) and (many or n_values > MOST_GROUPS):
        about = "about " if values.is_sample else ""
        return (
            f"it is named like an id and has {about}{n_values} different values in {n_known} rows"
        )
    if evidence.numbers is not None:
        return _why_numbers(name, evidence.numbers, n_known, all_differ) if many else ""
    return "its values are codes that all differ" if evidence.sort == CODES and all_differ else ""


def _as_float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:  # whole numbers of hundreds of digits, as no measurement has
        return np.inf


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
