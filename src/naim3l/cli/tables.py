"""Tables of views: the roles of their columns, by name, and their rows as models take them.

What a column contains is judged by the fit, as for tables from Python. Only ids, labels, ignored
columns and columns of text are named here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from naim3l._ids import in_order_of_names
from naim3l._origin import Origin
from naim3l._text import quote, some
from naim3l._warnings import warn_user
from naim3l.cli.settings import Settings, ViewSettings
from naim3l.features.plan import find_ids
from naim3l.features.recipes import Recipe
from naim3l.features.survey import FEWEST_COUNTED, TEXT, TableSurvey
from naim3l.files.errors import ReadError, close_names, load_extra
from naim3l.files.tables import FileTable, check_file, is_folder, open_table
from naim3l.input.batches import Batch
from naim3l.input.ids import set_ids
from naim3l.input.labels import USUAL_WORDS, LabelledRows, LabelWords, word
from naim3l.input.sources import BATCH_ROWS, FileView, LabelColumns
from naim3l.input.views import check_view_name

HEAD = 1000  # rows of a table by which something is guessed before all are read
# How much a column looks like a label.
SURE, PERHAPS = "sure", "perhaps"


class ViewRows(NamedTuple):
    """Rows of a view in memory.

    Attributes
    ----------
    features : Batch
        Of a pandas table, whose index has the ids if the view has some.
    labels : DataFrame of shape (n_rows, n_labels), or None
        1, 0, NaN = unknown.
    """

    features: Batch
    labels: Any


def in_order(model: Any, rows: Mapping[str, ViewRows]) -> dict[str, ViewRows]:
    """Rows with the labels of a model, in its order; those that a view lacks are unknown."""
    return {
        name: ViewRows(of.features, of.labels.reindex(columns=model.label_names_))
        for name, of in rows.items()
    }


def split(rows: Mapping[str, ViewRows]) -> tuple[dict[str, Batch], dict[str, Any]]:
    """Features and labels of views, as models take them."""
    return (
        {name: view.features for name, view in rows.items()},
        {name: view.labels for name, view in rows.items()},
    )


@dataclass(frozen=True)
class ViewTable:
    """The table of a view, and the roles of its columns.

    Attributes
    ----------
    name : str
    table : FileTable
    labels_table : FileTable
        Table that has the labels, with rows matched by id if it is another one.
    features : list of str
    id : str or None
    id_given : bool
        Whether the user has named the id; otherwise rows are numbered if it cannot be used.
    text, keep, ignored : tuple of str
        Features that are text, features that are listed by name, and columns to leave out.
    labels : list of str
        Columns of ``labels_table``.
    words : LabelWords
        Further words of labels.
    """

    name: str
    table: FileTable
    labels_table: FileTable
    features: list[str]
    id: str | None
    id_given: bool
    text: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    labels: list[str] = field(default_factory=list)
    words: LabelWords = USUAL_WORDS

    @property
    def where(self) -> str:
        return f"view {self.name!r}"

    @property
    def label_columns(self) -> list[str]:
        """Columns that can be labels."""
        return [column for column in self.labels_table.columns if column != self.id]

    @property
    def recipe(self) -> Recipe:
        return Recipe(text=self.text, keep=self.keep)

    def read(self, *, training: bool = False) -> ViewRows:
        """All rows at once; for training, warns of features that may be labels."""
        frame, origin, own = self._read()
        labels = _decoded(frame[own], origin, self.words) if own else None
        if self.labels and not own:
            labels = self._matched_labels(frame)
        if training:
            _warn_of_other_labels(self, frame, own)
        return ViewRows(Batch(frame[self.features], origin), labels)

    def head(self, *, training: bool = False) -> Any:
        """The first rows as a data frame; for training, warns of features that may be labels."""
        frame, _, own = self._read(HEAD)
        if training:
            _warn_of_other_labels(self, frame, own)
        return frame

    def _read(self, n_rows: int | None = None) -> tuple[Any, Origin, list[str]]:
        """Rows with ids as index, where they come from, and their labels."""
        own = self.labels if self.labels_table is self.table else []
        ids = [] if self.id is None else [self.id]
        frame, origin = self.table.read(
            n_rows=n_rows,
            columns=list(dict.fromkeys([*ids, *self.features, *own])),
            text_columns={*self.text, *ids},
        )
        origin = origin.of_table(self.where)
        return self._with_ids(frame, origin), origin, own

    def _with_ids(self, frame: Any, origin: Origin) -> Any:
        if self.id is None:
            return frame
        try:
            return set_ids(frame, self.id, origin)
        except ReadError:
            if self.id_given:
                raise
        warn_user(
            f"{self.table.name}: column {self.id!r} should have the ids, but some of its cells are "
            "equal or missing, so results have row numbers instead; name another column with --id."
        )
        return frame

    def _matched_labels(self, frame: Any) -> Any:
        """Labels of another table, unknown for rows whose id it lacks."""
        table, column = self.labels_table, frame.index.name
        if column is None or column not in table.columns:
            raise ReadError(
                f"{table.name}: no id column {quote(column)}; "
                f"{close_names(str(column), table.columns)}"
            )
        found, origin = table.read(columns=[column, *self.labels], text_columns=[column])
        origin = origin.of_table(self.where)
        found = set_ids(found, column, origin)
        if not found.index.isin(frame.index).any():
            raise ReadError(f"{self.where}: no id of {table.name} occurs in {self.table.name}.")
        return _decoded(found, origin, self.words).reindex(frame.index)

    def in_chunks(self, batch_rows: int | None = None) -> tuple[FileView, LabelColumns]:
        """Features and labels as `fit` takes tables that are read in chunks."""
        if self.labels_table is not self.table:
            raise ReadError(
                f"{self.where}: labels in a file of their own are matched by id, for which tables "
                "must fit in memory; tables that are read in chunks need the labels as columns."
            )
        rows = batch_rows or BATCH_ROWS
        view = FileView(self.table, self.features, self.id, self.text, True, rows)
        return view, LabelColumns(self.labels, self.words)

    def settled(self) -> "ViewTable":
        """The same view; without a guessed id that its first rows show to be none."""
        if self.id is None or self.id_given:
            return self
        return self if self.head().index.name is not None else replace(self, id=None)

    def roles(self, id: str | None) -> dict[str, Any]:
        """What later tables need to know about the columns, as plain values."""
        words = {key: list(getattr(self.words, key)) for key in ("yes", "no", "unknown")}
        return {"id": id, "labels": self.labels, "ignored": list(self.ignored), **words}


def _decoded(cells: Any, origin: Origin, words: LabelWords) -> Any:
    """Labels of a pandas table as 1, 0, and NaN = unknown."""
    rows = LabelledRows.of(Batch(cells, origin, "label"), words, one_column=False)
    values = np.where(rows.signed == 0, np.nan, rows.signed > 0)
    return load_extra("pandas").DataFrame(values, cells.index, cells.columns)


# Views of a fit.


def is_chunked(settings: Settings, memory: str | None, address: str | None) -> bool:
    """Whether a table is a folder or a pattern, or an option asks for chunks."""
    asked = memory is not None or address is not None
    return asked or any(is_folder(view.source) for view in settings.views.values())


def open_training(settings: Settings) -> dict[str, ViewTable]:
    """Views of the settings, with their labels; no rows are read."""
    for name in settings.views:
        check_view_name(name)
    views = {name: _open_view(name, view) for name, view in settings.views.items()}
    columns = {name: view.label_columns for name, view in views.items()}
    found, words = choose_labels(settings, columns), settings.labels.words
    return {name: _with_labels(view, found[name], words) for name, view in views.items()}


def _open_view(name: str, view: ViewSettings) -> ViewTable:
    """A view of which all columns may be features, except for the id and those to leave out."""
    table, where = open_table(view.source), f"view {name!r}"
    _check_id(view.id, table)
    ignored = choose_columns(table.columns, view.ignore, where=where)
    features = table.columns
    if view.features is not None:
        features = choose_columns(table.columns, view.features, where=where)
    features = [column for column in features if column not in (view.id, *ignored)]
    text = choose_columns(table.columns, view.text, where=where)
    keep = tuple(column for column in features if column in (view.features or ()))
    labels_table = _label_table(name, view, view.id, table)
    return ViewTable(
        name, table, labels_table, features, view.id, True, tuple(text), keep, tuple(ignored)
    )


def _with_labels(view: ViewTable, labels: list[str], words: LabelWords) -> ViewTable:
    """The view with labels, which are no features unless they are listed as such by name."""
    own = set(labels) - set(view.keep) if view.labels_table is view.table else set()
    features = [column for column in view.features if column not in own]
    if not features:
        raise ReadError(f"{view.where}: no column is left for features.")
    text = tuple(column for column in view.text if column in features)
    return replace(view, features=features, text=text, labels=labels, words=words)


def _check_id(column: str | None, table: FileTable) -> None:
    if column is not None and column not in table.columns:
        raise ReadError(
            f"{table.name}: no id column {quote(column)}; {close_names(column, table.columns)}"
        )


def _label_table(
    name: str, view: ViewSettings, id_column: str | None, table: FileTable
) -> FileTable:
    """The table that has the labels of a view: its own, or that of a labels file."""
    if view.labels_file is None:
        return table
    if id_column is None:
        raise ReadError(
            f"view {name!r}: labels in a file of their own are matched by id; name the id column."
        )
    return open_table(view.labels_file)


def choose_labels(
    settings: Settings,
    columns: Mapping[str, Sequence[str]],
    default: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, list[str]]:
    """Label columns of each view, given the columns of the tables that have them.

    Labels of a view must be in its table; those named for all views in one of the tables. Where
    none are named, the default is taken.
    """
    own = {
        name: choose_columns(columns[name], view.labels, where=_labels_of([name]))
        for name, view in settings.views.items()
        if view.labels
    }
    others = [name for name in settings.views if name not in own]
    every = dict.fromkeys(column for name in others for column in columns[name])
    named = settings.labels.columns
    shared = choose_columns(every, named, where=_labels_of(others)) if others else []
    chosen = {}
    for name in settings.views:
        there = set(columns[name])
        found = own.get(name) or [label for label in shared if label in there]
        if shared and not found:
            choose_columns(columns[name], shared[:1], where=_labels_of([name]))  # refuses it
        chosen[name] = found or list((default or {}).get(name, ()))
        if not chosen[name]:
            raise ReadError(
                f"view {name!r}: no label columns are named; give names or patterns with --labels, "
                f"or with the key labels of [views.{name}] in the settings."
            )
    return chosen


def _labels_of(views: Sequence[str]) -> str:
    return f"labels of view{'s' * (len(views) > 1)} {', '.join(map(repr, views))}"


def choose_columns(
    columns: Iterable[str], patterns: Iterable[str], *, where: str = "the table"
) -> list[str]:
    """Columns by names and patterns, in the order of the patterns, and for each in that of columns.

    A pattern is a name, a shell-style pattern such as ``"lab_*"``, or ``"@file"``: a file with a
    name or pattern on each line. A name takes precedence over its meaning as a pattern.

    Examples
    --------
    >>> choose_columns(["id", "flu", "lab_hb", "lab_crp"], ["lab_*", "flu"])
    ['lab_hb', 'lab_crp', 'flu']
    """
    names = dict.fromkeys(columns)  # ordered, with fast lookup
    chosen: dict[str, None] = {}
    for pattern in patterns:
        if pattern.startswith("@") and pattern not in names:
            listed = _listed_names(pattern[1:])
            chosen.update(dict.fromkeys(choose_columns(names, listed, where=where)))
            continue
        found = [pattern] if pattern in names else [n for n in names if fnmatchcase(n, pattern)]
        if not found:
            raise ReadError(f"{where}: no column {quote(pattern)}; {close_names(pattern, names)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


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


def label_likeness(column: Any, words: LabelWords) -> str | None:
    """Whether a pandas column may be a label: `SURE` by words, `PERHAPS` if it has only 0 and 1."""
    if column.dtype.kind in "iuf" and words == USUAL_WORDS:
        values = column.to_numpy(dtype=float, na_value=np.nan)
        if not (np.isnan(values) | np.isin(values, (0, 1, -1))).all():
            return None  # without reading each cell: there may be very many such columns
    meanings, given = words.meanings()
    known: set[str] = set()
    try:
        cells = column.unique()
    except TypeError:  # lists and the like
        return None
    for entry in map(word, cells):
        if entry not in meanings:
            return None
        if not np.isnan(meanings[entry]):
            known.add(entry)
    if not known or ({"0", "-1"} <= known and not {"0", "-1"} & given):
        return None
    return PERHAPS if known <= {"1", "0", "-1"} else SURE


def _warn_of_other_labels(view: ViewTable, frame: Any, labels: Sequence[str]) -> None:
    """Warn of features that look like labels as those given do.

    With labels in words, these are all features in such words. Columns of 0 and 1 are often
    features, so that with such labels only those right beside a label are named. Features that are
    listed by name are meant to be features.
    """
    unlisted = [column for column in view.features if column not in view.keep]
    looks = {column: label_likeness(frame[column], view.words) for column in unlisted}
    alike = {column for column, likeness in looks.items() if likeness == SURE}
    if PERHAPS in looks.values() and any(
        label_likeness(frame[label], view.words) == PERHAPS for label in labels
    ):
        order = view.table.columns
        alike |= {*_beside(order, labels, looks), *_beside(order[::-1], labels, looks)}
    if alike:
        listed = some([column for column in view.features if column in alike])
        warn_user(
            f"{view.where}: columns {listed} look like further labels, but are used as features. "
            "Name them as labels, ignore them, or list them by name under features to confirm."
        )


def _beside(
    columns: Sequence[str], labels: Collection[str], looks: Mapping[str, str | None]
) -> Iterator[str]:
    """Columns that look like labels, from each label on to the first that does not."""
    after_label = False
    for column in columns:
        is_label = column in labels
        after_label = is_label or (after_label and looks.get(column) is not None)
        if after_label and not is_label:
            yield column


# Ids that nobody has named.


def guess_id(frame: Any, alike: Collection[str], first: str) -> str | None:
    """The column that is likely to have the ids of the rows, of those that look like ids.

    It is named like an id, or is the first column of the table, or is the only one of text; and its
    cells differ. See `naim3l.features.plan.find_ids` for what looks like an id.
    """
    usable = [c for c in frame.columns if c in alike and _all_differ(frame[c])]
    for name in (*in_order_of_names(usable), *(c for c in usable if c == first)):
        return name
    codes = [name for name in usable if frame[name].dtype.kind not in "biuf"]
    return codes[0] if len(codes) == 1 and len(frame) >= FEWEST_COUNTED else None


def _all_differ(column: Any) -> bool:
    return bool(column.notna().all() and column.is_unique)


def id_of_fit(model: Any, view: ViewTable, frame: Any) -> str | None:
    """The id of a view whose columns the fit has judged, given its rows, or the first ones."""
    if view.id is not None:
        return view.id
    dropped = [column.name for column in model.columns_[view.name] if column.is_id]
    return guess_id(frame, dropped, view.table.columns[0]) if dropped else None


# Views of a fitted model.


def open_new(model: Any, settings: Settings) -> dict[str, ViewTable]:
    """Views with the columns of a fit; without labels."""
    return {name: _open_of_fit(model, name, view) for name, view in settings.views.items()}


def open_known(model: Any, settings: Settings) -> dict[str, ViewTable]:
    """Views with the columns of a fit, and what is known of its labels.

    What the settings do not say is as it was at the fit: ids, the words of labels, and which labels
    there are. Labels that a table lacks are unknown.
    """
    views = {}
    for name, view in open_new(model, settings).items():
        source = _label_table(name, settings.views[name], view.id, view.table)
        views[name] = replace(view, labels_table=source)
    columns = {name: view.label_columns for name, view in views.items()}
    default = {name: _labels_of_fit(model, view) for name, view in views.items()}
    words = settings.labels.words
    for name, labels in choose_labels(settings, columns, default).items():
        for label in labels:
            if label not in model.label_names_:
                raise ReadError(
                    f"view {name!r}: the model has no label {label!r}; "
                    f"{close_names(label, model.label_names_)}"
                )
        own = views[name].words if words == USUAL_WORDS else words
        views[name] = replace(views[name], labels=labels, words=own)
    return views


def read_known(model: Any, settings: Settings) -> dict[str, ViewRows]:
    """Rows of the views of a fitted model, with the columns of all of its labels."""
    rows = {name: view.read() for name, view in open_known(model, settings).items()}
    return in_order(model, rows)


def _labels_of_fit(model: Any, view: ViewTable) -> list[str]:
    """Labels of the model that a table has, unless the column was something else at the fit."""
    there = set(view.label_columns) - {*view.features, *view.ignored}
    return [label for label in model.label_names_ if label in there]


def _open_of_fit(model: Any, name: str, view: ViewSettings) -> ViewTable:
    if name not in model.views_:
        raise ReadError(f"the model has no view {name!r}; it was fitted on {model.views_}.")
    features = None if model.names_.wide else model.names_.column_names(name)
    if features is None:
        raise ReadError(
            f"view {name!r}: the model was fitted on tables without column names, or on one wide "
            "table, so that columns of files cannot be matched; use it from Python."
        )
    table, roles = open_table(view.source), stored_roles(model, name)
    there = set(table.columns)
    for column in features:
        # A name, whatever it begins with: as a pattern, "@file" would have files read.
        if column not in there:
            raise ReadError(
                f"view {name!r}, {table.name}: no column {quote(column)}; "
                f"{close_names(column, table.columns)}"
            )
    _check_id(view.id, table)
    plans = getattr(model, "columns_", {}).get(name, ())  # a blend has none
    text = tuple(c.name for c in plans if c.kind == TEXT and not c.dropped)
    ignored = tuple(roles["ignored"])
    found = view.id or _find_id(table, roles["id"], {*features, *model.label_names_, *ignored})
    words = LabelWords(*(tuple(roles[key]) for key in ("yes", "no", "unknown")))
    return ViewTable(
        name, table, table, features, found, view.id is not None, text, ignored=ignored, words=words
    )


def _find_id(table: FileTable, of_fit: str | None, known: Collection[str]) -> str | None:
    """Column that should have the ids: that of the fit, or one that looks like it."""
    others = [column for column in table.columns if column not in known]
    if of_fit in others or not others:
        return of_fit if others else None
    frame, origin = table.read(n_rows=HEAD, columns=others)
    reasons = find_ids(TableSurvey.of(Batch(frame, origin)))
    found = guess_id(frame, [others[j] for j in reasons], table.columns[0])
    return found or next(iter(in_order_of_names(others)), None)


def stored_roles(model: Any, view: str) -> dict[str, Any]:
    """Roles of the columns at the fit; a model file may be of others, and have anything there."""
    stored = model.roles_.get(view) if isinstance(model.roles_, Mapping) else None
    given = stored if isinstance(stored, Mapping) else {}
    lists = {
        key: [entry for entry in found if isinstance(entry, str)]
        if isinstance(found := given.get(key), list)
        else []
        for key in ("labels", "ignored", "yes", "no", "unknown")
    }
    id_column = given.get("id")
    return {"id": id_column if isinstance(id_column, str) else None, **lists}
