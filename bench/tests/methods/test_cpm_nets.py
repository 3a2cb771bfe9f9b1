"""CPM-Nets: its objective by loops over entries, its gradient, and what must not matter."""

from itertools import pairwise

import numpy as np
import pytest

from naim3l_bench.methods import CPMNets
from naim3l_bench.methods.cpm_nets import LabelledPoints
from naim3l_bench.methods.mvliv import FactoredViews
from planted_rows import VIEWS, planted, with_gaps

AS_GIVEN = {"views": VIEWS, "features": None, "random_state": 0}
N_ROWS, N_LABELS, RANK, LAM, RIDGE = 15, 4, 3, 0.7, 0.3


@pytest.fixture
def points(rng):
    """Label 1 has one yes, label 2 only no; a fifth of the entries are unknown."""
    present = rng.random((2, N_ROWS)) < 0.7
    X = [o[:, None] * rng.normal(size=(N_ROWS, d)) for o, d in zip(present, (4, 5), strict=True)]
    Y = rng.choice([-1.0, 0.0, 1.0], size=(N_ROWS, N_LABELS), p=[0.5, 0.2, 0.3])
    Y[:, 1:3] = -np.abs(Y[:, 1:3])
    Y[4, 1] = 1
    P = np.where(Y == 1, 2.5, np.abs(Y))
    none = np.zeros((N_ROWS, 0))
    return LabelledPoints(FactoredViews(X, present, none, none, RIDGE), Y, P, LAM)


@pytest.fixture
def factors(rng):
    return rng.normal(size=(N_ROWS, RANK)), [rng.normal(size=(d, RANK)) for d in (4, 5)]


def naive_scores(points, H):
    """Means without the point itself, of labels that are known as yes and as no."""
    S = np.empty(points.Y.shape)
    for k, y in enumerate(points.Y.T):
        weights = np.where(y == 1, 2.5, np.abs(y))
        for i in range(len(H)):
            S[i, k] = weights @ y / weights.sum()
            for side in (1, -1):
                others = [h for j, h in enumerate(H) if y[j] == side and j != i]
                if others and (y == 1).any() and (y == -1).any():
                    S[i, k] += side * H[i] @ np.mean(others, axis=0)
    return S


def test_scores_and_objective_are_those_of_a_loop_over_entries(points, factors):
    H, U = factors
    S = naive_scores(points, H)
    np.testing.assert_allclose(points.scores(H), S)
    expected = RIDGE / 2 * sum(np.sum(F**2) for F in (H, *U))
    for i, h in enumerate(H):
        for v in range(2):
            if points.views.present[v, i]:
                expected += np.sum((points.views.features[v][i] - U[v] @ h) ** 2) / 2
        for k, y in enumerate(points.Y[i]):
            n_known = np.sum(points.Y[:, k] != 0)
            weight = {1: 2.5, -1: 1, 0: 0}[y] * LAM * N_ROWS / N_LABELS / n_known
            expected += weight * max(0, 1 - y * S[i, k])
    assert points.objective(H, U) == pytest.approx(expected)


def test_the_gradient_of_the_labels_is_that_of_finite_differences(points, factors):
    H, U = factors
    found, step = np.empty_like(H), 1e-6
    for at in np.ndindex(H.shape):
        ends = []
        for sign in (1, -1):
            moved = H.copy()
            moved[at] += sign * step
            ends.append(points.objective(moved, U) - points.views.objective(moved, U, H[:0]))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    assert np.abs(found).max() > 0.1
    np.testing.assert_allclose(points.label_gradient(H), found, atol=1e-7)


def test_a_step_lowers_the_objective_and_without_labels_it_is_the_minimiser(points, factors):
    H, U = factors
    assert points.objective(points.step(H, U), U) < points.objective(H, U)
    alone = LabelledPoints(points.views, points.Y, points.weights, 0.0)
    exact = points.views.solve_H(U, H[:0])
    np.testing.assert_allclose(alone.step(H, U), exact)


def test_contrasts_are_differences_of_the_means_of_both_classes(points, factors):
    H, _ = factors
    found = points.contrasts(H)
    for k in (0, 1, 3):
        y = points.Y[:, k]
        np.testing.assert_allclose(found[k], H[y == 1].mean(axis=0) - H[y == -1].mean(axis=0))
    np.testing.assert_array_equal(found[2], 0)  # never known as yes


def test_the_objective_does_not_rise(rng):
    data = with_gaps(rng, *planted(rng, n_rows=60))
    model = CPMNets(max_iter=20, tol=0, **AS_GIVEN).fit(*data)
    values = [record["objective"] for record in model.history_]
    assert len(values) == 20 and model.objective_ == values[-1]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))


def test_learns_from_missing_views_and_labels(rng):
    X, Y = planted(rng)
    train, known = with_gaps(rng, X[:200], Y[:200])
    model = CPMNets(rank=3, **AS_GIVEN).fit(train, known)
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.85


def test_a_missing_view_has_no_influence(points, factors, rng):
    """Neither on the objective nor on the scores of a new row."""
    H, U = factors
    views = points.views
    noise = [~o[:, None] * rng.normal(size=X_v.shape)
             for o, X_v in zip(views.present, views.features, strict=True)]  # fmt: skip
    X, Y = planted(rng, n_rows=60)
    model = CPMNets(**AS_GIVEN).fit(X, Y)
    arrays = {name: getattr(model, f"{name}_") for name in model._shapes}
    split, present = [X[:, at] for at in VIEWS.values()], np.array([[True], [False]]).repeat(60, 1)
    expected = model._score_rows(arrays, split, present)
    other = [split[0], split[1] + rng.normal(size=split[1].shape)]
    np.testing.assert_array_equal(model._score_rows(arrays, other, present), expected)
    with_noise = [X_v + E for X_v, E in zip(views.features, noise, strict=True)]
    same = FactoredViews(with_noise, views.present, views.Y, views.P, RIDGE)
    assert same.objective(H, U, H[:0]) == views.objective(H, U, H[:0])


def test_labels_draw_points_of_the_same_class_together(rng):
    """Views that are noise, and one label: with a large weight, points are apart by class alone."""
    X, y = rng.normal(size=(40, 13)), np.arange(40) % 2
    model = CPMNets(lam=100.0, rank=5, **AS_GIVEN).fit(X, y)
    blind = CPMNets(lam=0.0, rank=5, **AS_GIVEN).fit(X, y)
    assert np.linalg.norm(model.contrasts_) > 2 * np.linalg.norm(blind.contrasts_)
