"""Algorithm 2 compared with other methods for the sub-gradient UV' of the trace norm.

    python benchmarks/bench_subgradient.py

The matrices are random and have the nine sizes of the paper's Table 7. The ratios are shown next to
those that follow from the times printed there (MATLAB on the authors' computer).

In the paper, "truncated" is an SVD cut off at the rank r of the matrix, which here is the number of
columns. Lanczos methods cannot return that many triplets in reasonable time, so this script uses
the randomised SVD of scikit-learn with r components, which is common today. It needs no power
iterations at full rank, because r random combinations of r columns span the range.

UV' is also the orthogonal polar factor. "QR, SVD of R" and "Cholesky-QR, SVD of R" decompose a
triangular matrix instead of the rows; "Gram, Newton-Schulz" computes the inverse root of A'A by
products alone; "scipy polar" is SciPy's own function. Methods that form A'A, as Algorithm 2 does,
lose digits where A is ill-conditioned; the last table shows how many.

BLAS has one thread unless specified otherwise. NumPy and SciPy each have their own BLAS, and if
both have several threads, the idle threads of one slow down the other, so that methods which use
both would seem slow.
"""

import argparse
from time import perf_counter

import numpy as np
from common import median_seconds, print_machine, print_table, progress
from scipy import linalg
from threadpoolctl import threadpool_limits

from naim3l.solvers.nuclear import trace_norm_subgradient
from naim3l_bench.paper.published import TABLE7, TABLE7_SIZES, table7_seconds
from naim3l_bench.paper.table7 import svd_economy, svd_full, svd_truncated


def qr(A):
    Q, R = np.linalg.qr(A)
    return Q @ svd_economy(R)


def cholesky_qr(A):
    """``Q = A R^-1`` is not formed: ``R^-1`` is applied to the small factor instead."""
    R = np.linalg.cholesky(A.T @ A).T
    return A @ np.linalg.solve(R, svd_economy(R))


def newton_schulz(A):
    """``A K^-1/2`` with ``K = A'A``, by the coupled iteration for a root and its inverse."""
    K = A.T @ A
    identity = np.eye(len(K))
    # Eigenvalues in (0, 1]; the bound is the largest row sum.
    scale = np.abs(K).sum(axis=1).max()
    root, inverse = K / scale, identity
    for _ in range(100):
        T = 1.5 * identity - 0.5 * inverse @ root
        root, inverse = root @ T, T @ inverse
        if np.abs(T - identity).max() < 1e-8:  # the step just made has squared it
            break
    return A @ (inverse / np.sqrt(scale))


def scipy_polar(A):
    return linalg.polar(A)[0]


BASE = "Algorithm 2"
METHODS = {
    BASE: trace_norm_subgradient,
    "SVD full": svd_full,
    "SVD economy": svd_economy,
    "SVD truncated": svd_truncated,
    "QR, SVD of R": qr,
    "Cholesky-QR, SVD of R": cholesky_qr,
    "Gram, Newton-Schulz": newton_schulz,
    "scipy polar": scipy_polar,
}


def relative_error(G, exact):
    return float(np.linalg.norm(G - exact) / np.linalg.norm(exact))


def measure(shape, repeats, full_gigabytes):
    """Seconds of every method and its error relative to the economy SVD, by name."""
    A = np.random.default_rng(0).standard_normal(shape)
    exact = svd_economy(A)
    outcome = {}
    for name, method in METHODS.items():
        if method is not svd_full:
            seconds = median_seconds(lambda method=method: method(A), repeats)
            outcome[name] = seconds, relative_error(method(A), exact)
        elif 8 * shape[0] ** 2 <= 1e9 * full_gigabytes:
            start = perf_counter()  # only once: it takes as long as all others together
            G = svd_full(A)
            outcome[name] = perf_counter() - start, relative_error(G, exact)
        else:
            outcome[name] = None
    return outcome


def ratio_table(sizes, outcomes):
    rows = []
    for name in METHODS:
        rows.append(_row(name, sizes, [o[name] and o[name][0] / o[BASE][0] for o in outcomes]))
        if name in TABLE7:
            pairs = [(table7_seconds(name, *size), table7_seconds(BASE, *size)) for size in sizes]
            rows.append(_row("  in the paper", sizes, [a and a / b for a, b in pairs]))
    rows.append(_row(f"{BASE}, seconds", sizes, [o[BASE][0] for o in outcomes]))
    title = f"Time as a multiple of that of {BASE}. A dash: too large for memory (--full-gb)."
    print_table(title, rows)


def error_table(sizes, outcomes):
    rows = [
        _row(name, sizes, [o[name] and f"{o[name][1]:.0e}" for o in outcomes]) for name in METHODS
    ]
    print_table("Relative error compared with the economy SVD.", rows)


def _row(name, sizes, values):
    return {"": name} | {f"{n}x{d}": v for (n, d), v in zip(sizes, values, strict=True)}


def condition_table(shape, conditions=(1e2, 1e4, 1e6)):
    """Errors on matrices whose singular vectors are known exactly."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, shape[1])))[0] for n in shape)
    rows = []
    for name, method in METHODS.items():
        if method is not svd_full:
            row = {"": name}
            for condition in conditions:
                s = np.geomspace(1, 1 / condition, shape[1])
                error = relative_error(method(U * s @ V.T), U @ V.T)
                row[f"{condition:.0e}"] = f"{error:.0e}"
            rows.append(row)
    print_table(f"Relative error by condition number, {shape[0]}x{shape[1]}.", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="not used: matrices are random")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS")
    parser.add_argument("--full-gb", type=float, default=1.0, help="largest U of the full SVD")
    parser.add_argument("--most-rows", type=int, default=100_000, help="leave out larger sizes")
    arguments = parser.parse_args()
    sizes = [(1_000, 20), (1_000, 40)] if arguments.quick else TABLE7_SIZES
    sizes = [size for size in sizes if size[0] <= arguments.most_rows]
    with threadpool_limits(arguments.threads, "blas"):
        print_machine()
        outcomes = []
        for shape in sizes:
            progress(f"{shape[0]} x {shape[1]}")
            outcomes.append(measure(shape, arguments.repeats, arguments.full_gb))
        ratio_table(sizes, outcomes)
        error_table(sizes, outcomes)
        condition_table(sizes[0])


if __name__ == "__main__":
    main()
