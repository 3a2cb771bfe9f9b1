"""What all solvers have in common: their result, and its records."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from naim3l._arrays import Matrix

Record = dict[str, float]
Callback = Callable[[Record, Matrix], Any]


@dataclass
class SolverResult:
    """Outcome of a solver."""

    W: Matrix  # stacked weights after the last complete iteration, (n_weights, n_labels)
    converged: bool = False  # whether the stopping rule was met
    # One record per iteration: "objective", its parts "loss", "low_rank", "high_rank" and "ridge",
    # "change", "primal_residual", "dual_residual", and what a solver adds. The last objective is
    # that of the weights; others may be those of the last weights for which it was needed.
    history: list[Record] = field(default_factory=list)
    stationarity: float = float("nan")  # relative residual at W, if the solver computes it
    interrupted: bool = False  # whether by a KeyboardInterrupt
    state: Any = field(default=None, repr=False)  # from which the same solver can continue

    @property
    def n_iter(self) -> int:
        return len(self.history)
