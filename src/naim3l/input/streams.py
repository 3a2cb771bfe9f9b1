"""Tables in parts with their labels: names are checked first, rows are read part by part."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naim3l.input.labels import compare_indexes, read_labels
from naim3l.input.partitions import (
    PartitionedTable,
    check_part_rows,
    partition,
    with_labels,
)
from naim3l.input.reader import APART, WIDE, TableReader
from naim3l.input.tables import Table, table_of_labels
from naim3l.input.views import check_view_name, is_apart

WIDE_TABLE = "X"


class Stream(NamedTuple):
    """A table in parts, and its labels in the same parts.

    Attributes
    ----------
    name : str
        Name of the view, or ``WIDE_TABLE``.
    views : list of str
        Views whose columns it has.
    table, labels : PartitionedTable
    """

    name: str
    views: list[str]
    table: PartitionedTable
    labels: PartitionedTable


def open_streams(reader: TableReader, X: Any, y: Any) -> list[Stream]:
    """Tables of which no row has been read; the reader stores their form and names.

    Parameters
    ----------
    reader : TableReader
    X : mapping of str to table in parts, or one wide table in parts
    y : mapping of str to labels, or the labels of the wide table
        Label tables in parts or in memory, or names of columns of ``X`` that are labels.
    """
    if y is None:
        read_labels(y, reader.label_coding, "y")  # refuses it
    reader.form_ = APART if is_apart(X) else WIDE
    reader.check_label_form(y, X if is_apart(X) else ())
    if is_apart(X):
        reader.check_no_views()
        if not X:
            raise ValueError("no view given: the mapping {view: table} is empty.")
        for view in X:
            check_view_name(view)
        opened = {view: _open(table, y[view], f"view {view!r}") for view, table in X.items()}
        metas = {view: _meta(table) for view, (table, _) in opened.items()}
        reader.name_apart(metas)
        streams = [Stream(view, [view], *pair) for view, pair in opened.items()]
    else:
        table, labels = _open(X, y, WIDE_TABLE)
        metas = reader.name_wide(_meta(table))
        streams = [Stream(WIDE_TABLE, reader.views_, table, labels)]
    reader.name_labels(
        {s.name: read_labels(s.labels.meta, reader.label_coding, s.table.where) for s in streams}
    )
    reader.warn_of_labels_among_features(metas)
    return streams


def _open(X: Any, y: Any, where: str) -> tuple[PartitionedTable, PartitionedTable]:
    if y is None:
        read_labels(y, "binary", where)  # refuses it
    return with_labels(partition(X, where), y, where)


def _meta(table: PartitionedTable) -> Table:
    """The table without rows."""
    if not table.n_columns:
        raise ValueError(f"{table.where}: no columns; leave an empty view out.")
    return Table(table.meta, table.where)


class PartReader(NamedTuple):
    """Reader of the parts of one stream, which workers can have a copy of."""

    reader: TableReader
    name: str

    def tables(self, part: Any) -> dict[str, Table]:
        """Table of each view in a part with rows, checked against the names of the fit."""
        return self.reader.tables(part if self.reader.wide else {self.name: part})

    @property
    def where(self) -> str:
        return self.name if self.reader.wide else f"view {self.name!r}"

    def compare_indexes(self, part: Any, labels: Any) -> str | None:
        """A caution if a part and its labels have different indexes."""
        tables = Table(part, self.where), table_of_labels(labels, self.where)[0]
        return compare_indexes(*tables, part=True)

    def signed(self, labels: Any, n_rows: int) -> NDArray[np.int8]:
        """Labels of a part as 1, -1 and 0, (n_rows, n_labels)."""
        read = read_labels(labels, self.reader.label_coding, self.where)
        check_part_rows(self.where, n_rows, len(read.signed))
        return self.reader.signed(read)
