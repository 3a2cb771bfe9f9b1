"""Files that appear whole or not at all."""

import glob
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Path to write to, beside ``path``; it becomes ``path`` if the block ends without error.

    Until then, and after an error, ``path`` stays as it was and nothing is left beside it.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; the name of a file is needed.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} to.")
    # A name of its own, so that two writers never share a half-written file.
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())  # else a power cut could leave the new name on an empty file
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Delete what writers of a file that were killed have left; none may be writing it now."""
    target = Path(path)
    for part in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        part.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with written_whole(path) as part:
        part.write_bytes(text.encode())
