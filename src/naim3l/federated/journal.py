"""The journal of a site: the answers to the questions of a fit, on its own disk.

A fit is a sequence of turns: the site asks for sums, and gets them. A fit that starts again, on
the same tables, asks the same questions; those that were answered are answered by the journal, so
that it arrives at the turn where it stopped, with the same bits. A question is kept until the next
one is answered, because a coordinator that starts again may want to have it again.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from threading import Condition
from typing import Any
from zipfile import BadZipFile

import numpy as np

from naim3l._arrays import Arrays
from naim3l.federated.rounds import THE_END, Ask
from naim3l.files.atomic_write import Path_, written_whole

QUESTION = "the question"  # what is asked for, the threshold, and what it is recognised by

Hide = Callable[[Arrays, int], Arrays]


class Journal:
    """Turns of one fit, between the fit, which asks, and a connection, which brings answers.

    Parameters
    ----------
    folder : str or path-like
        Of this fit alone; made if it is not there.
    hide : callable, optional
        What becomes of the arrays of a turn before they are sent, see `naim3l.federated.secure`.
    """

    def __init__(self, folder: Path_, hide: Hide | None = None) -> None:
        self.folder, self.hide = Path(folder), hide
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.answered = 0  # number of turns whose answers are here
        while self._path("answer", self.answered).exists():
            self.answered += 1
        self._turn, self._error = 0, None  # type: int, BaseException | None
        self._changed = Condition()

    @property
    def over(self) -> bool:
        """Whether the coordinator has heard of the end of the fit."""
        return (self.folder / "over").exists()

    def exchange(self, ask: Ask, arrays: Arrays) -> Arrays:
        """The answer to the fit's next question; waits for it if it is not here yet."""
        turn, self._turn = self._turn, self._turn + 1
        about = _about(ask, arrays)
        if turn < self.answered:
            answer = self._read("answer", turn)
            if str(answer.pop(QUESTION)[-1]) != about:
                raise ValueError(
                    f"the tables or settings are not those with which the fit in {self.folder} "
                    "was begun. Restore them, or begin a new fit: remove the folder, at all sites."
                )
            return answer
        if not self._path("asked", turn).exists():  # otherwise it was before the fit was stopped
            hidden = arrays if self.hide is None else self.hide(arrays, turn)
            question = np.array([ask.what, repr(ask.threshold), about])
            self._write("asked", turn, hidden | {QUESTION: question})
        with self._changed:
            self._changed.notify_all()
            while turn >= self.answered and not (ask.what == THE_END and self.over):
                self._changed.wait(1.0)  # and not for ever: Ctrl-C is not heard while it waits
                if self._error is not None:
                    raise self._error
            if ask.what == THE_END:
                return arrays
        answer = self._read("answer", turn)
        del answer[QUESTION]
        return answer

    def keep_answer(self, turn: int, answer: Arrays) -> None:
        """Take note of the answer to a turn; what was heard before is not heard twice."""
        if turn == self.answered:
            with self._changed:
                question = self._read("asked", turn, QUESTION)
                self._write("answer", turn, answer | question)
                self.answered += 1
                self._path("asked", turn - 1).unlink(missing_ok=True)
                self._changed.notify_all()

    def question(self, turn: int, timeout: float) -> tuple[Ask, Arrays] | None:
        """What the fit asks in a turn, or None if it does not do so before the timeout."""
        path = self._path("asked", turn)
        with self._changed:
            if not self._changed.wait_for(path.exists, timeout):
                return None
        arrays = self._read("asked", turn)
        what, threshold, _ = arrays.pop(QUESTION)
        return Ask(str(what), float(threshold)), arrays

    def end(self) -> None:
        """Take note that the coordinator has heard of the end: the fit needs nothing else."""
        with self._changed:
            (self.folder / "over").touch()
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """End the fit with an error of the connection."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def secret(self) -> bytes:
        """A random number (32 bytes) of this fit, the same after a restart."""
        path = self.folder / "random"
        if not path.exists():
            with written_whole(path) as part:
                part.write_bytes(os.urandom(32))
        return path.read_bytes()

    def _path(self, kind: str, turn: int) -> Path:
        return self.folder / f"{kind}-{turn:06}.npz"

    def _write(self, kind: str, turn: int, arrays: Arrays) -> None:
        with written_whole(self._path(kind, turn)) as part, part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def _read(self, kind: str, turn: int, *names: str) -> Arrays:
        path = self._path(kind, turn)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return {name: stored[name] for name in names or stored.files}
        except (BadZipFile, EOFError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}. Remove it and later ones.") from error


def _about(ask: Ask, arrays: Arrays) -> str:
    """A question in short, to recognise it: of whole numbers, such as counts, all digits.

    Others may differ in the last bits on another machine.
    """
    parts: list[Any] = [ask.what]
    for name, array in arrays.items():
        parts += [name, array.shape]
        if (array == np.rint(array)).all():
            parts.append(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
    return repr(parts)
