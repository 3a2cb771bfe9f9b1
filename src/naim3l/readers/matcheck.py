"""Structure of a matrix in a MATLAB file of version 5, checked before SciPy reads it.

SciPy's compiled reader trusts types, flags and counts within a matrix; on a damaged file it can
end the program instead of raising an error. Names below are those of MATLAB's description of
the format: a file is a header of 128 bytes and elements, each with a tag of type and length; a
matrix is an element that consists of elements.
"""

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

_HEADER = 128
_COMPRESSED, _MATRIX, _INT8, _INT32, _UINT32 = 15, 14, 1, 5, 6
# Bytes of a number of each type that holds numbers.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_SPARSE, _FIRST_NUMERIC, _LAST_NUMERIC = 5, 6, 15  # classes of matrices
_PEEK = 1 << 12  # bytes that are enough to find the name of a matrix


class _Element(NamedTuple):
    type: int
    content: bytes


def check_matrix(path: Path, name: str) -> None:
    """Raise ValueError if a matrix of numbers contradicts itself.

    Parameters
    ----------
    path : Path
        A MATLAB file of version 5; nothing is said about others.
    name : str
        Name of the matrix.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER)
        order = {b"IM": "<", b"MI": ">"}.get(header[126:])
        if order is None:
            return
        bodies = list(_matrices(file, order, name))
    if not bodies:
        raise ValueError(f"no sound beginning of a matrix named {name!r}")
    for body in bodies:
        _check_body(body, order)


def _matrices(file: BinaryIO, order: str, name: str) -> Iterator[bytes]:
    """Contents of the matrices of this name."""
    while len(tag := file.read(8)) == 8:
        kind, length = (int(number) for number in np.frombuffer(tag, f"{order}u4"))
        content = file.read(length)
        if len(content) != length:
            raise ValueError("the file is cut short")
        if kind == _COMPRESSED:
            start = zlib.decompressobj().decompress(content, _PEEK)
            if _name(start[8:], order) == name:
                yield _unpacked(content, order)
        elif kind == _MATRIX and _name(content[:_PEEK], order) == name:
            yield content


def _unpacked(content: bytes, order: str) -> bytes:
    """Content of a matrix that is compressed together with its tag."""
    whole = zlib.decompress(content)
    kind, length = (int(number) for number in np.frombuffer(whole[:8], f"{order}u4"))
    if kind != _MATRIX or length != len(whole) - 8:
        raise ValueError("a compressed matrix is of another type or length than it says")
    return whole[8:]


def _name(start: bytes, order: str) -> str | None:
    """Name of a matrix by the beginning of its content; None where there is none."""
    elements = _elements(start, order)
    try:
        parts = [next(elements) for _ in range(3)]
    except (StopIteration, ValueError):
        return None
    return parts[2].content.decode("latin-1")


def _elements(content: bytes, order: str) -> Iterator[_Element]:
    at = 0
    while at < len(content):
        if len(content) - at < 8:
            raise ValueError("a tag is cut short")
        kind, length = (int(n) for n in np.frombuffer(content[at : at + 8], f"{order}u4"))
        if kind >> 16:  # a short element: type, length and content in eight bytes
            kind, length = kind & 0xFFFF, kind >> 16
            if length > 4:
                raise ValueError(f"a short element of {length} bytes")
            start, end = at + 4, at + 8
        else:
            start, end = at + 8, at + 8 + -(-length // 8) * 8
        if start + length > len(content):
            raise ValueError(f"an element of {length} bytes, where fewer are left")
        yield _Element(kind, content[start : start + length])
        at = end


def _check_body(body: bytes, order: str) -> None:
    flags, shape, name, *parts = _elements(body, order)
    if (flags.type, len(flags.content)) != (_UINT32, 8) or name.type != _INT8:
        raise ValueError("a matrix without flags and name")
    if shape.type != _INT32 or len(shape.content) < 8 or len(shape.content) % 4:
        raise ValueError("a matrix without a shape")
    dims = [int(n) for n in np.frombuffer(shape.content, f"{order}i4")]
    if min(dims) < 0:
        raise ValueError(f"a matrix of shape {dims}")
    word = int(np.frombuffer(flags.content[:4], f"{order}u4")[0])
    kind, is_complex = word & 0xFF, word >> 11 & 1
    for part in parts:
        if part.type not in _SIZES:
            raise ValueError(f"numbers of unknown type {part.type}")
    if kind == _SPARSE:
        _check_sparse(parts, dims, order, 3 + is_complex)
    elif _FIRST_NUMERIC <= kind <= _LAST_NUMERIC:
        counts = [len(part.content) / _SIZES[part.type] for part in parts]
        if counts != [math.prod(dims)] * (1 + is_complex):
            raise ValueError(f"a matrix of shape {dims} with {counts} numbers")
    else:
        raise ValueError(f"a matrix of class {kind}, which has no numbers")


def _check_sparse(parts: list[_Element], dims: list[int], order: str, n_parts: int) -> None:
    if len(parts) != n_parts or len(dims) != 2:
        raise ValueError(f"a sparse matrix of {len(parts)} parts, not {n_parts}")
    if {parts[0].type, parts[1].type} - {_INT32, _UINT32}:
        raise ValueError("a sparse matrix whose indices are not whole numbers")
    rows, starts = (np.frombuffer(part.content, f"{order}i4") for part in parts[:2])
    n_stored = min(len(part.content) // _SIZES[part.type] for part in parts[2:])
    sound = len(starts) == dims[1] + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
    if not sound or starts[-1] > min(len(rows), n_stored):
        raise ValueError("a sparse matrix whose columns do not add up")
    used = rows[: starts[-1]]
    if len(used) and not 0 <= used.min() <= used.max() < dims[0]:
        raise ValueError("a sparse matrix with a row outside its shape")
