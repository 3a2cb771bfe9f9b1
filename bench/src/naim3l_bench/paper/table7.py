"""Table 7: how long the sub-gradient UV' of the trace norm takes, by Algorithm 2 and otherwise."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.utils.extmath import randomized_svd

from naim3l.extend import trace_norm_subgradient
from naim3l_bench.arrays import Matrix
from naim3l_bench.clock import timed
from naim3l_bench.paper.published import TABLE7_SIZES, table7_seconds
from naim3l_bench.present import Cell, ResultTable
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task

TITLE = "Table 7: time for the sub-gradient of the trace norm"
REFERENCE = "Algorithm 2"
REPEATS = 5
NOTE = (
    "Median CPU time of {repeats} runs (the full SVD: one), one thread, matrices of normal "
    "numbers. Ratios can be compared between computers, seconds cannot. Truncated: the randomised "
    "SVD with all components. The published times of the full SVD decrease as columns are added, "
    "so they are not a target."
)


def tasks(plan: Plan) -> list[Task]:
    return [
        _task(rows, columns, method)
        for rows, columns in _sizes(plan)
        for method in METHODS
        if not (plan.quick and method == "SVD full")
    ]


def _sizes(plan: Plan) -> list[tuple[int, int]]:
    return [size for size in TABLE7_SIZES if not plan.quick or size[0] <= MOST_ROWS]


def _task(rows: int, columns: int, method: str) -> Task:
    repeats = 1 if method == "SVD full" else REPEATS  # it takes as long as all others together
    return Task(
        "subgradient",
        {"rows": rows, "columns": columns, "method": method, "repeats": repeats, "seed": 0},
    )


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Per size: "rows", "columns" and, by method, "seconds" or the reason why "impossible"."""
    results: dict[str, Any] = {}
    for rows, columns in _sizes(plan):
        found = {}
        for method in METHODS:
            record = store.get(_task(rows, columns, method))
            if record is not None:
                key = "impossible" if "impossible" in record else "seconds"
                found[method] = {key: record[key]}
        if found:
            size = {"rows": rows, "columns": columns, "methods": found}
            results[f"{rows} x {columns}"] = size
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    if not numbers:
        return []
    others = [method for method in METHODS if method != REFERENCE]
    reasons = _reasons(numbers)
    note = NOTE.format(repeats=REPEATS) + (f" Not run: {'; '.join(reasons)}." if reasons else "")
    return [
        ResultTable(
            f"Table 7: time as a multiple of that of {REFERENCE}",
            ["size", *_pair_headers(others)],
            [[Cell(size), *_ratio_cells(found, others)] for size, found in numbers.items()],
            note,
        ),
        ResultTable(
            "Table 7: seconds",
            ["size", *_pair_headers(list(METHODS))],
            [[Cell(size), *_second_cells(found)] for size, found in numbers.items()],
            "The published times were measured on the authors' computer.",
        ),
    ]


def _pair_headers(methods: list[str]) -> list[str]:
    return [text for method in methods for text in (method, "published")]


def _ratio_cells(found: dict[str, Any], methods: list[str]) -> list[Cell]:
    cells = []
    for method in methods:
        seconds, references = _both(found, method), _both(found, REFERENCE)
        ours, published = (_ratio(s, r) for s, r in zip(seconds, references, strict=True))
        cells += [Cell(_show(ours, ".1f")), Cell(_show(published, ".1f"), "published")]
    return cells


def _second_cells(found: dict[str, Any]) -> list[Cell]:
    cells = []
    for method in METHODS:
        ours, published = _both(found, method)
        cells += [Cell(_show(ours, ".4f")), Cell(_show(published, ".4f"), "published")]
    return cells


def _both(found: dict[str, Any], method: str) -> tuple[float | None, float | None]:
    """Seconds of ours and of the paper's, None where there are none."""
    ours = found["methods"].get(method, {}).get("seconds")
    return ours, table7_seconds(method, found["rows"], found["columns"])


def _ratio(seconds: float | None, reference: float | None) -> float | None:
    return None if seconds is None or reference is None else seconds / reference


def _show(value: float | None, digits: str) -> str:
    return "–" if value is None else f"{value:{digits}}"


def _reasons(numbers: dict[str, Any]) -> list[str]:
    """Why some methods were not run, once each."""
    found = [
        f"{method}, {outcome['impossible']}"
        for size in numbers.values()
        for method, outcome in size["methods"].items()
        if "impossible" in outcome
    ]
    return list(dict.fromkeys(found))


# A full SVD has as many columns of U as A has rows.
MOST_BYTES = 4 * 2**30
# Above this many rows, a full SVD takes minutes.
MOST_ROWS = 10_000


def svd_full(A: Matrix) -> Matrix:
    # SciPy's, whose U is the n x n array that LAPACK fills; NumPy's makes a second one.
    U, _, Vt = linalg.svd(A, full_matrices=True)
    return U[:, : A.shape[1]] @ Vt


def svd_economy(A: Matrix) -> Matrix:
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    return U @ Vt


def svd_truncated(A: Matrix) -> Matrix:
    """UV' by the randomised SVD with as many components as there are columns.

    The paper cuts its SVD at the rank of A, which is that number; Lanczos methods cannot return
    so many triplets in reasonable time. Power iterations would gain nothing: r random combinations
    of r columns span the range.
    """
    U, _, Vt = randomized_svd(
        A, A.shape[1], n_oversamples=0, n_iter=0, flip_sign=False, random_state=0
    )
    return U @ Vt


# Names of published.TABLE7, in its order.
METHODS: dict[str, Callable[[Matrix], Matrix]] = {
    "SVD full": svd_full,
    "SVD economy": svd_economy,
    "SVD truncated": svd_truncated,
    "Algorithm 2": trace_norm_subgradient,
}


def compute(sources: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Outcome of a task of kind "subgradient".

    Parameters
    ----------
    sources : mapping
        Not used: the matrix is random.
    settings : mapping
        "rows", "columns", "method" (a key of `METHODS`), "repeats" and "seed".

    Returns
    -------
    dict
        "seconds" (median of the repeats) and "times"; or "impossible" with the reason.
    """
    rows, columns, name = settings["rows"], settings["columns"], settings["method"]
    if name == "SVD full":
        reason = why_not_full(rows)
        if reason:
            return {"impossible": reason}
    A = np.random.default_rng(settings["seed"]).standard_normal((rows, columns))
    times = measure(lambda: METHODS[name](A), settings["repeats"])
    return {"seconds": statistics.median(times), "times": times}


def why_not_full(rows: int) -> str | None:
    """Reason not to take the full SVD of a matrix of so many rows; None where there is none."""
    n_bytes = 8 * rows**2
    if n_bytes > MOST_BYTES:
        return f"memory: U of {rows} x {rows} needs {n_bytes / 2**30:.0f} GiB"
    if rows > MOST_ROWS:
        return f"time: with {rows} rows it takes minutes"
    return None


def measure(function: Callable[[], Any], repeats: int) -> list[float]:
    """CPU seconds of each of some calls; if they are more than one, after one that warms up."""
    if repeats > 1:
        function()
    return [timed(function)[1] for _ in range(repeats)]
