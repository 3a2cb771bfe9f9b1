"""How long the sub-gradient UV' of the trace norm takes, by Algorithm 2 and by decompositions."""

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from naim3l.extend import trace_norm_subgradient
from naim3l_bench.arrays import Matrix

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
        "seconds" (median of the repeats) and "times"; or "impossible" with the reason. BLAS has
        one thread: NumPy and SciPy bring one each, and where both have several, the idle threads
        of one hold up the other.
    """
    rows, columns, name = settings["rows"], settings["columns"], settings["method"]
    if name == "SVD full":
        reason = why_not_full(rows)
        if reason:
            return {"impossible": reason}
    A = np.random.default_rng(settings["seed"]).standard_normal((rows, columns))
    with threadpool_limits(1, "blas"):
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
    """Seconds of each of some calls; if they are more than one, after one that warms up."""
    if repeats > 1:
        function()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return times
