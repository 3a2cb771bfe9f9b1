"""Check of the structure of a variable in a MATLAB version 5 file, before SciPy reads it.

SciPy's compiled reader trusts types, flags and counts within a matrix, and can crash on a damaged
file instead of raising an error. The terms are those of MATLAB's description of the format: a file
is a header of 128 bytes followed by elements, each with a tag of type and length; a matrix is an
element that consists of elements, and a cell is a matrix that consists of matrices.
Reading in a subprocess instead would cost half a second per file, and could limit memory on Linux
only.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

_HEADER, _TAG = 128, 8
_COMPRESSED, _MATRIX, _INT8, _INT32, _UINT32 = 15, 14, 1, 5, 6
# Bytes per number for each numeric type.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_CELL, _SPARSE, _FIRST_NUMERIC, _LAST_NUMERIC = 1, 5, 6, 15  # classes of matrices
_MOST_DIMENSIONS = 32
_PEEK = 1 << 12  # bytes that suffice to find the name of a matrix
_PIECE = 1 << 20  # bytes that are read at a time
# A dense copy of a sparse matrix may take this many bytes, or this many times its stored size.
MOST_DENSE, DENSE_TIMES = 1 << 26, 1000


class _Element(NamedTuple):
    """Type of an element, and the position of its content in the file."""

    type: int
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def take_variable(path: Path, name: str) -> BytesIO:
    """An in-memory file with a single variable of a file, after a check of its structure.

    SciPy then sees no other content of the file, whatever other damage it has.

    Parameters
    ----------
    path : Path
        A MATLAB file of version 5.
    name : str
        Name of a matrix of numbers, dense or sparse, or of a cell of such matrices.

    Raises
    ------
    ValueError
        If the file is truncated, the variable is inconsistent or has parts that are not numbers,
        or two variables have its name.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER)
        order = _byte_order(header)
        named = [e for e in _variables(file, order) if _name(_peek(file, e), order) == name]
        if len(named) != 1:
            raise ValueError(f"{len(named)} sound beginnings of a variable named {name!r}")
        alone = _unpacked(file, named[0], header)
    size = alone.seek(0, 2)
    kind, length = _tag(alone, _HEADER, order)
    if kind != _MATRIX or length != size - _HEADER - _TAG:
        raise ValueError("a variable is of another type or length than it says")
    _check_matrix(alone, _Element(kind, _HEADER + _TAG, size), order, name)
    alone.seek(0)
    return alone


def _byte_order(header: bytes) -> str:
    return "<" if header[126:] == b"IM" else ">"  # as in SciPy, for any other content


def _variables(file: BinaryIO, order: str) -> Iterator[_Element]:
    """Elements at the top level of the file, which are not padded to eight bytes."""
    end = file.seek(0, 2)
    at = _HEADER
    while at < end:
        kind, length = _tag(file, at, order)
        if at + _TAG + length > end:
            raise ValueError("the file is cut short")
        yield _Element(kind, at + _TAG, at + _TAG + length)
        at += _TAG + length


def _peek(file: BinaryIO, element: _Element) -> bytes:
    """Beginning of the content of a matrix, compressed or not."""
    file.seek(element.start)
    start = file.read(min(element.length, _PEEK))
    if element.type == _COMPRESSED:
        return zlib.decompressobj().decompress(start, _PEEK)[_TAG:]
    return start if element.type == _MATRIX else b""


def _unpacked(file: BinaryIO, element: _Element, header: bytes) -> BytesIO:
    """A file with this variable alone, read in pieces so that only the variable is in memory."""
    alone = BytesIO()
    alone.write(header)
    compressed = zlib.decompressobj() if element.type == _COMPRESSED else None
    at = element.start if compressed else element.start - _TAG
    file.seek(at)
    while at < element.end:
        piece = file.read(min(_PIECE, element.end - at))
        at += len(piece)
        alone.write(compressed.decompress(piece) if compressed else piece)
    if compressed and not compressed.eof:
        raise ValueError("a compressed variable is cut short")
    return alone


def _name(start: bytes, order: str) -> str | None:
    """Name of a matrix from the beginning of its content, or None."""
    elements = _elements(BytesIO(start), _Element(_MATRIX, 0, len(start)), order)
    try:
        parts = list(islice(elements, 3))
    except ValueError:
        return None
    return start[parts[2].start : parts[2].end].decode("latin-1") if len(parts) == 3 else None


