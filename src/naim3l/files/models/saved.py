"""Functions that save, load and inspect model files."""

import copy
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from naim3l.files.models.archive import (
    FACTS,
    Contents,
    ModelFileError,
    pack,
    require,
    sha256,
    split_dump,
    unpack,
)
from naim3l.files.models.facts import describe, type_name
from naim3l.files.models.nodes import Node, make_object, read_nodes, room_of
from naim3l.files.models.parts import BLEND, MODELS
from naim3l.files.models.state import check_state
from naim3l.files.whole import written_whole

# skops takes half a second to import, and only writes; so it is imported where a model is saved.

PACKAGES = ("naim3l", "scikit-learn", "numpy", "scipy", "skops")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, completely or not at all.

    Parameters
    ----------
    model : one of `naim3l.files.models.MODELS`
        Fitted. A part that could not be loaded again, such as a transformer with a lambda
        function, raises a TypeError. The parameter ``checkpoint`` is not saved, because it is the
        name of a file on this machine.
    path : str or path-like
        An existing file is replaced.
    """
    import skops.io

    if type_name(model) not in MODELS:
        raise TypeError(f"only {', '.join(MODELS)} can be saved, got {type_name(model)}.")
    check_is_fitted(model)
    model = _without_checkpoint(copy.copy(model))
    try:
        versions = {name: version(name) for name in PACKAGES}
        data = pack(skops.io.dumps(model), {"versions": versions, **describe(model)})
        contents, nodes = _examine(data)
        _make_model(contents, nodes, _unlisted(nodes))
    except Exception as error:  # skops and the types it meets raise many kinds
        raise TypeError(f"this model cannot be saved: {_culprit(model)}{error}") from error
    with written_whole(path) as part:
        part.write_bytes(data)


def load(path: str | os.PathLike[str], *, trusted: Iterable[str | type] = ()) -> Any:
    """Model from a file that its method ``save`` wrote; safe for files from others.

    Nothing that the file names is imported or run unless it is trusted or on the list of allowed
    types: ``naim3l.files.models.ALLOWED``, arrays and functions of one number of NumPy, and
    numbers, text and containers of Python. Loading takes at most 64 MiB and 50 times the size of
    the file in memory. The predictions of a model are only as trustworthy as the file's author.

    Parameters
    ----------
    path : str or path-like
        Path of the file.
    trusted : iterable of types or functions, or of their full names, default=()
        Types to allow in addition. Their own code is run on the contents of the file, so trust
        only types that you know, in files of authors whom you trust. `inspect_file` lists the
        types that a file needs.

    Returns
    -------
    NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic, BlendNAIM3L or DeepNAIM3L
        The fitted model.

    Raises
    ------
    ModelFileError
        The file is damaged, modified, of another kind or of a newer format, decompresses to too
        much, or has types that are neither allowed nor trusted; or a part of the model is missing,
        inconsistent or not finite.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import naim3l
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> naim3l.NAIM3L().fit(data.views, data.labels).save("model.skops")
    >>> model = naim3l.load("model.skops")
    >>> model.predict({"view1": data.views["view1"][:2]})["view1"]
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of types or their names, got {trusted!r}.")
    names = {t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in trusted}
    data = Path(path).read_bytes()
    with _refusals_name(path):
        contents, nodes = _examine(data)
        if unknown := sorted(_unlisted(nodes) - names):
            raise ModelFileError(
                f"it holds types that are not known to be harmless: {unknown}. If you know them, "
                f"and who wrote the file, load it with trusted={unknown}."
            )
        return _without_checkpoint(_make_model(contents, nodes, names))


