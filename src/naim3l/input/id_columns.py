"""Detection of columns with ids, which name rows instead of describing them.

Neither a name alone nor distinct values make an id: measurements with decimals are distinct, too.
Numbers are ids only if they are whole, and text only if it has about as many values as rows.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from naim3l.input.tables import Table, is_missing

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
LONG_CODE = 8  # digits
_HEAD = 100  # number of rows that rule out most columns


def is_named_like_id(name: str) -> bool:
    """Whether a column has a name that is typical of ids."""
    return any(names.fullmatch(name) for names in _NAMES)


def in_order_of_names(names: Iterable[str]) -> list[str]:
    """The names that are typical of ids, the most certain first."""
    listed = list(names)
    found = [name for pattern in _NAMES for name in listed if pattern.fullmatch(name)]
    return list(dict.fromkeys(found))


def why_id(name: str, cells: Any) -> str:
    """The reason why a column is likely to be an id; empty if it is not.

    Parameters
    ----------
    name : str
    cells : sequence or array of shape (n_rows,)
        Numbers or text, in the order of the rows; missing cells do not count.
    """
    numbers, texts = _known(cells)
    known = texts if numbers is None else numbers
    n_known, n_values = len(known), len(set(known) if numbers is None else np.unique(known))
    if n_values < 2:
        return ""
    many = 2 * n_values > n_known
    if is_named_like_id(name) and (many or n_values > MOST_GROUPS):
        return f"it is named like an id and has {n_values} different values in {n_known} rows"
    if numbers is not None:
        return _why_numbers(name, numbers, n_values) if many else ""
    if n_values == n_known and all(map(_CODE.fullmatch, texts)):
        return "its values are codes that all differ"
    return ""


def find_id_columns(table: Table) -> dict[int, str]:
    """Positions of the columns of a data frame that are likely to be ids, and the reasons.

    Columns without names, such as those of arrays, are never treated as ids.
    """
    if table.frame is None or table.columns is None:
        return {}
    head = Table(table.frame.head(_HEAD).to_native(), table.where).numeric_columns()
    cells: dict[int, Any] = {}
    if head.shape[1]:
        assert head.positions is not None
        possible = zip(head.positions, _perhaps_ids(head.numbers()), strict=True)
        chosen = [j for j, perhaps in possible if perhaps or is_named_like_id(table.columns[j])]
        if chosen:
            cells |= zip(chosen, table.select_columns(chosen, table.where).numbers().T, strict=True)
    numeric, dtypes = set(head.positions or ()), table.frame.schema.dtypes()
    cells |= {j: table.cells(j) for j, dtype in enumerate(dtypes)
              if j not in numeric and not dtype.is_temporal()}  # fmt: skip
    reasons = {j: why_id(table.columns[j], cells[j]) for j in sorted(cells)}
    return {j: reason for j, reason in reasons.items() if reason}


def _perhaps_ids(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask (n_columns,) of the columns of whole numbers without many repetitions."""
    ordered = np.sort(numbers, axis=0)
    whole = (np.isnan(numbers) | (numbers == np.floor(numbers))).all(axis=0)
    n_equal = (ordered[1:] == ordered[:-1]).sum(axis=0)
    return whole & (2 * n_equal < len(numbers))


def _known(cells: Any) -> tuple[NDArray[np.float64] | None, list[str]]:
    """Known cells as whole numbers, or as text; None and no text if they are neither."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        numbers = cells[~np.isnan(cells)].astype(float)
        return (numbers if (numbers == np.floor(numbers)).all() else None), []
    known = [cell for cell in cells if not is_missing(cell)]
    if all(isinstance(cell, str | UUID) for cell in known):
        return None, [str(cell) for cell in known]
    if any(isinstance(cell, bool) or not isinstance(cell, int | float | Decimal) for cell in known):
        return None, []
    try:
        return _known(np.array(known, dtype=float))
    except OverflowError:  # whole numbers of hundreds of digits, as no measurement has
        return None, [str(cell) for cell in known]


def _why_numbers(name: str, numbers: NDArray[np.float64], n_values: int) -> str:
    """The reason why mostly distinct whole numbers are ids, independently of the name."""
    if _MEASURED.fullmatch(name):
        return ""
    low, high, n_rows = numbers.min(), numbers.max(), len(numbers)
    if n_values == n_rows:
        if n_rows >= FEWEST_COUNTED and (np.diff(numbers) == 1).all():
            return "it counts the rows"
        # Expected number of equal pairs if values were drawn from their range (birthday problem).
        n_pairs = n_rows * (n_rows - 1) / 2 / (high - low + 1)
        if n_pairs > -np.log(RARELY_DIFFERENT):
            return f"its values all differ, though they range from {low:.0f} to {high:.0f} only"
    is_long = low >= 10 ** (LONG_CODE - 1) and np.floor(np.log10(low)) == np.floor(np.log10(high))
    # Large amounts are mostly round.
    if is_long and n_rows >= FEWEST_COUNTED and (numbers % 10 == 0).mean() < 0.5:
        return f"its values are long numbers of the same length, such as {low:.0f}"
    return ""
