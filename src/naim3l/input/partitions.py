"""Tables whose rows are in parts: collections of dask, and datasets of Parquet files.

Such a table is never in memory as a whole. dask is imported only if one is given.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from naim3l._text import some
from naim3l.input.parquet_files import is_parquet
from naim3l.input.parquet_parts import open_parquet
from naim3l.input.part_sources import DaskArray, DaskFrame, InMemory, sliceable
from naim3l.input.passes import load_dask, run_pass
from naim3l.input.places import Place
from naim3l.input.tables import Table, as_frame, as_matrix, table_of_labels
from naim3l.input.views import is_apart


@dataclass(frozen=True)
class PartitionedTable:
    """A table whose rows are in parts, which are read when they are needed.

    Attributes
    ----------
    where : str
        Name of the table in errors, for example ``"view 'lab'"``.
    meta : data frame, series, or ndarray
        The table without rows. Arrays have the shape (0, n_columns), or (0,) if the parts have
        one dimension, as labels may have.
    parts : list of Delayed
        Each computes to a table in memory: a data frame, an array, or a CSR array.
    places : list of Place
        Name of each part in errors.
    lengths : list of int or None
        Number of rows of each part, if it is known before the parts are read.
    native : Any
        What the user gave.
    source : Any
        Reads other columns, or other rows, of what the user gave.
    positions : list of int or None
        Columns of the source that the table has; None is all.
    """

    where: str
    meta: Any
    parts: list[Any]
    places: list[Place]
    lengths: list[int] | None
    native: Any
    source: Any
    positions: list[int] | None = None

    @property
    def is_frame(self) -> bool:
        """Whether parts are data frames or series, instead of arrays."""
        return not isinstance(self.meta, np.ndarray)

    @property
    def one_dimensional(self) -> bool:
        return len(self.meta.shape) == 1

    @property
    def n_columns(self) -> int:
        return 1 if self.one_dimensional else int(self.meta.shape[1])

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns; None if there are none."""
        return table_of_labels(self.meta, self.where)[0].columns

    @property
    def divisions(self) -> Any:
        """Bounds of the index of each part, as dask has them; None if they are unknown."""
        return self.source.divisions

    @property
    def token(self) -> str:
        """Text that is the same for the same data in the same parts, in any process."""
        return load_dask("dask.base").tokenize(self.source.token(), self.positions)

    def select_columns(self, positions: Sequence[int], where: str) -> "PartitionedTable":
        """Table of some of the columns; the others are not read, if that can be avoided."""
        before = range(self.n_columns) if self.positions is None else self.positions
        chosen = [before[j] for j in positions]
        return replace(
            self,
            where=where,
            meta=Table(self.meta, where).select_columns(positions, where).data,
            parts=self.source.parts(where, chosen),
            places=self.source.places(where),
            positions=chosen,
        )

    def sliced(self, lengths: Sequence[int]) -> "PartitionedTable | None":
        """The same rows in parts of other lengths; None if its parts cannot be changed."""
        if not hasattr(self.source, "sliced"):
            return None
        source = self.source.sliced(lengths)
        return replace(
            self,
            parts=source.parts(self.where, self.positions),
            places=source.places(self.where),
            lengths=list(lengths),
            source=source,
        )


def is_partitioned(X: Any) -> bool:
    """Whether it is a table in parts: a collection of dask, paths, or a dataset of pyarrow."""
    known = isinstance(X, PartitionedTable) or is_parquet(X)
    return known or callable(getattr(type(X), "__dask_graph__", None))


def any_partitioned(X: Any) -> bool:
    """Whether a table, or one of a mapping of tables, is in parts."""
    return any(map(is_partitioned, X.values())) if is_apart(X) else is_partitioned(X)


