"""The Nemenyi test: which of several methods differ, by their average ranks over results.

See Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import studentized_range

ALPHA = 0.05  # level of significance


# scikit-posthocs has p-values and groups but no critical values or distances, so these are here.
def critical_value(n_methods: int) -> float:
    """Studentized range of infinitely many degrees of freedom over the root of 2.

    Examples
    --------
    >>> round(critical_value(2), 3)
    1.96
    """
    return float(studentized_range.ppf(1 - ALPHA, n_methods, np.inf) / sqrt(2))


def critical_distance(n_methods: int, n_blocks: int) -> float:
    """Difference of average ranks from which on two methods differ significantly."""
    return critical_value(n_methods) * sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def printed_distance(n_methods: int, n_blocks: int) -> float:
    """The distance as the paper prints it, without the 6: too large by its root."""
    return sqrt(6) * critical_distance(n_methods, n_blocks)


def different(ranks: Mapping[str, float], distance: float) -> list[list[str]]:
    """Pairs [better, worse] whose ranks, ascending, are at least a distance apart."""
    return [[a, b] for a, b in combinations(ranks, 2) if ranks[b] - ranks[a] >= distance]


def nemenyi(scores: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Nemenyi test of methods on the same blocks, at the level 0.05.

    Parameters
    ----------
    scores : mapping of method to its n_blocks scores, or DataFrame with a column per method
        Higher is better.

    Returns
    -------
    dict
        "ranks": average rank by method, best first; "n_blocks"; "q" and "distance", critical
        value and distance, and "printed_distance"; "p": p-values by method and method;
        "different" and "printed_different": pairs [better, worse] at least a distance apart;
        "groups": largest sets of two or more methods that do not differ.
    """
    import pandas as pd
    from scikit_posthocs import compact_letter_display, posthoc_nemenyi_friedman

    table = pd.DataFrame({method: np.asarray(scores[method], dtype=float) for method in scores})
    if table.shape[1] < 2 or table.empty or table.isna().any(axis=None):
        raise ValueError(
            f"scores has {table.shape[0]} blocks of {table.shape[1]} methods; two methods or more "
            "are needed, with a number in each of one block or more."
        )
    n_blocks, n_methods = table.shape
    mean_ranks = table.rank(axis=1, ascending=False).mean()
    ranks = mean_ranks.sort_values(kind="stable").to_dict()
    distance = critical_distance(n_methods, n_blocks)
    printed = printed_distance(n_methods, n_blocks)
    p_values = posthoc_nemenyi_friedman(table).loc[list(ranks), list(ranks)]
    letters = compact_letter_display(p_values, alpha=ALPHA)  # methods that share one do not differ
    groups = [[m for m in ranks if a in letters[m]] for a in sorted({*"".join(letters)} - {" "})]
    return {
        "ranks": ranks,
        "n_blocks": n_blocks,
        "q": critical_value(n_methods),
        "distance": distance,
        "printed_distance": printed,
        "p": p_values.to_dict(),
        "different": different(ranks, distance),
        "printed_different": different(ranks, printed),
        "groups": [group for group in groups if len(group) > 1],
    }
