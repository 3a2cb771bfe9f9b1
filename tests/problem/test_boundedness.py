"""The ridge that bounds the objective: its definition, its theorems, and what it does to fits."""

from functools import reduce

import numpy as np
import pytest
from scipy import sparse

import oracle
from naim3l.problem import boundedness
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import RowStatistics
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective

LAM = 0.7


def draw(rng, n_rows=(30, 25), n_features=(6, 4), n_labels=4, known=0.3, positive=0.1):
    """Features and signed labels, of which few are positive, so that low rank does not help."""
    features = [rng.normal(size=size) for size in zip(n_rows, n_features, strict=True)]
    labels = []
    for n in n_rows:
        Y = np.where(rng.random((n, n_labels)) < positive, 1, -1)
        labels.append(np.where(rng.random(Y.shape) < known, Y, 0))
        labels[-1][0, :] = 1
    return features, labels


def naive(features, labels, lam, fit_intercept=True):
    """The definition, view by view and label by label; views are not asked for coverage."""
    found = [0.0]
    for X, Y in zip(features, labels, strict=True):
        empty = ~(Y > 0).any(axis=1)
        for k in range(Y.shape[1]):
            known, free = X[Y[:, k] != 0], X[empty & (Y[:, k] == 0)]
            if len(free) == 0:
                continue
            if fit_intercept and len(known):
                known, free = known - known.mean(axis=0), free - known.mean(axis=0)
            elif fit_intercept:
                known, free = (np.column_stack([A, np.ones(len(A))]) for A in (known, free))
            matrix = lam / np.sqrt(len(free)) * free.T @ free - known.T @ known
            found.append(np.linalg.eigvalsh(matrix)[-1])
    return max(found)


def with_free_grams(problem):
    """Statistics of the rows, from chunks of seven rows."""
    views = []
    for X, at in zip(problem.X, problem.row_slices, strict=True):
        Y = problem.Y[at]
        chunks = [
            RowStatistics.of(X[a : a + 7], Y[a : a + 7], free=True) for a in range(0, len(Y), 7)
        ]
        views.append(reduce(RowStatistics.combine, chunks).view(problem.positive_weight))
    return StatisticsProblem(views, fit_intercept=problem.fit_intercept)


def regulariser(features, labels, W, fit_intercept=True):
    """``sum_k ||X_k W||_* - ||XW||_*``, from its definition."""
    X, Y = oracle.block_rows(features, fit_intercept), np.concatenate(labels)
    low = sum(np.linalg.norm(X[Y[:, k] == 1] @ W, "nuc") for k in range(Y.shape[1]))
    return low - np.linalg.norm(X @ W, "nuc")


