"""Bandwidths of kernels, view by view, refined on held-out entries."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from naim3l.decisions.held_out import hidden_metrics
from naim3l.problem.rows import Problem
from naim3l.solvers.weights import IterativeWeightStep

# Weights that only have to tell bandwidths apart.
ACCURACY = 0.01
# What views are judged with; the same for all models, so that they end with the same features.
RIDGES = (1.0, 10.0)


def choose_gammas(
    start: Mapping[str, float | None],
    factors: Sequence[float],
    problem_at: Callable[[Mapping[str, float | None]], Problem],
    hidden: NDArray[np.bool_],
    metric: str,
    *,
    lowest: bool,
) -> dict[str, float | None]:
    """Best multiple of each view's start gamma, for ridge regression on its own.

    Without the regulariser views do not touch each other: one fit for each factor and each of
    ``RIDGES`` serves all views, and each takes what suits it.

    Parameters
    ----------
    start : mapping of view to gamma, or to None where its kernel has none
    factors : sequence of float
    problem_at : callable
        Problem with the features of given gammas.
    hidden : bool ndarray of shape (n_rows, n_labels)
        Entries to hold out.
    metric : str
        See `naim3l.decisions.held_out.hidden_metric`.
    lowest : bool
        Whether lower values of the metric are better.
    """
    best, chosen = np.full(len(start), -np.inf), dict(start)
    for factor in factors:
        gammas = {v: None if gamma is None else factor * gamma for v, gamma in start.items()}
        values = _best_ridge(problem_at(gammas), hidden, metric, lowest)
        for j, view in enumerate(start):
            if values[j] > best[j]:
                best[j], chosen[view] = values[j], gammas[view]
    return chosen


def _best_ridge(problem: Problem, hidden: NDArray, metric: str, lowest: bool) -> NDArray:
    """Metric of each view at its best ridge, higher is better; -inf where it is undefined."""
    rest = problem.without(hidden)
    values = []
    for ridge in RIDGES:
        solve = IterativeWeightStep(rest, ridge, ACCURACY)
        W = solve(rest.targets, 0.0, np.zeros_like(rest.targets))
        values.append(hidden_metrics(problem, hidden, W, metric))
    signed = -np.array(values) if lowest else np.array(values)
    return np.where(np.isnan(signed), -np.inf, signed).max(axis=0)
