"""Checks of parameters that networks have and linear models have not."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from naim3l.parameters import check_whole_number


def check_share(name: str, value: float, *, below: float, or_equal: bool = False) -> None:
    """Refuse a number, known not to be negative, that reaches or passes a bound."""
    if value > below or (value == below and not or_equal):
        sign = "<=" if or_equal else "<"
        raise ValueError(f"{name} must be {sign} {below:g}, got {value!r}.")


def check_hidden(hidden: Any) -> None:
    """Refuse what is not a sequence of widths."""
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ValueError(f"hidden must be a sequence of widths such as (256,), got {hidden!r}.")
    for n_units in hidden:
        check_whole_number("hidden: each width", n_units, at_least=1)


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


def find_device(device: Any) -> torch.device:
    """Device of a name; "auto" is CUDA where it is available."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto' or a device of torch, got {device!r}.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but CUDA is not available here.")
    return found
