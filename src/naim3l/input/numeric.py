"""Numbers of the rows that have a view, and checks that a model can use them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.input.tables import LARGEST, SMALLEST, Table, first_cell, mark_cells, warn_user

# Columns that vary by less than this share of the largest one are constant up to rounding.
ROUNDING = 1e-12
# Largest ratio of the size of a column to the spread of another without loss of digits.
WIDEST_RANGE = 1e4


def present_rows(table: Table, *, allow_missing: bool = False) -> NDArray[np.bool_]:
    """Mask (n_rows,) of the rows that have the view, whose cells are not all missing.

    A row with some cells missing is refused unless ``allow_missing``.
    """
    return _present(table, table.missing(), allow_missing=allow_missing)


def read_numbers(table: Table) -> tuple[Any, NDArray[np.bool_]]:
    """Numbers of the rows that have the view, and which rows these are.

    Returns
    -------
    numbers : ndarray or CSR array of float64, of shape (n_present, n_columns)
        Finite numbers; others are refused.
    present : ndarray of bool, of shape (n_rows,)
    """
    numbers = table.numbers(
        allowed="numbers; encode other columns first, or give this view a transformer that does, "
        "such as a ColumnTransformer with OneHotEncoder"
    )
    if _all_usable(numbers):
        return numbers, np.ones(table.shape[0], dtype=bool)
    present = _present(table, mark_cells(numbers, np.isnan), allow_missing=False)
    numbers = numbers if present.all() else numbers[present]
    check_finite(table, numbers, present)
    return numbers, present


def read_features(features: Any, where: str, present: NDArray[np.bool_], *, fit: bool) -> Any:
    """Output of a view's transformer as numbers, one row for each row that has the view."""
    table = Table(features, where)
    if table.shape[0] != present.sum():
        raise ValueError(f"{where}: {table.shape[0]} rows of {present.sum()} are left.")
    if table.shape[1] == 0:
        raise ValueError(f"{where}: 0 feature(s) (shape={table.shape}), nothing to learn from.")
    numbers = table.numbers()
    check_finite(table, numbers, present)
    if fit:
        check_not_tiny(table, numbers)
    return numbers


def _all_usable(numbers: Any) -> bool:
    """Whether no number of an array or sparse array is NaN or too large."""
    stored = numbers.data if sparse.issparse(numbers) else numbers
    return stored.size == 0 or bool(stored.max() <= LARGEST and stored.min() >= -LARGEST)


def _present(table: Table, missing: Any, *, allow_missing: bool) -> NDArray[np.bool_]:
    present = np.asarray(missing.sum(axis=1)).ravel() < table.shape[1]
    partly = None if allow_missing else first_cell(missing[present])
    if partly is not None:
        place = _place(table, present, partly)
        raise ValueError(
            f"{place}: missing value (NaN). A row must have all of a view or nothing of it; "
            "impute first, or give this view a transformer that accepts NaN, such as "
            "make_pipeline(SimpleImputer(), StandardScaler())."
        )
    return present


def check_finite(table: Table, numbers: Any, rows: NDArray[np.bool_]) -> None:
    """Refuse NaN and infinities in ``numbers``, which are the marked rows of ``table``."""
    if _all_usable(numbers):
        return
    cell = first_cell(mark_cells(numbers, lambda values: ~(np.abs(values) <= LARGEST)))
    if cell is not None:
        kinds = {np.nan: "NaN", np.inf: "infinity"}
        kind = next((kinds[k] for k in kinds if np.array_equal(abs(numbers[cell]), k, True)), None)
        what = f"not a finite number ({kind})" if kind else f"too large (the most is {LARGEST:g})"
        raise ValueError(
            f"{_place(table, rows, cell)}: {numbers[cell]} is {what}; remove, impute or rescale it."
        )


def check_not_tiny(table: Any, numbers: Any) -> None:
    """Refuse a column whose squares vanish, though it is not 0, in rows of ``table``."""
    if sparse.issparse(numbers):
        sizes = abs(numbers).max(axis=0).toarray().ravel()
    else:
        sizes = np.maximum(numbers.max(axis=0), -numbers.min(axis=0))
    tiny = np.flatnonzero((sizes > 0) & (sizes < SMALLEST))
    if len(tiny):
        raise ValueError(
            f"{table.where}, {table.column_label(tiny[0])}: its largest value is "
            f"{sizes[tiny[0]]:.3g}, too small to be squared (the least is {SMALLEST:g}); rescale "
            "it, or set it to 0."
        )


def check_not_negative(table: Table, numbers: Any, rows: NDArray[np.bool_]) -> None:
    """Refuse numbers below 0 in ``numbers``, which are the marked rows of ``table``."""
    cell = first_cell(mark_cells(numbers, lambda values: values < 0))
    if cell is not None:
        raise ValueError(
            f"{_place(table, rows, cell)}: {numbers[cell]:g} is negative, which a histogram "
            "cannot have; use another transformer or kernel for this view."
        )


def warn_of_scales(table: Table, numbers: Any) -> None:
    """Warn if columns, whose rows are ``numbers``, have scales that would lose digits.

    Solvers work on products of columns. If one is large, or far from 0, the variation of others
    can be less than its rounding error.
    """
    if sparse.issparse(numbers):  # most entries are 0, so columns are not far from it
        return
    spread = numbers.std(axis=0)
    size = np.sqrt(numbers.mean(axis=0) ** 2 + spread**2)
    varied = np.where(spread > ROUNDING * size.max(), spread, np.inf)
    large, small = int(size.argmax()), int(varied.argmin())
    if np.isfinite(varied[small]) and size[large] > WIDEST_RANGE * varied[small]:
        warn_user(
            f"{table.where}: {table.column_label(large)} has values around {size[large]:.1g}, and "
            f"{table.column_label(small)} varies by {varied[small]:.1g}, which may be lost to "
            'rounding; use transformer="scale", or bring columns to one scale.'
        )


def _place(table: Table, rows: NDArray[np.bool_], cell: tuple[int, int]) -> str:
    """Name of a cell in errors, given the rows of the table among which it is counted."""
    i, j = cell
    return table.place(int(np.flatnonzero(rows)[i]), j)
