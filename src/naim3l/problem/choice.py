"""The choice between rows and statistics as the form of a problem, by estimates of their costs.

A problem that does not fit in memory is refused before the memory is allocated.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naim3l._parameters import check_choice
from naim3l.problem.compressed import CompressedProblem, Form
from naim3l.problem.on_device import CPU, DeviceProblem, find_device, free_memory
from naim3l.problem.rows import Problem, has_gram, stored_numbers

logger = logging.getLogger(__name__)

FORMS = ("auto", "rows", "compressed")
# Assumed numbers of iterations of a fit, and of each conjugate-gradient solve with a full matrix or
# a diagonal as preconditioner. With these the choice changes at about 100 columns, as the measured
# times of fits of Corel5k do.
N_ITERATIONS, N_SOLVES, N_DIAGONAL_SOLVES = 20, 4, 20
# One operation of a decomposition takes as long as this many operations of a product.
DECOMPOSITION = 30
# Number of arrays of the size of the weights, and of the blocks of all labels, in a solver.
N_WEIGHT_ARRAYS, N_BLOCK_ARRAYS = 16, 5
# Stacks of c matrices d x d of a fit on statistics: the known Gram matrices, the labels' factors
# twice, and the decompositions of the solver.
N_FIT_STACKS = 5
# Statistics of parts in memory besides those of running tasks: two are combined to a third.
N_COMBINED = 3
# Statistics of more bytes than this are never computed, even if they would save time.
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Cost:
    """Memory in bytes, in addition to the rows, and number of operations of a whole fit."""

    n_bytes: float
    flops: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.n_bytes + other.n_bytes, self.flops + other.flops)


@dataclass(frozen=True)
class Estimate:
    """Costs of a fit in one form: of each view, and of the blocks that all views share."""

    views: list[Cost]
    blocks: Cost

    @property
    def total(self) -> Cost:
        return sum(self.views, self.blocks)


def estimate_costs(problem: Problem) -> dict[str, Estimate]:
    """Cost of a fit in the form of rows and in that of statistics, float64.

    Per view with n rows, d columns, p observed positives and c labels, the statistics are two
    stacks of c matrices d x d and the factors of the positive rows; a pass over the rows takes
    n c d^2 operations, and iterations do not depend on n. On rows, an iteration solves by
    conjugate gradients with two products with the rows in each step; matrices d x d are stored
    only if `has_gram` is true. All views share the blocks of the labels, which are decomposed in
    every iteration.
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
    """The problem in the cheaper form, or in the given one.

    Parameters
    ----------
    problem : Problem or CompressedProblem
        A compressed problem has no rows, and one on a device has the only form that it can have:
        both are returned unchanged.
    form : {"auto", "rows", "compressed"}

    Raises
    ------
    MemoryError
        If a fit in that form needs more memory than the machine has.
    """
    check_choice("form", form, FORMS)
    if isinstance(problem, CompressedProblem | DeviceProblem):
        return problem
    costs = estimate_costs(problem)
    if form == "auto":
        rows, compressed = costs["rows"].total, costs["compressed"].total
        fits = compressed.n_bytes <= MOST_BYTES
        form = "compressed" if fits and compressed.flops <= rows.flops else "rows"
        logger.info("form %s: estimated %s", form, costs)
    _check_estimate(problem, costs[form])
    return CompressedProblem.from_problem(problem) if form == "compressed" else problem


def move_to(problem: Form, device: str) -> Form:
    """The rows of a problem on a device; the problem itself if that is the CPU.

    Parameters
    ----------
    problem : Problem or CompressedProblem
    device : str
        As in :class:`naim3l.NAIM3L`.

    Raises
    ------
    ValueError
        The device cannot be used, or the problem has no rows.
    MemoryError
        A fit needs more memory than the device has left.
    """
    found = None if device == CPU else find_device(device)
    if found is None or found.type == CPU:
        return problem
    if not isinstance(problem, Problem):
        refuse_parts(device)
        return problem
    free = free_memory(found)
    if free is not None:
        c, n_positives = problem.n_labels, problem.n_positives
        height, width = (max(X.shape[axis] for X in problem.X) for axis in (0, 1))
        # Rows and row weights as they are, and padded to the largest view.
        n_numbers = 2 * len(problem.X) * height * (width + 3 * c) + 2 * problem.n_rows * c
        n_numbers += 2 * N_BLOCK_ARRAYS * n_positives * c + 12 * c**3
        refuse_beyond(
            f"{problem.n_rows} rows and {n_positives} labels observed positive, out of {c}",
            8 * n_numbers,
            f"Use device={CPU!r}, or fit fewer labels at a time.",
            free,
        )
    return DeviceProblem(problem, found)


