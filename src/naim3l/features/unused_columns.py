"""Columns that cannot be features: ids, almost empty columns, and free text."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from naim3l._text import some
from naim3l.features.cell_encoder import MOST_CATEGORIES
from naim3l.features.column_kinds import BOOLEAN, KINDS, NUMBER, TEXT
from naim3l.features.column_uses import SET_ASIDE, ColumnUse
from naim3l.features.survey import TableSurvey
from naim3l.input.distinct import MOST_VALUES
from naim3l.input.tables import warn_user

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
    survey: TableSurvey, *, keep: Collection[str] = (), cures: Mapping[str, str] = IN_PYTHON
) -> dict[int, ColumnUse]:
    """Positions of the columns that cannot be features, of which it warns.

    Parameters
    ----------
    survey : TableSurvey
    keep : collection of str
        Columns that are kept, even if they seem to be ids or are almost empty.
    cures : mapping of str to str
        What a user can do about each reason.
    """
    n_rows, n_known = survey.n_present, survey.n_known
    found = {j: (_ID, f"an id: {reason}") for j, reason in survey.find_ids().items()}
    least = min(max(FEWEST_KNOWN, FEWEST_SHARE * n_rows), n_rows / 2)
    for j in np.flatnonzero(n_known < least).tolist():
        found[j] = (_EMPTY, f"{n_known[j]} known values in {n_rows} rows")
    for j, name in enumerate(survey.columns or ()):
        if name in keep:
            found.pop(j, None)
    kinds = survey.find_kinds([j for j in range(len(survey.labels)) if j not in found])
    found |= _find_free_text(survey, [j for j, kind in kinds.items() if kind == TEXT])
    _warn(survey, found, cures)
    numeric = np.isin(survey.types, (NUMBER, BOOLEAN))
    return {
        j: ColumnUse(
            survey.columns[j] if survey.columns else survey.labels[j],
            KINDS[NUMBER if numeric[j] else TEXT],
            float(1 - n_known[j] / max(n_rows, 1)),
            SET_ASIDE,
            found[j][1],
        )
        for j in sorted(found)
    }


def _find_free_text(survey: TableSurvey, columns: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Columns of text with more values than half of the rows; warns of other long lists."""
    found = {}
    for j in columns:
        cells = survey.cells[j]
        too_many = cells.values.is_sample
        n_values = MOST_VALUES if too_many else len(cells.texts())
        more = "more than " if too_many else ""
        what = f"{more}{n_values} different values of text in {cells.n_known} rows"
        if too_many or 2 * n_values > cells.n_known:
            found[j] = (_TEXT, f"{what}, which is an id or free text")
        elif n_values > MOST_CATEGORIES:
            warn_user(
                f"{survey.where}, {survey.labels[j]}: {what}. The {MOST_CATEGORIES} most "
                "frequent are kept, all others are taken as one; group the values to keep more."
            )
    return found


def _warn(
    survey: TableSurvey, found: Mapping[int, tuple[str, str]], cures: Mapping[str, Any]
) -> None:
    if len(found) > MOST_WARNINGS:
        listed = [f"{survey.labels[j]} ({reason})" for j, (_, reason) in sorted(found.items())]
        warn_user(f"{survey.where}: {len(found)} columns are set aside: {some(listed, 8, str)}.")
        return
    for j, (why, reason) in sorted(found.items()):
        place = f"{survey.where}, {survey.labels[j]}"
        warn_user(f"{place}: {reason}. It is set aside. {cures[why]}")
