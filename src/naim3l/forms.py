"""Rows or statistics: which form of a problem a solver should work on, by an explicit estimate."""

import logging
from dataclasses import dataclass

import numpy as np

from naim3l.compress import CompressedProblem, Form
from naim3l.problem import Problem

logger = logging.getLogger(__name__)

FORMS = ("auto", "rows", "compressed")
# What the estimate reckons with: iterations of a fit, and of each conjugate-gradient solve. With
# these it changes over where fits of Corel5k with more and more columns do, at about 100.
N_ITERATIONS, N_SOLVES = 20, 4
# Statistics beyond this many bytes are not made, whatever they would save.
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Cost:
    """Numbers held in memory besides the rows, in bytes, and arithmetic of a whole fit."""

    n_bytes: float
    flops: float


def estimate_costs(problem: Problem) -> dict[str, Cost]:
    """Cost of a fit in the form of rows and in that of statistics, float64.

    Per view with n rows, d columns, p observed positives and c labels, the statistics are two
    stacks of c matrices d x d and the factors of the positive rows; a pass over the rows takes
    n c d^2 operations, an iteration nothing in n. On rows, an iteration solves by conjugate
    gradients, each step two products with the rows.
    """
    c, rows, compressed = problem.n_labels, [], []
    q = (problem.Y > 0).astype(np.float64)
    for X, r in zip(problem.X, problem.row_slices, strict=True):
        n, d = X.shape
        per_label = q[r].sum(axis=0)
        p, m = float(per_label.sum()), float(np.minimum(per_label, d).sum())
        one_pass = n * c * d**2 + 2 * p * d**2 + 20 * c * d**3
        iteration = 8 * c * d**2 + 6 * m * d * c
        compressed.append(Cost(8 * (2 * c * d**2 + m * d), one_pass + N_ITERATIONS * iteration))
        one_pass = 4 * n * d**2 + d**3
        iteration = N_SOLVES * (4 * n * d * c + 2 * d**2 * c) + 6 * n * d * c
        rows.append(Cost(8 * (3 * d**2 + 2 * n * c), one_pass + N_ITERATIONS * iteration))
    return {"rows": _total(rows), "compressed": _total(compressed)}


def choose_form(problem: Form, form: str = "auto") -> Form:
    """The problem in the cheaper form, or in the one that is asked for.

    Parameters
    ----------
    problem : Problem or CompressedProblem
        A compressed one stays as it is: its rows are gone.
    form : {"auto", "rows", "compressed"}
    """
    if isinstance(problem, CompressedProblem):
        return problem
    if form == "auto":
        costs = estimate_costs(problem)
        fits = costs["compressed"].n_bytes <= MOST_BYTES
        form = "rows"
        if fits and costs["compressed"].flops <= costs["rows"].flops:
            form = "compressed"
        logger.info("form %s: estimated %s", form, costs)
    return CompressedProblem.from_problem(problem) if form == "compressed" else problem


def _total(costs: list[Cost]) -> Cost:
    return Cost(sum(cost.n_bytes for cost in costs), sum(cost.flops for cost in costs))
