"""Model files: which classes they hold, how parameters are stored, and what a file tells."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from naim3l._text import plain
from naim3l.decisions.rules import Decisions
from naim3l.features.kernels import Kernel
from naim3l.features.recipes import Recipe
from naim3l.files import stored
from naim3l.files.archive import Refusal, naming
from naim3l.files.stored import Array, Guest, MapOf, Nested, OneOf, Plain

# Classes that files can hold, and the modules that have them, which are imported when needed.
MODELS = {
    "NAIM3L": "naim3l.estimators.naim3l",
    "NAIM3LCV": "naim3l.estimators.naim3l_cv",
    "PerViewRidge": "naim3l.estimators.linear",
    "PerViewLogistic": "naim3l.estimators.linear",
    "PerViewBoosting": "naim3l.estimators.boosting",
    "LabelSubspaceRidge": "naim3l.estimators.subspace",
    "FusedRidge": "naim3l.estimators.aligned",
    "BlendNAIM3L": "naim3l.estimators.blend",
    "DeepNAIM3L": "naim3l.deep.deep_naim3l",
}
PACKAGES = ("naim3l", "scikit-learn", "numpy", "scipy")
_ONE: dict[str, Any] = {
    "value": Plain(),
    "array": Array("biuf", ..., finite=False),
    "recipe": Recipe,
    "kernel": Kernel,
    "decisions": Decisions,
}
# A parameter: plain data, an object of this package, or a guest, such as a transformer.
PARAMETER = OneOf({**_ONE, "by view": MapOf(OneOf({**_ONE, "guest": Guest()})), "guest": Guest()})


class _Classes(Mapping[str, type]):
    """The classes of `MODELS`, and those that a user passes, by name."""

    def __init__(self, more: Iterable[Any] = ()) -> None:
        given = {cls.__qualname__: cls for cls in more if isinstance(cls, type)}
        # Those first: a search that ends there imports no model that it does not need.
        self.found: dict[str, Any] = {**given, **MODELS, **given}

    def __getitem__(self, name: str) -> type:
        found = self.found[name]
        try:
            return getattr(import_module(found), name) if isinstance(found, str) else found
        except ImportError as error:  # of an extra that is not installed
            raise Refusal(f"cannot be loaded: {error}") from error

    def __iter__(self) -> Any:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


@dataclass(frozen=True)
class Model(stored.Field):
    """A fitted model of a class of `MODELS`, which is imported if a value or a file has one."""

    name: str

    def fits(self, value: Any) -> bool:
        return type(value).__name__ == self.name and type(value) is _Classes()[self.name]

    def expected(self, scope: Any) -> str:
        return f"a {self.name}"

    def encode(self, value: Any, into: Any) -> Any:
        return Nested(_Classes()[self.name]).write(value, into)

    def read(self, found: Any, reader: Any, scope: Any) -> Any:
        return Nested(_Classes()[self.name]).read(found, reader, scope)


def storable(value: Any) -> Any:
    """A parameter in a form that a file can hold."""
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {key: storable(item) for key, item in value.items()}
    if isinstance(value, np.generic | list | tuple | range | set | frozenset):
        return plain(sorted(value) if isinstance(value, set | frozenset) else value)
    return value


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, completely or not at all."""
    versions = {name: version(name) for name in PACKAGES}
    try:
        stored.write_model(path, model, _Classes([type(model)]), versions=versions)
    except ValueError as error:
        raise TypeError(str(error)) from error


def load(
    path: str | os.PathLike[str],
    *,
    trusted: Iterable[str | type] = (),
    encoders: Mapping[str, Any] | None = None,
) -> Any:
    """Model from a file that its method ``save`` wrote; safe for files from others.

    A file holds JSON and arrays, which are checked against what a model of its class has. Nothing
    that it names is imported or run, unless it is trusted. Loading takes at most 64 MiB and 50
    times the size of the file in memory. The predictions of a model are only as trustworthy as the
    file's author.

    Parameters
    ----------
    path : str or path-like
        Path of the file.
    trusted : iterable of types or functions, or of their full names, default=()
        Types of transformers of the user, also of scikit-learn, which are stored beside the model;
        and models of other packages. Their own code is run on the contents of the file, so trust
        only types that you know, in files of authors whom you trust. `inspect_file` lists the
        types that a file needs.
    encoders : mapping of view to torch module, optional
        For networks with encoders of the user, whose weights are in the file, but not their code:
        the modules, built as for the fit. For a blend, such a mapping by the name of the member.

    Returns
    -------
    NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic, PerViewBoosting, FusedRidge, BlendNAIM3L \
or DeepNAIM3L
        The fitted model.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind or of another version of the format, has types that
        are not trusted, needs other encoders, or a part of the model is missing, inconsistent or
        not finite.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets, load
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> NAIM3L().fit(data.views, data.labels).save("model.naim3l")
    >>> load("model.naim3l").predict({"view1": data.views["view1"][:2]})["view1"]
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of types or their names, got {trusted!r}.")
    listed = list(trusted)
    if not isinstance(encoders, Mapping | None):
        raise TypeError(f"encoders must be a mapping of views to modules, got {encoders!r}.")
    model = stored.read_model(path, _Classes(listed), trusted=listed)
    with naming(path):
        if hasattr(model, "_attach_encoders"):  # a network, or a blend
            model._attach_encoders(encoders or {})
        elif encoders:
            raise Refusal(f"it holds a {type(model).__name__}, which has no encoders.")
    return model


def inspect_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Description of a model file, without creating an object or importing a module from it.

    Parameters
    ----------
    path : str or path-like
        Path of the file.

    Returns
    -------
    dict
        "path" and "size" (bytes); "format", "version", "written_by" (versions of the packages that
        wrote it), "class", "model" (its "parameters", and what it learned; arrays are stored
        beside it and referred to by number), and "guests", names of the types that `load` needs
        as ``trusted``.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind, or of a format of another version.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets, inspect_file
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> NAIM3L().fit(data.views, data.labels).save("model.naim3l")
    >>> about = inspect_file("model.naim3l")
    >>> about["class"], about["model"]["names_"]["labels"]
    ('NAIM3L', ['label0', 'label1', 'label2'])
    >>> about["guests"]  # nothing to trust
    []
    """
    about = stored.read_description(path)
    about["guests"] = list(dict.fromkeys(name for types in about["guests"] for name in types))
    return {"path": str(path), "size": os.path.getsize(path), **about}
