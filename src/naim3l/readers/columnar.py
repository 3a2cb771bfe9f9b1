"""Tables in Parquet and Arrow files."""

from pathlib import Path
from typing import Any

from naim3l.readers.errors import load_extra, mark_origin

_UNNAMED_INDEX = "__index_level_"  # how pandas stores an index without a name


def read_parquet(path: Path, *, n_rows: int | None = None) -> Any:
    """Table of one Parquet file; names of folders add no columns."""
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
    """Table of an Arrow file, an Arrow stream or a Feather file of either version."""
    pyarrow = load_extra("pyarrow")
    with path.open("rb") as start:
        magic = start.read(6)
    if magic.startswith(b"FEA1"):
        table = load_extra("pyarrow.feather").read_table(path, memory_map=False)
    else:
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
    table.validate(full=True)  # damage would otherwise be met by code that trusts the table
    # The notes that pandas leaves would turn columns into an index, which has no place here.
    frame = table.replace_schema_metadata(None).to_pandas()
    frame.columns = [
        "" if name.startswith(_UNNAMED_INDEX) else name.strip() for name in table.column_names
    ]
    return mark_origin(frame, str(path))
