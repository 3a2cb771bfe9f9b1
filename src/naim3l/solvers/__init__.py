"""Solvers by name; all have the same first arguments, and a `SolverResult`."""

import naim3l.solvers.torch_steps  # noqa: F401 -- registers what the solvers do on a GPU
from naim3l.solvers.base import Callback, Record, SolverResult
from naim3l.solvers.fast import solve_fast, start_again
from naim3l.solvers.paper import solve_paper

SOLVERS = {"auto": solve_fast, "fast": solve_fast, "paper": solve_paper}

__all__ = [
    "SOLVERS",
    "Callback",
    "Record",
    "SolverResult",
    "solve_fast",
    "solve_paper",
    "start_again",
]
