import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.estimators.ridge import masked_ridge, masked_ridges
from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.rows import Problem


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_scikit_learn_s_ridge_on_the_known_rows_of_each_label(fit_intercept):
    data = make_unpaired(70, n_features=(6, 4), n_labels=3, n_latent=3, noise=0.1,
                         missing_labels=0.4, random_state=0)  # fmt: skip
    model = PerViewRidge(0.7, transformer=None, fit_intercept=fit_intercept)
    model.fit(data.views, data.labels)
    for view, X in data.views.items():
        for k in range(3):
            known = ~np.isnan(data.labels[view][:, k])
            reference = Ridge(0.7, fit_intercept=fit_intercept)
            reference.fit(X[known], 2 * data.labels[view][known, k] - 1)
            np.testing.assert_allclose(model.coef_[view][:, k], reference.coef_, atol=1e-8)
            assert model.intercept_[view][k] == pytest.approx(reference.intercept_, abs=1e-8)


def test_minimises_its_objective_with_sparse_rows_and_shared_masks(make_problem, rng):
    features, labels, _ = make_problem()
    for Y in labels:
        Y[:, 1] = np.where(Y[:, 0] == 0, 0, -1)  # known in the same rows as label 0
    problem = Problem([sparse.csr_array(X) for X in features], labels)
    W = masked_ridge(problem, 0.5)
    gradient = problem.multiply_transposed(problem.residual(problem.multiply(W)))
    gradient += 0.5 * problem.penalised * W
    assert np.abs(gradient).max() < 1e-10


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_rows", [(60, 40), (9, 40)], ids=["tall", "fewer rows than columns"])
def test_statistics_have_the_weights_of_the_rows(make_problem, n_rows, fit_intercept):
    features, labels, _ = make_problem(n_rows=n_rows, n_features=(12, 5))
    for Y in labels:
        Y[:, 1] = -Y[:, 0]  # known in the same rows
    labels[1][:, 2] = 0  # known in no row
    features = [X + 3 for X in features]
    problem = Problem(features, labels, fit_intercept=fit_intercept, positive_weight=2.0)
    ridges = [1e-2, 1.0, 100.0]
    expected = masked_ridges(problem, ridges)
    found = masked_ridges(CompressedProblem.from_problem(problem), ridges)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("transform", [lambda X: X + 1e6, lambda X: 1e8 * X], ids=["far", "large"])
@pytest.mark.filterwarnings("ignore:view .*varies by:naim3l.DataWarning")
def test_columns_far_from_0_or_large_lose_no_digits(transform):
    data = make_unpaired(70, n_features=(6, 4), n_labels=3, n_latent=3, noise=0.5,
                         missing_labels=0.4, random_state=0)  # fmt: skip
    views = {view: transform(X) for view, X in data.views.items()}
    model = PerViewRidge(1.0, transformer=None).fit(views, data.labels)
    for view, X in views.items():
        known = ~np.isnan(data.labels[view][:, 0])
        reference = Ridge(1.0).fit(X[known], 2 * data.labels[view][known, 0] - 1)
        scores = model.decision_function(views)[view][:, 0]
        np.testing.assert_allclose(scores, reference.predict(X), atol=1e-6)


def test_columns_that_depend_on_each_other_are_no_error_where_the_ridge_is_lost(rng):
    X = 1e9 * rng.normal(size=(30, 2)) @ rng.normal(size=(2, 4))
    Y = (X[:, :1] > 0) * 1.0
    model = PerViewRidge(1e-3, transformer=None).fit({"a": X}, {"a": Y})
    assert (model.predict({"a": X})["a"] == Y).mean() > 0.8


def test_a_label_unknown_in_a_view_gets_zero_weights_there(make_problem):
    features, labels, _ = make_problem()
    labels[1][:, 2] = 0
    problem = Problem(features, labels)
    assert not masked_ridge(problem, 1.0)[problem.weight_slices[1], 2].any()


def test_ridge_must_be_positive():
    with pytest.raises(ValueError, match=r"ridge must be a finite number > 0, got 0\.0"):
        PerViewRidge(0.0).fit({"a": np.eye(3)}, {"a": np.eye(3)})
