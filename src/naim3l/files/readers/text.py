"""Tables in text files: detection of separators and encodings, checks of rows.

First the csv module determines the lines and the number of cells of each row; then
`naim3l.files.readers.parsing` reads the cells.
"""

import csv
import re
from collections.abc import Collection, Iterator, Sequence
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
    encoding = find_encoding(path)
    if encoding in UTF_16:
        warn_user(f"{path}: no byte order mark, read as {encoding}; if it is, save it in UTF-8.")
    try:
        layout = _scan(path, encoding, n_rows)
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
        layout = _scan(path, encoding, n_rows)
    frame, thousands = parse_cells(path, layout, text_columns, n_rows)
    if len(frame) != layout.n_rows:
        raise ReadError(
            f"{path}: {layout.n_rows} rows by lines, but {len(frame)} by cells; look for stray "
            "quotes and carriage returns, or save it again."
        )
    return mark_origin(
        frame, str(path), layout.shifts, commas=layout.has_commas, thousands=thousands
    )


def _scan(path: Path, encoding: str, n_rows: int | None) -> Layout:
    """Layout of a file, by one pass over its rows; refuses files that are not a table."""
    with open_text(path, encoding) as text:
        sample = list(islice(text, _SAMPLE))
        cut = len(sample) == _SAMPLE
        separator = _separator(sample, cut, first="\t" if ".tsv" in path.name.lower() else ",")
        records = _records(path, chain(sample, text), separator)
        header = next(records, None)
        if header is None:
            raise ReadError(f"{path}: nothing but empty lines; a header and rows are needed.")
        names = [name.strip() for name in header.cells]
        _check_header(path, names, sample)
        shifts: list[tuple[int, int]] = []
        count, last_line = 0, header.last_line
        for record in islice(records, n_rows):
            if len(record.cells) != len(names):
                is_last = next(records, None) is None
                raise _ragged(path, record, len(names), separator, is_last=is_last)
            shift = record.line - count
            if not shifts or shifts[-1][1] != shift:
                shifts.append((count, shift))
            count, last_line = count + 1, record.last_line
    if not count:
        raise ReadError(f"{path}: a header, but no rows below it.")
    return Layout(encoding, separator, names, count, last_line, shifts)


@dataclass(frozen=True)
class _Record:
    cells: list[str]
    line: int
    last_line: int


def _records(path: Path, lines: Iterator[str], separator: str) -> Iterator[_Record]:
    """Rows with their lines; empty lines are skipped."""
    raw: list[str] = []

    def remember() -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise ReadError(f"{path}, line {number}: a NUL byte, which text does not have.")
            raw.append(line)
            yield line

    blank = " \t\r\n".replace(separator, "")
    first, reader = 1, csv.reader(remember(), delimiter=separator, strict=True)
    try:
        for cells in reader:
            if any(line.strip(blank) for line in raw):
                yield _Record(cells, first, reader.line_num)
            raw.clear()
            first = reader.line_num + 1
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
    path: Path, record: _Record, n_columns: int, separator: str, *, is_last: bool
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
