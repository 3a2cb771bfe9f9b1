"""Checks of the reader of a loaded model: form, names and columns of its tables."""

from typing import Any

from naim3l.files.models.archive import require
from naim3l.files.models.parts import are_names
from naim3l.files.models.requirements import Part, check_attribute, is_whole
from naim3l.input.labels import CODINGS
from naim3l.input.reader import FORMS, TableReader


def are_distinct_names(value: Any, model: Any) -> bool:
    good = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    return bool(good) and len(set(value)) == len(value)


READER_PARTS = {
    "form_": Part(f"one of {FORMS}", lambda value, _: value in list(FORMS)),
    "views_": Part("distinct names", are_distinct_names),
    "label_names_": Part("distinct names", are_distinct_names),
    "labels_named_": Part("True or False", lambda value, _: type(value) is bool),
    "one_column_": Part("True or False", lambda value, _: type(value) is bool),
    "label_coding": Part(f"one of {list(CODINGS)}", lambda value, _: value in list(CODINGS)),
    "owner": Part("a name", lambda value, _: isinstance(value, str) and value.isidentifier()),
}


def check_reader(reader: TableReader, room: int) -> None:
    """Refuse a reader with missing or inconsistent parts.

    Parameters
    ----------
    reader : TableReader
    room : int
        Largest number of columns that a table may have.
    """
    for name, part in READER_PARTS.items():
        check_attribute(reader, name, part)
    _check_columns(reader, room)


def _check_columns(reader: TableReader, room: int) -> None:
    """Refuse numbers and names of columns that are inconsistent with the views."""
    counts: Any = reader.n_features_in_
    names: Any = getattr(reader, "feature_names_in_", {})
    if reader.wide:
        counts, names = {"X": counts}, {"X": names} if hasattr(reader, "feature_names_in_") else {}
    mappings = isinstance(counts, dict) and isinstance(names, dict)
    require(mappings and set(names) <= set(counts), "its columns are not those of its views.")
    for where, count in counts.items():
        fits = is_whole(count) and 0 < count <= room
        require(fits, f"{where!r}: {count!r} columns, which this file has no room for.")
        require(where not in names or are_names(names[where], count),
                f"{where!r}: feature_names_in_ are not the names of {count} columns.")  # fmt: skip
    fits = reader.wide or set(counts) == set(reader.views_)
    require(fits, "n_features_in_ are not those of the views.")
    _check_positions(reader, counts)


def _check_positions(reader: TableReader, counts: dict[str, int]) -> None:
    """Refuse positions of columns that are out of range or occur twice."""
    chosen: Any = reader.columns_
    if chosen is None and not reader.wide:  # each view has all columns of its table
        return
    fits = isinstance(chosen, dict) and list(chosen) == reader.views_
    require(fits, "columns_ are not those of the views.")
    for view, positions in chosen.items():
        fits = isinstance(positions, list) and bool(positions) and all(map(is_whole, positions))
        fits = fits and len(set(positions)) == len(positions)
        fits = fits and (reader.wide or sorted(positions) == positions)
        most = counts["X" if reader.wide else view]
        require(fits and max(positions) < most, f"{view!r} has columns that its table has not.")
