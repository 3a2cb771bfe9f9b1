"""A first settings file, guessed from the tables; every guess is marked.

Guesses are what ``naim3l fit`` would do: the survey and the plan of the fit judge the first rows.
"""

import glob
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from naim3l._text import CONTROLS, some, visible
from naim3l.cli.options import fill_lists
from naim3l.cli.settings import Path_, Settings, parse_settings
from naim3l.cli.tables import HEAD, SURE, guess_id, label_likeness
from naim3l.features.plan import ViewPlan, find_ids, why_refused
from naim3l.features.survey import TableSurvey
from naim3l.files.databases import place_database
from naim3l.files.errors import ReadError
from naim3l.files.secrets import URL, drop_secrets, show_source, split_source
from naim3l.files.tables import open_table
from naim3l.input.batches import Batch
from naim3l.input.labels import USUAL_WORDS, LabelWords

_HEADER = """\
# Guessed from the first rows of each table. Check every entry that is marked as guessed.
output = "model.naim3l"

"""
_LABELS = """\
[labels]
# Words for yes, no and unknown in addition to the usual ones, such as yes = ["affected"].
{}
# Labels can be named here once for all views that have no entry labels:
# columns = ["dx_*"]

"""
_MODEL = """\
[model]
# How strongly the views are coupled, and a ridge, are chosen on held-out labels unless given:
# lam = 0.4
# ridge = 1.0
# metric = "AP"  # what they are chosen by; "log-loss" for the best probabilities
# Scores are linear in the columns unless rows are compared by a kernel, one of <kernels>;
# those for counts are <count kernels>. For some views only: kernel = {NAME = "rbf"}
# kernel = "rbf"
# When to predict yes: <rules>, or a number.
decide = "guarded"
random_state = 0
"""


def draft_settings(
    sources: Sequence[Path_], folder: Path_ = ".", words: LabelWords = USUAL_WORDS
) -> tuple[Settings, str]:
    """Settings for some tables, guessed from their first rows, and their TOML text.

    Labels are columns that look like labels in all tables. A table that has nothing but an id and
    labels is the labels file of the others. Paths are written relative to the folder, in which the
    settings are to be saved. Every guess has a comment "guessed: ...".
    """
    if not sources:
        raise ReadError("no table given; name at least one file.")
    heads: list[Head] = []
    for source in [os.fspath(source) for source in sources]:
        _check_unnamed(source)
        heads.append(Head.of(_view_name(source, [head.name for head in heads]), source, words))
    labels_head = _only_labels(heads)
    views = [head for head in heads if head is not labels_head]
    shared = _shared_labels(views)
    document = tomlkit.parse(_HEADER)
    tables = tomlkit.table(is_super_table=True)
    for head in views:
        tables.append(head.name, _view_table(head, labels_head, shared, folder))
    document.append("views", tables)
    given = {key: tomlkit.item(list(getattr(words, key))) for key in ("yes", "no", "unknown")}
    listed = "\n".join(f"{key} = {item.as_string()}" for key, item in given.items())
    text = _without_controls(tomlkit.dumps(document) + _LABELS.format(listed))
    text += fill_lists(_MODEL)
    return parse_settings(text, "the settings", folder), text


@dataclass(frozen=True)
class Head:
    """The first rows of a table, and what its columns seem to be.

    Attributes
    ----------
    name, source : str
    columns : list of str
    id : str or None
    id_reason : str
    likeness : dict of str to str
        How much columns look like labels, of those that do.
    refused, dropped : dict of str to str
        Why the fit would refuse a column, or drop it.
    """

    name: str
    source: str
    columns: list[str]
    id: str | None
    id_reason: str
    likeness: dict[str, str]
    refused: dict[str, str]
    dropped: dict[str, str]

    @classmethod
    def of(cls, name: str, source: str, words: LabelWords) -> "Head":
        table = open_table(source)
        frame, origin = table.read(n_rows=HEAD)
        batch, columns = Batch(frame, origin.of_table(f"view {name!r}")), table.columns
        survey = TableSurvey.of(batch)
        ids = {columns[j]: reason for j, reason in find_ids(survey).items()}
        own = guess_id(frame, ids, columns[0])
        looks = {c: label_likeness(frame[c], words) for c in columns if c != own}
        likeness = {column: look for column, look in looks.items() if look is not None}
        # What surely is a label is not judged as a feature.
        rest = [j for j, c in enumerate(columns) if c != own and looks[c] != SURE]
        refused, dropped = _judge(batch, survey, rest)
        return cls(name, source, columns, own, ids.get(own or "", ""), likeness, refused, dropped)

    @property
    def labels(self) -> dict[str, str]:
        """Columns that are taken for labels, and the reasons."""
        sure = [column for column, look in self.likeness.items() if look == SURE]
        if sure:
            return dict.fromkeys(sure, "words for yes and no")
        return dict.fromkeys(self.likeness, "0 and 1 alone, perhaps a feature")

    @property
    def others(self) -> list[str]:
        """Columns that are neither the id nor look like labels."""
        return [c for c in self.columns if c != self.id and c not in self.likeness]


def _judge(
    batch: Batch, survey: TableSurvey, columns: Sequence[int]
) -> tuple[dict[str, str], dict[str, str]]:
    """Columns that the fit would refuse, and those that it would drop, with the reasons."""
    names = survey.columns or []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit will warn, by all rows
        faults = {names[j]: why_refused(survey, j) for j in columns}
        refused = {name: fault for name, fault in faults.items() if fault}
        usable = [j for j in columns if names[j] not in refused]
        if not usable:
            return refused, {}
        try:
            plan, _ = ViewPlan.of(TableSurvey.of(batch.select_columns(usable)))
        except ValueError:  # it would drop all of them
            return refused, {}
    return refused, {column.name: column.dropped for column in plan.dropped}


