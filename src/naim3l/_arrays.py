"""Types of arrays, and what the libraries of arrays do not have in common."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
Mask = NDArray[np.bool_]


def namespace_of(A: Any) -> Any:
    """Functions of the array API standard, for the library of an array."""
    if isinstance(A, np.ndarray):
        return np
    from array_api_compat import array_namespace  # from the extra "torch"

    return array_namespace(A)


def as_numpy(A: Any) -> NDArray[Any]:
    """An array of any library and device as a NumPy array."""
    return np.asarray(A.cpu() if hasattr(A, "cpu") else A)


def inner(A: Any, B: Any) -> float:
    """Sum of the products of all entries of two arrays of one shape."""
    if isinstance(A, np.ndarray):
        return float(np.vdot(A, B))
    return float((A * B).sum())


def norm(A: Any) -> float:
    """Root of the sum of all squares."""
    return math.sqrt(inner(A, A))
