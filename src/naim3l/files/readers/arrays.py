"""Tables from .npz files of NumPy; no code in them is run."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from naim3l.files.readers.errors import ReadError, close_names, load_extra, mark_origin, quote, some

_VIEW = "view_"


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
        ``label_names`` if the file has them. In an array ``view_<name>``, rows that lack the view
        according to the array ``observed`` have missing cells only; its columns are the views in
        the order of ``view_order``, or of the file.
    """
    with path.open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ReadError(f"{path}: a single array and no .npz file; write it with np.savez.")
        with stored:
            key = _find_key(path, stored, name)
            values = _read_array(stored, key)
            columns = _column_names(stored, key, values.shape)
            if key.startswith(_VIEW) and "observed" in stored.files:
                values = _without_missing_rows(path, stored, key, values)
    frame = _frame(path, key.removeprefix(_VIEW), values, columns)
    return mark_origin(frame if n_rows is None else frame.head(n_rows), f"{path}#{key}")


def _find_key(path: Path, stored: np.lib.npyio.NpzFile, name: str | None) -> str:
    if name is None:
        tables = [key for key in stored.files if _is_table(*_read_header(stored, key))]
        return _only(path, tables, stored.files)
    for key in (name, _VIEW + name):
        if key in stored.files:
            return key
    known = [key.removeprefix(_VIEW) for key in stored.files]
    raise ReadError(f"{path}: no array {quote(name)}; {close_names(name, known)}")


def _only(path: Path, tables: Sequence[str], names: Sequence[str]) -> str:
    if len(tables) == 1:
        return tables[0]
    if not tables:
        raise ReadError(f"{path}: no array of two dimensions; it holds {some(names) or 'nothing'}.")
    raise ReadError(
        f"{path}: several arrays, {some(tables)}; name one, such as {path.name}#{tables[0]}"
    )


def _is_table(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    return len(shape) == 2 and dtype.kind in "biufU"


def _column_names(
    stored: np.lib.npyio.NpzFile, key: str, shape: tuple[int, ...]
) -> list[str] | None:
    """Names of the labels if the array has them, and the file names them."""
    if key != "labels" or "label_names" not in stored.files:
        return None
    names = _read_array(stored, "label_names")
    return [str(name) for name in names] if names.shape == shape[1:] else None


def _without_missing_rows(
    path: Path, stored: np.lib.npyio.NpzFile, key: str, values: NDArray[Any]
) -> NDArray[Any]:
    """A view with NaN in the rows that lack it."""
    if "view_order" in stored.files:
        order = [_VIEW + str(name) for name in _read_array(stored, "view_order").ravel()]
    else:
        order = [name for name in stored.files if name.startswith(_VIEW)]
    observed = _read_array(stored, "observed")
    if key not in order or observed.shape != (*values.shape[:1], len(order)):
        raise ReadError(
            f"{path}: 'observed' has shape {observed.shape}; it needs a row for each of the "
            f"{len(values)} rows of {quote(key)}, and a column for each of the views {some(order)}."
        )
    has_view = observed[:, [order.index(key)]] != 0
    return values if has_view.all() else np.where(has_view, values, np.nan)


def _read_header(stored: np.lib.npyio.NpzFile, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array of an open file, without its values."""
    with _member(stored, key) as file:
        version = np.lib.format.read_magic(file)
        old = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{key} holds Python objects, which need allow_pickle")
    return shape, dtype


def _read_array(stored: np.lib.npyio.NpzFile, key: str) -> NDArray[Any]:
    """An array of an open file, verified by its checksum.

    NumPy reads only as many bytes as the header of an array states, and the checksum is compared
    only at the end of the data, so a damaged header that states fewer bytes would go unnoticed.
    """
    with _member(stored, key) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):
            raise ValueError(f"{key} has more bytes than its header says")
    return array


@contextmanager
def _member(stored: np.lib.npyio.NpzFile, key: str) -> Iterator[IO[bytes]]:
    """Bytes of an array, without Python's warnings about odd characters in its header."""
    assert stored.zip is not None  # true until the file is closed
    if f"{key}.npy" not in stored.zip.namelist():
        raise ValueError(f"{key} is no array")
    with warnings.catch_warnings(), stored.zip.open(f"{key}.npy") as file:
        warnings.simplefilter("ignore")
        yield file


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
