"""The Nemenyi test: which of several methods differ, by their average ranks over results.

See Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range

ALPHA = 0.05


def critical_value(n_methods: int, alpha: float = ALPHA) -> float:
    """Studentized range of infinitely many degrees of freedom over the root of 2.

    Examples
    --------
    >>> round(critical_value(2), 3)
    1.96
    """
    return float(studentized_range.ppf(1 - alpha, n_methods, np.inf) / sqrt(2))


def critical_distance(n_methods: int, n_blocks: int, alpha: float = ALPHA) -> float:
    """Difference of average ranks from which on two methods differ significantly."""
    error = sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))
    return critical_value(n_methods, alpha) * error


def printed_distance(n_methods: int, n_blocks: int, alpha: float = ALPHA) -> float:
    """The distance as the paper prints it, without the 6: too large by its root."""
    return sqrt(6) * critical_distance(n_methods, n_blocks, alpha)


def average_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean rank of each column over the rows; 1 is the highest score, equal ones share ranks."""
    return rankdata(-scores, axis=1).mean(axis=0)


def nemenyi(scores: Mapping[str, Sequence[float]], *, alpha: float = ALPHA) -> dict[str, Any]:
    """Nemenyi test of methods on the same blocks.

    Parameters
    ----------
    scores : mapping of method to its n_blocks scores, or DataFrame with a column per method
        Higher is better.
    alpha : float
        Level of significance.

    Returns
    -------
    dict
        "ranks": average rank by method, best first; "n_blocks"; "q" and "distance", critical
        value and distance, and "printed_distance"; "p": p-values by method and method;
        "different" and "printed_different": pairs [better, worse] at least a distance apart;
        "groups": largest sets of two or more neighbours in rank that do not differ.
    """
    import pandas as pd
    from scikit_posthocs import posthoc_nemenyi_friedman

    table = pd.DataFrame({method: np.asarray(scores[method], dtype=float) for method in scores})
    if table.shape[1] < 2 or table.empty or table.isna().any(axis=None):
        raise ValueError(
            f"scores has {table.shape[0]} blocks of {table.shape[1]} methods; two methods or more "
            "are needed, with a number in each of one block or more."
        )
    n_blocks, n_methods = table.shape
    found = dict(zip(table.columns, average_ranks(table.to_numpy()).tolist(), strict=True))
    ranks = dict(sorted(found.items(), key=lambda item: item[1]))
    distance = critical_distance(n_methods, n_blocks, alpha)
    printed = printed_distance(n_methods, n_blocks, alpha)
    p_values = posthoc_nemenyi_friedman(table)
    return {
        "ranks": ranks,
        "n_blocks": n_blocks,
        "q": critical_value(n_methods, alpha),
        "distance": distance,
        "printed_distance": printed,
        "p": {a: {b: float(p_values.loc[a, b]) for b in ranks} for a in ranks},
        "different": different(ranks, distance),
        "printed_different": different(ranks, printed),
        "groups": groups(ranks, distance),
    }


def different(ranks: Mapping[str, float], distance: float) -> list[list[str]]:
    """Pairs [better, worse] whose ranks, ascending, are at least a distance apart."""
    return [[a, b] for a, b in combinations(ranks, 2) if ranks[b] - ranks[a] >= distance]


def groups(ranks: Mapping[str, float], distance: float) -> list[list[str]]:
    """Largest runs of two or more methods, by ascending rank, that lie within a distance."""
    names = list(ranks)
    runs: list[list[str]] = []
    for i, first in enumerate(names):
        run = [name for name in names[i:] if ranks[name] - ranks[first] < distance]
        if len(run) > 1 and not (runs and set(run) <= set(runs[-1])):
            runs.append(run)
    return runs
