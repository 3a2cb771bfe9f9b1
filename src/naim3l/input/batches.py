"""A batch: rows of a table in memory, with the names of its columns and where it came from.

All code that reads cells is here, so that a message can name the table, the file, the row, the
column and the value. Rows are counted from 0.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Mask
from naim3l._origin import Origin
from naim3l._text import quote
from naim3l._warnings import warn_user

# Squares of such numbers, their sums and their products with weights are finite, and not 0.
SMALLEST, LARGEST = 1e-100, 1e100
# Words that people write into cells of which the value is unknown.
UNKNOWN = (
    *("", "?", ".", "unknown", "missing"),
    *("na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-"),
)
NESTED = (list, tuple, dict, np.ndarray)  # types of cells with several values
_FLATTEN = (
    "make a column of each of its values (in polars: unnest, list.to_struct; in pandas: "
    "json_normalize)"
)
# What pandas calls the values of an index that may number rows, as a part of a longer table does.
_NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "empty")
ROUNDING = 1e-12  # columns that vary by less than this share of the largest are constant
WIDEST_RANGE = 1e4  # ratio of the size of a column to the spread of another that keeps digits


class CellTypeError(TypeError, ValueError):
    """Error of a cell of a type that no column can have; commands report it as they do others."""


class Batch:
    """A two-dimensional table in memory, or some rows of a longer one.

    Lists become arrays, sparse formats CSR whose entries are stored once and in order, and masked
    cells NaN (None if they are not numbers). A text as ``origin`` is the name of the table, such as
    ``"view 'lab'"``; ``column_word`` is "column" or "label" in messages, in which ``positions`` are
    the numbers of columns of a wider table.
    """

    def __init__(
        self, data: Any, origin: Origin | str, column_word: str = "column", positions: Any = None
    ) -> None:
        self.origin = Origin(origin) if isinstance(origin, str) else origin
        self.column_word, self.positions = column_word, positions
        self.frame = as_frame(data, self.origin, column_word)
        self.is_frame = self.frame is not None  # its columns may have names and types of their own
        self.data = as_matrix(data, self.origin) if self.frame is None else data
        self.columns = None if self.frame is None else self._column_names()
        self.shape: tuple[int, int] = (self.data if self.frame is None else self.frame).shape
        self._distinct: dict[int, tuple[NDArray[np.intp], list[Any]]] = {}

    def _column_names(self) -> list[str] | None:
        """Names if all are strings, None if none is; a mixture is refused, as in scikit-learn."""
        assert self.frame is not None
        kinds = sorted({type(name).__name__ for name in self.frame.columns})
        strings = [isinstance(name, str) for name in self.frame.columns]
        if any(strings) and not all(strings):
            raise TypeError(
                f"{self.origin}: {self.column_word} names of several types, {kinds}; make all of "
                "them strings, with table.columns = table.columns.astype(str)."
            )
        return [str(name) for name in self.frame.columns] if all(strings) else None

    def __len__(self) -> int:
        return self.shape[0]

    def column_label(self, j: int) -> str:
        """Column ``j`` in messages: its name, or its position if it has none."""
        if self.columns:
            return f"{self.column_word} {self.columns[j]!r}"
        return f"{self.column_word} {j if self.positions is None else self.positions[j]}"

    def column_labels(self) -> list[str]:
        """All columns in messages."""
        return [self.column_label(j) for j in range(self.shape[1])]

    def place(self, i: int, j: int) -> str:
        """Cell in row ``i`` and column ``j`` in messages."""
        return self.origin.place(i, self.column_label(j))

    def select_columns(self, columns: Sequence[int], origin: Origin | None = None) -> "Batch":
        """Some of the columns, which keep their names or numbers in messages."""
        chosen = list(columns)
        if self.frame is not None:
            part = self.frame[:, chosen].to_native()
        elif sparse.issparse(self.data):
            part = self.data[:, chosen]
        else:
            part = self.data.take(chosen, axis=1)
        kept = chosen if self.positions is None else [self.positions[j] for j in chosen]
        return Batch(part, origin or self.origin, self.column_word, kept)

    def take_rows(self, mask: Mask) -> "Batch":
        """The rows where ``mask`` is True, which keep their numbers in messages."""
        if mask.all():
            return self
        frame = None if self.frame is None else self.frame.filter(mask.tolist())
        part = self.data[mask] if frame is None else frame.to_native()
        return Batch(part, self.origin.take(mask), self.column_word, self.positions)

    @property
    def head(self) -> Any:
        """A table with the columns of this one."""
        return self.data

    @property
    def dtypes(self) -> list[Any]:
        """Types of the columns of a data frame."""
        assert self.frame is not None
        return list(self.frame.schema.dtypes())

    @property
    def index(self) -> Any:
        """Index of a table of pandas, None of others."""
        return self.data.index if hasattr(self.data, "iloc") else None

    def values(self, j: int) -> NDArray[Any]:
        """Column of a data frame as an array."""
        assert self.frame is not None
        return self.frame[:, j].to_numpy()

    @cached_property
    def numeric(self) -> list[int]:
        """Columns of a data frame whose type is a number or a truth value."""
        return [
            j for j, dtype in enumerate(self.dtypes) if dtype.is_numeric() or dtype == nw.Boolean
        ]

    def sparse_numbers(self, j: int) -> NDArray[Any] | None:
        """Numbers of a column that pandas stores as "Sparse"; None for other columns."""
        if not hasattr(self.data, "iloc") or not str(self.data.dtypes.iloc[j]).startswith("Sparse"):
            return None
        values = self.data.iloc[:, j].to_numpy()
        return values if values.dtype.kind in "fiub" else None

    def cells(self, j: int) -> list[Any]:
        """Cells of a column as Python objects, whose dates end with the year 9999."""
        try:
            return self.data[:, j].tolist() if self.frame is None else self.frame[:, j].to_list()
        except OverflowError as error:
            place = self.origin.place(column=self.column_label(j))
            raise ValueError(f"{place}: {error}; leave the column out.") from error

    def distinct(self, j: int) -> tuple[NDArray[np.intp], list[Any]]:
        """Code of each row, -1 where missing, and the different cells that codes stand for.

        A cell that cannot be compared, such as a list, is a TypeError.
        """
        if j not in self._distinct and hasattr(self.data, "iloc"):  # in C, for all cells at once
            with suppress(TypeError, ValueError, OverflowError, NotImplementedError):
                codes, cells = self.data.iloc[:, j].factorize()
                self._distinct[j] = codes, cells.tolist()
        if j not in self._distinct:  # cell by cell, which tells where one cannot be used
            self._distinct[j] = self._looked_up(j)
        return self._distinct[j]

    def _looked_up(self, j: int) -> tuple[NDArray[np.intp], list[Any]]:
        values, cells = dict[Any, int](), self.cells(j)
        codes = np.empty(len(cells), dtype=np.intp)
        try:
            for i, cell in enumerate(cells):
                codes[i] = values.setdefault(cell, len(values))
        except TypeError:
            raise self._refusal_of_type(i, j, cell) from None
        known = np.array([not is_missing(value) for value in values], dtype=bool)
        numbers = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
        kept = [value for value, is_known in zip(values, known, strict=True) if is_known]
        return numbers[codes], kept

    def _refusal_of_type(self, i: int, j: int, cell: Any) -> CellTypeError:
        """Error for a cell that is a list, a mapping or another object."""
        word, flat, guest = self.column_word, "", ""
        if word == "column":
            guest = ", or give this view a transformer that accepts it"
            flat = f"{_FLATTEN}, or " if isinstance(cell, NESTED) else ""
        return CellTypeError(
            f"{self.place(i, j)}: {quote(cell)} is not a number, text or date; {flat}leave the "
            f"{word} out{guest}."
        )

    def typed_numbers(self) -> Sequence[NDArray[np.float64]] | None:
        """`number_columns`, if by their types all have numbers or truth values; None if not."""
        typed = self._is_array or (self.is_frame and len(self.numeric) == self.shape[1])
        return self.number_columns([*range(self.shape[1])]) if typed else None

    @property
    def _is_array(self) -> bool:
        return not self.is_frame and self.data.dtype.kind in "fiub"

    def numbers(self, *, allowed: str = "numbers") -> Any:
        """Cells as a float64 array, NaN where missing; a sparse table stays sparse.

        Cells that are not numbers are refused, and the message says that ``allowed`` was expected.
        """
        if self._is_array:
            return self.data.astype(np.float64, copy=False)
        if self.is_frame and len(self.numeric) == self.shape[1]:
            return self.numeric_block
        numbers, numeric = np.empty(self.shape), self.numeric if self.is_frame else []
        if numeric:
            numbers[:, numeric] = self.numeric_block
        for j in sorted({*range(self.shape[1])} - {*numeric}):
            values = self.sparse_numbers(j)
            numbers[:, j] = self._python_column(j, allowed) if values is None else values
        return numbers

    def numbers_of(self, columns: list[int], *, allowed: str) -> Any:
        """`numbers` of some of the columns."""
        if len(columns) == self.shape[1]:
            return self.numbers(allowed=allowed)
        if self.is_frame and columns == self.numeric:
            return self.numeric_block
        return self.select_columns(columns).numbers(allowed=allowed)

    def number_columns(self, columns: list[int], *, allowed: str = "numbers") -> Any:
        """`numbers` of some of the columns, each (n_rows,); a sparse table stays one."""
        numbers = self.numbers_of(columns, allowed=allowed)
        return numbers if sparse.issparse(numbers) else numbers.T

    @cached_property
    def missing(self) -> Any:
        """Mask of the cells that are NaN or null, of any type; sparse if the table is."""
        if self.frame is not None:
            missing = np.empty(self.shape, dtype=bool)
            missing[:, self.numeric] = np.isnan(self.numeric_block)
            for j in {*range(self.shape[1])} - {*self.numeric}:
                missing[:, j] = self.frame[:, j].is_null().to_numpy()
            return missing
        if self.data.dtype.kind == "f":
            return mark_cells(self.data, np.isnan)
        if self.data.dtype.kind in "OmM":
            return np.vectorize(is_missing, otypes=[bool])(self.data)
        return mark_cells(self.data, lambda values: np.zeros(values.shape, dtype=bool))

    @cached_property
    def numeric_block(self) -> NDArray[np.float64]:
        """Numeric columns of a data frame as floats, NaN where missing."""
        assert self.frame is not None
        if not self.numeric:
            return np.empty((self.shape[0], 0))
        all_numeric = len(self.numeric) == self.shape[1]
        chosen = self.frame if all_numeric else self.frame[:, self.numeric]
        native = chosen.to_native()
        if hasattr(native, "iloc"):
            if all(isinstance(kind, np.dtype) for kind in native.dtypes):
                return native.to_numpy(dtype=np.float64)  # at once: column by column is slow
            block = np.empty(native.shape[::-1])
            for k, column in enumerate(block):
                column[:] = native.iloc[:, k].to_numpy(dtype=np.float64, na_value=np.nan)
            return block.T
        try:
            frame = chosen.select(nw.all().cast(nw.Float64))
        except ValueError:  # Arrow refuses to round whole numbers beyond 2^53
            frame = chosen
        block = frame.to_numpy()
        if block.dtype == np.float64:
            return block
        columns = [series.to_list() for series in frame.iter_columns()]
        return np.array([[np.nan if c is None else float(c) for c in of] for of in columns]).T

    def _python_column(self, j: int, allowed: str) -> NDArray[np.float64]:
        """Column of Python objects as numbers; text is refused even if it spells a number."""
        # tolist() would turn times into whole numbers, and so would float().
        is_times = self.frame is None and self.data.dtype.kind in "mM"
        cells = list(self.data[:, j]) if is_times else self.cells(j)
        numbers = np.full(len(cells), np.nan)
        for i, cell in enumerate(cells):
            if is_missing(cell):
                continue
            try:
                if isinstance(cell, str | bytes | np.datetime64 | np.timedelta64):
                    raise ValueError("text" if isinstance(cell, str | bytes) else "time")
                numbers[i] = float(cell)
            except (TypeError, ValueError, OverflowError) as error:
                kind = CellTypeError if isinstance(error, TypeError) else ValueError
                nested = isinstance(cell, NESTED)
                cure = f"{_FLATTEN}, or leave the column out" if nested else f"expected {allowed}"
                what = f"{quote(cell)} is not a number ({error})"
                raise kind(f"{self.place(i, j)}: {what}; {cure}.") from None
        return numbers


def mark_cells(values: Any, test: Callable[[NDArray], NDArray]) -> Any:
    """Mask of the cells that pass a test which zero fails; sparse if ``values`` is."""
    if sparse.issparse(values):
        marks = (test(values.data), values.indices, values.indptr)
        return sparse.csr_array(marks, shape=values.shape)
    return test(values)


def first_cell(mask: Any) -> tuple[int, int] | None:
    """Row and column of the first True cell, or None."""
    rows, columns = mask.nonzero()
    if not len(rows):
        return None
    return int(rows.min()), int(columns[rows == rows.min()].min())


def same_index(one: Batch, other: Batch) -> bool:
    """False only if both are pandas tables and their indexes differ."""
    index, other_index = one.index, other.index
    return index is None or other_index is None or bool(index.equals(other_index))


def compare_indexes(features: Batch, labels: Batch, *, part: bool = False) -> str | None:
    """A caution if rows and their labels have different indexes; None if they have not.

    The same index in another order is refused. An index that counts the rows means nothing, from
    any number on if the tables are a ``part`` of longer ones.
    """
    if same_index(features, labels):
        return None
    index, label_index = features.index, labels.index
    if set(index) == set(label_index):
        raise ValueError(
            f"{features.origin}: the labels have the same index as the features but in another "
            "order; reorder them with labels.loc[features.index]."
        )
    if any(is_row_counter(one, part=part) for one in (index, label_index)):
        return None
    one, other = (each[:1].tolist()[0] for each in (index, label_index))
    return (
        f"{features.origin.table}: features and labels have different indexes, for example "
        f"{one!r} and {other!r} in row 0; they are matched row by row."
    )


def is_row_counter(index: Any, *, part: bool = False) -> bool:
    """Whether a pandas index is the default one, which counts the rows, or a part of such."""
    first = index[0] if part and len(index) else 0
    if not isinstance(first, Integral):
        return False
    return list(index) == list(range(int(first), int(first) + len(index)))


def row_ids(table: Any) -> Any:
    """Index of a batch, or a table of pandas, if it has ids: a name, or values beside numbers.

    An index of numbers without a name numbers rows, and says nothing about samples.
    """
    index = table.index if isinstance(table, Batch) or hasattr(table, "iloc") else None
    if index is None:
        return None
    named = any(name is not None for name in index.names)
    return index if named or index.inferred_type not in _NUMBERS else None


def id_hashes(batch: Batch) -> tuple[NDArray[np.uint64], Mask] | None:
    """Hash of the id of each row, (n_rows,), and which rows have one; None if the table has no ids.

    Ids that `id_groups` takes for the same have one hash, in any table, part and process: 7, 7.0
    and numbers of other sizes, dates of other units, and text of other types.
    """
    index = row_ids(batch)
    if index is None:
        return None
    from pandas import Index
    from pandas.util import hash_array, hash_pandas_object

    if index.nlevels > 1:
        return np.asarray(hash_pandas_object(index, index=False)), np.ones(len(index), dtype=bool)
    codes, different = index.factorize()
    cells = Index(different.to_numpy())
    if cells.dtype.kind in "iuf":
        hashes = _hashes_of_numbers(cells.to_numpy())
    elif cells.dtype.kind == "M":
        hashes = hash_array(cells.to_numpy().astype("M8[ns]"))
    elif cells.inferred_type == "string":
        hashes = np.asarray(hash_pandas_object(cells, index=False), dtype=np.uint64)
    else:
        hashes = hash_array(np.array([*map(str, cells)], dtype=object))
        at = [i for i, cell in enumerate(cells) if isinstance(cell, int | float | np.number)]
        numbers = [np.asarray(cells[i]) for i in at]  # each with its own type
        hashes[at] = [_hashes_of_numbers(number.reshape(1))[0] for number in numbers]
    return np.append(hashes, np.uint64(0))[codes], codes >= 0


def _hashes_of_numbers(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Hashes of numbers, equal for whole ones of any type."""
    from pandas.util import hash_array

    if numbers.dtype.kind != "f":
        return hash_array(numbers.astype(np.int64, copy=False))
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**63)
    hashes = hash_array(numbers.astype(np.float64, copy=False))
    hashes[whole] = hash_array(numbers[whole].astype(np.int64))
    return hashes


