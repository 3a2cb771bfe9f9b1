"""Parameters that networks have and linear models do not, and their checks."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from naim3l._parameters import check_number, check_whole_number
from naim3l.deep.loss import DATA_TERMS
from naim3l.estimators.schema import (
    CHECKED_BY_FIT,
    PARAMETERS,
    SWITCH,
    Parameter,
    in_range,
    one_of,
    whole_number,
)
from naim3l.problem.on_device import find_device

# With more, a fit on the remaining entries would say little about a fit on all of them.
MOST_HELD_OUT = 0.5


def _check_validation(name: str, share: Any) -> None:
    check_number(name, share, above=0, or_equal=True)
    if share > MOST_HELD_OUT:
        raise ValueError(f"{name} must be <= {MOST_HELD_OUT}, got {share!r}.")


def _check_epochs(name: str, max_epochs: Any) -> None:
    if not (isinstance(max_epochs, str) and max_epochs == "auto"):
        check_whole_number(f"{name}, if not 'auto',", max_epochs, at_least=1)


def _check_hidden(name: str, hidden: Any) -> None:
    is_array = isinstance(hidden, np.ndarray) and hidden.ndim == 1
    if isinstance(hidden, str | bytes) or not (is_array or isinstance(hidden, Sequence)):
        raise ValueError(f"{name} must be a sequence of widths such as (256,), got {hidden!r}.")
    for n_units in hidden:
        check_whole_number(f"{name}: each width", n_units, at_least=1)


def _check_dropout(name: str, dropout: Any) -> None:
    check_number(name, dropout, above=0, or_equal=True)
    if dropout >= 1:
        raise ValueError(f"{name} must be < 1, got {dropout!r}.")


def check_layers(hidden: Any, dropout: Any, noise: Any = 0.0, shared_head: Any = False) -> None:
    """Refuse values that the parameters of default encoders cannot have."""
    values = {"hidden": hidden, "dropout": dropout, "noise": noise, "shared_head": shared_head}
    for name, value in values.items():
        NETWORK_PARAMETERS[name].check_value(name, value)


def check_encoders(encoders: Any, views: Sequence[str], *, shared_head: bool) -> None:
    """Refuse encoders that do not belong to the views, or cannot have one head."""
    if shared_head and not all_default(encoders):
        raise ValueError(
            "shared_head=True needs the default encoders, whose last layers are equally wide; "
            "leave encoders= or shared_head= out."
        )
    if isinstance(encoders, Mapping):
        if set(encoders) != set(views):
            lacking = sorted(set(views) - set(encoders))
            extra = sorted(set(encoders) - set(views), key=str)
            raise ValueError(
                f"encoders: lacking for views {lacking}, extra {extra}; the data have {views}."
            )
    elif encoders is not None and not callable(encoders):
        raise ValueError(
            f"encoders must be a mapping {{view: torch module}}, a callable of a view's name and "
            f"number of features, or None, got {encoders!r}."
        )
    elif isinstance(encoders, torch.nn.Module):
        raise ValueError(
            "encoders is one torch module; views have different columns, so give each its own in "
            "a mapping {view: module}."
        )


def all_default(encoders: Any) -> bool:
    """Whether all views use the default encoder; no function is called to find out."""
    if isinstance(encoders, Mapping):
        return all(encoder is None for encoder in encoders.values())
    return encoders is None


NETWORK_PARAMETERS = PARAMETERS | {
    "lam": in_range("lam", or_zero=True),
    "encoders": CHECKED_BY_FIT,
    "hidden": Parameter(_check_hidden),
    "dropout": Parameter(_check_dropout),
    "noise": Parameter(partial(check_number, above=0, or_equal=True)),
    "shared_head": SWITCH,
    "data_term": one_of(DATA_TERMS),
    "learning_rate": in_range("learning_rate"),
    "weight_decay": in_range("weight_decay", or_zero=True),
    "max_epochs": Parameter(_check_epochs),
    "batch_size": whole_number(at_least=1),
    "validation": Parameter(_check_validation),
    "patience": whole_number(at_least=1),
    "device": Parameter(lambda name, value: find_device(value)),
    "amp": SWITCH,
}
