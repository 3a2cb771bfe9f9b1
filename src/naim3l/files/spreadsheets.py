"""Tables in sheets of Excel workbooks."""

import re
import zipfile
from functools import reduce
from pathlib import Path
from typing import IO, Any

import numpy as np

from naim3l._origin import Origin
from naim3l._text import some
from naim3l.files.errors import ReadError, check_names, load_extra

_OLE = b"\xd0\xcf\x11\xe0"
# Where a row or a cell is in its sheet: r="12" or r="AB12".
_PLACE = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]*)([0-9]+)["']""")
_CHUNK, _LONGEST_TAG = 1 << 20, 1 << 16  # bytes
# Sheets are unpacked as rectangles: so many empty cells are allowed, and so many per stored cell.
_MOST_EMPTY, _EMPTY_PER_CELL = 2_000_000, 20
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14  # those of Excel
_MOST_BYTES = 1 << 32


def read_sheet(path: Path, sheet: str | None) -> tuple[Any, Origin]:
    """Table of one sheet of an .xlsx file, by default the only one that has cells.

    The first row that is not empty has the names. Empty rows are left out; empty cells, and errors
    such as #N/A, are missing.
    """
    calamine = load_extra("python_calamine")
    _check_workbook(path)
    try:
        with calamine.CalamineWorkbook.from_path(str(path)) as workbook:
            name = _choose(path, workbook, sheet)
            cells = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except BaseException as error:
        # What panics in Rust is no Exception, so that nobody else would report it.
        if type(error).__name__ != "PanicException":
            raise
        raise ReadError(f"{path}: a damaged workbook; save it anew.") from None
    return _frame(f"{path}#{name}", cells)


def _check_workbook(path: Path) -> None:
    """Refuse what is no workbook, or would take far more memory than its cells."""
    with path.open("rb") as file:
        if file.read(4) == _OLE:
            fault = "an old or an encrypted workbook"
            raise ReadError(f"{path}: {fault}; save it as .xlsx without a password.")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > _MOST_BYTES:
            raise ReadError(f"{path}: unpacked, it has more than 4 GiB; save the sheet as CSV.")
        for member in members:
            with archive.open(member) as part:
                _check_places(path, part)


def _check_places(path: Path, part: IO[bytes]) -> None:
    """Refuse a sheet in which a cell is far away from all others, or rows are not in order.

    The library would end the program where the rectangle of all cells does not fit into memory.
    """
    n_cells, n_rows, n_columns, rest = 0, 0, 0, b""
    is_sheet, in_order = False, True  # other parts name cells, too, in any order
    while chunk := part.read(_CHUNK):
        text, end = rest + chunk, 0
        for place in _PLACE.finditer(text):
            n_cells += bool(place[1])
            row, end = int(place[2][:12]), place.end()
            in_order &= row >= n_rows
            n_rows, n_columns = max(n_rows, row), max(n_columns, _column_number(place[1][:9]))
        is_sheet |= b"sheetData" in text
        rest = text[max(end, text.rfind(b"<"), len(text) - _LONGEST_TAG) :]
    if not is_sheet:
        return
    if not in_order:
        raise ReadError(f"{path}: a damaged sheet, whose rows are not in order; save it anew.")
    too_empty = n_rows * n_columns > _MOST_EMPTY + _EMPTY_PER_CELL * n_cells
    if too_empty or n_rows > _MOST_ROWS or n_columns > _MOST_COLUMNS:
        fault = f"a sheet of {n_rows} rows and {n_columns} columns, but {n_cells} cells"
        raise ReadError(f"{path}: {fault}; delete stray cells far from the table.")


def _column_number(letters: bytes) -> int:
    """Number of a column from 1: A is 1, AB is 28."""
    digits = (letter - ord("A") + 1 for letter in letters.upper())
    return reduce(lambda number, digit: 26 * number + digit, digits, 0)


def _choose(path: Path, workbook: Any, sheet: str | None) -> str:
    names = workbook.sheet_names
    if sheet is not None:
        check_names([sheet], names, str(path), "sheet")
        return sheet
    if len(names) > 1:
        filled = [name for name in names if workbook.get_sheet_by_name(name).height]
        if len(filled) > 1:
            advice = f"name one, such as {path.name}#{filled[0]}"
            raise ReadError(f"{path}: several sheets, {some(filled)}; {advice}")
        names = filled or names
    if not names:
        raise ReadError(f"{path}: a workbook without sheets.")
    return str(names[0])


def _frame(source: str, cells: list[list[Any]]) -> tuple[Any, Origin]:
    filled = [
        (number, [_cell(cell) for cell in row])
        for number, row in enumerate(cells, start=1)
        if any(cell != "" for cell in row)
    ]
    if not filled:
        raise ReadError(f"{source}: an empty sheet; a row of names and rows below are needed.")
    (_, header), *rows = filled
    cells, columns = [row for _, row in rows], range(len(header))
    frame = load_extra("pandas").DataFrame(cells, columns=columns, dtype=object).infer_objects()
    frame.columns = ["" if cell is np.nan else str(cell).strip() for cell in header]
    shifts = [(i, number - i) for i, (number, _) in enumerate(rows)]
    lines = [entry for i, entry in enumerate(shifts) if i == 0 or entry[1] != shifts[i - 1][1]]
    return frame, Origin("", source, lines=tuple(lines))


def _cell(cell: Any) -> Any:
    """A cell as other readers give it: NaN where it is empty, whole numbers without a point."""
    if isinstance(cell, str):
        return cell or np.nan
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
