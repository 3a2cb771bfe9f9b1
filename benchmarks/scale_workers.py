"""Streamed fits by kind and number of workers, for bench_scale.py."""

from functools import cache

from common import number, progress
from scale_runs import PASSES, in_fresh_process

SCHEDULERS = {
    "1 thread": {"threads": 1}, "2 threads": {"threads": 2}, "2 processes": {"processes": 2},
}  # fmt: skip


@cache
def measure_workers(data):
    """Report of a fit with each kind of workers."""
    reports = {}
    for name, options in SCHEDULERS.items():
        progress(f"{data.n_rows:,} rows: {name}")
        reports[name] = in_fresh_process("fit", data, **options, with_empty_parts=True)
    return reports


def workers_table(reports):
    """Header and rows of a table of seconds and speed-up."""
    names = [*PASSES, "solver"]
    header = ["workers", *(f"{name} s" for name in names), "all s", "passes: speed-up",
              "all: speed-up", "empty part ms"]  # fmt: skip
    first, rows = reports["1 thread"], []
    for name, report in reports.items():
        passes = [sum(of["passes"][key] for key in PASSES) for of in (first, report)]
        rows.append([
            name, *(number(report["passes"][key]) for key in names), number(report["seconds"]),
            number(passes[0] / passes[1]), number(first["seconds"] / report["seconds"]),
            number(1e3 * report["empty_part"]),
        ])  # fmt: skip
    return header, rows


def small_table(sets):
    """Header and rows of a table of fits in chunks relative to those in memory."""
    rows = []
    for data in sets:
        memory = in_fresh_process("in_memory", data)["seconds"]
        ratios = [number(report["seconds"] / memory) for report in measure_workers(data).values()]
        rows.append([f"{data.n_rows:,}", number(memory), *ratios])
    return ["rows per view", "in memory s", *(f"{name} x" for name in SCHEDULERS)], rows
