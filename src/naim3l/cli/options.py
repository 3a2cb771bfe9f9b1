"""Options of the model whose values can be told to be wrong before any table is read."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from naim3l._parameters import check_choice, check_in_range, check_whole_number
from naim3l.features.kernels import KERNELS, check_gamma
from naim3l.files.readers.errors import ReadError, close_names, quote

AUTO = "auto"


def check_options(options: Mapping[str, Any], views: Iterable[str], *, prefix: str = "") -> None:
    """Refuse kernels that are not known, numbers that cannot be, and views that are not there.

    Parameters
    ----------
    options : mapping
        Of the model, as in `naim3l.cli.settings.Config`; those not in `CHECKS` are left alone.
    views : iterable of str
        Names of the views.
    prefix : str
        How errors begin the names of options.
    """
    names = list(views)
    for key, check in CHECKS.items():
        value = options.get(key)
        if isinstance(value, Mapping):
            _check_views(prefix + key, value, names)
            entries = {f"{prefix}{key}.{view}": of_view for view, of_view in value.items()}
        else:
            entries = {} if value is None else {prefix + key: value}
        for name, entry in entries.items():
            try:
                check(name, entry)
            except ValueError as error:
                raise ReadError(str(error)) from None


def _check_views(name: str, given: Mapping[str, Any], views: list[str]) -> None:
    for view in given:
        if view not in views:
            raise ReadError(f"{name}: no view {quote(view)}; {close_names(view, views)}")


def _check_kernel(name: str, value: Any) -> None:
    check_choice(name, value, KERNELS)


def _check_landmarks(name: str, value: Any) -> None:
    check_whole_number(name, value, at_least=1)


def _check_number(key: str, name: str, value: Any) -> None:
    check_in_range(name, value, of=key, or_zero=key == "ridge")


CHECKS: dict[str, Callable[[str, Any], None]] = {
    "kernel": _check_kernel,
    "n_landmarks": _check_landmarks,
    "gamma": check_gamma,
    "positive_weight": partial(_check_number, "positive_weight"),
    "lam": partial(_check_number, "lam"),
    "ridge": partial(_check_number, "ridge"),
}
