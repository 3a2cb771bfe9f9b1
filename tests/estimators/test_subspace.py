"""Ridge regression in a space of labels: its definition, its limits, and soft labels."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from naim3l import LabelSubspaceRidge, PerViewRidge, evaluate, join_views, load
from naim3l.datasets import make_unpaired
from naim3l.decisions.held_out import Folds, hidden_metric, hold_out_folds
from naim3l.estimators.ridge_fits import (
    SHRINKAGES,
    LabelSpace,
    RidgeFits,
    all_pairs,
    fit_pairs,
    label_products,
)
from naim3l.estimators.subspace import fill_probabilities, soften
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem


def problem_of(rng, n_rows=(70, 50), n_labels=4, unknown=0.3, **options):
    features = [rng.normal(2.0, 1.0, size=(n, 5)) for n in n_rows]
    hidden = rng.normal(size=(5, n_labels))
    labels = []
    for X in features:
        Y = np.where((X - 2) @ hidden + rng.normal(size=(len(X), n_labels)) > 0, 1, -1)
        labels.append(np.where(rng.random(Y.shape) < unknown, 0, Y))
    return Problem(features, labels, **options)


def fit(problem, ridge, shrinkage, rates=None):
    rates = problem.base_rates if rates is None else rates
    return fit_pairs(problem, rates, [(ridge, shrinkage)])((ridge, shrinkage))


def test_weights_follow_the_definition(rng):
    """With all labels known: centred rows and labels, one eigenvalue problem of all views."""
    problem, kappa, tau = problem_of(rng, unknown=0.0), 2.0, 0.7
    scale = 1 / np.sqrt(problem.base_rates * (1 - problem.base_rates))
    parts, G = [], 0.0
    for X, rows in zip(problem.features, problem.row_slices, strict=True):
        Y = problem.Y[rows]
        X_c, Y_c = X - X.mean(axis=0), Y - Y.mean(axis=0)
        B = X_c.T @ Y_c
        A = np.linalg.solve(X_c.T @ X_c + kappa * np.eye(5), B)
        G = G + scale[:, None] * (B.T @ A) * scale
        parts.append((X, Y, A))
    w, Q = np.linalg.eigh(G)
    mixing = np.diag(scale) @ Q @ np.diag(w / (w + tau * w.mean())) @ Q.T @ np.diag(1 / scale)
    W = fit(problem, kappa, tau)
    for (X, Y, A), weights in zip(parts, problem.weight_slices, strict=True):
        assert_allclose(W[weights][:-1], A @ mixing, rtol=1e-8)
        scores = X @ W[weights][:-1] + W[weights][-1]
        assert_allclose(scores.mean(axis=0), Y.mean(axis=0), atol=1e-10)


def test_without_shrinkage_it_is_ridge_regression(rng):
    problem = problem_of(rng)
    assert_allclose(fit(problem, 3.0, 0.0), problem.ridge_solutions([3.0])[0], atol=1e-10)
    assert_allclose(fit(problem, 3.0, 1e-12), problem.ridge_solutions([3.0])[0], atol=1e-8)


def test_products_do_not_depend_on_shifts_of_columns_or_weights_of_intercepts(rng):
    problem = problem_of(rng)
    W = problem.ridge_solutions([1.0])[0]
    shifted = problem.with_features([X + 7.0 for X in problem.features])
    expected = label_products(problem, W)
    assert_allclose(label_products(shifted, shifted.ridge_solutions([1.0])[0]), expected, rtol=1e-7)
    W[[weights.stop - 1 for weights in problem.weight_slices]] += 5.0
    assert_allclose(label_products(problem, W), expected, rtol=1e-9)


def test_views_only_share_a_sum_of_label_by_label(rng):
    """Sums of tables by themselves, added up, give the weights of all tables together."""
    problem, ridge, shrinkage = problem_of(rng), 1.0, 0.5
    W, total, ridges = fit(problem, ridge, shrinkage), 0.0, []
    for v, rows in enumerate(problem.row_slices):
        alone = Problem([problem.features[v]], [problem.Y[rows]])
        ridges.append((alone, alone.ridge_solutions([ridge])[0]))
        total = total + label_products(*ridges[-1])
    mixing = LabelSpace.of(total, problem.base_rates).mixing(shrinkage)
    for (_, of_view), weights in zip(ridges, problem.weight_slices, strict=True):
        assert_allclose(W[weights][:-1], (of_view @ mixing)[:-1], rtol=1e-10)


@pytest.mark.parametrize("positive_weight", [1.0, 3.0])
def test_statistics_give_the_weights_of_rows(rng, positive_weight):
    problem = problem_of(rng, positive_weight=positive_weight)
    sums = StatisticsProblem.of(problem, chunk_rows=13)
    assert_allclose(sums.known_sums, problem.known_sums, rtol=1e-12, atol=1e-12)
    found = fit(sums, 1.0, 0.5, problem.base_rates)
    assert_allclose(found, fit(problem, 1.0, 0.5), rtol=1e-9, atol=1e-10)


def test_strong_shrinkage_leaves_the_strongest_direction(rng):
    """Copies of one label and one of noise: what they share is kept, the noise is not."""
    X = rng.normal(size=(400, 6))
    signal = np.sign(X[:, 0] + 0.5 * rng.normal(size=400))
    noise = np.sign(rng.normal(size=400))
    problem = Problem([X], [np.column_stack([signal, signal, noise])])
    ridge, shrunk = fit(problem, 1.0, 0.0), fit(problem, 1.0, 1.0)
    share = np.linalg.norm(shrunk[:-1], axis=0) / np.linalg.norm(ridge[:-1], axis=0)
    assert share[0] > 0.6 and share[2] < 0.2
    assert_allclose(shrunk[:, 0], shrunk[:, 1], atol=1e-10)


def test_a_label_that_a_view_never_records_is_scored_through_others(rng):
    problem = problem_of(rng, n_rows=(300, 300), n_labels=3, unknown=0.0)
    Y = problem.Y.copy()
    Y[:, 2] = Y[:, 0]  # as in the other table, where it is known
    hidden = np.zeros(Y.shape, dtype=bool)
    hidden[problem.row_slices[1], 2] = True
    W = fit(problem.with_labels(Y).without(hidden), 1.0, 1.0)
    S = problem.multiply(W)[problem.row_slices[1]]
    assert np.corrcoef(S[:, 0], S[:, 2])[0, 1] > 0.95


def test_pairs_are_best_on_the_folds_and_for_each_fold_on_the_others(rng):
    problem = problem_of(rng)
    fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
    pairs = all_pairs()
    found = RidgeFits.of(Folds.of(problem, fold_of), problem.base_rates, "macro-AUC", pairs)
    values = np.empty((3, len(pairs)))
    for fold in range(3):
        hidden = fold_of == fold
        rest = problem.without(hidden)
        for i, pair in enumerate(pairs):
            W = fit_pairs(rest, problem.base_rates, [pair])(pair)
            values[fold, i] = hidden_metric(problem, hidden, W, "macro-AUC")
    assert_allclose(found.values, values, rtol=1e-9)
    best, fits, without = found.best(SHRINKAGES)
    few = found.folds.rows.label_counts[1].sum() < 30 * 8
    assert not few and best == pairs[int(np.argmax(values.mean(axis=0)))]
    for fold in range(3):
        rest = problem.without(fold_of == fold)
        assert_allclose(fits[fold], fit_pairs(rest, problem.base_rates, [best])(best))
        other = pairs[int(np.argmax(np.delete(values, fold, axis=0).mean(axis=0)))]
        assert_allclose(without[fold], fit_pairs(rest, problem.base_rates, [other])(other))


class TestSoftLabels:
    def test_probabilities_of_one_mean_known_labels(self, rng):
        """Filled in with the truth at full weight, the fit is that of known labels."""
        problem = problem_of(rng, unknown=0.0)
        hidden = rng.random(problem.Y.shape) < 0.4
        soft = soften(problem.without(hidden), (problem.Y > 0).astype(float), 1.0)
        assert_allclose(fit(soft, 1.0, 0.0), fit(problem, 1.0, 0.0), rtol=1e-9, atol=1e-12)

    def test_no_weight_means_unknown_labels(self, rng):
        problem = problem_of(rng)
        soft = soften(problem, np.full(problem.Y.shape, 0.9), 0.0)
        expected = problem.ridge_solutions([1.0])[0]
        assert_allclose(soft.ridge_solutions([1.0])[0], expected, rtol=1e-9, atol=1e-12)

    def test_rows_that_are_left_out_have_no_part_in_it(self, rng):
        problem = problem_of(rng)
        P = rng.random(problem.Y.shape)
        used = rng.random(len(P)) < 0.7
        changed = P.copy()
        changed[~used] = 0.5
        one, other = (soften(problem, of, 0.5, used) for of in (P, changed))
        rates = problem.base_rates
        assert_allclose(fit(one, 1.0, 0.3, rates), fit(other, 1.0, 0.3, rates), rtol=1e-12)
        assert (one.P[~used] == 0).all() and (one.P[used] > 0).all()

    def test_probabilities_are_those_of_rows_that_no_fit_has_seen(self, rng):
        """Labels of a row change the probabilities of its unknown labels only as known labels."""
        problem = problem_of(rng, n_rows=(300,))
        fold_of = hold_out_folds(problem, 5, np.random.RandomState(0))
        folds = Folds.of(problem, fold_of)
        parts = map(folds.without, range(len(folds)))
        fits = [part.ridge_solutions([1.0])[0] for part in parts]
        final = problem.multiply(problem.ridge_solutions([1.0])[0])
        P = fill_probabilities(problem, folds.scores(fits, final), final)
        assert ((P > 0) & (P < 1)).all()
        assert P[problem.Y > 0].mean() > P[problem.Y < 0].mean() + 0.1

    def test_a_held_out_fold_has_no_part_in_its_soft_fit(self, rng):
        """Neither by its rows nor by the soft labels of others."""
        problem = problem_of(rng, n_rows=(150, 120))
        fold_of = hold_out_folds(problem, 5, np.random.RandomState(0))
        flipped = problem.with_labels(np.where(fold_of == 2, -problem.Y, problem.Y))
        flipped.base_rates, model, found = problem.base_rates, LabelSubspaceRidge(soft_labels=1), []
        pair = 1.0, 0.3
        for of in (problem, flipped):
            folds = Folds.of(of, fold_of)
            parts = map(folds.without, range(len(folds)))
            fits = [fit(part, *pair, problem.base_rates) for part in parts]
            W = fit(of, *pair, problem.base_rates)
            found.append(model._fit_softly(of, folds, fits, W, pair)[1])
        assert_allclose(found[0][2], found[1][2], rtol=1e-8, atol=1e-10)
        assert np.abs(found[0][1] - found[1][1]).max() > 1e-3


class TestModels:
    @pytest.fixture(scope="class")
    @staticmethod
    def data():
        return make_unpaired(200, n_labels=6, missing_labels=0.5, noise=1, random_state=0)

    def test_it_ranks_as_well_as_ridge_and_keeps_the_face_of_other_models(self, data, tmp_path):
        labels = {v: pd.DataFrame(Y, columns=list("abcdef")) for v, Y in data.labels.items()}
        model = LabelSubspaceRidge(random_state=0).fit(data.views, labels)
        assert model.label_names_ == list("abcdef")
        truth, P = data.complete_labels, model.predict_proba(data.views)
        ridge = PerViewRidge(model.ridge_).fit(data.views, labels)
        ours, others = (evaluate(truth, of.decision_function(data.views)) for of in (model, ridge))
        assert ours["macro-AUC"] > others["macro-AUC"] - 0.02
        model.save(tmp_path / "m.naim3l")
        again = load(tmp_path / "m.naim3l")
        assert (again.ridge_, again.shrinkage_) == (model.ridge_, model.shrinkage_)
        for view, of_view in again.predict_proba(data.views, labels).items():
            assert_array_equal(of_view, model.predict_proba(data.views, labels)[view])
            assert not np.array_equal(of_view, P[view])  # known labels are used

    def test_given_parameters_and_no_rule_need_no_folds(self, data):
        model = LabelSubspaceRidge(2.0, 0.5, decide="sign").fit(data.views, data.labels)
        assert (model.ridge_, model.shrinkage_) == (2.0, 0.5) and not hasattr(model, "metric_")
        ridge = LabelSubspaceRidge(2.0, 0, decide="sign").fit(data.views, data.labels)
        expected = PerViewRidge(2.0).fit(data.views, data.labels)
        for view, W in expected.coef_.items():
            assert_allclose(ridge.coef_[view], W, atol=1e-10)

    def test_soft_labels_change_the_fit_and_need_tables_in_memory(self, data):
        hard, soft = (
            LabelSubspaceRidge(1.0, 0.3, soft_labels=weight, random_state=0)
            .fit(data.views, data.labels).coef_["view0"] for weight in (0.0, 1.0)
        )  # fmt: skip
        assert np.abs(hard - soft).max() > 1e-3
        with pytest.raises(TypeError, match="soft_labels needs tables in memory"):
            LabelSubspaceRidge(soft_labels=0.5).fit({"a": "*.parquet"}, {"a": ["flu"]})

    def test_soft_labels_of_a_wide_table(self):
        data = make_unpaired(150, n_labels=4, aligned=True, missing_labels=0.5, random_state=0)
        wide, views = join_views(data.views)
        model = LabelSubspaceRidge(soft_labels=1.0, views=views, random_state=0)
        P = model.fit(wide, data.labels["view0"]).predict_proba(wide)
        assert evaluate(data.complete_labels["view0"], P, threshold=0.5)["macro-AUC"] > 0.8

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"ridge": 0}, "'ridge' parameter"),
            ({"shrinkage": -1}, "'shrinkage' parameter"),
            ({"shrinkage": "none"}, "'shrinkage' parameter"),
            ({"soft_labels": 1.5}, "'soft_labels' parameter"),
            ({"metric": "F1"}, "'metric' parameter"),
        ],
    )
    def test_parameters_are_checked(self, data, parameters, message):
        with pytest.raises(ValueError, match=message):
            LabelSubspaceRidge(**parameters).fit(data.views, data.labels)

    def test_too_few_known_labels_are_an_error_that_says_what_to_do(self, rng):
        Y = np.full((12, 2), np.nan)
        Y[0], Y[1] = 1, 0
        with pytest.raises(ValueError, match="give the ridge and the shrinkage"):
            LabelSubspaceRidge(metric="macro-AUC", decide="sign", random_state=0).fit(
                {"a": rng.normal(size=(12, 2))}, {"a": Y}
            )


@pytest.mark.dask
def test_tables_in_chunks_give_the_weights_of_tables_in_memory():
    dd = pytest.importorskip("dask.dataframe")
    data = make_unpaired(150, n_labels=4, missing_labels=0.4, noise=1, random_state=0)
    names = list("abcd")
    X = {v: pd.DataFrame(of).add_prefix("x") for v, of in data.views.items()}
    Y = {v: pd.DataFrame(of, columns=names) for v, of in data.labels.items()}
    lazy_X, lazy_Y = (
        {v: dd.from_pandas(of, npartitions=3) for v, of in tables.items()} for tables in (X, Y)
    )
    given = LabelSubspaceRidge(1.0, 0.5, decide="sign").fit(X, Y)
    chunks = LabelSubspaceRidge(1.0, 0.5, decide="sign").fit(lazy_X, lazy_Y)
    for view, W in given.coef_.items():
        assert_allclose(chunks.coef_[view], W, atol=1e-9)
    chosen = LabelSubspaceRidge(random_state=0).fit(lazy_X, lazy_Y)
    assert chosen.ridge_ > 0 and chosen.has_probabilities
