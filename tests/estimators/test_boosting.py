"""Boosting: what held-out scores find and must not see, their cost; the model, and its file."""

import copy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import log_expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from naim3l import load
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewBoosting, boosting
from naim3l.estimators.boosting import (
    Boosting,
    Trees,
    boosted_scores,
    boosting_cost,
    chosen_stages,
    nodes_of,
)
from naim3l.files.stored import dump

TRIED = Boosting().tried


def dealt(Y, n_folds=3):
    """Folds of the known entries of each label in turn, yes and no by themselves."""
    folds = np.full(Y.shape, -1)
    for k, y in enumerate(Y.T):
        for value in (1, -1):
            rows = np.flatnonzero(y == value)
            folds[rows, k] = np.arange(len(rows)) % n_folds
    return folds


def staged_scores(X, Y, folds, rates):
    """Held-out scores by each number of trees, (n_tried, n_rows, n_labels)."""
    labels = zip(Y.T, folds.T, logit(rates), strict=True)
    stages = [Boosting().held_out(X, *of_label) for of_label in labels]
    return np.stack(stages, axis=-1)


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


@pytest.mark.slow
def test_noise_costs_no_more_than_a_hair_above_base_rates(rng):
    X = [rng.normal(size=(n, 6)) for n in (100, 200)]
    Y = [np.where(rng.random((len(of), 5)) < 0.3, 1, -1) for of in X]
    rates = rates_of(np.concatenate(Y))
    for scores, of in zip(boosted_scores(X, Y, list(map(dealt, Y)), rates), Y, strict=True):
        assert loss(scores, of) < loss(np.tile(logit(rates), (len(of), 1)), of) + 0.01


@pytest.mark.slow
def test_a_label_of_its_own_does_not_change_the_score_of_an_entry(planted):
    X, Y = planted[0][:100], planted[1][:100]
    folds, rates = dealt(Y), rates_of(Y)
    before = staged_scores(X, Y, folds, rates)
    (chosen,) = boosted_scores([X], [Y], [folds], rates)
    for row, k in ((0, 0), (43, 1)):
        flipped = Y.copy()
        flipped[row, k] *= -1
        after = staged_scores(X, flipped, folds, rates)
        np.testing.assert_array_equal(after[:, row, k], before[:, row, k])
        same_fold = folds[:, k] == folds[row, k]  # their fit lacks the entry, too
        np.testing.assert_array_equal(after[:, same_fold, k], before[:, same_fold, k])
        assert not np.array_equal(after[:, :, k], before[:, :, k])  # of the other folds
        (scores,) = boosted_scores([X], [flipped], [folds], rates)
        assert scores[row, k] == chosen[row, k]


def test_the_number_of_trees_is_chosen_by_the_entries_of_other_folds(rng):
    Y = np.where(rng.random((60, 3)) < 0.5, 1, -1) * (rng.random((60, 3)) < 0.8)
    folds = np.where(Y != 0, rng.integers(-1, 3, size=Y.shape), -1)
    stages = rng.normal(size=(len(TRIED), *Y.shape))
    for fold in range(3):  # one stage is perfect in each fold, and so must not be chosen by it
        stages[fold + 1, folds == fold] = 9 * Y[folds == fold]
    stages[:, folds < 0] = np.nan
    found = chosen_stages(stages, Y, folds)
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


def test_cost_grows_with_tables_and_known_entries(planted):
    X, Y = planted[0], np.hstack([planted[1], np.ones((300, 1), int)])
    folds, calls = dealt(Y), []
    boosted_scores([X, X], [Y, Y], [folds, folds], rates_of(Y), advance=lambda: calls.append(1))
    assert len(calls) == 2 * Y.shape[1]
    one = boosting_cost([X], [Y], 3)
    assert boosting_cost([X, X], [Y, Y], 3) == pytest.approx(2 * one)
    assert boosting_cost([np.hstack([X, X])], [Y], 3) > one
    assert boosting_cost([np.vstack([X, X])], [np.vstack([Y, Y])], 3) > one
    assert boosting_cost([X], [np.where(Y > 0, Y, 0)], 3) < one  # with unknown entries


