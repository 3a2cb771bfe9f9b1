"""The two stages of lrMMC from their definitions."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from naim3l_bench.methods.lrmmc import CommonRepresentation, LabelCompletion

N, RANK, LABELS = 12, 3, 4


@pytest.fixture
def views(rng):
    present = rng.random((2, N)) < 0.7
    X = [o[:, None] * rng.normal(size=(N, d)) for o, d in zip(present, (5, 4), strict=True)]
    return CommonRepresentation(X, present, lam=0.2, ridge=0.05)


@pytest.fixture
def completion(rng):
    Y = rng.choice([-1.0, 0.0, 1.0], size=(N, LABELS))
    P = np.where(Y > 0, 2.0, np.abs(Y))
    return LabelCompletion(Y, P, rng.normal(size=(N, RANK)), label_weight=0.8)


@pytest.fixture
def B(rng):
    return rng.normal(size=(N, RANK))


class TestRepresentation:
    def test_objective_is_its_definition(self, views, B):
        T = views.solve_T(B)
        expected = 0.2 / np.sqrt(N) * np.linalg.svd(B, compute_uv=False).sum()
        expected += 0.05 * sum(np.sum(T_v**2) for T_v in T)
        for i, v in np.argwhere(views.present.T):
            expected += np.sum((B[i] @ T[v] - views.features[v][i]) ** 2) / N
        assert views.objective(B, T) == pytest.approx(expected)

    def test_gradient_matches_finite_differences(self, views, B, rng):
        T = [rng.normal(size=(RANK, d)) for d in (5, 4)]
        numeric = approx_fprime(
            B.ravel(), lambda x: views.loss_and_gradient(x.reshape(B.shape), T)[0], 1e-7
        )
        np.testing.assert_allclose(views.loss_and_gradient(B, T)[1].ravel(), numeric, atol=1e-5)

    def test_T_is_the_minimiser(self, views, B, rng):
        T = views.solve_T(B)
        for step in (1e-3, 0.1):
            moved = [T_v + step * rng.normal(size=T_v.shape) for T_v in T]
            assert views.objective(B, T) < views.objective(B, moved)

    def test_steps_of_B_descend_to_its_minimiser(self, views, B, rng):
        T = views.solve_T(B)
        values = [views.objective(B, T)]
        for _ in range(40):
            B = views.shrink_B(B, T, 1)
            values.append(views.objective(B, T))
        assert (np.diff(values) <= 1e-12).all()
        B = views.shrink_B(B, T, 2000)
        for step in (1e-3, 0.1):
            assert views.objective(B, T) < views.objective(B + step * rng.normal(size=B.shape), T)

    def test_without_a_map_the_representation_is_zero(self, views, B):
        assert not views.shrink_B(B, [np.zeros((RANK, d)) for d in (5, 4)], 1).any()


class TestCompletion:
    def test_objective_is_its_definition(self, completion, rng):
        Z = rng.normal(size=(N, LABELS + RANK + 1))
        expected = 0.3 * np.linalg.svd(Z, compute_uv=False).sum()
        expected += np.mean((Z[:, LABELS:-1] - completion.B) ** 2) / 2
        n_known = np.sum(completion.Y != 0)
        for i, k in np.argwhere(completion.Y):
            loss = np.log(1 + np.exp(-completion.Y[i, k] * Z[i, k]))
            expected += 0.8 / n_known * completion.P[i, k] * loss
        assert completion.objective(Z, 0.3) == pytest.approx(expected)

    def test_gradient_matches_finite_differences_and_is_lipschitz(self, completion, rng):
        Z, other = rng.normal(size=(2, N, LABELS + RANK + 1))

        def loss(x):
            return completion.loss_and_gradient(x.reshape(Z.shape))[0]

        gradient = completion.loss_and_gradient(Z)[1]
        np.testing.assert_allclose(
            gradient.ravel(), approx_fprime(Z.ravel(), loss, 1e-7), atol=1e-6
        )
        of_other = completion.loss_and_gradient(other)[1]
        assert np.linalg.norm(of_other - gradient) <= np.linalg.norm(other - Z) / completion.step

    def test_start_is_the_nearest_matrix_of_rank_one_but_for_the_ones(self, completion):
        Z, sigma = completion.start()
        whole = np.hstack([completion.Y, completion.B, np.ones((N, 1))])
        U, s, Vt = np.linalg.svd(whole)
        assert sigma == pytest.approx(s[0])
        np.testing.assert_allclose(Z[:, :-1], (s[0] * np.outer(U[:, 0], Vt[0]))[:, :-1], atol=1e-12)
        np.testing.assert_array_equal(Z[:, -1], 1)

    def test_a_step_minimises_the_majoriser_before_ones_are_reset(self, completion, rng):
        Z, lam, step = rng.normal(size=(N, LABELS + RANK + 1)), 0.004, completion.step
        target = Z - step * completion.loss_and_gradient(Z)[1]
        new = completion.shrink(Z, lam)
        U, s, Vt = np.linalg.svd(target, full_matrices=False)
        expected = (U * np.maximum(s - step * lam, 0)) @ Vt
        np.testing.assert_allclose(new[:, :-1], expected[:, :-1], atol=1e-10)
        np.testing.assert_array_equal(new[:, -1], 1)

    def test_unknown_labels_have_no_gradient(self, completion, rng):
        Z = rng.normal(size=(N, LABELS + RANK + 1))
        gradient = completion.loss_and_gradient(Z)[1]
        assert not gradient[:, :LABELS][completion.Y == 0].any() and not gradient[:, -1].any()
