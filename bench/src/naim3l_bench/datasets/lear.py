"""Reader for the LEAR feature files .hvecs, .hvecs32 and .fvec, one file per view and part."""

import gzip
import os
import re
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l_bench.datasets.source import Array, MultiView, StoredView, naming

# The six views of the paper; LEAR has more, which are not used.
PAPER_VIEWS = ("DenseHue", "DenseSift", "Gist", "Hsv", "Rgb", "Lab")
PARTS = ("train", "test")  # in the order in which their rows are stacked
_ANNOT = "annot"
# Types of header and value. The header of .hvecs files varies and is determined from the file.
_LAYOUTS = {
    "hvecs": (("<u2", "<u2"), ("<u4", "<u2")),
    "hvecs32": (("<u4", "<u4"),),
    "fvec": (("<u4", "<f4"),),
    "fvecs": (("<u4", "<f4"),),
}


def read_vectors(path: str | os.PathLike[str]) -> Array:
    """Vectors (n_vectors, length) of a .hvecs, .hvecs32, .fvec or .fvecs file, also packed (.gz).

    Each vector consists of its length, an integer, and its values, all little endian: unsigned
    integers of 16 bits (.hvecs) or 32 bits (.hvecs32), or float32 (.fvec, .fvecs). The length has
    32 bits; in .hvecs files it has 16 or 32, whichever fits. An uncompressed file is memory-mapped,
    so only the values that are used are read. A file that is not a whole number of vectors of equal
    length is a ValueError.
    """
    path = Path(path)
    suffixes = [suffix.lower().removeprefix(".") for suffix in path.suffixes]
    packed = suffixes[-1:] == ["gz"]
    kind = suffixes[-2 if packed else -1] if len(suffixes) > packed else ""
    with naming(path):
        if kind not in _LAYOUTS:
            raise ValueError(f"the name ends in none of {', '.join(_LAYOUTS)}")
        content = _unpacked(path) if packed else _mapped(path)
        fits = [_fit(content, *layout) for layout in _LAYOUTS[kind]]
        fitting = [records for records in fits if records is not None]
        if not fitting:
            raise ValueError(
                f"{content.size} bytes are not a whole number of .{kind} vectors of one length"
            )
        if len(fitting) > 1:
            raise ValueError("lengths of 16 and of 32 bits both fit, so that neither is certain")
    X: Array = content.view(fitting[0])["values"]
    return X


def find_lear(name: str, folder: Path) -> list[Path]:
    """LEAR files of a dataset in a folder, for the paper's views and for the labels."""
    pattern = _pattern(name)
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def open_lear(name: str, folder: str | os.PathLike[str]) -> MultiView:
    """The dataset in the LEAR files of a folder; each view is read when it is accessed.

    Files are named ``<name>_<part>_<View>.<ext>``, ignoring case, where the part is train or test,
    the view is one of the paper's six views, and `read_vectors` supports the extension. The files
    with ``annot`` instead of the view contain the labels. Rows of train come first, then those of
    test. Label names are the lines of ``<name>_dictionary.txt``, if it exists. Views may be
    missing, but not parts of a view; they are in the paper's order.
    """
    folder = Path(folder)
    chosen = _choose(name, folder)
    parts = [part for part in PARTS if part in chosen.get(_ANNOT, {})]
    with naming(folder):
        for what, paths in chosen.items():
            if set(paths) != set(parts):
                raise ValueError(
                    f"{what} of {name!r} is there for {sorted(paths)}, but {_ANNOT}, the labels, "
                    f"for {sorted(parts)}"
                )
    annotations = [chosen[_ANNOT][part] for part in parts]
    tables = [read_vectors(path) for path in annotations]
    n_rows = [len(table) for table in tables]
    n_columns = [table.shape[1] for table in tables]
    if len(set(n_columns)) > 1:
        raise ValueError(
            f"{annotations[1]} has {n_columns[1]} labels, {annotations[0]} {n_columns[0]}"
        )
    dictionary = [path for path in folder.iterdir() if path.name.lower() == _dictionary(name)]
    views = {
        view: _stored_view([chosen[view][part] for part in parts], n_rows)
        for view in PAPER_VIEWS
        if view in chosen
    }
    with naming(" and ".join(str(path) for path in [*annotations, *dictionary])):
        return MultiView(
            views,
            np.concatenate(tables),
            _lines(dictionary[0]) if dictionary else None,
            label_files=[*annotations, *dictionary],
        )


