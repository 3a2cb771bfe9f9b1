"""Tables in text files: detection of separators and encodings, checks of rows.

First the csv module determines the lines and the number of cells of each row; then
`naim3l.files.readers.parsing` reads the cells.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from naim3l.files.readers.errors import ReadError, mark_origin, quote
from naim3l.files.readers.opening import UTF_16, find_encoding, guess_encoding, open_text
from naim3l.files.readers.parsing import Layout, parse_cells
from naim3l.input.tables import warn_user

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SEPARATOR_WORDS = ", ".join(SEPARATORS.values())
_POINT_NUMBER = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
_SAMPLE = 200  # number of lines from which the separator is detected


def read_text(path: Path, *, text_columns: Collection[str] = (), n_rows: int | None = None) -> Any:
    """Table of a delimited text file; see `naim3l.files.readers.read_table`."""
    layout = find_layout(path, n_rows)
    frame, thousands = parse_cells(
        lambda: open_text(path, layout.encoding), layout, text_columns, n_rows
    )
    check_n_rows(path, layout, frame)
    return mark_origin(
        frame, str(path), layout.shifts, commas=layout.has_commas, thousands=thousands
    )


def find_layout(path: Path, n_rows: int | None = None) -> Layout:
    """Layout of a text file, or of its first rows."""
    encoding = find_encoding(path)
    if encoding in UTF_16:
        warn_user(f"{path}: no byte order mark, read as {encoding}; if it is, save it in UTF-8.")
    try:
        return scan(path, encoding, n_rows)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise ReadError(
                f"{path}: begins like a file in {encoding}, but is damaged ({error.reason}); "
                "save it again in UTF-8."
            ) from error
        line, byte, encoding = guess_encoding(path)
        warn_user(
            f"{path}: not in UTF-8 (line {line} has byte 0x{byte:02x}), read as {encoding}; look "
            "at names and text with accents, or save it in UTF-8."
        )
        return scan(path, encoding, n_rows)


def check_n_rows(path: Path, layout: Layout, frame: Any) -> None:
    """Refuse a table that does not have as many rows as its layout."""
    if len(frame) != layout.n_rows:
        raise ReadError(
            f"{path}: {layout.n_rows} rows by lines, but {len(frame)} by cells; look for stray "
            "quotes and carriage returns, or save it again."
        )


def scan(path: Path, encoding: str, n_rows: int | None = None) -> Layout:
    """Layout of a file, by one pass over its rows; refuses files that are not a table."""
    with open_text(path, encoding) as text:
        sample = list(islice(text, _SAMPLE))
        cut = len(sample) == _SAMPLE
        separator = _separator(sample, cut, first="\t" if ".tsv" in path.name.lower() else ",")
        records = read_records(path, chain(sample, text), separator)
        header = next(records, None)
        if header is None:
            raise ReadError(f"{path}: nothing but empty lines; a header and rows are needed.")
        names = [name.strip() for name in header.cells]
        _check_header(path, names, sample)
        count, last_line, shifts = check_records(path, records, len(names), separator, n_rows)
    if not count:
        raise ReadError(f"{path}: a header, but no rows below it.")
    return Layout(encoding, separator, names, count, last_line or header.last_line, shifts)


def check_records(
    path: Path, records: Iterator["Record"], n_columns: int, separator: str, n_rows: int | None
) -> tuple[int, int, list[tuple[int, int]]]:
    """Number of rows, last line and shifts as in `Layout`; refuses rows of another width."""
    shifts: list[tuple[int, int]] = []
    count, last_line = 0, 0
    for record in islice(records, n_rows):
        if len(record.cells) != n_columns:
            is_last = next(records, None) is None
            raise _ragged(path, record, n_columns, separator, is_last=is_last)
        shift = record.line - count
        if not shifts or shifts[-1][1] != shift:
            shifts.append((count, shift))
        count, last_line = count + 1, record.last_line
    return count, last_line, shifts


@dataclass(frozen=True)
class Record:
    """A row of a text file, and the first and the last of its lines."""

    cells: list[str]
    line: int
    last_line: int


def read_records(
    path: Path, lines: Iterable[str], separator: str, first_line: int = 1
) -> Iterator[Record]:
    """Rows with their lines; empty lines are skipped."""
    raw: list[str] = []

    def remember() -> Iterator[str]:
        for number, line in enumerate(lines, start=first_line):
            if "\0" in line:
                raise ReadError(f"{path}, line {number}: a NUL byte, which text does not have.")
            raw.append(line)
            yield line

    blank = " \t\r\n".replace(separator, "")
    first, reader = first_line, csv.reader(remember(), delimiter=separator, strict=True)
    try:
        for cells in reader:
            last = first_line - 1 + reader.line_num
            if any(line.strip(blank) for line in raw):
                yield Record(cells, first, last)
            raw.clear()
            first = last + 1
    except csv.Error as error:
        raise ReadError(
            f"{path}, line {first}: {error}; a quote is perhaps not closed, or stands within a "
            "cell: double it there."
        ) from error


def _separator(sample: Sequence[str], cut: bool, first: str) -> str:
    """The separator for which most rows have the same number of cells, and more than one."""
    best, best_score = first, (False, 0.0, 0)
    for separator in sorted(SEPARATORS, key=lambda entry: entry != first):
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=separator) if row]
        except csv.Error:  # a cell without an end: not this separator
            continue
        if cut and len(widths) > 1:
            del widths[-1]  # possibly an incomplete row
        if not widths or widths[0] == 1:
            continue
        alike = sum(width == widths[0] for width in widths) / len(widths)
        score = (alike == 1.0, alike, widths[0])
        if score > best_score:
            best, best_score = separator, score
    return best


def _check_header(path: Path, names: Sequence[str], sample: Sequence[str]) -> None:
    if all(_POINT_NUMBER.fullmatch(name) for name in names):
        raise ReadError(
            f"{path}: the first line has numbers where names of columns are expected; add a line "
            "of names above it."
        )
    within = next((word for mark, word in SEPARATORS.items() if mark in names[0]), None)
    if len(names) == 1 and within:
        raise ReadError(
            f"{path}: one column only, whose name {quote(names[0])} contains a {within}; quotes "
            f"around whole lines, or other separators than {_SEPARATOR_WORDS}?"
        )
    cells = [line.split() for line in sample[1:] if line.strip()]
    if len(names) == 1 and cells and all(_several_numbers(row) for row in cells):
        raise ReadError(
            f"{path}: cells seem to be separated by spaces; save it with {_SEPARATOR_WORDS}."
        )


def _several_numbers(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and all(re.fullmatch(r"[+-]?[\d.]+", cell) for cell in cells)


def _ragged(
    path: Path, record: Record, n_columns: int, separator: str, *, is_last: bool
) -> ReadError:
    n_cells = len(record.cells)
    advice = f"quote cells that contain a {SEPARATORS[separator]}"
    if n_cells < n_columns and is_last:
        advice = "it is the last line: the file is perhaps cut short"
    if n_cells == n_columns + 1:
        advice += "; if the first cell of each row is its name, give that column a name too"
    return ReadError(
        f"{path}, line {record.line}: {n_cells} cells, but the header has {n_columns}; {advice}."
    )