CASES = {
    "tall": {},
    "more columns than rows": {"n_rows": (8, 12), "n_features": (20, 15)},
    "one label": {"n_labels": 1},
    "few rows": {"n_rows": (4, 3)},
    "hardly anything known": {"known": 0.03},
}


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "form",
    ["dense", "tested", "sparse", "sparse tested", "statistics", "statistics alone", "products"],
)
def test_it_is_the_largest_eigenvalue_of_its_definition(
    rng, monkeypatch, case, form, fit_intercept
):
    monkeypatch.setattr(boundedness, "_covered_views", lambda problem: [False, False])
    features, labels = draw(rng, **case)
    expected = naive(features, labels, LAM, fit_intercept)
    given = [sparse.csr_array(X) for X in features] if "sparse" in form else features
    if "tested" in form:
        monkeypatch.setattr(boundedness, "TESTED_COLUMNS", 1)
    problem = Problem(given, labels, fit_intercept=fit_intercept)
    if form.startswith("statistics"):
        problem = (
            StatisticsProblem.of(problem) if form == "statistics" else with_free_grams(problem)
        )
    rel = 1e-8
    if form == "products":
        monkeypatch.setattr(boundedness, "GRAM_COLUMNS", 2)
        rel = 2 * boundedness.LANCZOS_ACCURACY
    assert problem.bounding_ridge(LAM) == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_with_it_undetermined_scores_gain_nothing_beyond_the_size_of_labels(rng, case):
    """Along any weights of one label, the best step has scores of at most 1 in the mean square."""
    features, labels = draw(rng, **case)
    ridge = naive(features, labels, LAM)
    for X, Y in zip(features, labels, strict=True):
        empty = ~(Y > 0).any(axis=1)
        for k in range(Y.shape[1]):
            known, free = X[Y[:, k] != 0], X[empty & (Y[:, k] == 0)]
            if not len(free) or not len(known):
                continue
            known, free = known - known.mean(axis=0), free - known.mean(axis=0)
            matrix = free.T @ free - known.T @ known
            directions = [*rng.normal(size=(20, X.shape[1])), np.linalg.eigh(matrix)[1][:, -1]]
            for w in directions:
                gain = LAM * np.linalg.norm(free @ w)
                cost = np.sum((known @ w) ** 2) + ridge * np.sum(w**2)
                step = gain / cost  # minimises step^2 / 2 * cost - step * gain
                assert np.sqrt(np.mean((step * free @ w) ** 2)) <= 1 + 1e-9


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("unknown_label", [False, True])
def test_with_it_the_objective_rises_in_the_end_along_every_direction(rng, case, unknown_label):
    """Random directions, and those in which the known rows of a label have no score."""
    features, labels = draw(rng, **case)
    if unknown_label:
        labels[0][:, 0] = 0
    ridge = Problem(features, labels).bounding_ridge(LAM)
    X, Y = oracle.block_rows(features), np.concatenate(labels)
    directions = [rng.normal(size=(X.shape[1], Y.shape[1])) for _ in range(10)]
    for k in range(Y.shape[1]):
        known = X[Y[:, k] != 0]
        null = np.linalg.svd(known)[2][np.linalg.matrix_rank(known) :]
        if len(null):
            V = np.zeros((X.shape[1], Y.shape[1]))
            V[:, k] = null.T @ rng.normal(size=len(null))
            directions.append(V)
    for V in directions:
        far, farther = (
            oracle.objective(features, labels, t * V, lam=LAM, ridge=ridge) for t in (1e3, 1e4)
        )
        assert farther >= far - 1e-9 * abs(far)


def unbounded(rng):
    """More columns than rows, and rows without a positive: nothing limits their scores."""
    labels = rng.choice([-1, 0, 1], p=[0.4, 0.5, 0.1], size=(30, 6))
    return [rng.normal(size=(30, 60))], [labels]


def test_a_problem_that_diverges_without_it_converges_with_it(rng):
    features, labels = unbounded(rng)
    problem = Problem(features, labels)
    with pytest.raises(FloatingPointError):
        solve_fast(Objective(problem, 30.0), form="rows")
    ridge = problem.bounding_ridge(1.0)
    for form in ("rows", "statistics"):
        result = solve_fast(Objective(problem, 1.0, ridge=ridge), form=form, max_iter=500)
        assert result.converged
        assert np.abs(problem.multiply(result.W)).max() < 10


def test_a_known_value():
    """Label 0 is known along the first axis alone, and free along both, 3 and 4 times."""
    X = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 4.0]])
    Y = np.array([[1, 0], [1, 1], [0, -1], [0, -1]])
    Y[1, 0] = 0
    problem = Problem([X], [Y], fit_intercept=False)
    # Gains lam / sqrt(2) * (9, 16), losses (4, 0); label 1 has no free row.
    assert problem.bounding_ridge(np.sqrt(2)) == pytest.approx(16)
    assert problem.bounding_ridge(0.5 * np.sqrt(2)) == pytest.approx(8)


