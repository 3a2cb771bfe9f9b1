"""Tables in delimited text files, read once and in order, batch by batch.

The csv module finds the rows and their lines and checks the number of cells of each; pandas reads
the cells of a batch. Encoding, separator and names are found when the file is opened.
"""

import bz2
import codecs
import csv
import gzip
import lzma
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from naim3l._ids import is_named_like_id
from naim3l._origin import Origin
from naim3l._text import quote
from naim3l._warnings import warn_user
from naim3l.files.errors import ReadError, load_extra, name_columns

TEXT_EXTENSIONS = (".csv", ".tsv", ".txt")
COMPRESSED_EXTENSIONS = (".gz", ".zip", ".bz2", ".xz")
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SEPARATOR_WORDS = ", ".join(_SEPARATORS.values())
_BLANK = " \t\r\n"  # characters of empty lines
_SAMPLE = 200  # lines from which the separator is detected
_POINT_NUMBER = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
# The longer ones first: UTF-32 begins like UTF-16.
_BOMS = dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32")
_BOMS |= dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16")
_BOMS[codecs.BOM_UTF8] = "utf-8-sig"
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
# Windows' encoding of Western Europe, and one that has a character for every byte.
_WESTERN, _EVERY_BYTE = "cp1252", "latin-1"
_CHUNK = 1 << 20  # bytes
_MOST_SHORT = 0.2  # of numbers between 1 and 1000 whose third decimal is 0, among thousands


@dataclass(frozen=True)
class TextFile:
    """A text file whose encoding, separator and header are known."""

    path: Path
    name: str  # in `Origin.source`
    encoding: str
    separator: str
    n_cells: int  # of each row
    columns: dict[str, int]  # and their positions
    has_rows: bool  # below the header
    note: str  # on the encoding, for the user; empty if there is nothing to say

    @classmethod
    def open(cls, path: Path, name: str) -> "TextFile":
        """Detect the encoding by all bytes of the file, and the rest by its first lines."""
        encoding, note = _find_encoding(path)
        with _open_text(path, encoding) as text:
            sample = list(islice(text, _SAMPLE))
        is_cut, lines = len(sample) == _SAMPLE, iter(sample)
        separator = _separator(sample, is_cut, first="\t" if ".tsv" in path.name.lower() else ",")
        header, *_ = next(_records(path, lines, separator), (None,))
        if header is None:
            raise ReadError(f"{path}: nothing but empty lines; a header and rows are needed.")
        names, below = [cell.strip() for cell in header], list(lines)
        _check_header(path, names, below)
        rows = list(csv.reader(below, delimiter=separator)) if "" in names else []
        columns = name_columns(
            names, str(path), lambda j: not any(row[j].strip() for row in rows if j < len(row))
        )
        has_rows = is_cut or any(line.strip(_BLANK.replace(separator, "")) for line in below)
        return cls(path, name, encoding, separator, len(names), columns, has_rows, note)

    def batches(
        self, columns: Sequence[str], text_columns: Collection[str], batch_rows: int | None
    ) -> Iterator[tuple[Any, Origin]]:
        """Batches of at most ``batch_rows`` rows; types are inferred for each batch.

        Columns in ``text_columns``, without a name, or named like an id remain text: 007 is not 7.
        Numbers with a decimal comma are text, and only empty cells are missing.
        """
        positions = [self.columns[name] for name in columns]
        text = [name for name in columns if name in text_columns or is_named_like_id(name)]
        dtype = {self.columns[name]: str for name in text}
        for content, n_rows, origin in self._blocks(batch_rows):
            frame = self._parse(content, positions, dtype)
            if len(frame) != n_rows:
                counts = f"{n_rows} rows by lines, but {len(frame)} by cells"
                raise ReadError(f"{self.path}: {counts}; look for stray quotes and line ends.")
            frame.columns = list(columns)
            if self.separator != "," and origin.first_row == 0:
                _warn_of_thousands(frame, self.name)
            yield frame, origin

    def _blocks(self, batch_rows: int | None) -> Iterator[tuple[bytes, int, Origin]]:
        """Text of the rows of each batch, in UTF-8, their number and origin."""
        dropped = sorted({*range(self.n_cells)} - {*self.columns.values()})
        first_row, n_rows, content = 0, 0, BytesIO()
        shifts: list[tuple[int, int]] = []
        with _open_text(self.path, self.encoding) as opened:
            records = _records(self.path, opened, self.separator)
            next(records, None)  # the header
            for cells, text, line in records:
                if len(cells) != self.n_cells:
                    raise self._ragged(len(cells), line, is_last=next(records, None) is None)
                for j in [j for j in dropped if cells[j].strip()][:1]:
                    dropped = []  # once per file
                    warn_user(
                        f"{self.path}, line {line}: {quote(cells[j])} is in column {j + 1}, which "
                        "is left out because it has no name and its first cells are empty; give "
                        "it a name to use it."
                    )
                shift = line - first_row - n_rows
                if not shifts or shifts[-1][1] != shift:
                    shifts.append((first_row + n_rows, shift))
                content.write(text.encode())
                n_rows += 1
                if n_rows == batch_rows:
                    origin = Origin("", self.name, first_row, tuple(shifts))
                    yield content.getvalue(), n_rows, origin
                    first_row, n_rows, content, shifts = first_row + n_rows, 0, BytesIO(), []
        if n_rows:
            yield content.getvalue(), n_rows, Origin("", self.name, first_row, tuple(shifts))

    def _parse(self, content: bytes, positions: Sequence[int], dtype: Any) -> Any:
        pandas = load_extra("pandas")
        options = {"header": None, "index_col": False, "low_memory": False, "dtype": dtype}
        options |= {"keep_default_na": False, "na_values": [""]}
        # Floats are read exactly, which is the default from 3.1 on.
        version = tuple(int(number) for number in re.findall(r"\d+", pandas.__version__)[:2])
        options |= {} if version >= (3, 1) else {"float_precision": "round_trip"}
        names, used = list(range(self.n_cells)), sorted(positions)
        frame = pandas.read_csv(
            BytesIO(content), sep=self.separator, names=names, usecols=used, **options
        )
        # pandas reads each column into a separate block; a copy has one block per type, which
        # makes later operations on many columns fast.
        return (frame if used == list(positions) else frame[list(positions)]).copy()

    def _ragged(self, n_cells: int, line: int, *, is_last: bool) -> ReadError:
        advice = f"quote cells that contain a {_SEPARATORS[self.separator]}"
        if n_cells < self.n_cells and is_last:
            advice = "it is the last line: the file is perhaps cut short"
        if n_cells == self.n_cells + 1:
            advice += "; if the first cell of each row is its name, give that column a name too"
        fault = f"{n_cells} cells, but the header has {self.n_cells}"
        return ReadError(f"{self.path}, line {line}: {fault}; {advice}.")


