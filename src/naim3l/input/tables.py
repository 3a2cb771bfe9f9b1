"""A table of the user: a NumPy array, a SciPy sparse matrix, or a data frame of any library.

All code that reads cells is here, so that an error can name the table, the row, the column and
the value. Rows are counted from 0.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._text import quote
from naim3l.input.places import Place

# Squares of such numbers, their sums and their products with weights are finite, and not 0.
SMALLEST, LARGEST = 1e-100, 1e100
# Containers that results may have; "default" is NumPy.
OUTPUTS = ("default", "pandas", "polars")
# Words that people write into cells of which the value is unknown.
UNKNOWN = ("", "?", "unknown", "na", "n/a", "nan", "null", "none", "missing", "-")


class DataWarning(UserWarning):
    """Warning that data can be used, but that something about them is probably not intended.

    Examples
    --------
    To turn these warnings into errors, for example in a script that runs unattended:

    >>> import warnings
    >>> from naim3l import DataWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DataWarning)
    ...     # model.fit(X, y)
    """


def warn_user(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn with the line outside of this package from which it was called."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("naim3l."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_of_rows(rows: NDArray[np.bool_], what: str) -> None:
    """Warn that ``what`` is true of the marked rows of a wide table."""
    listed = np.flatnonzero(rows)
    shown = ", ".join(map(str, listed[:5])) + (", ..." if len(listed) > 5 else "")
    warn_user(f"X: {len(listed)} rows ({shown}) {what}.")


class Table:
    """A two-dimensional table with optional column names.

    Parameters
    ----------
    data : array-like, sparse matrix or data frame of shape (n_rows, n_columns)
    where : str
        Name of the table in errors, for example ``"view 'lab'"``.
    column_word : str
        Word for a column in errors: "column" or "label".
    positions : sequence of int, optional
        Numbers of columns without names in errors, if the table is part of a wider one.
    rows : sequence of int, optional
        Numbers of rows in errors, if the table is part of a longer one.
    origin : Place, optional
        Where the rows come from, if that is not the table that ``where`` names.

    Attributes
    ----------
    data : ndarray, CSR array or data frame
        The given table, except that lists become arrays, sparse formats become CSR, and masked
        cells become NaN (None if they are not numbers).
    given_type : type
        Class of the given table.
    columns : list of str or None
        Column names; None if the table has none, or if they are not text.
    """

    def __init__(
        self,
        data: Any,
        where: str,
        column_word: str = "column",
        positions: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
        origin: Place | None = None,
    ) -> None:
        self.where, self.column_word, self.origin = where, column_word, origin
        self.positions, self.rows = positions, rows
        self.given_type = type(data)
        self.frame = as_frame(data, where, column_word)
        if self.frame is None:
            self.data = as_matrix(data, where)
            self.columns = None
        else:
            self.data = data
            self.columns = _column_names(self.frame.columns, where, column_word)
        self.shape: tuple[int, int] = (self.data if self.frame is None else self.frame).shape

    def column_label(self, j: int) -> str:
        """Column ``j`` in errors: its name, or its position if it has none."""
        if self.columns:
            return f"{self.column_word} {self.columns[j]!r}"
        return f"{self.column_word} {j if self.positions is None else self.positions[j]}"

    def place(self, i: int, j: int) -> str:
        """Cell in row ``i`` and column ``j`` in errors."""
        row = i if self.rows is None else int(self.rows[i])
        start = f"{self.where}, row {row}" if self.origin is None else self.origin.of_row(row)
        return f"{start}, {self.column_label(j)}"

    def cells(self, j: int) -> list[Any]:
        """Cells of a column as Python objects."""
        return self.data[:, j].tolist() if self.frame is None else self.frame[:, j].to_list()

    def numbers(self, *, allowed: str = "numbers") -> Any:
        """Cells as a float64 array, NaN where missing; a sparse table stays sparse.

        Text, dates and other cells that are not numbers raise an error, which says that
        ``allowed`` was expected.
        """
        if self.frame is not None:
            return self._frame_numbers(allowed)
        if self.data.dtype.kind in "fiub":
            return self.data.astype(np.float64, copy=False)
        # tolist() would turn times into whole numbers.
        times = self.data.dtype.kind in "mM"
        numbers = np.empty(self.shape)
        for j, column in enumerate(self.data.T):
            cells = list(column) if times else column.tolist()
            numbers[:, j] = self._python_column(j, cells, allowed)
        return numbers

    def missing(self) -> Any:
        """Mask of the cells that are NaN or null, of any type; sparse if the table is."""
        if self.frame is not None:
            return self._frame_missing()
        if self.data.dtype.kind == "f":
            return mark_cells(self.data, np.isnan)
        if self.data.dtype.kind in "OmM":
            return np.vectorize(is_missing, otypes=[bool])(self.data)
        return mark_cells(self.data, lambda values: np.zeros(values.shape, dtype=bool))

    def select_columns(self, columns: Sequence[int], where: str) -> "Table":
        """Table of some of the columns, which keep their names or numbers in errors."""
        if self.frame is not None:
            part = self.frame[:, list(columns)].to_native()
        elif sparse.issparse(self.data):
            part = self.data[:, list(columns)]
        else:
            part = self.data.take(columns, axis=1)
        return Table(part, where, self.column_word, columns, self.rows, self.origin)

    def numeric_columns(self) -> "Table":
        """Table of the numeric columns of a data frame; an array is returned unchanged."""
        return self if self.frame is None else self.select_columns(self.numeric, self.where)

    def find_cells(self, written: str) -> list[tuple[int, int]]:
        """Rows and columns of the cells that are not numbers whose repr is ``written``."""
        if self.frame is None:
            return []
        columns = {j: self.frame[:, j].to_list() for j in self._not_numeric}
        return [(i, j) for j, cells in columns.items() for i, cell in enumerate(cells)
                if repr(cell) == written]  # fmt: skip

    def take_rows(self, mask: NDArray[np.bool_]) -> Any:
        """Rows where ``mask`` is True, as a table of the same library."""
        if mask.all():
            return self.data
        if self.frame is not None:
            return self.frame.filter(mask.tolist()).to_native()
        return self.data[mask]

    def part(self, mask: NDArray[np.bool_]) -> "Table":
        """Table of the rows where ``mask`` is True, which keep their numbers in errors."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask) if self.rows is None else np.asarray(self.rows)[mask]
        return Table(
            self.take_rows(mask), self.where, self.column_word, self.positions, rows.tolist()
        )

    @cached_property
    def numeric(self) -> list[int]:
        """Columns of a data frame whose type is a number or a truth value."""
        assert self.frame is not None
        dtypes = self.frame.schema.dtypes()
        return [j for j, dtype in enumerate(dtypes) if dtype.is_numeric() or dtype == nw.Boolean]

    @property
    def _not_numeric(self) -> list[int]:
        return sorted(set(range(self.shape[1])) - set(self.numeric))

    def _numeric_block(self) -> NDArray[np.float64]:
        assert self.frame is not None
        if not self.numeric:
            return np.empty((self.shape[0], 0))
        chosen = self.frame[:, self.numeric]
        if _is_of_numpy(chosen.to_native()):  # at once: column by column is slow
            return chosen.to_native().to_numpy(dtype=np.float64)
        frame = chosen.select(nw.all().cast(nw.Float64))
        block = frame.to_numpy()
        if block.dtype != np.float64:  # pandas keeps its nulls of pyarrow types in wide arrays
            block = np.column_stack([series.to_numpy() for series in frame.iter_columns()])
        return block

    def _frame_numbers(self, allowed: str) -> NDArray[np.float64]:
        assert self.frame is not None
        block = self._numeric_block()
        if len(self.numeric) == self.shape[1]:
            return block
        numbers = np.empty(self.shape)
        numbers[:, self.numeric] = block
        for j in self._not_numeric:
            series = self.frame[:, j]
            values = series.to_numpy()  # numbers, if pandas stores them as "Sparse"
            if values.dtype.kind not in "fiub":
                values = self._python_column(j, series.to_list(), allowed)
            numbers[:, j] = values
        return numbers

    def _frame_missing(self) -> NDArray[np.bool_]:
        assert self.frame is not None
        missing = np.empty(self.shape, dtype=bool)
        missing[:, self.numeric] = np.isnan(self._numeric_block())
        for j in self._not_numeric:
            missing[:, j] = self.frame[:, j].is_null().to_numpy()
        return missing

    def _python_column(self, j: int, cells: Sequence[Any], allowed: str) -> NDArray[np.float64]:
        """Column of Python objects as numbers; text is refused even if it spells a number."""
        numbers = np.full(len(cells), np.nan)
        for i, cell in enumerate(cells):
            if is_missing(cell):
                continue
            try:
                numbers[i] = _number(cell)
            except (TypeError, ValueError, OverflowError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(
                    f"{self.place(i, j)}: {quote(cell)} is not a number ({error}); expected "
                    f"{allowed}."
                ) from None
        return numbers


def table_of_labels(labels: Any, where: str) -> tuple[Table, bool]:
    """Table of labels, which may be one-dimensional, and whether they were."""
    series = nw.from_native(labels, series_only=True, pass_through=True)
    one_column = isinstance(series, nw.Series)
    if isinstance(series, nw.Series):
        labels = series.to_frame().to_native()
    elif not sparse.issparse(labels) and as_frame(labels, where, "label") is None:
        labels = as_matrix(labels, where, allow_1d=True)
        if one_column := labels.ndim == 1:
            labels = labels.reshape(-1, 1)
    return Table(labels, where, column_word="label"), one_column


def mark_cells(values: Any, test: Callable[[NDArray], NDArray]) -> Any:
    """Mask of the cells that pass a test which zero fails; sparse if ``values`` is."""
    if sparse.issparse(values):
        marks = (test(values.data), values.indices, values.indptr)
        return sparse.csr_array(marks, shape=values.shape)
    return test(values)


def first_cell(mask: Any) -> tuple[int, int] | None:
    """Row and column of the first True cell, or None."""
    if sparse.issparse(mask):
        rows, columns = mask.nonzero()
        return (int(rows.min()), int(columns[rows == rows.min()].min())) if len(rows) else None
    if not mask.any():
        return None
    i, j = np.unravel_index(int(np.argmax(mask)), mask.shape)
    return int(i), int(j)


def same_index(table: Table, other: Table) -> bool:
    """False only if both are pandas tables and their indexes differ."""
    if not (hasattr(table.data, "iloc") and hasattr(other.data, "iloc")):
        return True
    return bool(table.data.index.equals(other.data.index))


def as_matrix(data: Any, where: str, *, allow_1d: bool = False) -> Any:
    """Two-dimensional array or CSR array of data other than a data frame."""
    if sparse.issparse(data):
        array = data
    elif isinstance(data, np.ma.MaskedArray):
        is_number = data.dtype.kind in "fiub"
        array = np.ma.filled(
            data.astype(float if is_number else object), np.nan if is_number else None
        )
    else:
        array = _as_array(data, where)
    if array.dtype.kind == "c":
        raise ValueError(f"{where}: Complex data not supported.")
    if array.dtype.names:
        raise ValueError(f"{where}: a structured array; give it as pandas.DataFrame(array).")
    if array.ndim == 1 and not allow_1d:
        raise ValueError(
            f"{where}: Expected 2D array, got 1D array instead. Reshape your data with "
            "array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one row."
        )
    if array.ndim not in (1, 2):
        got = f"an array of shape {array.shape}" if array.ndim else type(data).__name__
        if hasattr(data, "collect"):
            raise ValueError(f"{where}: a lazy frame; give table.collect().")
        raise ValueError(
            f"{where}: expected a table (NumPy array, SciPy sparse matrix, data frame in memory), "
            f"got {got}. Give several views as a mapping {{name: table}}."
        )
    return sparse.csr_array(array) if sparse.issparse(array) else array


def _as_array(data: Any, where: str) -> NDArray:
    if isinstance(data, list | tuple) and any(len(getattr(d, "shape", ())) == 2 for d in data):
        raise ValueError(
            f"{where}: a {type(data).__name__} of tables. Give several views as a mapping "
            "{name: table}."
        )
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(
            f"{where}: cannot be read as a table with rows of one length ({error})."
        ) from None
    if array.dtype.kind in "US" and not hasattr(data, "dtype"):
        return np.array(data, dtype=object)  # keeps the numbers next to the text
    return array


def as_frame(data: Any, where: str, column_word: str) -> nw.DataFrame | None:
    """Data frame with the interface of narwhals, or None if ``data`` is not a data frame."""
    try:
        frame = nw.from_native(data, eager_only=True, pass_through=True, allow_series=False)
        return frame if isinstance(frame, nw.DataFrame) else None
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in getattr(data, "column_names", data.columns)]
        doubled = sorted(name for name, n in Counter(names).items() if n > 1)
        raise ValueError(
            f"{where}: duplicate {column_word} names {doubled}; names must differ."
        ) from None


