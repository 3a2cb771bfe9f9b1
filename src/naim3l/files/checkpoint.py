"""Checkpoints: the state of a fit on disk, from which an interrupted fit resumes."""

import hashlib
import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import ArrayFields
from naim3l.files.archive import Archive, ModelFileError, write_archive
from naim3l.files.atomic_write import Path_, check_writable, file_names, remove_parts

Arrays = dict[str, NDArray[Any]]

FORMAT, VERSION = "naim3l checkpoint", 2
VERSIONS = {"newest_version": VERSION, "oldest_version": VERSION}
# Seconds between two writes of a running fit, and the largest share of time to spend on writing.
EVERY, MOST_WRITING = 1.0, 0.05
MOST_KEPT = 64 * 2**20  # bytes of a result of a part that is kept


def fingerprint(arrays: list[Any], settings: Mapping[str, Any]) -> str:
    """SHA-256 of dense or sparse arrays and of settings, which is equal if and only if they are."""
    text = json.dumps(settings, sort_keys=True, default=lambda number: number.item())
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        is_dense = isinstance(array, np.ndarray)
        for part in [array] if is_dense else [array.data, array.indices, array.indptr]:
            digest.update(f"{part.shape} {part.dtype}".encode())
            # Without a copy, because a state may take much of the memory.
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check_seed(random_state: Any) -> int:
    """``random_state`` of a fit with a checkpoint, which must draw the same numbers again."""
    if not isinstance(random_state, Integral):
        raise ValueError(
            f"checkpoint= needs a whole number as random_state, got {random_state!r}: otherwise a "
            "resumed fit would have other random numbers, and other folds."
        )
    return int(random_state)


class Checkpoint:
    """A file with the state of one fit, in sections by name.

    A file that is damaged, or of another kind, or of other data or settings is a ValueError.
    ``every`` are the seconds between two writes by `offer`, more if writing is slow.
    """

    def __init__(
        self, path: Path_, data: list[Any], settings: Mapping[str, Any], *, every: float = EVERY
    ) -> None:
        # Absolute, so that it is found from another working directory.
        self.path, self.every = Path(path).absolute(), every
        self.key = fingerprint(data, settings)
        self._last, self._rest = time.monotonic(), every
        self._sections: dict[str, Arrays] = self._read() if self.path.exists() else {}
        check_writable(path)

    def _read(self) -> dict[str, Arrays]:
        try:
            return _read_sections(self.path, self.key)
        except (ModelFileError, AttributeError, TypeError) as error:
            named = isinstance(error, ModelFileError)
            reason = error if named else f"{self.path}: its sections are damaged."
            raise ValueError(f"not a checkpoint: {reason} Delete it.") from error

    def get(self, section: str) -> Arrays | None:
        """Arrays of a section, None if it does not exist."""
        return self._sections.get(section)

    def put(self, section: str, arrays: Arrays) -> None:
        """Write a section now, and keep the others; a failure is a warning, the fit continues."""
        start = time.monotonic()
        self._sections[section] = arrays
        try:
            _write_sections(self.path, self.key, self._sections)
        except OSError as error:
            fault = f"the checkpoint {self.path} was not written ({error.strerror or error})"
            warnings.warn(f"{fault}; the fit continues.", RuntimeWarning, stacklevel=2)
        self._last = time.monotonic()
        self._rest = self.every and max(self.every, (self._last - start) / MOST_WRITING)

    def offer(self, section: str, make: Callable[[], Arrays]) -> None:
        """Write a section, made by ``make``, if the last write is long enough ago."""
        if time.monotonic() - self._last >= self._rest:
            self.put(section, make())

    def discard(self, section: str) -> None:
        """Delete a section, which the next write removes from disk."""
        self._sections.pop(section, None)

    def remove(self) -> None:
        """Delete the file of a fit whose model is on disk, but not that of another fit."""
        # It may have been deleted, damaged or protected meanwhile, which does not harm the model.
        with suppress(Exception):
            with Archive(self.path, format=FORMAT, **VERSIONS) as archive:
                own = archive.document.get("key")
            if own == self.key:
                self.path.unlink()
                self.remove_results()
            remove_parts(self.path)

    @property
    def results(self) -> Path:
        """Folder for results of the parts of tables, see `KeptFold`."""
        return self.path.with_name(f"{self.path.name}.parts")

    def remove_results(self) -> None:
        """Delete the results of parts, which are kept until the pass over the tables is over."""
        shutil.rmtree(self.results, ignore_errors=True)


def _read_sections(path: Path, key: str) -> dict[str, Arrays]:
    with Archive(path, format=FORMAT, **VERSIONS) as archive:
        own, listed = archive.document.get("key"), archive.document.get("sections")
        if own != key:
            fault = "is the checkpoint of another fit: data or parameters differ"
            raise ValueError(f"{path} {fault}. Delete it, or give another one.")
        return {
            name: {field: archive.array(index) for field, index in fields.items()}
            for name, fields in listed.items()  # type: ignore[union-attr]
        }


def _write_sections(path: Path, key: str, sections: Mapping[str, Arrays]) -> None:
    listed: dict[str, dict[str, int]] = {}
    stored: list[NDArray[Any]] = []
    for name, fields in sections.items():
        listed[name] = {field: len(stored) + i for i, field in enumerate(fields)}
        stored += fields.values()
    document = {"format": FORMAT, "version": VERSION, "key": key, "sections": listed}
    write_archive(path, document, stored)


@dataclass(frozen=True)
class KeptFold:
    """A fold over the batches of a part whose result is kept in a file, where the task runs.

    Results are objects of `ArrayFields` by name, of the classes in ``kinds``. A result that is
    there already is not computed again, and nothing is read for it.
    """

    folder: Path
    key: str  # of the checkpoint
    kinds: Mapping[str, tuple[type[ArrayFields], ...]]
    table: str
    fold: Callable[[int, Iterable[Any]], Any]

    def __call__(self, part: int, batches: Iterable[Any]) -> Any:
        path = self.folder / f"{next(iter(file_names([self.table]).values()))}-{part}"
        # A damaged file, or that of another fit, is written again.
        with suppress(ValueError, OSError, LookupError, TypeError, AttributeError):
            kept = _read_sections(path, self.key)
            return {
                name: tuple(kind.from_arrays(arrays) for kind in self.kinds[name])
                for name, arrays in kept.items()
            }
        result = self.fold(part, batches)
        arrays = {name: _arrays_of(each) for name, each in (result or {}).items()}
        n_bytes = sum(A.nbytes for of in arrays.values() for A in of.values())
        if result is not None and n_bytes <= MOST_KEPT:
            with suppress(OSError):  # no room, or no folder that this worker sees
                self.folder.mkdir(exist_ok=True)
                _write_sections(path, self.key, arrays)
        return result


def _arrays_of(results: Iterable[ArrayFields]) -> Arrays:
    return {name: A for each in results for name, A in each.to_arrays().items()}


def kept_in(
    checkpoint: Checkpoint | None, solve: Callable[[Any], NDArray[Any]], name: str = ""
) -> Callable[[Any], NDArray[Any]]:
    """``solve`` with results that are stored in a checkpoint, by the labels of the problem.

    Everything else about the problems must be part of the key of the checkpoint, or ``name``.
    """
    if checkpoint is None:
        return solve

    def solve_once(problem: Any) -> NDArray[Any]:
        section = fingerprint(problem.identity[-1:], {"name": name} if name else {})
        stored = checkpoint.get(section)
        if stored is None:
            stored = {"solution": solve(problem)}
            checkpoint.put(section, stored)
        return stored["solution"]

    return solve_once
