"""Text files of one table in parts: ranges of bytes that begin and end between two rows.

Separator and encoding are those of the first file. A part is found by counting bytes where there
are no quotes, and row by row where there are some.
"""

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import IO, Any, NamedTuple

from naim3l.files.readers.errors import UNNAMED, ReadError, mark_origin, quote
from naim3l.files.readers.opening import COMPRESSED_EXTENSIONS, open_text
from naim3l.files.readers.parsing import Layout, parse_cells
from naim3l.files.readers.text import (
    check_n_rows,
    check_records,
    find_layout,
    read_records,
    scan,
)

# In these encodings, bytes of line ends and quotes are also bytes of other characters.
_UNDIVIDED = ("utf-16", "utf-32")
_BLANK_LINE = re.compile(rb"(?:\A|\n)[ \t\r]*\n")
_LONE_RETURN = re.compile(rb"\r(?!\n)")


class TextPart(NamedTuple):
    """Rows of a text file.

    Attributes
    ----------
    path : Path
    names : tuple of str
        Columns of the file, in its order.
    start, end : int
        Bytes of the rows; an end of -1 is a file that is read as a whole.
    first_row, n_rows : int
        Number of the first row in the file, and number of rows.
    first_line : int
        Line of the first row, counted from 1.
    """

    path: Path
    names: tuple[str, ...]
    start: int
    end: int
    first_row: int
    n_rows: int
    first_line: int


@dataclass(frozen=True)
class TextFiles:
    """Text files of one table.

    Attributes
    ----------
    layout : Layout
        Of the first file.
    parts : tuple of TextPart
    """

    layout: Layout
    parts: tuple[TextPart, ...]

    def read(self, part: TextPart, columns: Sequence[str], text_columns: Collection[str]) -> Any:
        """Table of a part with some of its columns.

        Parameters
        ----------
        part : TextPart
        columns : sequence of str
        text_columns : collection of str
            Columns that remain text even if their cells are numbers.
        """
        layout, text = replace(self.layout, names=list(part.names)), self._text(part)
        if part.end < 0:
            layout = scan(part.path, layout.encoding)
        else:
            rows, last_line, shifts = _check(part, text, layout)
            layout = replace(layout, n_rows=rows, n_lines=last_line, shifts=shifts)
            # pandas skips the header.
            text = layout.separator.join("x" * len(part.names)) + "\n" + text
        frame, _ = parse_cells(
            lambda: nullcontext(StringIO(text, newline="")), layout, text_columns
        )
        check_n_rows(part.path, layout, frame)
        frame.columns = [name or f"{UNNAMED}{j + 1}" for j, name in enumerate(part.names)]
        if len(frame) != part.n_rows:
            raise ReadError(f"{part.path} has changed since its rows were counted; start again.")
        return mark_origin(
            frame[list(columns)],
            str(part.path),
            layout.shifts,
            commas=layout.has_commas,
            first_row=part.first_row,
        )

    def _text(self, part: TextPart) -> str:
        """Text of a part; with the header for a file that is read as a whole."""
        try:
            if part.end < 0:
                with open_text(part.path, self.layout.encoding) as text:
                    return text.read()
            with part.path.open("rb") as file:
                file.seek(part.start)
                return file.read(part.end - part.start).decode(_without_mark(self.layout.encoding))
        except UnicodeDecodeError as error:
            raise _not_decoded(part.path, self.layout.encoding, error) from error


def plan_text(files: Sequence[Path], part_bytes: int, n_head: int) -> TextFiles:
    """Parts of text files that have the same columns.

    Parameters
    ----------
    files : sequence of Path
    part_bytes : int
        Size of a part; a row is never divided, nor is a compressed file.
    n_head : int
        Number of rows of the first file by which its layout is found.

    Raises
    ------
    ReadError
        If files have different columns, or cannot be read.
    """
    layout = find_layout(files[0], n_head)
    parts: list[TextPart] = []
    for path in files:
        names, first_line = _header(path, layout)
        differing = sorted({*names} ^ {*layout.names})
        if differing:
            has, lacks = (path, files[0]) if differing[0] in names else (files[0], path)
            raise ReadError(
                f"{has} has the column {quote(differing[0])}, which {lacks} lacks; all files of a "
                "table must have the same columns."
            )
        parts += _divide(path, tuple(names), first_line, layout, part_bytes)
    return TextFiles(layout, tuple(parts))


