"""Bytes and text of a file: packing by its ending, encoding by its first bytes."""

import bz2
import codecs
import gzip
import lzma
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from naim3l.files.readers.errors import ReadError

_BOMS = {  # the longer ones first: UTF-32 begins like UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_KINDS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh9": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"SQLite format 3": "an SQLite database",
}


@contextmanager
def _bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where its ending says so."""
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    ending = path.suffix.lower()
    if ending != ".zip":
        with openers.get(ending, open)(path, "rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/")]
        if len(members) != 1:
            raise ReadError(
                f"{path}: {len(members)} files in the archive, where one table is expected; "
                "unpack it and name one of them."
            )
        with archive.open(members[0]) as file:
            yield file


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIOWrapper]:
    """The text of a file, with its line ends as they are."""
    with _bytes(path) as raw, TextIOWrapper(raw, encoding=encoding, newline="") as text:
        yield text


def find_encoding(path: Path) -> str:
    """Encoding by the byte order mark, else UTF-8; refuses what is empty or not text."""
    with _bytes(path) as raw:
        start = raw.read(1 << 16)
    if not start:
        raise ReadError(f"{path}: the file is empty; a header and at least one row are needed.")
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    for magic, kind in _KINDS.items():
        # A header can begin with these letters too.
        if start.startswith(magic) and (b"\0" in start or not magic.isalnum()):
            raise ReadError(f"{path}: not a text file but {kind}; give it its right ending.")
    if b"\0" in start:
        raise ReadError(
            f"{path}: a binary file, or UTF-16 without a byte order mark; save it as UTF-8 text, "
            "or give it its right ending."
        )
    return "utf-8"


def first_foreign(path: Path) -> tuple[int, int]:
    """Line and value of the first byte that is not UTF-8; there is one."""
    number, line = 0, b""
    with _bytes(path) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return number, line[error.start]
    return number, line[-1]
