"""Saving and loading models, and looking into their files."""

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
from naim3l.files.models.parts import MODELS
from naim3l.files.models.state import check_state
from naim3l.files.whole import written_whole

# skops takes half a second to import, and only writes; so it is imported where a model is saved.

PACKAGES = ("naim3l", "scikit-learn", "numpy", "scipy", "skops")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic or DeepNAIM3L
        Fitted. What cannot be read back, such as a transformer with a lambda, is a TypeError. The
        parameter ``checkpoint`` is not kept: it names a file of this machine.
    path : str or path-like
        Replaced if it exists.
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
    """Model from a file that ``save`` wrote, whoever wrote it.

    Nothing that the file names is imported or run unless it is on the list of types
    (``naim3l.files.models.ALLOWED``, NumPy's arrays and functions of one number, Python's numbers,
    text and containers) or trusted. A file takes at most 64 MiB and 50 times its size in memory.
    What a model of the list then predicts is for whoever wrote the file to choose.

    Parameters
    ----------
    path : str or path-like
    trusted : iterable of types or functions, or of their full names
        To make besides the listed ones. Their own code runs, on what the file gives them, so name
        those alone that you know, in files of people you know. `inspect_file` lists them.

    Returns
    -------
    NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic or DeepNAIM3L

    Raises
    ------
    ModelFileError
        The file is damaged, edited, of another kind, of a newer format, unpacks to too much, holds
        types that are neither listed nor trusted, or a model that lacks a part or has one that
        does not fit or is not finite.
    OSError
        It cannot be opened.
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
    """What a model file says of itself; no object is made of it, and no module imported.

    Returns
    -------
    dict
        "path", "size" (bytes), "sha256"; "format", "format_version", "versions" of the packages
        that wrote it; "class", "form" ("wide" or "apart"), "label_names", "fusion", "views" with
        the numbers of "columns" and of rows of "weights", and "kernel" and "gamma" where they
        have one, "lam", "ridge" (those chosen, where they were), "n_iter", "converged",
        "parameters"; "allowed_types" and "other_types", which `load` makes only if they are
        trusted. `load` compares all this with the model.

    Raises
    ------
    ModelFileError
        As for `load`, but for types that are not listed, and for parts of the model.
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
    """Message of an error, which may quote a file, without codes that a terminal would follow."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))


def _culprit(model: Any) -> str:
    """Attributes that cannot be written and read back, as the start of a message."""
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
    """What is in a file, and the nodes of the model; it is not made."""
    contents = unpack(data)
    return contents, read_nodes(contents.schema)


def _unlisted(nodes: Iterable[Node]) -> set[str]:
    return {node.name for node in nodes if not node.listed}


def _make_model(contents: Contents, nodes: list[Node], trusted: Collection[str]) -> Any:
    """Model of an examined file, with ``trusted`` beside the listed types."""
    require(nodes[0].name in MODELS, f"it holds {nodes[0].name!r}, not a model of naim3l.")
    model = make_object(nodes, contents, trusted)
    check_state(model, room_of(contents))
    _check_facts(model, contents.facts)
    return model


def _check_facts(model: Any, facts: dict[str, Any]) -> None:
    """Refuse a model that is not the one described; parameters newer than the file are default."""
    found, parameters = describe(model), facts.get("parameters") or {}
    lacking = [name for name in parameters if name not in vars(model)]
    require(not lacking, f"it lacks its parameters {lacking}.")
    if parameters:
        found["parameters"] = {k: v for k, v in found["parameters"].items() if k in parameters}
    wrong = [name for name in found if json.dumps(found[name]) != json.dumps(facts.get(name))]
    require(not wrong, f"{FACTS} contradicts the model: {', '.join(wrong)}.")


def _without_checkpoint(model: Any) -> Any:
    """The model, whose next fit shall not write where its file says."""
    if getattr(model, "checkpoint", None) is not None:
        model.checkpoint = None
    return model
