"""Costs of a fit: the cheaper form of a problem, and refusals of what does not fit in memory."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from naim3l._device import CPU, find_device, free_memory
from naim3l.problem.base import BaseProblem
from naim3l.problem.feature_blocks import FEWER_COLUMNS, has_gram, refuse_beyond
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import RowStatistics
from naim3l.problem.torch_problem import TorchProblem

logger = logging.getLogger(__name__)

FORMS = ("auto", "rows", "statistics")
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
# Statistics of chunks in memory besides those of running tasks: two are combined to a third.
N_COMBINED = 3
# Copies of sampled rows with their labels while held-out scores are compared, and the share of the
# memory that they may take.
N_SAMPLE_COPIES, SHARE_OF_SAMPLES = 10, 0.5
# Statistics of more bytes than this are never computed, even if they would save time.
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Cost:
    """Memory in bytes, in addition to the rows, and number of operations of a whole fit."""

    views: list[float]  # memory of each view
    blocks: float  # memory of the labels' blocks, which all views share
    flops: float

    @property
    def n_bytes(self) -> float:
        return sum(self.views, self.blocks)


def estimate_costs(problem: Problem) -> dict[str, Cost]:
    """Cost of a fit in the form of rows and in that of statistics, float64.

    Per view with n rows, d columns, p observed positives and c labels, the statistics are two
    stacks of c matrices d x d and the factors of the positive rows. On rows, each step of conjugate
    gradients takes two products with the rows, and one with matrices d x d if there are any. In
    both, the blocks of the labels are decomposed in every iteration.
    """
    c = problem.Y.shape[1]
    n_bytes: dict[str, list[float]] = {"rows": [], "statistics": []}
    flops, heights = dict.fromkeys(n_bytes, 0.0), {form: np.zeros(c) for form in n_bytes}
    for X, r in zip(problem.X, problem.row_slices, strict=True):
        (n, d), n_numbers = X.shape, X.size
        per_label = (problem.Y[r] > 0).sum(axis=0)
        p, m = float(per_label.sum()), float(np.minimum(per_label, d).sum())
        weights = N_WEIGHT_ARRAYS * d * c
        heights["rows"] += per_label
        heights["statistics"] += np.minimum(per_label, d)
        one_pass = n * c * d**2 + 2 * p * d**2 + 20 * c * d**3
        flops["statistics"] += one_pass + N_ITERATIONS * (8 * c * d**2 + 6 * m * d * c)
        n_bytes["statistics"].append(8 * (2 * c * d**2 + m * d + weights))
        if has_gram(X):
            one_pass, n_held = 4 * n_numbers * d + d**3, 3 * d**2
            iteration = N_SOLVES * (4 * n_numbers * c + 2 * d**2 * c) + 6 * n_numbers * c
        else:
            one_pass, n_held = 4 * n_numbers, 0
            iteration = N_DIAGONAL_SOLVES * (4 * n_numbers + 8 * d) * c + 14 * n_numbers * c
        flops["rows"] += one_pass + N_ITERATIONS * iteration
        n_bytes["rows"].append(8 * (n_held + 2 * n * c + weights))
    costs = {}
    for form, rows in heights.items():
        smaller = np.minimum(rows, c)  # the smaller side of each block is decomposed
        iteration = np.sum(6 * rows * c * smaller + DECOMPOSITION * smaller**3)
        blocks = 8 * N_BLOCK_ARRAYS * float(rows.sum()) * c
        costs[form] = Cost(n_bytes[form], blocks, flops[form] + N_ITERATIONS * float(iteration))
    return costs


def choose_form(problem: BaseProblem, form: str = "auto") -> BaseProblem:
    """The problem in the cheaper form, or in the given one if it is of rows in memory.

    Raises MemoryError if a fit in that form needs more memory than the machine has.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {list(FORMS)}, got {form!r}.")
    rows = problem.rows
    if rows is None or rows is not problem:
        return problem
    costs = estimate_costs(rows)
    if form == "auto":
        cheaper = costs["statistics"].flops <= costs["rows"].flops
        fits = costs["statistics"].n_bytes <= MOST_BYTES
        form = "statistics" if fits and cheaper else "rows"
        logger.info("form %s: estimated %s", form, costs)
    cost = costs[form]
    if max(cost.views) >= cost.blocks:  # the error names what takes most of the memory
        rows.check_memory(int(np.argmax(cost.views)), cost.n_bytes)
    else:
        refuse_beyond(
            f"{rows.n_positives} labels observed positive, out of {rows.n_labels}",
            cost.n_bytes,
            "Fit fewer labels at a time, or fewer rows.",
        )
    return StatisticsProblem.of(rows) if form == "statistics" else rows


