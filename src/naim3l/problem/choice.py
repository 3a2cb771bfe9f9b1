"""Rows or statistics: which form of a problem a solver should work on, by an explicit estimate.

And whether there is memory for it: what cannot fit is refused before it is asked for.
"""

import logging
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naim3l._parameters import check_choice
from naim3l.problem.compressed import CompressedProblem, Form
from naim3l.problem.rows import Problem, has_gram, stored_numbers

logger = logging.getLogger(__name__)

FORMS = ("auto", "rows", "compressed")
# What the estimate reckons with: iterations of a fit, and of each conjugate-gradient solve, where
# its preconditioner is a whole matrix and where it is a diagonal. With these it changes over where
# fits of Corel5k with more and more columns do, at about 100.
N_ITERATIONS, N_SOLVES, N_DIAGONAL_SOLVES = 20, 4, 20
# Operations of a product that take as long as one of the decompositions of a label's block.
DECOMPOSITION = 30
# Arrays of the size of the weights, and of the blocks of all labels, that a solver holds.
N_WEIGHT_ARRAYS, N_BLOCK_ARRAYS = 16, 5
# Statistics beyond this many bytes are not made, whatever they would save.
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Cost:
    """Numbers held in memory besides the rows, in bytes, and arithmetic of a whole fit."""

    n_bytes: float
    flops: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.n_bytes + other.n_bytes, self.flops + other.flops)


@dataclass(frozen=True)
class Estimate:
    """Costs of a fit in one form: of each view, and of what all views have in common."""

    views: list[Cost]
    blocks: Cost

    @property
    def total(self) -> Cost:
        return sum(self.views, self.blocks)


def estimate_costs(problem: Problem) -> dict[str, Estimate]:
    """Cost of a fit in the form of rows and in that of statistics, float64.

    Per view with n rows, d columns, p observed positives and c labels, the statistics are two
    stacks of c matrices d x d and the factors of the positive rows; a pass over the rows takes
    n c d^2 operations, an iteration nothing in n. On rows, an iteration solves by conjugate
    gradients, each step two products with the rows; matrices d x d are held only where `has_gram`
    says so. In common are the blocks of all labels, which are decomposed in every iteration.
    """
    c, rows, compressed = problem.n_labels, [], []
    n_rows_of_blocks = {"rows": np.zeros(c), "compressed": np.zeros(c)}
    for X, r in zip(problem.X, problem.row_slices, strict=True):
        (n, d), n_numbers = X.shape, stored_numbers(X)
        per_label = (problem.Y[r] > 0).sum(axis=0)
        p, m = float(per_label.sum()), float(np.minimum(per_label, d).sum())
        n_rows_of_blocks["rows"] += per_label
        n_rows_of_blocks["compressed"] += np.minimum(per_label, d)
        weights = N_WEIGHT_ARRAYS * d * c
        one_pass = n * c * d**2 + 2 * p * d**2 + 20 * c * d**3
        iteration = 8 * c * d**2 + 6 * m * d * c
        n_held = 2 * c * d**2 + m * d + weights
        compressed.append(Cost(8 * n_held, one_pass + N_ITERATIONS * iteration))
        if has_gram(X):
            one_pass = 4 * n_numbers * d + d**3
            iteration = N_SOLVES * (4 * n_numbers * c + 2 * d**2 * c) + 6 * n_numbers * c
            n_held = 3 * d**2 + 2 * n * c + weights
        else:
            one_pass = 4 * n_numbers
            iteration = N_DIAGONAL_SOLVES * (4 * n_numbers + 8 * d) * c + 14 * n_numbers * c
            n_held = 2 * n * c + weights
        rows.append(Cost(8 * n_held, one_pass + N_ITERATIONS * iteration))
    return {
        "rows": Estimate(rows, _of_blocks(n_rows_of_blocks["rows"])),
        "compressed": Estimate(compressed, _of_blocks(n_rows_of_blocks["compressed"])),
    }


def _of_blocks(n_rows: NDArray) -> Cost:
    """Cost of the labels' blocks, given the rows of each; their smaller sides are decomposed."""
    c = len(n_rows)
    smaller = np.minimum(n_rows, c)
    iteration = np.sum(6 * n_rows * c * smaller + DECOMPOSITION * smaller**3)
    return Cost(8 * N_BLOCK_ARRAYS * float(n_rows.sum()) * c, N_ITERATIONS * float(iteration))


def choose_form(problem: Form, form: str = "auto") -> Form:
    """The problem in the cheaper form, or in the one that is asked for.

    Parameters
    ----------
    problem : Problem or CompressedProblem
        A compressed one stays as it is: its rows are gone.
    form : {"auto", "rows", "compressed"}

    Raises
    ------
    MemoryError
        If a fit in that form needs more memory than the machine has.
    """
    check_choice("form", form, FORMS)
    if isinstance(problem, CompressedProblem):
        return problem
    costs = estimate_costs(problem)
    if form == "auto":
        rows, compressed = costs["rows"].total, costs["compressed"].total
        fits = compressed.n_bytes <= MOST_BYTES
        form = "compressed" if fits and compressed.flops <= rows.flops else "rows"
        logger.info("form %s: estimated %s", form, costs)
    _check_estimate(problem, costs[form])
    return CompressedProblem.from_problem(problem) if form == "compressed" else problem


def _check_estimate(problem: Problem, estimate: Estimate) -> None:
    """Refuse a fit that cannot fit in memory, naming what takes most of it."""
    n_bytes = [cost.n_bytes for cost in estimate.views]
    if max(n_bytes) >= estimate.blocks.n_bytes:
        check_memory(problem, int(np.argmax(n_bytes)), estimate.total.n_bytes)
    else:
        _refuse_beyond(
            f"{problem.n_positives} labels observed positive, out of {problem.n_labels}",
            estimate.total.n_bytes,
            "Fit fewer labels at a time, or fewer rows.",
        )


def check_memory(problem: Problem, v: int, n_bytes: float) -> None:
    """Refuse to ask for more memory than the machine has, on account of one view.

    Parameters
    ----------
    problem : Problem
    v : int
        Place of the view.
    n_bytes : float
        What is about to be asked for.
    """
    n_rows, n_columns = problem.X[v].shape
    _refuse_beyond(
        f"view {problem.names[v]!r} ({n_rows} rows, {n_columns - problem.fit_intercept} columns)",
        n_bytes,
        "Give it transformer='scale', which keeps at most n_components of it, or fewer columns.",
    )


def _refuse_beyond(what: str, n_bytes: float, cure: str) -> None:
    most = physical_memory()
    if most is not None and n_bytes > most:
        raise MemoryError(
            f"{what}: a fit would take about {n_bytes / 2**30:.3g} GiB of memory, and this machine "
            f"has {most / 2**30:.3g}. {cure}"
        )


def physical_memory() -> int | None:
    """Bytes of memory that the machine has; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
