"""Signature and result type of all solvers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from naim3l.solvers.objective import Objective

Record = dict[str, float]
Callback = Callable[[Record, NDArray[np.floating]], Any]


@dataclass
class SolverResult:
    """Outcome of a solver.

    Attributes
    ----------
    W : ndarray of shape (n_weights, n_labels)
        Stacked weights after the last complete iteration.
    converged : bool
        Whether the stopping rule was met.
    history : list of dict
        One record per iteration: ``objective``, its parts ``loss``, ``low_rank``,
        ``high_rank`` and ``ridge``, ``change``, ``primal_residual``, ``dual_residual``.
        A solver may add further entries. The objective is that of the weights in the last record;
        before, it may be that of the last ones for which the solver needed it.
    stationarity : float
        Relative stationarity residual at ``W``; NaN if the solver does not compute it.
    interrupted : bool
        Whether the loop was ended by a KeyboardInterrupt.
    state : object
        State from which the same solver can continue with other parameters of the objective.
    """

    W: NDArray[np.floating]
    converged: bool = False
    history: list[Record] = field(default_factory=list)
    stationarity: float = float("nan")
    interrupted: bool = False
    state: Any = field(default=None, repr=False)

    @property
    def n_iter(self) -> int:
        return len(self.history)


class Solver(Protocol):
    """Minimise ``objective`` from ``W``; ``callback`` gets each record and its weights."""

    def __call__(
        self,
        objective: Objective,
        W: Any,
        *,
        mu: float | None,
        max_iter: int,
        tol: float,
        callback: Callback | None = None,
    ) -> SolverResult: ...