def _check_unnamed(source: str) -> None:
    """Refuse ``name=path``, which other commands take."""
    _, equals, path = source.partition("=")
    is_named = equals and not URL.match(source) and not Path(source.partition("#")[0]).exists()
    if is_named and (URL.match(path) or Path(path.partition("#")[0]).exists()):
        raise ReadError(
            f"tables are given to init without names: write {show_source(path)!r}. Views are named "
            "after their files; other names can be given in the settings."
        )


def _view_name(source: str, taken: Sequence[str]) -> str:
    """A name for a view, from that of its file, array or table in the database."""
    if URL.match(source):
        table = re.search(r"\bfrom\s+([\w.]+)", split_source(source)[1], re.IGNORECASE)
        stem = table[1] if table else "query"
    else:
        stem = source.rpartition("#")[2] if "#" in source else Path(source).name.partition(".")[0]
    stem = re.sub(r"\W+", "_", stem).strip("_") or "view"
    names = [stem, *(f"{stem}_{k}" for k in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _only_labels(heads: Sequence[Head]) -> Head | None:
    """The one table of an id and labels alone, if the others have an id too."""
    alone = [head for head in heads if head.id and head.likeness and not head.others]
    others = [head for head in heads if head not in alone]
    if len(alone) == 1 and others and all(head.id for head in others):
        return alone[0]
    return None


def _shared_labels(views: Sequence[Head]) -> list[str]:
    """Columns that look like labels in all views, and surely so in one if there are such."""
    if len(views) < 2:
        return []
    first, *others = views
    common = [name for name in first.likeness if all(name in head.likeness for head in others)]
    sure = [n for n in common if any(head.likeness[n] == SURE for head in views)]
    return sure or common


# The TOML text.


def _view_table(head: Head, labels_head: Head | None, shared: Sequence[str], folder: Path_) -> Any:
    """The table [views.NAME] of the settings."""
    view = tomlkit.table()
    view.add("source", _placed(head.source, folder))
    if any(drop_secrets(used.source) != used.source for used in (head, labels_head) if used):
        _add_comment(
            view,
            "The password is left out: add it to the URL, or let the driver find it, as "
            "PostgreSQL's does in PGPASSWORD or ~/.pgpass.",
        )
    if head.id is None:
        _add_comment(view, "no id column was found; name it with id = ..., if there is one")
    else:
        _add_guess(view, "id", head.id, head.id_reason)
    if labels_head is not None:
        file = _placed(labels_head.source, folder)
        _add_guess(view, "labels_file", file, "nothing but an id and labels in it")
    labels = _labels_of(head, labels_head, shared)
    if labels:
        view.add("labels", _listing(labels))
    else:
        _add_guess(view, "labels", [], "no column looks like a label; name them here")
    refused = {name: reason for name, reason in head.refused.items() if name not in labels}
    if refused:
        view.add("ignore", _listing(refused))
    rest = [
        name for name in head.columns if name not in (head.id, *labels, *refused, *head.dropped)
    ]
    _add_comment(view, f"features: the other columns, {_some(rest)}")
    for name, reason in head.dropped.items():
        if name not in labels:
            _add_comment(view, f"guessed: {_some([name])} is dropped by the fit ({reason})")
    doubtful = [name for name in head.likeness if name in rest]
    if doubtful:
        _add_comment(
            view, f"guessed: features, though perhaps labels by their cells: {_some(doubtful)}"
        )
    view.add(tomlkit.nl())
    return view


def _labels_of(head: Head, labels_head: Head | None, shared: Sequence[str]) -> dict[str, str]:
    """Columns that are taken for the labels of a view, and why."""
    if labels_head is not None:
        return {
            name: labels_head.labels.get(name, "0 and 1 alone") for name in labels_head.likeness
        }
    if shared:
        return dict.fromkeys(shared, "looks like a label in all views")
    return head.labels


def _add_comment(table: Any, text: str) -> None:

    table.add(tomlkit.comment(visible(text)))


def _add_guess(table: Any, key: str, value: str | list[str], why: str) -> None:

    table.add(key, tomlkit.item(value).comment(f"guessed: {visible(why)}"))


def _listing(entries: dict[str, str]) -> Any:
    """A list with a comment on each entry."""
    array = tomlkit.array()
    for name, why in entries.items():
        array.add_line(_literal(name), comment=f"guessed: {visible(why)}")
    array.add_line(indent="")
    return array


def _literal(name: str) -> str:
    """A pattern that fits the name alone, where the name itself would mean a file of names."""
    return f"[@]{glob.escape(name[1:])}" if name.startswith("@") else name


def _without_controls(text: str) -> str:
    """TOML in which characters that cannot be seen are escaped; tomlkit escapes some of them."""
    lines = text.split("\n")
    return "\n".join(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", e) for e in lines)


def _some(names: Sequence[str], most: int = 12) -> str:

    return some(names, most, lambda name: tomlkit.item(name).as_string()) or "none"


def _placed(source: str, folder: Path_) -> str:
    """A source as seen from the folder of the settings; without the password of a URL."""

    def move(path: str) -> str:
        return os.path.relpath(path, folder).replace(os.sep, "/")

    return drop_secrets(place_database(source, move)) if URL.match(source) else move(source)
