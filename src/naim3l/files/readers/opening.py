"""Bytes and text of a file: compression by its extension, encoding by its bytes."""

import bz2
import codecs
import gzip
import lzma
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any

from naim3l.files.readers.errors import ReadError, load_extra

COMPRESSED_EXTENSIONS = (".gz", ".zip", ".bz2", ".xz")
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
# Without a byte order mark.
UTF_16 = ("utf-16-le", "utf-16-be")
# Windows' encoding of Western Europe, and one that has a character for every byte.
_WESTERN, _EVERY_BYTE = "cp1252", "latin-1"
_OTHERS = (
    "cp1250", "cp1251", "koi8-r", "cp1253", "cp1255", "cp932", "euc-jp", "gb18030", "big5", "cp949",
)  # fmt: skip
# Characters that separate cells; no letter of these encodings contains such a byte.
_CUTS = re.compile(rb'[,;\t"\r\n]+')
_NEAR = 1 << 20  # bytes after the first foreign one that are searched for others
_MOST_CELLS, _FEWEST_BYTES = 1000, 6  # on which the guess of the encoding is based


@contextmanager
def _bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed according to its extension."""
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    extension = path.suffix.lower()
    if extension != ".zip":
        with openers.get(extension, open)(path, "rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/")]
        if len(members) != 1:
            raise ReadError(
                f"{path}: {len(members)} files in the archive, where one table is expected; "
                "extract it and name one of them."
            )
        with archive.open(members[0]) as file:
            yield file


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIOWrapper]:
    """The text of a file, with unchanged line ends."""
    with _bytes(path) as raw, TextIOWrapper(raw, encoding=encoding, newline="") as text:
        yield text


def find_encoding(path: Path) -> str:
    """Encoding by the byte order mark, or UTF-8 or UTF-16; refuses files that are not text."""
    with _bytes(path) as raw:
        start = raw.read(1 << 16)
    if not start:
        raise ReadError(f"{path}: the file is empty; a header and at least one row are needed.")
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    for magic, kind in _KINDS.items():
        # The header of a table can begin with these letters, too.
        if start.startswith(magic) and (b"\0" in start or not magic.isalnum()):
            raise ReadError(f"{path}: not a text file but {kind}; give it its right extension.")
    if b"\0" not in start:
        return "utf-8"
    for encoding in UTF_16:
        text = start.decode(encoding, errors="ignore")  # the last character may be cut
        if "\n" in text and "\0" not in text:
            return encoding
    raise ReadError(
        f"{path}: a binary file; save it as UTF-8 text, or give it its right extension."
    )


def guess_encoding(path: Path) -> tuple[int, int, str]:
    """Line and value of the first byte that is not UTF-8, and the likely encoding.

    All of the file can be decoded in that encoding. There must be such a byte.
    """
    line, byte, cells = _find_foreign(path)
    encodings = (_guess(cells), _WESTERN, _EVERY_BYTE)
    return line, byte, next(name for name in encodings if _decodes(path, name))


def _find_foreign(path: Path) -> tuple[int, int, bytes]:
    """Line and value of the first byte that is not UTF-8, and cells in and after that line."""
    with _bytes(path) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                cells = _foreign_cells([line, *raw.readlines(_NEAR)])
                return number, line[error.start], cells
    raise ReadError(f"{path}: has changed while it was read; read it again.")


def _foreign_cells(lines: Sequence[bytes]) -> bytes:
    """Distinct cells that are not ASCII, one per line: others do not depend on the encoding."""
    cells = (cell for line in lines for cell in _CUTS.split(line) if not cell.isascii())
    return b"\n".join(islice(dict.fromkeys(cells), _MOST_CELLS))


def _guess(foreign: bytes) -> str:
    """The Western European encoding, unless charset-normalizer rules it out.

    Its own first choice is wrong for most short tables in French, Spanish or Swedish, which it
    reads as Central European, and for units such as °C, which it reads as Chinese.
    """
    text = foreign.decode(_WESTERN, errors="replace")
    has_letters = any(c.isalpha() for c in text if not c.isascii() and c not in "ªµº")
    if not has_letters or sum(byte > 127 for byte in foreign) < _FEWEST_BYTES:
        return _WESTERN
    plausible = load_extra("charset_normalizer").from_bytes(
        foreign, cp_isolation=[_WESTERN, *_OTHERS], preemptive_behaviour=False
    )
    if not plausible or any(_WESTERN in match.could_be_from_charset for match in plausible):
        return _WESTERN
    return codecs.lookup(plausible.best().encoding).name


def _decodes(path: Path, encoding: str) -> bool:
    try:
        with open_text(path, encoding) as text:
            while text.read(_NEAR):
                pass
    except UnicodeDecodeError:
        return False
    return True
