"""Files that are written completely or not at all."""

import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Temporary path in the folder of ``path``, renamed to it if the block ends without error."""
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())  # otherwise a power failure could leave an empty file
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, completely or not at all."""
    with written_whole(path) as part:
        part.write_bytes(text.encode())


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse outputs that are inputs, or that could not be written, before hours of work."""
    sources = {os.path.realpath(path) for path in inputs}
    for output in outputs:
        if os.path.realpath(output) in sources:
            raise ValueError(
                f"{output} is read by this command and would be overwritten; name another file to "
                "write to."
            )
        if output.is_dir():
            raise IsADirectoryError(f"{output} is a folder; name a file in it.")
        folder = next(folder for folder in output.absolute().parents if folder.exists())
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file, where a folder is needed.")
        if not os.access(output if output.exists() else folder, os.W_OK):
            raise PermissionError(f"{output} cannot be written; name another file.")


def file_name(name: str) -> str:
    """A file name, without extension, that cannot point outside of its folder."""
    return re.sub(r"^\.|[^\w. -]", lambda found: f"%{ord(found[0]):02X}", name)
