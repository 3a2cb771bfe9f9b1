"""Tasks per pattern of views: against scikit-learn where it applies, and how rows are scored."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from naim3l_bench.methods import IMSF
from naim3l_bench.methods.imsf import columns_of_patterns, largest_trained

VIEWS = {"a": slice(0, 4), "b": slice(4, 7), "c": slice(7, 9)}
EXACT = {"tol": 1e-13, "max_iter": 20_000, "features": None}


@pytest.fixture
def table(rng):
    X = rng.normal(1, 2, size=(300, 9))
    truth = (X @ rng.normal(size=(9, 3)) + rng.normal(size=(300, 3)) > 1).astype(float)
    return X, np.where(rng.random(truth.shape) < 0.3, np.nan, truth)


def l1_logistic(X, y, rho):
    """scikit-learn's weights and intercept of the mean loss and ``rho`` times the l1 norm."""
    # Its intercept is penalised, too, but by a thousandth: the weights agree to three digits.
    model = LogisticRegression(penalty="l1", l1_ratio=1, C=1 / (len(y) * rho), tol=1e-10,
                               solver="liblinear", intercept_scaling=1e3, max_iter=10_000,
                               random_state=0)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # versions need penalty= or l1_ratio=, and warn of the other
        model.fit(X, y)
    return np.append(model.coef_[0], model.intercept_)


def rho_max(X, y):
    return np.abs(X.T @ (y - y.mean())).max() / len(y)


def test_complete_rows_are_one_l1_logistic_regression_per_label(table):
    X, Y = table
    model = IMSF(sparsity=0.2, views=VIEWS, **EXACT).fit(X, Y)
    assert model.patterns_.tolist() == [[True] * 3] and model.converged_
    scaled = StandardScaler().fit_transform(X)
    for k in range(3):
        known = ~np.isnan(Y[:, k])
        A, y = scaled[known], Y[known, k]
        expected = l1_logistic(A, y, 0.2 * rho_max(A, y))
        np.testing.assert_allclose(model.coef_[:, k], expected, atol=2e-3)
        np.testing.assert_allclose(
            model.decision_function(X)[:, k], scaled @ expected[:-1] + expected[-1], atol=1e-2
        )


def test_rows_of_one_view_each_are_independent_l1_logistic_regressions(table):
    X, Y = table
    for v, at in enumerate(VIEWS.values()):
        X[np.arange(300) % 3 != v, at] = np.nan
    model = IMSF(sparsity=0.3, views=VIEWS, **EXACT).fit(X, Y)
    assert model.patterns_.sum(axis=1).tolist() == [1, 1, 1]
    ends = np.cumsum(
        [1 + columns_of_patterns(model.patterns_, [4, 3, 2])[p].size for p in range(3)]
    )
    for k in range(3):
        parts = []
        for pattern in model.patterns_:
            at = list(VIEWS.values())[pattern.argmax()]
            has = ~np.isnan(X[:, at.start])
            scaled = StandardScaler().fit_transform(X[has, at])
            known = ~np.isnan(Y[has, k])
            parts.append((scaled[known], Y[has, k][known]))
        rho = 0.3 * max(rho_max(*part) for part in parts)  # one penalty for all views of a label
        for part, coef in zip(parts, np.split(model.coef_[:, k], ends[:-1]), strict=True):
            np.testing.assert_allclose(coef, l1_logistic(*part, rho), atol=2e-3)


def test_features_are_selected_for_all_patterns_at_once(rng):
    X = rng.normal(size=(400, 6))
    y = (X[:, :1] + X[:, 3:4] > 0).astype(float)
    X[:100, 3:], X[100:200, :3] = np.nan, np.nan
    model = IMSF(sparsity=0.4, views={"a": [0, 1, 2], "b": [3, 4, 5]}, features=None).fit(X, y)
    both, *alone = np.split(model.coef_[:, 0], [7, 11])
    np.testing.assert_array_equal(both[:-1] != 0, [1, 0, 0, 1, 0, 0])
    for pattern, coef in zip(model.patterns_[1:], alone, strict=True):
        np.testing.assert_array_equal(coef[:-1] != 0, [1, 0, 0])
        assert pattern.sum() == 1
    assert model.score(X[200:], y[200:]) > 0.95


def test_all_weights_are_zero_at_a_sparsity_of_one(table):
    X, Y = table
    X[:100, :4] = np.nan
    model = IMSF(sparsity=1.0, views=VIEWS, **EXACT).fit(X, Y)
    ends = np.cumsum([at.size + 1 for at in columns_of_patterns(model.patterns_, [4, 3, 2])]) - 1
    assert np.abs(np.delete(model.coef_, ends, axis=0)).max() < 1e-12
    # What is left are the log-odds of each label in the rows of the pattern.
    rates = np.nanmean(Y[100:], axis=0)
    np.testing.assert_allclose(model.coef_[ends[0]], np.log(rates / (1 - rates)), atol=1e-8)


