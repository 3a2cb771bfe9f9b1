"""The same rows in thousands of small files and in one file, for bench_scale.py."""

import shutil
from pathlib import Path
from time import perf_counter, process_time

import dask
import pyarrow as pa
import pyarrow.parquet as pq

from naim3l import NAIM3L
from naim3l.files.tables import open_table

ROWS_OF_A_FILE = 200


def write_small(data):
    """Folders of the first view: all rows in one file, and a few in each of many."""
    source = next(iter(data.paths.values()))
    base = Path(source).parent
    folders = [base / f"{kind}-{data.n_rows}-{data.seed}" for kind in ("one", "many")]
    if all((folder / "complete").exists() for folder in folders):
        return folders
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    table = pa.concat_tables(pq.read_table(path) for path in sorted(Path(source).glob("*.parquet")))
    pq.write_table(table, folders[0] / "rows.parquet", row_group_size=65_536)
    for k, start in enumerate(range(0, len(table), ROWS_OF_A_FILE)):
        pq.write_table(table[start : start + ROWS_OF_A_FILE], folders[1] / f"rows-{k}.parquet")
    for folder in folders:
        (folder / "complete").touch()
    return folders


def measure_folder(folder, labels):
    """Seconds to open a folder, its tasks, and processor seconds of a fit."""
    start = perf_counter()
    table = open_table(f"{folder}/*.parquet")
    plan = perf_counter() - start
    with dask.config.set(num_workers=1):
        start = process_time()
        NAIM3L().fit({"view": f"{folder}/*.parquet"}, {"view": labels})
    return plan, len(table.parts), process_time() - start


def measure_small(data):
    """Rows of a table: one file, and many small ones."""
    rows, folders = [], write_small(data)
    measure_folder(folders[0], data.label_names)  # imports, and first calls
    for folder in folders:
        plan, n_tasks, seconds = measure_folder(folder, data.label_names)
        n_files = len(list(folder.glob("*.parquet")))
        row = {
            "files": n_files,
            "tasks of a pass": n_tasks,
            "planning s": plan,
            "fit, CPU s": seconds,
        }
        rows.append(row | {"CPU per row x": seconds / (rows[0]["fit, CPU s"] if rows else seconds)})
    return rows
