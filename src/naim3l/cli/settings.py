"""Settings of a study, from a TOML file and the command line, and the model that they describe.

Which values a parameter may have is known to the models alone: an unfitted one is made of the
settings, and checks them, before any table is read.
"""

import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from naim3l._device import check_device
from naim3l._text import quote
from naim3l.decisions.rules import Decisions
from naim3l.estimators.naim3l import AUTO, NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.features.encoding import FeatureSpec
from naim3l.features.kernels import KERNELS, N_LANDMARKS, Kernel
from naim3l.features.recipes import MAX_COMPONENTS, Recipe
from naim3l.files.databases import place_database
from naim3l.files.errors import ReadError, close_names
from naim3l.files.secrets import URL, show_source
from naim3l.files.tables import check_file, source_files
from naim3l.input.labels import LabelWords

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
_KINDS: dict[type, str] = {str: "text", list: "a list of text", dict: "a table"}

# Parameters of the models that no plain value can express, or that the commands set themselves.
_OTHERS = {"views", "features", "init", "verbose"}
_GIVEN = set(NAIM3L().get_params(deep=False)) - _OTHERS
_TUNED = set(NAIM3LCV().get_params(deep=False)) - _OTHERS
# What ``features`` of a view is made of; those of `_BY_VIEW` may be a table of views.
_FEATURES = ("recipe", "n_components", "kernel", "n_landmarks", "gamma")
_BY_VIEW = ("kernel", "gamma")
MODEL_KEYS = {*_GIVEN, *_TUNED, *_FEATURES, "tune"}
# The same whether lam and ridge are chosen or given.
DEFAULTS = {"decide": NAIM3LCV().decide, "random_state": 0}
LINEAR = "linear"
# How errors of models call a parameter.
_SUBJECT = re.compile(r"(The '\w+' parameter of \w+|(Kernel: |Recipe: )?\w+)(?= must be )")


