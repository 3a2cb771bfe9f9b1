"""Kernel maps against their definitions, and kernel models against the dual problem."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel, chi2_kernel, rbf_kernel

from naim3l import NAIM3L, Kernel, PerViewRidge
from naim3l._arrays import as_numpy
from naim3l.datasets import make_unpaired
from naim3l.features import kernels
from naim3l.features.kernels import KERNELS, LANDMARKS
from naim3l.problem.rows import Problem
from naim3l.solvers.objective import Objective

ALL_KERNELS = [*KERNELS, lambda A, B: (1 + A @ B.T) ** 2]


@pytest.fixture
def counts(rng):
    return rng.poisson(3.0, (40, 6)) + 1.0 * rng.random((40, 6))


def kernel_of(name, X, Y):
    """Values with gamma 0.7, from scikit-learn's own or the formula."""
    if callable(name):
        return name(X, Y)
    if name == "linear":
        return X @ Y.T
    if name == "rbf":
        return rbf_kernel(X, Y, gamma=0.7)
    X, Y = (Z / Z.sum(axis=1, keepdims=True) for Z in (X, Y))
    if name == "chi2":
        return chi2_kernel(X, Y, gamma=0.7)
    X, Y = np.sqrt(X), np.sqrt(Y)
    return np.exp(-0.7 * cdist(X, Y, "cityblock" if name == "laplacian" else "sqeuclidean"))


@pytest.mark.parametrize("name", ALL_KERNELS)
@pytest.mark.parametrize("n_landmarks", [None, 100])
def test_all_rows_for_landmarks_give_the_kernel_itself(counts, name, n_landmarks):
    features = Kernel(name, n_landmarks, gamma=0.7).fit(counts).apply(counts)
    assert_allclose(features @ features.T, kernel_of(name, counts, counts), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("name", ["rbf", "chi2", "hellinger"])
def test_new_rows_get_the_nystroem_approximation(counts, rng, name, landmarks):
    fitted = Kernel(name, 12, gamma=0.7, landmarks=landmarks).fit(counts)
    assert fitted.landmarks.shape == (12, 6)
    new = rng.poisson(3.0, (5, 6)) + 1.0
    if name == "hellinger":  # kept as square roots; their means are roots of no histogram
        roots = np.sqrt(new / new.sum(axis=1, keepdims=True))
        between = rbf_kernel(roots, fitted.landmarks, gamma=0.7)
        among = rbf_kernel(fitted.landmarks, gamma=0.7)
    else:
        between = kernel_of(name, new, fitted.landmarks)
        among = kernel_of(name, fitted.landmarks, fitted.landmarks)
    features = fitted.apply(new)
    expected = between @ np.linalg.solve(among, between.T)
    assert_allclose(features @ features.T, expected, atol=1e-6)


def test_more_landmarks_come_closer_to_the_kernel(rng):
    X = rng.normal(size=(150, 4))
    K = rbf_kernel(X, gamma=0.2)
    for landmarks in LANDMARKS:
        errors = []
        for n in (5, 20, 80):
            F = Kernel(n_landmarks=n, gamma=0.2, landmarks=landmarks).fit(X).apply(X)
            errors.append(np.linalg.norm(F @ F.T - K))
        assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_leverage_finds_the_few_rows_that_uniform_draws_miss(rng):
    """A small cluster far from all others: its rows have the largest leverage."""
    shares = dict.fromkeys(("uniform", "leverage"), 0.0)
    for _ in range(10):
        crowd, few = rng.normal(size=(480, 3)) * 0.05, rng.normal(size=(20, 3)) + 30
        X = rng.permutation(np.vstack([crowd, few]))
        for landmarks in shares:
            fitted = Kernel(n_landmarks=20, gamma=0.5, landmarks=landmarks).fit(X)
            shares[landmarks] += (fitted.landmarks[:, 0] > 10).mean() / 10
    assert shares["leverage"] > 2 * shares["uniform"]


def test_gamma_is_one_over_the_median_distance(rng):
    X = rng.normal(size=(60, 3))
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=-1)[np.triu_indices(60, 1)]
    assert Kernel().fit(X).gamma == pytest.approx(1 / np.median(squared))
    assert Kernel(gamma=0.3).fit(X).gamma == 0.3
    assert Kernel("linear").fit(X).gamma is None


