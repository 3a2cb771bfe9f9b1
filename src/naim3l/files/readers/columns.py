"""The roles of the columns of a table, ids, labels and features: chosen by name, or guessed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np

from naim3l.features.cell_encoder import MOST_CATEGORIES
from naim3l.features.dates import why_no_date
from naim3l.files.readers.cells import distinct, meanings_of, word
from naim3l.files.readers.errors import ReadError, close_names, quote
from naim3l.files.readers.ids import guess_id
from naim3l.files.readers.kinds import is_plain, read_column
from naim3l.files.readers.table import check_file
from naim3l.input.id_columns import why_id


@dataclass(frozen=True)
class Roles:
    """Likely roles of the columns of a table.

    Attributes
    ----------
    id : str or None
    labels, features : list of str
    perhaps : list of str
        Columns that have only 0 and 1, which may be either: they are among the labels if no other
        column is a likely label, otherwise among the features.
    ignored : dict of str to str
        Columns that cannot be used as features, and the reasons.
    reasons : dict of str to str
        Reasons for the choice of the id and the labels.
    """

    id: str | None
    labels: list[str]
    features: list[str]
    perhaps: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def choose_columns(
    columns: Iterable[str], patterns: str | Iterable[str], *, where: str = "the table"
) -> list[str]:
    """Columns by names and patterns.

    Parameters
    ----------
    columns : iterable of str
        Names to choose from.
    patterns : str or iterable of str
        Names, shell-style patterns such as ``"lab_*"``, or ``"@file"``: a file with a name or
        pattern on each line. A name takes precedence over its meaning as a pattern.
    where : str
        Name of the table in errors.

    Returns
    -------
    chosen : list of str
        In the order of the patterns, and for each in that of the table; no column occurs twice.

    Raises
    ------
    ReadError
        If a name or pattern matches no column; the message has similar names.

    Examples
    --------
    >>> choose_columns(["id", "flu", "lab_hb", "lab_crp"], ["lab_*", "flu"])
    ['lab_hb', 'lab_crp', 'flu']
    """
    names = dict.fromkeys(columns)  # ordered, with fast lookup
    chosen: dict[str, None] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if pattern.startswith("@") and pattern not in names:
            listed = _listed_names(pattern[1:])
            chosen.update(dict.fromkeys(choose_columns(names, listed, where=where)))
            continue
        found = [pattern] if pattern in names else _matches(names, pattern)
        if not found:
            raise ReadError(f"{where}: no column {quote(pattern)}; {close_names(pattern, names)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def guess_roles(
    table: Any, *, yes: Iterable[str] = (), no: Iterable[str] = (), unknown: Iterable[str] = ()
) -> Roles:
    """Likely roles of the columns, by their names and cells.

    An id is found by `naim3l.files.readers.ids.guess_id`.
    A label has words for yes and no, apart from unknown and missing cells. Columns that are empty
    or constant, dates that cannot be read, free text, numbers mixed with text, and further ids
    are ignored.

    Parameters
    ----------
    table : DataFrame
        From `read_table`; a named index is the id.
    yes, no, unknown : iterables of str
        Further words of labels, as for `parse_labels`.
    """
    columns = [str(name) for name in table.columns]
    reasons: dict[str, str] = {}
    id_column = table.index.name
    if id_column is None:
        id_column, reason = guess_id(table)
        if id_column is not None:
            reasons[id_column] = reason
    rest = [name for name in columns if name != id_column]
    ignored: dict[str, str] = {}
    sure: list[str] = []
    perhaps: list[str] = []
    for name in rest:
        likeness = label_likeness(table[name], yes, no, unknown)
        reason = "" if likeness == "sure" else _useless(table[name])
        if reason:
            ignored[name] = reason
        elif likeness is not None:
            (sure if likeness == "sure" else perhaps).append(name)
    labels = sure or perhaps
    reasons.update(dict.fromkeys(sure, "words for yes and no"))
    if not sure:
        reasons.update(dict.fromkeys(perhaps, "0 and 1 alone, perhaps a feature"))
    taken = {*labels, *ignored}
    features = [name for name in rest if name not in taken]
    return Roles(id_column, labels, features, perhaps, ignored, reasons)


def label_likeness(
    series: Any, yes: Iterable[str] = (), no: Iterable[str] = (), unknown: Iterable[str] = ()
) -> Literal["sure", "perhaps"] | None:
    """Whether a column is a likely label: "sure" by words, "perhaps" if it has only 0 and 1.

    Parameters
    ----------
    series : Series of shape (n_rows,)
    yes, no, unknown : iterables of str
        Additional words, as for `parse_labels`.
    """
    meanings, given = meanings_of(yes, no, unknown)
    if is_plain(series.dtype) and not given:
        values = series.to_numpy()
        if not (np.isnan(values) | np.isin(values, (0, 1, -1))).all():
            return None  # without reading each cell: there may be very many such columns
    try:
        _, cells = distinct(series)
    except TypeError:
        return None
    words = {word(cell) for cell in cells}
    if not words <= set(meanings):
        return None
    known = {entry for entry in words if not np.isnan(meanings[entry])}
    if not known or ({"0", "-1"} <= known and not {"0", "-1"} & given):
        return None
    return "perhaps" if known <= {"1", "0", "-1"} else "sure"


def _matches(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatchcase(name, pattern)]


def _listed_names(path: str) -> list[str]:
    check_file(Path(path))
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: a list of names must be text in UTF-8 ({error}).") from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise ReadError(f"{path}: no names; give one on each line.")
    if any(name.startswith("@") for name in names):
        raise ReadError(f"{path}: a list of names cannot refer to another one.")
    return names


def _useless(series: Any) -> str:
    """Reason why a column cannot be used as a feature; empty if it can."""
    column = read_column(series)
    if column.kind == "other date":
        return f"{quote(column.example)} cannot be read as a date: {why_no_date(column.example)}"
    if column.kind == "other":
        return f"neither numbers nor text, such as {quote(column.example)}"
    if column.kind == "mixed" and column.odd is not None:
        odd = column.odd
        return f"{odd.n} of {odd.n_known} cells are no numbers, such as {quote(odd.cell)}"
    cells = [cell for cell in column.values.tolist() if cell is not None and cell == cell]
    known, n_known = set(cells), len(cells)
    if not known:
        return "empty"
    if len(known) == 1 and n_known == len(series):
        return f"constant, {quote(cells[0])} throughout"
    if column.kind == "text" and (
        len(known) > MOST_CATEGORIES or (len(known) == n_known and n_known > 2)
    ):
        return f"free text, {len(known)} different values in {n_known} rows"
    reason = why_id(str(series.name), column.values)
    return f"an id: {reason}" if reason else ""