class TestZero:
    def test_if_every_row_has_an_observed_positive(self, rng):
        features, labels = draw(rng, known=0.1)
        for Y in labels:
            Y[:, 0] = 1
        assert Problem(features, labels).bounding_ridge(100.0) == 0

    def test_if_every_label_is_known(self, rng):
        features, labels = draw(rng, known=1.0)
        assert Problem(features, labels).bounding_ridge(100.0) == 0

    def test_if_free_rows_are_among_the_known_ones(self, rng):
        """Both kinds of rows have the same Gram matrix, and lam / sqrt(n) is below 1."""
        X = rng.normal(size=(10, 4))
        X -= X.mean(axis=0)
        Y = np.full((21, 1), -1)
        Y[10:20], Y[20] = 0, 1
        features = [np.vstack([X, X, np.zeros((1, 4))])]
        assert Problem(features, [Y]).bounding_ridge(1.0) == 0
        assert Problem(features, [Y]).bounding_ridge(4.0) > 0

    @pytest.mark.parametrize("seed", range(5))
    def test_if_the_low_rank_term_outweighs_the_high_rank_term(self, seed):
        """Then the regulariser is nowhere negative, although some rows have no positive."""
        rng = np.random.default_rng(seed)
        features, labels = draw(rng, n_rows=(60, 50), n_labels=8, known=1.0, positive=0.5)
        for Y in labels:
            Y[:6] = 0
        problem = Problem(features, labels)
        assert problem.bounding_ridge(100.0) == 0
        assert with_free_grams(problem).bounding_ridge(100.0) == 0
        assert naive(features, labels, 100.0) > 0
        n_weights = problem.n_weights
        for W in rng.normal(size=(20, n_weights, 8)):
            assert regulariser(features, labels, W) >= 0
            one_label = W * (np.arange(8) == 3)
            assert regulariser(features, labels, one_label) >= 0


def test_factors_of_labels_are_the_largest_allowed(rng):
    features, labels = draw(rng, n_rows=(40, 30), known=1.0, positive=0.2)
    problem = Problem(features, labels)
    factors = boundedness._label_factors(problem, problem.grams)
    statistics = StatisticsProblem.of(problem)
    np.testing.assert_allclose(boundedness._label_factors(statistics, problem.grams), factors)
    for k, factor in enumerate(factors):
        least = []
        for X, rows in zip(problem.X, problem.row_slices, strict=True):
            X_k = X[problem.Y[rows, k] > 0]
            least.append(np.linalg.eigvalsh(X.T @ X - factor**2 * X_k.T @ X_k)[0])
        assert min(least) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("positive_weight", [1.0, 3.0])
@pytest.mark.parametrize("positive", [0.05, 0.2, 0.4])
def test_statistics_without_rows_give_the_same_ridge(rng, positive, positive_weight):
    """With few positives no view is covered by the low-rank term, with many some are."""
    features, labels = draw(rng, n_rows=(90, 80), known=0.5, positive=positive)
    problem = Problem(features, labels, positive_weight=positive_weight)
    for lam in (0.3, 3.0):
        expected = problem.bounding_ridge(lam)
        assert with_free_grams(problem).bounding_ridge(lam) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 50.0])
def test_features_times_s_take_a_ridge_times_s_squared(rng, scale):
    features, labels = draw(rng)
    ridge = Problem(features, labels).bounding_ridge(LAM)
    scaled = Problem([scale * X for X in features], labels).bounding_ridge(LAM)
    assert ridge > 0
    assert scaled == pytest.approx(scale**2 * ridge)


def test_an_offset_of_features_does_not_matter_with_an_intercept(rng):
    features, labels = draw(rng)
    ridge = Problem(features, labels).bounding_ridge(LAM)
    moved = Problem([X + 7 for X in features], labels).bounding_ridge(LAM)
    assert ridge > 0
    assert moved == pytest.approx(ridge)


def test_labels_known_in_the_same_rows_are_examined_once(rng, monkeypatch):
    features, _ = draw(rng)
    labels = [np.repeat(rng.choice([-1, 0, 0], size=(len(X), 1)), 5, axis=1) for X in features]
    for Y in labels:
        Y[0, 0] = 1
        Y[0, 1:] = -1
    examined, raised = [], boundedness._raised
    monkeypatch.setattr(boundedness, "_raised", lambda *given: examined.append(1) or raised(*given))
    assert Problem(features, labels).bounding_ridge(LAM) == pytest.approx(
        naive(features, labels, LAM)
    )
    assert len(examined) == 2


