"""Updates of iMVWL from their definitions, and non-negative points of new rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, nnls

from naim3l.extend import trace_norm
from naim3l_bench.methods.imvwl import WeakFactors, WeakLabels, nonnegative_points

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


def update(weak, name, at):
    of_U = (weak.products(at.V),) if name == "U" else ()
    return getattr(weak, f"update_{name}")(at, *of_U)


def test_the_objective_is_its_definition(weak, at):
    loss = np.sum(weak.P * (at.V @ at.W @ at.S - weak.Y) ** 2)
    expected = 0.7 * loss + 0.2 * np.linalg.svd(at.S, compute_uv=False).sum()
    for i, v in np.argwhere(weak.present.T):
        expected += np.sum((weak.features[v][i] - at.U[v] @ at.V[i]) ** 2)
    assert weak.objective(at) == pytest.approx(expected)


def test_a_step_updates_all_variables_and_returns_the_objective(weak, at):
    for _ in range(30):
        new, value = weak.step(at)
        assert value == pytest.approx(weak.objective(new))
        assert value <= weak.objective(at) * (1 + 1e-12)
        assert all(getattr(new, name) is not getattr(at, name) for name in "UVWS")
        at = new


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
            new = update(objective, name, at)
            assert objective.objective(new) <= objective.objective(at) * (1 + 1e-12)
            assert min(new.V.min(), new.W.min(), *(U_v.min() for U_v in new.U)) >= 0
            changed = [other for other in "UVWS" if getattr(new, other) is not getattr(at, other)]
            assert changed == [name]
            at = new
        at = weak.update_W(weak.update_S(at))


@pytest.mark.parametrize("name", ["U", "V"])
def test_multiplicative_updates_stop_where_the_gradient_vanishes(weak, at, name):
    for _ in range(3000):
        at = update(weak, name, at)
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


def test_the_update_of_V_is_that_of_non_negative_factorisation_without_negative_entries(weak, at):
    at = replace(at, S=np.abs(at.S))
    G = at.W @ at.S
    for i, v in enumerate(at.V):
        up, down = 0.7 * (weak.P[i] * weak.Y[i]) @ G.T, 0.7 * (weak.P[i] * (v @ G)) @ G.T
        for X_v, has_view, U_v in zip(weak.features, weak.present, at.U, strict=True):
            up, down = up + X_v[i] @ U_v, down + has_view[i] * (U_v.T @ U_v @ v)
        expected = v * np.where(down > 0, np.maximum(up / np.maximum(down, 1e-12), 0.1), 1)
        np.testing.assert_allclose(weak.update_V(at).V[i], expected, atol=1e-9)


def test_the_penalty_of_points_is_the_noise_by_their_second_moments(rng):
    """Features of known noise, and points of known moments, which are correlated."""
    n, sigma, widths = 4000, 0.1, (30, 20)
    V = rng.random((n, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1.0]])
    U = [rng.random((d, 3)) for d in widths]
    present = rng.random((2, n)) < 0.7
    present[0] |= ~present.any(axis=0)
    X = [o[:, None] * (V @ U_v.T + sigma * rng.normal(size=(n, len(U_v))))
         for o, U_v in zip(present, U, strict=True)]  # fmt: skip
    weak = WeakLabels(X, present, np.zeros((n, 1)), np.zeros((n, 1)), 1.0, 1.0)
    fitted = np.empty_like(V)  # to the features, which makes residuals smaller than the noise
    for i in range(n):
        rows = np.repeat(present[:, i], widths)
        fitted[i] = np.linalg.lstsq(np.vstack(U)[rows], np.hstack(X)[i, rows], rcond=None)[0]
    penalty = weak.point_penalty(WeakFactors(fitted, U, np.ones((3, 1)), np.ones((1, 1))))
    noise = penalty @ (fitted.T @ fitted / n)
    np.testing.assert_allclose(noise, sigma**2 * np.eye(3), rtol=0.02, atol=1e-5)


def test_the_penalty_does_not_depend_on_the_units_of_points(weak, at):
    by = np.array([1e-30, 0.1, 3.0, 1e40])
    scaled = replace(at, V=at.V * by, U=[U_v / by for U_v in at.U])
    ratio = weak.point_penalty(scaled) / weak.point_penalty(at)
    np.testing.assert_allclose(ratio * np.outer(by, by), 1, rtol=1e-6)


@pytest.mark.parametrize("V", [0.0, 1.0])
def test_the_penalty_of_points_that_are_all_the_same_is_finite(weak, at, V):
    U = [np.zeros_like(U_v) for U_v in at.U]
    penalty = weak.point_penalty(replace(at, V=np.full_like(at.V, V), U=U))
    assert np.isfinite(penalty).all() and np.linalg.eigvalsh(penalty)[0] > 0


def test_points_of_new_rows_are_penalised_non_negative_least_squares(rng):
    basis, present = rng.random((sum(WIDTHS), RANK)), rng.random((2, 20)) < 0.7
    present[0, ~present.any(axis=0)] = True
    X = [o[:, None] * rng.random((20, d)) for o, d in zip(present, WIDTHS, strict=True)]
    root = 0.3 * rng.normal(size=(RANK, RANK))
    points = nonnegative_points(basis, X, present, root.T @ root)
    for i, point in enumerate(points):
        columns = np.repeat(present[:, i], WIDTHS)
        targets = np.append(np.hstack(X)[i, columns], np.zeros(RANK))
        expected, _ = nnls(np.vstack([basis[columns], root]), targets)
        np.testing.assert_allclose(point, expected, atol=1e-3)


def test_a_basis_of_zeros_has_points_at_zero():
    X, present = [np.ones((4, 3))], np.ones((1, 4), bool)
    points = nonnegative_points(np.zeros((3, 2)), X, present, np.eye(2))
    np.testing.assert_array_equal(points, np.zeros((4, 2)))