def _elements(file: BinaryIO, whole: _Element, order: str) -> Iterator[_Element]:
    """Elements of a matrix."""
    at = whole.start
    while at < whole.end:
        kind, length = _tag(file, at, order)
        if kind >> 16:  # a short element: type, length and content in eight bytes
            kind, length = kind & 0xFFFF, kind >> 16
            if length > 4:
                raise ValueError(f"a short element of {length} bytes")
            start, after = at + 4, at + 8
        else:
            start, after = at + _TAG, at + _TAG + -(-length // 8) * 8
        if start + length > whole.end:
            raise ValueError(f"an element of {length} bytes, where fewer are left")
        yield _Element(kind, start, start + length)
        at = after


def _tag(file: BinaryIO, at: int, order: str) -> tuple[int, int]:
    """Type and length of an element."""
    kind, length = _numbers(file, _Element(0, at, at + _TAG), f"{order}u4").tolist()
    return kind, length


def _numbers(file: BinaryIO, element: _Element, dtype: str) -> NDArray[np.integer]:
    file.seek(element.start)
    content = file.read(element.length)
    if len(content) != element.length:
        raise ValueError("the file is cut short")
    return np.frombuffer(content, dtype)


def _check_matrix(
    file: BinaryIO, whole: _Element, order: str, name: str, *, inside: bool = False
) -> None:
    """Refuse an inconsistent matrix; ``inside`` a cell, no further cells are allowed."""
    flags, shape, title, *parts = _elements(file, whole, order)
    if (flags.type, flags.length) != (_UINT32, 8) or title.type != _INT8:
        raise ValueError("a matrix without flags and name")
    if shape.type != _INT32 or not 8 <= shape.length <= 4 * _MOST_DIMENSIONS or shape.length % 4:
        raise ValueError("a matrix without a shape")
    dims = _numbers(file, shape, f"{order}i4").tolist()
    if min(dims) < 0:
        raise ValueError(f"a matrix of shape {dims}")
    word = int(_numbers(file, flags, f"{order}u4")[0])
    kind, is_complex = word & 0xFF, word >> 11 & 1
    if kind == _CELL and not inside:
        _check_cell(file, parts, dims, order, name)
        return
    if kind != _SPARSE and not _FIRST_NUMERIC <= kind <= _LAST_NUMERIC:
        raise ValueError(f"{name} is not a matrix of numbers")
    for part in parts:
        if part.type not in _SIZES:
            raise ValueError(f"numbers of unknown type {part.type}")
    if kind == _SPARSE:
        _check_sparse_parts(file, parts, dims, order, 3 + is_complex)
        return
    counts = [part.length / _SIZES[part.type] for part in parts]
    if counts != [math.prod(dims)] * (1 + is_complex):
        raise ValueError(f"a matrix of shape {dims} with {counts} numbers")


def _check_cell(
    file: BinaryIO, parts: list[_Element], dims: list[int], order: str, name: str
) -> None:
    if len(parts) != math.prod(dims):
        raise ValueError(f"a cell of shape {dims} with {len(parts)} entries")
    for k, part in enumerate(parts, start=1):
        entry = f"entry {k} of cell {name}"
        # With a length that is not a multiple of eight, SciPy would misplace the next entry.
        if part.type != _MATRIX or part.length % 8:
            raise ValueError(f"{entry} has type {part.type} and {part.length} bytes")
        if part.length:  # else an empty matrix
            _check_matrix(file, part, order, entry, inside=True)


def _check_sparse_parts(
    file: BinaryIO, parts: list[_Element], dims: list[int], order: str, n_parts: int
) -> None:
    if len(parts) != n_parts or len(dims) != 2:
        raise ValueError(f"a sparse matrix of {len(parts)} parts, not {n_parts}")
    if {parts[0].type, parts[1].type} - {_INT32, _UINT32}:
        raise ValueError("a sparse matrix whose indices are not whole numbers")
    rows, starts = (_numbers(file, part, f"{order}i4") for part in parts[:2])
    n_stored = min(part.length // _SIZES[part.type] for part in parts[2:])
    check_sparse(rows, starts, n_stored, dims)


def check_sparse(
    rows: NDArray[Any], starts: NDArray[Any], n_stored: int, shape: Sequence[int]
) -> None:
    """Raise ValueError unless the parts of a sparse matrix are consistent.

    SciPy's own check skips a matrix whose last column ends at 0.

    Parameters
    ----------
    rows : array of shape (at least n_stored,)
        Row of each stored number.
    starts : array of shape (n_columns + 1,)
        Positions in ``rows`` where each column begins, and where the last one ends.
    n_stored : int
        Number of stored values.
    shape : (n_rows, n_columns)
    """
    if rows.ndim != 1 or starts.ndim != 1 or {rows.dtype.kind, starts.dtype.kind} - {*"iu"}:
        raise ValueError("a sparse matrix whose indices are not lists of whole numbers")
    signed = starts.astype(np.int64)
    sound = len(signed) == shape[1] + 1 and signed[0] == 0 and bool((np.diff(signed) >= 0).all())
    if not sound or signed[-1] > min(len(rows), n_stored):
        raise ValueError("a sparse matrix whose columns do not add up")
    used = rows[: signed[-1]]
    if len(used) and not 0 <= used.min() <= used.max() < shape[0]:
        raise ValueError("a sparse matrix with a row outside its shape")


def check_dense_size(shape: Sequence[int], n_bytes: int) -> None:
    """Raise ValueError if a sparse matrix would be far larger when dense than as stored.

    Parameters
    ----------
    shape : (n_rows, n_columns)
    n_bytes : int
        Size of its numbers and columns in the file.
    """
    needed = 8 * math.prod(map(int, shape))
    if needed > max(MOST_DENSE, DENSE_TIMES * n_bytes):
        raise ValueError(
            f"a sparse matrix of {shape[0]} x {shape[1]} would take {needed >> 20} MiB as a table, "
            f"and {n_bytes} bytes of it are stored"
        )
