"""Arrays of a model file, dense or sparse, with their sizes and indices checked."""

import math
import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.files.models.archive import read_members, require

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0}  # fmt: skip
# Allowed classes of sparse arrays; their names begin with the name of the format.
SPARSE = {f"{kind.__module__}.{kind.__name__}": kind for kind in (
    sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix)}  # fmt: skip
_SPARSE_PARTS = {"data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy"}
# Objects are pickled, and records belong to trees, whose nodes cannot be checked.
_KINDS = "biufcmMUS"


class Arrays:
    """Arrays by the names of their members; each is read once.

    Parameters
    ----------
    members : mapping of str to bytes
    room : int
        Largest size of an array in any dimension.
    """

    def __init__(self, members: Mapping[str, bytes], room: int) -> None:
        self._members, self._room = members, room
        self._read: dict[str, Any] = {}

    def dense(self, name: str) -> NDArray[Any]:
        """Array of a member such as ``0.npy``."""
        if name not in self._read:
            self._read[name] = self._array(name, self._member(name, ".npy"))
        return self._read[name]

    def sparse(self, name: str, class_name: str) -> Any:
        """Sparse array or matrix of a member such as ``0.npz``."""
        content = self._member(name, ".npz")
        parts = {part: self._array(f"{part} of {name}", array)
                 for part, array in read_members(content).items()}  # fmt: skip
        require(_SPARSE_PARTS <= set(parts) <= _SPARSE_PARTS | {"_is_array.npy"},
                f"{name} holds no sparse array.")  # fmt: skip
        kind, shape = SPARSE[class_name], parts["shape.npy"].tolist()
        fits = parts["format.npy"].tolist() == kind.__name__[:3].encode()
        require(fits, f"{name} is of another format than {class_name!r}.")
        fits = len(shape) == 2 and all(type(n) is int and 0 <= n <= self._room for n in shape)
        require(fits, f"{name} has no shape that its file has room for.")
        data, indices, indptr = (parts[f"{part}.npy"] for part in ("data", "indices", "indptr"))
        whole = indices.dtype.kind == indptr.dtype.kind == "i" and data.dtype.kind in "biuf"
        require(whole, f"{name} has indices that are no whole numbers.")
        matrix = kind((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        return matrix

    def _member(self, name: str, extension: str) -> bytes:
        has_role = name in self._members and name.endswith(extension)
        require(has_role, f"{name!r} is in a wrong role, or missing.")
        return self._members[name]

    def _array(self, name: str, content: bytes) -> NDArray[Any]:
        stream = BytesIO(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd characters in a damaged header
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
        require(not dtype.hasobject, f"{name} holds pickled objects, which are never loaded.")
        require(dtype.kind in _KINDS, f"{name} holds {dtype}, which no model needs.")
        size = math.prod(shape) * dtype.itemsize
        fits = min(shape, default=0) >= 0 and size == len(content) - stream.tell()
        require(fits, f"{name} does not have the size that its header states.")
        fits = max(*shape, 0, 0 if math.prod(shape) else dtype.itemsize) <= self._room
        require(fits, f"{name} is longer than its file has room for.")
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
