"""What a model file says of a model, and what must hold of a model that was loaded."""

from typing import Any

import numpy as np

from naim3l.persistence.archive import require

_PLAIN = (bool, int, float, str, type(None))


def describe(model: Any) -> dict[str, Any]:
    """Facts about a fitted model, as JSON has them."""
    columns, kernels = _column_counts(model), _kernels(model)
    return {
        "class": type_name(model),
        "form": "wide" if model._wide else "apart",
        "label_names": list(model.label_names_),
        "views": {
            view: {"columns": columns[view], "weights": _n_inputs(model, view)}
            | kernels.get(view, {})
            for view in model.views_
        },
        "lam": _plain(getattr(model, "lam_", getattr(model, "lam", None))),
        "ridge": _plain(getattr(model, "ridge_", getattr(model, "ridge", None))),
        "n_iter": _plain(getattr(model, "n_iter_", None)),
        "converged": _plain(getattr(model, "converged_", None)),
        "parameters": {name: _plain(value) for name, value in model.get_params(False).items()},
    }


def _column_counts(model: Any) -> dict[str, int]:
    if model._wide:
        return {view: len(positions) for view, positions in model._view_columns.items()}
    return {view: int(count) for view, count in model.n_features_in_.items()}


def _kernels(model: Any) -> dict[str, dict[str, Any]]:
    """Kernel and gamma of the views that have one; the others' facts are as they always were."""
    maps = {} if _has_networks(model) else model._kernel_maps()
    return {
        view: {"kernel": _plain(kernel_map.kernel), "gamma": _plain(kernel_map.gamma_)}
        for view, kernel_map in maps.items()
    }


def _has_networks(model: Any) -> bool:
    return hasattr(type(model), "networks_")


def _n_inputs(model: Any, view: str) -> int:
    """Features that a view's weights are for."""
    weights = model.weights_[view]["encoder.centre"] if _has_networks(model) else model.coef_[view]
    return int(weights.shape[0])


def _plain(value: Any) -> Any:
    """Numbers, text and flat lists of them; of all else the name of its type."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim < 2:
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [item if isinstance(item, _PLAIN) else type_name(item) for item in value]
    return value if isinstance(value, _PLAIN) else type_name(value)


def type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def check_state(model: Any) -> None:
    """Refuse a model that lacks a part, or whose parts do not fit together."""
    views, labels = model.views_, model.label_names_
    for name, texts in (("views_", views), ("label_names_", labels)):
        good = isinstance(texts, list) and texts and all(isinstance(t, str) for t in texts)
        require(good and len(set(texts)) == len(texts), f"{name} are not distinct names.")
    for name in ("_wide", "_labels_named", "_one_column"):
        require(isinstance(getattr(model, name), bool), f"{name} is neither True nor False.")
    require(model._coding in ("binary", "signed"), f"there is no label coding {model._coding!r}.")
    if model._wide:
        positions = {j for chosen in model._view_columns.values() for j in chosen}
        require(positions <= set(range(model.n_features_in_)), "views have columns that X has not.")
    columns = _column_counts(model)
    weights = ("weights_",) if _has_networks(model) else ("coef_", "intercept_")
    for name in (*weights, "transformers_", "_as_numbers", "columns"):
        part = columns if name == "columns" else getattr(model, name)
        fits = isinstance(part, dict) and set(part) == set(views)
        require(fits, f"{name} are not those of the views {views}.")
    for view in views:
        if _has_networks(model):
            _check_network(model, view)
        else:
            _check_weights(model.coef_[view], model.intercept_[view], len(labels), f"view {view!r}")
        transformer, n_inputs = model.transformers_[view], _n_inputs(model, view)
        usable = transformer is None or callable(getattr(transformer, "transform", None))
        usable = usable and not isinstance(transformer, type)
        require(usable, f"view {view!r} has no transformer.")
        known = isinstance(model._as_numbers[view], bool)
        require(known, f"view {view!r} is to be read neither as numbers nor as it is.")
        fits = transformer is not None or n_inputs == columns[view]
        require(fits, f"view {view!r}: weights for {n_inputs} of {columns[view]} columns.")


def _check_weights(coef: Any, intercept: Any, n_labels: int, where: str) -> None:
    arrays = all(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in (coef, intercept))
    fits = arrays and coef.ndim == 2 and coef.shape[1:] == intercept.shape == (n_labels,)
    require(fits, f"{where}: its weights do not fit {n_labels} labels.")
    finite = np.isfinite(coef).all() and np.isfinite(intercept).all()
    require(finite, f"{where}: its weights are not finite.")


def _check_network(model: Any, view: str) -> None:
    """Refuse networks that are not default ones with all their weights."""
    alone = model.encoders is None and model._default_encoders is True
    require(alone and "_networks" not in vars(model), "its encoders are not the default ones.")
    arrays, shapes = model.weights_[view], model._weight_shapes(view)
    require(isinstance(arrays, dict) and set(arrays) == set(shapes),
            f"view {view!r}: its weights are not those of its layers.")  # fmt: skip
    for name, shape in shapes.items():
        array = arrays[name]
        numbers = isinstance(array, np.ndarray) and array.dtype == np.float32
        require(numbers and array.shape == shape, f"view {view!r}: {name} is not {shape} numbers.")
        require(np.isfinite(array).all(), f"view {view!r}: its weights are not finite.")