def id_groups(tables: Sequence[Any]) -> list[NDArray[np.intp]] | None:
    """Number of the sample of each row, by table; rows without an id are samples of their own.

    None if no table has ids.
    """
    ids = [row_ids(table) for table in tables]
    known = [index for index in ids if index is not None]
    if not known:
        return None
    numbers, different = known[0].append(known[1:]).factorize()
    alone, first, found = len(different), 0, []
    for table, index in zip(tables, ids, strict=True):
        own = np.full(len(table), -1)
        if index is not None:
            own, first = numbers[first : first + len(index)].copy(), first + len(index)
        lacking = np.flatnonzero(own < 0)
        own[lacking], alone = alone + np.arange(len(lacking)), alone + len(lacking)
        found.append(own)
    return found


def as_frame(data: Any, origin: Origin | str, column_word: str) -> nw.DataFrame | None:
    """Data frame with the interface of narwhals, or None if ``data`` is not a data frame."""
    if isinstance(data, np.ndarray):
        return None
    try:
        frame = nw.from_native(data, eager_only=True, pass_through=True, allow_series=False)
        return frame if isinstance(frame, nw.DataFrame) else None
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in getattr(data, "column_names", data.columns)]
        doubled = sorted(name for name, n in Counter(names).items() if n > 1)
        raise ValueError(
            f"{origin}: duplicate {column_word} names {doubled}; names must differ."
        ) from None


