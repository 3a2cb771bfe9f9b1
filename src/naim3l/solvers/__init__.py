"""Solvers by name; all share the signature and the result type of ``solvers.base``."""

import naim3l.solvers.torch_steps  # noqa: F401 -- registers what the solvers do on a GPU
from naim3l.solvers.base import Callback, Record, Solver, SolverResult, StateStore
from naim3l.solvers.fast import solve_fast
from naim3l.solvers.paper import solve_paper

SOLVERS: dict[str, Solver] = {"auto": solve_fast, "fast": solve_fast, "paper": solve_paper}

__all__ = [
    "SOLVERS",
    "Callback",
    "Record",
    "Solver",
    "SolverResult",
    "StateStore",
    "solve_fast",
    "solve_paper",
]
