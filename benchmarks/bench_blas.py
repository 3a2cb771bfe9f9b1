"""Share of the loop of solver "fast" spent in BLAS and LAPACK, and the flop rate reached.

    python benchmarks/bench_blas.py --data DATA

Python profilers do not see the operator @, so this script imports the library with every `a @ b`
rewritten to a timed call, and replaces the functions of NumPy and SciPy that use LAPACK or BLAS by
timed calls. Only products of two dense arrays count. The share includes what these calls do before
and after BLAS (dispatch, copies of stacks, conversions), so it is an upper bound; conversely, the
clock itself costs about a microsecond per call, outside the share. Everything runs on one thread.
The set-up (pass and factorisation) is left out: clocks are reset when the first iteration ends.

Flops are nominal: 2 m k n for a product (though NumPy forms A'A at half that), 9 n^3 for
eigenvalues and vectors of a symmetric matrix, 4/3 n^3 for eigenvalues alone (Golub and Van Loan),
2 n for dot products and norms. The reference is the loop's main product on its own: the label
factors of a view (rows of all labels, mean over the views) times its weights.
"""

import argparse
import ast
import importlib.machinery
import sys
from collections import Counter
from time import perf_counter

import numpy as np
from joblib import parallel_config
from scipy import linalg
from threadpoolctl import threadpool_limits


class Clock:
    """Seconds, calls and flops by kind of operation."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.seconds, self.calls, self.flops = Counter(), Counter(), Counter()

    def timed(self, kind, flops, function):
        def call(*args, **options):
            start = perf_counter()
            result = function(*args, **options)
            self.seconds[kind] += perf_counter() - start
            self.calls[kind] += 1
            self.flops[kind] += flops(*args)
            return result

        return call

    def matmul(self, A, B):
        """Replacement of ``A @ B`` in the rewritten library."""
        if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
            return A @ B  # sparse: no BLAS
        start = perf_counter()
        result = A @ B
        seconds = perf_counter() - start
        kind = "products of matrices"
        if result.ndim > 2:
            vectors = 1 in (A.shape[-2], B.shape[-1])
            kind = "stacks, matrix x vector" if vectors else "stacks, matrix x matrix"
        self.seconds[kind] += seconds
        self.calls[kind] += 1
        self.flops[kind] += 2 * result.size * A.shape[-1]
        return result


class _Rewrite(ast.NodeTransformer):
    """``a @ b`` becomes ``timed_matmul(a, b)``."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        call = ast.Call(ast.Name("timed_matmul", ast.Load()), [node.left, node.right], [])
        return ast.copy_location(call, node)


class _Loader(importlib.machinery.SourceFileLoader):
    clock: Clock

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = _Rewrite().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def exec_module(self, module):
        vars(module)["timed_matmul"] = self.clock.matmul
        super().exec_module(module)


class _Finder:
    """Finder that loads the modules of the library in rewritten form."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] != "naim3l":
            return None
        for finder in sys.meta_path:
            spec = None if finder is cls else finder.find_spec(name, path, target)
            if spec is not None:
                if isinstance(spec.loader, importlib.machinery.SourceFileLoader):
                    spec.loader = _Loader(spec.loader.name, spec.loader.path)
                return spec
        return None


def install(clock):
    """Install the timed calls; must be called before the library is imported."""
    _Loader.clock = clock
    sys.meta_path.insert(0, _Finder)

    def eigen(factor):
        return lambda A, *rest: factor * A.size * A.shape[-1]

    for module, name, kind, flops in (
        (np.linalg, "eigh", "eigenvalues and vectors", eigen(9)),
        (np.linalg, "eigvalsh", "eigenvalues", eigen(4 / 3)),
        (np.linalg, "norm", "dot products, norms", lambda A, *rest: 2 * A.size),
        (np, "vdot", "dot products, norms", lambda A, B: 2 * A.size),
        (linalg, "cho_factor", "triangular", lambda A, *rest: len(A) ** 3 / 3),
        (linalg, "cho_solve", "triangular", lambda F, B, *rest: 2 * len(F[0]) * B.size),
    ):
        setattr(module, name, clock.timed(kind, flops, getattr(module, name)))


def run_loop(case, clock, n_iter):
    """Seconds per iteration; the clock then has the times of the operations."""
    from common import timed_solve

    from naim3l.solvers import solve_fast

    stamps = []

    def at_end(objective, W, callback, **options):
        def note(record, W):
            if not stamps:
                clock.reset()
            stamps.append(perf_counter())
            callback(record, W)

        return solve_fast(objective, W, callback=note, **options)

    timed_solve(at_end, case.objective(), tol=0, max_iter=n_iter + 1)
    return (stamps[-1] - stamps[0]) / n_iter


def reference_rate(case):
    """Shape and flop rate of the loop's main product on its own."""
    from common import median_seconds

    from naim3l.problem.cost_model import choose_form

    problem = choose_form(case.objective().problem)
    n_rows = getattr(problem, "n_rows", problem.n_positives)  # the form "rows" multiplies these
    n_views = len(case.features)
    shape = (n_rows // n_views, problem.n_weights // n_views, problem.n_labels)
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal(shape[:2]), rng.standard_normal(shape[1:])
    return shape, 2 * np.prod(shape) / median_seconds(lambda: A @ B, 9)


def print_case(case, clock, n_iter):
    from common import print_table, progress

    progress(f"{case.name}: loop")
    shape, reference = reference_rate(case)
    run_loop(case, clock, 2)  # warms up
    iteration = run_loop(case, clock, n_iter)
    inside = sum(clock.seconds.values()) / n_iter
    parts = [(kind, seconds / n_iter) for kind, seconds in clock.seconds.most_common()]
    rows = []
    for name, seconds in (*parts, ("inside BLAS and LAPACK", inside), ("whole loop", iteration)):
        flops = clock.flops.get(name, clock.flops.total()) / n_iter
        row = {"per iteration": name, "share": f"{100 * seconds / iteration:.1f} %"}
        row |= {"rate:reference": flops / seconds / reference}
        row |= {"calls": clock.calls[name] / n_iter if name in clock.calls else ""}
        rows.append(row | {"ms": 1000 * seconds, "Gflop/s": flops / seconds / 1e9})
    size = " x ".join(map(str, shape))
    print_table(
        f"{case.name}, one thread. Reference: a product {size} at {reference / 1e9:.3g} Gflop/s.",
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with real datasets; without it they are left out")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--cases", nargs="+", default=["yeast", "corel5k-4", "mirflickr-sized"])
    parser.add_argument("--iterations", type=int, default=20)
    arguments = parser.parse_args()
    clock = Clock()
    install(clock)
    from common import make_cases, print_machine

    with threadpool_limits(1, "blas"), parallel_config(backend="sequential"):
        print_machine()
        for case in make_cases(arguments.data, arguments.quick, arguments.cases):
            print_case(case, clock, arguments.iterations)


if __name__ == "__main__":
    main()
