"""The TOML file that names the tables of views and labels and the options of the model."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naim3l.cli.options import MODEL_KEYS, check_options
from naim3l.files.readers.errors import ReadError, close_names, quote
from naim3l.files.readers.sql import place_database
from naim3l.files.readers.table import check_file
from naim3l.files.sources import URL, show_source

Path_ = str | os.PathLike[str]
_VIEW_KEYS = {
    "source": str,
    "id": str,
    "labels": list,
    "features": list,
    "text": list,
    "ignore": list,
    "labels_file": str,
}
_SOURCES = ("source", "labels_file")
_LABEL_KEYS = {"columns": list, "yes": list, "no": list, "unknown": list}
_KINDS = {
    str: "text",
    list: "a list of text",
    float: "a number",
    int: "a whole number",
    dict: "a table of views",
}


@dataclass(frozen=True)
class ViewConfig:
    """One view: its table and the roles of the columns.

    Attributes
    ----------
    source : str
        As `naim3l.files.readers.read_table` takes it.
    id : str or None
        Column with the ids of the rows.
    labels : list of str
        Names or patterns of the label columns, in ``labels_file`` if given, else in the source.
        By default, those of `LabelConfig`.
    features : list of str or None
        Names or patterns; None means all columns that are neither id, label nor ignored. A column
        that is listed by its name is used even if it looks like an id.
    text : list of str
        Names or patterns of features that are text, even where their cells look like numbers.
    ignore : list of str
        Names or patterns of columns to leave out.
    labels_file : str or None
        Table of the labels, whose rows are matched by id.
    """

    source: str
    id: str | None = None
    labels: list[str] = field(default_factory=list)
    features: list[str] | None = None
    ignore: list[str] = field(default_factory=list)
    labels_file: str | None = None
    text: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        shown = {key: getattr(self, key) for key in _VIEW_KEYS}
        sources = {key: show_source(shown[key]) for key in _SOURCES if shown[key] is not None}
        listed = ", ".join(f"{key}={value!r}" for key, value in (shown | sources).items())
        return f"ViewConfig({listed})"


@dataclass(frozen=True)
class LabelConfig:
    """What holds for the labels of all views.

    Attributes
    ----------
    yes, no, unknown : list of str
        Further words, as `naim3l.files.readers.parse_labels` takes them.
    columns : list of str
        Names or patterns of the label columns of those views that name none of their own. A
        label that a view lacks is unknown there.
    """

    yes: list[str] = field(default_factory=list)
    no: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Config:
    """All that is needed for a fit without a line of Python.

    Attributes
    ----------
    views : dict of str to ViewConfig
    labels : LabelConfig
    model : dict
        Options of the model, those of `naim3l.cli.options.OPTIONS` that were given. "kernel"
        and "gamma" are one value for all views, or a dict with values of some of them.
    output : str or None
        Path of the fitted model.
    """

    views: dict[str, ViewConfig]
    labels: LabelConfig = field(default_factory=LabelConfig)
    model: dict[str, Any] = field(default_factory=dict)
    output: str | None = None


def read_config(path: Path_, given: Mapping[str, Any] | None = None) -> Config:
    """Settings of a TOML file; paths in it are relative to its folder.

    Parameters
    ----------
    path : path
    given : mapping, optional
        Options of the command line, which replace those of the file.

    Raises
    ------
    ReadError
        If it is not TOML, or a key is unknown, missing or of the wrong type; names the file, the
        key, and keys that are close.
    """
    file = Path(path)
    check_file(file)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"{file}: TOML must be in UTF-8 ({error}).") from error
    return parse_config(text, str(file), file.parent, given)


def parse_config(
    text: str, where: str, folder: Path_, given: Mapping[str, Any] | None = None
) -> Config:
    """Settings from TOML text.

    Parameters
    ----------
    text : str
    where : str
        How errors call the text.
    folder : path
        What paths in it are relative to.
    given : mapping, optional
        Options of the command line, which replace those of the text.
    """
    try:
        stored = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # among them TOMLDecodeError, with the line
        raise ReadError(f"{where}: not TOML: {error}") from error
    top = {"views": dict, "labels": dict, "model": dict, "output": str}
    _check(stored, top, where, "")
    views = stored.get("views", {})
    if not views:
        raise ReadError(f"{where}: no view; add a table [views.NAME] with a key source.")
    for name, view in views.items():
        _check({name: view}, {name: dict}, where, "views.")
    labels = stored.get("labels", {})
    _check(labels, _LABEL_KEYS, where, "labels.")
    model = stored.get("model", {})
    _check(model, MODEL_KEYS, where, "model.")
    given = given or {}
    prefixes = {key: f"{where}: model." for key in model if key not in given}
    check_options(model | given, views, prefixes)
    output = stored.get("output")
    return Config(
        {name: _view(view, f"views.{name}.", where, folder) for name, view in views.items()},
        LabelConfig(**labels | {"columns": _placed_names(labels.get("columns", []), folder)}),
        model | given,
        None if output is None else _moved(output, folder),
    )


def _view(view: Mapping[str, Any], prefix: str, where: str, folder: Path_) -> ViewConfig:
    _check(view, _VIEW_KEYS, where, prefix)
    if "source" not in view:
        raise ReadError(f"{where}: {prefix}source is missing; it names the file of the view.")
    if "labels_file" in view and "id" not in view:
        raise ReadError(f"{where}: {prefix}labels_file needs {prefix}id, to match rows by.")
    placed: dict[str, Any] = {}
    for key, value in view.items():
        if isinstance(value, list):
            value = _placed_names(value, folder)
        placed[key] = _moved(value, folder) if key in _SOURCES else value
    return ViewConfig(**placed)


def _placed_names(names: list[str], folder: Path_) -> list[str]:
    """Names, and "@file" as seen from where the program runs."""
    return [f"@{_moved(name[1:], folder)}" if name.startswith("@") else name for name in names]


def _moved(source: str, folder: Path_) -> str:
    """A path of the file as seen from where the program runs."""

    def move(path: str) -> str:
        return os.path.normpath(os.path.join(folder, path)).replace(os.sep, "/")

    return place_database(source, move) if URL.match(source) else move(source)


def _check(given: Any, known: Mapping[str, Any], where: str, prefix: str) -> None:
    """Refuse unknown keys and values of another type."""
    for key, value in given.items():
        if key not in known:
            raise ReadError(
                f"{where}: unknown key {quote(prefix + key)}; {close_names(key, known)}"
            )
        kinds = known[key] if isinstance(known[key], tuple) else (known[key],)
        if not any(_is_of(value, kind) for kind in kinds):
            expected = " or ".join(_KINDS.get(kind, "true or false") for kind in kinds)
            if kinds == (dict,):
                expected = f"a table, [{prefix}{key}]"
            given_as = f"of type {type(value).__name__}" if key in _SOURCES else quote(value)
            raise ReadError(f"{where}: {prefix}{key} must be {expected}, not {given_as}.")


def _is_of(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
