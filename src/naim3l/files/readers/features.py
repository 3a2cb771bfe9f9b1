"""Features of a table: one block of numbers, and columns of text that are to be encoded."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.files.readers.cells import UNKNOWN
from naim3l.files.readers.errors import ReadError, load_extra, origin, place, quote, source_of
from naim3l.files.readers.kinds import MOST_ODD, Column, Odd, is_plain, read_column, read_words
from naim3l.input.tables import LARGEST, first_cell, warn_user


def parse_features(
    table: Any,
    *,
    missing: Iterable[str] = UNKNOWN,
    ignore: Iterable[str] = (),
    text: Iterable[str] = (),
) -> tuple[Any, list[str]]:
    """Features as numbers where the cells of a column are numbers, and else as text.

    A few cells that are no numbers do not make a column text: up to a tenth of the known cells
    are taken as missing, with a `DataWarning`; `naim3l.files.readers.kinds` has the whole rule.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_columns)
        Feature columns of a table from `read_table`.
    missing : iterable of str
        Words for a missing cell, without regard to case.
    ignore : iterable of str
        Columns to leave out.
    text : iterable of str
        Columns that are text, whatever their cells are.

    Returns
    -------
    features : DataFrame of shape (n_rows, n_columns less those ignored)
        float64 columns, NaN where missing, and object columns of str, None where missing.
    text_columns : list of str
        Names of the latter, which are to be encoded.

    Raises
    ------
    ReadError
        If a column has dates, cells that are neither number nor text, or too many that are no
        numbers among numbers; if a number is infinite or above 1e100.
    """
    left_out, as_text = set(ignore), set(text)
    names = [name for name in table.columns if name not in left_out]
    columns = {name: read_words(table[name], missing=missing) for name in names if name in as_text}
    for name in _not_plain(table):
        if name not in left_out and name not in as_text:
            column = read_column(table[name], missing=missing)
            _settle(table, name, column)
            columns[name] = column.values
    _warn_of_thousands(table, {name for name in names if name not in as_text})
    features = _assemble(table, names, columns)
    return features, [name for name in names if name in columns and columns[name].dtype == object]


def parse_known(table: Any, words: Collection[str], *, takes_missing: bool) -> Any:
    """Features of new rows, in the types that their columns had at the fit.

    Parameters
    ----------
    table : DataFrame of shape (n_rows, n_columns)
        Columns of the fit, from `read_table`.
    words : collection of str
        Those of them that were text.
    takes_missing : bool
        Whether the model fills in missing cells. A cell that is no number is then missing, with a
        `DataWarning`, if it is the only one of its column or a tenth of the column at most.

    Returns
    -------
    features : DataFrame of shape (n_rows, n_columns)

    Raises
    ------
    ReadError
        If a cell cannot be used; names file, row, line, column and value.
    """
    columns = {name: read_words(table[name]) for name in words}
    for name in _not_plain(table):
        if name not in columns:
            column = read_column(table[name], known_as_number=True)
            if column.odd is not None:
                _check_few(table, name, column.odd, takes_missing=takes_missing)
            _settle(table, name, column)
            columns[name] = column.values
    _warn_of_thousands(table, set(table.columns) - set(words))
    features = _assemble(table, list(table.columns), columns)
    if not takes_missing:
        _check_whole_rows(table, features)
    return features


def _not_plain(table: Any) -> list[str]:
    """Columns that are looked at cell by cell; all others are plain numbers, and can be many."""
    return [name for name, dtype in table.dtypes.items() if not is_plain(dtype)]


def _settle(table: Any, name: str, column: Column) -> None:
    """Refuse a column that cannot be used, and warn of cells that are not as the others."""
    if column.kind in ("date", "other"):
        what = "dates" if column.kind == "date" else "neither numbers nor text"
        raise ReadError(
            f"{source_of(table)}, column {quote(name)}: {what}, such as "
            f"{quote(column.example)}; ignore the column, or turn it into numbers first."
        )
    if column.doubtful is not None:
        _warn_of_sign(table, name, column.doubtful)
    if column.odd is None:
        return
    told, setting = _told(table, name, column.odd), f"text = [{quote(name)}]"
    if column.kind == "mixed":
        raise ReadError(
            f"{told}. Correct such cells, or leave unknown ones empty; or say in the settings of "
            f"the view that the column is text, with {setting}, or is to be left out, with ignore."
        )
    if column.kind == "text":
        warn_user(
            f"{told}. There are several such codes, so the column is read as text; {setting} in "
            "the settings of the view says that this is meant."
        )
    else:
        warn_user(f"{told}. Such cells are taken as missing; correct them, or leave them empty.")


def _check_few(table: Any, name: str, odd: Odd, *, takes_missing: bool) -> None:
    """Refuse odd cells of new rows, unless they are few and can be filled in."""
    few = odd.n <= max(1, MOST_ODD * odd.n_known) and not odd.has_thousands
    if not (few and takes_missing):
        unknown = "or leave unknown ones empty" if takes_missing else "and leave none empty"
        raise ReadError(
            f"{_told(table, name, odd)}. In training the column was numbers: correct such cells, "
            f"{unknown}."
        )


def _told(table: Any, name: str, odd: Odd) -> str:
    """The first odd cell of a column, and how many there are."""
    cell = f"{place(table, odd.row, name)}: {quote(odd.cell)}"
    if odd.has_thousands:
        return (
            f"{cell} seems to have thousands separators; beside them 1.234 can mean two things, so "
            "numbers must be written without"
        )
    others = f" ({odd.n} of {odd.n_known} cells of the column are none)" if odd.n > 1 else ""
    return f"{cell} is not a number{others}"


def _warn_of_thousands(table: Any, names: Collection[str]) -> None:
    """Warn of plain numbers in whose text the decimal sign may have been another one."""
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
    """Features of these names: the columns given, and plain numbers of the table.

    Numbers become one block at once: a data frame made column by column takes long.
    """
    pandas = load_extra("pandas")
    plain = [name for name in names if name not in columns]
    read = [name for name, values in columns.items() if values.dtype != object]
    words = {name: values for name, values in columns.items() if values.dtype == object}
    block = table[plain].to_numpy(dtype=float)
    if read:
        block = np.column_stack([block, *(columns[name] for name in read)])
    numbers = pandas.DataFrame(block, index=table.index, columns=[*plain, *read])
    # As objects, or pandas would make a type of its own, with NaN where None is meant.
    texts = pandas.DataFrame(words, index=table.index, dtype=object)
    features = pandas.concat([numbers, texts], axis=1)[list(names)]
    features.attrs.update(table.attrs)
    _check_size(table, numbers)
    return features


def _check_size(table: Any, numbers: Any) -> None:
    """Refuse numbers that no model could use, by what the file says there."""
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
