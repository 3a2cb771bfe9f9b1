"""Types of arrays, and what the libraries of arrays do not have in common."""

import math
from collections.abc import Mapping
from dataclasses import fields
from itertools import count, takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Matrix = NDArray[np.floating]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]  # by name, as files store them


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
    return float(np.vdot(A, B) if isinstance(A, np.ndarray) else (A * B).sum())


def norm(A: Any) -> float:
    """Root of the sum of all squares."""
    return math.sqrt(inner(A, A))


def as_dense(A: Any) -> NDArray[Any]:
    """A dense or sparse array of NumPy or SciPy as a dense one."""
    return A.toarray() if hasattr(A, "toarray") else np.asarray(A)


def distinct(arrays: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First index of each distinct array of a stack, and the index of each among these."""
    if len(set(map(bytes, arrays[:, :1]))) == len(arrays):  # mostly they differ in the first row
        return np.arange(len(arrays)), np.arange(len(arrays))
    seen: dict[bytes, int] = {}
    inverse = np.array([seen.setdefault(A.tobytes(), len(seen)) for A in arrays])
    _, first = np.unique(inverse, return_index=True)
    return first, inverse


def eigh(stack: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues and eigenvectors of symmetric matrices, (..., n, n).

    The fast routine of LAPACK, by divide and conquer, fails for a finite matrix in rare cases
    and is then replaced by the plain one, matrix by matrix.
    """
    try:
        values, vectors = np.linalg.eigh(stack)
    except np.linalg.LinAlgError:
        matrices = stack.reshape(-1, *stack.shape[-2:])
        pairs = zip(*(linalg.eigh(A, driver="ev") for A in matrices), strict=True)
        values, vectors = (np.stack(of) for of in pairs)
    return values.reshape(stack.shape[:-1]), vectors.reshape(stack.shape)


class ArrayFields:
    """Base of dataclasses of arrays, whole numbers, and tuples of arrays, which files can store."""

    def to_arrays(self) -> Arrays:
        """All fields by name, from which `from_arrays` makes the same object, bit for bit.

        Arrays of a tuple are dense, and have their positions appended to the name.
        """
        arrays: Arrays = {}
        for name, value in vars(self).items():
            if isinstance(value, tuple):
                arrays |= {f"{name}{i}": as_dense(A) for i, A in enumerate(value)}
            else:
                arrays[name] = np.asarray(value)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """An object from its fields; other names are ignored."""
        values: dict[str, Any] = {}
        for name in (field.name for field in fields(cls)):  # type: ignore[arg-type]
            if name in arrays:
                values[name] = arrays[name].item() if arrays[name].ndim == 0 else arrays[name]
            else:
                names = takewhile(arrays.__contains__, (f"{name}{i}" for i in count()))
                values[name] = tuple(arrays[name] for name in names)
        return cls(**values)