def as_matrix(data: Any, origin: Origin | str, *, allow_1d: bool = False) -> Any:
    """Two-dimensional array or CSR array of data other than a data frame."""
    if sparse.issparse(data):
        array = data
    elif isinstance(data, np.ma.MaskedArray):
        dtype, missing = (float, np.nan) if data.dtype.kind in "fiub" else (object, None)
        array = np.ma.filled(data.astype(dtype), missing)
    else:
        array = _as_array(data, origin)
    if array.dtype.kind == "c":
        raise ValueError(f"{origin}: Complex data not supported.")
    if array.dtype.names:
        raise ValueError(f"{origin}: a structured array; give it as pandas.DataFrame(array).")
    if array.ndim == 1 and not allow_1d:
        raise ValueError(
            f"{origin}: Expected 2D array, got 1D array instead. Reshape your data with "
            "array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one row."
        )
    if hasattr(data, "collect"):
        raise ValueError(f"{origin}: a lazy frame; give table.collect().")
    if array.ndim not in (1, 2):
        got = f"an array of shape {array.shape}" if array.ndim else type(data).__name__
        raise ValueError(
            f"{origin}: expected a table (NumPy array, SciPy sparse matrix, data frame in memory), "
            f"got {got}. Give several views as a mapping {{name: table}}."
        )
    return _canonical(array) if sparse.issparse(array) else array


