"""Files that appear whole or not at all, and checks of their places before the work."""

import os
import re
import unicodedata
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, which deletes no file that is open
    fcntl = None  # type: ignore[assignment]

Path_ = str | os.PathLike[str]

PART = ".part"
# What is written to try a place: a block of most file systems.
TRIAL_SIZE = 4096
# Bytes of a file name, with room for extensions and parts in the 255 that file systems allow.
LONGEST_NAME = 180
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)

# Moves that wait for the end of the block of `written_together`, and who cleans up after it.
_together: ContextVar[tuple[list[tuple[Path, Path]], ExitStack] | None] = ContextVar(
    "together", default=None
)


@contextmanager
def written_whole(path: Path_) -> Iterator[Path]:
    """Path to write to, beside ``path``; it becomes ``path`` if the block ends without error.

    Until then, and after an error, ``path`` stays as it was and nothing is left beside it. What a
    killed process has left beside it is deleted first. Links are followed, and stay.
    """
    with _errors_name(path), ExitStack() as own:
        target, part = own.enter_context(_part_of(path))
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())  # else a power cut could leave the new name on an empty file
        if (together := _together.get()) is None:
            os.replace(part, target)
        else:
            moves, parts = together
            moves.append((part, target))
            parts.push(own.pop_all())


@contextmanager
def written_together() -> Iterator[None]:
    """Files that are written inside appear when the block ends without error, or none of them.

    They are on disk by then and get their names one after the other: only a kill or an error of
    the system in that moment can leave some new beside some old ones, each of them whole.
    """
    moves: list[tuple[Path, Path]] = []
    with ExitStack() as parts:
        token = _together.set((moves, parts))
        try:
            yield
        finally:
            _together.reset(token)
        for part, target in moves:
            with _errors_name(target):
                os.replace(part, target)


def write_text(path: Path_, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with written_whole(path) as part:
        part.write_bytes(text.encode())


@contextmanager
def new_folder(path: Path_) -> Iterator[Path]:
    """A folder, made with those above it; after an error those that were made and are empty go."""
    folder = Path(path)
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # not empty
            for each in missing:
                each.rmdir()
        raise


def check_outputs(
    outputs: Iterable[Path_], inputs: Iterable[Path_] = (), *, make_folders: bool = False
) -> None:
    """Refuse, before the work, files that could not be written or would overwrite others.

    Parameters
    ----------
    outputs : iterable of paths
        Files to write; each is tried with `check_writable`.
    inputs : iterable of paths
        Files that are read. None may be an output, under whichever name.
    make_folders : bool
        Whether folders are made later where they are not there.

    Raises
    ------
    ValueError
        If an output is an input, or another output.
    OSError
        If an output cannot be written.
    """
    sources, seen = list(inputs), list[Path_]()
    for output in outputs:
        if any(_same_file(output, source) for source in sources):
            raise ValueError(
                f"{os.fspath(output)} is read by this command and would be overwritten; name "
                "another file to write to."
            )
        if any(_same_file(output, other) for other in seen):
            raise ValueError(f"{os.fspath(output)} would be written twice; name different files.")
        check_writable(output, make_folder=make_folders)
        seen.append(output)


def check_writable(path: Path_, *, make_folder: bool = False) -> None:
    """Error if a file could not be written there, by trying with a small one beside it.

    Parameters
    ----------
    path : path
        What is there, if anything, stays as it is.
    make_folder : bool
        Whether the folder is made later where it is not there; the nearest one is tried then.
    """
    place = Path(path)
    if make_folder and not place.absolute().parent.exists():
        nearest = next(folder for folder in place.absolute().parents if folder.exists())
        place = nearest / uuid.uuid4().hex
    with _errors_name(path), _part_of(place) as (_, part), part.open("wb") as file:
        file.write(bytes(TRIAL_SIZE))
        file.flush()
        os.fsync(file.fileno())


def remove_parts(path: Path_) -> None:
    """Delete what killed writers of a file have left beside it.

    A writer keeps its part locked, and the lock ends with the process, however that ends: a part
    that can be locked has no writer. On a file system without locks all parts stay.
    """
    target = Path(path)
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]+{re.escape(PART)}")
    for part in [entry for entry in target.parent.iterdir() if pattern.fullmatch(entry.name)]:
        with suppress(OSError):  # locked, gone by now, or of somebody else
            if fcntl is None:
                part.unlink()
                continue
            with part.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name, without extension, for each name; no name leads out of the folder.

    Letters, digits, ``_``, ``-``, spaces and dots stay. All else, dots at the beginning, and the
    first letter of names that Windows reserves, become ``%`` and hexadecimal digits, so that
    different names have different file names.

    Raises
    ------
    ValueError
        If a name is empty or too long, or two names are the same but for upper and lower case,
        which not every file system tells apart.
    """
    found: dict[str, str] = {}
    for name in names:
        encoded = "".join(s if s.isalnum() or s in "_-. " else _hexadecimal(s) for s in name)
        if encoded.startswith(".") or _RESERVED.match(encoded):
            encoded = _hexadecimal(encoded[0]) + encoded[1:]
        if not encoded or len(encoded.encode()) > LONGEST_NAME:
            fault = "too long" if encoded else "empty"
            raise ValueError(f"{name[:40]!r} is {fault}, so no file can be named after it.")
        found[name] = encoded
    seen: dict[str, str] = {}
    for name, encoded in found.items():
        other = seen.setdefault(unicodedata.normalize("NFC", encoded).casefold(), name)
        if other != name:
            raise ValueError(
                f"{other!r} and {name!r} name the same file on systems that ignore upper and lower "
                "case; rename one."
            )
    return found


def _hexadecimal(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _same_file(one: Path_, other: Path_) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def _part_of(path: Path_) -> Iterator[tuple[Path, Path]]:
    """Where a file is to appear, and a new one beside it, locked; it is deleted in the end."""
    target = _place(path)
    remove_parts(target)
    part, file = _create_part(target)
    if fcntl is None:
        file.close()  # Windows neither renames nor deletes files that are open
    try:
        yield target, part
    finally:
        file.close()
        part.unlink(missing_ok=True)


def _create_part(target: Path) -> tuple[Path, IO[bytes]]:
    while True:
        # A name of its own, so that two writers never share a half-written file.
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}{PART}")
        file = part.open("xb")
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if part.exists():
            return part, file
        file.close()  # before it was locked, another process took it for that of a dead writer


def _place(path: Path_) -> Path:
    """Where a file is written when links are followed; refuses what is no place for one."""
    given, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{given} is a folder; name a file in it.")
    if target.exists() and not target.is_file():
        raise OSError(f"{given} is not a regular file; name another one.")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{given} is write-protected; name another file.")
    if not target.parent.is_dir():
        if target.parent.exists():
            raise NotADirectoryError(f"{given.parent} is a file, where a folder is needed.")
        raise FileNotFoundError(f"there is no folder {given.parent} to write {given.name} to.")
    return target


@contextmanager
def _errors_name(path: Path_) -> Iterator[None]:
    """Errors of the system name the file that the user knows, where they name none or its part."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and str(error.filename or PART).endswith(PART):
            error.filename, error.filename2 = os.fspath(path), None
        raise