def _header(path: Path, layout: Layout) -> tuple[list[str], int]:
    """Names of the columns of a file, and the line after them."""
    try:
        with open_text(path, layout.encoding) as text:
            header = next(read_records(path, text, layout.separator), None)
    except UnicodeDecodeError as error:
        raise _not_decoded(path, layout.encoding, error) from error
    if header is None:
        raise ReadError(f"{path}: no header; remove the file, or add a line of names.")
    return [name.strip() for name in header.cells], header.last_line + 1


def _divide(
    path: Path, names: tuple[str, ...], first_line: int, layout: Layout, part_bytes: int
) -> list[TextPart]:
    whole = path.suffix.lower() in COMPRESSED_EXTENSIONS
    if not whole and not layout.encoding.startswith(_UNDIVIDED):
        try:
            return list(_ranges(path, names, first_line, layout, part_bytes))
        except csv.Error:  # lines that end with a carriage return alone, or an open quote
            pass
    try:
        n_rows = scan(path, layout.encoding).n_rows
    except UnicodeDecodeError as error:
        raise _not_decoded(path, layout.encoding, error) from error
    return [TextPart(path, names, 0, -1, 0, n_rows, first_line)]


def _ranges(
    path: Path, names: tuple[str, ...], first_line: int, layout: Layout, part_bytes: int
) -> Iterator[TextPart]:
    first_row, line = 0, first_line
    with path.open("rb") as file:
        header = b"".join(file.readline() for _ in range(first_line - 1))
        if _LONE_RETURN.search(header):
            raise csv.Error("lines end with a carriage return alone")
        while True:
            start = file.tell()
            block = file.read(part_bytes)
            if not block:
                return
            block += file.readline()
            if _is_plain(block):
                n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
                n_rows, end = n_lines, start + len(block)
            else:
                file.seek(start)
                n_rows, n_lines, end = _walk(path, file, line, layout, start + part_bytes)
                file.seek(end)
            if n_rows:
                yield TextPart(path, names, start, end, first_row, n_rows, line)
            first_row, line = first_row + n_rows, line + n_lines


def _is_plain(block: bytes) -> bool:
    """Whether each line of a block is a row."""
    return not (
        b'"' in block
        or _BLANK_LINE.search(block)
        or (b"\r" in block and _LONE_RETURN.search(block))
    )


def _walk(
    path: Path, file: IO[bytes], first_line: int, layout: Layout, least_end: int
) -> tuple[int, int, int]:
    """Numbers of rows and lines up to the end of a row at ``least_end`` or later, and that end."""
    encoding = _without_mark(layout.encoding)

    def lines() -> Iterator[str]:
        try:
            while line := file.readline():
                yield line.decode(encoding)
        except UnicodeDecodeError as error:
            raise _not_decoded(path, layout.encoding, error) from error

    reader = csv.reader(lines(), delimiter=layout.separator, strict=True)
    blank = " \t\r\n".replace(layout.separator, "")
    n_rows = 0
    for cells in reader:
        n_rows += len(cells) > 1 or bool("".join(cells).strip(blank))
        if file.tell() >= least_end:
            break
    return n_rows, reader.line_num, file.tell()


def _check(part: TextPart, text: str, layout: Layout) -> tuple[int, int, list[tuple[int, int]]]:
    """As `check_records`; where each line is a row, by counting separators."""
    separator, n_columns = layout.separator, len(part.names)
    lines = text.removesuffix("\n").split("\n")
    if not ('"' in text or "\0" in text) and all(
        line.count(separator) == n_columns - 1 and line.strip() for line in lines
    ):
        return len(lines), part.first_line + len(lines) - 1, [(0, part.first_line)]
    records = read_records(part.path, StringIO(text, newline=""), separator, part.first_line)
    return check_records(part.path, records, n_columns, separator, None)


def _without_mark(encoding: str) -> str:
    """Encoding of text that is not at the start of its file."""
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _not_decoded(path: Path, encoding: str, error: UnicodeDecodeError) -> ReadError:
    return ReadError(
        f"{path}: not in {encoding}, as the first rows of the first file are ({error.reason}); "
        "save all files in UTF-8."
    )
