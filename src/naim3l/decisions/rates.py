"""How often yes and no are right for a label, from counts: at the cut of a model, and at others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from naim3l._arrays import Matrix

# Probabilities above which yes could be said: close to each other where rare labels have theirs.
CUTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
# Each rate, and in words what it is a share of.
RATES = {
    "sensitivity": "of those with the label, found",
    "specificity": "of those without it, left alone",
    "predictive_yes": "of those that are flagged, right",
    "predictive_no": "of those that are not, right",
}


def wilson(n_right: float, n: float, level: float = 0.95) -> dict[str, float | None]:
    """A share and its interval by Wilson (1927), which assumes independent rows; None of nothing.

    Shares within it differ from that of the sample by at most z of their own standard errors. It
    stays within 0 and 1, and is not empty for a share of 0 or 1.
    """
    if not n:
        return dict.fromkeys(("value", "low", "high"))
    z = float(norm.ppf((1 + level) / 2))
    share, weight = n_right / n, z**2 / n
    middle = (share + weight / 2) / (1 + weight)
    half = z * float(np.sqrt(share * (1 - share) / n + weight / (4 * n))) / (1 + weight)
    # Rounding may leave out a share of 0 or 1, or exceed it.
    low, high = max(min(middle - half, share), 0.0), min(max(middle + half, share), 1.0)
    return {"value": share, "low": low, "high": high}


def measure_rates(counts: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """`RATES` with intervals, from numbers of entries: "yes", "no", "called", and "found"."""
    yes, no, called, found = (counts[name] for name in ("yes", "no", "called", "found"))
    left_alone = no - (called - found)
    pairs = (found, yes), (left_alone, no), (found, called), (left_alone, yes + no - called)
    return {name: wilson(*pair) for name, pair in zip(RATES, pairs, strict=True)}


def count_at_cuts(truth: Matrix, probabilities: Matrix | None) -> Matrix:
    """Numbers of entries above each of `CUTS`, and of those that are yes, (2, n_cuts).

    ``truth`` (n_rows,) has 1, 0 and NaN = unknown. Without probabilities there are no cuts.
    """
    if probabilities is None:
        return np.zeros((2, 0), int)
    above = probabilities[:, None] > CUTS
    return np.stack([above[np.isfinite(truth)].sum(axis=0), above[truth == 1].sum(axis=0)])


def list_cuts(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a label's cuts do, of 1,000 rows; the first is that of the model, with "cut" None."""
    known = entry["yes"] + entry["no"]
    cuts = entry.get("cuts") or [[], []]  # models of earlier versions have none
    decided = None, entry["called"], entry["found"]
    scale = 1000 / known if known else 0.0
    return [
        {"cut": cut, "flagged": scale * called, "found": scale * found}
        | {"missed": scale * (entry["yes"] - found), "false_alarms": scale * (called - found)}
        | {"sensitivity": wilson(found, entry["yes"]), "predictive_yes": wilson(found, called)}
        for cut, called, found in [decided, *zip(CUTS, *cuts, strict=False)]
    ]
