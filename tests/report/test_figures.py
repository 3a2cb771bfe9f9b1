"""Numbers behind the figures."""

import numpy as np
import pytest

from naim3l.report.figures import ENOUGH_ENTRIES, merge_bins


def bins(counts, seed=0):
    """Bins of ten with random means, and the entries that they stand for."""
    rng = np.random.default_rng(seed)
    found = [
        {"n": n, "probability": rng.random() if n else None, "share": rng.random() if n else None}
        for n in counts
    ]
    return found


@pytest.mark.parametrize(
    ("counts", "merged"),
    [
        ([30, 0, 5, 40, 0, 3], [30, 48]),
        ([1, 1, 0, 25, 19, 1, 30], [27, 20, 30]),
        ([3, 0, 4], [7]),
        ([0, 0], []),
    ],
)
def test_neighbouring_bins_are_merged_until_they_have_enough_entries(counts, merged):
    before = bins(counts)
    after = merge_bins(before)
    assert [b["n"] for b in after] == merged
    assert len(after) <= 1 or min(merged) >= ENOUGH_ENTRIES
    for key in ("probability", "share"):
        totals = [sum(b["n"] * b[key] for b in found if b["n"]) for found in (before, after)]
        assert totals[0] == pytest.approx(totals[1])