def test_another_gamma_keeps_the_landmarks(counts):
    fitted = Kernel("hellinger", 12, landmarks="uniform").fit(counts)
    other = fitted.with_gamma(3.0)
    assert other.landmarks is fitted.landmarks and fitted.gamma != 3.0 == other.gamma
    values = rbf_kernel(np.sqrt(counts / counts.sum(axis=1, keepdims=True)), other.landmarks, 3.0)
    among = rbf_kernel(other.landmarks, gamma=3.0)
    F = other.apply(counts)
    assert_allclose(F @ F.T, values @ np.linalg.solve(among, values.T), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS[name].sparse])
def test_sparse_rows_give_the_same_features(counts, name):
    rows = sparse.csr_array(counts)
    one, two = (Kernel(name, 10).fit(X).apply(X) for X in (counts, rows))
    assert_allclose(one @ one.T, two @ two.T, atol=1e-10)


def test_kernels_without_sparse_rows_say_so(counts):
    for name in ("chi2", "laplacian", lambda A, B: A @ B.T):
        with pytest.raises(TypeError, match=r"does not take sparse tables; use table.toarray\(\)"):
            Kernel(name).fit(sparse.csr_array(counts))


@pytest.mark.parametrize(
    ("name", "X", "message"),
    [
        ("rbf", np.tile([[0.1, 0.7, 1 / 3]], (50, 1)), "all rows are equal"),
        ("hellinger", np.tile([[0.1, 0.7, 1 / 3]], (50, 1)), "all rows are equal"),
        ("chi2", np.tile([[0.1, 0.7, 1 / 3]], (50, 1)), "all rows are equal"),
        (lambda A, B: -A @ B.T, np.eye(3), "not a kernel"),
        (lambda A, B: A @ B.T + np.arange(len(B)), np.eye(3), "not symmetric"),
        (lambda A, B: A, np.ones((3, 2)), r"shape \(3, 3\) .* got shape \(3, 2\)"),
        (lambda A, B: A @ B.T * np.nan, np.eye(3), "got float64, not all finite"),
        (lambda A, B: A @ B.T * 1j, np.eye(3), "got complex128"),
        (lambda A, B: A @ B.T / len(A), np.eye(3), "depend on each pair alone"),
        (lambda A, B: A @ A.T, np.eye(3), r"shape \(1, 3\) .* got shape \(1, 1\)"),
    ],
)
def test_what_cannot_be_mapped_is_refused(name, X, message):
    with pytest.raises(ValueError, match=message):
        Kernel(name).fit(X)


def test_rows_that_occur_twice_and_rows_of_zeros_can_be_landmarks(rng):
    X = np.repeat(rng.normal(size=(40, 3)), 10, axis=0)
    assert Kernel(n_landmarks=100).fit(X).apply(X).shape[0] == 400
    X[40:] = 0
    F = Kernel("linear", 100, landmarks="leverage").fit(X).apply(X)
    assert_allclose(F @ F.T, X @ X.T, atol=1e-8)


def test_a_landmark_similar_to_no_row_is_no_error(rng):
    X = 0.1 * rng.normal(size=(40, 1))
    X[:2] = [[100.0], [132.0]]  # their centre is so far from both that squares of exp(-256) vanish
    model = PerViewRidge(features=Kernel(gamma=1.0, n_landmarks=2, recipe=None))
    model.fit(X, (X > 0).astype(float))
    assert np.sort(model.kernel_maps_["all"].landmarks.ravel())[-1] == 116
    assert np.isfinite(model.decision_function(X)).all()