@dataclass(frozen=True)
class ViewSettings:
    """One view: its table and the roles of the columns.

    Attributes
    ----------
    source : str
        As `naim3l.files.tables.open_table` takes it.
    id : str or None
        Column with the ids of the rows.
    labels : list of str
        Names or patterns of the label columns, in ``labels_file`` if given, else in the source.
        By default, those of `LabelSettings`.
    features : list of str or None
        Names or patterns; None means all columns that are neither id, label nor ignored. A column
        that is listed by its name is used even if it looks like an id.
    ignore : list of str
        Names or patterns of columns to leave out.
    labels_file : str or None
        Table of the labels, whose rows are matched by id.
    text : list of str
        Names or patterns of features that are text, even where their cells look like numbers.
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
        return f"ViewSettings({listed})"


@dataclass(frozen=True)
class LabelSettings:
    """What holds for the labels of all views.

    Attributes
    ----------
    yes, no, unknown : list of str
        Further words of their cells.
    columns : list of str
        Names or patterns of the label columns of those views that name none of their own. A
        label that a view lacks is unknown there.
    """

    yes: list[str] = field(default_factory=list)
    no: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def words(self) -> LabelWords:
        return LabelWords(tuple(self.yes), tuple(self.no), tuple(self.unknown))


@dataclass(frozen=True)
class Settings:
    """All that is needed for a fit without a line of Python.

    Attributes
    ----------
    views : dict of str to ViewSettings
    labels : LabelSettings
    model : dict
        Options of the model, with keys of `MODEL_KEYS`. "kernel" and "gamma" are one value for all
        views, or a dict with values of some of them.
    output : str or None
        Path of the fitted model.
    """

    views: dict[str, ViewSettings]
    labels: LabelSettings = field(default_factory=LabelSettings)
    model: dict[str, Any] = field(default_factory=dict)
    output: str | None = None

    def files(self, *others: Path | None) -> list[Path]:
        """Files that are read, including lists of column names, and others if given."""
        lists, found = list(self.labels.columns), list[Path]()
        for view in self.views.values():
            lists += [*view.labels, *(view.features or []), *view.ignore, *view.text]
            found += source_files(view.source)
            found += source_files(view.labels_file) if view.labels_file else []
        named = [Path(name[1:]) for name in lists if name.startswith("@")]
        return [*found, *named, *(path for path in others if path is not None)]

    def with_sources(self, sources: Sequence[str]) -> "Settings":
        """Settings with other tables of some views, given as ``name=source``, and no others."""
        views = {}
        for name, source in parse_sources(sources).items():
            if name not in self.views:
                raise ReadError(
                    f"there is no view {name!r} to test; the views are {list(self.views)}."
                )
            views[name] = replace(self.views[name], source=source)
        return replace(self, views=views)


def make_settings(
    views: list[str] | None,
    config: Path | None,
    labels: list[str] | None = None,
    label_files: list[str] | None = None,
    ids: list[str] | None = None,
    options: Mapping[str, Any] | None = None,
    words: Mapping[str, list[str] | None] | None = None,
) -> Settings:
    """Settings of a TOML file, or of the command line, which replaces those of the file.

    Only words for "yes", "no" and "unknown" are added to those of the file.
    """
    if (config is None) == (not views):
        raise ReadError("give views as name=path, or a settings file with --config, not both.")
    if config is not None:
        settings = read_settings(config, options)
    else:
        tables = {name: ViewSettings(source) for name, source in parse_sources(views or []).items()}
        settings = Settings(tables, model=dict(options or {}))
        check_options(settings.model, tables)
    files, columns = parse_sources(label_files or []), _ids_of(ids or [], settings.views)
    unknown = sorted(set(files) - set(settings.views))
    if unknown:
        raise ReadError(f"--labels-file names {unknown}, but the views are {list(settings.views)}.")
    changed = {
        name: replace(
            view,
            id=columns.get(name, view.id),
            labels=[] if labels else view.labels,  # so that those of all views count
            labels_file=files.get(name, view.labels_file),
        )
        for name, view in settings.views.items()
    }
    more = {
        key: [*getattr(settings.labels, key), *(given or [])]
        for key, given in (words or {}).items()
    }
    named = replace(settings.labels, columns=labels or settings.labels.columns, **more)
    return replace(settings, views=changed, labels=named)


def parse_sources(arguments: Sequence[str]) -> dict[str, str]:
    """Views given as ``name=source``."""
    sources: dict[str, str] = {}
    for argument in arguments:
        name, equals, source = argument.partition("=")
        if not equals or not name.replace("_", "").replace("-", "").isalnum():
            raise ReadError(
                f"{show_source(argument)!r} is not of the form name=path, such as "
                "clinic=clinic.csv."
            )
        if name in sources:
            raise ReadError(f"view {name!r} is given twice.")
        if not source:
            raise ReadError(f"view {name!r} has no path.")
        sources[name] = source
    return sources


def _ids_of(given: list[str], views: Collection[str]) -> dict[str, str]:
    """Id column of each view, from ``column`` for all of them and ``view=column``."""
    shared: dict[str, str] = {}
    own: dict[str, str] = {}
    for entry in given:
        view, equals, column = entry.partition("=")
        if equals and view not in views:
            raise ReadError(f"--id {entry}: no view {quote(view)}; {close_names(view, views)}")
        if (view in own) if equals else shared:
            raise ReadError(f"--id {entry}: give one column for all views, or one for each.")
        if equals:
            own[view] = column
        else:
            shared = dict.fromkeys(views, entry)
    return shared | own


# The TOML file.


def read_settings(path: Path_, given: Mapping[str, Any] | None = None) -> Settings:
    """Settings of a TOML file; given options of the command line replace those of the file."""
    file = Path(path)
    check_file(file)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"{file}: TOML must be in UTF-8 ({error}).") from error
    return parse_settings(text, str(file), file.parent, given)


def parse_settings(
    text: str, where: str, folder: Path_, given: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from TOML text, which errors call ``where``; paths in it are relative to a folder.

    A key that is unknown, missing or of a wrong type is an error, which names similar keys.
    """
    try:
        stored = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # among them TOMLDecodeError, with the line
        raise ReadError(f"{where}: not TOML: {error}") from error
    _check(stored, {"views": dict, "labels": dict, "model": dict, "output": str}, where, "")
    views = stored.get("views", {})
    if not views:
        raise ReadError(f"{where}: no view; add a table [views.NAME] with a key source.")
    for name, view in views.items():
        _check({name: view}, {name: dict}, where, "views.")
    labels, model, output = stored.get("labels", {}), stored.get("model", {}), stored.get("output")
    _check(labels, _LABEL_KEYS, where, "labels.")
    _check(model, dict.fromkeys(MODEL_KEYS, object), where, "model.")
    given = given or {}
    check_options(model | given, views, lambda key: "" if key in given else f"{where}: model.")
    return Settings(
        {name: _view(view, f"views.{name}.", where, folder) for name, view in views.items()},
        LabelSettings(**labels | {"columns": _placed_names(labels.get("columns", []), folder)}),
        model | given,
        None if output is None else _moved(output, folder),
    )


