"""Streamed fits by kind and number of workers, for bench_scale.py."""

from functools import cache

from common import progress
from scale_runs import PASSES, in_fresh_process

SCHEDULERS = {"1 thread": {"threads": 1}, "2 threads": {"threads": 2}}
SCHEDULERS |= {"2 processes": {"processes": 2}}


@cache
def measure_workers(data):
    """Report of a fit with each kind of workers."""
    reports = {}
    for name, options in SCHEDULERS.items():
        progress(f"{data.n_rows:,} rows: {name}")
        reports[name] = in_fresh_process("fit", data, **options, empty=True)
    return reports


def workers_table(reports):
    """Rows of a table of seconds and speed-up."""
    first, rows = reports["1 thread"], []
    for name, report in reports.items():
        before, after = (sum(of["passes"][key] for key in PASSES) for of in (first, report))
        row = {"workers": name}
        row |= {f"{key} s": report["passes"][key] for key in (*PASSES, "solver")}
        row |= {"all s": report["seconds"], "passes: speed-up": before / after}
        row |= {"all: speed-up": first["seconds"] / report["seconds"]}
        rows.append(row | {"empty part ms": 1e3 * report["empty_part"]})
    return rows


def small_table(sets):
    """Rows of a table of fits in chunks relative to those in memory."""
    rows = []
    for data in sets:
        memory = in_fresh_process("in_memory", data)["seconds"]
        times = {name: report["seconds"] for name, report in measure_workers(data).items()}
        row = {"rows per view": data.n_rows, "in memory s": memory}
        rows.append(row | {f"{name} x": seconds / memory for name, seconds in times.items()})
    return rows
