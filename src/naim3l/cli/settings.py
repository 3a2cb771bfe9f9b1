"""Settings of a study, from a TOML file and the command line; the models check their values."""

import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from naim3l._device import check_device
from naim3l._text import quote
from naim3l.cli.options import load_model
from naim3l.decisions.rules import Decisions
from naim3l.estimators.naim3l import AUTO, NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.features.encoding import FeatureSpec
from naim3l.features.kernels import HISTOGRAM_KERNELS, N_LANDMARKS, Kernel
from naim3l.features.recipes import Recipe
from naim3l.files.databases import place_database
from naim3l.files.errors import ReadError, check_names, close_names
from naim3l.files.secrets import URL, show_source
from naim3l.files.tables import check_file, source_files
from naim3l.input.labels import USUAL_WORDS, LabelWords

# Parameters of the models that no plain value can express, or that the commands set themselves.
_OTHERS = {"views", "features", "init", "verbose"}
# What ``features`` of a view is made of; "kernel" and "gamma" may be tables of views.
_OF_RECIPE = ("n_components", "log", "day_first")
_FEATURES = ("recipe", *_OF_RECIPE, "kernel", "n_landmarks", "gamma")
_OF_MODEL = {model: set(model().get_params(deep=False)) for model in (NAIM3L, NAIM3LCV)}
_PARAMETERS = set.union(*_OF_MODEL.values()) - _OTHERS
# Keys of the tables of the settings, and the types of their values.
_TOP_KEYS: dict[str, Any] = {"views": dict, "labels": dict, "model": dict, "output": str}
_TOP_KEYS |= {"titles": (dict, str), "federated": dict}
# Of a site; numbers are checked by the estimator.
_FEDERATED_KEYS = {"site": str, "labels": list, "ridge": object, "shrinkage": object}
_FEDERATED_KEYS["minimum_count"] = object
_VIEW_KEYS: dict[str, Any] = dict.fromkeys(("source", "id", "labels_file"), str) | dict.fromkeys(
    ("labels", "features", "text", "ignore"), list
)
_LISTS = (list, (bool, list))  # of text
_VIEW_KEYS["shared"] = _LISTS[1]
_LABEL_KEYS = dict.fromkeys(("columns", "yes", "no", "unknown"), list)
MODEL_KEYS: dict[str, Any] = {key: object for key in (*_PARAMETERS, *_FEATURES)} | {"tune": bool}
_SOURCES = ("source", "labels_file")
_NAMED = re.compile(r"[\w-]+=.")
_TYPES: dict[Any, str] = {
    str: "text",
    list: "a list of text",
    bool: "true or false",
    (bool, list): "true, false or a list of text",
    (dict, str): "a file with two columns, name and title, or a table, [titles]",
}
# The same whether lam and ridge are chosen or given.
DEFAULTS = {"decide": NAIM3LCV().decide, "random_state": 0}


@dataclass(frozen=True)
class ViewSettings:
    """One view: its table and the roles of the columns, as names or patterns."""

    source: str = field(repr=False)  # may have a password
    id: str | None = None
    labels: list[str] = field(default_factory=list)  # by default those of all views
    # None: all that are neither id, label nor ignored. One listed by name is used in any case.
    features: list[str] | None = None
    ignore: list[str] = field(default_factory=list)
    labels_file: str | None = field(default=None, repr=False)  # rows are matched by id
    text: list[str] = field(default_factory=list)  # features, even if their cells are numbers
    # Features that are learned from together with other views that have them; True: all.
    shared: bool | list[str] = True


@dataclass(frozen=True)
class Settings:
    """All that is needed for a fit without a line of Python."""

    views: dict[str, ViewSettings]
    labels: list[str] = field(default_factory=list)  # of views that name none
    words: LabelWords = USUAL_WORDS  # further words of labels
    model: dict[str, Any] = field(default_factory=dict)  # with keys of `MODEL_KEYS`
    output: str | None = None  # path of the fitted model
    titles: str | dict[str, str] = field(default_factory=dict)  # a file, or titles by name
    federated: dict[str, Any] = field(default_factory=dict)  # with keys of `_FEDERATED_KEYS`

    def files(self, *others: Path | None) -> list[Path]:
        """Files that are read, and others if given."""
        sources = [of for v in self.views.values() for of in (v.source, v.labels_file) if of]
        sources += [self.titles] if isinstance(self.titles, str) else []
        found = [path for source in sources for path in source_files(source)]
        return [*found, *(path for path in others if path is not None)]

    def with_sources(self, sources: Sequence[str]) -> "Settings":
        """Settings with other tables of some views, given as ``name=source``, and no others."""
        given = parse_sources(sources)
        _check_views("--test", given, self.views)
        views = {name: replace(self.views[name], source=of) for name, of in given.items()}
        return replace(self, views=views)