def _canonical(table: Any) -> Any:
    """CSR array in which each entry is stored once and in order, as all code behind expects."""
    array = sparse.csr_array(table)  # shares its entries with the table of the user
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array


def _as_array(data: Any, origin: Origin | str) -> NDArray:
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(
            f"{origin}: cannot be read as a table with rows of one length ({error}). Give several "
            "views as a mapping {name: table}."
        ) from None
    if array.dtype.kind in "US" and not hasattr(data, "dtype"):
        return np.array(data, dtype=object)  # keeps the numbers next to the text
    return array


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, or pandas' NA or NaT, which do not equal themselves."""
    if cell is None or isinstance(cell, np.ndarray):  # an empty array has no truth value
        return cell is None
    try:
        return bool(cell != cell)
    except TypeError:  # comparisons with pandas.NA have no truth value
        return True
    except ValueError:  # another container within a cell
        return False


def is_unknown(cell: Any) -> bool:
    """Whether a cell is missing, or is one of the words of `UNKNOWN`."""
    return cell.strip().casefold() in UNKNOWN if isinstance(cell, str) else is_missing(cell)


# Checks of numbers, which are given beside the batch that they are the cells, or rows, of.


def read_numbers(batch: Batch) -> tuple[Any, Mask]:
    """Numbers (n_present, n_columns) of the rows that have the view, and which rows these are.

    Refused are numbers that are not finite, and rows in which only some cells are missing.
    """
    numbers = batch.numbers(
        allowed='numbers; use features="auto", or give this view a transformer that encodes other '
        "columns, such as a ColumnTransformer with OneHotEncoder"
    )
    if _all_usable(numbers):
        return numbers, np.ones(len(batch), dtype=bool)
    present = present_rows(batch, mark_cells(numbers, np.isnan), allow_missing=False)
    numbers = numbers if present.all() else numbers[present]
    check_finite(batch.take_rows(present), numbers)
    return numbers, present


