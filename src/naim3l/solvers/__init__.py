"""Solvers by name; all share the signature and the result type of ``solvers.result``."""

from naim3l.solvers.fast import solve_fast
from naim3l.solvers.paper import solve_paper
from naim3l.solvers.result import Record, Solver, SolverResult

SOLVERS: dict[str, Solver] = {"auto": solve_fast, "fast": solve_fast, "paper": solve_paper}

__all__ = ["SOLVERS", "Record", "Solver", "SolverResult", "solve_fast", "solve_paper"]
