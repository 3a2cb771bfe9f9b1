"""Start weights of a fit, and checks that a solver can start there."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l.problem.compressed import Form
from naim3l.problem.rows import Problem

# Squares of larger start weights, or of their scores, could overflow.
LARGEST_WEIGHT, LARGEST_SCORE = 1e100, 1e40


def given_weights(problem: Form, init: Mapping[str, NDArray], views: Sequence[str]) -> Matrix:
    """Stacked start weights (n_weights, n_labels) from those of each view, checked.

    Parameters
    ----------
    problem : Problem or CompressedProblem
    init : mapping of str to ndarray
        As in :class:`naim3l.NAIM3L`.
    views : sequence of str
        Names of the views, in the order of the problem.
    """
    if set(init) != set(views):
        raise ValueError(f"init has views {sorted(init, key=str)}, the data {sorted(views)}.")
    blocks, slices = [], problem.weight_slices
    rotations = problem.rotations if isinstance(problem, Problem) else [None] * len(slices)
    for view, weights, rotation in zip(views, slices, rotations, strict=True):
        try:
            block = np.asarray(init[view], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"init[{view!r}] must be numbers: {error}.") from None
        n_columns = weights.stop - weights.start - problem.fit_intercept
        if rotation is not None:
            n_columns = rotation.X.shape[1]
        expected = (n_columns + problem.fit_intercept, problem.n_labels)
        if block.shape != expected or not (np.abs(block) <= LARGEST_WEIGHT).all():
            raise ValueError(
                f"init[{view!r}] must be finite weights of shape {expected} (transformed "
                f"features{', then the intercept,' if problem.fit_intercept else ''} by labels), "
                f"none beyond {LARGEST_WEIGHT:g}, got shape {block.shape}."
            )
        if rotation is not None:
            block = np.concatenate([rotation.reduce(block[:n_columns]), block[n_columns:]])
        blocks.append(block)
    W = np.concatenate(blocks)
    check_start(problem, W)
    return W


def check_start(problem: Form, W: Matrix) -> None:
    """Refuse start weights whose scores are too large for the solver."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(problem, Problem):
            largest = np.abs(problem.multiply(W)).max()
        else:  # a bound: the root of the sum of all squared scores
            largest = np.sqrt(np.abs(np.vdot(W, problem.multiply_gram(W))))
    if not largest <= LARGEST_SCORE:
        raise ValueError(
            "the start weights (init, or those that solver='paper' draws) have scores up to "
            f"{largest:.3g}, beyond {LARGEST_SCORE:g}; use smaller ones, or transformer='scale'."
        )
