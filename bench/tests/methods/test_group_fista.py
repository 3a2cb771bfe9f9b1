"""Group FISTA: descent, optimality conditions, and the penalty that leaves no weights."""

import numpy as np
import pytest

from naim3l.extend import AlignedRows
from naim3l_bench.methods.alternation import alternate
from naim3l_bench.methods.imsf import GroupFista, PatternTasks, standardisation


@pytest.fixture
def tasks(rng):
    present = np.ones((2, 90), dtype=bool)
    present[0, :30] = present[1, 30:60] = False
    X = rng.normal(size=(90, 7))
    scores = X @ rng.normal(size=(7, 4)) + 0.5 * rng.normal(size=(90, 4))
    Y = np.where(rng.random((90, 4)) < 0.3, 0, np.sign(scores))
    Y[:, 3] = -1  # nothing to learn
    features = [X[:, :4] * present[0][:, None], X[:, 4:] * present[1][:, None]]
    rows = AlignedRows(features, present, Y)
    return PatternTasks(rows, *standardisation(rows))


def solve(tasks, share, tol=1e-13):
    fista = GroupFista(tasks, share * tasks.largest_penalty(), tol)
    return fista, alternate(fista.step, 5000, tol, has_ended=lambda: not fista.left.size)


def test_the_objective_falls_to_a_point_that_meets_the_optimality_conditions(tasks):
    fista, result = solve(tasks, 0.2)
    assert result.converged
    assert (np.diff([record["objective"] for record in result.history]) <= 0).all()
    assert [record["labels"] for record in result.history][-1] < 4  # solved labels are left alone
    gradient, penalties = tasks.gradient(fista.W), fista.penalties
    norms, slopes = tasks.norms(fista.W), tasks.norms(gradient)
    assert (slopes <= penalties + 1e-5).all()  # zero groups: the penalty outweighs the slope
    assert (norms == 0).any() and (norms > 0).any()
    directions = tasks.groups.T @ (penalties / np.where(norms > 0, norms, np.inf))
    free = tasks.groups.T @ (norms > 0) > 0
    free[[at.stop - 1 for at in tasks.weight_slices]] = True
    assert np.abs((gradient + directions * fista.W)[free]).max() < 1e-5


def test_the_largest_penalty_leaves_no_weights_and_a_little_less_does(tasks):
    for share, some in ((1.0, False), (1.2, False), (0.95, True)):
        fista, _ = solve(tasks, share)
        assert tasks.norms(fista.W)[:, :3].any(axis=0).tolist() == [some] * 3


def test_labels_are_independent_of_each_other(tasks):
    def after_20_steps(labels):
        fista = GroupFista(tasks, 0.1 * tasks.largest_penalty(), 0)
        fista.left = np.array(labels)
        for _ in range(20):
            fista.step()
        return fista.W

    together = after_20_steps([0, 1, 2, 3])
    for k in range(3):
        np.testing.assert_allclose(after_20_steps([k])[:, k], together[:, k], atol=1e-10)


def test_a_label_with_nothing_to_learn_keeps_its_start(tasks):
    fista, _ = solve(tasks, 0.1)
    np.testing.assert_array_equal(fista.W[:, 3], tasks.start[:, 3])


def test_its_momentum_pays(tasks):
    """Fewer steps than plain proximal gradients, on the same problem."""
    fast, quick = solve(tasks, 0.01, tol=1e-9)
    plain = GroupFista(tasks, 0.01 * tasks.largest_penalty(), 1e-9)

    def step():
        plain.W_old = plain.W
        return plain.step()

    slow = alternate(step, len(quick.history), 1e-9)
    assert fast.objectives.sum() <= slow.history[-1]["objective"]
