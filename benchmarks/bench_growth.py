"""Growth with the number of rows: time of the pass and of an iteration, and peak memory.

    python benchmarks/bench_growth.py

Four views, each with a quarter of the rows, of 50 features; 38 labels, half of them unknown. The
pass computes `RowStatistics` of chunks of 100,000 rows and combines them. Peak memory is the
growth of a fresh process (its largest resident size, without libraries and a tiny warm-up) as a
multiple of the input: float64 features and int8 labels. It is measured in two modes,
"chunked" (a chunk is drawn, used and discarded) and "in memory" (all rows are held), and on request
in a third mode, "problem", which uses `Problem` as the estimator does. Drawing rows is not timed.
The iteration is that of solver "fast" on the statistics, after the pass of mode "chunked". BLAS has
one thread, as in the solver.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from common import peak_bytes, print_machine, print_table, progress, timed_solve
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import RowStatistics
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective

N_VIEWS, N_FEATURES, N_LABELS, N_LATENT = 4, 50, 38, 20
LABELS_PER_ROW, LAM = 4.7, 0.6
CHUNK = 100_000
MODES = ("chunked", "in memory", "problem")


@dataclass
class Rows:
    """Rows of all views, drawn chunk by chunk, the same each time.

    Label frequencies are equal, or decrease as 1 / (k + 1): few common labels, many rare ones.
    """

    n_rows: int
    equal: bool

    def __post_init__(self):
        rng = np.random.default_rng(0)
        self.B = rng.standard_normal((N_VIEWS, N_LATENT, N_FEATURES))
        C = rng.standard_normal((N_LATENT, N_LABELS))
        self.C = C / np.linalg.norm(C, axis=0)  # scores are standard normal
        share = np.ones(N_LABELS) if self.equal else 1 / np.arange(1, N_LABELS + 1)
        # Capped, so unequal frequencies add up to slightly less than LABELS_PER_ROW.
        self.shift = ndtri(np.minimum(0.5, LABELS_PER_ROW * share / share.sum()))
        self.n_view = self.n_rows // N_VIEWS

    def chunks(self, view):
        """Features with a column of ones, and labels 1, -1, 0 = unknown."""
        for start in range(0, self.n_view, CHUNK):
            rng = np.random.default_rng((1, view, start))
            n = min(CHUNK, self.n_view - start)
            Z = rng.standard_normal((n, N_LATENT))
            X = np.ones((n, N_FEATURES + 1))
            X[:, :-1] = Z @ self.B[view] + rng.standard_normal((n, N_FEATURES))
            X[:, :-1] /= np.linalg.norm(X[:, :-1], axis=1, keepdims=True)
            Y = np.where(Z @ self.C + self.shift > 0, 1, -1).astype(np.int8)
            yield X, Y * rng.integers(2, size=Y.shape, dtype=np.int8)

    def whole(self, view):
        """All chunks in two arrays that are filled one chunk at a time."""
        X = np.empty((self.n_view, N_FEATURES + 1))
        Y = np.empty((self.n_view, N_LABELS), dtype=np.int8)
        for i, (X_part, Y_part) in enumerate(self.chunks(view)):
            X[i * CHUNK : (i + 1) * CHUNK], Y[i * CHUNK : (i + 1) * CHUNK] = X_part, Y_part
        return X, Y

    @property
    def n_bytes(self):
        return N_VIEWS * self.n_view * (8 * N_FEATURES + N_LABELS)


def timed_pass(views):
    """Statistics of views given as chunks, and seconds without those of drawing rows."""
    seconds, parts = 0.0, []
    for chunks in views:
        total = None
        for X, Y in chunks:
            start = perf_counter()
            part = RowStatistics.of(X, Y)
            total = part if total is None else total.combine(part)
            seconds += perf_counter() - start
        parts.append(total.view())
    return StatisticsProblem(parts, fit_intercept=True), seconds


def run_pass(rows, mode):
    """Statistics and seconds of the pass, with the rows held as the mode says."""
    if mode == "chunked":
        return timed_pass(rows.chunks(view) for view in range(N_VIEWS))
    held = [rows.whole(view) for view in range(N_VIEWS)]
    if mode == "in memory":
        return timed_pass(_slices(X, Y) for X, Y in held)
    start = perf_counter()
    problem = Problem([X[:, :-1] for X, _ in held], [Y for _, Y in held])
    return StatisticsProblem.of(problem), perf_counter() - start


def _slices(X, Y):
    for start in range(0, len(X), CHUNK):
        yield X[start : start + CHUNK], Y[start : start + CHUNK]


@threadpool_limits.wrap(limits=1, user_api="blas")  # as solver "fast" itself does
def measure(n_rows, mode, equal):
    """Measurements of one size, made in a fresh process."""
    warm = Objective(run_pass(Rows(400, equal), mode)[0], LAM)
    timed_solve(solve_fast, warm, tol=0, max_iter=3)
    rows = Rows(n_rows, equal)
    before = peak_bytes()
    problem, seconds = run_pass(rows, mode)
    report = {"peak": peak_bytes() - before, "input": rows.n_bytes, "pass": seconds}
    if mode == "chunked":
        repeats = [run_pass(rows, mode)[1] for _ in range(2 if n_rows <= 500_000 else 0)]
        report["pass"] = statistics.median([seconds, *repeats])
        # Repeated iterations from the same start, so that all sizes do the same work.
        watches = [
            timed_solve(solve_fast, Objective(problem, LAM), tol=0, max_iter=15)[1]
            for _ in range(10)
        ]
        report["iteration"] = statistics.median(watch.iteration for watch in watches)
        report["block_rows"] = problem.n_positives
    return report


def in_fresh_process(n_rows, mode, equal):
    command = [sys.executable, __file__, "--child", str(n_rows), mode]
    command += ["--equal"] if equal else []
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def print_times(sizes, reports):
    rows, before = [], None
    for n, report in zip(sizes, reports, strict=True):
        now = {"rows x": n, "pass x": report["pass"], "iteration x": report["iteration"]}
        grown = {name: before and value / before[name] for name, value in now.items()}
        before, ratio = now, report["pass"] / report["iteration"]
        row = {"rows": n} | grown | {"pass:iteration": ratio}
        row |= {"rows of factors": report["block_rows"]}
        rows.append(row | {"pass s": report["pass"], "iteration s": report["iteration"]})
    most = N_VIEWS * N_LABELS * (N_FEATURES + 1)
    print_table(
        "Growth of the rows, the pass and the iteration from one size to the next, and time of the "
        f"pass in iterations.\nThe iteration works on the labels' factors, which stop growing at "
        f"{most:,} rows in total, when every label\nhas more positives in every view than the view "
        "has columns.",
        rows,
    )


def print_memory(sizes, modes, reports):
    rows = []
    for i, n in enumerate(sizes):
        peaks = {mode: reports[mode][i]["peak"] for mode in modes}
        size = reports[modes[0]][i]["input"]
        row = {"rows": n} | {mode: peak / size for mode, peak in peaks.items()}
        row |= {"input MB": f"{size / 1e6:.0f}"}
        rows.append(row | {f"{mode} MB": f"{peak / 1e6:.0f}" for mode, peak in peaks.items()})
    print_table(
        "Peak memory of the pass as a multiple of the input, including rows that are held in "
        "memory.\nThe buffers of the pass have a constant size, so small inputs have large ratios.",
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="not used: all rows are generated")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--sizes", nargs="+", type=int, help="total numbers of rows")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["chunked", "in memory"])
    parser.add_argument("--equal", action="store_true", help="all labels equally frequent")
    parser.add_argument("--child", nargs=2, metavar=("ROWS", "MODE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        n_rows, mode = arguments.child
        print(json.dumps(measure(int(n_rows), mode, arguments.equal)))
        return
    sizes = [5_000, 50_000, 500_000, 5_000_000]
    sizes = arguments.sizes or ([2_000, 20_000] if arguments.quick else sizes)
    print_machine()
    reports = {mode: [] for mode in dict.fromkeys(["chunked", *arguments.modes])}
    for n_rows in sizes:
        for mode in reports:
            progress(f"{n_rows:,} rows, {mode}")
            reports[mode].append(in_fresh_process(n_rows, mode, arguments.equal))
    print_times(sizes, reports["chunked"])
    print_memory(sizes, list(reports), reports)


if __name__ == "__main__":
    main()
