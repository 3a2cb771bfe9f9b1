"""Checks of the parameters that only networks have."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from naim3l._parameters import (
    check_choice,
    check_in_range,
    check_number,
    check_whole_number,
)
from naim3l.deep.loss import DATA_TERMS

# With more, a fit on the remaining entries would say little about a fit on all of them.
MOST_HELD_OUT = 0.5


def check_parameters(model: Any) -> None:
    """Refuse parameters of a `DeepNAIM3L` that training cannot work with."""
    for name in ("lam", "weight_decay"):
        check_in_range(name, getattr(model, name), or_zero=True)
    check_in_range("learning_rate", model.learning_rate)
    check_number("validation", model.validation, above=0, or_equal=True)
    for name in ("batch_size", "patience"):
        check_whole_number(name, getattr(model, name), at_least=1)
    if not (isinstance(model.max_epochs, str) and model.max_epochs == "auto"):
        check_whole_number("max_epochs, if not 'auto',", model.max_epochs, at_least=1)
    check_whole_number("verbose", model.verbose, at_least=0)
    for name in ("low_rank", "high_rank", "amp"):
        check_choice(name, getattr(model, name), (True, False))
    check_choice("data_term", model.data_term, DATA_TERMS)
    if model.validation > MOST_HELD_OUT:
        raise ValueError(f"validation must be <= {MOST_HELD_OUT}, got {model.validation!r}.")
    check_layers(model.hidden, model.dropout)
    find_device(model.device)
    if model.high_rank and not model.low_rank:
        raise ValueError(
            "high_rank=True needs low_rank=True: alone, the high-rank term rewards scores "
            "without bound."
        )


def check_layers(hidden: Any, dropout: Any) -> None:
    """Refuse ``hidden`` that is not a sequence of widths, and ``dropout`` that is not a share."""
    is_array = isinstance(hidden, np.ndarray) and hidden.ndim == 1
    if isinstance(hidden, str | bytes) or not (is_array or isinstance(hidden, Sequence)):
        raise ValueError(f"hidden must be a sequence of widths such as (256,), got {hidden!r}.")
    for n_units in hidden:
        check_whole_number("hidden: each width", n_units, at_least=1)
    check_number("dropout", dropout, above=0, or_equal=True)
    if dropout >= 1:
        raise ValueError(f"dropout must be < 1, got {dropout!r}.")


def check_encoders(encoders: Any, views: Sequence[str]) -> None:
    """Refuse encoders that do not belong to the views."""
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


def find_device(device: Any) -> torch.device:
    """Device with the given name; "auto" is CUDA if available."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto' or a device of torch, got {device!r}.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but CUDA is not available here.")
    try:
        torch.zeros(1, device=found).cpu()  # "meta" has no values to copy back
    except Exception as error:  # each kind of device raises its own errors
        reason = str(error).partition(". ")[0]  # the rest is for people who build torch
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); use 'auto' or 'cpu'."
        ) from error
    return found
