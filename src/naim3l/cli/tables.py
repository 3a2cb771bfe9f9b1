"""Tables of views: the roles of their columns, by name, and their rows as models take them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from naim3l._ids import in_order_of_names
from naim3l._origin import Origin
from naim3l._text import quote, some
from naim3l._warnings import warn_user
from naim3l.cli.settings import Settings, ViewSettings
from naim3l.features.cells import POINT, spelled_number
from naim3l.features.plan import MOST_ODD
from naim3l.features.recipes import Recipe
from naim3l.features.survey import FEWEST_COUNTED, TEXT, TableSurvey, find_ids
from naim3l.files.errors import ReadError, check_names, close_names
from naim3l.files.tables import FileTable, is_folder, open_table
from naim3l.input.batches import UNKNOWN, Batch
from naim3l.input.labels import (
    USUAL_WORDS,
    LabelDecoder,
    LabelledRows,
    LabelSurvey,
    LabelWords,
    word,
    written_words,
)
from naim3l.input.sources import FileView, LabelColumns, set_ids

HEAD = 1000  # rows of a table by which something is guessed before all are read
# How much a column looks like a label.
SURE, PERHAPS, CODED, UNRECORDED = "sure", "perhaps", "coded", "unrecorded"
MOST_RARE = 2  # rare words of a column that may be a label otherwise
# Codes of answers in surveys: yes and no; and of none, such as refused (7) and does not know (9).
YES_OR_NO = ("1", "2")
NO_ANSWER = tuple(digit * length for length in (1, 2, 3, 4) for digit in "789")


def decode(decoder: LabelDecoder, names: list[str], labels: Batch) -> Any:
    """Labels as a pandas table of 1, 0, and NaN = unknown, with the columns that are named."""
    values = LabelledRows(labels, decoder.decode(labels), one_column=False).truth
    found = type(labels.data)(values, labels.data.index, labels.columns)
    return found.reindex(columns=names)


@dataclass(frozen=True)
class ViewTable:
    """The table of a view, and the roles of its columns."""

    name: str
    table: FileTable
    labels_table: FileTable  # has the labels; rows are matched by id if it is another one
    features: list[str]
    id: str | None
    id_given: bool  # by the user; otherwise rows are numbered if it cannot be used
    recipe: Recipe  # features that are text, or listed by name
    ignored: tuple[str, ...] = ()
    labels: list[str] = field(default_factory=list)
    words: LabelWords = USUAL_WORDS  # further words of labels

    def read(
        self, n_rows: int | None = None, *, notes: list[str] | None = None
    ) -> tuple[Batch, Any]:
        """Features, and labels (1, 0, NaN = unknown) unless only the first rows are read.

        Doubts about the choice of labels are added to the notes, if there are such.
        """
        own = self.labels if self.labels_table is self.table else []
        ids = [] if self.id is None else [self.id]
        columns = list(dict.fromkeys([*ids, *self.features, *own]))
        text = {*self.recipe.text, *ids}
        frame, origin = self.table.read(n_rows=n_rows, columns=columns, text_columns=text)
        origin = origin.of_table(f"view {self.name!r}")
        frame = self._with_ids(frame, origin)
        if notes is not None:
            notes += _other_labels(self, frame, own)
        features = Batch(frame[self.features], origin)
        if n_rows is not None or not self.labels:
            return features, None
        labels = self._decoded(frame[own], origin) if own else self._matched_labels(frame)
        return features, labels

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
            "missing, so results have row numbers instead; name another column with --id."
        )
        return frame

    def _decoded(self, cells: Any, origin: Origin) -> Any:
        labels = Batch(cells, origin, "label")
        return decode(LabelDecoder.of(LabelSurvey.of(labels), self.words), self.labels, labels)

    def _matched_labels(self, frame: Any) -> Any:
        """Labels of another table, unknown for rows whose id it lacks."""
        table, column = self.labels_table, frame.index.name
        _check_id(str(column), table)
        found, origin = table.read(columns=[column, *self.labels], text_columns=[column])
        origin = origin.of_table(f"view {self.name!r}")
        found = set_ids(found, column, origin, unique=True)
        if not found.index.isin(frame.index).any():
            raise ReadError(
                f"view {self.name!r}: no id of {table.name} occurs in {self.table.name}."
            )
        return self._decoded(found, origin).reindex(frame.index)

    def in_chunks(self, batch_rows: int) -> tuple[FileView, LabelColumns]:
        """Features and labels as `fit` takes tables that are read in chunks."""
        if self.labels_table is not self.table:
            raise ReadError(
                f"view {self.name!r}: labels in a file of their own are matched by id, for which "
                "tables must fit in memory; tables in chunks need the labels as columns."
            )
        view = FileView(self.table, self.features, self.id, self.recipe.text, True, batch_rows)
        return view, LabelColumns(self.labels, self.words)

    def settled(self) -> "ViewTable":
        """The same view; without a guessed id that its first rows show to be none."""
        if self.id is None or self.id_given:
            return self
        head, _ = self.read(HEAD)
        return self if head.data.index.name is not None else replace(self, id=None)

    def roles(self, id: str | None) -> dict[str, Any]:
        """What later tables need to know about the columns, as plain values."""
        words = {key: list(getattr(self.words, key)) for key in ("yes", "no", "unknown")}
        words["written"] = self._written_words()
        return {"id": id, "labels": self.labels, "ignored": list(self.ignored), **words}

    def _written_words(self) -> list[str]:
        """The words for yes and no in the first rows; none if there are several, or 1 and 0.

        None, too, of signs, which spreadsheets would take for formulas.
        """
        labels = Batch(*self.labels_table.read(n_rows=HEAD, columns=self.labels), "label")
        survey = LabelSurvey.of(labels)
        words = written_words(survey, LabelDecoder.of(survey, self.words))
        return [] if words in (None, ("1", "0"), ("+", "-")) else [*(words or ())]


def is_chunked(settings: Settings, memory: str | None, address: str | None) -> bool:
    """Whether a table is a folder or a pattern, or an option asks for chunks."""
    asked = memory is not None or address is not None
    return asked or any(is_folder(view.source) for view in settings.views.values())


def open_training(settings: Settings) -> dict[str, ViewTable]:
    """Views of the settings, with their labels; no rows are read."""
    tables = {}
    for name, view in settings.views.items():
        table = open_table(view.source)
        _check_id(view.id, table)
        tables[name] = table, _label_table(view, view.id, table)
    ids = {name: view.id for name, view in settings.views.items()}
    columns = {n: [c for c in of.columns if c != ids[n]] for n, (_, of) in tables.items()}
    views, words = {}, settings.words
    for name, labels in choose_labels(settings, columns).items():
        (table, of_labels), view = tables[name], settings.views[name]
        listed, ignored, text = (
            choose_columns(table.columns, patterns, where=f"view {name!r}")
            for patterns in (view.features or (), view.ignore, view.text)
        )
        shared: Any = view.shared
        if not isinstance(shared, bool):
            shared = tuple(choose_columns(table.columns, shared, where=f"view {name!r}"))
        keep = [column for column in listed if column in (view.features or ())]
        others = {view.id, *ignored, *(set(labels) - set(keep) if of_labels is table else ())}
        every = table.columns if view.features is None else listed
        features = [column for column in every if column not in others]
        if not features:
            raise ReadError(f"view {name!r}: no column is left for features.")
        text = [column for column in text if column in features]
        recipe = Recipe(text=tuple(text), keep=tuple(keep), shared=shared)
        found = features, view.id, True, recipe, tuple(ignored), labels, words
        views[name] = ViewTable(name, table, of_labels, *found)
    return views


def _check_id(column: str | None, table: FileTable) -> None:
    if column is not None:
        check_names([column], table.columns, table.name, "id column")


def _label_table(view: ViewSettings, own_id: str | None, table: FileTable) -> FileTable:
    """The table that has the labels of a view: its own, or that of a labels file."""
    if view.labels_file is None:
        return table
    if own_id is None:
        raise ReadError(f"{table.name}: labels_file is matched by id; name the id column.")
    return open_table(view.labels_file)


def choose_labels(
    settings: Settings,
    columns: Mapping[str, Sequence[str]],
    default: Mapping[str, list[str]] | None = None,
) -> dict[str, list[str]]:
    """Label columns of each view; the default where none are named."""
    others = [name for name, view in settings.views.items() if not view.labels]
    every = dict.fromkeys(column for name in others for column in columns[name])
    where = f"labels of view{'s' * (len(others) > 1)} {', '.join(map(repr, others))}"
    shared = choose_columns(every, settings.labels, where=where) if others else []
    chosen = {}
    for name, view in settings.views.items():
        there = set(columns[name])
        wanted = view.labels or [label for label in shared if label in there] or shared[:1]
        found = choose_columns(columns[name], wanted, where=f"labels of view {name!r}")
        chosen[name] = found or (default or {}).get(name, [])
        if not chosen[name]:
            how = f"give names or patterns with --labels, or as labels in [views.{name}]."
            raise ReadError(f"view {name!r}: no label columns are named; {how}")
    return chosen


def choose_columns(
    columns: Iterable[str], patterns: Iterable[str], *, where: str = "the table"
) -> list[str]:
    """Columns by names and shell-style patterns; a name takes precedence over its pattern."""
    names = dict.fromkeys(columns)  # ordered, with fast lookup
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [pattern] if pattern in names else [n for n in names if fnmatchcase(n, pattern)]
        if not found:
            raise ReadError(f"{where}: no column {quote(pattern)}; {close_names(pattern, names)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def label_likeness(
    column: Any, words: tuple[dict[str, int], set[str]], rare: Collection[str] = ()
) -> str | None:
    """Whether a pandas column may be a label, if ``rare`` words mean unknown.

    `SURE` by words, `PERHAPS` if it has only 0 and 1, `UNRECORDED` if all of it is unknown. That
    it is `CODED` only all tables tell together.
    """
    meanings, given = words
    found = _words_of(column, {*meanings, *rare})
    if found is None:
        return None
    known = {entry for entry in found if meanings.get(entry, 0) != 0}
    if {"0", "-1"} <= known and not {"0", "-1"} & given:
        return None
    if not known:
        return UNRECORDED
    return PERHAPS if known <= {"1", "0", "-1"} else SURE


def codes_of_answers(column: Any, rare: Collection[str] = ()) -> set[str] | None:
    """Known values of a pandas column, if all are codes of answers in surveys, or ``rare``."""
    found = _words_of(column, {*YES_OR_NO, *NO_ANSWER, *UNKNOWN, *rare})
    return None if found is None else found - {*UNKNOWN, *rare}


def rare_words(column: Any, meanings: Collection[str]) -> set[str]:
    """Up to `MOST_RARE` words in few cells of a pandas column, that have no meaning; no numbers."""
    if column.dtype.kind in "biuf":
        return set()
    cells = Counter(w for w in map(word, column) if w not in UNKNOWN)
    strange = {w for w in cells if w not in meanings and spelled_number(w, POINT) is None}
    is_rare = sum(cells[w] for w in strange) <= MOST_ODD * sum(cells.values())
    return strange if is_rare and len(strange) <= MOST_RARE else set()


def _words_of(column: Any, allowed: Collection[str]) -> set[str] | None:
    """Different cells of a pandas column as words; None if one is not allowed."""
    numbers = [float(entry) for entry in allowed if entry.lstrip("-").isdecimal()]
    if column.dtype.kind in "iuf" and not column.dropna().isin(numbers).all():
        return None  # without a look at each cell: there may be very many such columns
    try:
        found = set(map(word, column.unique()))
    except TypeError:  # lists and the like
        return None
    return found if found <= set(allowed) else None


def _other_labels(view: ViewTable, frame: Any, labels: Collection[str]) -> list[str]:
    """A note on features in words of labels, and of 0 and 1 right beside such labels, if any."""
    unlisted = [column for column in view.features if column not in view.recipe.keep]
    words = view.words.meanings()
    looks = {column: label_likeness(frame[column], words) for column in unlisted}
    alike = {column for column, likeness in looks.items() if likeness == SURE}
    if any(label_likeness(frame[label], words) == PERHAPS for label in labels):
        runs = groupby(view.table.columns, lambda c: c in labels or looks.get(c) in (SURE, PERHAPS))
        for likely, run in runs:
            if likely and not (beside := set(run)).isdisjoint(labels):
                alike |= beside - set(labels)
    if not alike:
        return []
    listed = some([column for column in view.features if column in alike])
    return [
        f"view {view.name!r}: columns {listed} look like further labels, but are used as features. "
        "Name them as labels, ignore them, or list them under features to confirm."
    ]


def guess_id(frame: Any, alike: Collection[str], first: str) -> str | None:
    """The likely id of those that look like one: by name, the first, or the only text."""
    columns = [(c, frame[c]) for c in frame.columns if c in alike]
    usable = [c for c, cells in columns if cells.notna().all() and cells.is_unique]
    for name in (*in_order_of_names(usable), *(c for c in usable if c == first)):
        return name
    codes = [name for name in usable if frame[name].dtype.kind not in "biuf"]
    return codes[0] if len(codes) == 1 and len(frame) >= FEWEST_COUNTED else None


def id_of_fit(model: Any, view: ViewTable, frame: Any) -> str | None:
    """The id of a view whose columns the fit has judged, given its rows, or the first ones."""
    if view.id is not None:
        return view.id
    dropped = [column.name for column in model.columns_[view.name] if column.is_id]
    return guess_id(frame, dropped, view.table.columns[0]) if dropped else None


def _find_id(table: FileTable, of_fit: str | None, known: Collection[str]) -> str | None:
    """Column that should have the ids: that of the fit, or one that looks like it."""
    others = [column for column in table.columns if column not in known]
    if of_fit in others or not others:
        return of_fit if others else None
    frame, origin = table.read(n_rows=HEAD, columns=others)
    alike = [others[j] for j in find_ids(TableSurvey.of(Batch(frame, origin)))]
    return guess_id(frame, alike, table.columns[0])


def open_new(model: Any, settings: Settings) -> dict[str, ViewTable]:
    """Views with the columns of a fit; without labels."""
    return {name: _open_of_fit(model, name, view) for name, view in settings.views.items()}


def open_known(model: Any, settings: Settings) -> dict[str, ViewTable]:
    """Views with the columns of a fit, and its labels, unknown where a table lacks them."""
    views, columns, default = {}, {}, {}
    for name, view in open_new(model, settings).items():
        source = _label_table(settings.views[name], view.id, view.table)
        views[name] = replace(view, labels_table=source)
        columns[name] = [column for column in source.columns if column != view.id]
        # Unless the column was something else at the fit.
        there = set(columns[name]) - {*view.features, *view.ignored}
        default[name] = [label for label in model.label_names_ if label in there]
    words = settings.words
    for name, labels in choose_labels(settings, columns, default).items():
        for label in set(labels).difference(model.label_names_):
            near = close_names(label, model.label_names_)
            raise ReadError(f"view {name!r}: the model has no label {label!r}; {near}")
        own = views[name].words if words == USUAL_WORDS else words
        views[name] = replace(views[name], labels=labels, words=own)
    return views


def read_known(model: Any, settings: Settings) -> tuple[dict[str, Batch], dict[str, Any]]:
    """Features of the views of a fitted model, and the columns of all of its labels."""
    rows = {name: view.read() for name, view in open_known(model, settings).items()}
    labels = {name: of.reindex(columns=model.label_names_) for name, (_, of) in rows.items()}
    return {name: features for name, (features, _) in rows.items()}, labels


def _open_of_fit(model: Any, name: str, view: ViewSettings) -> ViewTable:
    if name not in model.views_:
        raise ReadError(f"the model has no view {name!r}; it was fitted on {model.views_}.")
    features = None if model.names_.wide else model.names_.column_names(name)
    if features is None:
        what = "on tables without column names, or on one wide table; use it from Python."
        raise ReadError(f"view {name!r}: the model was fitted {what}")
    table, roles = open_table(view.source), stored_roles(model, name)
    check_names(features, table.columns, f"view {name!r}, {table.name}")
    _check_id(view.id, table)
    plans = getattr(model, "columns_", {}).get(name, ())  # a blend has none
    text = tuple(c.name for c in plans if c.kind == TEXT and not c.dropped)
    ignored, given = tuple(roles["ignored"]), view.id is not None
    found = view.id or _find_id(table, roles["id"], {*features, *model.label_names_, *ignored})
    words = LabelWords(*(tuple(roles[key]) for key in ("yes", "no", "unknown")))
    own: Any = features, found, given, Recipe(text=text), ignored, [], words
    return ViewTable(name, table, table, *own)


def stored_roles(model: Any, view: str) -> dict[str, Any]:
    """Roles of the columns at the fit; a model file may be of others, and have anything there."""
    stored = model.roles_.get(view) if isinstance(model.roles_, Mapping) else None
    given = stored if isinstance(stored, Mapping) else {}
    roles: dict[str, Any] = {"id": of if isinstance(of := given.get("id"), str) else None}
    for key in ("labels", "ignored", "yes", "no", "unknown", "written"):
        found = given.get(key)
        listed = found if isinstance(found, list) else []
        roles[key] = [entry for entry in listed if isinstance(entry, str)]
    return roles