def _is_of_numpy(data: Any) -> bool:
    """Whether it is a pandas data frame whose columns all have types of NumPy."""
    return hasattr(data, "iloc") and all(isinstance(dtype, np.dtype) for dtype in data.dtypes)


def _column_names(columns: Sequence[Any], where: str, column_word: str) -> list[str] | None:
    """Names if all are strings, None if none is; a mixture is refused, as in scikit-learn."""
    strings = [isinstance(name, str) for name in columns]
    if all(strings):
        return [str(name) for name in columns]
    if any(strings):
        kinds = sorted({type(name).__name__ for name in columns})
        raise TypeError(
            f"{where}: {column_word} names of several types, {kinds}; make all of them strings, "
            "with table.columns = table.columns.astype(str)."
        )
    return None


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, or pandas' NA or NaT, which do not equal themselves."""
    if cell is None:
        return True
    if isinstance(cell, np.ndarray):  # an empty one has no truth value
        return False
    try:
        return bool(cell != cell)
    except TypeError:  # comparisons with pandas.NA have no truth value
        return True
    except ValueError:  # another container within a cell
        return False


def is_unknown(cell: Any) -> bool:
    """Whether a cell is missing, or is one of the words of `UNKNOWN`."""
    return cell.strip().casefold() in UNKNOWN if isinstance(cell, str) else is_missing(cell)


def _number(cell: Any) -> float:
    if isinstance(cell, str | bytes):
        raise ValueError("text")
    if isinstance(cell, np.datetime64 | np.timedelta64):
        raise ValueError("time")  # float() would take those in nanoseconds
    return float(cell)
