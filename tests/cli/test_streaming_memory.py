"""Commands on tables that are larger than the memory that the operating system allows."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.dask
pytest.importorskip("dask")

N_COLUMNS, N_ROWS, N_BLOCKS, N_FILES = 100, 25_000, 4, 4
# Private memory of a process with all libraries is about 300 MiB, threads of BLAS included; the
# table takes 305 MiB, and twice that while it is read at once.
LIMIT = 760
COMMANDS = """
import resource, sys
limit = int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from naim3l.cli import app

def run(*arguments):
    try:
        app(arguments)
    except SystemExit as error:
        return error.code or 0

model = ["--labels", "dx_*", "--lam", "0.4", "--ridge", "1", "-o", "model.naim3l"]
small = ["--memory", "128MB"]
print("codes", run("fit", "v=parts", *model, *small),
      run("evaluate", "model.naim3l", "v=parts", *small),
      run("predict", "model.naim3l", "v=parts", *small, "-o", "answers"),
      run("fit", "v=whole.parquet", *model))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_a_table_larger_than_the_allowed_memory(tmp_path):
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N_ROWS, 3))
    X = np.round(Z @ rng.normal(size=(3, N_COLUMNS)) + rng.normal(size=(N_ROWS, N_COLUMNS)), 1)
    columns = {f"f{j}": X[:, j] for j in range(N_COLUMNS)}
    rows = pa.table(columns | {f"dx_{k}": Z[:, k] > 0 for k in range(3)})
    (tmp_path / "parts").mkdir()
    with ParquetWriter(tmp_path / "whole.parquet", rows.schema) as whole:
        for i in range(N_FILES):
            with ParquetWriter(tmp_path / "parts" / f"{i}.parquet", rows.schema) as part:
                for _ in range(N_BLOCKS):
                    part.write_table(rows, row_group_size=N_ROWS // 5)
                    whole.write_table(rows)
    # pyarrow's and glibc's own pools reserve gigabytes that they never touch.
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2",
                   "OPENBLAS_NUM_THREADS": "1", "DASK_NUM_WORKERS": "2"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMANDS, str(LIMIT)],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "codes 0 0 0 1" in done.stdout, f"{done.stdout}\n{done.stderr}"
    assert len(list((tmp_path / "answers").glob("part-*"))) > N_FILES