def _warn_of_thousands(frame: Any, where: str) -> None:
    """Warn of columns in which a point may separate thousands: 950 beside 1.234.

    Without whole numbers, the two readings of a column differ only in scale.
    """
    for name, column in frame.items():
        if column.dtype.kind != "f":
            continue
        values = np.abs(column.dropna().to_numpy())
        points = values[values != np.round(values)]
        short, exact = (np.abs(np.round(points, n) - points) < 1e-9 for n in (2, 3))
        in_range = 0 < len(points) < len(values) and values.max() < 1000 and points.min() > 1
        if in_range and exact.all() and short.mean() <= _MOST_SHORT:
            warn_user(
                f"{where}, column {quote(name)}: numbers such as {points[~short].max():.3f} are "
                "read with a decimal point. If it separates thousands, remove it from the cells."
            )


def _records(
    path: Path, lines: Iterable[str], separator: str
) -> Iterator[tuple[list[str], str, int]]:
    """Cells, text and first line of each row; empty lines are skipped."""
    raw: list[str] = []

    def remember() -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise ReadError(f"{path}, line {number}: a NUL byte, which text does not have.")
            raw.append(line)
            yield line

    first, reader = 1, csv.reader(remember(), delimiter=separator, strict=True)
    blank = _BLANK.replace(separator, "")
    try:
        for cells in reader:
            text = "".join(raw)
            if text.strip(blank):
                yield cells, text, first
            raw.clear()
            first = reader.line_num + 1
    except csv.Error as error:
        advice = "a quote is perhaps not closed, or stands within a cell: double it there"
        raise ReadError(f"{path}, line {first}: {error}; {advice}.") from error


