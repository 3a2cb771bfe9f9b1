"""Requirements on the attributes of a loaded model, and how they are checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from naim3l.files.models.archive import require
from naim3l.input.views import FUSED


@dataclass(frozen=True)
class Part:
    """Requirement on an attribute of a fitted model.

    Attributes
    ----------
    expected : str
        Description in the error.
    holds : function of a value and the model
        Whether the value meets the requirement.
    by : {"", "views", "blocks"}
        Whether the attribute is a mapping, with such a value for each view, or for each block of
        scores, which is a view, or all views of a wide table.
    empty : type, optional
        Type whose empty value is allowed as well: None, or a mapping without entries.
    optional : bool
        Whether the attribute may be missing.
    """

    expected: str
    holds: Callable[[Any, Any], Any]
    by: str = ""
    empty: type | None = None
    optional: bool = False


def are_numbers(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether a value is an array of finite floats of this shape."""
    array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return array and value.shape == shape and bool(np.isfinite(value).all())


def is_number(value: Any, *, above: float = -np.inf, or_nan: bool = False) -> bool:
    plain = isinstance(value, int | float | np.integer | np.floating) and type(value) is not bool
    return plain and bool(above <= value < np.inf or (or_nan and value != value))


def is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and type(value) is not bool and bool(value >= 0)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool)


def check_attribute(model: Any, name: str, part: Part) -> None:
    if not hasattr(model, name):
        require(part.optional, f"it lacks {name}.")
        return
    value = getattr(model, name)
    if type(value) is part.empty and not value:
        return
    if not part.by:
        require(part.holds(value, model), f"{name} should be {part.expected}.")
        return
    keys = [FUSED] if part.by == "blocks" and model.reader_.wide else model.views_
    fits = isinstance(value, dict) and set(value) == set(keys)
    require(fits, f"{name} are not those of the {part.by} {keys}.")
    for key in keys:
        require(part.holds(value[key], model), f"{name} of {key!r} should be {part.expected}.")