@pytest.fixture(scope="module")
def data():
    return make_unpaired(
        60, n_features=(7, 5), n_labels=4, n_latent=4, missing_labels=0.3, random_state=1
    )


def test_a_linear_kernel_is_the_linear_model(data):
    options = {"ridge": 0.5, "tol": 1e-8, "max_iter": 3000}
    linear = NAIM3L(0.2, features=None, **options).fit(data.views, data.labels)
    kernel = NAIM3L(0.2, features=Kernel("linear", None, recipe=None), **options)
    same = kernel.fit(data.views, data.labels).decision_function(data.views)
    for view, S in linear.decision_function(data.views).items():
        assert_allclose(same[view], S, atol=1e-5)


def test_the_exact_model_solves_the_dual_problem(data):
    """Dual weights in place of weights, kernel matrices in place of rows: the same objective, and
    a minimum of it over dual weights and intercepts.
    """
    lam, ridge, gamma = 0.2, 0.5, 0.1
    model = NAIM3L(
        lam, features=Kernel("rbf", None, gamma, recipe=None), ridge=ridge, variant="low-rank",
        tol=1e-9, max_iter=5000,
    ).fit(data.views, data.labels)  # fmt: skip
    K = [rbf_kernel(X, gamma=gamma) for X in data.views.values()]
    Y = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in data.labels.values()]
    problem = Problem(K, Y)
    without = Objective(problem, lam, high_rank=False)

    def dual(A):
        coefficients, _ = problem.split_weights(A)
        penalty = sum(np.trace(a.T @ k @ a) for a, k in zip(coefficients, K, strict=True))
        return without.value(A) + 0.5 * ridge * penalty

    parts = [np.vstack([model.dual_coef_[v], model.intercept_[v]]) for v in data.views]
    A = np.concatenate(parts)
    assert dual(A) == pytest.approx(model.objective_, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(8):  # convex: a point that no direction improves is the minimum
        step = rng.normal(size=A.shape)
        value = minimize(lambda t, step=step: dual(A + t * step), 0.0, tol=1e-7).fun
        assert value >= dual(A) * (1 - 1e-6)
    for view, S in model.decision_function(data.views).items():
        k = rbf_kernel(data.views[view], gamma=gamma)
        assert_allclose(S, k @ model.dual_coef_[view] + model.intercept_[view], atol=1e-6)


def test_kernel_models_learn_what_no_line_can(rng):
    """Labels by the signs of products: linear scores say nothing of them."""
    X = {v: rng.normal(size=(400, 2)) for v in ("a", "b")}
    Y = {v: np.column_stack([Z.prod(axis=1) > 0, Z.prod(axis=1) < 0]) * 1.0 for v, Z in X.items()}
    for make in (NAIM3L, PerViewRidge):
        right = []
        for features in (None, Kernel(n_landmarks=60, recipe=None)):
            model = make(ridge=0.1, features=features).fit(X, Y)
            right.append(np.mean([(model.predict(X)[v] == Y[v]).mean() for v in X]))
        assert right[0] < 0.65 and right[1] > 0.9


@pytest.mark.torch
class TestDevice:
    """Distances on a device are those of scikit-learn."""

    @pytest.fixture(params=["cpu", "cuda"])
    def device(self, request):
        torch = pytest.importorskip("torch")
        if request.param == "cuda" and not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
        return request.param

    def test_distances(self, rng, device, monkeypatch):
        monkeypatch.setattr(kernels, "BLOCK_NUMBERS", 7 * 20 * 9)  # several blocks
        A, B = rng.poisson(1.5, (70, 9)) * 1.0, rng.poisson(1.5, (20, 9)) * 1.0
        for name, comparison in KERNELS.items():
            expected = -additive_chi2_kernel(A, B) if name == "chi2" else comparison.on_cpu(A, B)
            for rows in (A, sparse.csr_array(A)) if comparison.sparse else (A,):
                moved = kernels._move(rows, device), kernels._move(B, device)
                found = as_numpy(comparison.on_device(*moved))
                assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
