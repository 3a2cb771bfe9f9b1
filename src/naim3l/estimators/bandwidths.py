"""Choice of the bandwidth of each view's kernel on held-out entries."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import as_numpy
from naim3l.decisions.held_out import hidden_metrics
from naim3l.problem.choice import move_to
from naim3l.problem.on_device import CPU
from naim3l.problem.rows import Problem
from naim3l.solvers.weights import step_on_rows

# Accuracy of weights, which is enough to compare bandwidths.
ACCURACY = 0.01
# The same for all models, so that all choose the same features.
RIDGES = (1.0, 10.0)


def choose_gammas(
    start: Mapping[str, float | None],
    factors: Sequence[float],
    problem_at: Callable[[Mapping[str, float | None]], Problem],
    hidden: NDArray[np.bool_],
    metric: str,
    *,
    lowest: bool,
    device: str = CPU,
) -> tuple[dict[str, float | None], list[Any]]:
    """Best multiple of each view's initial gamma for ridge regression, and its features.

    Without the regulariser views are independent of each other, so that one fit for each factor
    and each of ``RIDGES`` is enough for all views.

    Parameters
    ----------
    start : mapping of view to gamma, or to None if it is not to be chosen
        Initial gammas.
    factors : sequence of float
        Multiples to try.
    problem_at : callable
        Function of gammas by view that returns the problem with these gammas.
    hidden : bool ndarray of shape (n_rows, n_labels)
        Entries to hold out.
    metric : str
        See `naim3l.decisions.held_out.hidden_metric`.
    lowest : bool
        Whether lower values of the metric are better.
    device : str
        Where weights are computed.

    Returns
    -------
    gammas : dict of view to gamma, or to None
    features : list of ndarray, or of None for views that keep their initial gamma
        Features of each view at that gamma.
    """
    best, chosen = np.full(len(start), -np.inf), dict(start)
    features: list[Any] = [None] * len(start)
    for factor in factors:
        gammas = {v: None if gamma is None else factor * gamma for v, gamma in start.items()}
        problem = problem_at(gammas)
        values = _best_ridge(problem, hidden, metric, lowest, device)
        for j, view in enumerate(start):
            if values[j] > best[j]:
                best[j], chosen[view] = values[j], gammas[view]
                features[j] = None if gammas[view] == start[view] else problem.features[j]
    return chosen, features


def _best_ridge(
    problem: Problem, hidden: NDArray, metric: str, lowest: bool, device: str
) -> NDArray:
    """Metric of each view for its best ridge; higher is better, and -inf is undefined."""
    rest: Any = move_to(problem.without(hidden), device)
    values = []
    for ridge in RIDGES:
        solve = step_on_rows(rest, ridge, ACCURACY)
        W = as_numpy(solve(rest.targets, 0.0, 0 * rest.targets))
        values.append(hidden_metrics(problem, hidden, W, metric))
    signed = -np.array(values) if lowest else np.array(values)
    return np.where(np.isnan(signed), -np.inf, signed).max(axis=0)
