"""Tables from .npz files of NumPy; no code in them is run."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np

from naim3l._origin import Origin
from naim3l._text import quote, some
from naim3l.files.errors import ReadError, check_names, load_extra


def read_array(path: Path, name: str | None) -> tuple[Any, Origin]:
    """Table of one array of an .npz file; by default, of its only array of two dimensions.

    Columns of ``labels`` are named by ``label_names``, others by the array and a number from 0.
    """
    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise ReadError(f"{path}: a single array and no .npz file; write it with np.savez.")
    with ZipFile(path) as archive:
        names = [each[:-4] for each in archive.namelist() if each.endswith(".npy")]
        if name is None:
            name = _only(path, archive, names)
        check_names([name], names, str(path), "array")
        values = _read(archive, name)
        labels = _read(archive, "label_names") if "label_names" in names else None
    if not _is_table(values.shape, values.dtype):
        fault = f"{quote(name)} has shape {values.shape} and type {values.dtype}"
        raise ReadError(f"{path}: {fault}; a table has two dimensions, and numbers or text.")
    columns = [f"{name}_{j}" for j in range(values.shape[1])]
    if name == "labels" and labels is not None and labels.shape == values.shape[1:]:
        columns = [str(label) for label in labels]
    # Files of other machines may have another byte order, which pandas does not support.
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    return load_extra("pandas").DataFrame(native, columns=columns), Origin("", f"{path}#{name}")


def _only(path: Path, archive: ZipFile, names: list[str]) -> str:
    tables = []
    for name in names:
        with _member(archive, name) as file:
            form, is_old = np.lib.format, np.lib.format.read_magic(file) == (1, 0)
            read = form.read_array_header_1_0 if is_old else form.read_array_header_2_0
            shape, _, dtype = read(file)
        if _is_table(shape, dtype):
            tables.append(name)
    if not tables:
        raise ReadError(f"{path}: no array of two dimensions; it holds {some(names) or 'nothing'}.")
    if len(tables) > 1:
        advice = f"name one, such as {path.name}#{tables[0]}"
        raise ReadError(f"{path}: several arrays, {some(tables)}; {advice}")
    return tables[0]


def _is_table(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return len(shape) == 2 and dtype.kind in "biufU"


def _read(archive: ZipFile, name: str) -> Any:
    """An array, verified by its checksum, which is compared at the end of the data."""
    with _member(archive, name) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # NumPy reads no more than the header states, which may be damaged
            raise ValueError(f"{name} has more bytes than its header says")
    return array


@contextmanager
def _member(archive: ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Bytes of an array, without Python's warnings about odd characters in its header."""
    with warnings.catch_warnings(), archive.open(f"{name}.npy") as file:
        warnings.simplefilter("ignore")
        yield file
