"""Boosted scores of held-out entries: what they find, what they must not see, and their cost."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from naim3l.estimators.boosting import (
    N_TREES,
    _chosen_stages,
    _staged_scores,
    boosted_scores,
    boosting_cost,
    boosting_fits,
)


def dealt(Y, n_folds=3):
    """Folds of the known entries of each label in turn, yes and no by themselves."""
    folds = np.full(Y.shape, -1)
    for k, y in enumerate(Y.T):
        for value in (1, -1):
            rows = np.flatnonzero(y == value)
            folds[rows, k] = np.arange(len(rows)) % n_folds
    return folds


def loss(scores, Y):
    """Mean log-loss of the entries that have scores."""
    scored = np.isfinite(scores)
    return -log_expit(Y[scored] * scores[scored]).mean()


def rates_of(Y):
    return ((Y > 0).sum(axis=0) + 1) / ((Y != 0).sum(axis=0) + 2)


@pytest.fixture(scope="module")
def planted():
    """Rows whose two labels are the sign of a product of columns, and its opposite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    return X, np.column_stack([y, -y])


def test_a_relation_that_is_not_linear_is_found(planted):
    X, Y = planted
    (scores,) = boosted_scores([X], [Y], [dealt(Y)], rates_of(Y))
    for k in (0, 1):
        linear = cross_val_predict(LogisticRegression(), X, Y[:, k], method="decision_function")
        assert roc_auc_score(Y[:, k], linear) < 0.6
        assert roc_auc_score(Y[:, k], scores[:, k]) > 0.9
    assert loss(scores, Y) < 0.7 * np.log(2)


def test_noise_costs_no_more_than_a_hair_above_base_rates(rng):
    X = [rng.normal(size=(n, 6)) for n in (100, 200)]
    Y = [np.where(rng.random((len(of), 5)) < 0.3, 1, -1) for of in X]
    rates = rates_of(np.concatenate(Y))
    for scores, of in zip(boosted_scores(X, Y, list(map(dealt, Y)), rates), Y, strict=True):
        assert loss(scores, of) < loss(np.tile(logit(rates), (len(of), 1)), of) + 0.01


def test_a_label_of_its_own_does_not_change_the_score_of_an_entry(planted):
    X, Y = planted[0][:100], planted[1][:100]
    folds, rates = dealt(Y), rates_of(Y)
    before = _staged_scores(X, Y, folds, rates, lambda: None)
    (chosen,) = boosted_scores([X], [Y], [folds], rates)
    for row, k in ((0, 0), (43, 1)):
        flipped = Y.copy()
        flipped[row, k] *= -1
        after = _staged_scores(X, flipped, folds, rates, lambda: None)
        np.testing.assert_array_equal(after[:, row, k], before[:, row, k])
        same_fold = folds[:, k] == folds[row, k]  # their fit lacks the entry, too
        np.testing.assert_array_equal(after[:, same_fold, k], before[:, same_fold, k])
        assert not np.array_equal(after[:, :, k], before[:, :, k])  # of the other folds
        (scores,) = boosted_scores([X], [flipped], [folds], rates)
        assert scores[row, k] == chosen[row, k]


def test_the_number_of_trees_is_chosen_by_the_entries_of_other_folds(rng):
    Y = np.where(rng.random((60, 3)) < 0.5, 1, -1) * (rng.random((60, 3)) < 0.8)
    folds = np.where(Y != 0, rng.integers(-1, 3, size=Y.shape), -1)
    stages = rng.normal(size=(len(N_TREES), *Y.shape))
    for fold in range(3):  # one stage is perfect in each fold, and so must not be chosen by it
        stages[fold + 1, folds == fold] = 9 * Y[folds == fold]
    stages[:, folds < 0] = np.nan
    found = _chosen_stages(stages, Y, folds)
    for fold in range(3):
        others = (folds >= 0) & (folds != fold)
        losses = [loss(stage[others], Y[others]) for stage in stages]
        assert np.argmin(losses) != fold + 1
        own = folds == fold
        np.testing.assert_array_equal(found[own], stages[np.argmin(losses)][own])


def test_without_entries_of_other_folds_scores_are_base_rates(planted):
    X, Y = planted
    folds, rates = dealt(Y, n_folds=2) - 1, np.array([0.3, 0.6])  # half of them in no fold
    (scores,) = boosted_scores([X], [Y], [folds], rates)
    expected = np.where(folds == 0, logit(rates), np.nan)
    np.testing.assert_allclose(scores, expected)


