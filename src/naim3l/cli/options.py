"""Options of the model as a settings file and the command line give them, and their checks.

`naim3l.estimators.schema` defines what they may be. They are checked once, before any table is
read, which may take long.
"""

from collections.abc import Collection, Mapping
from typing import Any

from naim3l.estimators.naim3l import NAIM3L
from naim3l.estimators.schema import AUTO, PARAMETERS, Parameter, check_together, one_of
from naim3l.features.kernels import HISTOGRAM_KERNELS
from naim3l.features.recipes import RECIPES
from naim3l.files.readers.errors import ReadError, close_names, quote

# Besides what is the same in Python: a recipe by its name, and whether lam and ridge are tuned.
OPTIONS = {name: parameter for name, parameter in PARAMETERS.items() if parameter.kinds} | {
    "transformer": one_of(RECIPES, str),
    "tune": Parameter(kinds=(bool,)),
}
# Types of the keys of [model] in a settings file.
MODEL_KEYS = {
    name: (*parameter.kinds, dict) if parameter.per_view else parameter.kinds
    for name, parameter in OPTIONS.items()
}


def check_options(
    options: Mapping[str, Any], views: Collection[str], prefixes: Mapping[str, str] | None = None
) -> None:
    """Refuse values that an option cannot have, and views that do not exist.

    Parameters
    ----------
    options : mapping
        Keys are those of `OPTIONS`.
    views : collection of str
        Names of the views.
    prefixes : mapping of str to str, optional
        What errors put before the names of options, such as the file that they are from.
    """
    for key, value in options.items():
        prefix = (prefixes or {}).get(key, "")
        for view in value if isinstance(value, Mapping) else ():
            if view not in views:
                raise ReadError(f"{prefix}{key}: no view {quote(view)}; {close_names(view, views)}")
        try:
            OPTIONS[key].check_value(key, value, entry="{}.{}")
        except ValueError as error:
            raise ReadError(f"{prefix}{error}") from None


def check_combination(options: Mapping[str, Any]) -> None:
    """Refuse options that are possible alone, but not with each other, or to no effect.

    Parameters
    ----------
    options : mapping
        Those of a fit, all of them; checked by `check_options`.
    """
    _check_kernels(options)
    if "metric" in options and not is_tuned(options):
        raise ReadError("metric is what lam and ridge are chosen by, and they are given.")
    if "solver" in options and is_tuned(options):
        raise ReadError("solver is for a given lam and ridge; with tune = true, leave it out.")
    if options.get("ridge") == AUTO and is_tuned(options):
        raise ReadError('ridge = "auto" is for a given lam; with tune = true, give numbers.')
    try:
        check_together(NAIM3L().get_params(deep=False) | options)
    except ValueError as error:
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
        if of_view in HISTOGRAM_KERNELS and "transformer" in options:
            raise ReadError(
                f"kernel {of_view!r} compares counts as they are, and transformer "
                f"{options['transformer']!r} would make negative numbers of them; give one of the "
                "two."
            )


def is_tuned(options: Mapping[str, Any]) -> bool:
    """Whether lam and ridge are chosen on held-out labels: unless one is given, or a solver."""
    return bool(options.get("tune", not {"lam", "ridge", "solver"} & set(options)))