def with_gaps(rng, n_rows=400, n_columns=5):
    """Columns of several scales, with ties, in which missing values say something."""
    X = rng.normal(size=(n_rows, n_columns)) * 10.0 ** np.arange(n_columns)
    X[:, 1] = X[:, 1].round(-1)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, np.where(np.isnan(X[:, 0]) | (X[:, 1] > 0), 1, -1)


def test_trees_have_the_scores_of_scikit_learn(rng):
    X, y = with_gaps(rng)
    new, _ = with_gaps(rng, 1000)
    models, starts = zip(*(Boosting(30).fit(X, of) for of in (y > 0, X[:, 2] > 0)), strict=True)
    trees = Trees.of(5, np.array([*starts, 0.7]), [*map(nodes_of, models), []])
    found = trees.scores(new)
    for k, model in enumerate(models):
        np.testing.assert_allclose(found[:, k], model.decision_function(new), atol=1e-12)
    assert (found[:, 2] == 0.7).all()
    assert set(np.sign(found[:, 0])) == {-1, 1}


def test_many_rows_are_scored_in_blocks(rng, monkeypatch):
    X, y = with_gaps(rng)
    model, start = Boosting(10).fit(X, y > 0)
    trees = Trees.of(5, np.array([start]), [nodes_of(model)])
    expected = trees.scores(X)
    monkeypatch.setattr(boosting, "MOST_LEAVES", 70)
    np.testing.assert_array_equal(trees.scores(X), expected)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_scores_are_those_of_trees_fitted_to_the_known_rows_of_each_label(planted, rng, weight):
    X, Y = planted[0], np.where(rng.random((300, 2)) < 0.8, planted[1] > 0, np.nan)
    model = PerViewBoosting(20, 0.3, features=None, positive_weight=weight, random_state=0)
    model.fit({"a": X}, {"a": Y})
    assert model.n_trees_ == {"a": 20}
    found = model.decision_function({"a": X})["a"]
    for k, y in enumerate(Y.T):
        known, options = ~np.isnan(y), {"max_iter": 20, "learning_rate": 0.3}
        leaf = {"min_samples_leaf": known.sum() // 20}
        reference = HistGradientBoostingClassifier(**boosting.SETTINGS, **options, **leaf)
        counts = np.where(y[known] == 1, weight, 1)
        reference.fit(X[known], y[known], sample_weight=counts)
        start = logit(np.average(y[known], weights=counts))
        beyond = reference.decision_function(X) - start
        expected = logit(model.view_rates_["a"][k]) + beyond
        np.testing.assert_allclose(found[:, k], expected, atol=1e-10)


@pytest.mark.slow
def test_held_out_rows_choose_the_number_of_trees(rng):
    X = rng.normal(size=(240, 3))
    weak = X[:, 0] + 3 * rng.normal(size=240) > 0
    tables = {"noise": rng.random((240, 2)) < 0.5, "weak": np.column_stack([weak, ~weak])}
    tables["clear"] = np.column_stack([X[:, 0] * X[:, 1] > 0, X[:, 2] > 1])
    Y = {view: of.astype(float) for view, of in tables.items()}
    model = PerViewBoosting(features=None, decide="half", random_state=0)
    problem, scores, _ = model._fit_held_out(dict.fromkeys(Y, X), Y)
    fold_of = model._hold_out(problem, 5).fold_of
    for (view, n_trees), rows in zip(model.n_trees_.items(), problem.row_slices, strict=True):
        folds, signed = fold_of[rows], problem.Y[rows]
        stages = staged_scores(X, signed, folds, model.view_rates_[view])
        losses = [loss(stage, signed) for stage in stages]
        assert n_trees == TRIED[np.argmin(losses)], view
        np.testing.assert_allclose(scores[rows], chosen_stages(stages, signed, folds))
        if n_trees:  # no fewer than the model has
            assert len(model.trees_[view].roots) == 2 * n_trees
    assert model.n_trees_["noise"] == 0 and model.n_trees_["clear"] >= 30


def test_the_model_and_the_comparison_are_one(planted):
    data = {"a": planted[0]}, {"a": (planted[1] > 0).astype(float)}
    model = PerViewBoosting(features=None, decide="half", random_state=0)
    problem, scores, _ = model._fit_held_out(*data)
    given = [planted[0]], [planted[1]], [model._hold_out(problem, 5).fold_of]
    (found,) = boosted_scores(*given, model.view_rates_["a"])
    np.testing.assert_allclose(scores, found)


def test_probabilities_of_new_rows_are_not_those_learned_by_heart(rng):
    X, new = (rng.normal(size=(400, 3)) for _ in range(2))
    Y, truth = ((of[:, :1] * of[:, 1:] + rng.normal(size=(400, 2)) > 0) * 1 for of in (X, new))
    model = PerViewBoosting(decide="half", random_state=0).fit({"a": X}, {"a": Y})
    for features, labels, most in ((X, Y, 0.6), (new, truth, 0.67)):
        P = model.predict_proba({"a": features})["a"]
        assert -np.mean(np.log(np.where(labels, P, 1 - P))) < most


@pytest.mark.filterwarnings("ignore:labels never observed positive")
def test_labels_that_a_view_cannot_fit_are_constant(planted):
    Y = np.column_stack([planted[1] > 0, np.zeros((300, 2))]).astype(float)
    Y[:, 2] = np.nan
    other = {"b": np.eye(3), "a": planted[0]}, {"b": np.tri(3, 4), "a": Y}
    model = PerViewBoosting(decide="guarded", random_state=0).fit(*other)
    scores, P = model.decision_function(other[0]), model.predict_proba(other[0])
    rates = np.tile(model.view_rates_["a"][2:], (300, 1))
    np.testing.assert_allclose(scores["a"][:, 2:], logit(rates))
    np.testing.assert_allclose(P["a"][:, 2:], rates)
    assert roc_auc_score(Y[:, 0], scores["a"][:, 0]) > 0.95
    assert np.ptp(scores["b"], axis=0).max() == 0  # too few rows for a tree


def messy(n_rows=120):
    rng = np.random.default_rng(0)
    x, ward = rng.normal(size=n_rows), rng.choice(["north", "south", "west"], n_rows)
    words = [f"{a}{b}" for a in "bcdfglmnprst" for b in ("ana", "ero", "ilu", "oba", "utu")]
    pain = rng.random(n_rows) < 0.5
    notes = [" ".join([*rng.choice(words, 6), "pain" * int(of)]) for of in pain]
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 999, n_rows), "D")
    table = pd.DataFrame({"x": x, "ward": ward, "seen": days, "still": 1.0})
    table.loc[::7, ["x", "ward"]] = None
    table.iloc[3] = None
    sick = (ward == "north") ^ (x > 0)
    labels = pd.DataFrame({"sick": sick, "pain": pain}).astype(float)
    labels.iloc[::5, 0] = np.nan
    texts = pd.DataFrame({"note": notes, "x": x})
    return {"ward": table, "notes": texts}, {"ward": labels, "notes": labels}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_text_categories_dates_and_gaps_and_what_a_file_keeps_of_them(tmp_path):
    X, Y = messy()
    model = PerViewBoosting(max_trees=20, decide="guarded", random_state=0).fit(X, Y)
    scores, known = model.decision_function(X), Y["ward"]["sick"].notna() & (np.arange(120) != 3)
    assert roc_auc_score(Y["ward"]["sick"][known], scores["ward"][known, 0]) > 0.85
    assert np.isfinite(scores["notes"]).all()
    assert np.isnan(scores["ward"][3]).all()  # it lacks the view
    assert model.features_["ward"].recipe is None  # columns as they are
    assert model.features_["notes"].recipe is not None  # too many terms for trees
    model.save(tmp_path / "model.naim3l")
    loaded = load(tmp_path / "model.naim3l")
    assert loaded.get_params() == model.get_params() and loaded.n_trees_ == model.n_trees_
    for method in ("decision_function", "predict_proba", "predict"):
        found, expected = getattr(loaded, method)(X), getattr(model, method)(X)
        for view in X:
            np.testing.assert_array_equal(found[view], expected[view])


