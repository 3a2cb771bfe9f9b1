"""Tables in several files: folders and patterns of Parquet files or of text files."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from naim3l.files.readers.errors import ReadError
from naim3l.files.readers.opening import COMPRESSED_EXTENSIONS
from naim3l.files.readers.table import TEXT_EXTENSIONS
from naim3l.files.sources import URL, show_source
from naim3l.input.parquet_files import EXTENSIONS as PARQUET_EXTENSIONS
from naim3l.input.passes import load_dask

PARQUET, TEXT = "Parquet", "text"


def is_folder(source: str) -> bool:
    """Whether a source is a folder or a pattern of files, instead of one table.

    A question mark alone makes no pattern, as misspelt addresses have some.

    Examples
    --------
    >>> is_folder("visits/*.parquet"), is_folder("visits.parquet")
    (True, False)
    """
    if URL.match(source):
        return False
    is_pattern = any(sign in source for sign in "*[") and not os.path.exists(source)
    return is_pattern or os.path.isdir(source)


def file_format(path: Path) -> str | None:
    """Format of a file whose rows can be read in parts, by its extension; None for others.

    Examples
    --------
    >>> file_format(Path("visits.csv.gz")), file_format(Path("visits.xlsx"))
    ('text', None)
    """
    extensions = [extension.lower() for extension in path.suffixes]
    if extensions and extensions[-1] in PARQUET_EXTENSIONS:
        return PARQUET
    if extensions and extensions[-1] in COMPRESSED_EXTENSIONS:
        extensions.pop()
    return TEXT if extensions and extensions[-1] in TEXT_EXTENSIONS else None


def find_files(source: str) -> list[Path]:
    """Files of a folder, of those below it, or of a pattern, in the order of their numbers.

    Hidden files, and those of a folder with other extensions, are left out.

    Raises
    ------
    ReadError
        If there is none, or if they have different formats.
    """
    is_dir = os.path.isdir(source)
    found = Path(source).rglob("*") if is_dir else map(Path, glob.glob(source, recursive=True))
    files = [path for path in found if path.is_file() and not _is_hidden(path, source, is_dir)]
    known = [path for path in files if file_format(path) is not None]
    extensions = ", ".join((*PARQUET_EXTENSIONS, *TEXT_EXTENSIONS))
    if not known:
        shown = repr(show_source(source))
        where = f"in the folder {shown}" if is_dir else f"like {shown}"
        raise ReadError(
            f"there are no files {where} with the extension {extensions}, text also with "
            f"{', '.join(COMPRESSED_EXTENSIONS)}."
        )
    if not is_dir and len(known) < len(files):
        other = next(path for path in files if file_format(path) is None)
        raise ReadError(
            f"{other}: files of a pattern must have the extension {extensions}; name this file "
            "alone, or make the pattern narrower."
        )
    known.sort(key=lambda path: load_dask("dask.utils").natural_sort_key(str(path)))
    _check_one_format(known)
    return known


def _is_hidden(path: Path, source: str, is_dir: bool) -> bool:
    parts = path.relative_to(source).parts if is_dir else (path.name,)
    return any(part[0] in "._" for part in parts)


def _check_one_format(files: Sequence[Path]) -> None:
    first = file_format(files[0])
    for path in files:
        if file_format(path) != first:
            raise ReadError(
                f"{files[0]} and {path} have different formats; give the files of one format, "
                "with a pattern such as '*.parquet'."
            )