def refuse_parts(device: str) -> None:
    """Refuse a device for tables that are read in parts, unless it is the CPU or "auto"."""
    if device not in (CPU, "auto"):
        raise ValueError(
            f"device={device!r} needs tables in memory; those that are read in parts need "
            f"device={CPU!r}."
        )


def _check_estimate(problem: Problem, estimate: Estimate) -> None:
    """Refuse a fit that does not fit in memory; the error names what takes most of it."""
    n_bytes = [cost.n_bytes for cost in estimate.views]
    if max(n_bytes) >= estimate.blocks.n_bytes:
        check_memory(problem, int(np.argmax(n_bytes)), estimate.total.n_bytes)
    else:
        refuse_beyond(
            f"{problem.n_positives} labels observed positive, out of {problem.n_labels}",
            estimate.total.n_bytes,
            "Fit fewer labels at a time, or fewer rows.",
        )


def check_memory(problem: Problem, v: int, n_bytes: float) -> None:
    """Refuse a view that needs more memory than the machine has.

    Parameters
    ----------
    problem : Problem
    v : int
        Position of the view.
    n_bytes : float
        Memory that it needs.
    """
    refuse_beyond(
        f"view {problem.names[v]!r} ({problem.X[v].shape[0]} rows, {problem.n_columns(v)} columns)",
        n_bytes,
        "Give it transformer='scale', which keeps at most n_components of it, or fewer columns.",
    )


def statistics_bytes(d: int, n_labels: int, *, n_folds: int = 0, free: bool = False) -> int:
    """Memory of `PartStatistics` with d columns, if each fold has d positives of every label."""
    n_cells = max(n_folds, 1)
    n_stacks = 2 * n_cells + (1 + n_folds if free else 0)
    return 8 * (n_stacks * n_labels * d**2 + d**2 + 2 * n_cells * d * n_labels)


def refuse_statistics(
    n_weights: Mapping[str, int],
    n_labels: int,
    *,
    n_folds: int = 0,
    free: bool = False,
    n_tasks: int = 1,
    memory: float | None = None,
) -> None:
    """Refuse a streamed fit whose statistics do not fit in memory, before any row is read.

    Parameters
    ----------
    n_weights : mapping of str to int
        Encoded columns of each view, with the column of ones.
    n_labels : int
    n_folds : int
    free : bool
        Whether ``free_grams`` are computed.
    n_tasks : int
        Number of parts of which statistics are computed at the same time.
    memory : float, optional
        Bytes that may be used; by default, the memory of the machine.

    Raises
    ------
    MemoryError
    """
    held = {
        name: statistics_bytes(d, n_labels, n_folds=n_folds, free=free)
        for name, d in n_weights.items()
    }
    total = sum(held.values())
    fit = 8 * N_FIT_STACKS * n_labels * sum(d**2 for d in n_weights.values())
    largest = max(held, key=held.__getitem__)
    cures = ["fit fewer labels at a time", "keep fewer columns (a lower n_components)"]
    if n_folds:
        cures.append(
            "learn nothing from held-out entries (calibrate=False, threshold='sign', fusion='mean')"
        )
    if free:
        cures.append("give a number as ridge instead of 'auto'")
    refuse_beyond(
        f"statistics of {n_labels} labels in {len(n_weights)} views and {n_folds} folds, most of "
        f"them of view {largest!r} with {n_weights[largest]} columns",
        max((N_COMBINED + n_tasks) * total, total + fit),
        f"To lower this, {', '.join(cures[:-1])}, or {cures[-1]}.",
        memory,
    )


def refuse_beyond(what: str, n_bytes: float, cure: str, memory: float | None = None) -> None:
    """Refuse what needs more memory than the machine has; ``cure`` says what to do instead.

    ``memory`` is what may be used, if that is not all of the machine's.
    """
    most = physical_memory() if memory is None else memory
    if most is not None and n_bytes > most:
        owner = "this machine has" if memory is None else "it may use"
        raise MemoryError(
            f"{what}: a fit would take about {n_bytes / 2**30:.3g} GiB of memory, and {owner} "
            f"{most / 2**30:.3g}. {cure}"
        )


def physical_memory() -> int | None:
    """Memory of the machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
