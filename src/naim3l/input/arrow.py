"""Batches of files as columns of Arrow, of which numbers and codes are read without copies."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask
from naim3l._origin import Origin
from naim3l.files.columnar import arrow_frame
from naim3l.files.errors import load_extra
from naim3l.input.batches import Batch, as_frame


class ArrowBatch(Batch):
    """A batch with columns of Arrow, which is a table of pandas only for code that asks for one.

    Columns have numbers, truth values, dates or text, which may have codes; all have names.
    """

    def __init__(
        self,
        table: Any,
        index: Any,
        origin: Origin,
        column_word: str = "column",
        positions: Any = None,
    ) -> None:
        self.table, self._index, self.origin = table, index, origin
        self.column_word, self.positions = column_word, positions
        self.columns, self.shape, self.is_frame = list(table.column_names), table.shape, True
        self._distinct: dict[int, tuple[NDArray[np.intp], list[Any]]] = {}
        self._numbers: dict[int, NDArray[np.float64]] = {}

    @cached_property
    def data(self) -> Any:
        return _frame(self.table).set_axis(self._index, axis=0)

    @cached_property
    def frame(self) -> Any:  # type: ignore[override]
        return as_frame(self.data, self.origin, self.column_word)

    @property
    def head(self) -> Any:
        return _no_rows(self.table.schema)

    @property
    def dtypes(self) -> list[Any]:
        return _dtypes(self.table.schema)

    @property
    def index(self) -> Any:
        return self._index

    def select_columns(self, columns: Sequence[int], origin: Origin | None = None) -> "ArrowBatch":
        chosen = list(columns)
        kept = chosen if self.positions is None else [self.positions[j] for j in chosen]
        part, about = self.table.select(chosen), (origin or self.origin, self.column_word, kept)
        return ArrowBatch(part, self._index, *about)

    def take_rows(self, mask: Mask) -> "ArrowBatch":
        if mask.all():
            return self
        part, index = self.table.filter(load_extra("pyarrow").array(mask)), self._index[mask]
        return ArrowBatch(part, index, self.origin.take(mask), self.column_word, self.positions)

    def sparse_numbers(self, j: int) -> None:
        return None

    def values(self, j: int) -> NDArray[Any]:
        pyarrow, column = load_extra("pyarrow"), self._array(j)
        if pyarrow.types.is_date(column.type):  # of which NumPy has no units that count so far
            column = column.cast(pyarrow.timestamp("s" if column.type.bit_width == 32 else "ms"))
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def distinct(self, j: int) -> tuple[NDArray[np.intp], list[Any]]:
        if j not in self._distinct and self.dtypes[j] == nw.String:
            self._distinct[j] = self._distinct_text(j)
        return super().distinct(j)

    def _distinct_text(self, j: int) -> tuple[NDArray[np.intp], list[Any]]:
        column = self._array(j)
        if hasattr(column, "dictionary") and len(column.dictionary) > len(column):
            column = column.cast(column.type.value_type)  # it has the values of other rows, too
        coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy().astype(np.intp)
        used = np.bincount(codes + 1, minlength=len(coded.dictionary) + 1)[1:] > 0
        if not used.all():
            codes = np.append(np.cumsum(used) - 1, -1)[codes]
        cells = coded.dictionary.to_pylist()
        return codes, [cell for cell, is_used in zip(cells, used.tolist(), strict=True) if is_used]

    def number_columns(
        self, columns: list[int], *, allowed: str = "numbers"
    ) -> list[NDArray[np.float64]]:
        if not {*columns} <= {*self.numeric}:
            return list(super().number_columns(columns, allowed=allowed))
        return [self._numbers_of(j) for j in columns]

    def _numbers_of(self, j: int) -> NDArray[np.float64]:
        """Column of numbers, which is not copied if it has the type of the result and no gaps."""
        if j not in self._numbers:
            column = self._array(j)
            if self.dtypes[j] == nw.Boolean:
                column = column.cast("int8")
            numbers = column.to_numpy(zero_copy_only=False)
            self._numbers[j] = numbers.astype(np.float64, copy=False)
        return self._numbers[j]

    @cached_property
    def missing(self) -> Any:
        missing = np.empty(self.shape[::-1], dtype=bool)  # by column, as Arrow has them
        for j in range(self.shape[1]):
            if j in self.numeric:
                np.isnan(self._numbers_of(j), out=missing[j])
            else:
                missing[j] = self._array(j).is_null().to_numpy(zero_copy_only=False)
        return missing.T

    @cached_property
    def numeric_block(self) -> NDArray[np.float64]:
        return np.array([self._numbers_of(j) for j in self.numeric]).reshape(-1, len(self)).T

    def _array(self, j: int) -> Any:
        """Column in one piece."""
        column = self.table.column(j)
        if column.num_chunks == 1:
            return column.chunk(0)
        return column.unify_dictionaries().combine_chunks()


def _frame(table: Any) -> Any:
    """Table of pandas, in which codes of text are text."""
    types = load_extra("pyarrow").types
    for j, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            plain = table.column(j).cast(field.type.value_type)
            table = table.set_column(j, field.name, plain)
    return arrow_frame(table)


@lru_cache(maxsize=64)
def _no_rows(schema: Any) -> Any:
    return _frame(schema.empty_table())


@lru_cache(maxsize=64)
def _dtypes(schema: Any) -> list[Any]:
    return list(nw.from_native(_no_rows(schema)).schema.dtypes())
