"""Stacking: weights minimise their objective, and one score alone stays as it is."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from naim3l.decisions.calibration import HeldOutScores
from naim3l.decisions.stacking import learn_stackings, stacking_weights

HOLD = 7.0


def entries(rng, of=(0.8, 0.5), n=400, n_labels=3):
    z = rng.normal(size=(2, n, n_labels))
    starts = logit(rng.uniform(0.1, 0.5, (n, n_labels)))
    truth = (rng.random(starts.shape) < expit(starts + np.tensordot(of, z, 1))).astype(float)
    used = rng.random(starts.shape) < 0.8
    return (np.where(used, z, 0), starts, truth, used), np.full((2, n_labels), 0.3), HOLD


def objective(w, given, around, hold):
    z, starts, truth, used = given
    p = expit(starts + (w[:, None] * z).sum(axis=0))
    losses = -np.log(np.where(truth > 0, p, 1 - p))
    return losses[used].sum() + hold / 2 * np.sum((w - around) ** 2)


def slopes(w, given, step=1e-4):
    found = np.empty(w.shape)
    for at in np.ndindex(w.shape):
        e = np.zeros(w.shape)
        e[at] = step
        found[at] = (objective(w + e, *given) - objective(w - e, *given)) / (2 * step)
    return found


def test_weights_minimise_their_objective(rng):
    given = entries(rng)
    w = stacking_weights(*given)
    assert (w > 0.1).all()
    assert_allclose(slopes(w, given), 0, atol=1e-5)


def test_a_score_that_falls_has_no_weight(rng):
    given = entries(rng, (0.8, -0.5))
    w = stacking_weights(*given)
    assert (w[1] == 0).all() and (w[0] > 0.1).all()
    found = slopes(w, given)
    assert_allclose(found[0], 0, atol=1e-5)
    assert (found[1] > 0).all()


def tables(rng, of=(0.8, 0.5), n=300, n_labels=3):
    """Held-out scores of own and shared columns on scales of their own."""
    z = rng.normal(size=(2, n, n_labels))
    base = np.linspace(-1, 0, n_labels)
    truth = (rng.random((n, n_labels)) < expit(base + np.tensordot(of, z, 1))).astype(float)
    truth[rng.random(truth.shape) < 0.2] = np.nan
    scores = 3 + 0.2 * z[0], -1 + 5 * z[1]
    return *(HeldOutScores(S, truth, S) for S in scores), base


def learn_stacking(own, shared, base):
    return learn_stackings([(own, shared)], base[None])[0]


def test_the_sum_has_the_learned_weights(rng):
    own, shared, base = tables(rng)
    found = learn_stacking(own, shared, base)
    a, b = found.weights
    S = found.combine(own.scores, shared.scores)
    z = [(of.final - of.final.mean(axis=0)) / of.final.std(axis=0) for of in (own, shared)]
    expected = a * z[0] + b * z[1]
    for k in range(3):
        assert (found.weights[:, k] > 0.1).all()
        slope, level = np.polyfit(expected[:, k], S[:, k], 1)
        assert slope > 0
        assert_allclose(S[:, k], level + slope * expected[:, k], rtol=1e-10)


def test_without_own_information_the_shared_score_stays_as_it_is(rng):
    own, shared, base = tables(rng, (0, 1.0))
    own = HeldOutScores(np.full_like(own.scores, 2.0), own.truth, np.full_like(own.final, 2.0))
    found = learn_stacking(own, shared, base)
    assert (found.weights[0] == 0).all()
    assert_allclose(found.combine(own.scores, shared.scores), shared.scores, rtol=1e-12)


@pytest.mark.parametrize("of", [(1.0, 0.0), (1.0, -0.5)])
def test_scores_that_do_not_help_are_left_out(rng, of):
    own, shared, base = tables(rng, of, n=3000)
    found = learn_stacking(own, shared, base)
    assert found is None or (found.weights[1] < 0.1).all()
    if of[1] < 0:
        assert found is None
    constant = HeldOutScores(np.ones_like(shared.scores), own.truth, np.ones_like(shared.final))
    assert learn_stacking(own, constant, base) is None
    nothing = HeldOutScores(np.full_like(shared.scores, np.nan), own.truth, shared.final)
    assert learn_stacking(own, nothing, base) is None


def test_a_view_with_few_entries_has_the_weights_of_the_others(rng):
    """Own columns say nothing in any view; one has too few entries to tell."""
    many = [tables(rng, (0, 1.0), n=2000) for _ in range(3)]
    own, shared, base = tables(rng, (0, 1.0), n=4)
    pairs = [(own, shared) for own, shared, _ in many] + [(own, shared)]
    found = learn_stackings(pairs, np.array([base] * 4))
    alone = learn_stacking(own, shared, base)
    assert (found[3].weights[1] > 0.7).all()
    assert alone is None or (alone.weights[1] < 0.4).all()
    assert (found[3].weights[0] < 0.2 * found[3].weights[1]).all()
