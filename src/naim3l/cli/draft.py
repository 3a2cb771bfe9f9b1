"""A first settings file, guessed from the tables; every guess is marked."""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Array, Table

from naim3l._text import CONTROLS, some, visible
from naim3l.cli.settings import Config, Path_, parse_config
from naim3l.files.readers.columns import Roles, guess_roles, label_likeness
from naim3l.files.readers.errors import ReadError
from naim3l.files.readers.sql import place_database
from naim3l.files.readers.table import read_table
from naim3l.files.sources import URL, drop_secrets, show_source, split_source

HEAD = 1000  # rows of each table that are looked at
_HEADER = """\
# Guessed from the first rows of each table. Check every entry that is marked as guessed.
output = "model.skops"

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
# Scores are linear in the columns unless rows are compared by a kernel: "rbf", or "chi2" or
# "hellinger" for counts; for some views only with kernel = {NAME = "rbf"}:
# kernel = "rbf"
# When to predict yes: "guarded", "cardinality", "f1", "half", "sign", or a number.
threshold = "guarded"
random_state = 0
"""


def make_config(
    sources: Sequence[Path_], folder: Path_ = ".", words: Mapping[str, list[str]] | None = None
) -> tuple[Config, str]:
    """Settings for some tables, guessed from their first rows.

    Labels are columns that look like labels in all tables. A table that has nothing but an id and
    labels is the labels file of the others.

    Parameters
    ----------
    sources : sequence of paths or sources as `read_table` takes them
    folder : path
        Where the settings are to be saved; paths in them are written relative to it.
    words : mapping of "yes", "no" and "unknown" to list of str, optional
        Further words of labels.

    Returns
    -------
    config : Config
        What `read_config` reads from the text in that folder.
    text : str
        TOML in which every guess has a comment "guessed: ...".
    """
    if not sources:
        raise ReadError("no table given; name at least one file.")
    words = {key: list((words or {}).get(key, ())) for key in ("yes", "no", "unknown")}
    heads: list[_Head] = []
    for source in sources:
        _check_unnamed(os.fspath(source))
        table = read_table(source, n_rows=HEAD)
        name = _view_name(os.fspath(source), [head.name for head in heads])
        heads.append(_Head(name, os.fspath(source), table, guess_roles(table, **words)))
    labels_head = _only_labels(heads)
    views = [head for head in heads if head is not labels_head]
    shared = _shared_labels(views, words)
    document = tomlkit.parse(_HEADER)
    tables = tomlkit.table(is_super_table=True)
    for head in views:
        tables.append(head.name, _view_table(head, labels_head, shared, folder))
    document.append("views", tables)
    listed = "\n".join(f"{key} = {tomlkit.item(given).as_string()}" for key, given in words.items())
    text = _without_controls(tomlkit.dumps(document) + _LABELS.format(listed)) + _MODEL
    return parse_config(text, "the settings", folder), text


@dataclass(frozen=True)
class _Head:
    """The beginning of a table and what its columns seem to be."""

    name: str
    source: str
    table: Any
    roles: Roles

    @property
    def label_like(self) -> list[str]:
        """Labels and what could be one, in the order of the table."""
        names = {*self.roles.labels, *self.roles.perhaps}
        return [name for name in self.table.columns if name in names]


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


def _only_labels(heads: Sequence[_Head]) -> _Head | None:
    """The one table of an id and labels alone, if the others have an id too."""
    alone = [
        head
        for head in heads
        if head.roles.id and head.label_like and not set(head.roles.features) - {*head.label_like}
    ]
    others = [head for head in heads if head not in alone]
    if len(alone) == 1 and others and all(head.roles.id for head in others):
        return alone[0]
    return None


def _shared_labels(views: Sequence[_Head], words: Mapping[str, list[str]]) -> list[str]:
    """Columns that look like labels in all views, and surely so in one if there are such."""
    if len(views) < 2:
        return []
    first, *others = views
    looks = {
        name: {label_likeness(head.table[name], **words) for head in views}
        for name in first.table.columns
        if all(name in head.table.columns for head in others)
    }
    common = [name for name, found in looks.items() if None not in found]
    return [name for name in common if "sure" in looks[name]] or common


def _view_table(
    head: _Head, labels_head: _Head | None, shared: Sequence[str], folder: Path_
) -> Table:
    """The table [views.NAME] of the settings."""
    roles, view = head.roles, tomlkit.table()
    view.add("source", _placed(head.source, folder))
    if any(drop_secrets(used.source) != used.source for used in (head, labels_head) if used):
        _add_comment(
            view,
            "The password is left out: add it to the URL, or let the driver find it, as "
            "PostgreSQL's does in PGPASSWORD or ~/.pgpass.",
        )
    if roles.id is None:
        _add_comment(view, "no id column was found; name it with id = ..., if there is one")
    else:
        _add_guess(view, "id", roles.id, roles.reasons[roles.id])
    if labels_head is not None:
        file = _placed(labels_head.source, folder)
        _add_guess(view, "labels_file", file, "nothing but an id and labels in it")
    labels = _labels_of(head, labels_head, shared)
    if labels:
        view.add("labels", _listing(labels))
    else:
        _add_guess(view, "labels", [], "no column looks like a label; name them here")
    ignored = {name: reason for name, reason in roles.ignored.items() if name not in labels}
    if ignored:
        view.add("ignore", _listing(ignored))
    rest = [
        str(name)
        for name in head.table.columns
        if name != roles.id and name not in labels and name not in ignored
    ]
    _add_comment(view, f"features: the other columns, {_some(rest)}")
    doubtful = [name for name in head.label_like if name in rest]
    if doubtful:
        _add_comment(
            view, f"guessed: features, though perhaps labels by their cells: {_some(doubtful)}"
        )
    view.add(tomlkit.nl())
    return view


def _labels_of(head: _Head, labels_head: _Head | None, shared: Sequence[str]) -> dict[str, str]:
    """Columns that are taken for the labels of a view, and why."""
    if labels_head is not None:
        reasons = labels_head.roles.reasons
        return {name: reasons.get(name, "0 and 1 alone") for name in labels_head.label_like}
    if shared:
        return dict.fromkeys(shared, "looks like a label in all views")
    return {name: head.roles.reasons[name] for name in head.roles.labels}


def _add_comment(table: Table, text: str) -> None:
    table.add(tomlkit.comment(visible(text)))


def _add_guess(table: Table, key: str, value: str | list[str], why: str) -> None:
    table.add(key, tomlkit.item(value).comment(f"guessed: {visible(why)}"))


def _listing(entries: dict[str, str]) -> Array:
    """A list with a comment on each entry."""
    array = tomlkit.array()
    for name, why in entries.items():
        array.add_line(_literal(name), comment=f"guessed: {visible(why)}")
    array.add_line(indent="")
    return array


def _without_controls(text: str) -> str:
    """TOML in which characters that cannot be seen are escaped; tomlkit escapes some of them."""
    lines = text.split("\n")
    return "\n".join(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", e) for e in lines)


def _literal(name: str) -> str:
    """A pattern that fits the name alone, where the name itself would mean a file of names."""
    return f"[@]{glob.escape(name[1:])}" if name.startswith("@") else name


def _some(names: Sequence[str], most: int = 12) -> str:
    return some(names, most, lambda name: tomlkit.item(name).as_string()) or "none"


def _placed(source: str, folder: Path_) -> str:
    """A source as seen from the folder of the settings; without the password of a URL."""

    def move(path: str) -> str:
        return os.path.relpath(path, folder).replace(os.sep, "/")

    return drop_secrets(place_database(source, move)) if URL.match(source) else move(source)