class TestPatterns:
    @pytest.fixture
    def model(self, table):
        """Trained with views ab (100 rows), a (60) and c (40); label 2 is no wherever b is."""
        X, Y = table
        X, Y = X[:200].copy(), Y[:200].copy()
        X[:100, 7:] = X[100:160, 4:] = X[160:, :7] = np.nan
        Y[:100, 2] = np.where(np.isnan(Y[:100, 2]), np.nan, 0)
        return IMSF(views=VIEWS, features=None, min_rows=5).fit(X, Y)

    def scores(self, model, x, views):
        at = np.concatenate([np.arange(9)[VIEWS[view]] for view in views])
        row = np.full((1, 9), np.nan)
        row[0, at] = x[at]
        return model.decision_function(row)[0]

    def of_task(self, model, x, views):
        columns = columns_of_patterns(model.patterns_, [4, 3, 2])
        p = model.patterns_.tolist().index([view in views for view in VIEWS])
        start = sum(at.size + 1 for at in columns[:p])
        W = model.coef_[start : start + columns[p].size + 1]
        scaled = ((x - model.mean_) / model.scale_)[columns[p]]
        return scaled @ W[:-1] + W[-1]

    def test_are_those_of_the_training_rows(self, model):
        assert model.patterns_.tolist() == [[True, True, False], [True, False, False],
                                            [False, False, True]]  # fmt: skip
        assert model.trained_.tolist() == [[True, True, False], [True] * 3, [True] * 3]

    def test_a_row_is_scored_by_its_own_pattern(self, model, rng):
        x = rng.normal(size=9)
        np.testing.assert_allclose(self.scores(model, x, "c"), self.of_task(model, x, "c"))
        own = self.scores(model, x, "ab")
        np.testing.assert_allclose(own[:2], self.of_task(model, x, "ab")[:2])

    def test_an_unseen_pattern_uses_the_mean_of_the_largest_trained_subsets(self, model, rng):
        x = rng.normal(size=9)
        ab, a, c = (self.of_task(model, x, views) for views in ("ab", "a", "c"))
        scores = self.scores(model, x, "abc")
        np.testing.assert_allclose(scores[:2], (ab + c)[:2] / 2)
        np.testing.assert_allclose(scores[2], (a + c)[2] / 2)  # which has no task with b
        np.testing.assert_allclose(self.scores(model, x, "ab")[2], a[2])
        np.testing.assert_allclose(self.scores(model, x, "bc"), c)

    def test_a_pattern_of_few_rows_is_left_to_its_parts(self, table, rng):
        X, Y = table
        X[12:150, 4:] = X[150:, :4] = np.nan  # 12 rows have all views
        model = IMSF(views=VIEWS, features=None).fit(X, Y)
        assert model.trained_.tolist() == [[False] * 3, [True] * 3, [True] * 3]
        x = rng.normal(size=9)
        expected = (self.of_task(model, x, "a") + self.of_task(model, x, "bc")) / 2
        np.testing.assert_allclose(self.scores(model, x, "abc"), expected)
        published = IMSF(views=VIEWS, features=None, min_rows=1).fit(X, Y)
        assert published.trained_[0].any()

    def test_without_any_the_score_is_the_log_odds_of_the_label(self, model, rng):
        scores = self.scores(model, rng.normal(size=9), "b")
        np.testing.assert_array_equal(scores, model.prior_)


def test_the_objective_never_rises_and_a_lack_of_convergence_is_a_warning(table):
    X, Y = table
    X[::3, :4], X[1::3, 4:7] = np.nan, np.nan
    model = IMSF(views=VIEWS).fit(X, Y)
    values = [record["objective"] for record in model.history_]
    assert model.converged_ and (np.diff(values) <= 0).all()
    with pytest.warns(ConvergenceWarning, match="IMSF did not converge in max_iter=3"):
        IMSF(views=VIEWS, max_iter=3).fit(X, Y)


def test_a_fit_has_converged_when_each_label_has(table):
    """Not when the sum of the objectives hardly falls, which a slow label adds little to."""
    X, Y = table
    steps = [
        IMSF(views=VIEWS, sparsity=0.01, features=None).fit(X, Y[:, [k]]).n_iter_ for k in range(3)
    ]
    together = IMSF(views=VIEWS, sparsity=0.01, features=None).fit(X, Y)
    assert together.converged_ and together.n_iter_ == max(steps) > min(steps)
    with pytest.warns(ConvergenceWarning):
        short = IMSF(views=VIEWS, sparsity=0.01, features=None, max_iter=max(steps) - 1)
        assert not short.fit(X, Y).converged_


@pytest.mark.filterwarnings("ignore:label:naim3l.DataWarning")
def test_labels_of_one_value_and_constant_columns_are_no_error(table):
    X, Y = table
    X[:, 0], Y[:, 0] = 3.0, 0.0
    model = IMSF(views=VIEWS, features=None).fit(X, Y)
    np.testing.assert_array_equal(model.decision_function(X)[:, 0], model.prior_[0])
    assert model.prior_[0] < -5 and np.isfinite(model.decision_function(X)).all()


def test_the_largest_trained_patterns_are_those_that_no_other_contains(rng):
    patterns = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
    trained = rng.random((5, 40)) < 0.6
    views = [set(np.flatnonzero(pattern)) for pattern in patterns]
    for of in ([1, 1, 1], [1, 1, 0], [0, 1, 0]):
        found = largest_trained(patterns, trained, np.array(of, dtype=bool))
        for k in range(40):
            usable = [p for p in range(5) if trained[p, k] and views[p] <= set(np.flatnonzero(of))]
            expected = [p for p in usable if not any(views[p] < views[q] for q in usable)]
            assert np.flatnonzero(found[:, k]).tolist() == expected
