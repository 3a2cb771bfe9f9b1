"""Ridge regression of each label on its known rows, from rows and from statistics."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from naim3l.problem import feature_blocks
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem

SHAPES = {"tall": (60, 40), "fewer rows than columns": (9, 40)}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_rows", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("form", ["dense", "sparse", "statistics"])
def test_it_is_scikit_learn_s_on_the_known_rows_of_each_label(
    make_problem, n_rows, fit_intercept, form
):
    features, labels, _ = make_problem(n_rows=n_rows, n_features=(12, 5), n_labels=4)
    for Y in labels:
        Y[:, 1] = -Y[:, 0]  # known in the same rows
    features = [X + 3 for X in features]
    given = [sparse.csr_array(X) for X in features] if form == "sparse" else features
    problem = Problem(given, labels, fit_intercept=fit_intercept, positive_weight=2.0)
    problem = StatisticsProblem.of(problem) if form == "statistics" else problem
    ridges = [1e-2, 1.0, 100.0]
    for ridge, W in zip(ridges, problem.ridge_solutions(ridges), strict=True):
        coefficients, intercepts = problem.split_weights(W)
        for X, Y, C, b in zip(features, labels, coefficients, intercepts, strict=True):
            for k in range(4):
                known = Y[:, k] != 0
                model = Ridge(ridge, fit_intercept=fit_intercept)
                model.fit(X[known], Y[known, k], np.where(Y[known, k] > 0, 2.0, 1.0))
                np.testing.assert_allclose(C[:, k], model.coef_, atol=1e-8)
                assert b[k] == pytest.approx(model.intercept_, abs=1e-7)


@pytest.mark.parametrize("transform", [lambda X: X + 1e6, lambda X: 1e8 * X], ids=["far", "large"])
def test_columns_far_from_0_or_large_lose_no_digits(make_problem, transform):
    features, labels, _ = make_problem(n_rows=(70, 60))
    features = [transform(X) for X in features]
    problem = Problem(features, labels)
    [W] = problem.ridge_solutions([1.0])
    for X, Y, rows in zip(features, labels, problem.row_slices, strict=True):
        known = Y[:, 0] != 0
        expected = Ridge(1.0).fit(X[known], Y[known, 0]).predict(X)
        np.testing.assert_allclose(problem.multiply(W)[rows, 0], expected, atol=1e-6)


def test_columns_that_depend_on_each_other_are_no_error_where_the_ridge_is_lost(rng):
    X = 1e9 * rng.normal(size=(30, 2)) @ rng.normal(size=(2, 4))
    Y = np.sign(X[:, :1])
    problem = Problem([X], [Y])
    [W] = problem.ridge_solutions([1e-3])
    assert (np.sign(problem.multiply(W)) == Y).mean() > 0.8


def test_a_label_unknown_in_a_view_gets_zero_weights_there(make_problem):
    features, labels, _ = make_problem()
    labels[1][:, 2] = 0
    problem = Problem(features, labels)
    for form in (problem, StatisticsProblem.of(problem)):
        assert not form.ridge_solutions([1.0])[0, problem.weight_slices[1], 2].any()


def test_a_view_beyond_the_memory_is_refused_by_name(make_problem, monkeypatch):
    features, labels, _ = make_problem()
    monkeypatch.setattr(feature_blocks, "physical_memory", lambda: 1000)
    cure = r"features=Recipe\('scale', n_components=...\)"
    with pytest.raises(MemoryError, match=rf"view 'lab' \(40 rows, 5 columns\).*{cure}"):
        Problem(features, labels, names=["lab", "scan"]).ridge_solutions([1.0])
