"""Checks of parameters; errors name the parameter, the value, and the allowed values.

The ranges of numbers are defined here for models, networks, settings and the command line.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Range:
    """Range of a positive parameter; beyond it only rounding errors would be left."""

    least: float
    most: float


# Factor of one term of an objective, whose other terms are of the order of the number of rows.
_FACTOR = Range(1e-10, 1e10)
RANGES = {
    "lam": _FACTOR,
    "ridge": _FACTOR,
    "mu": _FACTOR,
    "C": _FACTOR,
    "weight_decay": _FACTOR,
    "learning_rate": _FACTOR,
    "positive_weight": Range(1e-6, 1e6),
    "gamma": Range(1e-100, 1e100),  # one over the square of features
    "gamma_factors": Range(1e-6, 1e6),
}


def check_in_range(name: str, value: Any, *, of: str = "", or_zero: bool = False) -> None:
    """Refuse anything but a number in the range of a parameter.

    Parameters
    ----------
    name : str
        Name of the parameter in the error.
    value : object
    of : str
        Key of ``RANGES``, if it is not the name.
    or_zero : bool
        Whether 0, which leaves a term out, is allowed as well.
    """
    check_number(name, value, above=0, or_equal=or_zero)
    allowed = RANGES[of or name]
    if value != 0 and not allowed.least <= value <= allowed.most:
        zero = "0, or " if or_zero else ""
        raise ValueError(
            f"{name} must be {zero}from {allowed.least:g} to {allowed.most:g}, got {value!r}: "
            "beyond that, one term is lost to the rounding error of another."
        )


def check_number(name: str, value: Any, *, above: float, or_equal: bool = False) -> None:
    """Refuse anything but a finite number above (or equal to) a bound."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not (is_number and _is_finite(value) and (value > above or (or_equal and value == above))):
        sign = ">=" if or_equal else ">"
        raise ValueError(f"{name} must be a finite number {sign} {above:g}, got {value!r}.")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits, which is too large for a float
        return False


def check_whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> None:
    """Refuse anything but a whole number from ``at_least`` to ``at_most``."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not (is_whole and value >= at_least):
        raise ValueError(f"{name} must be a whole number >= {at_least}, got {value!r}.")
    if at_most is not None and value > at_most:
        raise ValueError(f"{name} must be a whole number <= {at_most}, got {value!r}.")


def check_choice(name: str, value: Any, allowed: Any) -> None:
    """Refuse a value that is not among the allowed ones."""
    if not isinstance(value, str | bool | np.bool_) or value not in list(allowed):
        raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}.")
