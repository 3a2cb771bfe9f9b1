"""Checkpoints: the state of a fit on disk, from which an interrupted fit resumes."""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.files.whole import check_writable, remove_parts, written_whole

Arrays = dict[str, NDArray[Any]]

_FORMAT = "naim3l checkpoint 3"
# Seconds between two writes of a running fit, and the largest share of time to spend on writing.
EVERY, MOST_WRITING = 1.0, 0.05


def fingerprint(arrays: list[Any], settings: Mapping[str, Any]) -> str:
    """SHA-256 of arrays and settings, which is equal if and only if they are.

    Parameters
    ----------
    arrays : list of ndarray or sparse array
    settings : mapping of str to JSON values
        Numbers of NumPy are treated as numbers of Python.
    """
    text = json.dumps(settings, sort_keys=True, default=lambda number: number.item())
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        parts = (
            [array] if isinstance(array, np.ndarray) else [array.data, array.indices, array.indptr]
        )
        for part in parts:
            digest.update(f"{part.shape} {part.dtype}".encode())
            # Without a copy, because a state may take much of the memory.
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def whole_seed(random_state: Any) -> int:
    """``random_state`` of a fit with a checkpoint, which must draw the same numbers again."""
    if not isinstance(random_state, Integral):
        raise ValueError(
            f"checkpoint= needs a whole number as random_state, got {random_state!r}: otherwise a "
            "resumed fit would have other random numbers, and other folds."
        )
    return int(random_state)


class Checkpoint:
    """A file with the state of one fit, in parts by name.

    Parameters
    ----------
    path : path of the file
    key : str
        Fingerprint of the data and parameters of the fit. A file with another key is an error.
    every : float
        Seconds between two writes by `offer`, more if writing is slow; with 0 every offer is
        written.

    Raises
    ------
    ValueError
        If the file is damaged, of another kind, or of another fit.
    OSError
        If it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], key: str, *, every: float = EVERY) -> None:
        # Absolute, so that it is found from another working directory.
        self.path, self.key, self.every = Path(path).absolute(), key, every
        self._last, self._rest = time.monotonic(), every
        self._parts: dict[str, Arrays] = _read(self.path, key) if self.path.exists() else {}
        check_writable(path)

    def get(self, part: str) -> Arrays | None:
        """Arrays of a part, None if it does not exist."""
        return self._parts.get(part)

    def put(self, part: str, arrays: Arrays) -> None:
        """Write a part now, and keep the others; a failure is a warning, and the fit continues."""
        start = time.monotonic()
        self._parts[part] = arrays
        flat: dict[str, Any] = {
            f"{name}/{key}": a for name, of in self._parts.items() for key, a in of.items()
        }
        about: dict[str, Any] = {"format": _FORMAT, "key": self.key, "digest": _digest(flat)}
        flat |= {name: np.array(text) for name, text in about.items()}
        try:
            with written_whole(self.path) as target, target.open("wb") as file:
                np.savez(file, **flat)
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(
                f"the checkpoint {self.path} was not written ({reason}); the fit continues.",
                RuntimeWarning,
                stacklevel=2,
            )
        self._last = time.monotonic()
        self._rest = self.every and max(self.every, (self._last - start) / MOST_WRITING)

    def offer(self, part: str, make: Callable[[], Arrays]) -> None:
        """Write a part, made by ``make``, if the last write is long enough ago."""
        if time.monotonic() - self._last >= self._rest:
            self.put(part, make())

    def discard(self, part: str) -> None:
        """Delete a part, which the next write removes from disk."""
        self._parts.pop(part, None)


def kept_in(
    checkpoint: Checkpoint | None, solve: Callable[[Any], NDArray[Any]], name: str = ""
) -> Callable[[Any], NDArray[Any]]:
    """``solve`` with results that are stored in a checkpoint, by the labels of the problem.

    Everything else about the problems must be part of the key of the checkpoint, or ``name``.
    """
    if checkpoint is None:
        return solve

    def solve_once(problem: Any) -> NDArray[Any]:
        part = fingerprint(problem.identity[-1:], {"name": name} if name else {})
        stored = checkpoint.get(part)
        if stored is None:
            stored = {"solution": solve(problem)}
            checkpoint.put(part, stored)
        return stored["solution"]

    return solve_once


def remove_checkpoint(path: Path, key: str) -> None:
    """Delete the checkpoint of a fit whose model is on disk, but not that of another fit.

    Parameters
    ----------
    path : Path
    key : str
        Fingerprint of the fit, as for `Checkpoint`.
    """
    # It may have been deleted, damaged or protected meanwhile, which does not harm the model.
    with suppress(Exception):
        with np.load(path, allow_pickle=False) as stored:
            own = str(stored["key"])
        if own == key:
            path.unlink()
        remove_parts(path)


def _digest(flat: Mapping[str, NDArray[Any]]) -> str:
    names = sorted(flat)
    return fingerprint([np.asarray(flat[name]) for name in names], {"names": names})


def _read(path: Path, key: str) -> dict[str, Arrays]:
    with path.open("rb") as file:  # a file that cannot be opened keeps its OSError
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about odd characters in a damaged header
                stored = dict(np.load(file, allow_pickle=False))
            form, own = str(stored.pop("format")), str(stored.pop("key"))
            # NumPy does not notice missing parts, or headers that state fewer bytes.
            sound = form != _FORMAT or str(stored.pop("digest")) == _digest(stored)
        except Exception as error:  # damage surfaces as many types, from BadZipFile to KeyError
            cause = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path} is not a checkpoint ({cause}); delete it.") from error
    if form != _FORMAT:
        raise ValueError(f"{path} has format {form!r}, not {_FORMAT!r}; delete it.")
    if not sound:
        raise ValueError(f"{path} is not a checkpoint (it is damaged); delete it.")
    if own != key:
        raise ValueError(
            f"{path} is the checkpoint of another fit: data or parameters differ. Delete it, or "
            "give the fit another checkpoint."
        )
    parts: dict[str, Arrays] = {}
    for name, array in stored.items():
        part, _, field = name.partition("/")
        parts.setdefault(part, {})[field] = array
    return parts
