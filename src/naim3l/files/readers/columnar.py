"""Tables in Parquet and Arrow files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naim3l.files.readers.errors import ReadError, load_extra, mark_origin

_UNNAMED_INDEX = "__index_level_"  # how pandas stores an index without a name


def read_parquet(path: Path, *, n_rows: int | None = None) -> Any:
    """Table of a single Parquet file, without columns from names of folders."""
    parquet = load_extra("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        if n_rows is None:
            table = file.read()
        else:
            batches = file.iter_batches(batch_size=max(n_rows, 1))
            first = next(batches, None)
            table = file.schema_arrow.empty_table() if first is None else _table([first])
    return _frame(path, table)


def read_arrow(path: Path, *, n_rows: int | None = None) -> Any:
    """Table of an Arrow file, of Feather from version 2 on, or of an Arrow stream."""
    pyarrow = load_extra("pyarrow")
    with path.open("rb") as start:
        magic = start.read(6)
    if magic.startswith(b"FEA1"):
        # pyarrow no longer maintains this format, and damaged files can crash the process.
        raise ReadError(
            f"{path}: Feather of version 1, which is no longer read; write it again as Parquet or "
            "with version=2."
        )
    with pyarrow.OSFile(str(path), "rb") as file:
        ipc = pyarrow.ipc
        stored = ipc.open_file(file) if magic == b"ARROW1" else ipc.open_stream(file)
        with stored:
            table = stored.read_all()
    return _frame(path, table if n_rows is None else table.slice(0, n_rows))


def _table(batches: list[Any]) -> Any:
    return load_extra("pyarrow").Table.from_batches(batches)


def _frame(path: Path, table: Any) -> Any:
    load_extra("pandas")
    table.validate(full=True)  # later code does not check for damage
    names, columns = table.column_names, [_tamed(column) for column in table.columns]
    # Without the metadata of pandas, which would turn columns into an index.
    frame = load_extra("pyarrow").table(columns, names=names).to_pandas()
    frame.columns = clean_names(names)
    return mark_origin(frame, str(path))


def clean_names(names: Sequence[str]) -> list[str]:
    """Names of columns without spaces around them; "" for an index that pandas stored."""
    return ["" if name.startswith(_UNNAMED_INDEX) else name.strip() for name in names]


def _tamed(column: Any) -> Any:
    """A column in a type that can be converted for all values of its cells."""
    pyarrow = load_extra("pyarrow")
    if pyarrow.types.is_timestamp(column.type) and column.type.tz is not None:
        # With a time zone, pandas fails on dates beyond the year 9999.
        return column.cast(pyarrow.timestamp(column.type.unit))
    return pyarrow.array(column.to_pylist()) if _has_views(column.type) else column


def _has_views(kind: Any) -> bool:
    """Whether cells of a type, or parts of them, are references into a buffer.

    References of missing cells are not validated, but conversions of pyarrow follow them.
    """
    types = load_extra("pyarrow").types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return True
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _has_views(kind.value_type)
    if hasattr(kind, "storage_type"):  # an extension
        return _has_views(kind.storage_type)
    return any(_has_views(kind.field(k).type) for k in range(kind.num_fields))
