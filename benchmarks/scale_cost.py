"""Processor time of the passes over tables of all kinds of columns, for bench_scale.py.

Three tables have forty columns each, of numbers, counts, categories, dates and truth values, with
gaps, and 15 labels of which nine in ten entries are unknown. The same files are read by Arrow
alone, by a ridge regression that needs one pass, and by naim3l; the least of three runs counts,
as other programs can only add to it.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import progress
from scale_data import Dataset
from scale_runs import Passes, in_fresh_process, workers
from threadpoolctl import threadpool_limits

from naim3l import NAIM3L

N_LABELS, N_HIDDEN, UNKNOWN, GAPS = 15, 12, 0.9, 0.15
N_VALUES = (3, 5, 8, 12, 20, 40)  # of categories
WARM_UP_ROWS, REPEATS = 20_000, 3
RIDGE = "ridge, one pass"


@dataclass(frozen=True)
class MixedDataset(Dataset):
    """Rows of three views with columns of all kinds."""

    views = ("clinic", "lab", "visits")
    label_names, dictionaries = [f"label{k}" for k in range(N_LABELS)], True
    least_groups = 2

    def _draw(self, view, first, n):
        v = self.views.index(view)
        truth = np.random.default_rng((2, self.seed, v))
        B, C = truth.normal(size=(N_HIDDEN, 40)), truth.normal(size=(N_HIDDEN, N_LABELS))
        rng = np.random.default_rng((3, self.seed, self.test, v, first))
        Z = rng.normal(size=(n, N_HIDDEN))
        S = (Z @ B + rng.normal(size=(n, 40))) / np.sqrt(N_HIDDEN)  # of all columns
        columns = {f"number{j}": S[:, j] for j in range(16)}
        columns |= {f"amount{j}": np.exp(2 * S[:, 16 + j]) for j in range(4)}
        columns |= {f"rounded{j}": np.round(20 + 3 * S[:, 20 + j], 1) for j in range(4)}
        columns |= {f"count{j}": np.floor(np.exp(2 + S[:, 24 + j] / 2)) for j in range(6)}
        for j, n_values in enumerate(N_VALUES):
            ends = np.quantile(truth.normal(size=1000), np.linspace(0, 1, n_values + 1)[1:-1])
            values = np.array([f"value {k} of {n_values}" for k in range(n_values)])
            columns[f"category{j}"] = values[np.searchsorted(ends, S[:, 30 + j])]
        days = np.datetime64("2020-01-01") + (300 * S[:, 36]).astype("timedelta64[D]")
        seconds = (3e6 * S[:, 37]).astype("timedelta64[s]")
        columns |= {"day": days, "time": np.datetime64("2021-01-01", "us") + seconds}
        columns |= {f"truth{j}": S[:, 38 + j] > 0.3 for j in range(2)}
        table = {}
        for j, (name, values) in enumerate(columns.items()):
            values = values.astype(np.int32) if name.startswith("count") else values
            gaps = rng.random(n) < GAPS if j % 2 else None
            table[name] = pa.array(values, mask=gaps)
        Y = (Z @ C + rng.normal(size=(n, N_LABELS)) > 3).astype(np.int8)
        unknown = rng.random(Y.shape) < (0 if self.test else UNKNOWN)
        for name, y, mask in zip(self.label_names, Y.T, unknown.T, strict=True):
            table[name] = pa.array(y, mask=mask)
        return pa.table(table)


def batches(path):
    """Record batches of the files of a view, decoded by one thread."""
    for file in sorted(Path(path).glob("*.parquet")):
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(65_536, use_threads=False)


def read(data):
    """Read all cells, and nothing else."""
    for path in data.paths.values():
        for _ in batches(path):
            pass


def ridge(data, strength=1.0):
    """Weights of a ridge regression of each view and label, in one pass over the rows.

    Means and scales of numbers, which fill gaps, and the values of text are those of the first
    batch.
    """
    return {view: _ridge_of_view(path, data, strength) for view, path in data.paths.items()}


def _ridge_of_view(path, data, strength):
    known, gram, targets = {}, 0, 0
    for batch in batches(path):
        columns = [_numbers(batch[name], name, known) for name in batch.schema.names[:40]]
        X = np.column_stack([*columns, np.ones(len(batch))])
        Y = np.stack([_floats(batch[name]) for name in data.label_names])
        grams = [(A := X[~np.isnan(y)]).T @ A for y in Y]
        gram, targets = gram + np.stack(grams), targets + np.nan_to_num(2 * Y - 1) @ X
    penalty = strength * np.eye(gram.shape[1])
    return np.stack([np.linalg.solve(G + penalty, t) for G, t in zip(gram, targets, strict=True)])


def _numbers(column, name, known):
    """Numbers of a column, (n_rows,), or one column for each value of text, (n_rows, n_values)."""
    if pa.types.is_string(column.type):
        coded = column.dictionary_encode()
        values = coded.dictionary.to_pylist()
        of_value = known.setdefault(name, {value: k for k, value in enumerate(values)})
        at = np.array([*(of_value.get(value, len(of_value)) for value in values), len(of_value)])
        codes = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        return np.eye(len(of_value) + 1)[at[codes]]
    x = _floats(column)
    mean, scale = known.setdefault(name, (np.nanmean(x), np.nanstd(x)))
    return np.nan_to_num((x - mean) / scale)


def _floats(column):
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.to_numpy(zero_copy_only=False).astype(float)


def fit(data):
    """CPU seconds of each pass of a fit by one thread, and of scores of the same rows."""
    with workers(threads=1), Passes(clock=process_time) as passes:
        model = _model().fit(data.paths, data.labels)
        start = process_time()
        for scores in model.decision_function(data.paths).values():
            scores.map_partitions(len).compute()
    found = dict(passes.by_kind())
    return found | {"the three passes": sum(found.values()), "prediction": process_time() - start}


def fit_with(data, **options):
    """CPU seconds of a fit with some threads, or with all processes of a cluster."""
    with workers(**options) as client:
        seconds = []
        for tables in (_small(data), *[data] * REPEATS):
            before = _cpu_seconds(client)
            _model().fit(tables.paths, tables.labels)
            seconds.append(_cpu_seconds(client) - before)
        return min(seconds[1:])


def _model():
    return NAIM3L(random_state=0, features="auto")


def _small(data):
    return MixedDataset(data.folder, WARM_UP_ROWS, data.seed).write()


def _cpu_seconds(client):
    return process_time() + (sum(client.run(process_time).values()) if client else 0)


def _repeated(function):
    """The function, run several times after a run with few rows; the least of each result."""

    def least(data):
        function(_small(data))
        found = [function(data) for _ in range(REPEATS)]
        return {name: min(of[name] for of in found) for name in found[0]}

    return least


def _timed(name, function):
    def seconds(data):
        start = process_time()
        function(data)
        return {name: process_time() - start}

    return _repeated(seconds)


RUNS = {"read": _timed("reading", read), "ridge": _timed(RIDGE, ridge)}
RUNS |= {"fit": _repeated(fit), "fit_with": fit_with}


def measure_cost(data):
    """Rows of a table of CPU seconds per million rows, and ratios to reading and to the ridge."""
    millions = len(data.views) * data.n_rows / 1e6

    def run(name, **options):
        progress(f"{data.n_rows:,} rows: {name}")
        return in_fresh_process(name, data, script=__file__, **options)

    of = run("read") | run("ridge") | run("fit")
    of["fit, 2 threads"] = run("fit_with", threads=2)
    of["fit, 2 processes"] = run("fit_with", processes=2)
    return [
        {
            "what": name,
            "CPU s per million rows": seconds / millions,
            "x reading": seconds / of["reading"],
            "x ridge": seconds / of[RIDGE],
            "x 2 threads": seconds / of["fit, 2 threads"],
        }
        for name, seconds in of.items()
    ]


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    data = MixedDataset(Path(options.pop("folder")), options.pop("n_rows"), options.pop("seed"))
    with threadpool_limits(1):
        print(json.dumps(RUNS[sys.argv[1]](data, **options)))
