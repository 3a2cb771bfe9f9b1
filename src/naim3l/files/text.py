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
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import chain, islice
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
_SAMPLE = 200  # lines from which the separator is detected
_POINT_NUMBER = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
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
# Windows' encoding of Western Europe, and one that has a character for every byte.
_WESTERN, _EVERY_BYTE = "cp1252", "latin-1"
_CYRILLIC_AND_GREEK = ("cp1250", "cp1251", "koi8-r", "cp1253", "cp1255")
_ASIAN = ("cp932", "euc-jp", "gb18030", "big5", "cp949")
# Characters that separate cells; no letter of these encodings contains such a byte.
_CUTS = re.compile(rb'[,;\t"\r\n]+')
_NEAR = 1 << 20  # bytes after the first foreign one that are searched for others
_MOST_CELLS, _FEWEST_BYTES = 1000, 6  # on which the guess of the encoding is based
_MOST_SHORT = 0.2  # of numbers between 1 and 1000 whose third decimal is 0, among thousands


@dataclass(frozen=True)
class TextFile:
    """A text file whose encoding, separator and header are known.

    Attributes
    ----------
    path : Path
    name : str
        Name of the file in `Origin.source`.
    encoding, separator : str
    n_cells : int
        Number of cells of each row.
    columns : dict of str to int
        Columns and their positions.
    has_rows : bool
        Whether there is a row below the header.
    note : str
        What the user should know about the encoding; empty if there is nothing.
    """

    path: Path
    name: str
    encoding: str
    separator: str
    n_cells: int
    columns: dict[str, int]
    has_rows: bool
    note: str

    @classmethod
    def open(cls, path: Path, name: str) -> "TextFile":
        """Detect the encoding by all bytes of the file, and the rest by its first lines.

        Columns without a name that are empty in these lines are left out.
        """
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
        has_rows = is_cut or any(line.strip(_blank(separator)) for line in below)
        return cls(path, name, encoding, separator, len(names), columns, has_rows, note)

    def batches(
        self, columns: Sequence[str], text_columns: Collection[str], batch_rows: int | None
    ) -> Iterator[tuple[Any, Origin]]:
        """Batches of at most ``batch_rows`` rows; types are inferred for each batch.

        Columns in ``text_columns``, without a name, or named like an id remain text: 007 is not 7.
        Numbers with a decimal comma are text, and only empty cells are missing.
        """
        positions = [self.columns[name] for name in columns]
        text = {
            j
            for j, c in zip(positions, columns, strict=True)
            if c in text_columns or is_named_like_id(c)
        }
        thousands = _Thousands(len(columns))
        for content, n_rows, origin in self._blocks(batch_rows):
            frame = self._parse(content, positions, dict.fromkeys(text, str))
            if len(frame) != n_rows:
                raise ReadError(
                    f"{self.path}: {n_rows} rows by lines, but {len(frame)} by cells; look for "
                    "stray quotes and carriage returns, or save it again."
                )
            frame.columns = list(columns)
            if self.separator != ",":
                thousands.add(frame)
            yield frame, origin
        thousands.warn(self.name, columns)

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
                if any(cells[j].strip() for j in dropped):
                    dropped = self._warn_of_dropped(cells, line, dropped)
                shift = line - first_row - n_rows
                if not shifts or shifts[-1][1] != shift:
                    shifts.append((first_row + n_rows, shift))
                content.write(text.encode())
                n_rows += 1
                if n_rows == batch_rows:
                    yield content.getvalue(), n_rows, self._origin(first_row, shifts)
                    first_row, n_rows, content, shifts = first_row + n_rows, 0, BytesIO(), []
        if n_rows:
            yield content.getvalue(), n_rows, self._origin(first_row, shifts)

    def _origin(self, first_row: int, shifts: Sequence[tuple[int, int]]) -> Origin:
        return Origin("", self.name, first_row, tuple(shifts))

    def _parse(self, content: bytes, positions: Sequence[int], dtype: Any) -> Any:
        pandas = load_extra("pandas")
        frame = pandas.read_csv(
            BytesIO(content),
            sep=self.separator,
            header=None,
            names=list(range(self.n_cells)),
            usecols=sorted(positions),
            dtype=dtype,
            index_col=False,
            keep_default_na=False,
            na_values=[""],
            low_memory=False,
            **_exact(pandas),
        )
        if list(frame.columns) != list(positions):
            frame = frame[list(positions)]
        # pandas reads each column into a separate block; a copy has one block per type, which
        # makes later operations on many columns fast.
        return frame.copy()

    def _ragged(self, n_cells: int, line: int, *, is_last: bool) -> ReadError:
        advice = f"quote cells that contain a {_SEPARATORS[self.separator]}"
        if n_cells < self.n_cells and is_last:
            advice = "it is the last line: the file is perhaps cut short"
        if n_cells == self.n_cells + 1:
            advice += "; if the first cell of each row is its name, give that column a name too"
        return ReadError(
            f"{self.path}, line {line}: {n_cells} cells, but the header has {self.n_cells}; "
            f"{advice}."
        )

    def _warn_of_dropped(self, cells: Sequence[str], line: int, dropped: list[int]) -> list[int]:
        j = next(j for j in dropped if cells[j].strip())
        warn_user(
            f"{self.path}, line {line}: {quote(cells[j])} is in column {j + 1}, which is left out "
            "because it has no name and its first cells are empty; give it a name to use it."
        )
        return []  # once per file


