"""Checks of an estimator's parameters: an error names the parameter, the value, what is allowed."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_number(name: str, value: Any, *, above: float, or_equal: bool = False) -> None:
    """Refuse what is not a finite number above (or equal to) a bound."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not (
        is_number and math.isfinite(value) and (value > above or (or_equal and value == above))
    ):
        sign = ">=" if or_equal else ">"
        raise ValueError(f"{name} must be a finite number {sign} {above:g}, got {value!r}.")


def check_whole_number(name: str, value: Any, *, at_least: int) -> None:
    """Refuse what is not a whole number of at least ``at_least``."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not (is_whole and value >= at_least):
        raise ValueError(f"{name} must be a whole number >= {at_least}, got {value!r}.")


def check_choice(name: str, value: Any, allowed: Any) -> None:
    """Refuse what is not among the allowed values."""
    if not isinstance(value, str | bool | np.bool_) or value not in list(allowed):
        raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}.")