@pytest.mark.slow
def test_sparse_rows_wide_tables_and_processes_make_no_difference():
    data = make_unpaired(60, n_features=(9, 8), n_labels=3, noise=0.5, random_state=0)
    options = {"max_trees": 3, "features": None, "decide": "half", "random_state": 0}
    model = PerViewBoosting(**options).fit(data.views, data.labels)
    processes = PerViewBoosting(**options, n_jobs=2).fit(data.views, data.labels)
    rows = {view: sparse.csr_array(X) for view, X in data.views.items()}
    compact = PerViewBoosting(**options).fit(rows, data.labels)
    for view, P in model.predict_proba(data.views).items():
        np.testing.assert_array_equal(processes.predict_proba(data.views)[view], P)
        np.testing.assert_array_equal(compact.predict_proba(rows)[view], P)
    wide = np.hstack([data.views["view0"], data.views["view0"]])
    views = {"a": slice(0, 9), "b": slice(9, 18)}
    labels = data.labels["view0"]
    both = PerViewBoosting(**options | {"views": views}).fit(wide, labels)
    assert both.predict_proba(wide).shape == labels.shape


def test_an_interrupted_fit_leaves_no_model_behind(planted, monkeypatch):
    given = {"a": planted[0]}, {"a": (planted[1] > 0).astype(float)}
    model = PerViewBoosting(max_trees=5).fit(*given)

    def interrupt(*of):
        raise KeyboardInterrupt

    monkeypatch.setattr(boosting, "fit_label", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*given)
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(given[0])


