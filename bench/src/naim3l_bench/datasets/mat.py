"""Reader for multi-view datasets in MATLAB files: six views in one file, or a file per view.

Files of version 7.3, which is HDF5, are read with h5py, all others with SciPy.
"""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.io import loadmat, whosmat
from scipy.io.matlab import matfile_version

from naim3l_bench.datasets.lear import PAPER_VIEWS, PARTS
from naim3l_bench.datasets.source import Array, MultiView, StoredView, naming

# Numbers of columns that identify a view of the paper; the colour histograms all have 4096.
_NAME_OF_LENGTH = {100: "DenseHue", 1000: "DenseSift", 512: "Gist"}
_LABELS = ("annot", "label", "labels")
_TYPES = {
    **{f"int{8 * size}": f"i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"u{size}" for size in (1, 2, 4, 8)},
    **{"double": "f8", "single": "f4", "logical": "u1", "sparse": "f8"},
}
Shape = tuple[int, ...]


class Variable(NamedTuple):
    """A variable of a file: where it is, its shape in MATLAB and its MATLAB class."""

    path: Path
    name: str
    shape: tuple[int, ...]
    kind: str


def find_six_view(name: str, folder: Path) -> list[Path]:
    """Files named ``<name>_six_view.mat`` or ``<name>.mat``, ignoring case."""
    pattern = re.compile(rf"{re.escape(name)}(_?six_?views?)?\.mat", re.IGNORECASE)
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def open_six_view(path: str | os.PathLike[str]) -> MultiView:
    """Data from a MATLAB file with a cell ``X`` of views and a matrix ``label``.

    Each view is n_samples x n_features or its transpose, and ``label`` is n_samples x n_labels or
    its transpose; the dimension that all have in common is the number of rows. Labels are 0
    or 1, or -1 or 1. A view is named after its number of columns if that identifies one of the
    paper's views (DenseHue 100, DenseSift 1000, Gist 512), otherwise view1, view2, ... by position.
    If rows and columns cannot be distinguished, it is a ValueError.

    A cell can only be read as a whole, so all views are in memory once the file is opened.
    """
    path = Path(path)
    variables = {variable.name: variable for variable in list_variables(path)}
    label = next((variables[key] for key in ("label", "labels") if key in variables), None)
    if label is None or "X" not in variables:
        raise ValueError(f"{path}: there are {sorted(variables)}, but not cell X and matrix label")
    cells, Y = read_cells(variables["X"]), read_variable(label)
    with naming(path):
        turn_labels, turns = _orientations([Y.shape], [[X.shape] for X in cells])
        tables = [X.T if turn else X for X, turn in zip(cells, turns, strict=True)]
        names = _names([X.shape[1] for X in tables])
        views = (StoredView.in_memory(X, [path]) for X in tables)
        return MultiView(
            dict(zip(names, views, strict=True)),
            _zero_one(Y.T if turn_labels else Y),
            label_files=[path],
        )


def find_view_files(name: str, folder: Path) -> list[Path]:
    """Files ``<name>_<View>.mat`` and ``<name>_<part>_<View>.mat``, and the label files."""
    pattern = _pattern(name)
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def open_view_files(name: str, folder: str | os.PathLike[str]) -> MultiView:
    """Data from MATLAB files, one or two per view; each view is read when it is accessed.

    Files are ``<name>_train_<View>.mat`` and ``<name>_test_<View>.mat`` with a matrix each, or
    ``<name>_<View>.mat`` with one matrix, or with two whose names contain train and test. Label
    files have annot, label or labels instead of the view. The orientation of matrices and the
    values of labels are handled as in `open_six_view`. Rows of train come first. Those of the
    paper's views that exist are in its order.
    """
    folder = Path(folder)
    parts = _parts(name, folder)
    labels = parts.pop("labels", [])
    with naming(folder):
        if not labels or not parts:
            raise ValueError(f"{name!r} needs .mat files of the labels and of at least one view")
        for view, variables in parts.items():
            if len(variables) != len(labels):
                raise ValueError(f"{view} has {len(variables)} parts, but the labels {len(labels)}")
        views = [view for view in PAPER_VIEWS if view in parts]
        turn_labels, turns = _orientations(
            [variable.shape for variable in labels],
            [[variable.shape for variable in parts[view]] for view in views],
        )
    table = _stored_view(labels, turn_labels)
    stored = {
        view: _stored_view(parts[view], turn) for view, turn in zip(views, turns, strict=True)
    }
    with naming(" and ".join(str(path) for path in table.files)):
        return MultiView(stored, _zero_one(table.read()), label_files=table.files)


def _orientations(
    labels: Sequence[Shape], views: Sequence[Sequence[Shape]]
) -> tuple[bool, list[bool]]:
    """Whether the labels, and which of the views, are transposed.

    `labels` has the shape of each part, and so has each of the views. Exactly one orientation must
    give labels and views the same number of rows in each part.
    """
    shapes = f"labels {list(labels)} and views {[list(parts) for parts in views]}"
    if any(len(shape) != 2 for parts in (labels, *views) for shape in parts):
        raise ValueError(f"{shapes}: only matrices can be read")
    fitting = []
    for turn in (False, True):
        n_rows = [shape[turn] for shape in labels]
        ways = [[way for way in (False, True) if _rows(parts, way) == n_rows] for parts in views]
        if all(ways):
            fitting.append((turn, ways))
    if not fitting:
        raise ValueError(f"{shapes} have no number of rows in common")
    turn, ways = fitting[0]
    if len(fitting) > 1 or any(len(way) > 1 for way in ways):
        raise ValueError(f"{shapes}: rows and columns cannot be told apart")
    return turn, [way[0] for way in ways]


def _rows(parts: Sequence[Shape], turn: bool) -> list[int]:
    return [shape[turn] for shape in parts]


def _names(lengths: list[int]) -> list[str]:
    """Name of each view, from its number of columns if unique, otherwise from its position."""
    return [
        _NAME_OF_LENGTH.get(d, f"view{v}") if lengths.count(d) == 1 else f"view{v}"
        for v, d in enumerate(lengths, start=1)
    ]


def _zero_one(Y: Array) -> Array:
    """Labels of -1 and 1 as 0 and 1; other labels unchanged."""
    return (Y > 0).astype(np.int8) if ((Y == -1) | (Y == 1)).all() else Y


def _pattern(name: str) -> re.Pattern[str]:
    """Pattern of the file names of a dataset, with groups for part and view."""
    what = "|".join((*PAPER_VIEWS, *_LABELS))
    return re.compile(rf"{re.escape(name)}_(?:(train|test)_)?({what})\.mat", re.IGNORECASE)


def _parts(name: str, folder: Path) -> dict[str, list[Variable]]:
    """Variables of each view and of "labels", train before test."""
    spelling = {view.lower(): view for view in PAPER_VIEWS} | dict.fromkeys(_LABELS, "labels")
    pattern = _pattern(name)
    found: dict[str, dict[str, Variable]] = {}
    for path in find_view_files(name, folder):
        match = pattern.fullmatch(path.name)
        assert match is not None
        what = found.setdefault(spelling[match[2].lower()], {})
        for part, variable in _of_file(path, match[1]).items():
            other = what.setdefault(part, variable)
            if other is not variable:
                raise ValueError(f"{other.path} and {path} are for the same view and part")
    for parts in found.values():
        if "" in parts and len(parts) > 1:
            both = " and ".join(str(variable.path) for variable in parts.values())
            raise ValueError(f"{both}: a view is there whole and in parts")
    return {
        what: [parts[part] for part in ("", *PARTS) if part in parts]
        for what, parts in found.items()
    }


def _of_file(path: Path, part: str | None) -> dict[str, Variable]:
    """Matrices of a file by part; "" if the file is not divided."""
    matrices = [variable for variable in list_variables(path) if variable.kind in _TYPES]
    if len(matrices) == 1:
        return {(part or "").lower(): matrices[0]}
    by_part = {key: [m for m in matrices if key in m.name.lower()] for key in PARTS}
    if part is None and all(len(variables) == 1 for variables in by_part.values()):
        return {key: variables[0] for key, variables in by_part.items()}
    names = [variable.name for variable in matrices]
    raise ValueError(f"{path}: among the matrices {names} it is not clear which one to read")


def _stored_view(variables: Sequence[Variable], turn: bool) -> StoredView:
    """Vertically stacked parts, of which only the sizes are read now."""
    for variable in variables[1:]:
        if variable.shape[not turn] != variables[0].shape[not turn]:
            raise ValueError(
                f"{variables[0].path} and {variable.path}: {variables[0].name} has shape "
                f"{variables[0].shape}, {variable.name} has shape {variable.shape}"
            )
    shape = (sum(variable.shape[turn] for variable in variables), variables[0].shape[not turn])
    dtype = np.result_type(*(np.dtype(_TYPES[variable.kind]) for variable in variables))
    paths = tuple(dict.fromkeys(variable.path for variable in variables))
    return StoredView(shape, dtype, partial(_read, tuple(variables), turn), paths)


def _read(variables: Sequence[Variable], turn: bool) -> Array:
    tables = [read_variable(variable) for variable in variables]
    return np.concatenate([X.T if turn else X for X in tables])


_HDF5 = 2  # version as SciPy counts them


def list_variables(path: Path) -> list[Variable]:
    """Variables of a file; reads no values."""
    with _readable(path):
        if _version(path) != _HDF5:
            with _strict():
                return [Variable(path, *entry) for entry in whosmat(path, appendmat=False)]
        with _open_hdf5(path) as file:
            names = [name for name in file if not name.startswith("#")]  # "#refs#" is no variable
            return [Variable(path, name, *_hdf5_header(file[name])) for name in names]


def read_variable(variable: Variable) -> Array:
    """A matrix in the type in which it is stored, which can be smaller than its class."""
    path, name = variable.path, variable.name
    with _readable(path):
        if _version(path) != _HDF5:
            return _dense(_load(path, name))
        with _open_hdf5(path) as file:
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
            with _open_hdf5(path) as file:
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


def _open_hdf5(path: Path) -> Any:
    import h5py

    return h5py.File(path, "r")


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
