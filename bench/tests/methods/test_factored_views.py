"""Blocks of the factored views: exact minimisers, equal to those of a loop over rows."""

import numpy as np
import pytest

from naim3l_bench.methods import mvliv as factored_views
from naim3l_bench.methods.mvliv import FactoredViews

RANK = 3


@pytest.fixture
def views(rng):
    present = rng.random((2, 15)) < 0.7
    X = [
        has_view[:, None] * rng.normal(size=(15, d))
        for has_view, d in zip(present, (4, 5), strict=True)
    ]
    P = rng.choice([0.0, 1.0, 2.5], size=(15, 6))
    return FactoredViews(X, present, (P > 0) * rng.normal(size=(15, 6)), P, ridge=0.3)


@pytest.fixture
def factors(rng):
    H, C = rng.normal(size=(15, RANK)), rng.normal(size=(6, RANK))
    return H, [rng.normal(size=(d, RANK)) for d in (4, 5)], C


def test_the_objective_is_the_sum_over_entries_that_are_there(views, factors):
    H, U, C = factors
    expected = 0.3 / 2 * sum(np.sum(F**2) for F in (H, *U, C))
    for i, h in enumerate(H):
        for v in range(2):
            if views.present[v, i]:
                expected += np.sum((views.features[v][i] - U[v] @ h) ** 2) / 2
        expected += np.sum(views.P[i] * (views.Y[i] - C @ h) ** 2) / 2
    assert views.objective(*factors) == pytest.approx(expected)


@pytest.mark.parametrize("block", [1 << 21, 20, 1], ids=["whole", "two rows", "row"])
def test_points_are_those_of_a_loop_over_rows(views, factors, block, monkeypatch):
    monkeypatch.setattr(factored_views, "BLOCK", block)
    _, U, C = factors
    for i, h in enumerate(views.solve_H(U, C)):
        A, b = 0.3 * np.eye(RANK) + (C.T * views.P[i]) @ C, C.T @ (views.P[i] * views.Y[i])
        for v in np.flatnonzero(views.present[:, i]):
            A, b = A + U[v].T @ U[v], b + U[v].T @ views.features[v][i]
        np.testing.assert_allclose(h, np.linalg.solve(A, b))


@pytest.mark.parametrize("block", [1 << 21, 20], ids=["whole", "two rows"])
def test_the_label_basis_is_that_of_a_loop_over_labels(views, factors, block, monkeypatch):
    monkeypatch.setattr(factored_views, "BLOCK", block)
    H, _, _ = factors
    for k, c in enumerate(views.solve_C(H)):
        A = (H.T * views.P[:, k]) @ H + 0.3 * np.eye(RANK)
        np.testing.assert_allclose(c, np.linalg.solve(A, H.T @ (views.P[:, k] * views.Y[:, k])))


def test_each_block_is_a_minimiser(views, factors, rng):
    H, U, C = factors
    at_H, at_U, at_C = views.solve_H(U, C), views.solve_U(H), views.solve_C(H)
    for step in (1e-3, 0.1):
        moved = [U_v + step * rng.normal(size=U_v.shape) for U_v in at_U]
        of_points = at_H + step * rng.normal(size=H.shape)
        of_labels = at_C + step * rng.normal(size=C.shape)
        assert views.objective(at_H, U, C) < views.objective(of_points, U, C)
        assert views.objective(H, at_U, C) < views.objective(H, moved, C)
        assert views.objective(H, U, at_C) < views.objective(H, U, of_labels)


def test_the_start_is_along_singular_vectors(views):
    U, C = views.start(RANK, np.random.RandomState(0))
    _, s, Vt = np.linalg.svd(np.hstack([*views.features, views.P * views.Y]))
    basis = np.vstack([*U, C])
    assert [len(U_v) for U_v in U] == [4, 5]
    np.testing.assert_allclose(basis.T @ basis * np.sqrt(15), np.diag(s[:RANK]), atol=1e-6)
    np.testing.assert_allclose(basis @ (basis.T @ Vt[:RANK].T), Vt[:RANK].T * s[:RANK] / 15**0.5,
                               atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_missing_rows_and_labels_of_low_rank_are_restored(seed):
    rng = np.random.default_rng(seed)
    H, parts = rng.normal(size=(200, RANK)), [rng.normal(size=(d, RANK)) for d in (7, 6, 5)]
    whole = [H @ part.T for part in parts]
    present = rng.random((2, 200)) < 0.6
    present[0, ~present.any(axis=0)] = True
    P = (rng.random((200, 5)) < 0.5) * 1.0
    X = [o[:, None] * X_v for o, X_v in zip(present, whole, strict=False)]
    views = FactoredViews(X, present, P * whole[2], P, ridge=1e-2)
    U, C = views.start(RANK, np.random.RandomState(0))
    for _ in range(50):
        H = views.solve_H(U, C)
        U, C = views.solve_U(H), views.solve_C(H)
    missing = [*~present, P == 0]
    for found, X_v, at in zip([*U, C], whole, missing, strict=True):
        error = (H @ found.T - X_v)[at]
        assert np.linalg.norm(error) < 0.02 * np.linalg.norm(X_v[at])
