"""The same numbers in every container in which users give tables."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse


def columns_of(values):
    """Values (n_rows, n_columns) as a dict of columns of Python numbers, None for NaN."""
    return {
        f"c{j}": [None if np.isnan(cell) else float(cell) for cell in column]
        for j, column in enumerate(values.T)
    }


def as_pandas(values, **options):
    return pd.DataFrame(columns_of(values), index=np.arange(len(values)) * 3 + 7, **options)


DENSE = {
    "numpy": np.array,
    "numpy, Fortran order": np.asfortranarray,
    "numpy object": lambda values: np.where(np.isnan(values), None, values),
    "numpy masked": lambda values: np.ma.masked_array(
        np.where(np.isnan(values), -1, values), np.isnan(values)
    ),
    "list with None": lambda values: np.where(np.isnan(values), None, values).tolist(),
    "pandas": lambda values: as_pandas(values, dtype="float64"),
    "pandas nullable": lambda values: as_pandas(values, dtype="Float64"),
    "pandas pyarrow": lambda values: as_pandas(values, dtype="double[pyarrow]"),
    "pandas object": lambda values: as_pandas(values, dtype=object),
    "pandas sparse": lambda values: as_pandas(values, dtype="float64").astype("Sparse[float]"),
    "pandas, numbered columns": lambda values: pd.DataFrame(values),
    "polars null": lambda values: pl.DataFrame(columns_of(values), strict=False),
    "polars NaN": lambda values: pl.DataFrame(values, schema=list(columns_of(values))),
    "pyarrow": lambda values: pa.table(columns_of(values)),
}
SPARSE = {
    f"{kind}_{form}": getattr(sparse, f"{kind}_{form}")
    for kind, form in [("csr", "array"), ("csr", "matrix"), ("csc", "array"), ("coo", "array"),
                       ("dok", "array"), ("dok", "matrix"), ("lil", "array"), ("bsr", "array"),
                       ("dia", "array")]
}  # fmt: skip
CONTAINERS = DENSE | SPARSE


def dense(values):
    return values.toarray() if sparse.issparse(values) else values
