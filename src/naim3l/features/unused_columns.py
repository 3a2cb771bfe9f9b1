"""Columns that cannot be features: ids, almost empty columns, and free text."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from naim3l._text import some
from naim3l.features.cell_encoder import MOST_CATEGORIES
from naim3l.features.column_kinds import KINDS, NUMBER, TEXT, count_known, find_kinds, texts_of
from naim3l.features.column_uses import SET_ASIDE, ColumnUse
from naim3l.input.id_columns import find_id_columns
from naim3l.input.tables import Table, warn_user

# A column is almost empty if fewer cells than these are known, and fewer than half of all: filled
# in with the mean it would be constant except in a few rows, which scaling would move far away.
FEWEST_KNOWN, FEWEST_SHARE = 5, 0.01
# If more columns are set aside, one warning lists them.
MOST_WARNINGS = 8
_ID, _EMPTY, _TEXT = "id", "empty", "text"
IN_PYTHON = {
    _ID: "Make it the index, or leave it out. If it is a feature, name a transformer such as "
    'transformer="scale", which uses every column.',
    _EMPTY: "Leave it out; to use it, fill in its missing cells.",
    _TEXT: "Leave it out, or group its values.",
}
IN_SETTINGS = {
    _ID: "Name it as the id, or ignore it; if it is a feature, list it by name under features in "
    "the settings.",
    _EMPTY: "Ignore it; to use it, list it by name under features in the settings.",
    _TEXT: "Ignore it, or group its values.",
}


def set_aside(
    table: Table,
    *,
    keep: Collection[str] = (),
    text: Collection[str] = (),
    cures: Mapping[str, str] = IN_PYTHON,
) -> dict[int, ColumnUse]:
    """Positions of the columns that cannot be features, of which it warns.

    Parameters
    ----------
    table : Table
    keep : collection of str
        Columns that are kept, even if they seem to be ids or are almost empty.
    text : collection of str
        Columns that are text, even if their cells are numbers.
    cures : mapping of str to str
        What a user can do about each reason.
    """
    missing = table.missing()
    n_rows = int((np.asarray(missing.sum(axis=1)).ravel() < table.shape[1]).sum())
    n_known = count_known(table)
    found = {j: (_ID, f"an id: {reason}") for j, reason in find_id_columns(table).items()}
    least = min(max(FEWEST_KNOWN, FEWEST_SHARE * n_rows), n_rows / 2)
    for j in np.flatnonzero(n_known < least).tolist():
        found[j] = (_EMPTY, f"{n_known[j]} known values in {n_rows} rows")
    for j, name in enumerate(table.columns or ()):
        if name in keep:
            found.pop(j, None)
    kinds = _kinds_of_rest(table, found, text)
    texts = [j for j, kind in kinds.items() if kind == TEXT and j not in found]
    found |= _find_free_text(table, texts)
    _warn(table, found, cures)
    return {
        j: ColumnUse(
            table.columns[j] if table.columns else table.column_label(j),
            KINDS[kinds[j]],
            float(1 - n_known[j] / max(n_rows, 1)),
            SET_ASIDE,
            found[j][1],
        )
        for j in sorted(found)
    }


def _kinds_of_rest(table: Table, found: Collection[int], text: Collection[str]) -> dict[int, int]:
    """Kind of each column; of those that were found, whether they are numbers by their type."""
    rest = [j for j in range(table.shape[1]) if j not in found]
    kinds: dict[int, int] = {}
    if rest:
        part = table if not found else table.select_columns(rest, table.where)
        kinds = dict(zip(rest, find_kinds(part, text).tolist(), strict=True))
    numeric = set(range(table.shape[1]) if table.frame is None else table.numeric)
    return {j: kinds.get(j, NUMBER if j in numeric else TEXT) for j in range(table.shape[1])}


def _find_free_text(table: Table, columns: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Columns of text with more values than half of the rows; warns of other long lists."""
    found = {}
    for j in columns:
        known = [text for text in texts_of(table, j) if text is not None]
        n_values, n_known = len(set(known)), len(known)
        what = f"{n_values} different values of text in {n_known} rows"
        if 2 * n_values > n_known:
            found[j] = (_TEXT, f"{what}, which is an id or free text")
        elif n_values > MOST_CATEGORIES:
            warn_user(
                f"{table.where}, {table.column_label(j)}: {what}. The {MOST_CATEGORIES} most "
                "frequent are kept, all others are taken as one; group the values to keep more."
            )
    return found


def _warn(table: Table, found: Mapping[int, tuple[str, str]], cures: Mapping[str, Any]) -> None:
    if len(found) > MOST_WARNINGS:
        listed = [f"{table.column_label(j)} ({reason})" for j, (_, reason) in sorted(found.items())]
        warn_user(f"{table.where}: {len(found)} columns are set aside: {some(listed, 8, str)}.")
        return
    for j, (why, reason) in sorted(found.items()):
        place = f"{table.where}, {table.column_label(j)}"
        warn_user(f"{place}: {reason}. It is set aside. {cures[why]}")