def _view(view: Mapping[str, Any], prefix: str, where: str, folder: Path_) -> ViewSettings:
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
    return ViewSettings(**placed)


def _placed_names(names: list[str], folder: Path_) -> list[str]:
    """Names, and "@file" as seen from where the program runs."""
    return [f"@{_moved(name[1:], folder)}" if name.startswith("@") else name for name in names]


def _moved(source: str, folder: Path_) -> str:
    """A path of the file as seen from where the program runs."""

    def move(path: str) -> str:
        return os.path.normpath(os.path.join(folder, path)).replace(os.sep, "/")

    return place_database(source, move) if URL.match(source) else move(source)


def _check(given: Mapping[str, Any], known: Mapping[str, type], where: str, prefix: str) -> None:
    """Refuse unknown keys and values of another type."""
    for key, value in given.items():
        if key not in known:
            raise ReadError(
                f"{where}: unknown key {quote(prefix + key)}; {close_names(key, known)}"
            )
        kind = known[key]
        fits = isinstance(value, kind)
        if not fits or (kind is list and not all(isinstance(entry, str) for entry in value)):
            expected = f"a table, [{prefix}{key}]" if kind is dict else _KINDS[kind]
            given_as = f"of type {type(value).__name__}" if key in _SOURCES else quote(value)
            raise ReadError(f"{where}: {prefix}{key} must be {expected}, not {given_as}.")


# The model.


def check_options(
    options: Mapping[str, Any],
    views: Collection[str],
    prefix: Callable[[str], str] = lambda key: "",
) -> None:
    """Refuse values that an option cannot have, alone or with the others, and unknown views.

    ``prefix`` tells what errors put before the name of an option, such as the file that it is from.
    """
    for key, value in options.items():
        values = {key: value}
        if key in _BY_VIEW and isinstance(value, Mapping):
            values = {f"{key}.{view}": of_view for view, of_view in value.items()}
            for view in value:
                if view not in views:
                    near = close_names(view, views)
                    raise ReadError(f"{prefix(key)}{key}: no view {quote(view)}; {near}")
        for called, one in values.items():
            try:
                _check_alone(key, one)
            except (ValueError, TypeError) as error:
                name = f"{prefix(key)}{called}"
                message, n_found = _SUBJECT.subn(name.replace("\\", r"\\"), str(error), count=1)
                raise ReadError(message if n_found else f"{name}: {error}") from None
    _check_together(options, views)


def _check_alone(key: str, value: Any) -> None:
    is_switch = key in ("tune", "fit_intercept")
    if isinstance(value, bool) != is_switch:
        must = "true or false" if is_switch else "text or a number, or a list of numbers"
        raise ValueError(f"{key} must be {must}, not {quote(value)}.")
    if key in _FEATURES:
        needed = {"kernel": "rbf"} if key in ("n_landmarks", "gamma") else {}
        FeatureSpec.of(_features(needed | {key: value}, ""), "")
    elif key != "tune":
        (NAIM3L if key in _GIVEN else NAIM3LCV)(**{key: value})._check_parameters()
        check_device(key, value if key == "device" else "cpu")