def inspect_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Description of a model file, without creating an object or importing a module from it.

    Parameters
    ----------
    path : str or path-like
        Path of the file.

    Returns
    -------
    dict
        "path", "size" (bytes), "sha256"; "format", "format_version", "versions" of the packages
        that wrote it; "class", "form" ("wide" or "apart"), "label_names", "fusion", "views" with
        the numbers of "columns" and of rows of "weights", and "kernel" and "gamma" of views with a
        kernel; "lam" and "ridge" (the chosen ones of a search), "n_iter", "converged",
        "parameters"; "allowed_types" and "other_types", which `load` creates only if they are
        trusted. `load` checks that the description agrees with the model.

    Raises
    ------
    ModelFileError
        As for `load`, except that neither types nor the parts of the model are checked.

    Examples
    --------
    >>> from naim3l import NAIM3L, inspect_file
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> NAIM3L().fit(data.views, data.labels).save("model.skops")
    >>> about = inspect_file("model.skops")
    >>> about["class"], about["label_names"]
    ('naim3l.estimators.naim3l.NAIM3L', ['label0', 'label1', 'label2'])
    >>> about["views"]
    {'view0': {'columns': 9, 'weights': 8}, 'view1': {'columns': 8, 'weights': 8}}
    >>> about["other_types"]  # nothing to trust
    []
    """
    data = Path(path).read_bytes()
    with _refusals_name(path):
        contents, nodes = _examine(data)
    about = {"path": str(path), "size": len(data), "sha256": sha256(data)}
    listed = sorted({node.name for node in nodes if node.listed})
    return contents.facts | about | {
        "allowed_types": listed, "other_types": sorted(_unlisted(nodes))}  # fmt: skip


@contextmanager
def _refusals_name(path: Any) -> Iterator[None]:
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {_printable(error)}") from error.__cause__
    except Exception as error:  # damage surfaces as many types, from zlib.error to KeyError
        cause = f"{type(error).__name__}: {_printable(error)}"
        raise ModelFileError(f"{path}: not a complete model file ({cause}).") from error


def _printable(error: Exception) -> str:
    """Message of an error, which may quote a file, without control codes for terminals."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))


def _culprit(model: Any) -> str:
    """Names of the attributes that cannot be saved, as the beginning of a message."""
    import skops.io

    lost = []
    for name, value in model.__getstate__().items():
        try:
            dump = skops.io.dumps(value)
            schema, members = split_dump(dump)
            nodes = read_nodes(schema)
            make_object(nodes, Contents({}, schema, members, len(dump)), _unlisted(nodes))
        except Exception:
            lost.append(name)
    return f"{', '.join(lost)}: " if lost else ""


def _examine(data: bytes) -> tuple[Contents, list[Node]]:
    """Contents of a file, and the nodes of the model, which is not created."""
    contents = unpack(data)
    return contents, read_nodes(contents.schema)


def _unlisted(nodes: Iterable[Node]) -> set[str]:
    return {node.name for node in nodes if not node.listed}


def _make_model(contents: Contents, nodes: list[Node], trusted: Collection[str]) -> Any:
    """Model of an examined file, of allowed types and of those in ``trusted``."""
    require(nodes[0].name in MODELS, f"it holds {nodes[0].name!r}, not a model of naim3l.")
    model = make_object(nodes, contents, trusted)
    check_state(model, room_of(contents))
    _check_facts(model, contents.facts)
    return model


def _check_facts(model: Any, facts: dict[str, Any]) -> None:
    """Refuse a model that differs from its description; newer parameters have their defaults."""
    found, parameters = describe(model), facts.get("parameters") or {}
    lacking = [name for name in parameters if name not in vars(model)]
    require(not lacking, f"it lacks its parameters {lacking}.")
    if parameters:
        found["parameters"] = {k: v for k, v in found["parameters"].items() if k in parameters}
    wrong = [name for name in found if json.dumps(found[name]) != json.dumps(facts.get(name))]
    require(not wrong, f"{FACTS} contradicts the model: {', '.join(wrong)}.")


def _without_checkpoint(model: Any) -> Any:
    """The model without a checkpoint, so that its next fit does not write to that file."""
    if getattr(model, "checkpoint", None) is not None:
        model.checkpoint = None
    if type_name(model) == BLEND:
        if model.members is not None:
            model.members = [(n, _without_checkpoint(copy.copy(m))) for n, m in model.members]
        found = model.members_.items()
        model.members_ = {name: _without_checkpoint(copy.copy(member)) for name, member in found}
    return model
