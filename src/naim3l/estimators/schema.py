"""The parameters of all models: allowed values, in Python, in settings and on the command line.

Models check themselves against `PARAMETERS` when they are fitted; keys and types of settings files
are taken from it. A parameter whose meaning depends on the model is replaced in that model's own
copy; `naim3l.deep.network_options` adds those of networks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from naim3l._parameters import check_choice, check_in_range, check_number, check_whole_number
from naim3l.decisions.fusion import FUSIONS
from naim3l.decisions.held_out import check_metric
from naim3l.decisions.thresholds import check_threshold
from naim3l.features.kernels import N_LANDMARKS, check_gamma, check_kernel, check_landmarks
from naim3l.features.recipes import MAX_COMPONENTS
from naim3l.input.labels import CODINGS
from naim3l.problem.on_device import CPU, check_device
from naim3l.solvers import SOLVERS

# Every lam and every fold of a search is a fit.
MOST_LAMS = MOST_FOLDS = 1000
ALL_CORES = -1
# The ridge that bounds the objective.
AUTO = "auto"


@dataclass(frozen=True)
class Parameter:
    """The allowed values of a parameter.

    Attributes
    ----------
    check : callable, optional
        Function of a name and a value, which raises a ValueError that begins with the name. None
        if the fit has to check the value against the data.
    kinds : tuple of types
        Types of the value in a settings file, ``float`` for any number; empty if a settings file
        cannot contain the parameter.
    optional : bool
        Whether None is allowed.
    per_view : bool
        Whether a mapping from views to values is allowed; None there is a view without a value.
    """

    check: Callable[[str, Any], None] | None = None
    kinds: tuple[type, ...] = ()
    optional: bool = False
    per_view: bool = False

    def check_value(self, name: str, value: Any, entry: str = "{}[{!r}]") -> None:
        """Refuse a value, or an entry of a mapping from views to values.

        Parameters
        ----------
        name : str
            Name of the parameter in the error.
        value : object
        entry : str
            Format of the name of an entry in the error, with places for parameter and view.
        """
        if self.per_view and isinstance(value, Mapping):
            values = {entry.format(name, view): of_view for view, of_view in value.items()}
        else:
            values = {name: value}
        for called, one in values.items():
            may_be_none = self.optional or called != name
            if self.check is not None and not (one is None and may_be_none):
                self.check(called, one)


def in_range(name: str, *, or_zero: bool = False) -> Parameter:
    """A number in the range with this name in `naim3l._parameters.RANGES`."""
    return Parameter(partial(check_in_range, of=name, or_zero=or_zero), (float,))


def whole_number(at_least: int, at_most: int | None = None) -> Parameter:
    return Parameter(partial(check_whole_number, at_least=at_least, at_most=at_most), (int,))


def one_of(allowed: Iterable[Any], *kinds: type) -> Parameter:
    return Parameter(partial(check_choice, allowed=allowed), kinds)


def _numbers(of: str, *, or_zero: bool = False) -> Parameter:
    """A sequence of numbers in the range of another parameter."""
    return Parameter(partial(_check_numbers, of=of, or_zero=or_zero))


def is_sequence(values: Any) -> bool:
    return isinstance(values, Sequence | np.ndarray)


def _check_numbers(name: str, values: Any, *, of: str, or_zero: bool) -> None:
    if not is_sequence(values) or isinstance(values, str) or not len(values):
        raise ValueError(f"{name} must be a sequence of at least one number, got {values!r}.")
    for i, value in enumerate(values):
        check_in_range(f"{name}[{i}]", value, of=of, or_zero=or_zero)


def _check_ridge(name: str, ridge: Any) -> None:
    if isinstance(ridge, str) and ridge != AUTO:
        raise ValueError(f"{name} must be a number or {AUTO!r}, got {ridge!r}.")
    if ridge != AUTO:
        check_in_range(name, ridge, of="ridge", or_zero=True)


def _check_lams(name: str, lams: Any) -> None:
    if is_sequence(lams):
        _check_numbers(name, lams, of="lam", or_zero=False)
    else:
        check_whole_number(name, lams, at_least=1, at_most=MOST_LAMS)


def _check_jobs(name: str, n_jobs: Any) -> None:
    if n_jobs != ALL_CORES:
        check_whole_number(name, n_jobs, at_least=1)


def _check_init(name: str, init: Any) -> None:
    if not isinstance(init, Mapping):
        raise ValueError(f"{name} must be a mapping {{view: weights}} or None, got {init!r}.")


def _check_seed(name: str, random_state: Any) -> None:
    try:
        check_random_state(random_state)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


SWITCH = one_of((True, False), bool)
CHECKED_BY_FIT = Parameter()

PARAMETERS: dict[str, Parameter] = {
    # The objective.
    "lam": in_range("lam"),
    "ridge": Parameter(_check_ridge, (float, str)),
    "positive_weight": in_range("positive_weight"),
    "low_rank": SWITCH,
    "high_rank": SWITCH,
    "C": Parameter(partial(check_in_range, of="C")),
    # Features.
    "views": CHECKED_BY_FIT,
    "transformer": Parameter(per_view=True),
    "n_components": whole_number(at_least=1),
    "kernel": Parameter(check_kernel, (str,), optional=True, per_view=True),
    "n_landmarks": Parameter(check_landmarks, (int,)),
    "gamma": Parameter(check_gamma, (float, str), per_view=True),
    "fit_intercept": SWITCH,
    "label_coding": one_of(CODINGS),
    # Decisions.
    "threshold": Parameter(lambda name, value: check_threshold(value), (float, str)),
    "calibrate": one_of((True, False)),
    "compare": one_of((True, False)),
    "exhaustive": one_of((True, False)),
    "fusion": one_of(FUSIONS),
    # The search.
    "lams": Parameter(_check_lams),
    "ridges": _numbers("ridge", or_zero=True),
    "cv": Parameter(partial(check_whole_number, at_least=2, at_most=MOST_FOLDS)),
    "gamma_factors": _numbers("gamma_factors"),
    "metric": Parameter(lambda name, value: check_metric(value), (str,)),
    "n_jobs": Parameter(_check_jobs, optional=True),
    # The solver.
    "solver": one_of(SOLVERS, str),
    "mu": Parameter(partial(check_in_range, of="mu"), optional=True),
    "max_iter": whole_number(at_least=1),
    "tol": Parameter(partial(check_number, above=0, or_equal=True), (float,)),
    "init": Parameter(_check_init, optional=True),
    "device": Parameter(check_device, (str,)),
    "checkpoint": CHECKED_BY_FIT,
    "random_state": Parameter(_check_seed, (int,)),
    "verbose": Parameter(partial(check_whole_number, at_least=0)),
}


def check_parameters(values: Mapping[str, Any], schema: Mapping[str, Parameter]) -> None:
    """Refuse values of a model's parameters, one by one and then together.

    Parameters
    ----------
    values : mapping of str to object
        Parameters that are not in the schema, such as those of a user's subclass, are not checked.
    schema : mapping of str to Parameter
    """
    for name, value in values.items():
        if name in schema:
            schema[name].check_value(name, value)
    check_together(values)


def check_together(values: Mapping[str, Any]) -> None:
    """Refuse values of parameters that are allowed, but not in combination."""
    if values.get("high_rank") and not values.get("low_rank"):
        raise ValueError(
            "high_rank=True needs low_rank=True: alone, the high-rank term rewards scores "
            "without bound."
        )
    if values.get("solver") == "paper":
        if values.get("positive_weight", 1) != 1:
            raise ValueError("positive_weight= needs solver='fast'; Algorithm 1 has no weights.")
        if values.get("device", CPU) != CPU:
            raise ValueError("device= needs solver='fast'; Algorithm 1 works on the CPU.")
        if values.get("checkpoint") is not None:
            raise ValueError("checkpoint= needs solver='fast'; 'paper' keeps no state.")


def check_views(
    values: Mapping[str, Any], schema: Mapping[str, Parameter], views: Sequence[str]
) -> None:
    """Refuse mappings from views to values with views that are not in the data."""
    for name, value in values.items():
        if name in schema and schema[name].per_view and isinstance(value, Mapping):
            extra = sorted(set(value) - set(views), key=str)
            if extra:
                raise ValueError(f"{name}: no views {extra}; the data have {list(views)}.")


def without_effect(values: Mapping[str, Any], *, wide: bool) -> Iterator[str]:
    """Warnings about parameters that are set but have no effect.

    Parameters
    ----------
    values : mapping of str to object
        Checked parameters of a model.
    wide : bool
        Whether it is fitted on one wide table.
    """
    if not any(kernel is not None for kernel in _of_views(values.get("kernel"))):
        for name, default in (("n_landmarks", N_LANDMARKS), ("gamma", "auto")):
            if any(value != default for value in _of_views(values.get(name, default))):
                yield (
                    f"{name}={values[name]!r} has no effect, because no view has a kernel; give "
                    f"kernel=, or leave {name} out."
                )
    recipes = [given for given in _of_views(values.get("transformer")) if isinstance(given, str)]
    if values.get("n_components", MAX_COMPONENTS) != MAX_COMPONENTS and not recipes:
        yield (
            f"n_components={values['n_components']!r} has no effect, because no view has one of "
            "the recipes; give your transformers the number of components."
        )
    if not wide and values.get("fusion", "mean") != "mean":
        yield (
            f"fusion={values['fusion']!r} has no effect on tables apart: it fuses the views of one "
            "wide table. naim3l.fuse fuses predictions of tables apart."
        )


def _of_views(value: Any) -> list[Any]:
    """The value for all views, or the values of the views that have one."""
    return [v for v in value.values() if v is not None] if isinstance(value, Mapping) else [value]
