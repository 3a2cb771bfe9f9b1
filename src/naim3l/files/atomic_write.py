"""Files that are written completely or not at all, and checks of paths before the work."""

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
except ImportError:  # Windows, which does not delete open files
    fcntl = None  # type: ignore[assignment]

Path_ = str | os.PathLike[str]

PART = ".part"
# Number of bytes written to test a path: a block of most file systems.
TRIAL_SIZE = 4096
# Longest file name in bytes; with extensions it fits in the 255 that file systems allow.
LONGEST_NAME = 180
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)

# Moves to be made at the end of the block of `written_together`, and the stack that cleans up.
_together: ContextVar[tuple[list[tuple[Path, Path]], ExitStack] | None] = ContextVar(
    "together", default=None
)


@contextmanager
def written_whole(path: Path_) -> Iterator[Path]:
    """Temporary path in the folder of ``path``, renamed to it if the block ends without error.

    After an error, ``path`` is unchanged. Temporary files of killed processes are deleted first.
    Links are followed and kept.
    """
    with _errors_name(path), ExitStack() as own:
        target, part = own.enter_context(_part_of(path))
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())  # otherwise a power failure could leave an empty file
        if (together := _together.get()) is None:
            os.replace(part, target)
        else:
            moves, parts = together
            moves.append((part, target))
            parts.push(own.pop_all())


@contextmanager
def written_together() -> Iterator[None]:
    """Context in which either all files are written, if the block ends without error, or none.

    Only a kill while they are renamed can leave some old and some new files, all complete.
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
    """Write a text file in UTF-8, completely or not at all."""
    with written_whole(path) as part:
        part.write_bytes(text.encode())


@contextmanager
def new_folder(path: Path_) -> Iterator[Path]:
    """A folder, created with its parents; after an error, new empty folders are deleted."""
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
    """Refuse files that could not be written or would overwrite others, before the work.

    No output may be one of the inputs or another output, under any name. ``make_folders`` says
    that missing folders will be created later.
    """
    taken = [(path, "is read by this command and would be overwritten") for path in inputs]
    for output in outputs:
        for path, fault in taken:
            if _same_file(output, path):
                raise ValueError(f"{os.fspath(output)} {fault}; name another file to write to.")
        check_writable(output, make_folder=make_folders)
        taken.append((output, "would be written twice"))


def check_writable(path: Path_, *, make_folder: bool = False) -> None:
    """Raise an error if a file could not be written, by writing a small one in its folder.

    If the folder will be created later (``make_folder``), the nearest existing one is tested.
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
    """Delete the temporary files of killed writers of a file: those that can be locked."""
    target = Path(path)
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]+{re.escape(PART)}")
    for part in [entry for entry in target.parent.iterdir() if pattern.fullmatch(entry.name)]:
        with suppress(OSError):  # locked, deleted meanwhile, or of another user
            if fcntl is None:
                part.unlink()
                continue
            with part.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name, without extension, for each name; none can point outside of its folder.

    Characters other than letters, digits, ``_``, ``-``, spaces and dots, dots at the beginning, and
    the first letter of names that Windows reserves become ``%`` and hexadecimal digits. Names that
    are empty, too long, or differ only in upper and lower case are a ValueError.
    """
    found, seen = dict[str, str](), dict[str, str]()
    for name in names:
        encoded = "".join(s if s.isalnum() or s in "_-. " else _hexadecimal(s) for s in name)
        if encoded.startswith(".") or _RESERVED.match(encoded):
            encoded = _hexadecimal(encoded[0]) + encoded[1:]
        if not encoded or len(encoded.encode()) > LONGEST_NAME:
            fault = "too long" if encoded else "empty"
            raise ValueError(f"{name[:40]!r} is {fault}, so no file can be named after it.")
        found[name] = encoded
        other = seen.setdefault(unicodedata.normalize("NFC", encoded).casefold(), name)
        if other != name:
            fault = "name the same file on systems that ignore upper and lower case"
            raise ValueError(f"{other!r} and {name!r} {fault}; rename one.")
    return found


def _hexadecimal(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _same_file(one: Path_, other: Path_) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def _part_of(path: Path_) -> Iterator[tuple[Path, Path]]:
    """Path of a file, and of a new locked file in its folder, which is deleted at the end."""
    target = _place(path)
    remove_parts(target)
    part, file = _create_part(target)
    if fcntl is None:
        file.close()  # Windows neither renames nor deletes open files
    try:
        yield target, part
    finally:
        file.close()
        part.unlink(missing_ok=True)


def _create_part(target: Path) -> tuple[Path, IO[bytes]]:
    while True:
        # A unique name, so that two writers never share a file.
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}{PART}")
        file = part.open("xb")
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if part.exists():
            return part, file
        file.close()  # another process has deleted it before it was locked


def _place(path: Path_) -> Path:
    """Path of a file with links resolved; refuses paths that cannot be written."""
    given, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{given} is a folder; name a file in it.")
    if target.exists() and not target.is_file():
        raise OSError(f"{given} is not a regular file; name another one.")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{given} is write-protected; name another file.")
    if target.parent.is_file():
        raise NotADirectoryError(f"{given.parent} is a file, where a folder is needed.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {given.parent} to write {given.name} to.")
    return target


@contextmanager
def _errors_name(path: Path_) -> Iterator[None]:
    """Context in which system errors name the given path instead of none or a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and str(error.filename or PART).endswith(PART):
            error.filename, error.filename2 = os.fspath(path), None
        raise
