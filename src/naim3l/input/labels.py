"""Label tables: the two codings, labels matched by name across views, imputed entries."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Mask
from naim3l._text import some
from naim3l.input.tables import Table, same_index, table_of_labels, warn_user

# Values of yes, no and unknown by coding, and their description in errors.
CODINGS = {
    "binary": ((1.0, 0.0, np.nan), "1 = yes, 0 = no, NaN or null = unknown"),
    "signed": ((1.0, -1.0, 0.0), "1 = yes, -1 = no, 0 = unknown"),
}


@dataclass(frozen=True)
class LabelTable:
    """One label table and its signed labels.

    Attributes
    ----------
    table : Table
    signed : ndarray of int8, of shape (n_rows, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    one_column : bool
        Whether it was given as a one-dimensional array or series.
    """

    table: Table
    signed: NDArray[np.int8]
    one_column: bool


def read_labels(labels: Any, coding: str, where: str) -> LabelTable:
    """Label table of one view (or of a wide table) in the given coding."""
    if labels is None:
        raise ValueError(
            f"{where}: This estimator requires y to be passed, but the target y is None."
        )
    table, one_column = table_of_labels(labels, where)
    table.columns = _label_names(table)
    if table.shape[1] == 0:
        raise ValueError(f"{where}: the label table has no columns.")
    (yes, no, unknown), spelled = CODINGS[coding]
    if coding == "signed":
        _refuse_truth_values(table, spelled)
    values = table.numbers(allowed=f"{spelled} (label_coding={coding!r})")
    if sparse.issparse(values):
        values = values.toarray()
    is_unknown = np.isnan(values) if np.isnan(unknown) else values == unknown
    is_yes, is_no = values == yes, values == no
    known = is_unknown | is_yes | is_no
    if not known.all():
        i, j = np.argwhere(~known)[0]
        raise ValueError(
            f"{where}, row {i}, {table.column_label(j)}: Unknown label type: {values[i, j]:g}. "
            f"With label_coding={coding!r} labels are {spelled}."
        )
    signed = is_yes.astype(np.int8) - is_no.astype(np.int8)
    return LabelTable(table, signed, one_column)


def refuse_names(labels: Any, features: Table) -> None:
    """Refuse names of columns, and paths, as the labels of a table in memory."""
    columns = features.columns or []
    is_names = isinstance(labels, list | tuple) and all(
        isinstance(name, str) and name in columns for name in labels
    )
    if isinstance(labels, str | os.PathLike) or (is_names and labels):
        shown = some(list(labels)) if isinstance(labels, list | tuple) else repr(labels)
        raise TypeError(
            f"{features.where}: {shown} as labels; names of columns and paths are for "
            "tables in parts, which are paths or collections of dask. Give a label table, such "
            "as table[names], and leave its columns out of the features."
        )


def _label_names(table: Table) -> list[str] | None:
    """Names of the columns as text; None for default numbers and empty names."""
    given = [] if table.frame is None else list(table.frame.columns)
    if given in ([], [""], list(range(len(given)))):
        return None
    return [str(name) for name in given]


def _refuse_truth_values(table: Table, spelled: str) -> None:
    """Refuse truth values in the signed coding, where False would mean unknown."""
    if table.frame is not None:
        boolean = [j for j, dtype in enumerate(table.frame.schema.dtypes()) if dtype == nw.Boolean]
    else:
        boolean = [0] if table.data.dtype.kind == "b" else []
    if boolean:
        raise ValueError(
            f"{table.where}, {table.column_label(boolean[0])}: its values are True and False, but "
            f"with label_coding='signed' labels are {spelled}. Use label_coding='binary'."
        )


def match_labels(tables: Mapping[str, LabelTable]) -> tuple[dict[str, NDArray[np.int8]], list[str]]:
    """Signed labels of each view with the columns in one order, and the label names.

    Named tables are matched by name, tables without names by position.
    """
    first = next((t.table for t in tables.values() if t.table.columns), None)
    names = first.columns if first is not None else None
    n_labels = next(iter(tables.values())).signed.shape[1] if first is None else first.shape[1]
    matched = {}
    for view, labels in tables.items():
        columns = labels.table.columns
        if columns is not None and names is not None:
            if set(columns) != set(names):
                lacking = sorted(set(names) - set(columns))
                extra = sorted(set(columns) - set(names))
                raise ValueError(
                    f"{labels.table.where}: its labels differ from those of "
                    f"{first.where}: lacking {lacking}, extra {extra}. "  # type: ignore[union-attr]
                    "Give every view the same label columns, unknown where it does not record one."
                )
            matched[view] = labels.signed[:, [columns.index(name) for name in names]]
            continue
        if labels.signed.shape[1] != n_labels:
            raise ValueError(
                f"{labels.table.where}: {labels.signed.shape[1]} label columns, but "
                f"{n_labels} in other views."
            )
        matched[view] = labels.signed
    return matched, list(names) if names is not None else [f"label{k}" for k in range(n_labels)]


def check_rows(features: Table, labels: LabelTable) -> None:
    """Refuse labels that do not match the rows of ``features``."""
    n_rows, n_labelled = features.shape[0], labels.table.shape[0]
    if n_rows != n_labelled:
        raise ValueError(
            f"{features.where}: {n_rows} rows of features but {n_labelled} rows of labels "
            "(inconsistent numbers of samples)."
        )
    if (caution := compare_indexes(features, labels.table)) is not None:
        warn_user(caution)


def compare_indexes(features: Table, labels: Table, *, part: bool = False) -> str | None:
    """A caution if rows and their labels have different indexes; None if they have not.

    The same index in another order is refused. An index that counts the rows means nothing, from
    any number on if the tables are a ``part`` of longer ones.
    """
    if same_index(features, labels):
        return None
    index, label_index = features.data.index, labels.data.index
    if set(index) == set(label_index):
        raise ValueError(
            f"{features.where}: the labels have the same index as the features but in another "
            "order; reorder them with labels.loc[features.index]."
        )
    if any(is_row_counter(one, part=part) for one in (index, label_index)):
        return None
    return (
        f"{features.where}: features and labels have different indexes, for example "
        f"{index[0]!r} and {label_index[0]!r} in row 0; they are matched row by row."
    )


def is_row_counter(index: Any, *, part: bool = False) -> bool:
    """Whether a pandas index is the default one, which counts the rows, or a part of such."""
    first = index[0] if part and len(index) else 0
    if not isinstance(first, Integral):
        return False
    return list(index) == list(range(int(first), int(first) + len(index)))


def check_observed(
    signed: Mapping[str, NDArray[np.int8]], names: Sequence[str], *, wide: bool = False
) -> None:
    """Refuse views without information; warn of labels that cannot be learned.

    Views of a wide table share samples, so a label may be yes in one and no in another.
    """
    check_seen({view: seen_values(Y) for view, Y in signed.items()}, names, wide=wide)


def seen_values(Y: NDArray[np.int8]) -> tuple[Mask, Mask]:
    """Whether each label is yes in some row, and no in some, (n_labels,) each."""
    return np.asarray((Y > 0).any(axis=0)), np.asarray((Y < 0).any(axis=0))


def check_seen(
    seen: Mapping[str, tuple[Mask, Mask]],
    names: Sequence[str],
    *,
    wide: bool = False,
) -> None:
    """`check_observed` from the `seen_values` of each view."""
    for view, (yes, no) in seen.items():
        if not (yes | no).any():
            raise ValueError(f"view {view!r}: no label is observed in it; leave the view out.")
        if not yes.any():
            raise ValueError(
                f"view {view!r}: no label is observed positive in it, so nothing ties it to the "
                "other views; leave the view out, or give it some positives."
            )
    positive, negative = (np.any(of_views, axis=0) for of_views in zip(*seen.values(), strict=True))
    for lacking, what in (
        (~positive & ~negative, "observed"),
        (~positive & negative, "observed positive"),
        (positive & ~negative, "observed negative"),
    ):
        if lacking.any():
            which = [names[k] for k in np.flatnonzero(lacking).tolist()]
            warn_user(f"labels never {what}: {which}; their scores carry little or no information.")
    both = np.any([yes & no for yes, no in seen.values()], axis=0)
    apart = positive & negative & ~both
    if apart.any() and not wide:
        which = [names[k] for k in np.flatnonzero(apart).tolist()]
        warn_user(
            f"labels observed positive in some views and negative only in others: {which}; their "
            "scores tell the views apart, and little about the rows of a view."
        )


def fill_unknown(labels: LabelTable, values: NDArray, coding: str) -> Any:
    """The given label table with its unknown entries replaced by ``values``.

    Parameters
    ----------
    labels : LabelTable
    values : ndarray of shape (n_rows, n_labels)
        In the coding of the table and the order of its columns; NaN leaves an entry unknown.
    coding : str

    Returns
    -------
    array, sparse matrix, series or data frame
        Of the given type and dtype, unless the dtype cannot represent the values: unsigned
        integers become signed, categories become numbers.
    """
    table = labels.table
    fill = (labels.signed == 0) & ~np.isnan(values)
    if table.frame is not None:
        return _fill_frame(table.frame, fill, values, labels.one_column)
    data = table.data.toarray() if sparse.issparse(table.data) else table.data
    if coding == "signed" and data.dtype.kind == "u":
        data = data.astype(np.result_type(data.dtype, np.int8))
    filled = data.copy()
    filled[fill] = values[fill].astype(_cell_type(data[labels.signed != 0])) if fill.any() else []
    if sparse.issparse(table.data):
        return table.given_type(filled)
    return filled.ravel() if labels.one_column else filled


def _fill_frame(frame: nw.DataFrame, fill: NDArray[np.bool_], values: NDArray, one: bool) -> Any:
    columns = [
        _fill_series(frame[:, j], np.flatnonzero(fill[:, j]), values[:, j])
        for j in range(frame.shape[1])
    ]
    filled = frame.with_columns(*columns)
    return filled[:, 0].to_native() if one else filled.to_native()


def _fill_series(series: nw.Series, rows: NDArray[np.intp], values: NDArray) -> nw.Series:
    if not len(rows):
        return series
    if series.dtype.is_unsigned_integer() and values[rows].min() < 0:
        series = series.cast(nw.Int64)
    elif series.dtype in (nw.Categorical, nw.Enum, nw.Unknown):  # Unknown: all null, or sparse
        series = series.cast(nw.Float64)
    cell_type = _cell_type(series.drop_nulls().to_numpy())
    return series.scatter(rows.tolist(), [cell_type(value) for value in values[rows]])


def _cell_type(known: NDArray) -> type:
    """Python type of the cells of a label column, for imputed entries."""
    if known.dtype.kind == "O":
        return type(known[0]) if len(known) else float
    return {"b": bool, "i": int, "u": int}.get(known.dtype.kind, float)
