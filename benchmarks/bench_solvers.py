"""Times of oracle, "paper" and "fast" per iteration and to the solution, and convergence.

    python benchmarks/bench_solvers.py --data DATA

The oracle is a naive implementation of Algorithm 1 (tests/oracle.py), "paper" is the same algorithm
in the library, on rows, and "fast" is the library's own solver. The time of a fit with "fast"
includes the pass over the rows, the factorisation and the iterations to the default tolerance.
Algorithm 1 gets 200 iterations; they are timed if they take less than --paper-seconds, otherwise
extrapolated from a few and marked as such. Reading data and transforming features are not timed.
The oracle uses the threads of BLAS; the library distributes labels over as many threads.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np
from common import Case, make_cases, print_machine, print_table, progress, timed_solve

from naim3l import evaluate
from naim3l.problem.rows import Problem
from naim3l.solvers import SolverResult, solve_fast, solve_paper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import oracle

PAPER_ITERATIONS = 200
METRICS = ("1-HL", "1-RL", "AP", "AUC")
NAMES = ("yeast", "corel5k-4", "corel5k-6", "mirflickr-sized", "espgame-sized")


@dataclass
class Outcome:
    """Seconds and results of one case."""

    case: Case
    fit: float = 0.0
    setup: float = 0.0
    fast_iteration: float = 0.0
    paper_iteration: float = 0.0
    paper_total: float = 0.0
    paper_note: str = ""
    oracle_iteration: float | None = None
    oracle_objective: float | None = None
    default: SolverResult | None = None
    long: SolverResult | None = None
    lowest: dict[str, float] = field(default_factory=dict)  # objective by method

    @property
    def oracle_with_objective(self):
        return self.oracle_iteration and self.oracle_iteration + self.oracle_objective


def run_fast(outcome, arguments):
    """Complete fits at the default tolerance, and a long run as reference."""
    case = outcome.case
    timed_solve(solve_fast, case.objective(), max_iter=2)  # warms up
    runs = []
    for _ in range(arguments.repeats):
        objective = case.objective()
        runs.append(timed_solve(solve_fast, objective))
    outcome.default = runs[0][0]
    outcome.fit = statistics.median(seconds for _, _, seconds in runs)
    outcome.fast_iteration = statistics.median(watch.iteration for _, watch, _ in runs)
    outcome.setup = statistics.median(watch.setup for _, watch, _ in runs)
    outcome.lowest["fast"] = _lowest(outcome.default)
    progress(f"  fast: {outcome.default.n_iter} iterations, {outcome.fit:.3g} s")

    starts = {"fast, long": None}
    if case.X_test is not None:
        # The objective is not convex: another start may end lower.
        starts["fast, long, random start"] = case.random_start()
    for name, W in starts.items():
        result, _, seconds = timed_solve(
            solve_fast, case.objective(), W, arguments.long_seconds, tol=1e-6, max_iter=300
        )
        outcome.lowest[name] = _lowest(result)
        progress(f"  {name}: {result.n_iter} iterations, {seconds:.3g} s, {_state(result)}")
        if W is None:
            outcome.long = result


def run_paper(outcome, arguments):
    """All iterations of Algorithm 1 if time allows, otherwise linear extrapolation from a few."""
    case, W = outcome.case, outcome.case.random_start()
    timed_solve(solve_paper, case.objective(), W, max_iter=2, tol=0)
    options = {"max_iter": arguments.paper_iterations, "tol": 0}
    result, watch, _ = timed_solve(solve_paper, case.objective(), W, **options)
    total = watch.setup + PAPER_ITERATIONS * watch.iteration
    outcome.paper_note = f"from {result.n_iter}"
    if total <= arguments.paper_seconds:
        options["max_iter"] = PAPER_ITERATIONS
        try:
            result, watch, total = timed_solve(solve_paper, case.objective(), W, **options)
            outcome.paper_note = "timed"
        except FloatingPointError:
            outcome.paper_note += ", diverges"
    outcome.paper_iteration, outcome.paper_total = watch.iteration, total
    outcome.lowest["paper"] = _lowest(result)
    progress(f"  paper: {watch.iteration:.3g} s an iteration, {outcome.paper_note}")


def run_oracle(outcome, n_timed):
    case, W = outcome.case, outcome.case.random_start()
    iterates = oracle.iterate(case.features, case.labels, W, lam=case.lam)
    next(iterates)  # builds its matrices
    start = perf_counter()
    *_, (W, _, _) = islice(iterates, n_timed)
    outcome.oracle_iteration = (perf_counter() - start) / n_timed
    start = perf_counter()
    outcome.lowest["oracle"] = oracle.objective(case.features, case.labels, W, lam=case.lam)
    outcome.oracle_objective = perf_counter() - start
    progress(f"  oracle: {outcome.oracle_iteration:.3g} s an iteration")


def _lowest(result):
    return min(record["objective"] for record in result.history)


def _state(result):
    cut = ", stopped by the time limit" if result.interrupted else ""
    return f"{'converged' if result.converged else 'not converged'}{cut}"


def _ratio(above, below):
    return None if above is None or not below else above / below


def print_iterations(outcomes):
    rows = []
    for o in outcomes:
        seconds = {"oracle": o.oracle_iteration, "oracle+": o.oracle_with_objective}
        seconds |= {"paper": o.paper_iteration, "fast": o.fast_iteration}
        pairs = ("oracle:paper", "oracle+:paper", "paper:fast", "oracle:fast")
        ratios = {pair: _ratio(*(seconds[name] for name in pair.split(":"))) for pair in pairs}
        times = {f"{name} s": value for name, value in seconds.items()}
        rows.append({"case": o.case.name} | ratios | times)
    print_table(
        "Time of one iteration; oracle: without the objective, oracle+: with it (the others always "
        "evaluate it).\nA dash means that the oracle, which visits the rows of a dense X one by "
        "one, was not run (--oracle).",
        rows,
    )


def print_solutions(outcomes):
    rows = []
    for o in outcomes:
        oracle_total = o.oracle_iteration and PAPER_ITERATIONS * o.oracle_iteration
        row = {
            "case": o.case.name,
            "oracle:fast": _ratio(oracle_total, o.fit),
            "paper:fast": _ratio(o.paper_total, o.fit),
            "paper is": o.paper_note,
            "fit in oracle its": _ratio(o.fit, o.oracle_iteration),
            "in oracle+ its": _ratio(o.fit, o.oracle_with_objective),
            "set-up": f"{100 * o.setup / o.fit:.0f} %",
        }
        rows.append(row | {"paper s": o.paper_total, "fast fit s": o.fit})
    print_table(
        f"Time to the solution: {PAPER_ITERATIONS} iterations of the oracle (extrapolated) and of "
        "paper (timed, or extrapolated from the\nnumber shown) relative to a complete fit of fast; "
        "that fit in iterations of the oracle, without and with (+) its\nobjective; set-up (pass, "
        "factorisation, start) as a share of the fit.",
        rows,
    )


def print_convergence(outcomes):
    rows = []
    for o in outcomes:
        best = min(o.lowest, key=o.lowest.get)
        history = o.default.history
        gap = 100 * (history[-1]["objective"] - o.lowest[best]) / abs(o.lowest[best])
        row = {
            "case": o.case.name,
            "its": o.default.n_iter,
            "converged": "yes" if o.default.converged else "no",
            "stationarity": f"{o.default.stationarity:.1e}",
            "gap %": f"{gap:.5f}",
            "first < 1e-4": next(
                (i for i, record in enumerate(history, 1) if record["stationarity"] < 1e-4), None
            ),
            "lowest by": best,
        }
        rows.append(row | {"long run": f"{o.long.n_iter}, {_state(o.long)}"})
    print_table(
        "Convergence of fast: iterations of the default fit, its gap in percent of the lowest "
        "objective found by any method\nin this run, first iteration with stationarity below 1e-4, "
        "and the long run (tol 1e-6, at most 300 iterations).",
        rows,
    )


def print_metrics(outcomes):
    rows = []
    for o in outcomes:
        if o.case.X_test is None:
            continue
        default, long = (_metrics(o.case, result.W) for result in (o.default, o.long))
        found = {"default": default, "long": long, "difference": default - long}
        for name, values in found.items():
            shown = {metric: f"{x:.3f}" for metric, x in zip(METRICS, values, strict=True)}
            rows.append({"case": o.case.name, "fit": name} | shown)
    if rows:
        print_table("Test metrics in points (100 = perfect).", rows)


def _metrics(case, W):
    coefficients, intercepts = Problem(case.features, case.labels).split_weights(W)
    scores = {
        view: X @ C + b
        for (view, X), C, b in zip(case.X_test.items(), coefficients, intercepts, strict=True)
    }
    result = evaluate(case.Y_test, scores)
    return np.array([100 * result[name] for name in METRICS])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with real datasets; without it they are left out")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--cases", nargs="+", choices=NAMES, help="run only these cases")
    parser.add_argument("--oracle", nargs="*", choices=NAMES, default=["yeast", "corel5k-4"])
    parser.add_argument("--repeats", type=int, default=3, help="fits of fast; the median is shown")
    parser.add_argument("--paper-iterations", type=int, default=8, help="timed iterations of paper")
    parser.add_argument("--paper-seconds", type=float, default=60, help="limit of all 200 of them")
    parser.add_argument("--long-seconds", type=float, default=600, help="limit of the long runs")
    arguments = parser.parse_args()
    print_machine()
    outcomes = []
    for case in make_cases(arguments.data, arguments.quick, arguments.cases):
        outcomes.append(Outcome(case))
        run_fast(outcomes[-1], arguments)
        run_paper(outcomes[-1], arguments)
        if case.name in arguments.oracle:
            run_oracle(outcomes[-1], n_timed=3)
    if outcomes:
        for show in (print_iterations, print_solutions, print_convergence, print_metrics):
            show(outcomes)


if __name__ == "__main__":
    main()
