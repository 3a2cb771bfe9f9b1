"""Reader and writer for multi-view datasets in .npz files."""

import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike

from naim3l_bench.datasets.source import (
    Array,
    MultiView,
    StoredView,
    check_label_names,
    check_labels,
    check_observed,
    check_view,
    naming,
)
from naim3l_bench.files import written_whole

_VIEW = "view_"
_ORDER = "view_order"
STAND_IN = "Recomputed"  # suffix of a view that replaces one that was not available


def open_npz(path: str | os.PathLike[str], *more: str | os.PathLike[str]) -> MultiView:
    """Views and labels of one or several .npz files; each view is read when it is accessed.

    A file contains an array ``view_<name>`` of shape (n_samples, n_features of the view) for each
    view and ``labels`` of shape (n_samples, n_labels), 0 or 1. It may contain ``label_names``,
    ``observed`` of shape (n_samples, n_views), 1 where the view exists for the row, and
    ``view_order``, the names of the views in the order of the columns of ``observed``; by default
    this is the order in which the file stores the views. Other arrays are ignored, and no code in
    a file is run. A file that is damaged, or inconsistent with itself or another, is a ValueError.

    The views of several files are combined in the order given, but files with a view whose name
    ends in "Recomputed" come last. Not every file needs labels, but those that have them must
    agree.
    """
    parts = [_open_part(Path(name)) for name in (path, *more)]
    parts.sort(key=lambda part: any(name.endswith(STAND_IN) for name in part.views))
    labelled = [part for part in parts if part.labels is not None]
    if not labelled:
        where = ", ".join(str(part.path) for part in parts)
        raise ValueError(f"{where}: there is no array 'labels'")
    for part in parts:
        with naming(part.path):
            _check_agreement(part, labelled[0])
    _check_distinct(parts)
    named = next((part for part in parts if part.label_names is not None), labelled[0])
    labels = np.asarray(labelled[0].labels)
    return MultiView(
        {name: view for part in parts for name, view in part.views.items()},
        labels,
        named.label_names,
        np.hstack([check_observed(p.observed, (len(labels), len(p.views))) for p in parts]),
        list(dict.fromkeys([labelled[0].path, named.path])),
    )


def save_npz(
    path: str | os.PathLike[str],
    views: Mapping[str, ArrayLike],
    labels: ArrayLike,
    label_names: Sequence[str] | None = None,
    observed: ArrayLike | None = None,
) -> None:
    """Write an .npz file in the format that `open_npz` describes, completely or not at all.

    Views are taken from the mapping one at a time and compressed, and the same data give the same
    bytes. Data that `open_npz` could not read back are a ValueError.

    Parameters
    ----------
    path : str or path-like
        File to write. An existing file is replaced.
    views : mapping of str to array-like of shape (n_samples, n_features of the view)
        Written in their type. A view cannot be named "order".
    labels : array-like of shape (n_samples, n_labels)
        0 or 1.
    label_names : sequence of n_labels str, optional
        By default "label0", "label1", ...
    observed : array-like of shape (n_samples, n_views), optional
        1 where the view exists for the row, otherwise 0. By default all views exist for all rows.
    """
    Y = check_labels(labels)
    names = check_label_names(label_names, Y.shape[1])
    present = check_observed(observed, (len(Y), len(views)))
    if not views or "order" in views:
        raise ValueError(f"views={list(views)}; at least one, none named 'order', is needed.")

    with written_whole(path) as part, zipfile.ZipFile(part, "w") as archive:
        _write_array(archive, "labels", Y.astype(np.uint8))
        _write_array(archive, "label_names", np.array(names, dtype=str))
        _write_array(archive, "observed", present.astype(np.uint8))
        _write_array(archive, _ORDER, np.array(list(views), dtype=str))
        for name in views:
            X = np.asarray(views[name])
            check_view(name, X.shape, X.dtype, len(Y))
            _write_array(archive, _VIEW + name, X)