def make_settings(
    views: list[str] | None,
    config: Path | None,
    labels: list[str] | None = None,
    label_files: list[str] | None = None,
    ids: list[str] | None = None,
    options: Mapping[str, Any] | None = None,
    words: Mapping[str, list[str] | None] | None = None,
    titles: str | None = None,
) -> Settings:
    """Settings of a TOML file, or of the command line, which goes before the file."""
    if (config is None) == (not views):
        raise ReadError("give views as name=path, or a settings file with --config, not both.")
    if config is not None:
        settings = read_settings(config, options)
    else:
        tables = {name: ViewSettings(source) for name, source in parse_sources(views or []).items()}
        settings = Settings(tables, model=dict(options or {}))
        check_model(settings.model, tables)
    files, columns = parse_sources(label_files or []), by_view("--id", ids or [])
    _check_views("--labels-file", files, settings.views)
    _check_views("--id", columns, settings.views)
    changed = {
        name: replace(
            view,
            id=columns.get(name, columns.get("", view.id)),
            labels=[] if labels else view.labels,  # so that those of all views count
            labels_file=files.get(name, view.labels_file),
        )
        for name, view in settings.views.items()
    }
    more = {key: (*getattr(settings.words, key), *(of or ())) for key, of in (words or {}).items()}
    named = replace(settings.words, **more)
    settings = replace(settings, views=changed, words=named, titles=titles or settings.titles)
    return replace(settings, labels=labels or settings.labels)


def with_known(settings: Settings, known: Sequence[str]) -> Settings:
    """Settings in which labels are read from files, given as ``path`` or ``view=path``."""
    files = by_view("--known", known)
    _check_views("--known", files, settings.views)
    views = {
        name: replace(view, labels_file=files.get(name, files.get("", view.labels_file)))
        for name, view in settings.views.items()
    }
    return replace(settings, views=views)


def with_views(given: list[str] | None, model: Path) -> list[str] | None:
    """Views as ``name=source``; a bare source is of the view of its stem, or a model's only one."""
    if given is None or all(map(_NAMED.match, given)):
        return given
    views, found = load_model(model).views_, list[str]()
    for source in given:
        stem = Path(source).name.partition(".")[0]
        if not (named := _NAMED.match(source)) and stem not in views and len(views) > 1:
            listed = ", ".join(views)
            raise ReadError(f"{show_source(source)}: give it as name=path; views are {listed}.")
        found.append(source if named else f"{stem if stem in views else views[0]}={source}")
    return found


def parse_sources(arguments: Sequence[str]) -> dict[str, str]:
    """Views given as ``name=source``."""
    for argument in arguments:
        if not _NAMED.match(argument):
            shown = show_source(argument)
            raise ReadError(f"{shown!r} is not of the form name=path, such as clinic=clinic.csv.")
    return by_view("view", arguments)


def _check_views(where: str, given: Collection[str], views: Collection[str]) -> None:
    check_names(filter(None, given), views, where, "view")


def by_view(option: str, given: Sequence[str]) -> dict[str, str]:
    """Values of an option, as ``view=value``, or as ``value``, under "", for all other views."""
    found: dict[str, str] = {}
    for entry in given:
        view, _, value = entry.partition("=") if "=" in entry else ("", "", entry)
        if view in found:
            shown = show_source(entry)
            raise ReadError(f"{option} {shown}: given twice; give one for all, or for each view.")
        found[view] = value
    return found


def read_settings(path: Path, given: Mapping[str, Any] | None = None) -> Settings:
    """Settings of a TOML file; given options replace those of the file."""
    check_file(path)
    where, folder = str(path), path.parent
    try:
        stored = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError has the line
        raise ReadError(f"{where}: not TOML in UTF-8: {error}") from error
    _check(stored, _TOP_KEYS, where, "")
    views, labels, model, titles, federated = (
        stored.get(key, {}) for key in ("views", "labels", "model", "titles", "federated")
    )
    if not views:
        raise ReadError(f"{where}: no view; add a table [views.NAME] with a key source.")
    _check(views, dict.fromkeys(views, dict), where, "views.")
    _check(labels, _LABEL_KEYS, where, "labels.")
    _check(model, MODEL_KEYS, where, "model.")
    _check(federated, _FEDERATED_KEYS, where, "federated.")
    if isinstance(titles, dict):
        _check(titles, dict.fromkeys(titles, str), where, "titles.")
    options = model | (given or {})
    check_model(options, views, f"{where}{' and the options' if given else ''}: ")
    found = {}
    for name, view in views.items():
        _check(view, _VIEW_KEYS, where, f"views.{name}.")
        if "source" not in view:
            raise ReadError(f"{where}: views.{name}.source is missing; it names the file.")
        placed = {key: _moved(view[key], folder) for key in _SOURCES if key in view}
        found[name] = ViewSettings(**view | placed)
    return Settings(
        found,
        labels.get("columns", []),
        LabelWords(*(tuple(labels.get(key, ())) for key in ("yes", "no", "unknown"))),
        options,
        _moved(stored["output"], folder) if "output" in stored else None,
        _moved(titles, folder) if isinstance(titles, str) else titles,
        federated,
    )


