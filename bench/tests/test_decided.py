"""Sets of labels with the best expected F1, against all sets."""

from itertools import product

import numpy as np

from naim3l_bench.fits import best_sets


def expected_f1(P, chosen):
    """Expectation over all outcomes of independent labels; 1 where nothing is true or chosen."""
    total = 0.0
    for truth in product([0, 1], repeat=len(P)):
        truth = np.array(truth)
        chance = np.prod(np.where(truth, P, 1 - P))
        size = truth.sum() + chosen.sum()
        total += chance * (2 * (truth & chosen).sum() / size if size else 1.0)
    return total


def test_sets_are_nearly_the_best_of_all(rng):
    P = rng.random((30, 4))
    for p, chosen in zip(P, best_sets(P), strict=True):
        every = [expected_f1(p, np.array(s)) for s in product([0, 1], repeat=4)]
        assert expected_f1(p, chosen.astype(int)) >= max(every) - 0.06


def test_sets_hold_the_likeliest_labels(rng):
    P = rng.random((50, 6))
    for p, chosen in zip(P, best_sets(P), strict=True):
        if chosen.any() and not chosen.all():
            assert p[chosen].min() >= p[~chosen].max()
