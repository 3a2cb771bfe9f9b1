"""Probabilities given known labels: of a known Gaussian model, of copies, of independent labels."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.base import clone

from naim3l import NAIM3L, Decisions, LabelSubspaceRidge, PerViewLogistic, PerViewRidge, load
from naim3l.datasets import make_unpaired
from naim3l.decisions import bridge as bridge_module
from naim3l.decisions.bridge import Bridge, learn_bridge, residuals_of, shift_of
from naim3l.decisions.label_correlation import LabelCorrelation
from naim3l.estimators import BlendNAIM3L


def draw(rng, n=4000, n_labels=4, *, shared=0.0, unknown=0.4):
    """Log-odds, labels, of which some are unknown, and all labels; ``shared`` relates them."""
    log_odds = rng.normal(-0.5, 1, size=(n, n_labels))
    common = rng.normal(size=(n, 1))
    noise = np.sqrt(1 - shared) * rng.normal(size=log_odds.shape) + np.sqrt(shared) * common
    # A threshold at which a label is yes with its probability.
    truth = (noise < norm.ppf(expit(log_odds))).astype(float)
    return log_odds, np.where(rng.random(truth.shape) < unknown, np.nan, truth), truth


def log_loss(truth, log_odds):
    return np.logaddexp(0, np.where(truth > 0, -1, 1) * log_odds).mean()


def test_the_shift_is_that_of_a_probability_moved_by_standard_deviations(rng):
    p, t = rng.uniform(0.05, 0.95, (30, 3)), rng.normal(size=(30, 3))
    moved = np.clip(p + np.sqrt(p * (1 - p)) * t, p / 5, 1 - (1 - p) / 5)
    assert_allclose(shift_of(logit(p), t), logit(moved) - logit(p))


@pytest.mark.parametrize("eta", [-5000.0, -40, 0, 40, 5000])
def test_extreme_probabilities_stay_finite_and_do_not_change_by_nothing(eta):
    assert_allclose(shift_of(np.array([[eta]]), np.zeros((1, 1))), 0, atol=1e-12)
    assert np.isfinite(shift_of(np.array([[eta]]), np.array([[3.0], [-3.0]]))).all()


def test_related_labels_are_predicted_better_and_independent_ones_not_worse(rng):
    for shared, gains in ((0.6, True), (0.0, False)):
        learned = learn_bridge([draw(rng, shared=shared)[:2] for _ in range(2)])
        log_odds, known, truth = draw(rng, shared=shared)
        given, hidden = learned.log_odds(log_odds, known), np.isnan(known)
        before, after = (log_loss(truth[hidden], of[hidden]) for of in (log_odds, given))
        if gains:
            assert learned.strength > 0.5
            assert after < 0.95 * before
            assert learned.gain == pytest.approx(1 - after / before, abs=0.02)
        else:
            assert after < 1.002 * before


def test_a_copy_of_a_label_gives_it_away(rng):
    log_odds, _known, truth = draw(rng, n_labels=1, unknown=0)
    pair = np.repeat(log_odds, 2, axis=1), np.repeat(truth, 2, axis=1)
    learned = learn_bridge([pair])
    hidden = np.column_stack([np.full(len(truth), np.nan), truth[:, 0]])
    p = expit(learned.log_odds(pair[0], hidden)[:, 0])
    assert (p[truth[:, 0] == 1] > expit(log_odds[truth[:, 0] == 1, 0])).all()
    assert ((p > 0.5) == truth[:, 0]).mean() > 0.93
    assert learned.gain > 0.4


def test_known_labels_and_rows_without_known_ones_stay_as_they_are(rng):
    log_odds, known, _ = draw(rng, shared=0.5)
    learned = learn_bridge([(log_odds, known)])
    known[:100] = np.nan
    given = learned.log_odds(log_odds, known)
    assert_array_equal(given[:100], log_odds[:100])
    assert_array_equal(given[np.isfinite(known)], log_odds[np.isfinite(known)])
    assert (given[np.isnan(known) & np.isfinite(known).any(axis=1)[:, None]] != 0).all()


def test_left_out_entries_are_those_of_a_row_in_which_they_are_unknown(rng):
    log_odds, known, _ = draw(rng, n=60, shared=0.5)
    learned = learn_bridge([(log_odds, known)])
    found = learned.left_out(log_odds, known)
    assert_array_equal(np.isnan(found), np.isnan(known))
    for i, k in np.argwhere(np.isfinite(known))[::7]:
        without = known[i].copy()
        without[k] = np.nan
        expected = learned.log_odds(log_odds[[i]], without[None])[0, k]
        assert_allclose(found[i, k], expected, atol=1e-10)


def test_the_chosen_pair_is_the_best_of_those_that_are_tried(rng):
    """With the penalty, on correlations of the rows of the other folds, one entry at a time."""
    log_odds, truth, _ = draw(rng, n=150, n_labels=3, shared=0.4)
    learned = learn_bridge([(log_odds, truth)])
    r, folds = residuals_of(log_odds, truth), np.arange(150) % bridge_module.N_FOLDS
    best = None
    for noise in bridge_module.NOISES:
        for strength in bridge_module.STRENGTHS:
            total = 0.5 * bridge_module.HOLD_STRENGTH * strength**2
            for fold in range(bridge_module.N_FOLDS):
                rest = Bridge(LabelCorrelation.of(r[folds != fold]), noise, strength, 0.0)
                for i in np.flatnonzero(folds == fold):
                    known = np.flatnonzero(np.isfinite(truth[i]))
                    for k in known if len(known) > 1 else ():
                        without = truth[[i]].copy()
                        without[0, k] = np.nan
                        given = rest.log_odds(log_odds[[i]], without)[0, k]
                        total += np.logaddexp(0, given if truth[i, k] == 0 else -given)
            if best is None or total < best[0]:
                best = total, noise, strength
    assert (learned.noise, learned.strength) == best[1:]


@pytest.mark.parametrize("disjoint", [False, True])
def test_a_sample_in_two_tables_does_not_give_itself_away(rng, disjoint):
    """The other table tells nothing that the labels of the row do not; unless it is said to."""
    few = [draw(rng, n=30, n_labels=12, unknown=0.5)[:2] for _ in range(6)]
    learned = learn_bridge(few, disjoint=disjoint)
    log_odds, known, truth = draw(rng, n_labels=12)
    hidden = np.isnan(known)
    after = log_loss(truth[hidden], learned.log_odds(log_odds, known)[hidden])
    assert after < 1.01 * log_loss(truth[hidden], log_odds[hidden])


def test_without_two_labels_known_together_there_is_none(rng):
    log_odds = rng.normal(size=(20, 2))
    truth = np.full((20, 2), np.nan)
    truth[:10, 0], truth[10:, 1] = 1, 0
    assert learn_bridge([(log_odds, truth)]) is None
    assert learn_bridge([(log_odds[:, :1], truth[:, :1])]) is None


class TestModels:
    @pytest.fixture(scope="class")
    @staticmethod
    def data():
        return make_unpaired(150, n_labels=5, missing_labels=0.5, noise=1, random_state=0)

    @pytest.fixture(scope="class")
    @staticmethod
    def model(data):
        return NAIM3L(decide="guarded", random_state=0).fit(data.views, data.labels)

    def test_known_labels_are_kept_and_rows_without_any_have_the_usual_answer(self, model, data):
        view, Y = "view0", data.labels["view0"].copy()
        Y[:20] = np.nan
        X = {view: data.views[view]}
        usual, given = model.predict_proba(X)[view], model.predict_proba(X, {view: Y})[view]
        assert_array_equal(given[:20], usual[:20])
        known = np.isfinite(Y)
        assert_array_equal(given[known], Y[known])
        assert (given != usual)[20:][~known[20:]].any()
        filled = model.impute_labels(X, {view: Y})[view]
        assert_array_equal(filled, (given > 0.5).astype(float))
        decided = model.predict(X, known={view: Y})[view]
        assert_array_equal(decided[known], Y[known])
        assert_array_equal(decided[:20], model.predict(X)[view][:20])

    def test_rows_and_labels_in_another_order_have_the_same_answers(self, data, rng):
        names = list("abcde")
        labels = {view: pd.DataFrame(Y, columns=names) for view, Y in data.labels.items()}
        model = NAIM3L(decide="guarded", random_state=0).fit(data.views, labels)
        Y = labels["view0"]
        rows, order = rng.permutation(len(Y)), list(rng.permutation(names))
        X = data.views["view0"]
        one = model.predict_proba({"view0": X}, {"view0": Y})["view0"]
        other = model.predict_proba({"view0": X[rows]}, {"view0": Y.iloc[rows][order]})["view0"]
        assert_allclose(other, one[rows], atol=1e-10)

    def test_a_file_keeps_it(self, data, tmp_path):
        model = NAIM3L(decide="guarded", random_state=0).fit(data.views, data.labels)
        model.save(tmp_path / "m.naim3l")
        again = load(tmp_path / "m.naim3l")
        for view, P in model.predict_proba(data.views, data.labels).items():
            assert_array_equal(again.predict_proba(data.views, data.labels)[view], P)

    def test_planted_wrong_labels_are_among_the_most_surprising(self, rng):
        data = make_unpaired(300, n_labels=6, missing_labels=0.2, noise=0.5, random_state=1)
        labels, planted = {v: Y.copy() for v, Y in data.labels.items()}, {}
        for view, Y in labels.items():
            known = np.argwhere(np.isfinite(Y))
            chosen = known[rng.choice(len(known), len(known) // 50, replace=False)]
            Y[tuple(chosen.T)] = 1 - Y[tuple(chosen.T)]
            planted[view] = chosen
        model = NAIM3L(decide="guarded", random_state=0).fit(data.views, labels)
        for view, P in model.check_labels(data.views, labels).items():
            assert_array_equal(np.isnan(P), np.isnan(labels[view]))
            n = len(planted[view])
            most = np.argsort(np.where(np.isnan(P), 1, P), axis=None)[:n]
            wrong = np.zeros(P.shape, dtype=bool)
            wrong[tuple(planted[view].T)] = True
            assert wrong.ravel()[most].mean() > 0.3  # by chance, 0.02

    @pytest.mark.parametrize(
        "model",
        [
            NAIM3L(features="rbf", decide="guarded", random_state=0),
            LabelSubspaceRidge(random_state=0),
            PerViewLogistic(decide="guarded", random_state=0),
            BlendNAIM3L([("ridge", PerViewRidge())], random_state=0),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_every_model_with_probabilities_uses_known_labels(self, model, rng):
        """Labels that noise relates, which no column explains."""
        X = rng.normal(size=(400, 5))
        scores = X[:, :1] + 1.5 * rng.normal(size=(400, 1)) + 0.7 * rng.normal(size=(400, 5))
        truth = (scores > 0).astype(float)
        hidden = rng.random(truth.shape) < 0.4
        Y = np.where(hidden, np.nan, truth)
        fitted = clone(model).fit({"a": X[:200], "b": X[200:]}, {"a": Y[:200], "b": Y[200:]})
        alone = fitted.predict_proba({"a": X[:200]})["a"]
        given = fitted.predict_proba({"a": X[:200]}, {"a": Y[:200]})["a"]
        unknown = hidden[:200]
        before, after = (log_loss(truth[:200][unknown], logit(P[unknown])) for P in (alone, given))
        assert after < 0.9 * before

    def test_without_probabilities_known_labels_are_refused(self, data):
        model = NAIM3L().fit(data.views, data.labels)
        with pytest.raises(ValueError, match=r"known needs probabilities: fit the model with"):
            model.predict(data.views, known=data.labels)
        with pytest.raises(AttributeError, match="check_labels needs probabilities"):
            model.check_labels(data.views, data.labels)

    def test_disjoint_must_be_a_bool(self):
        with pytest.raises(ValueError, match="disjoint must be a bool, got 'yes'"):
            Decisions.of(Decisions(disjoint="yes"))

    def test_a_wide_table_uses_known_labels_too(self, rng):
        """Of labels with a common cause, which no feature tells about."""
        X, cause = rng.normal(size=(200, 6)), rng.normal(size=(200, 1))
        truth = (X @ rng.normal(size=(6, 4)) + 3 * cause > 0).astype(float)
        Y = np.where(rng.random(truth.shape) < 0.5, np.nan, truth)
        views = {"a": [0, 1, 2, 3], "b": [4, 5]}
        X[:40, 4:], X[40:60, :4] = np.nan, np.nan
        model = NAIM3L(views=views, decide="guarded", random_state=0).fit(X, Y)
        given, usual = model.predict_proba(X, Y), model.predict_proba(X)
        known = np.isfinite(Y)
        assert_array_equal(given[known], Y[known])
        some = ~known & known.any(axis=1, keepdims=True)
        assert (given != usual)[some].all()
        assert log_loss(truth[some], logit(given[some])) < log_loss(truth[some], logit(usual[some]))


def test_rows_of_one_id_do_not_give_each_other_away(rng):
    """Each id has two rows with the same surprises, so that other rows seem to know a row's."""
    n, n_labels = 60, 60
    log_odds, truth = np.zeros((2 * n, n_labels)), np.repeat(rng.random((n, n_labels)) < 0.5, 2, 0)
    tables, ids = [(log_odds, truth.astype(float))], [np.repeat(np.arange(n), 2)]
    order = rng.permutation(2 * n)  # otherwise two rows of an id are in neighbouring folds
    tables, ids = [(log_odds, tables[0][1][order])], [ids[0][order]]
    assert learn_bridge(tables).strength > 0
    assert learn_bridge(tables, groups=ids).strength == 0