@dataclass(frozen=True)
class _Part:
    """What one file holds; the arrays that it may lack are None."""

    path: Path
    views: dict[str, StoredView]
    labels: Array | None
    label_names: Array | None
    observed: Array | None


def _open_part(path: Path) -> _Part:
    small: dict[str, Array] = {}
    views = {}
    with _readable(path) as stored:
        for key in stored.files:
            if key in ("labels", "label_names", "observed", _ORDER):
                small[key] = read_array(stored, key)
                small[key].astype(object)  # fails for bytes that are not text
            elif key.startswith(_VIEW):
                shape, dtype = read_header(stored, key)
                read = partial(_read_array, path, key)
                views[key.removeprefix(_VIEW)] = StoredView(shape, dtype, read, (path,))
    with naming(path):
        if not views:
            raise ValueError("there is no view, an array named 'view_<name>'")
        if _ORDER in small:
            views = _in_order(views, small[_ORDER])
    known = (small.get(key) for key in ("labels", "label_names", "observed"))
    return _Part(path, views, *known)


@contextmanager
def _readable(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """The open file; any exception inside becomes a ValueError that names it."""
    with open(path, "rb") as file:  # a file that cannot be opened keeps its OSError
        try:
            with np.load(file, allow_pickle=False) as stored:
                yield stored
        except Exception as error:  # damage raises many types, from BadZipFile to EOFError
            cause = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path} is not a readable .npz file ({cause})") from error


def read_header(stored: np.lib.npyio.NpzFile, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array of an open file, without its values."""
    with _member(stored, key) as file:
        version = np.lib.format.read_magic(file)
        old = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{key} holds Python objects, which need allow_pickle")
    return shape, dtype


def read_array(stored: np.lib.npyio.NpzFile, key: str) -> Array:
    """An array of an open file, verified by its checksum.

    NumPy reads only as many bytes as the header of an array states, and the checksum is compared
    only at the end of the data, so a damaged header that states fewer bytes would go unnoticed.
    """
    with _member(stored, key) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
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


def _read_array(path: Path, key: str) -> Array:
    with _readable(path) as stored:
        return read_array(stored, key)


def _in_order(views: dict[str, StoredView], order: Array) -> dict[str, StoredView]:
    names = [str(name) for name in order.ravel()]
    if sorted(names) != sorted(views):
        raise ValueError(f"view_order names {names}, but the views are {sorted(views)}")
    return {name: views[name] for name in names}


def _check_agreement(part: _Part, first: _Part) -> None:
    """Raise unless a file is consistent and has the labels of the first one."""
    Y = check_labels(np.asarray(first.labels))
    if part.labels is not None:
        own = check_labels(part.labels)
        if part is not first and not np.array_equal(own, Y):
            raise ValueError(f"labels differ from those in {first.path}")
    for name, view in part.views.items():
        check_view(name, view.shape, view.dtype, len(Y))
    check_label_names(part.label_names, Y.shape[1])
    check_observed(part.observed, (len(Y), len(part.views)))


def _check_distinct(parts: list[_Part]) -> None:
    """Raise if two files have a view of the same name, or different label names."""
    owner: dict[str, Path] = {}
    for part in parts:
        for name in part.views:
            if name in owner:
                raise ValueError(f"view {name!r} is in {owner[name]} and in {part.path}")
            owner[name] = part.path
    named = [part for part in parts if part.label_names is not None]
    for part in named[1:]:
        if not np.array_equal(np.asarray(part.label_names), np.asarray(named[0].label_names)):
            raise ValueError(f"label_names differ in {named[0].path} and {part.path}")


def _write_array(archive: zipfile.ZipFile, key: str, array: Array) -> None:
    # An entry without a timestamp, so that the same data give the same bytes.
    entry = zipfile.ZipInfo(f"{key}.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(entry, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
