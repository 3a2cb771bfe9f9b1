"""Shared by the benchmarks: problems to solve, a stopwatch for solvers, and plain tables."""

import math
import platform
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_info

from naim3l import Recipe
from naim3l.datasets import load_yeast, make_unpaired
from naim3l.problem.rows import Problem
from naim3l.solvers.objective import Objective
from naim3l_bench.challenge import make_challenge

QUICK_ROWS = 400
# Generated data: number of latent factors, and enough noise for features of full rank.
N_LATENT, NOISE = 20, 0.3


@dataclass(frozen=True)
class Case:
    """A named problem: transformed training features and signed labels, one array per view."""

    name: str
    lam: float
    features: list
    labels: list
    X_test: dict | None = None  # transformed
    Y_test: dict | None = None

    def objective(self):
        """Objective on a new problem, in which nothing is cached yet."""
        return Objective(Problem(self.features, self.labels), self.lam)

    def random_start(self):
        """Start weights for solver "paper"."""
        shape = (sum(X.shape[1] + 1 for X in self.features), self.labels[0].shape[1])
        return np.random.default_rng(0).uniform(-1, 1, shape)


def make_cases(data: str | None, quick: bool, names: list[str] | None = None) -> Iterator[Case]:
    """Cases by name, one at a time; those on real files only if their folder is given."""
    makers = {
        "yeast": lambda: _real_case("yeast", load_yeast(), quick),
        "corel5k-4": lambda: _corel5k(data, quick, six=False),
        "corel5k-6": lambda: _corel5k(data, quick, six=True),
        "mirflickr-sized": lambda: _generated("mirflickr-sized", 25_000, 38, 0.6, quick),
        "espgame-sized": lambda: _generated(
            "espgame-sized", 20_770, 268, 0.2, quick, top_share=0.25
        ),
    }
    for name, make in makers.items():
        if names and name not in names:
            continue
        if name.startswith("corel5k") and data is None:
            progress(f"{name}: left out, it needs --data")
            continue
        progress(f"{name}: preparing")
        yield make()


def _corel5k(data, quick, six):
    from naim3l_bench.datasets import open_npz

    files = ["corel5k_lear4.npz", *(["corel5k_recomputed_gist_hsv.npz"] if six else [])]
    tables = open_npz(*(Path(data) / name for name in files))
    return _real_case("corel5k-6" if six else "corel5k-4", tables, quick)


def _real_case(name, data, quick):
    """The paper's protocol: half of views and labels hidden, rows shuffled; lam 0.4, seed 0."""
    views, labels = data.views, data.labels
    if quick:
        views = {view: X[:QUICK_ROWS] for view, X in views.items()}
        labels = labels[:QUICK_ROWS]
        labels = labels[:, labels.sum(axis=0) >= 10]
    # First positives stay in all views, so with two views slightly less than half can be removed.
    alpha = 0.5 if len(views) > 2 else 0.45 if quick else 0.497
    plan = make_challenge(labels, len(views), alpha=alpha, beta=0.5, random_state=0)
    trial = plan.apply(views, labels)
    features, X_test = [], {}
    for view, X in trial.X_train.items():
        fitted, of_rows = Recipe("paper").fit(X.astype(float))
        features.append(of_rows)
        X_test[view] = fitted.apply(trial.X_test[view].astype(float))
    signed = [_signed(Y) for Y in trial.Y_train.values()]
    return Case(name, 0.4, features, signed, X_test, trial.Y_test)


def _generated(name, n_samples, n_labels, lam, quick, *, top_share=None):
    """Six views of 50 features with half of the samples each; half of the labels are unknown.

    Rows of different views are not matched, so each view is drawn on its own. ``top_share`` is the
    share of the rows that have the most frequent label, see `label_shares`; by default frequencies
    are those of `make_unpaired`.
    """
    n_rows = QUICK_ROWS if quick else n_samples // 2
    n_labels = min(n_labels, 20) if quick else n_labels
    drawn = {"n_latent": N_LATENT, "labels_per_row": 4.7, "noise": NOISE, "missing_labels": 0.5}
    made = make_unpaired(n_rows, n_features=(50,) * 6, n_labels=n_labels, **drawn, random_state=0)
    features = [Recipe("paper").fit(X)[1] for X in made.views.values()]
    labels = list(made.labels.values())
    if top_share is not None:
        shares = label_shares(n_labels, min(4.7, n_labels / 8), top_share, 30 / (2 * n_rows))
        stacked = np.concatenate(list(made.scores.values()))
        cuts = [np.quantile(of, 1 - share) for of, share in zip(stacked.T, shares, strict=True)]
        hidden = np.random.default_rng(0).random(stacked.shape) < drawn["missing_labels"]
        labels = np.split(np.where(hidden, np.nan, stacked > cuts), len(labels))
    return Case(name, lam, features, [_signed(Y) for Y in labels])


