"""A first settings file, made by looking into the tables: every guess is marked as one."""

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naim3l._text import some
from naim3l.cli.settings import Config, Path_, parse_config, toml, toml_key
from naim3l.files.readers.columns import Roles, guess_roles, label_likeness
from naim3l.files.readers.errors import ReadError
from naim3l.files.readers.sources import URL, drop_secrets, split_source
from naim3l.files.readers.sql import place_database
from naim3l.files.readers.table import read_table

HEAD = 1000  # rows of each table that are looked at
_MODEL = """\
[labels]
# Words for yes, no and unknown besides the usual ones, such as yes = ["affected"].
yes = []
no = []
unknown = []

[model]
# How strongly the views are coupled, and a ridge, are chosen on held-out labels unless given:
# lam = 0.4
# ridge = 1.0
# metric = "AP"  # what they are chosen by; "log-loss" for the best probabilities
# Scores are linear in the columns unless rows are compared by a kernel: "rbf", or "chi2" or
# "hellinger" for counts; for some views alone with kernel = {NAME = "rbf"}:
# kernel = "rbf"
threshold = "f1"  # when to say yes: "f1", "cardinality", "sign" or a number
random_state = 0
"""


def make_config(sources: Sequence[Path_], folder: Path_ = ".") -> tuple[Config, str]:
    """Settings for some tables, guessed from their first rows.

    A label is looked for among columns that look like labels in all tables. Where one table has
    nothing but an id and labels, it is the file of labels of the others.

    Parameters
    ----------
    sources : sequence of paths or sources as `read_table` takes them
    folder : path
        Where the settings are to be saved; paths in them are written relative to it.

    Returns
    -------
    config : Config
        What `read_config` makes of the text in that folder.
    text : str
        TOML in which every guess has a comment "guessed: ...".
    """
    if not sources:
        raise ReadError("no table given; name at least one file.")
    heads: list[_Head] = []
    for source in sources:
        table = read_table(source, n_rows=HEAD)
        name = _view_name(os.fspath(source), [head.name for head in heads])
        heads.append(_Head(name, os.fspath(source), table, guess_roles(table)))
    labels_head = _only_labels(heads)
    views = [head for head in heads if head is not labels_head]
    shared = _shared_labels(views)
    lines = ["# Made by looking at the first rows of each table. Check what is marked as guessed."]
    lines += ['output = "model.skops"', ""]
    for head in views:
        lines += _view_lines(head, labels_head, shared, folder)
    text = "\n".join(lines) + "\n" + _MODEL
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


def _shared_labels(views: Sequence[_Head]) -> list[str]:
    """Columns that look like labels in all views, and surely so in one if there are such."""
    if len(views) < 2:
        return []
    first, *others = views
    common = [
        name
        for name in first.table.columns
        if all(name in head.table.columns for head in others)
        and all(label_likeness(head.table[name]) for head in views)
    ]
    sure = [
        name for name in common if any(label_likeness(head.table[name]) == "sure" for head in views)
    ]
    return sure or common


def _view_lines(
    head: _Head, labels_head: _Head | None, shared: Sequence[str], folder: Path_
) -> list[str]:
    roles = head.roles
    lines = [f"[views.{toml_key(head.name)}]", f"source = {toml(_placed(head.source, folder))}"]
    if any(drop_secrets(used.source) != used.source for used in (head, labels_head) if used):
        lines.append(
            "# The password is left out: add it to the URL, or let the driver find it, as "
            "PostgreSQL's does in PGPASSWORD or ~/.pgpass."
        )
    if roles.id is None:
        lines.append("# no id column was found; name it with id = ..., if there is one")
    else:
        lines.append(f"id = {toml(roles.id)}  # guessed: {roles.reasons[roles.id]}")
    if labels_head is not None:
        lines.append(
            f"labels_file = {toml(_placed(labels_head.source, folder))}  # guessed: nothing but "
            "an id and labels in it"
        )
        labels = {
            name: labels_head.roles.reasons.get(name, "0 and 1 alone")
            for name in labels_head.label_like
        }
    elif shared:
        labels = {name: "looks like a label in all views" for name in shared}
    else:
        labels = {name: roles.reasons[name] for name in roles.labels}
    none = "labels = []  # guessed: no column looks like a label; name them here"
    lines += _listing("labels", labels) or [none]
    ignored = {name: reason for name, reason in roles.ignored.items() if name not in labels}
    lines += _listing("ignore", ignored)
    rest = [
        str(name)
        for name in head.table.columns
        if name != roles.id and name not in labels and name not in ignored
    ]
    lines += [f"# features: the other columns, {_some(rest)}", *_doubts(head, rest), ""]
    return lines


def _doubts(head: _Head, features: Sequence[str]) -> list[str]:
    doubtful = [name for name in head.label_like if name in features]
    if not doubtful:
        return []
    return [f"# guessed: features, though perhaps labels by their cells: {_some(doubtful)}"]


def _listing(key: str, entries: dict[str, str]) -> list[str]:
    """A list with a comment on each entry; nothing if there is no entry."""
    if not entries:
        return []
    lines = [f"    {toml(_literal(name))},  # guessed: {why}" for name, why in entries.items()]
    return [f"{key} = [", *lines, "]"]


def _literal(name: str) -> str:
    """A pattern that fits the name alone, where the name itself would mean a file of names."""
    return f"[@]{glob.escape(name[1:])}" if name.startswith("@") else name


def _some(names: Sequence[str], most: int = 12) -> str:
    return some(names, most, toml) or "none"


def _placed(source: str, folder: Path_) -> str:
    """A source as seen from the folder of the settings; without the password of a URL."""

    def move(path: str) -> str:
        return os.path.relpath(path, folder).replace(os.sep, "/")

    return drop_secrets(place_database(source, move)) if URL.match(source) else move(source)
