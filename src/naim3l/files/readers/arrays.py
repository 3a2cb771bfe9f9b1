"""Tables from .npz files of NumPy and .mat files of MATLAB; no code in them is run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naim3l.datasets.matfile import Variable, list_variables, read_variable
from naim3l.datasets.npz import open_npz, read_array, read_header
from naim3l.files.readers.errors import ReadError, close_names, load_extra, mark_origin, quote, some

_VIEW = "view_"
_MATRICES = {"double", "single", "logical", "sparse", "unknown"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}


def read_npz(path: Path, name: str | None = None, *, n_rows: int | None = None) -> Any:
    """Table of one array of an .npz file.

    Parameters
    ----------
    path : Path
    name : str, optional
        Name of the array, with or without the prefix "view_"; by default the file must have a
        single array of two dimensions.
    n_rows : int, optional
        Maximum number of rows.

    Returns
    -------
    table : DataFrame
        Columns have the name of the array and a number from 0; those of ``labels`` are named by
        ``label_names`` if the file has them. In a view of a file in the format of
        `naim3l.datasets.load_npz`, rows that lack the view have missing cells only.
    """
    with path.open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ReadError(f"{path}: a single array and no .npz file; write it with np.savez.")
        with stored:
            key = _npz_key(path, stored, name)
            values = read_array(stored, key)
            has_names = "label_names" in stored.files
            label_names = read_array(stored, "label_names") if has_names else None
            keys = set(stored.files)
    columns = None
    if key == "labels" and label_names is not None and label_names.shape == values.shape[1:]:
        columns = [str(entry) for entry in label_names]
    view = key.removeprefix(_VIEW)
    if key.startswith(_VIEW) and {"observed", "labels"} <= keys:
        data = open_npz(path)
        observed = data.observed[:, [list(data.views).index(view)]]
        values = values if observed.all() else np.where(observed, values, np.nan)
    frame = _frame(path, view, values, columns)
    return mark_origin(frame if n_rows is None else frame.head(n_rows), f"{path}#{key}")


def read_mat(path: Path, name: str | None = None, *, n_rows: int | None = None) -> Any:
    """Table of one matrix of a .mat file, of version 7.3 if h5py is installed.

    Parameters
    ----------
    path : Path
    name : str, optional
        Name of the variable; by default the file must have a single matrix with several rows.
    n_rows : int, optional
        Maximum number of rows.
    """
    variables = {variable.name: variable for variable in list_variables(path)}
    if name is None:
        tables = [v.name for v in variables.values() if _is_matrix(v)]
        name = _only(path, tables, list(variables))
    if name not in variables:
        raise ReadError(f"{path}: no variable {quote(name)}; {close_names(name, variables)}")
    if variables[name].kind not in _MATRICES:
        raise ReadError(
            f"{path}: {quote(name)} is of class {variables[name].kind}; a matrix of numbers is "
            "expected."
        )
    frame = _frame(path, name, read_variable(variables[name]))
    return mark_origin(frame if n_rows is None else frame.head(n_rows), f"{path}#{name}")


def _is_matrix(variable: Variable) -> bool:
    """Whether it is a matrix of numbers with several rows."""
    shape = variable.shape
    return variable.kind in _MATRICES and len(shape) == 2 and shape[0] > 1


def _npz_key(path: Path, stored: np.lib.npyio.NpzFile, name: str | None) -> str:
    if name is None:
        headers = {key: read_header(stored, key) for key in stored.files}
        return _only(path, [key for key in headers if _is_table(*headers[key])], stored.files)
    for key in (name, _VIEW + name):
        if key in stored.files:
            return key
    known = [key.removeprefix(_VIEW) for key in stored.files]
    raise ReadError(f"{path}: no array {quote(name)}; {close_names(name, known)}")


def _is_table(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    return len(shape) == 2 and dtype.kind in "biufU"


def _only(path: Path, tables: Sequence[str], names: Sequence[str]) -> str:
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise ReadError(f"{path}: no array of two dimensions; it holds {some(names) or 'nothing'}.")
    raise ReadError(
        f"{path}: several arrays, {some(tables)}; name one, such as {path.name}#{tables[0]}"
    )


def _frame(path: Path, name: str, values: Any, columns: list[str] | None = None) -> Any:
    array = np.asarray(values)
    if not _is_table(array.shape, array.dtype):
        raise ReadError(
            f"{path}: {quote(name)} has shape {array.shape} and type {array.dtype}, but a table of "
            "two dimensions, of numbers or text, is expected."
        )
    pandas = load_extra("pandas")
    # Files of other machines may have another byte order, which pandas does not support.
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return pandas.DataFrame(native, columns=columns or [f"{name}_{j}" for j in range(len(array.T))])