def _mapped(path: Path) -> NDArray[np.uint8]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def _unpacked(path: Path) -> NDArray[np.uint8]:
    try:
        with gzip.open(path, "rb") as file:
            return np.frombuffer(file.read(), dtype=np.uint8)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"not a readable .gz file ({type(error).__name__}: {error})") from error


def _fit(content: NDArray[np.uint8], header: str, value: str) -> np.dtype[Any] | None:
    """Type of the records if the bytes are records with such headers and equal lengths."""
    head = np.dtype(header)
    if content.size < head.itemsize:
        return None
    length = int(content[: head.itemsize].view(head)[0])
    record_size = head.itemsize + length * np.dtype(value).itemsize
    if length == 0 or content.size % record_size:
        return None
    records = np.dtype([("length", head), ("values", value, (length,))])
    return records if (content.view(records)["length"] == length).all() else None


def _pattern(name: str) -> re.Pattern[str]:
    """Pattern of the file names of a dataset, with groups for part, view, extension and .gz."""
    what = "|".join((*PAPER_VIEWS, _ANNOT))
    kinds = "|".join(_LAYOUTS)
    expression = rf"{re.escape(name)}_(train|test)_({what})\.({kinds})(\.gz)?"
    return re.compile(expression, re.IGNORECASE)


def _choose(name: str, folder: Path) -> dict[str, dict[str, Path]]:
    """One file for each view and part; an uncompressed file takes precedence."""
    spelling = {what.lower(): what for what in (*PAPER_VIEWS, _ANNOT)}
    pattern = _pattern(name)
    chosen: dict[str, dict[str, Path]] = {}
    for path in find_lear(name, folder):  # sorted: a file comes before the same one with .gz
        match = pattern.fullmatch(path.name)
        assert match is not None
        paths = chosen.setdefault(spelling[match[2].lower()], {})
        other = paths.setdefault(match[1].lower(), path)
        if other is not path and path.name != f"{other.name}.gz":
            raise ValueError(f"{other} and {path} are for the same view and part")
    if not chosen:
        raise FileNotFoundError(f"{folder} holds no LEAR file of {name!r}")
    return chosen


def _stored_view(paths: Sequence[Path], n_rows: Sequence[int]) -> StoredView:
    """A view, of which only the sizes are read now, with one file of n_rows rows per part."""
    tables = [read_vectors(path) for path in paths]
    for path, table, n in zip(paths, tables, n_rows, strict=True):
        if len(table) != n or table.shape[1] != tables[0].shape[1]:
            raise ValueError(
                f"{path} has {len(table)} vectors of length {table.shape[1]}, but the labels have "
                f"{n} rows, and {paths[0].name} has length {tables[0].shape[1]}"
            )
    shape = (sum(n_rows), tables[0].shape[1])
    dtype = np.result_type(*tables)
    return StoredView(shape, dtype, partial(_stack, tuple(paths)), tuple(paths))


def _stack(paths: Sequence[Path]) -> Array:
    tables = [read_vectors(path) for path in paths]
    return tables[0] if len(tables) == 1 else np.concatenate(tables)


def _dictionary(name: str) -> str:
    return f"{name.lower()}_dictionary.txt"


def _lines(path: Path) -> list[str]:
    """Lines of a text file, which need not be in UTF-8."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return [line.strip() for line in text.split("\n") if line.strip()]
