"""What all solvers have in common: signature, result, and where they keep their state."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from naim3l._arrays import Arrays, Matrix
from naim3l.solvers.objective import Objective

Record = dict[str, float]
Callback = Callable[[Record, Matrix], Any]


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

    W: Matrix
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


class StateStore(Protocol):
    """Where a solver keeps its state, such as a file, so that an interrupted fit resumes."""

    def get(self, name: str) -> Arrays | None:
        """Arrays that were stored under a name, None if there are none."""

    def put(self, name: str, arrays: Arrays) -> None:
        """Store arrays under a name."""

    def offer(self, name: str, make: Callable[[], Arrays]) -> None:
        """Store what ``make`` returns, if that is due."""