def test_of_many_columns_few_matrices_are_formed_and_the_ridge_is_the_same(rng, monkeypatch):
    """Where one label is known in few rows, it alone determines the ridge."""
    features, labels = draw(rng, n_rows=(900,), n_features=(80,), n_labels=12, known=0.6)
    labels[0][40:, 3] = 0
    formed, gram = [], boundedness.weighted_gram
    monkeypatch.setattr(boundedness, "weighted_gram", lambda *of: formed.append(1) or gram(*of))
    expected = naive(features, labels, LAM)
    assert expected > 0
    assert Problem(features, labels).bounding_ridge(LAM) == pytest.approx(expected, rel=1e-8)
    assert len(formed) <= 4  # two of a label


def test_smallest_eigenvalues_of_several_matrices_at_once(rng):
    """Exact after as many steps as there are columns, and within the residual before."""
    matrices = rng.normal(size=(5, 9, 9))
    matrices += matrices.swapaxes(1, 2)
    exact = np.linalg.eigvalsh(matrices)
    start = rng.normal(size=(9, 5))
    for n_steps in (4, 9, 12):
        found, error = boundedness._smallest_eigenvalues(
            lambda W: np.einsum("kij,jk->ik", matrices, W), start, n_steps
        )
        nearest = abs(exact - found[:, None]).min(axis=1)
        assert (found >= exact[:, 0] - 1e-9).all() and (nearest <= error + 1e-9).all()
        if n_steps == 9:
            np.testing.assert_allclose(found, exact[:, 0])


class TestUnlimitedScores:
    def far(self, problem, features, labels):
        """The objective without a ridge far along the weights of one label that are found."""
        v, k = boundedness.unlimited_scores(problem)
        X, Y = oracle.block_rows(features), np.concatenate(labels)
        first = sum(F.shape[1] + 1 for F in features[:v])
        at = slice(first, first + features[v].shape[1] + 1)
        rest = X[((Y > 0).any(axis=1) | (Y[:, k] != 0)) & X[:, at].any(axis=1), at]
        W = np.zeros((X.shape[1], Y.shape[1]))
        null = np.linalg.svd(rest)[2][np.linalg.matrix_rank(rest) :]
        others = X[:, at] @ null.T
        W[at, k] = null.T @ np.linalg.svd(others)[2][0]
        return [oracle.objective(features, labels, t * W, lam=LAM) for t in (0, 1e3, 1e6)]

    @pytest.mark.parametrize("form", ["rows", "sparse", "statistics", "statistics alone"])
    @pytest.mark.parametrize("case", ["more columns than rows", "hardly anything known"])
    def test_the_objective_falls_without_bound_along_them(self, rng, case, form):
        features, labels = draw(rng, **CASES[case])
        given = [sparse.csr_array(X) for X in features] if form == "sparse" else features
        problem = Problem(given, labels)
        if form.startswith("statistics"):
            whole = form == "statistics"
            problem = StatisticsProblem.of(problem) if whole else with_free_grams(problem)
        zero, far, farther = self.far(problem, features, labels)
        assert farther < 100 * far < 0 < zero

    def test_a_column_of_one_unknown_row(self, rng):
        """Unlimited if that row has no positive, and no label; then one known label is enough."""
        features, labels = draw(rng, n_rows=(60, 50), known=1.0, positive=0.5)
        features[1] = np.column_stack([features[1], np.arange(50) == 7])
        assert boundedness.unlimited_scores(Problem(features, labels)) is None
        labels[1][7] = 0
        assert boundedness.unlimited_scores(Problem(features, labels)) == (1, 0)
        labels[1][7] = [-1, -1, 0, -1]
        assert boundedness.unlimited_scores(Problem(features, labels)) == (1, 2)
        labels[1][7] = [-1, -1, 0, 1]
        assert boundedness.unlimited_scores(Problem(features, labels)) is None

    @pytest.mark.parametrize("seed", range(10))
    def test_none_where_the_ridge_that_bounds_the_objective_is_zero(self, seed):
        rng = np.random.default_rng(seed)
        problem = Problem(*draw(rng, n_rows=(60, 50), known=0.8, positive=0.5))
        assert problem.bounding_ridge(LAM) == 0
        assert boundedness.unlimited_scores(problem) is None
