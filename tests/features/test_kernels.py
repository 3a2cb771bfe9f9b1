"""Kernel maps against their definitions, and kernel models against the dual problem."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.metrics.pairwise import chi2_kernel, rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from naim3l import NAIM3L, NAIM3LCV, load
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.features.kernels import LANDMARKS, KernelMap
from naim3l.problem.rows import Problem
from naim3l.solvers.objective import Objective

ALL_KERNELS = ["linear", "rbf", "chi2", "hellinger", lambda A, B: (1 + A @ B.T) ** 2]


@parametrize_with_checks(
    [KernelMap(), KernelMap("linear", landmarks="uniform"), KernelMap(landmarks="leverage"),
     KernelMap("chi2"), KernelMap("hellinger", n_landmarks=5)]
)  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


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
    return rbf_kernel(np.sqrt(X), np.sqrt(Y), gamma=0.7)


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("n_landmarks", [None, 100])
def test_all_rows_for_landmarks_give_the_kernel_itself(counts, kernel, n_landmarks):
    features = KernelMap(kernel, n_landmarks=n_landmarks, gamma=0.7).fit_transform(counts)
    assert_allclose(features @ features.T, kernel_of(kernel, counts, counts), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("kernel", ["rbf", "chi2", "hellinger"])
def test_new_rows_get_the_nystroem_approximation(counts, rng, kernel, landmarks):
    fitted = KernelMap(kernel, n_landmarks=12, gamma=0.7, landmarks=landmarks).fit(counts)
    assert fitted.landmarks_.shape == (12, 6)
    new = rng.poisson(3.0, (5, 6)) + 1.0
    shown = fitted.landmarks_ ** (2 if kernel == "hellinger" else 1)  # kept as square roots
    between = kernel_of(kernel, new, shown)
    if kernel == "hellinger" and landmarks == "kmeans":
        # A mean of square roots is not the root of any histogram: compare with it as it is.
        roots = np.sqrt(new / new.sum(axis=1, keepdims=True))
        between = rbf_kernel(roots, fitted.landmarks_, gamma=0.7)
        among = rbf_kernel(fitted.landmarks_, gamma=0.7)
    else:
        among = kernel_of(kernel, shown, shown)
    features = fitted.transform(new)
    expected = between @ np.linalg.solve(among, between.T)
    assert_allclose(features @ features.T, expected, atol=1e-6)


def test_more_landmarks_come_closer_to_the_kernel(rng):
    X = rng.normal(size=(150, 4))
    K = rbf_kernel(X, gamma=0.2)
    for landmarks in LANDMARKS:
        errors = []
        for n in (5, 20, 80):
            F = KernelMap(n_landmarks=n, gamma=0.2, landmarks=landmarks).fit_transform(X)
            errors.append(np.linalg.norm(F @ F.T - K))
        assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_leverage_finds_the_few_rows_that_uniform_draws_miss(rng):
    """A small cluster far from all others: its rows have the largest leverage."""
    crowd, few = rng.normal(size=(480, 3)) * 0.05, rng.normal(size=(20, 3)) + 30
    X = np.vstack([crowd, few])
    shares = {}
    for landmarks in ("uniform", "leverage"):
        maps = [
            KernelMap(n_landmarks=20, gamma=0.5, landmarks=landmarks, random_state=s).fit(X)
            for s in range(10)
        ]
        shares[landmarks] = np.mean([(m.landmarks_[:, 0] > 10).mean() for m in maps])
    assert shares["leverage"] > 2 * shares["uniform"]


def test_gamma_is_one_over_the_median_distance(rng):
    X = rng.normal(size=(60, 3))
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=-1)[np.triu_indices(60, 1)]
    assert KernelMap().fit(X).gamma_ == pytest.approx(1 / np.median(squared))
    assert KernelMap(gamma=0.3).fit(X).gamma_ == 0.3
    assert KernelMap("linear").fit(X).gamma_ is None


@pytest.mark.parametrize("kernel", ["linear", "rbf", "hellinger"])
def test_sparse_rows_give_the_same_features(counts, kernel):
    one, two = (
        KernelMap(kernel, n_landmarks=10).fit_transform(X)
        for X in (counts, sparse.csr_array(counts))
    )
    assert_allclose(one @ one.T, two @ two.T, atol=1e-10)


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"kernel": "poly"}, np.eye(3), "kernel must be one of"),
        ({"gamma": 0}, np.eye(3), "gamma must be 'auto' or a finite number > 0, .*got 0"),
        ({"gamma": "scale"}, np.eye(3), "gamma must be"),
        ({"n_landmarks": "all"}, np.eye(3), "n_landmarks must be a whole number >= 1, or None"),
        ({"landmarks": "best"}, np.eye(3), "landmarks must be one of"),
        ({"kernel": "chi2"}, -np.eye(3), "Negative values in data: kernel 'chi2'"),
        ({"kernel": "hellinger"}, -np.eye(3), "Negative values in data: kernel 'hellinger'"),
        ({"kernel": "rbf"}, np.tile([[0.1, 0.7, 1 / 3]], (50, 1)), "all rows are equal"),
        ({"kernel": "hellinger"}, np.tile([[0.1, 0.7, 1 / 3]], (50, 1)), "all rows are equal"),
        ({"kernel": "chi2"}, np.tile([[0.1, 0.7, 1 / 3]], (50, 1)), "all rows are equal"),
        ({"kernel": lambda A, B: -A @ B.T}, np.eye(3), "not a kernel"),
        ({"kernel": lambda A, B: A @ B.T + np.arange(len(B))}, np.eye(3), "not symmetric"),
        ({"kernel": lambda A, B: A}, np.ones((3, 2)), r"shape \(3, 3\) .* got shape \(3, 2\)"),
        ({"kernel": lambda A, B: A @ B.T * np.nan}, np.eye(3), "got float64, not all finite"),
        ({"kernel": lambda A, B: A @ B.T * 1j}, np.eye(3), "got complex128"),
        ({"kernel": lambda A, B: A @ B.T / len(A)}, np.eye(3), "depend on each pair alone"),
        ({"kernel": lambda A, B: A @ A.T}, np.eye(3), r"shape \(1, 3\) .* got shape \(1, 1\)"),
    ],
)
def test_what_cannot_be_mapped_is_refused(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        KernelMap(**parameters).fit(X)


@pytest.fixture(scope="module")
def data():
    return make_unpaired(
        60, n_features=(7, 5), n_labels=4, n_latent=4, missing_labels=0.3, random_state=1
    )


def test_a_linear_kernel_is_the_linear_model(data):
    options = {"transformer": None, "ridge": 0.5, "tol": 1e-8, "max_iter": 3000}
    linear = NAIM3L(0.2, **options).fit(data.views, data.labels)
    kernel = NAIM3L(0.2, kernel="linear", n_landmarks=None, **options)
    kernel.fit(data.views, data.labels)
    scores, same = linear.decision_function(data.views), kernel.decision_function(data.views)
    for view, S in scores.items():
        assert_allclose(same[view], S, atol=1e-5)


def test_the_exact_model_solves_the_dual_problem(data):
    """Dual weights in place of weights, kernel matrices in place of rows: the same objective, and
    a minimum of it over dual weights and intercepts.
    """
    lam, ridge, gamma = 0.2, 0.5, 0.1
    model = NAIM3L(lam, transformer=None, kernel="rbf", n_landmarks=None, gamma=gamma, ridge=ridge,
                   high_rank=False, tol=1e-9, max_iter=5000)  # fmt: skip
    model.fit(data.views, data.labels)
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
    for _ in range(20):  # convex: a point that no direction improves is the minimum
        step = rng.normal(size=A.shape)
        value = minimize(lambda t, step=step: dual(A + t * step), 0.0, tol=1e-7).fun
        assert value >= dual(A) * (1 - 1e-6)
    for view, S in model.decision_function(data.views).items():
        k = rbf_kernel(data.views[view], gamma=gamma)
        assert_allclose(S, k @ model.dual_coef_[view] + model.intercept_[view], atol=1e-6)


def test_views_may_have_kernels_of_their_own(data, tmp_path):
    names = list(data.views)
    model = NAIM3L(
        kernel={names[0]: "rbf", names[1]: None}, gamma={names[0]: 0.5, names[1]: "auto"}
    )
    model.set_params(n_landmarks=20, ridge=1.0).fit(data.views, data.labels)
    assert list(model.dual_coef_) == names[:1]
    model.save(tmp_path / "model.skops")
    again = load(tmp_path / "model.skops").decision_function(data.views)
    for view, S in model.decision_function(data.views).items():
        assert_allclose(again[view], S, atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "poly"}, "kernel must be one of"),
        ({"kernel": {"view0": "rbf"}}, "kernel: no entry for view 'view1'"),
        ({"kernel": {"view0": "rbf", "view1": None, "x": "rbf"}}, r"kernel: no views \['x'\]"),
        ({"kernel": "rbf", "gamma": -1}, "gamma must be"),
        ({"kernel": "rbf", "gamma": {"view0": 1, "view1": 0}}, r"gamma\['view1'\] must be"),
        ({"kernel": {"view0": "RBF", "view1": None}}, r"kernel\['view0'\] must be one of"),
        ({"kernel": lambda A, B: A}, "view 'view0': kernel: a matrix"),
        ({"kernel": "rbf", "n_landmarks": 0}, "n_landmarks must be"),
        ({"kernel": "chi2"}, "view 'view0'.*negative"),
    ],
)
@pytest.mark.parametrize("make", [NAIM3L, NAIM3LCV, PerViewRidge])
def test_errors_name_the_view(data, make, parameters, message):
    with pytest.raises(ValueError, match=message):
        make(**parameters).fit(data.views, data.labels)


def test_kernel_ridge_learns_what_no_line_can(rng):
    """Labels by the signs of products: linear scores say nothing of them."""
    X = {v: rng.normal(size=(400, 2)) for v in ("a", "b")}
    Y = {v: np.column_stack([Z.prod(axis=1) > 0, Z.prod(axis=1) < 0]) * 1.0 for v, Z in X.items()}
    for make in (NAIM3L, PerViewRidge):
        right = {}
        for options in ({"kernel": None}, {"kernel": "rbf", "n_landmarks": 60}):
            model = make(ridge=0.1, transformer=None, **options).fit(X, Y)
            right[options["kernel"]] = np.mean([(model.predict(X)[v] == Y[v]).mean() for v in X])
        assert right[None] < 0.65 and right["rbf"] > 0.9


def test_another_gamma_keeps_the_landmarks(counts):
    fitted = KernelMap("hellinger", n_landmarks=12, landmarks="uniform").fit(counts)
    other = fitted.with_gamma(3.0)
    assert other.landmarks_ is fitted.landmarks_ and fitted.gamma_ != 3.0
    values = rbf_kernel(np.sqrt(counts / counts.sum(axis=1, keepdims=True)), other.landmarks_, 3.0)
    among = rbf_kernel(other.landmarks_, gamma=3.0)
    F = other.transform(counts)
    assert_allclose(F @ F.T, values @ np.linalg.solve(among, values.T), atol=1e-6)
    assert other.gamma_ == 3.0


def test_rows_that_occur_twice_and_rows_of_zeros_can_be_landmarks(rng):
    X = np.repeat(rng.normal(size=(40, 3)), 10, axis=0)
    assert KernelMap(n_landmarks=100).fit_transform(X).shape[0] == 400
    X[40:] = 0
    F = KernelMap("linear", n_landmarks=100, landmarks="leverage").fit_transform(X)
    assert_allclose(F @ F.T, X @ X.T, atol=1e-8)


def test_sparse_tables_can_be_learned_from_saved_and_loaded(rng, tmp_path):
    X = {"a": sparse.random_array((50, 30), density=0.2, format="csr", random_state=rng)}
    Y = {"a": (rng.random((50, 3)) < 0.4) * 1.0}
    model = NAIM3L(kernel="hellinger", n_landmarks=None, ridge=1.0).fit(X, Y)
    model.save(tmp_path / "model.skops")
    again = load(tmp_path / "model.skops").decision_function(X)["a"]
    assert_allclose(again, model.decision_function(X)["a"])


def test_chosen_gammas_can_be_given(data):
    names = list(data.views)
    kernel = {names[0]: "rbf", names[1]: None}
    chosen = NAIM3LCV([0.4], [1.0], kernel=kernel, random_state=0).fit(data.views, data.labels)
    given = NAIM3L(0.4, ridge=1.0, kernel=kernel, gamma=chosen.gamma_)
    given.fit(data.views, data.labels)
    assert given.gamma_ == chosen.gamma_


def test_a_map_of_one_s_own_is_left_alone(data):
    model = NAIM3LCV([0.4], [1.0], transformer=KernelMap(gamma=0.001), random_state=0)
    assert set(model.fit(data.views, data.labels).gamma_.values()) == {0.001}


def test_gammas_are_refined_view_by_view(data):
    first, second = data.views
    options = {"kernel": "rbf", "random_state": 0, "gamma_factors": [4.0]}
    auto = NAIM3L(kernel="rbf", ridge=1.0).fit(data.views, data.labels).gamma_
    model = NAIM3LCV([0.4], [1.0], gamma={first: "auto", second: 0.5}, **options)
    gammas = model.fit(data.views, data.labels).gamma_
    assert gammas[first] == pytest.approx(4 * auto[first]) and gammas[second] == 0.5


def test_checkpoints_take_the_numbers_of_numpy(data, tmp_path):
    options = {"ridge": np.int64(1), "positive_weight": np.float32(2), "lam": np.float64(0.4)}
    model = NAIM3L(**options, checkpoint=tmp_path / "fit.checkpoint", kernel="rbf")
    assert model.fit(data.views, data.labels).converged_


def test_a_landmark_similar_to_no_row_is_no_error(rng):
    X = 0.1 * rng.normal(size=(40, 1))
    X[:2] = [[100.0], [132.0]]  # their centre is so far from both that squares of exp(-256) vanish
    model = PerViewRidge(kernel="rbf", gamma=1.0, n_landmarks=2, transformer=None)
    model.fit(X, (X > 0).astype(float))
    assert np.sort(model.kernel_maps_["all"].landmarks_.ravel())[-1] == 116
    assert np.isfinite(model.decision_function(X)).all()