def label_shares(n_labels, labels_per_row, top, least):
    """Shares of the rows with each label, from ``top`` to ``least``, which sum to the mean."""
    position = np.linspace(0, 1, n_labels)

    def shares(power):
        return top * (least / top) ** (position**power)

    return shares(brentq(lambda power: shares(power).sum() - labels_per_row, 1e-3, 1e3))


def _signed(Y):
    return np.where(np.isnan(Y), 0, 2 * Y - 1)


class Stopwatch:
    """Callback of a solver that records when each iteration ends.

    After ``limit`` seconds it ends the loop like Ctrl-C, which solvers handle.
    """

    def __init__(self, limit: float = float("inf")):
        self.limit, self.expired = limit, False
        self.times: list[float] = []
        self.start = perf_counter()

    def __call__(self, record, W):
        self.times.append(perf_counter() - self.start)
        if self.times[-1] > self.limit:
            self.expired = True
            raise KeyboardInterrupt

    @property
    def iteration(self) -> float:
        """Median seconds of an iteration, without the first, which includes the set-up."""
        return statistics.median(np.diff(self.times)) if len(self.times) > 1 else self.times[0]

    @property
    def setup(self) -> float:
        """Seconds before the first iteration: pass over the rows, factorisation, start."""
        return max(0.0, self.times[0] - self.iteration)


def timed_solve(solver, objective, W=None, limit=float("inf"), **options):
    """Result of a solver, its stopwatch, and the seconds of the whole call."""
    watch = Stopwatch(limit)
    result = solver(objective, W, callback=watch, **options)
    seconds = perf_counter() - watch.start
    if result.interrupted and not watch.expired:
        raise KeyboardInterrupt  # by the user
    return result, watch, seconds


def median_seconds(function, repeats: int) -> float:
    """Median seconds of several calls, after a warm-up call."""
    function()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return statistics.median(times)


def peak_bytes() -> int:
    """Largest resident size of this process so far."""
    if sys.platform == "linux":  # where the peak of getrusage starts at that of the parent
        status = Path("/proc/self/status").read_text()
        return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0])
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def print_markdown(title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table as Markdown, with cells and alignment as in `print_table`."""
    header, *cells = _cells(rows)
    print(f"\n{title}\n")
    for row in (header, [":--", *["--:"] * (len(header) - 1)], *cells):
        print(f"| {' | '.join(row)} |")
    sys.stdout.flush()


def print_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows, whose keys are the header, in columns; all but the first are right-aligned.

    Floats have significant digits, whole numbers commas, and None is a dash.
    """
    header, *cells = _cells(rows)
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    print(f"\n{title}")
    for row in (header, ["-" * width for width in widths], *cells):
        first, *others = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
    sys.stdout.flush()


def _cells(rows):
    return [list(rows[0]), *([_cell(row[name]) for name in rows[0]] for row in rows)]


def _cell(value):
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else number(value)


def number(value: float | None, digits: int = 3) -> str:
    """Number with significant digits, and an exponent only if very small; a dash for None."""
    if value is None:
        return "-"
    if value == 0 or abs(value) < 1e-4:
        return f"{value:.1e}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, decimals)}f}"


def progress(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def print_machine() -> None:
    blas = [info for info in threadpool_info() if info["user_api"] == "blas"]
    shown = ", ".join(f"{info['internal_api']} {info['num_threads']} threads" for info in blas)
    print(f"{platform.machine()} {platform.system()}, NumPy {np.__version__}, BLAS: {shown}")
    print("Ratios compare times of this run on this machine; seconds are for information only.")
    sys.stdout.flush()