def _moved(source: str, folder: Path) -> str:
    """A path of the file as seen from where the program runs."""

    def move(path: str) -> str:
        return os.path.normpath(os.path.join(folder, path)).replace(os.sep, "/")

    return place_database(source, move) if URL.match(source) else move(source)


def _check(given: Mapping[str, Any], known: Mapping[str, Any], where: str, prefix: str) -> None:
    """Refuse unknown keys and values of another type."""
    for key, value in given.items():
        if key not in known:
            near = close_names(key, known)
            raise ReadError(f"{where}: unknown key {quote(prefix + key)}; {near}")
        kind = known[key]
        if not isinstance(value, kind) or (
            kind in _LISTS
            and isinstance(value, list)
            and not all(isinstance(entry, str) for entry in value)
        ):
            expected = _TYPES.get(kind, f"a table, [{prefix}{key}]")
            given_as = f"of type {type(value).__name__}" if key in _SOURCES else quote(value)
            raise ReadError(f"{where}: {prefix}{key} must be {expected}, not {given_as}.")


def check_model(options: Mapping[str, Any], views: Collection[str], prefix: str = "") -> None:
    """Refuse values that an option cannot have, alone or with the others, and unknown views."""
    try:
        model = make_model(options, dict.fromkeys(views, Recipe()))
        model._check_parameters()
        check_device("device", model.device)
        for view in views:
            FeatureSpec.of(model.features, view)
    except (ValueError, TypeError) as error:
        raise ReadError(f"{prefix}{error}") from None


def make_model(
    options: Mapping[str, Any], recipes: Mapping[str, Recipe], *, verbose: int = 0
) -> NAIM3L | NAIM3LCV:
    """Unfitted model; lam and ridge are chosen unless one, or a solver, is given."""
    tuned = options.get("tune", not {"lam", "ridge", "solver"} & set(options))
    model: type[NAIM3L | NAIM3LCV] = NAIM3LCV if tuned else NAIM3L
    others = {k: v for k, v in options.items() if k not in _FEATURES and k != "tune"}
    chosen: dict[str, Any] = DEFAULTS | others | {"verbose": verbose}
    if not Decisions.of(chosen["decide"]).probabilities:
        chosen["decide"] = Decisions(chosen["decide"])  # learns them for predict and impute
    for name in ("lam", "ridge") if tuned else ():
        if name in chosen and f"{name}s" not in chosen:
            chosen[f"{name}s"] = [chosen.pop(name)]
    for key in set(chosen) - _OF_MODEL[model]:
        state = "chosen; give them, or leave it out" if tuned else "given; leave it out"
        raise ReadError(f"{key} cannot be used, because lam and ridge are {state}.")
    for key in ("kernel", "gamma"):
        if isinstance(options.get(key), Mapping):
            _check_views(key, options[key], recipes)
    for key in ("n_landmarks", "gamma"):
        if key in options and "kernel" not in options:
            raise ReadError(f"{key} is for kernels, and none is named; give kernel, too.")
    features = {view: _features(options, view, recipe) for view, recipe in recipes.items()}
    return model(**chosen, features=features)


def _features(options: Mapping[str, Any], view: str, columns: Recipe) -> Recipe | Kernel:
    """Features of a view; a linear kernel is none, so that weights are those of columns."""
    name, gamma = (
        given.get(view, given.get("")) if isinstance(given := options.get(key), Mapping) else given
        for key in ("kernel", "gamma")
    )
    histograms = name in HISTOGRAM_KERNELS
    steps = options.get("recipe", None if histograms else "scale")
    chosen = {key: options[key] for key in _OF_RECIPE if key in options}
    recipe = replace(columns, steps=steps, **chosen)
    if name is None or name == "linear":
        return recipe
    n_landmarks = options.get("n_landmarks", N_LANDMARKS)
    return Kernel(name, n_landmarks, AUTO if gamma is None else gamma, recipe=recipe)