class _Thousands:
    """Search for columns in which a point may separate thousands: 950 beside 1.234.

    All of their numbers are below 1000, and those that are not whole are above 1 and have three
    decimals. Without whole numbers, the two readings of a column differ only in scale.
    """

    def __init__(self, n_columns: int) -> None:
        self._fits = np.ones(n_columns, dtype=bool)
        self._has_whole = np.zeros(n_columns, dtype=bool)
        self._n_points, self._n_short = np.zeros((2, n_columns), dtype=int)
        self._example = np.zeros(n_columns)

    def add(self, frame: Any) -> None:
        """Take note of a batch with all columns."""
        is_number = np.array([getattr(kind, "kind", "O") in "iuf" for kind in frame.dtypes])
        self._fits &= is_number | frame.isna().all().to_numpy()
        columns = np.flatnonzero(self._fits & is_number)
        values = np.abs(frame.iloc[:, columns].to_numpy(dtype=float))
        with np.errstate(invalid="ignore", over="ignore"):
            whole = values == np.round(values)
            point = ~whole & (values > 1) & (np.abs(np.round(values, 3) - values) < 1e-9)
            self._fits[columns] = (np.isnan(values) | (values < 1000) & (whole | point)).all(axis=0)
            short = point & (np.abs(np.round(values, 2) - values) < 1e-9)
        self._has_whole[columns] |= whole.any(axis=0)
        self._n_points[columns] += point.sum(axis=0)
        self._n_short[columns] += short.sum(axis=0)
        largest = np.where(point & ~short, values, 0).max(axis=0, initial=0)
        self._example[columns] = np.maximum(self._example[columns], largest)

    def warn(self, where: str, columns: Sequence[str]) -> None:
        is_long = (self._n_short <= _MOST_SHORT * self._n_points) & (self._n_points > 0)
        for j in np.flatnonzero(self._fits & self._has_whole & is_long).tolist():
            warn_user(
                f"{where}, column {quote(columns[j])}: numbers such as {self._example[j]:.3f} are "
                "read with a decimal point. If it separates thousands, remove it from the cells."
            )


