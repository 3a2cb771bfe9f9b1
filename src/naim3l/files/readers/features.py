"""Features of a table: a block of numbers, and columns of text that are to be encoded."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.features.dates import days, why_no_date
from naim3l.files.readers.cells import UNKNOWN
from naim3l.files.readers.errors import ReadError, load_extra, origin, place, quote, source_of
from naim3l.files.readers.kinds import (
    MOST_ODD,
    Column,
    Odd,
    is_plain,
    read_column,
    read_dates,
    read_words,
)
from naim3l.input.tables import LARGEST, first_cell, warn_user


def parse_features(
    table: Any,
    *,
    missing: Iterable[str] = UNKNOWN,
    ignore: Iterable[str] = (),
    text: Iterable[str] = (),
) -> tuple[Any, list[str]]:
    """Features of a table: numbers if the cells of a column are numbers, otherwise text.

    A few cells that are not numbers do not make a column text: up to a tenth of the known cells
    are treated as missing, with a `DataWarning`; `naim3l.files.readers.kinds` has the full rule.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_columns)
        Feature columns of a table from `read_table`.
    missing : iterable of str
        Words for a missing cell, without regard to case.
    ignore : iterable of str
        Columns to leave out.
    text : iterable of str
        Columns that are text, even if their cells are numbers.

    Returns
    -------
    features : DataFrame of shape (n_rows, n_columns less those ignored)
        float64 columns, NaN where missing, and object columns of text and of dates, None where
        missing.
    text_columns : list of str
        Names of the text columns.

    Raises
    ------
    ReadError
        If a column has dates in an ambiguous order, cells that are neither numbers nor text nor
        dates, or too many cells that are not numbers among numbers; if a number is infinite or
        above 1e100.
    """
    left_out, as_text = set(ignore), set(text)
    names = [name for name in table.columns if name not in left_out]
    columns = {name: read_words(table[name], missing=missing) for name in names if name in as_text}
    words = set(columns)
    for name in _not_plain(table):
        if name not in left_out and name not in as_text:
            column = read_column(table[name], missing=missing)
            _settle(table, name, column)
            columns[name] = column.values
            if column.kind == "text":
                words.add(name)
    _warn_of_thousands(table, {name for name in names if name not in as_text})
    return _assemble(table, names, columns), [name for name in names if name in words]


def parse_known(
    table: Any,
    words: Collection[str],
    dates: Collection[str] = (),
    *,
    takes_missing: bool,
    cure: Callable[[str], str] | None = None,
) -> Any:
    """Features of new rows, in the types that their columns had in training.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_columns)
        Columns of the training data, from `read_table`.
    words, dates : collections of str
        Columns that were text, and those that were dates.
    takes_missing : bool
        Whether the model imputes missing cells. A cell that is not a number is then missing, with
        a `DataWarning`, if it is the only one in its column, or if at most a tenth are such cells.
    cure : function of the name of a column, optional
        End of the error about a cell that is not a number or date in a column of these. With it,
        any such cell is an error: for tables that are read in parts, in which shares of cells
        depend on the parts.

    Returns
    -------
    features : DataFrame of shape (n_rows, n_columns)

    Raises
    ------
    ReadError
        If a cell cannot be used; the message names file, row, line, column and value.
    """
    columns = {name: read_words(table[name]) for name in words}
    columns |= {name: read_dates(table[name]) for name in dates}
    if cure is not None:
        for name in dates:
            _check_dates(table, name, columns[name], cure(name))
    for name in _not_plain(table):
        if name not in columns:
            column = read_column(table[name], known_as_number=True)
            if column.odd is not None and cure is not None:
                raise ReadError(f"{_report(table, name, column.odd)}. {cure(name)}")
            if column.kind == "date":
                raise ReadError(
                    f"{source_of(table)}, column {quote(name)}: dates, such as "
                    f"{quote(column.example)}. In training the column had numbers."
                )
            if column.odd is not None:
                _check_few(table, name, column.odd, takes_missing=takes_missing)
            _settle(table, name, column)
            columns[name] = column.values
    _warn_of_thousands(table, set(table.columns) - set(words) - set(dates))
    features = _assemble(table, list(table.columns), columns)
    if not takes_missing:
        _check_whole_rows(table, features)
    return features


def _not_plain(table: Any) -> list[str]:
    """Columns that must be read cell by cell; all others are plain numbers, and may be many."""
    return [name for name, dtype in table.dtypes.items() if not is_plain(dtype)]


def _settle(table: Any, name: str, column: Column) -> None:
    """Refuse a column that cannot be used, and warn of cells that differ from the others."""
    where, example = f"{source_of(table)}, column {quote(name)}", quote(column.example)
    if column.kind == "other":
        raise ReadError(
            f"{where}: neither numbers nor text, such as {example}; ignore the column, or turn it "
            "into numbers first."
        )
    if column.kind == "other date":
        raise ReadError(
            f"{where}: {example} cannot be read as a date: {why_no_date(column.example)}. Write "
            "dates like 2024-01-31. If the values are codes and not dates, state in the settings "
            f"of the view that the column is text, with text = [{quote(name)}]; or leave it out, "
            "with ignore."
        )
    if column.doubtful is not None:
        _warn_of_sign(table, name, column.doubtful)
    if column.odd is None:
        return
    report, setting = _report(table, name, column.odd), f"text = [{quote(name)}]"
    if column.kind == "mixed":
        raise ReadError(
            f"{report}. Correct such cells, or leave unknown ones empty; or state in the settings "
            f"of the view that the column is text, with {setting}, or leave it out, with ignore."
        )
    if column.kind == "text":
        warn_user(
            f"{report}. There are several such codes, so the column is read as text; {setting} in "
            "the settings of the view confirms this."
        )
    else:
        warn_user(f"{report}. Such cells are taken as missing; correct them, or leave them empty.")


def _check_dates(table: Any, name: str, values: NDArray[Any], cure: str) -> None:
    """Refuse a cell that is not a date in a column of dates."""
    codes, cells = load_extra("pandas").factorize(values)
    for code, cell in enumerate(cells):
        if days(cell) is None:
            row = int(np.argmax(codes == code))
            raise ReadError(f"{place(table, row, name)}: {quote(cell)} is not a date. {cure}")


def _check_few(table: Any, name: str, odd: Odd, *, takes_missing: bool) -> None:
    """Refuse odd cells of new rows, unless they are few and can be imputed."""
    few = odd.n <= max(1, MOST_ODD * odd.n_known) and not odd.has_thousands
    if not (few and takes_missing):
        unknown = "or leave unknown ones empty" if takes_missing else "and leave none empty"
        raise ReadError(
            f"{_report(table, name, odd)}. In training the column had numbers: correct such cells, "
            f"{unknown}."
        )


def _report(table: Any, name: str, odd: Odd) -> str:
    """The first odd cell of a column, and their number, for an error or a warning."""
    cell = f"{place(table, odd.row, name)}: {quote(odd.cell)}"
    if odd.has_thousands:
        return (
            f"{cell} seems to have thousands separators, with which 1.234 is ambiguous, so that "
            "numbers must be written without them"
        )
    others = f" ({odd.n} of {odd.n_known} cells of the column are not)" if odd.n > 1 else ""
    return f"{cell} is not a number{others}"


def _warn_of_thousands(table: Any, names: Collection[str]) -> None:
    """Warn of plain numbers in whose text the decimal separator is ambiguous."""
    for name, cell in origin(table, "thousands", {}).items():
        if name in names:
            _warn_of_sign(table, name, cell)


def _warn_of_sign(table: Any, name: str, cell: str) -> None:
    sign = "comma" if "," in cell else "point"
    warn_user(
        f"{source_of(table)}, column {quote(name)}: numbers such as {quote(cell)} are read with a "
        f"decimal {sign}. If it separates thousands, remove it from the cells."
    )


def _assemble(table: Any, names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> Any:
    """Features of these names: the given columns, and plain numbers of the table.

    Numbers are one block, because a data frame made column by column is slow.
    """
    pandas = load_extra("pandas")
    plain = [name for name in names if name not in columns]
    read = [name for name, values in columns.items() if values.dtype != object]
    words = {name: values for name, values in columns.items() if values.dtype == object}
    block = table[plain].to_numpy(dtype=float)
    if read:
        block = np.column_stack([block, *(columns[name] for name in read)])
    numbers = pandas.DataFrame(block, index=table.index, columns=[*plain, *read])
    # As objects: otherwise pandas would use its own type, with NaN instead of None.
    texts = pandas.DataFrame(words, index=table.index, dtype=object)
    features = pandas.concat([numbers, texts], axis=1)[list(names)]
    features.attrs.update(table.attrs)
    _check_size(table, numbers)
    return features


def _check_size(table: Any, numbers: Any) -> None:
    """Refuse numbers that are too large; the error shows the cell as in the file."""
    cell = first_cell(np.abs(numbers.to_numpy()) > LARGEST)
    if cell is not None:
        row, name = cell[0], numbers.columns[cell[1]]
        value = table[name].iloc[row]
        shown = quote(value.item() if isinstance(value, np.generic) else value)
        raise ReadError(
            f"{place(table, row, name)}: {shown} is infinite, or beyond {LARGEST:g}; correct it, "
            "or leave the cell empty."
        )


def _check_whole_rows(table: Any, features: Any) -> None:
    """Refuse rows in which some cells are missing, but not all of them."""
    missing = features.isna().to_numpy()
    cell = first_cell(missing & ~missing.all(axis=1, keepdims=True))
    if cell is not None:
        raise ReadError(
            f"{place(table, cell[0], features.columns[cell[1]])}: the cell is missing. In training "
            "no cell of this view was, so the model cannot fill it in; do so in the file, or fit "
            "with rows that have missing cells."
        )
