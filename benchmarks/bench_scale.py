"""Fits to Parquet files that are read in chunks: growth, workers, a rival, and killed workers.

    python benchmarks/bench_scale.py COMMAND

``data`` writes the files: two views with different rows, 50 columns and 20 labels, half of them
unknown. The other commands write those that they need, too; files remain in ``--folder`` and are
used again.

- ``growth``: time per row and peak memory of fits and predictions by number of rows, and the
  constants of the cost model. Every run has a fresh process; memory is its largest resident size,
  less that after a tiny fit.
- ``workers``: the passes with one thread, two threads, and two processes of a cluster, the time of
  a part that has no rows, and small tables compared with fits in memory.
- ``rival``: compared with SGDClassifier.partial_fit on the same files, one thread each.
- ``cost``: processor time of the passes, of a ridge regression in one pass, and of reading alone,
  on the same files: three tables with columns of all kinds, 15 labels, nine in ten unknown.
- ``small-files``: one file, and the same rows in files of 200: planning, tasks, and processor time
  of a fit to one view.
- ``kill``: a worker of a cluster is killed at random moments of the statistics pass. It is an error
  if a bit of the weights then differs.

Needs dask: ``pip install '.[dask]'``.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import common
from common import print_machine, progress
from scale_cost import MixedDataset, measure_cost
from scale_data import VIEWS, Dataset
from scale_growth import constants_table, growth_table, measure_growth
from scale_kill import killed_fits
from scale_rival import compare
from scale_small import measure_small
from scale_workers import measure_workers, small_table, workers_table

SIZES = {
    "data": [1_000_000, 5_000_000, 20_000_000],
    "growth": [1_000_000, 5_000_000, 20_000_000],
    "workers": [1_000_000],
    "rival": [1_000_000],
    "cost": [300_000],
    "small-files": [1_000_000],
    "kill": [200_000],
}
QUICK_ROWS, TEST_ROWS, QUICK_TEST_ROWS = 2_000, 100_000, 1_000
SMALL_SIZES = (1_000, 100_000)  # of which the overhead is compared with fits in memory


def print_data(arguments):
    rows = []
    for data in [*(_dataset(arguments, n) for n in arguments.rows), _test_set(arguments)]:
        row = {"rows of": "test" if data.test else "training", "rows per view": data.n_rows}
        row |= {"GB": data.n_bytes / 1e9}
        rows.append(row | {"bytes per row and view": data.n_bytes / data.n_rows / len(VIEWS)})
    arguments.table(f"Files in {arguments.folder}.", rows)


def print_growth(arguments):
    sets = [_dataset(arguments, n_rows) for n_rows in arguments.rows]
    reports = measure_growth(sets, arguments.threads)
    arguments.table(
        "Seconds per million rows of each pass, seconds of the solver, and time per row and peak "
        "memory relative to\nthose of the smallest size. Rows of all views are counted. Threads: "
        f"{arguments.threads}.",
        growth_table(reports),
    )
    arguments.table(
        "Constants of the cost model, from the largest size of each.",
        constants_table(sets[-1], reports),
    )


def print_workers(arguments):
    for n_rows in arguments.rows:
        data = _dataset(arguments, n_rows)
        arguments.table(
            f"Seconds of a fit to {n_rows:,} rows per view, speed-up, and time of an empty part.",
            workers_table(measure_workers(data)),
        )
    sets = [_dataset(arguments, n_rows) for n_rows in arguments.small]
    arguments.table(
        "Time of a fit in chunks relative to that of reading the files and fitting in memory with "
        "one thread.",
        small_table(sets),
    )


def print_rival(arguments):
    test = _test_set(arguments)
    for n_rows in arguments.rows:
        progress(f"{n_rows:,} rows: naim3l and SGDClassifier")
        results = compare(_dataset(arguments, n_rows), test)
        base, rows = results["naim3l"][0], []
        for name, (seconds, metrics) in results.items():
            row = {"method": name, "s": seconds, "time x": seconds and seconds / base}
            rows.append(row | {metric: f"{value:.3f}" for metric, value in metrics.items()})
        arguments.table(
            f"Fits to {n_rows:,} rows per view, read from files, with one thread; mean metrics of "
            f"both views on {test.n_rows:,} test rows each.",
            rows,
        )


def print_cost(arguments):
    for n_rows in arguments.rows:
        data = MixedDataset(arguments.folder / "mixed", n_rows, arguments.seed).write()
        arguments.table(
            f"Processor time for {n_rows:,} rows in each of {len(data.views)} views. Rows of all "
            "views are counted.",
            measure_cost(data),
        )


def print_small(arguments):
    for n_rows in arguments.rows:
        arguments.table(
            f"A fit to {n_rows:,} rows of one view with one thread, in one file and in many.",
            measure_small(_dataset(arguments, n_rows)),
        )


def print_kill(arguments):
    for n_rows in arguments.rows:
        progress(f"{n_rows:,} rows, {arguments.kills} kills")
        seconds, results = killed_fits(_dataset(arguments, n_rows), arguments.kills)
        rows = [{"pass": "(no kill)", "killed at": "-", "s": seconds, "time x": 1.0}]
        rows[0]["same bits"] = "-"
        for title, share, other, equal in results:
            row = {"pass": title, "killed at": f"{share:.0%}", "s": other}
            rows.append(row | {"time x": other / seconds, "same bits": "yes" if equal else "NO"})
        n_equal = sum(equal for *_, equal in results)
        arguments.table(
            f"Fits to {n_rows:,} rows per view on 2 worker processes, one of which is killed in a "
            f"pass.\nSame bits as the fit without a kill: {n_equal} of {len(results)}.",
            rows,
        )
        if n_equal < arguments.kills:
            sys.exit(f"{n_equal} equal fits after {arguments.kills} kills")


def _dataset(arguments, n_rows):
    return Dataset(arguments.folder, n_rows, arguments.seed).write()


def _test_set(arguments):
    n_rows = QUICK_TEST_ROWS if arguments.quick else TEST_ROWS
    return Dataset(arguments.folder, n_rows, arguments.seed, test=True).write()


COMMANDS = {"data": print_data, "growth": print_growth, "workers": print_workers}
COMMANDS |= {"rival": print_rival, "cost": print_cost, "kill": print_kill}
COMMANDS |= {"small-files": print_small}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--data", help="not used: all rows are generated")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--rows", nargs="+", type=int, help="numbers of rows of each view")
    folder = Path(tempfile.gettempdir(), "naim3l-scale")
    parser.add_argument(
        "--folder", type=Path, default=folder, help="for files; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of growth")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or (
        [QUICK_ROWS] if arguments.quick else SIZES[arguments.command]
    )
    arguments.small = arguments.rows if arguments.quick else SMALL_SIZES
    arguments.table = common.print_markdown if arguments.markdown else common.print_table
    print_machine()
    COMMANDS[arguments.command](arguments)


if __name__ == "__main__":
    main()
