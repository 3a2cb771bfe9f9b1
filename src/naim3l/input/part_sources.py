"""Collections of dask, and tables in memory, as sources of the parts of a table.

A source has ``meta`` (the table without rows), ``lengths`` and ``divisions`` (None if they are
unknown), ``parts(where, positions)``, ``places(where)`` and ``token()``. One whose rows can be
divided anywhere also has ``sliced(lengths)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from naim3l.input.passes import load_dask, map_parts
from naim3l.input.places import Place
from naim3l.input.tables import Table, as_matrix


class _Partitions:
    """What collections of dask have in common."""

    native: Any
    lengths: Sequence[int] | None = None
    divisions: Any = None

    def places(self, where: str) -> list[Place]:
        names = [f"partition {i}" for i in range(self._n_parts())]
        return [Place(where, ((name, 0, -1),)) for name in names]

    def token(self) -> str:
        return load_dask("dask.base").tokenize(self.native)

    def _n_parts(self) -> int:
        return self.native.npartitions


class DaskFrame(_Partitions):
    """A data frame or series of dask."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.meta = native._meta
        self.divisions = native.divisions if native.known_divisions else None

    def parts(self, where: str, positions: Sequence[int] | None) -> list[Any]:
        chosen = self.native
        if positions is not None:
            chosen = chosen[[self.native.columns[j] for j in positions]]
        return chosen.to_delayed()


class DaskArray(_Partitions):
    """An array of dask, whose blocks may be sparse."""

    def __init__(self, native: Any, where: str) -> None:
        if native.ndim == 2 and np.isnan(native.shape[1]):
            raise ValueError(
                f"{where}: a dask.array with an unknown number of columns; call "
                "array.compute_chunk_sizes() first, or make it from blocks whose shape is known."
            )
        self.native = native
        self.meta = np.empty((0, *native.shape[1:]), dtype=native.dtype)
        known = not np.isnan(native.chunks[0]).any()
        self.lengths = [int(n) for n in native.chunks[0]] if known else None

    def parts(self, where: str, positions: Sequence[int] | None) -> list[Any]:
        blocks = self.native.to_delayed()
        if self.native.ndim == 1 or (positions is None and blocks.shape[1] == 1):
            return blocks.ravel().tolist()
        return map_parts(_Columns(positions), blocks.tolist(), title="columns")

    def _n_parts(self) -> int:
        return len(self.native.chunks[0])


class InMemory:
    """A table in memory, which can be divided anywhere."""

    divisions = None

    def __init__(self, table: Any, lengths: Sequence[int] | None = None) -> None:
        self.table = table
        self.lengths = [int(table.shape[0])] if lengths is None else list(lengths)

    @property
    def meta(self) -> Any:
        empty = _slice(self.table, 0, 0)
        return empty.toarray() if sparse.issparse(empty) else empty

    def parts(self, where: str, positions: Sequence[int] | None) -> list[Any]:
        table = self.table
        if positions is not None:
            table = Table(table, where).select_columns(positions, where).data
        ends = np.cumsum(self.lengths).tolist()
        pieces = [_slice(table, end - n, end) for end, n in zip(ends, self.lengths, strict=True)]
        return [load_dask("dask.delayed").delayed(piece, traverse=False) for piece in pieces]

    def places(self, where: str) -> list[Place]:
        ends = np.cumsum(self.lengths).tolist()
        return [Place(where, (("in memory", end - n, n),))
                for end, n in zip(ends, self.lengths, strict=True)]  # fmt: skip

    def sliced(self, lengths: Sequence[int]) -> "InMemory":
        return InMemory(self.table, lengths)

    def token(self) -> str:
        return load_dask("dask.base").tokenize(self.table, self.lengths)


@dataclass(frozen=True)
class _Columns:
    """Task that joins the blocks of columns of some rows, and selects columns of them."""

    positions: Sequence[int] | None

    def __call__(self, i: int, *blocks: Any) -> Any:
        if len(blocks) == 1:
            joined = blocks[0]
        elif any(map(sparse.issparse, blocks)):
            joined = sparse.hstack(blocks, format="csr")
        else:
            joined = np.hstack(blocks)
        return joined if self.positions is None else joined[:, list(self.positions)]


def sliceable(X: Any, where: str, *, labels: bool) -> Any:
    """A table in memory that can be sliced."""
    native = nw.from_native(X, eager_only=True, pass_through=True, allow_series=labels)
    is_table = isinstance(native, nw.DataFrame | nw.Series)
    return X if is_table else as_matrix(X, where, allow_1d=labels)


def _slice(table: Any, start: int, end: int) -> Any:
    """Rows of a table in memory, as a table of the same library."""
    native = nw.from_native(table, eager_only=True, pass_through=True, allow_series=True)
    return native[start:end].to_native() if native is not table else table[start:end]
