"""Rows of two views as folders of Parquet files, for bench_scale.py.

Each view has rows of its own. Labels and features depend on the same hidden factors, features with
noise; training labels are unknown with probability 1/2, test labels are all known. Any row group
can be drawn on its own, so memory does not grow with the number of rows.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import progress
from scipy.special import ndtri

VIEWS = ("view0", "view1")
N_FEATURES, N_LABELS, N_LATENT, LABELS_PER_ROW = 50, 20, 20, 3
COLUMNS = [f"x{j}" for j in range(N_FEATURES)]
LABELS = [f"label{k}" for k in range(N_LABELS)]
FILE_ROWS, GROUP_ROWS = 500_000, 50_000
# Small tables have several row groups, too, so that they can be read in parts.
LEAST_GROUPS, LEAST_GROUP_ROWS = 20, 500
SCHEMA = pa.schema(
    [(name, pa.float32()) for name in COLUMNS] + [(name, pa.int8()) for name in LABELS]
)


@dataclass(frozen=True)
class Dataset:
    """Rows of a folder that has one folder of Parquet files per view.

    Attributes
    ----------
    folder : Path
    n_rows : int
        Of each view.
    seed : int
    test : bool
        Whether these are test rows: others than the training rows of the same seed.
    """

    views, label_names, dictionaries = VIEWS, LABELS, LABELS
    least_groups = LEAST_GROUPS

    folder: Path
    n_rows: int
    seed: int = 0
    test: bool = False

    @property
    def paths(self) -> dict[str, str]:
        """Folder of each view."""
        name = f"{'test' if self.test else 'train'}-{self.n_rows}-seed-{self.seed}"
        return {view: str(self.folder / name / view) for view in self.views}

    @property
    def labels(self) -> dict[str, list[str]]:
        """Names of the columns of each view that are labels."""
        return {view: [*self.label_names] for view in self.views}

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(file.stat().st_size for path in self.paths.values() for file in _files(path))

    def write(self) -> "Dataset":
        """Write the files that do not exist yet."""
        for view, path in self.paths.items():
            Path(path).mkdir(parents=True, exist_ok=True)
            for start in range(0, self.n_rows, FILE_ROWS):
                file = Path(path, f"part-{start // FILE_ROWS:05}.parquet")
                if not file.exists():
                    progress(f"writing {file}")
                    self._write_file(file, view, start)
        return self

    def groups(self, view: str):
        """Features (n, 50) and labels (n, 20) of one row group after the other; NaN = unknown."""
        for file in _files(self.paths[view]):
            with pq.ParquetFile(file) as opened:
                for i in range(opened.num_row_groups):
                    yield _arrays(opened.read_row_group(i, use_threads=False))

    def _write_file(self, file: Path, view: str, start: int) -> None:
        end = min(start + FILE_ROWS, self.n_rows)
        step = min(GROUP_ROWS, max(LEAST_GROUP_ROWS, self.n_rows // self.least_groups))
        partial = file.with_suffix(".partial")
        schema = self._draw(view, start, 1).schema
        with pq.ParquetWriter(partial, schema, use_dictionary=self.dictionaries) as writer:
            for first in range(start, end, step):
                writer.write_table(self._draw(view, first, min(step, end - first)))
        os.replace(partial, file)  # a file with the final name is complete

    def _draw(self, view: str, first: int, n: int) -> pa.Table:
        """Row group whose first row has the number ``first``."""
        B, C, shift = _truth(self.seed)
        v = VIEWS.index(view)
        rng = np.random.default_rng((1, self.seed, self.test, v, first))
        Z = rng.standard_normal((n, N_LATENT), dtype=np.float32)
        X = Z @ B[v] + rng.standard_normal((n, N_FEATURES), dtype=np.float32)
        Y = (Z @ C + shift > 0).astype(np.int8)
        unknown = rng.random(Y.shape, dtype=np.float32) < (0 if self.test else 0.5)
        columns = [pa.array(x) for x in X.T]
        columns += [pa.array(y, mask=mask) for y, mask in zip(Y.T, unknown.T, strict=True)]
        return pa.table(columns, schema=SCHEMA)


def _truth(seed: int):
    """Loadings of the views and of the labels, and thresholds of the labels.

    Label frequencies decrease as 1 / (k + 1), but none is above 1/2.
    """
    rng = np.random.default_rng((0, seed))
    B = rng.standard_normal((len(VIEWS), N_LATENT, N_FEATURES)).astype(np.float32)
    C = rng.standard_normal((N_LATENT, N_LABELS))
    C /= np.linalg.norm(C, axis=0)  # scores are standard normal
    share = 1 / np.arange(1, N_LABELS + 1)
    shift = ndtri(np.minimum(0.5, LABELS_PER_ROW * share / share.sum()))
    return B, C.astype(np.float32), shift.astype(np.float32)


def _files(path: str) -> list[Path]:
    return sorted(Path(path).glob("*.parquet"))


def _arrays(table: pa.Table):
    X = np.column_stack([table[name].to_numpy() for name in COLUMNS])
    return X, np.column_stack([table[name].to_numpy() for name in LABELS]).astype(float)
