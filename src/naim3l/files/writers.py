"""Tables written to files, completely or not at all."""

import bz2
import csv
import gzip
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from naim3l._text import quote
from naim3l._warnings import warn_user
from naim3l.files.atomic_write import Path_, written_whole
from naim3l.files.columnar import ARROW_EXTENSIONS
from naim3l.files.errors import load_extra

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# Extensions of files that tables are written to; text may also be compressed.
WRITTEN_EXTENSIONS = (*_SEPARATORS, ".parquet", *ARROW_EXTENSIONS)
# Functions of an open file, without file name and time: the same table gives the same bytes.
_COMPRESSORS: dict[str, Any] = {
    ".gz": lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
    ".xz": lambda file: lzma.LZMAFile(file, "wb"),  # noqa: SIM115
}
# First characters of formulas in spreadsheets, also as full-width characters; and numbers, which
# are not formulas.
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-](\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)


def write_table(table: Any, path: Path_, *, spreadsheet_safe: bool = True) -> None:
    """Write a table in the format of the path's extension, of `WRITTEN_EXTENSIONS`.

    An index other than the default one is written as the first column, which is called "id" if the
    index has no name. In text files, missing cells are empty, floats have all digits, and the
    encoding is UTF-8. With ``spreadsheet_safe``, they have ``'`` before names and cells that a
    spreadsheet would run as a formula: text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
    line break and is not a number. A `DataWarning` reports it, because the character remains when
    the file is read again. What the format cannot represent is a ValueError.
    """
    with appended(path, spreadsheet_safe=spreadsheet_safe) as append:
        append(table)


@contextmanager
def appended(path: Path_, *, spreadsheet_safe: bool = True) -> Iterator[Callable[[Any], None]]:
    """Function that appends tables with the same columns to a file, written as by `write_table`.

    The file is there, completely, when the block ends without error.
    """
    target = Path(path)
    kind, compressor = check_target(target)
    with written_whole(target) as part, ExitStack() as stack:
        writer: list[Any] = []  # once the first table is known

        def append_text(frame: Any) -> None:
            frame = _without_formulas(frame, target) if spreadsheet_safe else frame
            if first := not writer:
                file = stack.enter_context(part.open("wb"))
                packed = stack.enter_context((compressor or nullcontext)(file))
                text = TextIOWrapper(packed, encoding="utf-8", newline="")
                writer.append(stack.enter_context(text))
            # The csv module does not quote carriage returns, at which readers would end the line.
            returns = any("\r" in cell for cell in _texts(frame))
            form: Any = {"sep": _SEPARATORS[kind], "lineterminator": "\n"}
            form["quoting"] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
            frame.to_csv(writer[0], index=False, header=first, **form)

        def append_arrow(frame: Any) -> None:
            arrow = _as_arrow(frame, target)
            if not writer:
                if kind == ".parquet":
                    opened = load_extra("pyarrow.parquet").ParquetWriter(part, arrow.schema)
                else:
                    ipc = load_extra("pyarrow").ipc
                    lz4 = ipc.IpcWriteOptions(compression="lz4")
                    opened = ipc.new_file(str(part), arrow.schema, options=lz4)
                writer[:] = (stack.enter_context(opened), arrow.schema)
            writer[0].write_table(arrow.cast(writer[1]))

        write = append_text if kind in _SEPARATORS else append_arrow
        yield lambda table: write(_with_ids(table, target))


def check_target(path: Path) -> tuple[str, Any]:
    """Extension of a table to write, without that of compression, and a compressor or None."""
    extensions = ["", *(extension.lower() for extension in path.suffixes)]
    compressor = _COMPRESSORS.get(extensions[-1])
    if compressor is not None:
        extensions.pop()
    if extensions[-1] not in (_SEPARATORS if compressor else WRITTEN_EXTENSIONS):
        raise ValueError(
            f"{path}: unknown extension; tables are written to {', '.join(WRITTEN_EXTENSIONS)}, "
            f"text also with {', '.join(_COMPRESSORS)}."
        )
    return extensions[-1], compressor


def _with_ids(table: Any, path: Path) -> Any:
    """The table with its index as the first column, and names as text."""
    index, frame = table.index, table.reset_index(drop=True)
    frame.attrs = {}  # Parquet would store them
    frame.columns = [str(name) for name in frame.columns]
    if index.name is not None or not isinstance(index, load_extra("pandas").RangeIndex):
        name = "id" if index.name is None else str(index.name)
        frame.insert(0, name, index.to_numpy(), allow_duplicates=True)
    if not len(frame.columns):
        raise ValueError(f"{path}: a table without columns cannot be written.")
    return _check_names(frame, path)


def _check_names(frame: Any, path: Path) -> Any:
    if not frame.columns.is_unique:
        doubled = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{path}: two columns would be named {quote(doubled)}; rename one.")
    return frame


def _without_formulas(frame: Any, path: Path) -> Any:
    """The table with ``'`` before all text that a spreadsheet would run."""
    formulas = [text for text in _texts(frame) if _marked(text) != text]
    if not formulas:
        return frame
    warn_user(
        f"{path}: ' is put before text that a spreadsheet would run as a formula, such as "
        f"{quote(formulas[0])} ({len(formulas)} in all); spreadsheet_safe=False, or --raw-cells, "
        "writes it as it is."
    )
    safe = frame.copy(deep=False)
    for name in _text_columns(frame):
        cells = [_marked(cell) for cell in frame[name]]
        safe[name] = load_extra("pandas").Series(cells, dtype=object)
    safe.columns = [_marked(name) for name in frame.columns]
    return _check_names(safe, path)


def _marked(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def _text_columns(frame: Any) -> list[str]:
    return [name for name, dtype in frame.dtypes.items() if dtype.kind not in "biufmM"]


def _texts(frame: Any) -> Iterator[str]:
    """Names of columns, and cells that are text."""
    yield from frame.columns
    for name in _text_columns(frame):
        yield from (cell for cell in frame[name] if isinstance(cell, str))


def _as_arrow(frame: Any, path: Path) -> Any:
    pyarrow = load_extra("pyarrow")
    try:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    except pyarrow.ArrowException as error:
        fault = f"cells of one column must be of one type ({error})"
        raise ValueError(f"{path}: {fault}; write text instead.") from error
