"""Time and memory of streamed fits and predictions by number of rows, for bench_scale.py."""

from pathlib import Path

import numpy as np
from common import progress
from scale_data import N_FEATURES, N_LABELS, VIEWS
from scale_runs import PASSES, in_fresh_process

from naim3l.decisions.learning import N_FOLDS
from naim3l.problem.cost_model import statistics_bytes

FITS = ("fit", "fit, calibrated")
# Calibration adds its folds to the statistics of every part; larger sizes tell nothing new.
CALIBRATED_ROWS = 1_000_000
# The example of the cost model.
MANY_ROWS, MANY_WORKERS = 1_000_000_000, 100


def measure_growth(sets, threads):
    """Reports by name of the run, one for each dataset."""
    reports = {name: [] for name in (*FITS, "predict")}
    for data in sets:
        model_file = str(data.folder / "model.pickle")
        runs = {
            "fit": ("fit", {"model_file": model_file}),
            "fit, calibrated": ("fit", {"calibrate": True}),
            "predict": ("predict", {"model_file": model_file}),
        }
        for name, (function, options) in runs.items():
            if name == "fit, calibrated" and data.n_rows > CALIBRATED_ROWS:
                continue
            progress(f"{data.n_rows:,} rows: {name}")
            report = in_fresh_process(function, data, threads=threads, **options)
            millions = len(VIEWS) * data.n_rows / 1e6
            report |= {"rows": data.n_rows, "millions": millions, "bytes": data.n_bytes}
            reports[name].append(report)
        Path(model_file).unlink()
    return reports


def growth_table(reports):
    """Rows of the table."""
    rows = []
    for name, of_run in reports.items():
        first = of_run[0]
        for report in of_run:
            passes = report["passes"]
            per_row = [of["seconds"] / of["rows"] for of in (report, first)]
            row = {"run": name, "rows per view": report["rows"]}
            row |= {key: passes[key] / report["millions"] if passes else None for key in PASSES}
            row |= {"solver s": passes.get("solver"), "all s": report["seconds"]}
            row |= {"time per row x": per_row[0] / per_row[1]}
            row |= {"peak MB": f"{report['peak'] / 1e6:.0f}"}
            row |= {"peak x": report["peak"] / first["peak"]}
            rows.append(row | {"peak : files": report["peak"] / report["bytes"]})
    return rows


def constants_table(data, reports):
    """Rows of a table of what a row costs, and a part, without and with folds."""
    fits = [reports[name][-1] for name in FITS]
    micros = [{key: of["passes"][key] / of["millions"] for key in PASSES} for of in fits]
    operations = _operations(data)
    sent = [statistics_bytes(N_FEATURES + 1, N_LABELS, n_folds=n, free=True) for n in (0, N_FOLDS)]
    many = [sum(of.values()) * 1e-6 * len(VIEWS) * MANY_ROWS / MANY_WORKERS for of in micros]
    found = {
        **{f"{key}: microseconds per row and view": [of[key] for of in micros] for key in PASSES},
        "statistics: operations per row and view": [operations, None],
        "statistics: operations per second / 1e9": [
            operations / micros[0]["statistics"] / 1e3,
            None,
        ],
        "solver: seconds": [of["passes"]["solver"] for of in fits],
        "peak memory: MB": [f"{of['peak'] / 1e6:.0f}" for of in fits],
        "files: bytes per row and view": [data.n_bytes / data.n_rows / len(VIEWS)] * 2,
        "statistics of a part: MB": [size / 1e6 for size in sent],
        f"passes over {MANY_ROWS:,} rows per view, {MANY_WORKERS} workers: seconds": many,
    }
    return [
        {"constant": name} | dict(zip(FITS, values, strict=True)) for name, values in found.items()
    ]


def _operations(data):
    """Floating-point operations of the statistics pass per row and view, without folds.

    A symmetric product takes d^2 per row; the factor of a label's positives, twice that.
    """
    _, Y = next(data.groups(VIEWS[0]))
    positive, unknown = Y > 0, np.isnan(Y)
    free = unknown[~positive.any(axis=1)].sum() / len(Y)
    products = 1 + (~unknown).sum() / len(Y) + 2 * positive.sum() / len(Y) + free
    d = N_FEATURES + 1
    return products * d**2 + 2 * d * N_LABELS