def move_to(problem: BaseProblem, device: str) -> BaseProblem:
    """The rows of a problem on a device, if they fit there; the problem itself for the CPU."""
    found = None if device == CPU else find_device(device)
    if found is None or found.type == CPU:
        return problem
    if (rows := problem.rows) is None:
        refuse_chunks(device)
        return problem
    free = free_memory(found)
    if free is not None:
        c, n_positives = rows.n_labels, rows.n_positives
        height, width = (max(X.shape[axis] for X in rows.X) for axis in (0, 1))
        # Rows and row weights as they are, and padded to the largest view.
        n_numbers = 2 * rows.n_views * height * (width + 3 * c) + 2 * rows.n_rows * c
        n_numbers += 2 * N_BLOCK_ARRAYS * n_positives * c + 12 * c**3
        refuse_beyond(
            f"{rows.n_rows} rows and {n_positives} labels observed positive, out of {c}",
            8 * n_numbers,
            f"Use device={CPU!r}, or fit fewer labels at a time.",
            free,
        )
    return TorchProblem(rows, found)


def refuse_chunks(device: str) -> None:
    """Refuse a device for tables that are read in chunks, unless it is the CPU or "auto"."""
    if device not in (CPU, "auto"):
        raise ValueError(
            f"device={device!r} needs tables in memory; tables that are read in chunks need "
            f"device={CPU!r}."
        )


def statistics_bytes(d: int, n_labels: int, *, n_folds: int = 0, free: bool = False) -> int:
    """Memory of `RowStatistics` with d columns, if each fold has d positives of every label."""
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
    """Refuse a fit in chunks whose statistics do not fit in memory, before any row is read.

    ``n_weights`` are the encoded columns of each view, with the column of ones; ``n_tasks`` chunks
    are read at the same time.
    """
    size = partial(statistics_bytes, n_labels=n_labels, n_folds=n_folds, free=free)
    held = {view: size(d) for view, d in n_weights.items()}
    total = sum(held.values())
    fit = 8 * N_FIT_STACKS * n_labels * sum(d**2 for d in n_weights.values())
    largest = max(held, key=held.__getitem__)
    cures = ["fit fewer labels at a time", f"keep fewer columns ({FEWER_COLUMNS})"]
    if n_folds:
        cures.append("learn nothing from held-out entries (decide='sign')")
    if free:
        cures.append("give a number as ridge instead of 'auto'")
    refuse_beyond(
        f"statistics of {n_labels} labels and {n_folds} folds, most of them of view {largest!r} "
        f"with {n_weights[largest]} columns",
        max((N_COMBINED + n_tasks) * total, total + fit),
        f"To lower this, {', '.join(cures[:-1])}, or {cures[-1]}.",
        memory,
    )


def fitting_sample(widths: Mapping[str, int], n_labels: int, most: int, memory: float) -> int:
    """Rows of each view on which held-out entries are judged, so that they fit in memory.

    ``widths`` are the encoded columns of each view, and of the columns that it shares.
    """
    numbers = sum(widths.values()) + len(widths) * n_labels
    fitting = SHARE_OF_SAMPLES * memory / (8 * N_SAMPLE_COPIES * max(numbers, 1))
    return max(min(most, int(fitting)), 1)


def refuse_blocks(statistics: Sequence[RowStatistics], memory: float | None = None) -> None:
    """Refuse a fit whose blocks, of the factors of all labels' positives, do not fit in memory."""
    n_labels, rows = statistics[0].heights.shape[1], 0
    for of_view in statistics:
        rows += int(np.minimum(of_view.n_positives.sum(axis=0), len(of_view.gram)).sum())
    refuse_beyond(
        f"scores of {n_labels} labels in {rows} rows, at most as many as columns for each label",
        8 * N_BLOCK_ARRAYS * rows * n_labels,
        f"Fit fewer labels at a time, or keep fewer columns ({FEWER_COLUMNS}).",
        memory,
    )
