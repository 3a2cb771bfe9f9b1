"""Variables of MATLAB files: version 7.3, which is HDF5, with h5py, all others with SciPy."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from scipy import sparse
from scipy.io import loadmat, whosmat
from scipy.io.matlab import matfile_version

from naim3l_bench.datasets.source import Array

_HDF5 = 2  # version as SciPy counts them


class Variable(NamedTuple):
    """A variable of a file: where it is, its shape in MATLAB and its MATLAB class."""

    path: Path
    name: str
    shape: tuple[int, ...]
    kind: str


def list_variables(path: Path) -> list[Variable]:
    """Variables of a file; reads no values."""
    with _readable(path):
        if _version(path) != _HDF5:
            with _strict():
                return [Variable(path, *entry) for entry in whosmat(path, appendmat=False)]
        with h5py.File(path, "r") as file:
            names = [name for name in file if not name.startswith("#")]  # "#refs#" is no variable
            return [Variable(path, name, *_hdf5_header(file[name])) for name in names]


def read_variable(variable: Variable) -> Array:
    """A matrix in the type in which it is stored, which can be smaller than its class."""
    path, name = variable.path, variable.name
    with _readable(path):
        if _version(path) != _HDF5:
            return _dense(_load(path, name))
        with h5py.File(path, "r") as file:
            return _hdf5_matrix(file[name])


def read_cells(variable: Variable) -> list[Array]:
    """The matrices in a cell, column by column."""
    path, name = variable.path, variable.name
    if variable.kind != "cell":
        raise ValueError(f"{path}: {name} is of class {variable.kind}, not a cell")
    with _readable(path):
        if _version(path) != _HDF5:
            entries = [_dense(entry) for entry in _load(path, name).ravel(order="F")]
        else:
            with h5py.File(path, "r") as file:
                # MATLAB is column-major and HDF5 reverses the axes, so this is row by row.
                entries = [_hdf5_matrix(file[reference]) for reference in file[name][()].ravel()]
    for k, entry in enumerate(entries):
        if entry.ndim != 2 or entry.dtype.kind not in "biuf":
            raise ValueError(f"{path}: entry {k + 1} of cell {name} is not a matrix of numbers")
    return entries


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn any exception inside into a ValueError that names the file."""
    with path.open("rb"):  # a file that cannot be opened keeps its OSError
        pass
    try:
        yield
    except Exception as error:  # damage raises many types, from TypeError to zlib.error
        cause = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: not a readable .mat file ({cause})") from error


def _version(path: Path) -> int:
    """0 for version 4, 1 for version 5, 2 for version 7.3."""
    return int(matfile_version(path, appendmat=False)[0])


def _load(path: Path, name: str) -> Any:
    """A variable of a file of version 4 or 5."""
    with _strict():
        return loadmat(path, variable_names=[name], appendmat=False)[name]


@contextmanager
def _strict() -> Iterator[None]:
    """Turn warnings of SciPy, for example about unreadable numbers, into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def _hdf5_header(stored: Any) -> tuple[tuple[int, ...], str]:
    """Shape and class in MATLAB."""
    if "MATLAB_sparse" in stored.attrs:
        return (int(stored.attrs["MATLAB_sparse"]), len(stored["jc"]) - 1), "sparse"
    kind = stored.attrs.get("MATLAB_class", b"unknown")
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    return (tuple(reversed(stored.shape)) if hasattr(stored, "shape") else (), kind)


def _hdf5_matrix(stored: Any) -> Array:
    if "MATLAB_sparse" not in stored.attrs:
        values: Array = stored[()].T
        return values
    shape, _ = _hdf5_header(stored)
    if "data" not in stored:  # nothing but zeros
        return np.zeros(shape)
    values, rows, starts = (np.asarray(stored[part][()]) for part in ("data", "ir", "jc"))
    return _dense(sparse.csc_array((values, rows, starts), shape=shape))
