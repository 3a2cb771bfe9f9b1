"""Description of a fitted model, which is written to its file as JSON."""

from typing import Any

import numpy as np

_PLAIN = (bool, int, float, str, type(None))


def describe(model: Any) -> dict[str, Any]:
    """Facts about a fitted model, as types of JSON."""
    kernels = _kernels(model)
    return {
        "class": type_name(model),
        "form": model.reader_.form_,
        "label_names": list(model.label_names_),
        # Without evidence, such as after an interrupt, views are fused by their mean.
        "fusion": "mean" if model.evidence_ is None else _plain(model.fusion),
        "views": {
            view: {"columns": model.reader_.n_columns(view), "weights": n_inputs(model, view)}
            | kernels.get(view, {})
            | _roles(model, view)
            for view in model.views_
        },
        "lam": _plain(getattr(model, "lam_", getattr(model, "lam", None))),
        "ridge": _plain(getattr(model, "ridge_", getattr(model, "ridge", None))),
        "n_iter": _plain(getattr(model, "n_iter_", None)),
        "converged": _plain(getattr(model, "converged_", None)),
        "parameters": {name: _plain(value) for name, value in model.get_params(False).items()},
    }


def _kernels(model: Any) -> dict[str, dict[str, Any]]:
    """Kernel and gamma of the views with a kernel; other views have no such facts."""
    return {
        view: {"kernel": _plain(kernel_map.kernel), "gamma": _plain(kernel_map.gamma_)}
        for view, kernel_map in model.kernel_maps_.items()
    }


def _roles(model: Any, view: str) -> dict[str, Any]:
    """Id column and number of known labels of a view that was read from a file."""
    roles = model.roles_.get(view)
    return {} if roles is None else {"id": roles.id, "labels": len(roles.labels)}


def has_networks(model: Any) -> bool:
    return hasattr(type(model), "networks_")


def n_inputs(model: Any, view: str) -> int:
    """Number of features of a view, as its weights have them."""
    if hasattr(model, "n_encoded_"):
        return int(model.n_encoded_[view])
    if hasattr(model, "members_"):  # those of all members
        return sum(n_inputs(member, view) for member in model.members_.values())
    weights = model.weights_[view]["encoder.centre"] if has_networks(model) else model.coef_[view]
    return int(weights.shape[0])


def _plain(value: Any) -> Any:
    """Numbers, text and flat lists of them; of all else, such as tables, the name of its type."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim < 2:
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [item if isinstance(item, _PLAIN) else type_name(item) for item in value]
    return value if isinstance(value, _PLAIN) else type_name(value)


def type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
