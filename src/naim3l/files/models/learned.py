"""Checks of what the methods for aligned rows have learned."""

from typing import Any

import numpy as np

from naim3l.files.models.archive import require
from naim3l.files.models.parts import check_shapes


def check_learned(model: Any) -> None:
    """Refuse a model of aligned rows without its learned arrays, or with arrays of other shapes.

    Parameters
    ----------
    model : one of `naim3l.files.models.parts.ALIGNED_MODELS`
        Its reader and ``n_encoded_`` have been checked.
    """
    require(model.reader_.wide, "its method needs one wide table.")
    shapes = {f"{name}_": shape for name, shape in model._shapes.items()}
    for name in shapes:
        array, kind = getattr(model, name, None), "b" if name[:-1] in model._masks else "f"
        fits = isinstance(array, np.ndarray) and array.dtype.kind == kind
        require(fits, f"it lacks {name}, or has it in another type.")
    n_features = sum(model.n_encoded_.values())
    sizes = {"d": n_features, "c": len(model.label_names_), "v": len(model.views_)}
    check_shapes(model, shapes, sizes)
