"""DM2L: the objective of NAIM3L on all views at once, for aligned rows."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from naim3l.extend import (
    AlignedRows,
    ConcatenatedModel,
    Learned,
    Objective,
    linear_arrays,
    solve_fast,
)
from naim3l_bench.methods.constraints import FACTOR, FACTOR_OR_ZERO, ITERATIONS

# Of fits that only score held-out entries, as in NAIM3L.
FOLD_TOL, FOLD_MAX_ITER = 3e-3, 100


@dataclass(eq=False, repr=False)
class DM2L(ConcatenatedModel):
    """Scores of low rank within labels and high rank over all rows, for aligned rows.

    The features of all views are concatenated; a row that lacks a view has the mean of the
    training rows that have it. The weights W minimise ``1/2 |P * (XW - Y)|^2 + lam (sum_k |X_k
    W|_* - |XW|_*) + ridge/2 |W|^2``, where ``X_k`` are the rows whose label k is known to be
    positive. This is the objective of :class:`naim3l.NAIM3L` with a single view, and its solver
    "fast" is used.

    The objective is reconstructed from the abstract of the paper and from later descriptions; the
    ridge and the intercepts, which are not penalised, are additions. How views are concatenated
    and filled follows later comparisons.

    Parameters
    ----------
    lam : float, default=0.4
        Weight of the regulariser; greater than 0. Choose it on held-out data: values from 1e-4 to
        10 are usual.
    ridge : float, default=5.0
        Adds ``ridge / 2`` times the squared weights, intercepts excluded.
    max_iter : int, default=200
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=1e-4
        Relative residuals of stationarity and feasibility at which to stop; 0 runs all iterations.
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.estimators.FusedRidge`.

    Attributes
    ----------
    coef_, intercept_, fill_, n_encoded_
        As in :class:`naim3l.estimators.FusedRidge`.

    References
    ----------
    Z. Ma and S. Chen, "Expand globally, shrink locally: Discriminant multi-label learning with
    missing labels", Pattern Recognition 111, 2021.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ConcatenatedModel._parameter_constraints,
        **ITERATIONS,
        "lam": [FACTOR],
        "ridge": [FACTOR_OR_ZERO],
    }

    lam: float = 0.4
    _: KW_ONLY
    ridge: float = 5.0
    max_iter: int = 200
    tol: float = 1e-4

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        return self._minimise(rows, self.max_iter, self.tol)

    def _solve_loosely(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        return self._minimise(rows, FOLD_MAX_ITER, FOLD_TOL)

    def _minimise(self, rows: AlignedRows, max_iter: int, tol: float) -> Learned:
        fill = rows.means()
        problem = self._fused_problem(rows, fill)
        objective = Objective(problem, self.lam, ridge=self.ridge)
        result = solve_fast(objective, max_iter=max_iter, tol=tol)
        arrays = linear_arrays(problem, result.W, fill)
        return Learned(arrays, result.history, result.converged, result.interrupted)