def _separator(sample: Sequence[str], is_cut: bool, first: str) -> str:
    """The separator for which most rows have the same number of cells, and more than one."""
    best, best_score = first, (False, 0.0, 0)
    for separator in sorted(_SEPARATORS, key=lambda entry: entry != first):
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=separator) if row]
        except csv.Error:  # a cell without an end: not this separator
            continue
        if is_cut and len(widths) > 1:
            del widths[-1]  # possibly an incomplete row
        alike = sum(width == widths[0] for width in widths) / max(len(widths), 1)
        score = (alike == 1.0, alike, widths[0] if widths else 0)
        if score > best_score and score[2] > 1:
            best, best_score = separator, score
    return best


def _check_header(path: Path, names: Sequence[str], below: Sequence[str]) -> None:
    if all(_POINT_NUMBER.fullmatch(name) for name in names):
        raise ReadError(f"{path}: the first line has numbers; add a line of names above it.")
    if len(names) > 1:
        return
    if within := next((word for mark, word in _SEPARATORS.items() if mark in names[0]), None):
        raise ReadError(
            f"{path}: one column only, whose name {quote(names[0])} contains a {within}; quotes "
            f"around whole lines, or other separators than {_SEPARATOR_WORDS}?"
        )
    rows = [line for line in below if line.strip()]
    if rows and all(re.fullmatch(r"\s*[+-]?[\d.]+(\s+[+-]?[\d.]+)+\s*", row) for row in rows):
        raise ReadError(f"{path}: cells are separated by spaces; save it with {_SEPARATOR_WORDS}.")


@contextmanager
def _open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed according to its extension."""
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    extension = path.suffix.lower()
    if extension != ".zip":
        with path.open("rb") as raw, openers.get(extension, nullcontext)(raw) as file:
            yield file
        return
    with path.open("rb") as raw, zipfile.ZipFile(raw) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/")]
        if len(members) != 1:
            raise ReadError(f"{path}: {len(members)} files in the archive; extract and name one.")
        with archive.open(members[0]) as file:
            yield file


@contextmanager
def _open_text(path: Path, encoding: str) -> Iterator[TextIOWrapper]:
    with _open_bytes(path) as raw, TextIOWrapper(raw, encoding=encoding, newline="") as text:
        yield text


def _find_encoding(path: Path) -> tuple[str, str]:
    """Encoding in which all of a file can be decoded, and what the user should know about it."""
    with _open_bytes(path) as raw:
        encoding = _first_guess(path, raw.read(1 << 16))
    error = _decoding_error(path, encoding)
    if error is None:
        return encoding, ""
    if encoding != "utf-8":
        begin = f"begins like a file in {encoding}, but is damaged ({error})"
        raise ReadError(f"{path}: {begin}; save it again in UTF-8.")
    encoding = _EVERY_BYTE if _decoding_error(path, _WESTERN) else _WESTERN
    return encoding, (
        f"{path}: not in UTF-8 ({error}), read as {encoding}; if names and text with accents or "
        "other letters look wrong, save it in UTF-8."
    )


def _first_guess(path: Path, start: bytes) -> str:
    """Encoding by a byte order mark, or UTF-8; refuses files that are not text."""
    if not start:
        raise ReadError(f"{path}: the file is empty; a header and at least one row are needed.")
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    for magic, kind in _KINDS.items():
        # The header of a table can begin with these letters, too.
        if start.startswith(magic) and (b"\0" in start or not magic.isalnum()):
            raise ReadError(f"{path}: not a text file but {kind}; give it its right extension.")
    if b"\0" in start:
        raise ReadError(f"{path}: a binary file; save it as UTF-8, or give its right extension.")
    return "utf-8"


def _decoding_error(path: Path, encoding: str) -> str | None:
    """Where decoding a file fails, and why; None if it does not."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    with _open_bytes(path) as raw:
        try:
            while chunk := raw.read(_CHUNK):
                line += decoder.decode(chunk).count("\n")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            return f"line {line} has byte 0x{error.object[error.start]:02x}, {error.reason}"
    return None