def present_rows(batch: Batch, missing: Any, *, allow_missing: bool) -> Mask:
    """Mask (n_rows,) of rows that have the view; refuses cells missing in them unless allowed."""
    present = np.asarray(missing.sum(axis=1)).ravel() < batch.shape[1]
    partly = None if allow_missing else first_cell(missing[present])
    if partly is not None:
        raise ValueError(
            f"{batch.place(int(np.flatnonzero(present)[partly[0]]), partly[1])}: missing value "
            '(NaN). A row must have all of a view or nothing of it; use features="auto", impute '
            "first, or give this view a transformer that accepts NaN, such as "
            "make_pipeline(SimpleImputer(), StandardScaler())."
        )
    return present


def _all_usable(numbers: Any, *, missing: bool = False) -> bool:
    """Whether no number of arrays or a sparse array is too large, or NaN unless it may be."""
    if isinstance(numbers, list):
        return all(_all_usable(column, missing=missing) for column in numbers)
    stored = numbers.data if sparse.issparse(numbers) else numbers
    ends = (np.fmin, np.fmax) if missing else (np.minimum, np.maximum)
    lowest, highest = (end.reduce(stored, axis=None, initial=0) for end in ends)
    return bool(highest <= LARGEST and lowest >= -LARGEST)


def check_finite(batch: Batch, numbers: Any, columns: Sequence[int] | None = None) -> None:
    """Refuse NaN, infinities and numbers beyond `LARGEST` in the cells of a batch.

    In cells of some ``columns`` of a batch, which may be a list, NaN is allowed, and means that
    they are missing.
    """
    lacks = columns is not None
    if _all_usable(numbers, missing=lacks):
        return
    numbers = np.column_stack(numbers) if isinstance(numbers, list) else numbers
    cell = first_cell(
        mark_cells(numbers, lambda of: ~((np.abs(of) <= LARGEST) | (lacks & np.isnan(of))))
    )
    if cell is not None:
        at = cell if columns is None else (cell[0], columns[cell[1]])
        raise ValueError(refusal_of_number(batch.place(*at), numbers[cell]))