def _exact(pandas: Any) -> dict[str, str]:
    """Options with which pandas reads floats exactly, which is its default from 3.1 on."""
    version = tuple(int(number) for number in re.findall(r"\d+", pandas.__version__)[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


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
    blank = _blank(separator)
    try:
        for cells in reader:
            text = "".join(raw)
            if text.strip(blank):
                yield cells, text, first
            raw.clear()
            first = reader.line_num + 1
    except csv.Error as error:
        raise ReadError(
            f"{path}, line {first}: {error}; a quote is perhaps not closed, or stands within a "
            "cell: double it there."
        ) from error


def _blank(separator: str) -> str:
    """Characters of empty lines."""
    return " \t\r\n".replace(separator, "")


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
        if not widths or widths[0] == 1:
            continue
        alike = sum(width == widths[0] for width in widths) / len(widths)
        score = (alike == 1.0, alike, widths[0])
        if score > best_score:
            best, best_score = separator, score
    return best


def _check_header(path: Path, names: Sequence[str], below: Sequence[str]) -> None:
    if all(_POINT_NUMBER.fullmatch(name) for name in names):
        raise ReadError(
            f"{path}: the first line has numbers where names of columns are expected; add a line "
            "of names above it."
        )
    if len(names) > 1:
        return
    if within := next((word for mark, word in _SEPARATORS.items() if mark in names[0]), None):
        raise ReadError(
            f"{path}: one column only, whose name {quote(names[0])} contains a {within}; quotes "
            f"around whole lines, or other separators than {_SEPARATOR_WORDS}?"
        )
    rows = [line for line in below if line.strip()]
    if rows and all(re.fullmatch(r"\s*[+-]?[\d.]+(\s+[+-]?[\d.]+)+\s*", row) for row in rows):
        raise ReadError(
            f"{path}: cells seem to be separated by spaces; save it with {_SEPARATOR_WORDS}."
        )


@contextmanager
def _open_bytes(path: Path) -> Iterator[IO[bytes]]:
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
def _open_text(path: Path, encoding: str) -> Iterator[TextIOWrapper]:
    """The text of a file, with unchanged line ends."""
    with _open_bytes(path) as raw, TextIOWrapper(raw, encoding=encoding, newline="") as text:
        yield text


def _find_encoding(path: Path) -> tuple[str, str]:
    """Encoding in which all of a file can be decoded, and what the user should know about it."""
    with _open_bytes(path) as raw:
        encoding, note = _first_guess(path, raw.read(1 << 16))
    error = _decoding_error(path, encoding)
    if error is None:
        return encoding, note
    if encoding != "utf-8":
        raise ReadError(
            f"{path}: begins like a file in {encoding}, but is damaged ({error.reason}); save it "
            "again in UTF-8."
        ) from error
    line, byte, cells = _find_foreign(path)
    choices = (_guess(cells), _WESTERN, _EVERY_BYTE)
    encoding = next(name for name in choices if _decoding_error(path, name) is None)
    return encoding, (
        f"{path}: not in UTF-8 (line {line} has byte 0x{byte:02x}), read as {encoding}; look at "
        "names and text with accents, or save it in UTF-8."
    )


def _first_guess(path: Path, start: bytes) -> tuple[str, str]:
    """Encoding by a byte order mark, or UTF-8 or UTF-16; refuses files that are not text."""
    if not start:
        raise ReadError(f"{path}: the file is empty; a header and at least one row are needed.")
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding, ""
    for magic, kind in _KINDS.items():
        # The header of a table can begin with these letters, too.
        if start.startswith(magic) and (b"\0" in start or not magic.isalnum()):
            raise ReadError(f"{path}: not a text file but {kind}; give it its right extension.")
    if b"\0" not in start:
        return "utf-8", ""
    for encoding in ("utf-16-le", "utf-16-be"):
        text = start.decode(encoding, errors="ignore")  # the last character may be cut
        if "\n" in text and "\0" not in text:
            return encoding, (
                f"{path}: no byte order mark, read as {encoding}; if it is, save it in UTF-8."
            )
    raise ReadError(
        f"{path}: a binary file; save it as UTF-8 text, or give it its right extension."
    )


def _decoding_error(path: Path, encoding: str) -> UnicodeDecodeError | None:
    """The error with which decoding a file fails; None if it does not."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with _open_bytes(path) as raw:
            while chunk := raw.read(_NEAR):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return error
    return None


def _find_foreign(path: Path) -> tuple[int, int, bytes]:
    """Line and value of the first byte that is not UTF-8, and cells in and after that line.

    The cells are distinct, one per line, and not ASCII: others do not depend on the encoding.
    """
    with _open_bytes(path) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                lines = chain([line], raw.readlines(_NEAR))
                cells = (cell for near in lines for cell in _CUTS.split(near) if not cell.isascii())
                foreign = b"\n".join(islice(dict.fromkeys(cells), _MOST_CELLS))
                return number, line[error.start], foreign
    raise ReadError(f"{path}: has changed while it was read; read it again.")


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
        foreign,
        cp_isolation=[_WESTERN, *_CYRILLIC_AND_GREEK, *_ASIAN],
        preemptive_behaviour=False,
    )
    if not plausible or any(_WESTERN in match.could_be_from_charset for match in plausible):
        return _WESTERN
    return codecs.lookup(plausible.best().encoding).name