def partition(
    X: Any, where: str, *, part_rows: int | None = None, labels: bool = False
) -> PartitionedTable:
    """A table in parts; nothing but the metadata of files is read.

    Parameters
    ----------
    X : dask.dataframe, dask.array, path or paths, pyarrow.dataset.Dataset, or table in memory
        A table in memory is one part; a `PartitionedTable` is returned as it is.
    where : str
        Name of the table in errors.
    part_rows : int, optional
        Largest number of rows of a part of Parquet files; chosen by size if it is not given.
    labels : bool, default=False
        Whether it is a label table, which may have one dimension.

    Raises
    ------
    ValueError
        If files are missing, are not Parquet, or have different columns, or if an array has an
        unknown number of columns.
    TypeError
        If it is a collection of dask that is not a table.
    """
    if isinstance(X, PartitionedTable):
        return replace(X, where=where)
    load_dask()  # so that an error says what to install
    if is_parquet(X):
        source: Any = open_parquet(X, where, part_rows)
    elif not is_partitioned(X):
        source = InMemory(sliceable(X, where, labels=labels))
    elif hasattr(type(X), "divisions"):
        source = DaskFrame(X)
    elif hasattr(type(X), "chunks"):
        source = DaskArray(X, where)
    else:
        raise TypeError(
            f"{where}: {type(X).__name__} of dask is not a table; give a dask.dataframe, for "
            "example with dask.dataframe.from_delayed or Bag.to_dataframe, or a dask.array."
        )
    meta = source.meta
    as_frame(meta, where, "label" if labels else "column")  # refuses equal names
    if len(meta.shape) != 2 and not (labels and len(meta.shape) == 1):
        as_matrix(np.empty(meta.shape), where)
    return PartitionedTable(
        where=where,
        meta=meta,
        parts=source.parts(where, None),
        places=source.places(where),
        lengths=None if source.lengths is None else list(source.lengths),
        native=X,
        source=source,
    )


def split_columns(
    table: PartitionedTable, names: Sequence[str], where: str | None = None
) -> tuple[PartitionedTable, PartitionedTable]:
    """The columns that are not named, and those that are, which are labels."""
    known = table.columns or []
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{table.where}: no column {unknown[0]!r} for the labels; it has [{some(known)}]."
        )
    chosen = [known.index(name) for name in names]
    rest = [j for j in range(len(known)) if j not in set(chosen)]
    return (
        table.select_columns(rest, table.where),
        table.select_columns(chosen, where or table.where),
    )


def with_labels(
    table: PartitionedTable, y: Any, where: str
) -> tuple[PartitionedTable, PartitionedTable]:
    """Features and labels in parts of the same rows.

    Parameters
    ----------
    table : PartitionedTable
    y : label table in parts or in memory, str, or list of str
        Names are columns of ``table``, which are then not among the features.
    where : str
        Name of the labels in errors.
    """
    if isinstance(y, str) and y in (table.columns or ()):
        y = [y]
    if isinstance(y, list | tuple) and all(isinstance(name, str) for name in y):
        if not y:
            raise ValueError(f"{where}: no labels; give the names of columns, or a label table.")
        return split_columns(table, y, where)
    labels = partition(y, where, labels=True)
    together = len(table.parts) == len(labels.parts) == 1
    if table.lengths is None and hasattr(labels.source, "sliced") and not together:
        table = replace(table, lengths=_count_rows(table))
    return table, align_labels(labels, table)


def _count_rows(table: PartitionedTable) -> list[int]:
    """Number of rows of each part, in a pass that reads one column if that is possible."""
    column = table.select_columns([0], table.where) if table.n_columns else table
    inputs, places = [(part,) for part in column.parts], [[place] for place in table.places]
    counts: list[int] = run_pass(_n_rows, inputs, operator.add, title="rows", places=places)
    return counts


def _n_rows(i: int, part: Any) -> list[int]:
    return [int(part.shape[0])]


def align_labels(labels: PartitionedTable, table: PartitionedTable) -> PartitionedTable:
    """Labels in parts of the same rows as those of ``table``.

    Labels from Parquet files or from memory are divided as the table is, if its lengths are
    known; those of dask must have the same partitions. Lengths that are not known are left to
    `check_part_rows`.
    """
    known = table.lengths
    if known is not None and labels.lengths is not None and known != labels.lengths:
        n_rows, n_labelled = sum(known), sum(labels.lengths)
        if n_rows != n_labelled:
            raise ValueError(
                f"{table.where}: {n_rows} rows of features but {n_labelled} rows of labels "
                "(inconsistent numbers of samples)."
            )
        sliced = labels.sliced(known)
        if sliced is not None:
            return sliced
    n_parts, n_label_parts = len(table.parts), len(labels.parts)
    if n_parts != n_label_parts:
        raise ValueError(
            f"{table.where}: {n_parts} partitions of features but {n_label_parts} of labels; "
            f"{_CURE}"
        )
    if known is not None and labels.lengths is not None:
        for place, n, n_labels in zip(table.places, known, labels.lengths, strict=True):
            check_part_rows(place, n, n_labels)
    return labels


_CURE = (
    "give both the same partitions, for example with labels.repartition(divisions="
    "features.divisions), or labels.rechunk({0: features.chunks[0]}) for arrays."
)


def check_part_rows(place: Place | str, n_rows: int, n_labels: int) -> None:
    """Refuse a part whose labels are not as many as its rows."""
    if n_rows != n_labels:
        raise ValueError(
            f"{place}: {n_rows} rows of features but {n_labels} rows of labels; {_CURE}"
        )
