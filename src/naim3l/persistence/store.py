"""Saving and loading models, and looking into their files."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from naim3l.files import written_whole
from naim3l.persistence.archive import (
    FACTS,
    ModelFileError,
    mappings,
    pack,
    require,
    sha256,
    unpack,
)
from naim3l.persistence.state import check_state, describe, type_name

# skops takes half a second to import, so it is imported where a model is saved or loaded.

MODELS = ("naim3l.estimator.NAIM3L", "naim3l.selection.NAIM3LCV",
          "naim3l.baselines.ridge.PerViewRidge", "naim3l.baselines.logistic.PerViewLogistic",
          "naim3l.deep.estimator.DeepNAIM3L")  # fmt: skip
# Types that a file may name, besides those that skops trusts: scikit-learn's estimators, NumPy's
# arrays, scalars and ufuncs, Python's numbers, text and containers. None runs code of the file's.
ALLOWED = frozenset({
    *MODELS,
    "naim3l.calibration.Calibration",
    "naim3l.fusion.Evidence",
    "naim3l.kernels.KernelMap",
    "naim3l.transform.DropConstantColumns",
    "naim3l.transform.LeadingComponents",
    "naim3l.transform.RootHistogram",
    "builtins.frozenset",
    "builtins.range",
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
})  # fmt: skip
PACKAGES = ("naim3l", "scikit-learn", "numpy", "scipy", "skops")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic or DeepNAIM3L
        Fitted. What cannot be read back, such as a transformer with a lambda, is a TypeError.
    path : str or path-like
        Replaced if it exists.
    """
    import skops.io

    if type_name(model) not in MODELS:
        raise TypeError(f"only {', '.join(MODELS)} can be saved, got {type_name(model)}.")
    check_is_fitted(model)
    try:
        versions = {name: version(name) for name in PACKAGES}
        data = pack(skops.io.dumps(model), {"versions": versions, **describe(model)})
        facts, _, unlisted = _examine(data)
        _construct(data, facts, unlisted)
    except Exception as error:  # skops and the types it meets raise many kinds
        raise TypeError(f"this model cannot be saved: {_culprit(model)}{error}") from error
    with written_whole(path) as part:
        part.write_bytes(data)


def load(path: str | os.PathLike[str], *, trusted: Iterable[str | type] = ()) -> Any:
    """Model from a file that ``save`` wrote. Nothing that the file names is run.

    Parameters
    ----------
    path : str or path-like
    trusted : iterable of types or their full names
        Types to make besides the listed ones (``naim3l.persistence.ALLOWED`` and what skops
        trusts). Their own code runs: name those alone that you know. `inspect_file` lists them.

    Returns
    -------
    NAIM3L, NAIM3LCV, PerViewRidge, PerViewLogistic or DeepNAIM3L

    Raises
    ------
    ModelFileError
        The file is damaged, edited, of another kind, of a newer format, unpacks to too much (see
        ``LEAST_LIMIT``), or holds types that are neither listed nor trusted.
    OSError
        It cannot be opened.
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of types or their names, got {trusted!r}.")
    names = {t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in trusted}
    data = Path(path).read_bytes()
    with _refusals_name(path):
        facts, _, unlisted = _examine(data)
        if unknown := sorted(unlisted - names):
            raise ModelFileError(
                f"it holds types that are not known to be harmless: {unknown}. If you know them, "
                f"and who wrote the file, load it with trusted={unknown}."
            )
        return _construct(data, facts, names)


def inspect_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says of itself; no object is made of it, and no module imported.

    Returns
    -------
    dict
        "path", "size" (bytes), "sha256"; "format", "format_version", "versions" of the packages
        that wrote it; "class", "form" ("wide" or "apart"), "label_names", "views" with the
        numbers of "columns" and of rows of "weights", and "kernel" and "gamma" where they have
        one, "lam", "ridge" (those chosen, where they were), "n_iter", "converged", "parameters";
        "allowed_types" and "other_types", which `load` makes only if they are trusted. `load`
        compares all this with the model.

    Raises
    ------
    ModelFileError
        As for `load`, but for types that are not listed.
    """
    data = Path(path).read_bytes()
    with _refusals_name(path):
        facts, listed, unlisted = _examine(data)
    about = {"path": str(path), "size": len(data), "sha256": sha256(data)}
    return facts | about | {"allowed_types": sorted(listed), "other_types": sorted(unlisted)}


@contextmanager
def _refusals_name(path: Any) -> Iterator[None]:
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__
    except Exception as error:  # damage surfaces as many types, from zlib.error to KeyError
        cause = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{path}: not a complete model file ({cause}).") from error


def _culprit(model: Any) -> str:
    """Attributes that skops cannot write and read back, as the start of a message."""
    import skops.io

    lost = []
    for name, value in model.__getstate__().items():
        try:
            data = skops.io.dumps(value)
            skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))  # our own
        except Exception:
            lost.append(name)
    return f"{', '.join(lost)}: " if lost else ""


def _examine(data: bytes) -> tuple[dict[str, Any], set[str], set[str]]:
    """Facts about a model, and the types in it that are listed and not; it is not made."""
    import skops.io

    facts, schema = unpack(data)
    types = {f"{node['__module__']}.{node['__class__']}" for node in mappings(schema)
             if isinstance(node.get("__loader__"), str)}  # fmt: skip
    unlisted = set(skops.io.get_untrusted_types(data=data)) - ALLOWED
    return facts, types - unlisted, unlisted


def _construct(data: bytes, facts: dict[str, Any], names: set[str]) -> Any:
    """Model made of examined data, with ``names`` beside the listed types."""
    import skops.io

    model = skops.io.loads(data, trusted=sorted(ALLOWED | names))
    require(type_name(model) in MODELS, f"it holds {type_name(model)}, not a model of naim3l.")
    check_state(model)
    found = describe(model)
    said = {name: facts.get(name) for name in found}
    wrong = [name for name in found if json.dumps(found[name]) != json.dumps(said[name])]
    require(not wrong, f"{FACTS} contradicts the model: {', '.join(wrong)}.")
    return model
