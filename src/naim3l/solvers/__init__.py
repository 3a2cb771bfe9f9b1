"""Solvers by name; all share the signature and the result type of ``solvers.base``."""

from functools import partial

from naim3l.solvers.base import Record, Solver, SolverResult
from naim3l.solvers.paper import solve_paper

SOLVERS: dict[str, Solver] = {"auto": partial(solve_paper, guarded=True), "paper": solve_paper}

__all__ = ["SOLVERS", "Record", "Solver", "SolverResult", "solve_paper"]
