"""Columns that are set aside: ids, almost empty ones, free text; and those that are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from naim3l import DataWarning
from naim3l.features.cell_encoder import MOST_CATEGORIES
from naim3l.features.survey import TableSurvey
from naim3l.features.unused_columns import IN_SETTINGS, MOST_WARNINGS, set_aside
from naim3l.input.tables import Table


def known(n_rows, n_known):
    """A column with so many known cells, spread over the rows."""
    column = np.full(n_rows, np.nan)
    column[np.linspace(0, n_rows - 1, n_known).astype(int)] = np.arange(n_known) + 0.5
    return column


def found(frame, **options):
    return set_aside(TableSurvey.of(Table(frame, "view 'a'")), **options)


@pytest.mark.parametrize(
    ("n_rows", "n_known", "is_aside"),
    [(774, 2, True), (774, 7, True), (774, 8, False), (100, 4, True), (100, 5, False),
     (8, 3, True), (8, 4, False), (4, 1, True), (4, 2, False), (2, 1, False)],
)  # fmt: skip
def test_almost_empty_columns(rng, n_rows, n_known, is_aside):
    frame = pd.DataFrame({"x": rng.normal(size=n_rows), "y": known(n_rows, n_known)})
    if not is_aside:
        assert not found(frame)
        return
    reason = f"{n_known} known values in {n_rows} rows"
    with pytest.warns(DataWarning, match=f"view 'a', column 'y': {reason}. It is set aside"):
        (use,) = found(frame).values()
    assert use.reason == reason and use.kind == "number"
    assert use.missing == pytest.approx(1 - n_known / n_rows)
    assert not found(frame, keep=["y"])
    with pytest.warns(DataWarning, match="column 1: "):
        assert list(found(frame.to_numpy())) == [1]


def test_rows_without_the_view_do_not_count(rng):
    """Of 400 rows 8 have the view, and half of these know the column."""
    frame = pd.DataFrame(np.full((400, 2), np.nan), columns=["x", "y"])
    frame.loc[:7, "x"], frame.loc[:3, "y"] = rng.normal(size=8), rng.normal(size=4)
    assert not found(frame)


def test_free_text_is_set_aside_and_categories_are_not(rng):
    n = 60
    frame = pd.DataFrame({
        "x": rng.normal(size=n),
        "note": [f"note {i // 2 if i < 20 else i}" for i in range(n)],
        "ward": ["A", "B", None] * 20,
    })  # fmt: skip
    with pytest.warns(DataWarning, match="'note': 50 different values of text in 60 rows") as told:
        assert list(found(frame)) == [1]
    assert len(told) == 1
    codes = pd.DataFrame({"code": [f"c{i % 40} x" for i in range(200)]})
    with pytest.warns(DataWarning, match=rf"40 different .* The {MOST_CATEGORIES} most frequent"):
        assert not found(codes)


def test_ids_have_the_cure_of_the_place(rng):
    frame = pd.DataFrame({"x": rng.normal(size=30), "MRN": np.arange(30) * 7 + 3})
    with pytest.warns(DataWarning, match='an id: .* transformer="scale"'):
        (use,) = found(frame).values()
    assert use.reason.startswith("an id: it is named like an id")
    with pytest.warns(DataWarning, match="list it by name under features in the settings"):
        found(frame, cures=IN_SETTINGS)


def test_many_columns_are_one_warning(rng):
    n = MOST_WARNINGS + 1
    frame = pd.DataFrame({f"y{j}": known(100, 2) for j in range(n)}).assign(x=rng.normal(size=100))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(found(frame)) == n
    assert len(told) == 1
    assert f"{n} columns are set aside: column 'y0' (2 known" in str(told[0].message)


@pytest.mark.parametrize("words", [[], ["a", "b", "c"]])
@pytest.mark.parametrize("kind", ["object", "category"])
def test_words_for_missing_cells_are_unknown(rng, words, kind):
    """As for the encoder of the cells: otherwise "?" would be a value of text."""
    n = 280
    cells = pd.Series([*words, *["?", "N/A"] * n][:n], dtype=kind)
    frame = pd.DataFrame({"x": rng.normal(size=n), "y": cells})
    reason = f"{len(words)} known values in {n} rows"
    with pytest.warns(DataWarning, match=f"view 'a', column 'y': {reason}. It is set aside"):
        (use,) = found(frame).values()
    assert use.reason == reason and use.missing == pytest.approx(1 - len(words) / n)