def refusal_of_number(place: str, cell: Any) -> str:
    """Message for a number, or text that spells one, that is not finite or beyond `LARGEST`."""
    try:
        number = float(cell)
    except (OverflowError, ValueError):  # hundreds of digits; a decimal comma
        number = 0.0
    what = f"too large (the most is {LARGEST:g})"
    if not np.isfinite(number):
        what = f"not a finite number ({'NaN' if np.isnan(number) else 'infinity'})"
    shown = cell if isinstance(cell, float) else quote(cell)
    return f"{place}: {shown} is {what}; remove, impute or rescale it."


def check_not_tiny(batch: Any, sizes: NDArray[np.float64]) -> None:
    """Refuse a column whose squares vanish, though it is not 0, given its largest value."""
    tiny = np.flatnonzero((sizes > 0) & (sizes < SMALLEST))
    if len(tiny):
        raise ValueError(
            f"{batch.origin.place(column=batch.column_label(tiny[0]))}: its largest value is "
            f"{sizes[tiny[0]]:.3g}, too small to be squared (the least is {SMALLEST:g}); rescale "
            "it, or set it to 0."
        )


def column_sizes(numbers: Any) -> NDArray[np.float64]:
    """Largest absolute value of each column, (n_columns,)."""
    if sparse.issparse(numbers):
        return np.asarray(abs(numbers).max(axis=0).toarray().ravel())
    return np.maximum(numbers.max(axis=0), -numbers.min(axis=0))


def check_not_negative(batch: Batch, numbers: Any) -> None:
    """Refuse numbers below 0 in the cells of a batch."""
    cell = first_cell(mark_cells(numbers, lambda values: values < 0))
    if cell is not None:
        raise ValueError(
            f"{batch.place(*cell)}: {numbers[cell]:g} is negative, which a histogram cannot have; "
            "use other features for this view."
        )


def warn_of_scales(batch: Batch, numbers: Any) -> None:
    """Warn of columns whose variation is lost to the rounding of others, in products of columns."""
    if sparse.issparse(numbers):  # most entries are 0, so columns are not far from it
        return
    spread = numbers.std(axis=0)
    size = np.sqrt(numbers.mean(axis=0) ** 2 + spread**2)
    varied = np.where(spread > ROUNDING * size.max(), spread, np.inf)
    large, small = int(size.argmax()), int(varied.argmin())
    if np.isfinite(varied[small]) and size[large] > WIDEST_RANGE * varied[small]:
        warn_user(
            f"{batch.origin}: {batch.column_label(large)} has values around {size[large]:.1g}, and "
            f"{batch.column_label(small)} varies by {varied[small]:.1g}, which may be lost to "
            'rounding; use features="scale", or bring columns to one scale.'
        )