def test_options_have_bounds(planted):
    for options in ({"max_trees": 0}, {"learning_rate": 0}, {"max_trees": 2.5}, {"n_jobs": "2"}):
        (name,) = options
        with pytest.raises(ValueError, match=f"The '{name}' parameter of PerViewBoosting"):
            PerViewBoosting(**options).fit({"a": planted[0]}, {"a": planted[1] > 0})


def set_at(name, at, value):
    def change(model):
        getattr(model.trees_["a"], name)[at] = value

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_at("left", 0, 0), "children that are not behind it in its tree"),
        (set_at("right", 0, -1), "children that are not behind it in its tree"),
        (set_at("left", 1, 10**9), "children that are not behind it in its tree"),
        (set_at("right", 0, -(2**62)), "children that are not behind it in its tree"),
        (set_at("column", 0, 4), "a node compares column 4 of 4"),
        (set_at("column", 0, -1), "column in trees_ of view 'a' should be whole numbers"),
        (set_at("value", 0, np.nan), "value in trees_ of view 'a' should be finite numbers"),
        (set_at("roots", 0, 1), "trees without nodes, or nodes without a tree"),
        (set_at("roots", 1, 0), "trees without nodes, or nodes without a tree"),
        (set_at("roots", -1, 10**9), "trees without nodes, or nodes without a tree"),
        (set_at("ends", 0, 10**9), "labels have up to"),
        (set_at("ends", -1, 0), "labels have up to"),
        (lambda m: vars(m.trees_["a"]).update(n_columns=9), "view 'a': trees of 9 columns, of 4"),
        (lambda m: vars(m.trees_["a"]).update(value=np.zeros(2)), "of shape"),
        (lambda m: m.trees_.clear(), "should be a mapping of the views"),
    ],
)
def test_parts_that_do_not_fit_are_refused(planted, change, reason):
    model = PerViewBoosting(max_trees=5, features=None, random_state=0)
    model.fit({"a": planted[0]}, {"a": (planted[1] > 0).astype(float)})
    copied = copy.deepcopy(model)
    change(copied)
    with pytest.raises(ValueError, match=f"cannot be saved: .*{reason}"):
        dump(copied, PerViewBoosting)
