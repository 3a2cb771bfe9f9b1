"""One wide table from tables of the same samples, matched by row or by id."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from naim3l._text import quote, some
from naim3l._warnings import warn_user
from naim3l.input.batches import Batch, is_missing, is_row_counter, same_index
from naim3l.input.views import check_not_empty, check_view_names

Wide = tuple[Any, dict[str, list[Any]]]
_ROW = "__row"  # of the joined table, while it is joined


def join_views(tables: Mapping[str, Any], on: str | None = None) -> Wide:
    """One wide table from tables of the same samples.

    Rows are matched by id if ``on`` is given, or if pandas tables have different indexes; there is
    a row for each id of any table. Otherwise tables must have the same rows in the same order.

    Parameters
    ----------
    tables : mapping of str to table
        By view. A row that lacks a view has NaN in all of its columns.
    on : str, optional
        Column of every table that contains the ids, or name of the pandas index. All tables must
        be data frames of one library, and ids must differ within a table.

    Returns
    -------
    wide : ndarray, CSR array or data frame of shape (n_rows, sum of n_columns)
        A data frame with columns ``view__column`` if all tables are data frames of one library
        with column names. CSR if all tables are sparse. Ids become the index in pandas, in other
        libraries the first column, which belongs to no view, in the order of the tables.
    views : dict of str to list
        Names or positions of the columns of each view, for ``NAIM3L(views=...)``.

    Raises
    ------
    ValueError
        If rows cannot be matched, or ids are missing, not unique, or of different types.

    Examples
    --------
    >>> import pandas as pd
    >>> from naim3l import join_views
    >>> clinic = pd.DataFrame({"id": ["p", "q"], "age": [61, 35]})
    >>> lab = pd.DataFrame({"id": ["q", "r"], "crp": [12.0, 88.0]})
    >>> wide, views = join_views({"clinic": clinic, "lab": lab}, on="id")
    >>> wide.reset_index()
      id  clinic__age  lab__crp
    0  p         61.0       NaN
    1  q         35.0      12.0
    2  r          NaN      88.0
    >>> views
    {'clinic': ['clinic__age'], 'lab': ['lab__crp']}
    """
    check_view_names(tables)
    parts = {view: Batch(table, f"view {view!r}") for view, table in tables.items()}
    for batch in parts.values():
        check_not_empty(batch)
    first, *others = parts.values()
    same_rows = all(same_index(first, other) for other in others)
    is_pandas = _of_one_library(parts.values()) and hasattr(first.data, "iloc")
    have_ids = is_pandas and not any(is_row_counter(one.data.index) for one in parts.values())
    if on is not None or (have_ids and not same_rows):
        return _join_by_id(parts, on)
    n_rows = {view: len(table) for view, table in parts.items()}
    if len(set(n_rows.values())) > 1:
        raise ValueError(
            f"only tables with the same rows can be joined, got rows {n_rows}; to match rows of "
            "data frames by id, name the column of ids with on=."
        )
    if not same_rows:
        table = next(other for other in others if not same_index(first, other))
        raise ValueError(
            f"{table.origin} and {first.origin} have different indexes, and one only counts "
            "rows; make ids the index of every table, or name the column of ids with on=."
        )
    if _of_one_library(parts.values()):
        frames, views = _renamed(parts)
        return nw.concat(frames, how="horizontal").to_native(), views
    blocks = [table.numbers() for table in parts.values()]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)]).tolist()
    views = {view: list(range(*of)) for view, of in zip(parts, pairwise(ends), strict=True)}
    if all(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr"), views
    return np.hstack([b.toarray() if sparse.issparse(b) else b for b in blocks]), views


def _of_one_library(tables: Iterable[Batch]) -> bool:
    """Whether all tables are data frames with names, of one library."""
    named = [table.frame if table.columns else None for table in tables]
    libraries = {None if frame is None else frame.implementation for frame in named}
    return len(libraries) == 1 and None not in libraries


def _join_by_id(parts: Mapping[str, Batch], on: str | None) -> Wide:
    """A row for each id that some table has."""
    if not _of_one_library(parts.values()):
        raise ValueError(
            f"on={on!r}: rows can be matched by id only if all tables are data frames of one "
            "library with column names."
        )
    indexed = {view: _with_ids(table, on) for view, table in parts.items()}
    ids = {view: _ids(table, on) for view, table in indexed.items()}
    _check_shared(ids)
    order = list(dict.fromkeys(chain.from_iterable(ids.values())))
    frames, views = _renamed(indexed, on)
    if hasattr(frames[0].to_native(), "iloc"):
        first, *others = (frame.to_native().index for frame in frames)
        index = first.append(others).unique()
        frames = [nw.from_native(frame.to_native().reindex(index)) for frame in frames]
        return nw.concat(frames, how="horizontal").to_native(), views
    assert on is not None  # without it, indexes of pandas
    key = nw.new_series(on, order, frames[0].schema[on], backend=frames[0].implementation)
    wide = key.to_frame().with_row_index(_ROW)
    for frame in frames:
        wide = wide.join(frame, on=on, how="left")
    return wide.sort(_ROW).drop(_ROW).to_native(), views


def _with_ids(table: Batch, on: str | None) -> Batch:
    """The table with its ids as index if it is one of pandas; else with a column of them."""
    is_pandas = hasattr(table.data, "iloc")
    if on is None or (is_pandas and table.data.index.name == on):
        return table
    columns = table.columns or []
    if on not in columns:
        raise ValueError(f"{table.origin}: no column {quote(on)}; it has [{some(columns)}].")
    if len(columns) == 1:
        raise ValueError(f"{table.origin}: no column besides the ids in {quote(on)}.")
    return Batch(table.data.set_index(on), table.origin) if is_pandas else table


def _ids(table: Batch, on: str | None) -> list[Any]:
    """Ids of the rows; refuses missing and equal ones."""
    is_pandas = hasattr(table.data, "iloc")
    ids = table.data.index.tolist() if is_pandas else nw.from_native(table.data)[on].to_list()
    for row in [row for row, entry in enumerate(ids) if is_missing(entry)]:
        raise ValueError(f"{table.origin}, row {row}: the id is missing.")
    entry, count = Counter(ids).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"{table.origin}: {count} rows have the id {quote(entry)}; ids must differ within a "
            "table."
        )
    return ids


def _check_shared(ids: Mapping[str, Sequence[Any]]) -> None:
    """Refuse ids of different types; warn where no id is in two tables."""
    (first, of_first), *others = ids.items()
    for view, of_view in others:
        if type(of_first[0]) is not type(of_view[0]):
            raise ValueError(
                f"ids of views {first!r} and {view!r} have different types, for example "
                f"{of_first[0]!r} and {of_view[0]!r}; convert them to one type."
            )
    if others and len({*chain.from_iterable(ids.values())}) == sum(map(len, ids.values())):
        view, of_view = others[0]
        warn_user(
            f"no id is in two of the views, so that every row lacks all views but one; for example "
            f"{of_first[0]!r} in view {first!r} and {of_view[0]!r} in view {view!r}."
        )


def _renamed(
    parts: Mapping[str, Batch], on: str | None = None
) -> tuple[list[nw.DataFrame], dict[str, list[Any]]]:
    """Tables with columns named after their views, and these names; ids keep theirs."""
    renamed, views = [], {}
    for view, table in parts.items():
        names = {name: f"{view}__{name}" for name in table.columns or [] if name != on}
        renamed.append(table.frame.rename(names))  # type: ignore[union-attr]
        views[view] = list(names.values())
    return renamed, views