def test_only_entries_that_are_known_and_in_a_fold_have_scores(planted, rng):
    X, Y = planted[0], planted[1] * (rng.random((300, 2)) < 0.7)
    folds = rng.integers(-1, 3, size=Y.shape)  # unknown entries may have one
    (scores,) = boosted_scores([X], [Y], [folds], rates_of(Y))
    np.testing.assert_array_equal(np.isfinite(scores), (Y != 0) & (folds >= 0))
    known = np.where(Y != 0, folds, -1)
    np.testing.assert_array_equal(boosted_scores([X], [Y], [known], rates_of(Y))[0], scores)


def test_labels_of_one_value_are_constant_whatever_the_rate(planted):
    X, Y = planted[0], np.hstack([np.ones((300, 1), int), -np.ones((300, 2), int), planted[1]])
    Y[0, 2] = 1  # the only positive is held out, so that the fit of its fold has none
    folds, rates = dealt(Y), np.array([1.0, 0.0, 0.1, 0.5, 0.5])
    (scores,) = boosted_scores([X], [Y], [folds], rates)
    assert np.isfinite(scores).all()
    assert np.ptp(scores[:, 0]) == 0 < scores[0, 0]
    assert np.ptp(scores[:, 1]) == 0 > scores[0, 1]
    np.testing.assert_allclose(scores[folds[:, 2] == folds[0, 2], 2], logit(0.1))


def test_sparse_tables_have_the_scores_of_dense_ones(planted):
    X, Y = np.where(np.abs(planted[0]) < 0.3, 0, planted[0]), planted[1]
    folds, rates = dealt(Y), rates_of(Y)
    (dense,) = boosted_scores([X], [Y], [folds], rates)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        np.testing.assert_array_equal(boosted_scores([kind(X)], [Y], [folds], rates)[0], dense)
    assert boosting_cost([kind(X)], [Y], [folds]) == boosting_cost([X], [Y], [folds])


def test_views_are_fitted_by_themselves(planted, rng):
    X, Y = planted
    tables, signed = [X[:200], rng.normal(size=(100, 2))], [Y[:200], Y[200:]]
    folds, rates = [dealt(of) for of in signed], np.array([[0.3, 0.6], [0.8, 0.1]])
    found = boosted_scores(tables, signed, folds, rates)
    for v, of_view in enumerate(rates):
        (alone,) = boosted_scores([tables[v]], [signed[v]], [folds[v]], of_view)
        np.testing.assert_array_equal(found[v], alone)


def test_values_may_be_missing_and_columns_empty(planted, rng):
    X, Y = np.hstack([planted[0], np.full((300, 1), np.nan), np.ones((300, 1))]), planted[1]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[5] = np.nan
    X[7, 4] = 1  # so that the column is empty for the fits without this row
    given = X.copy()
    (scores,) = boosted_scores([X], [Y], [dealt(Y)], rates_of(Y))
    assert roc_auc_score(Y[:, 0], scores[:, 0]) > 0.8
    np.testing.assert_array_equal(X, given)


@pytest.mark.parametrize("shape", [(0, 3), (6, 0)])
def test_tables_without_rows_or_columns_have_base_rates(shape):
    Y = np.resize([1, 1, 1, -1, -1, -1], (shape[0], 1))
    (scores,) = boosted_scores([np.ones(shape)], [Y], [dealt(Y)], np.array([0.2]))
    np.testing.assert_allclose(scores, np.full(Y.shape, logit(0.2)))
    assert boosting_cost([np.ones(shape)], [Y], [dealt(Y)]) == 0


def test_cost_counts_the_fits_and_grows_with_tables(planted):
    X, Y = planted[0], np.hstack([planted[1], np.ones((300, 1), int)])
    folds, calls = dealt(Y), []
    boosted_scores([X, X], [Y, Y], [folds, folds], rates_of(Y), advance=lambda: calls.append(1))
    fits = boosting_fits([X, X], [Y, Y], [folds, folds])
    assert len(calls) == len(fits) == 2 * 2 * 3  # views, labels with both values, folds
    assert [sum(rows for rows, _ in fits[i : i + 3]) for i in (0, 3, 6, 9)] == [600] * 4
    assert {columns for _, columns in fits} == {4}
    one = boosting_cost([X], [Y], [folds])
    assert boosting_cost([X, X], [Y, Y], [folds, folds]) == pytest.approx(2 * one)
    assert boosting_cost([np.hstack([X, X])], [Y], [folds]) > one
    twice = [np.vstack([of, of]) for of in (X, Y, folds)]
    assert boosting_cost(*([of] for of in twice)) > one
