"""Updates of iMVWL from their definitions, and non-negative points of new rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, nnls

from naim3l.solvers.nuclear import trace_norm
from naim3l.solvers.weak_labels import WeakFactors, WeakLabels, nonnegative_points

N, RANK, LABELS, WIDTHS = 14, 4, 5, (6, 3)


@pytest.fixture
def weak(rng):
    present = rng.random((2, N)) < 0.7
    X = [o[:, None] * rng.random((N, d)) for o, d in zip(present, WIDTHS, strict=True)]
    P = rng.choice([0.0, 1.0, 3.0], size=(N, LABELS))
    return WeakLabels(X, present, (rng.random((N, LABELS)) < 0.4) * 1.0, P, 0.7, 0.2)


@pytest.fixture
def at(rng):
    """Factors with correlations of both signs."""
    U = [rng.random((d, RANK)) for d in WIDTHS]
    S = rng.normal(size=(LABELS, LABELS))
    return WeakFactors(rng.random((N, RANK)), U, rng.random((RANK, LABELS)), S)


def test_the_objective_is_its_definition(weak, at):
    loss = np.sum(weak.P * (at.V @ at.W @ at.S - weak.Y) ** 2)
    expected = 0.7 * loss + 0.2 * np.linalg.svd(at.S, compute_uv=False).sum()
    for i, v in np.argwhere(weak.present.T):
        expected += np.sum((weak.features[v][i] - at.U[v] @ at.V[i]) ** 2)
    assert weak.objective(at) == pytest.approx(expected)


def test_the_start_has_the_means_of_features_and_labels(weak):
    weak = replace(weak, present=np.ones_like(weak.present))
    at = weak.start(200, np.random.RandomState(0))
    means = [np.mean(at.V @ U_v.T) for U_v in at.U]
    expected = sum(X_v.sum() for X_v in weak.features) / (N * sum(WIDTHS))
    np.testing.assert_allclose(means, expected, rtol=0.1)
    known = weak.P > 0
    weighted = np.average(weak.Y[known], weights=weak.P[known])
    assert np.mean(at.V @ at.W @ at.S) == pytest.approx(weighted, rel=0.1)


@pytest.mark.parametrize("name", ["U", "V", "W", "S"])
def test_no_update_raises_the_objective(weak, at, name):
    for label_weight, lam in ((0.7, 0.2), (50.0, 0.01), (1e-3, 10.0)):
        objective = replace(weak, label_weight=label_weight, lam=lam)
        for _ in range(30):
            new = getattr(objective, f"update_{name}")(at)
            assert objective.objective(new) <= objective.objective(at) * (1 + 1e-12)
            assert min(new.V.min(), new.W.min(), *(U_v.min() for U_v in new.U)) >= 0
            changed = [other for other in "UVWS" if getattr(new, other) is not getattr(at, other)]
            assert changed == [name]
            at = new
        at = weak.update_W(weak.update_S(at))


@pytest.mark.parametrize("name", ["U", "V"])
def test_multiplicative_updates_stop_where_the_gradient_vanishes(weak, at, name):
    for _ in range(3000):
        at = getattr(weak, f"update_{name}")(at)
    block = at.U[0] if name == "U" else at.V

    def value(x):
        moved = x.reshape(block.shape)
        return weak.objective(replace(at, **{name: [moved, at.U[1]] if name == "U" else moved}))

    gradient = approx_fprime(block.ravel(), value, 1e-7)
    assert np.abs(gradient * block.ravel()).max() < 1e-2  # zero, or the factor is at its bound
    assert gradient.min() > -0.1


def test_the_step_of_W_is_along_the_gradient(weak, at):
    W = at.W + 10  # far from the bound
    start = replace(at, W=W)
    numeric = approx_fprime(
        W.ravel(), lambda x: weak.label_loss(replace(at, W=x.reshape(W.shape))), 1e-6
    )
    step = (W - weak.update_W(start).W).ravel()
    curvature = 2 * 3.0 * np.linalg.norm(at.V, 2) ** 2 * np.linalg.norm(at.S, 2) ** 2
    np.testing.assert_allclose(step, numeric / curvature, rtol=1e-3, atol=1e-6)


def test_the_step_of_S_minimises_its_majoriser(weak, at, rng):
    def loss(x):
        return 0.7 * weak.label_loss(replace(at, S=x.reshape(at.S.shape)))

    gradient = approx_fprime(at.S.ravel(), loss, 1e-6).reshape(at.S.shape)
    curvature = 2 * 0.7 * 3.0 * np.linalg.norm(at.V @ at.W, 2) ** 2

    def majoriser(S):
        move = S - at.S
        return np.vdot(gradient, move) + curvature / 2 * np.sum(move**2) + 0.2 * trace_norm(S)

    new = weak.update_S(at).S
    for size in (1e-3, 1e-2, 0.1):
        assert majoriser(new) < majoriser(new + size * rng.normal(size=new.shape))


def test_points_of_new_rows_are_non_negative_least_squares(rng):
    basis, present = rng.random((sum(WIDTHS), RANK)), rng.random((2, 20)) < 0.7
    present[0, ~present.any(axis=0)] = True
    X = [o[:, None] * rng.random((20, d)) for o, d in zip(present, WIDTHS, strict=True)]
    points = nonnegative_points(basis, X, present)
    for i, point in enumerate(points):
        columns = np.repeat(present[:, i], WIDTHS)
        expected, _ = nnls(basis[columns], np.hstack(X)[i, columns])
        np.testing.assert_allclose(point, expected, atol=1e-3)


def test_a_basis_of_zeros_has_points_at_zero():
    points = nonnegative_points(np.zeros((3, 2)), [np.ones((4, 3))], np.ones((1, 4), bool))
    np.testing.assert_array_equal(points, np.zeros((4, 2)))