def _check_together(options: Mapping[str, Any], views: Collection[str]) -> None:
    """Refuse options that are possible alone, but not with each other, or to no effect."""
    _check_kernels(options)
    tuned = is_tuned(options)
    if tuned and options.get("ridge") == AUTO:
        raise ReadError('ridge = "auto" is for a given lam; with tune = true, give numbers.')
    for key in options:
        if not tuned and key in _TUNED - _GIVEN:
            raise ReadError(f"{key} is for the choice of lam and ridge, and they are given.")
        if tuned and key in _GIVEN - _TUNED - {"lam", "ridge"}:
            raise ReadError(f"{key} is for a given lam and ridge; with tune = true, leave it out.")
        if f"{key}s" in options:
            raise ReadError(f"give either {key} or {key}s.")
    try:
        make_model(options, dict.fromkeys(views, Recipe()))._check_parameters()
    except (ValueError, TypeError) as error:
        raise ReadError(str(error)) from None


def _check_kernels(options: Mapping[str, Any]) -> None:
    """Refuse options of kernels without one, and recipes before a kernel that takes counts."""
    kernel, gamma = options.get("kernel"), options.get("gamma")
    for name in ("n_landmarks", "gamma"):
        if name in options and kernel is None:
            raise ReadError(f"{name} is for kernels, and none is named; give kernel, too.")
    if isinstance(kernel, Mapping) and isinstance(gamma, Mapping):
        for view in gamma:
            if view not in kernel:
                raise ReadError(f"gamma.{view}: view {view!r} has no kernel; give it one, too.")
    for of_view in kernel.values() if isinstance(kernel, Mapping) else (kernel,):
        if of_view in KERNELS and KERNELS[of_view].histograms and "recipe" in options:
            raise ReadError(
                f"kernel {of_view!r} compares counts as they are, and recipe "
                f"{options['recipe']!r} would make negative numbers of them; give one of the two."
            )


def is_tuned(options: Mapping[str, Any]) -> bool:
    """Whether lam and ridge are chosen on held-out labels: unless one is given, or a solver."""
    return bool(options.get("tune", not {"lam", "ridge", "solver"} & set(options)))


def make_model(
    options: Mapping[str, Any], recipes: Mapping[str, Recipe], *, verbose: int = 0
) -> NAIM3L | NAIM3LCV:
    """Unfitted model for some views; `lam` and `ridge` are chosen unless one of them is given.

    Views that ``kernel`` leaves out are linear; those that ``gamma`` leaves out have the one that
    suits their rows. Recipes tell which columns of each view are text, and which are kept.
    """
    others = {k: v for k, v in options.items() if k not in _FEATURES and k != "tune"}
    chosen: dict[str, Any] = DEFAULTS | others | {"verbose": verbose}
    if not Decisions.of(chosen["decide"]).probabilities:
        chosen["decide"] = Decisions(chosen["decide"])  # learns them for predict and impute
    chosen["features"] = {
        view: _features(options, view, recipe) for view, recipe in recipes.items()
    }
    if not is_tuned(options):
        return NAIM3L(**chosen)
    for name in ("lam", "ridge"):
        if name in chosen:
            chosen[f"{name}s"] = [chosen.pop(name)]
    return NAIM3LCV(**chosen)


def _features(options: Mapping[str, Any], view: str, columns: Recipe | None = None) -> Any:
    """Features of a view: a recipe, and a kernel if it is not linear.

    A linear kernel is the same model, from whose weights no column could be read. Kernels of
    histograms take numbers as they are.
    """
    name = _of_view(options.get("kernel"), view)
    histograms = isinstance(name, str) and name in KERNELS and KERNELS[name].histograms
    recipe = replace(
        columns or Recipe(),
        steps=None if histograms else options.get("recipe", "scale"),
        n_components=options.get("n_components", MAX_COMPONENTS),
    )
    if name is None or name == LINEAR:
        return recipe
    gamma = _of_view(options.get("gamma"), view)
    n_landmarks = options.get("n_landmarks", N_LANDMARKS)
    return Kernel(name, n_landmarks, AUTO if gamma is None else gamma, recipe=recipe)


def _of_view(given: Any, view: str) -> Any:
    return given.get(view) if isinstance(given, Mapping) else given
