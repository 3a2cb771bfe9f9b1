"""Multi-view data that stay on disk until a view is accessed, and checks shared by all readers."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class StoredView:
    """A view on disk: its size, and a function that reads it.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and columns, (n_samples, n_features).
    dtype : numpy dtype
        Type in which the values are stored.
    read : callable
        Function without arguments that returns the array.
    files : tuple of paths
        Files that `read` reads.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], Array]
    files: tuple[Path, ...] = ()

    @classmethod
    def in_memory(cls, X: ArrayLike, files: Sequence[Path] = ()) -> "StoredView":
        """View of an array that is in memory already, and the files from which it was read."""
        array = np.asarray(X)
        return cls(array.shape, array.dtype, partial(np.asarray, array), tuple(files))


class Views(Mapping[str, Array]):
    """Arrays by name; each access reads the array from its file, and nothing is cached.

    Keep the array if you need a view twice. Iterating over the items loads one view at a time.
    """

    def __init__(self, stored: Mapping[str, StoredView]) -> None:
        self.stored = dict(stored)

    def __getitem__(self, name: str) -> Array:
        """The array of a view, (n_samples, n_features), in the type in which it is stored."""
        stored = self.stored[name]
        X = stored.read()
        if X.shape != stored.shape:
            where = ", ".join(str(path) for path in stored.files)
            raise ValueError(
                f"{where}: view {name!r} has shape {X.shape}, but had {stored.shape} when opened"
            )
        return X

    def __contains__(self, name: object) -> bool:
        """Whether there is such a view; reads nothing."""
        return name in self.stored

    def __iter__(self) -> Iterator[str]:
        """Names of the views."""
        return iter(self.stored)

    def __len__(self) -> int:
        """Number of views."""
        return len(self.stored)

    def __repr__(self) -> str:
        """Names and shapes; reads nothing."""
        return f"Views({ {name: view.shape for name, view in self.stored.items()} })"


class MultiView:
    """Views of the same rows and their labels, with the views left on disk.

    Parameters
    ----------
    stored : mapping of str to StoredView
        Views by name; at least one.
    labels : array-like of shape (n_samples, n_labels)
        0 or 1; int64 as attribute.
    label_names : sequence of n_labels str, optional
        Default: "label0", "label1", ...
    observed : array of shape (n_samples, n_views), optional
        1 where the view exists for the row. By default all views exist for all rows.
    label_files : sequence of paths, default=()
        Files from which labels, names and `observed` were read.

    Attributes
    ----------
    views : Views
        Mapping from names to arrays, which are read on access.
    files : list of paths
        Files that contain the labels and views.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredView],
        labels: ArrayLike,
        label_names: ArrayLike | None = None,
        observed: ArrayLike | None = None,
        label_files: Sequence[Path] = (),
    ) -> None:
        self.views = Views(stored)
        self.labels = check_labels(labels)
        for name, view in stored.items():
            check_view(name, view.shape, view.dtype, len(self.labels))
        if not stored:
            raise ValueError("there is no view")
        self.label_names = check_label_names(label_names, self.n_labels)
        self.observed = check_observed(observed, (self.n_samples, len(stored)))
        paths = [*label_files, *(path for view in stored.values() for path in view.files)]
        self.files = list(dict.fromkeys(paths))
        self._label_files = tuple(label_files)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.labels.shape[0]

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.labels.shape[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each view, (n_samples, n_features); reads nothing."""
        return {name: view.shape for name, view in self.views.stored.items()}

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the names, lengths and contents of `files`; computed once.

        Folders are not included, so a copy elsewhere has the same digest. Data that do not come
        from files are hashed themselves.
        """
        sha = hashlib.sha256()
        if not self.files:
            for name, X in [
                ("labels", self.labels),
                ("observed", self.observed),
                *self.views.items(),
            ]:
                sha.update(f"{name}\0{X.shape}\0{X.dtype}\0".encode())
                sha.update(np.ascontiguousarray(X).tobytes())
        for path in self.files:
            size = path.stat().st_size
            sha.update(f"{path.name}\0{size}\0".encode())
            with path.open("rb") as file:
                while piece := file.read(1 << 20):
                    sha.update(piece)
        return sha.hexdigest()

    def select(self, view_names: Sequence[str]) -> "MultiView":
        """The same rows and labels with some of the views, in the order of their names."""
        names, known = list(view_names), list(self.views)
        if not names or len(set(names)) < len(names) or not set(names) <= set(known):
            raise ValueError(f"view_names={names}; some of {known} are needed, each once.")
        return MultiView(
            {name: self.views.stored[name] for name in names},
            self.labels,
            self.label_names,
            self.observed[:, [known.index(name) for name in names]],
            self._label_files,
        )

    def __repr__(self) -> str:
        """Sizes; reads nothing."""
        sizes = f"n_samples={self.n_samples}, n_labels={self.n_labels}"
        return f"MultiView({sizes}, shapes={self.shapes})"


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Prefix the message of any ValueError with the name of a file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def check_labels(labels: ArrayLike) -> NDArray[np.int64]:
    """Labels as int64, (n_samples, n_labels); raises unless they are 0 or 1."""
    array = np.asarray(labels)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise ValueError(
            f"labels has shape {array.shape} and type {array.dtype}, "
            "not (n_samples, n_labels) of numbers"
        )
    wrong = np.argwhere((array != 0) & (array != 1))
    if wrong.size:
        i, k = wrong[0]
        raise ValueError(f"labels holds {array[i, k]} in row {i}, column {k}, not 0 or 1")
    return array.astype(np.int64)


def check_view(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], n_samples: int) -> None:
    """Raise unless a view of this shape and type has a row of numbers for each row of labels."""
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise ValueError(
            f"view {name!r} has shape {shape} and type {dtype}, "
            "not (n_samples, n_features) of numbers"
        )
    if shape[0] != n_samples:
        raise ValueError(f"view {name!r} has {shape[0]} rows, but labels has {n_samples}")


def check_label_names(names: ArrayLike | None, n_labels: int) -> list[str]:
    """Names of the labels; "label0", "label1", ... for None."""
    if names is None:
        return [f"label{k}" for k in range(n_labels)]
    array = np.asarray(names)
    if array.shape != (n_labels,):
        raise ValueError(f"label_names has shape {array.shape}, but there are {n_labels} labels")
    return [str(name) for name in array]


def check_observed(observed: ArrayLike | None, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Which view exists for which row, (n_samples, n_views); all of them for None."""
    if observed is None:
        return np.ones(shape, dtype=bool)
    array = np.asarray(observed)
    if array.shape != shape:
        raise ValueError(f"observed has shape {array.shape}, not {shape}, (n_samples, n_views)")
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise ValueError("observed holds other values than 0 and 1")
    return array.astype(bool)
