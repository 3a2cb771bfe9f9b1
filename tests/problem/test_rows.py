"""Products with rows are those of the paper's matrices; entries are those of rows and samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.stats import betabinom

import oracle
from naim3l.problem.rows import STRENGTHS, LabelRates, Problem


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def drawn(request, make_problem):
    """Features, labels, the problem, and the dense matrices of the paper built row by row."""
    features, labels, _ = make_problem(seed=1)
    problem = Problem(features, labels, fit_intercept=request.param)
    X, Y = oracle.block_rows(features, request.param), np.concatenate(labels)
    return problem, X, Y


def test_products_are_those_of_the_block_diagonal_matrix(drawn, rng):
    problem, X, _ = drawn
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    R = rng.normal(size=(problem.n_rows, problem.n_labels))
    np.testing.assert_allclose(problem.multiply(W), X @ W)
    np.testing.assert_allclose(problem.multiply_transposed(R), X.T @ R, atol=1e-12)
    np.testing.assert_allclose(problem.multiply_gram(W), X.T @ X @ W, atol=1e-12)
    through_rows = problem.label_scores_transposed(problem.label_scores(W))
    np.testing.assert_allclose(problem.multiply_positive_gram(W), through_rows, atol=1e-11)


def test_label_scores_and_scatter_select_the_positive_rows_of_each_label(drawn, rng):
    problem, X, Y = drawn
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    Z = rng.normal(size=(problem.n_positives, problem.n_labels))
    blocks = problem.label_scores(W)
    total = np.zeros_like(W)
    for k, rows in enumerate(problem.label_slices):
        X_k = X[Y[:, k] == 1]
        np.testing.assert_allclose(blocks[rows], X_k @ W)
        total += X_k.T @ Z[rows]
    np.testing.assert_allclose(problem.multiply_transposed(problem.scatter(Z)), total, atol=1e-12)


def test_positive_grams_sum_over_labels(drawn):
    problem, X, Y = drawn
    total = sum(X[Y[:, k] == 1].T @ X[Y[:, k] == 1] for k in range(problem.n_labels))
    for gram, weights in zip(problem.positive_grams, problem.weight_slices, strict=True):
        np.testing.assert_allclose(gram, total[weights, weights], atol=1e-12)


def test_labelled_grams_bound_the_curvature_of_the_loss(drawn):
    problem, X, Y = drawn
    for v, weights in enumerate(problem.weight_slices):
        gram = problem.labelled_gram(v)
        for k in range(problem.n_labels):
            X_v = X[Y[:, k] != 0][:, weights]
            assert np.linalg.eigvalsh(gram - X_v.T @ X_v).min() >= -1e-10


def test_residual_is_zero_where_the_label_is_unknown(drawn, rng):
    problem, _, Y = drawn
    XW = rng.normal(size=Y.shape)
    residual = problem.residual(XW)
    assert np.all(residual[Y == 0] == 0)
    np.testing.assert_allclose(residual[Y != 0], (XW - Y)[Y != 0])


def test_loss_is_half_the_sum_of_squared_errors_of_known_entries(drawn, rng):
    problem, X, Y = drawn
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    loss, gradient = problem.loss_and_gradient(W)
    assert loss == pytest.approx(0.5 * np.sum((X @ W - Y)[Y != 0] ** 2))
    np.testing.assert_allclose(gradient, X.T @ np.where(Y != 0, X @ W - Y, 0), atol=1e-12)


def test_sparse_features_give_the_same_problem(make_problem, rng):
    features, labels, problem = make_problem()
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    R = rng.normal(size=(problem.n_rows, problem.n_labels))
    other = Problem([sparse.csr_array(X) for X in features], labels)
    np.testing.assert_allclose(other.multiply(W), problem.multiply(W))
    np.testing.assert_allclose(other.multiply_transposed(R), problem.multiply_transposed(R))
    for gram, expected in zip(other.positive_grams, problem.positive_grams, strict=True):
        np.testing.assert_allclose(gram, expected)


def test_a_label_without_positives_has_an_empty_block(make_problem):
    features, labels, _ = make_problem()
    for Y in labels:
        Y[:, 2] = -np.abs(Y[:, 2])
    problem = Problem(features, labels)
    assert problem.label_slices[2].start == problem.label_slices[2].stop


def test_with_labels_is_the_problem_built_from_them(drawn, make_problem, rng):
    problem, _, _ = drawn
    features, labels, _ = make_problem(seed=1)
    others = [np.where(rng.random(Y.shape) < 0.3, 0, Y) for Y in labels]
    expected = Problem(features, others, fit_intercept=problem.fit_intercept)
    other = problem.with_labels(np.concatenate(others))
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    np.testing.assert_array_equal(other.penalised, expected.penalised)
    assert other.loss_and_gradient(W)[0] == expected.loss_and_gradient(W)[0]
    np.testing.assert_allclose(other.label_scores(W), expected.label_scores(W))


class TestEntries:
    """What is known of rows, and of the samples that they describe."""

    @pytest.fixture
    def wide(self):
        """Sample 1 has both views, samples 0 and 3 one each, sample 2 none."""
        Y = np.array([[1, -1], [0, 1], [0, 1], [-1, 0]])
        features = [np.ones((2, 1)), np.ones((2, 1))]
        return Problem(features, [Y[:2], Y[2:]], samples=np.array([0, 1, 1, 3]))

    def test_without_some_entries_these_are_unknown_and_nothing_else_changes(self, drawn, rng):
        problem, _, _ = drawn
        hidden = rng.random(problem.Y.shape) < 0.3
        rest = problem.without(hidden)
        np.testing.assert_array_equal(rest.P, problem.P * ~hidden)
        np.testing.assert_array_equal(rest.Y[~hidden], problem.Y[~hidden])
        assert all(A is B for A, B in zip(rest.X, problem.X, strict=True))

    def test_truth_is_1_or_0_where_it_is_asked_for(self, wide):
        asked = np.array([[1, 0], [0, 1], [0, 0], [1, 0]], dtype=bool)
        nan = np.nan
        expected = [[1, nan], [nan, 1], [nan, nan], [0, nan]]
        np.testing.assert_array_equal(wide.truth_of(asked), expected)

    def test_labels_of_samples(self, wide):
        np.testing.assert_array_equal(wide.labels_of_samples, [[1, -1], [0, 1], [0, 0], [-1, 0]])

    def test_rows_by_view_and_sample(self, wide):
        nan = np.nan
        table = wide.by_view_and_sample(np.arange(8.0).reshape(4, 2))
        np.testing.assert_array_equal(table[0], [[0, 1], [2, 3], [nan, nan], [nan, nan]])
        np.testing.assert_array_equal(table[1], [[nan, nan], [4, 5], [nan, nan], [6, 7]])

    def test_base_rates_count_a_sample_once(self, wide):
        # One positive and one negative are added: (1 + 1) / (2 + 2), (1 + 1) / (2 + 2).
        np.testing.assert_allclose(wide.base_rates, [2 / 4, 2 / 4])
        np.testing.assert_allclose(wide.table_rates, [[(1 + 1) / (2 + 2), (1 + 1) / (2 + 2)]])
        rows = Problem(wide.X, [wide.Y], fit_intercept=False)  # the same rows, not known to be one
        np.testing.assert_allclose(rows.base_rates, [2 / 4, 3 / 5])


class TestTableRates:
    """Shares of positives in each table: those in all tables where tables do not differ."""

    @staticmethod
    def of(positives, known):
        """Rates of tables with so many positive and known entries, (n_tables, n_labels) each."""
        counts = LabelRates()
        counts.label_counts = np.array([positives, known])
        return counts.table_rates, counts.base_rates

    @given(
        hnp.arrays(int, (3, 2, 4), elements=st.integers(0, 10**6)),
    )
    def test_they_are_between_0_and_1_and_those_of_the_table_and_of_all(self, counts):
        yes, known = counts.min(axis=0), counts.max(axis=0)
        rates, base = self.of(yes, known)
        assert ((rates > 0) & (rates < 1)).all()
        share = np.where(known > 0, yes / np.maximum(known, 1), base)
        assert (rates >= np.minimum(share, base) - 1e-12).all()
        assert (rates <= np.maximum(share, base) + 1e-12).all()
        np.testing.assert_allclose(rates[known == 0], np.broadcast_to(base, (2, 4))[known == 0])

    def test_equal_tables_have_the_rates_of_all(self, rng):
        known = np.full((3, 20), 400)
        rates, base = self.of(rng.binomial(known, np.linspace(0.02, 0.6, 20)), known)
        np.testing.assert_allclose(rates, np.broadcast_to(base, (3, 20)), atol=0.01)
        same, base = self.of(np.full((3, 2), [20, 300]), np.full((3, 2), 400))
        np.testing.assert_allclose(same, np.broadcast_to(base, (3, 2)), atol=1e-3)

    def test_very_different_tables_keep_their_own(self, rng):
        known = np.full((2, 10), 400)
        yes = rng.binomial(known, np.repeat([[0.9], [0.1]], 10, axis=1))
        rates, _ = self.of(yes, known)
        np.testing.assert_allclose(rates, yes / known, atol=0.01)

    def test_labels_that_a_table_only_knows_as_no_are_rare_in_it(self):
        """60, 40 and 0, and 0, 60 and 50 rows of three classes."""
        rates, _ = self.of([[60, 40, 0], [0, 60, 50]], [[100] * 3, [110] * 3])
        assert rates[0, 2] < 0.02 and rates[1, 0] < 0.02
        np.testing.assert_allclose(rates[0, :2], [0.6, 0.4], atol=0.02)

    def test_a_table_with_few_entries_borrows_from_tables_that_differ_little(self, rng):
        known = np.array([[500] * 30, [500] * 30, [4] * 30])
        rates, base = self.of(rng.binomial(known, 0.3), known)
        assert np.abs(rates[2] - base).max() < 0.05

    def test_the_strength_makes_the_counts_most_likely(self, rng):
        """Of those that are tried; counts are beta-binomial around the rates of all."""
        known = rng.integers(20, 100, size=(4, 6))
        yes = rng.binomial(known, rng.beta(6, 14, size=known.shape))
        rates, base = self.of(yes, known)
        likely = [
            betabinom.logpmf(yes, known, strength * base, strength * (1 - base)).sum()
            for strength in STRENGTHS
        ]
        best = STRENGTHS[np.argmax(likely)]
        assert 5 < best < 100
        np.testing.assert_allclose(rates, (yes + best * base) / (known + best))

    def test_order_of_tables_and_labels_does_not_matter(self, rng):
        known = rng.integers(20, 100, size=(3, 5))
        yes = rng.binomial(known, rng.beta(2, 5, size=known.shape))
        tables, labels = np.array([2, 0, 1]), np.array([4, 0, 3, 1, 2])
        found, _ = self.of(yes[tables][:, labels], known[tables][:, labels])
        np.testing.assert_allclose(found, self.of(yes, known)[0][tables][:, labels])
