"""Thresholds, probabilities and fusion of models, learned on held-out entries."""

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, log_loss

from naim3l import NAIM3L, NAIM3LCV, Decisions, evaluate, fuse, load
from naim3l.datasets import make_unpaired
from naim3l.decisions.fusion import (
    USUAL_OVERLAP,
    add_evidence,
    learn_covariance,
    learn_overlap,
)
from naim3l.decisions.held_out import hold_out_folds
from naim3l.decisions.learning import (
    MOST_SIMULATED,
    LearnedDecisions,
    _of_one,
    _price,
    fixed_decisions,
    held_out_predictions,
    learn_decisions,
    simulate_samples,
)
from naim3l.decisions.rules import LEARNED, fit_cuts
from naim3l.estimators import PerViewLogistic, PerViewRidge
from naim3l.metrics import macro_f1
from naim3l.problem.rows import Problem

MODELS = [
    NAIM3L(random_state=0),
    NAIM3LCV([0.4], [1.0], cv=2, random_state=0),
    PerViewRidge(1.0, random_state=0),
    PerViewLogistic(1.0, random_state=0),
]
by_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
VIEWS = {"good": [f"x{j}" for j in range(6)], "bad": [f"x{j}" for j in range(6, 11)]}


@pytest.fixture(scope="module")
def drawn():
    """Rare labels: few scores are positive."""
    return make_unpaired(
        (800, 600),
        n_features=(12, 9),
        n_labels=6,
        labels_per_row=0.8,
        noise=1.0,
        missing_labels=0.3,
        random_state=0,
    )


def half(data, part):
    """Every other row of each view, from the first or the second on."""
    views, labels = (
        {view: of_view[part::2] for view, of_view in tables.items()}
        for tables in (data.views, data.labels)
    )
    return SimpleNamespace(views=views, labels=labels)


@pytest.fixture(scope="module")
def separate(drawn):
    return half(drawn, 0)


@pytest.fixture(scope="module")
def new(drawn):
    """Rows like those of `separate`, that no fit sees."""
    return half(drawn, 1)


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(300, 4))
    good = latent @ rng.normal(size=(4, 6))
    bad = latent @ rng.normal(size=(4, 5)) + 4 * rng.normal(size=(300, 5))
    table = pd.DataFrame(np.hstack([good, bad]), columns=[f"x{j}" for j in range(11)])
    table.loc[rng.random(300) < 0.3, table.columns[6:]] = np.nan
    Y = (latent @ rng.normal(size=(4, 3)) > 0.8).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    return table, Y


def fitted(model, data, decide, **parameters):
    values = {**model.get_params(deep=False), "decide": decide, **parameters}
    return type(model)(**values).fit(data.views, data.labels)


@by_model
def test_predictions_follow_the_thresholds_of_every_rule(model, separate):
    plain = fitted(model, separate, "sign")
    assert not hasattr(plain, "predict_proba") and plain.fusion_overlap_ is None
    scores = plain.decision_function(separate.views)
    by_rule = {rule: fitted(model, separate, rule) for rule in LEARNED}
    fixed = [fitted(model, separate, rule) for rule in (0.3, {"label2": -0.2})]
    for of_rule in (*fixed, *by_rule.values()):
        for view, Y in of_rule.predict(separate.views).items():
            np.testing.assert_array_equal(of_rule.view_scores(separate.views)[view], scores[view])
            np.testing.assert_array_equal(Y, scores[view] > of_rule.thresholds_[view])
    # Every model that has learned one rule knows all of them.
    for first in by_rule.values():
        assert set(first.decisions_.rules) == set(LEARNED)
        for rule, other in by_rule.items():
            for view, Y in first.predict(separate.views, decide=rule).items():
                np.testing.assert_array_equal(Y, other.predict(separate.views)[view])
        for view, Y in first.predict(separate.views, decide="sign").items():
            np.testing.assert_array_equal(Y, scores[view] > 0)


def test_a_rule_that_was_not_learned_is_refused(separate):
    model = NAIM3L().fit(separate.views, separate.labels)
    with pytest.raises(ValueError, match="decide='f1' needs scores of held-out entries: fit the"):
        model.predict(separate.views, decide="f1")
    with pytest.raises(ValueError, match="decide must be one of"):
        model.predict(separate.views, decide="best")


def test_learned_thresholds_help_on_new_rows(separate, new):
    values = {}
    for rule in ("sign", "f1", "cardinality"):
        predicted = fitted(MODELS[0], separate, rule).predict(new.views)
        values[rule] = np.mean(
            [macro_f1(new.labels[view], Y, threshold=0.5) for view, Y in predicted.items()]
        )
    assert values["f1"] > values["sign"] and values["cardinality"] > values["sign"]


@by_model
def test_probabilities_are_calibrated_and_ordered_as_scores(model, separate, new):
    calibrated = fitted(model, separate, Decisions("sign"))
    scores = calibrated.decision_function(new.views)
    for view, P in calibrated.predict_proba(new.views).items():
        assert P.shape == scores[view].shape and ((P > 0) & (P < 1)).all()
        for k in range(P.shape[1]):
            order = np.argsort(scores[view][:, k])
            assert (np.diff(P[order, k]) >= 0).all()
        known = ~np.isnan(new.labels[view])
        p, yes = P[known], new.labels[view][known]
        apart = np.bincount((10 * p).astype(int), p - yes)  # in bins of probability
        assert np.abs(apart).sum() / len(p) < 0.05
        rates = np.broadcast_to(calibrated.base_rates_, P.shape)
        losses = [log_loss(new.labels[view][known], p[known]) for p in (P, rates)]
        assert losses[0] < 0.9 * losses[1]  # more informative than the rates


def test_a_wide_table_is_decided_on_by_fused_scores(wide):
    table, Y = wide
    model = NAIM3L(views=VIEWS, decide="f1", random_state=0).fit(table, Y)
    assert set(model.thresholds_) == {"fused"}
    scores = model.decision_function(table)
    np.testing.assert_array_equal(model.predict(table), scores > model.thresholds_["fused"])
    frame = model.set_output(transform="pandas").predict_proba(table)
    assert list(frame.columns) == model.label_names_ and frame.index.equals(table.index)


def test_fusion_of_evidence_beats_the_mean_where_a_view_is_worse(wide):
    table, Y = wide
    old, new = slice(0, 180), slice(180, 300)
    models = [
        NAIM3L(views=VIEWS, decide=Decisions("sign", fusion=how), random_state=0)
        for how in ("mean", "evidence")
    ]
    auc = [
        evaluate(Y[new], model.fit(table[old], Y[old]).decision_function(table[new]))["macro-AUC"]
        for model in models
    ]
    assert auc[1] > auc[0]
    assert models[0].fusion_overlap_ is None and 0 <= models[1].fusion_overlap_ <= 1


def test_evidence_of_the_views_of_a_wide_table_is_added_up(wide):
    table, Y = wide
    model = NAIM3L(views=VIEWS, decide="f1", random_state=0).fit(table, Y)
    scores = np.stack(list(model.view_scores(table).values()))
    evidence = model.decisions_.evidence
    log_odds = np.stack(
        [curve.log_odds(S) for curve, S in zip(evidence.calibrations, scores, strict=True)]
    )
    base = logit(model.view_rates_["fused"])
    expected = add_evidence(log_odds, base, model.fusion_overlap_)
    np.testing.assert_allclose(model.decision_function(table), expected)
    # Each view is calibrated to the rates, in the rows that have it.
    for L in log_odds:
        np.testing.assert_allclose(np.nanmean(expit(L), axis=0), expit(base))
    without = NAIM3L(views=VIEWS, decide=Decisions(0.0, probabilities=False)).fit(table, Y)
    np.testing.assert_allclose(
        without.decision_function(table), np.nanmean(list(without.view_scores(table).values()), 0)
    )


def test_a_fit_stopped_before_probabilities_are_learned_says_so(separate, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(NAIM3L, "_learn_held_out", stop)
    model = NAIM3L(decide="guarded", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(separate.views, separate.labels)
    model.decision_function(separate.views)  # is there
    with pytest.raises(NotFittedError, match="stopped before probabilities were learned"):
        model.predict_proba(separate.views)


@by_model
def test_base_rates_are_the_shares_of_positives(model, separate):
    stacked = np.concatenate(list(separate.labels.values()))
    expected = (np.nansum(stacked, axis=0) + 1) / ((~np.isnan(stacked)).sum(axis=0) + 2)
    np.testing.assert_allclose(fitted(model, separate, "sign").base_rates_, expected)


def test_imputed_labels_follow_the_thresholds(separate):
    model = fitted(MODELS[0], separate, Decisions("f1", probabilities=False))
    filled = model.impute_labels(separate.views, separate.labels)
    for view, Y in model.predict(separate.views).items():
        unknown = np.isnan(separate.labels[view])
        np.testing.assert_array_equal(filled[view][unknown], Y[unknown])


@by_model
@pytest.mark.parametrize("least", [None, 0.8])
def test_imputed_labels_are_the_most_probable_ones(model, least, separate):
    """Whatever the threshold, given the known labels of the row."""
    calibrated = fitted(model, separate, "f1")
    filled = calibrated.impute_labels(separate.views, separate.labels, min_confidence=least)
    for view, yes in calibrated.predict_proba(separate.views, separate.labels).items():
        Y, found = separate.labels[view], filled[view]
        known = ~np.isnan(Y)
        np.testing.assert_array_equal(found[known], Y[known])
        for value, probability in ((1, yes), (0, 1 - yes)):
            assert (probability[~known & (found == value)] >= (least or 0.5)).all()
        probable = np.maximum(yes, 1 - yes) >= (least or 0.5)
        np.testing.assert_array_equal(np.isnan(found), ~known & ~probable)
        assert np.isnan(found).any() == (least is not None)


def test_without_probabilities_the_error_says_what_to_do(separate):
    model = NAIM3L().fit(separate.views, separate.labels)
    with pytest.raises(AttributeError, match=r'NAIM3L.predict_proba needs .* decide="guarded"'):
        model.predict_proba(separate.views)
    with pytest.raises(ValueError, match=r'min_confidence needs .* decide="guarded"'):
        model.impute_labels(separate.views, separate.labels, min_confidence=0.8)


@by_model
def test_probabilities_of_training_rows_average_to_the_rates_of_the_table(model, separate):
    calibrated = fitted(model, separate, "half")
    for view, P in calibrated.predict_proba(separate.views).items():
        np.testing.assert_allclose(P.mean(axis=0), calibrated.view_rates_[view], rtol=1e-6)


@by_model
def test_a_class_that_a_table_never_has_is_improbable_in_it(model, rng):
    """Two tables of 60, 40 and 0, and of 0, 60 and 50 rows of three classes."""
    centres, X, Y = 2 * rng.normal(size=(3, 5)), {}, {}
    for view, sizes in {"a": (60, 40, 0), "b": (0, 60, 50)}.items():
        classes = np.repeat([0, 1, 2], sizes)
        X[view] = centres[classes] + rng.normal(size=(len(classes), 5))
        Y[view] = np.eye(3)[classes]
    new = {view: centres[np.arange(90) % 3] + rng.normal(size=(90, 5)) for view in X}
    found = fitted(model, SimpleNamespace(views=X, labels=Y), "guarded")
    for view, absent in (("a", 2), ("b", 0)):
        assert found.predict_proba(X)[view][:, absent].max() < 0.2
        assert found.predict_proba(X)[view][:, absent].mean() < 0.02
        assert found.predict_proba(new)[view][:, absent].mean() < 0.1


def without_label(data, k):
    """The tables, of which the second one never records a label."""
    labels = {view: Y.copy() for view, Y in data.labels.items()}
    labels["view1"][:, k] = np.nan
    return SimpleNamespace(views=data.views, labels=labels)


def test_a_view_that_does_not_know_a_label_adds_nothing_to_it(separate):
    """With ridge per view, its scores are all equal; other methods give it scores."""
    model = fitted(MODELS[2], without_label(separate, 1), "half")
    new = {view: X[:50] for view, X in separate.views.items()}
    P = model.predict_proba(new)
    np.testing.assert_allclose(P["view1"][:, 1], model.view_rates_["view1"][1])
    rates = {**model.view_rates_, "view1": model.view_rates_["view0"]}
    again = {**P, "view1": P["view1"].copy()}
    again["view1"][:, 1] = rates["view0"][1]
    fused = fuse(again, base_rates=rates, overlap=0)
    np.testing.assert_allclose(fused[:, 1], P["view0"][:, 1])


# Samples in several separate tables.


@pytest.fixture(scope="module")
def samples():
    """Samples of which 100 are in both tables, 40 and 60 in one of them."""
    data = make_unpaired(
        200, n_features=(12, 9), n_labels=6, labels_per_row=0.8, noise=1.0, aligned=True,
        random_state=1,
    )  # fmt: skip
    views = {view: X.copy() for view, X in data.views.items()}
    views["view0"][140:] = np.nan
    views["view1"][100:140] = np.nan
    return views


@pytest.fixture(scope="module")
def guarded(separate):
    return fitted(MODELS[2], separate, "guarded")


@pytest.fixture
def model(guarded):
    """A model that has not learned an overlap."""
    return copy.deepcopy(guarded)


class TestFuse:
    @staticmethod
    def as_pandas(samples):
        """Their tables with an index, in another order, of the rows that have the view."""
        rng = np.random.default_rng(0)
        names = np.array([f"id{i}" for i in range(200)])
        frames = {}
        for view, X in samples.items():
            rows = rng.permutation(np.flatnonzero(np.isfinite(X).all(axis=1)))
            frames[view] = pd.DataFrame(X[rows], index=names[rows])
        return frames, names

    def test_probabilities_are_those_of_added_evidence(self, model, samples):
        P = model.predict_proba(samples)
        log_odds = logit(np.stack(list(P.values())))
        base = logit(np.stack([model.view_rates_[view] for view in P]))
        for overlap in (0.0, 0.4, 1.0):
            expected = add_evidence(log_odds, base, overlap)
            found = model.fuse(samples, overlap=overlap)
            np.testing.assert_allclose(found, expit(expected))
            np.testing.assert_allclose(model.fuse(samples, "scores", overlap=overlap), expected)
            same = fuse(P, base_rates=model.view_rates_, overlap=overlap)
            np.testing.assert_allclose(found, same, rtol=1e-6)
        by_pairs = add_evidence(log_odds, base, learn_covariance(log_odds, base))
        np.testing.assert_allclose(model.fuse(samples, "scores", overlap="pairs"), by_pairs)
        assert model.fusion_overlap_ is None  # neither these nor numbers that are given are kept
        np.testing.assert_allclose(
            model.fuse(samples), expit(add_evidence(log_odds, base, learn_overlap(log_odds, base)))
        )

    @pytest.mark.parametrize("rule", [*LEARNED, "sign", None])
    def test_a_sample_in_one_table_has_the_answer_of_that_table(self, model, samples, rule):
        fused = model.fuse(samples, "labels", decide=rule)
        P = model.fuse(samples)
        for view, rows in (("view0", slice(100, 140)), ("view1", slice(140, 200))):
            alone = {view: samples[view][rows]}
            np.testing.assert_array_equal(fused[rows], model.predict(alone, decide=rule)[view])
            np.testing.assert_allclose(P[rows], model.predict_proba(alone)[view])
            np.testing.assert_array_equal(
                model.fuse(alone, "labels", decide=rule), model.predict(alone, decide=rule)[view]
            )

    @pytest.mark.parametrize("rule", [*LEARNED, "sign"])
    @pytest.mark.parametrize("rate", [0.1, 0.8])
    def test_also_if_the_table_never_records_a_label(self, separate, samples, rule, rate):
        """Its scores are then all equal, and on one side of each cut."""
        data = without_label(separate, 1)
        Y = data.labels["view0"]  # a copy
        Y[:, 1] = np.random.default_rng(0).random(len(Y)) < rate
        found = fitted(MODELS[2], data, "guarded")
        alone = {"view1": samples["view1"][140:]}
        expected = found.predict(alone, decide=rule)["view1"]
        assert np.ptp(expected[:, 1]) == 0
        if rule in ("half", "sign"):
            assert expected[0, 1] == (rate > 0.5)
        np.testing.assert_array_equal(found.fuse(alone, "labels", decide=rule), expected)

    @pytest.mark.parametrize("rule", LEARNED)
    def test_answers_never_contradict_probabilities(self, model, samples, rule):
        """In samples of both tables, one probability parts yes and no of a label."""
        both = {view: X[:100] for view, X in samples.items()}
        yes, P = model.fuse(both, "labels", decide=rule) == 1, model.fuse(both)
        cut = expit(model.decisions_.fused_cuts[rule])
        np.testing.assert_array_equal(yes, cut < P)
        if rule == "half":
            np.testing.assert_array_equal(cut, 0.5)
        if rule == "guarded":
            assert (cut <= 0.5).all() and yes[P > 0.5].all()
        if rule in ("guarded", "half", "cardinality"):  # of these, it is one for all labels
            assert np.ptp(cut) == 0

    def test_the_guarded_cut_of_each_table_is_one_probability_of_at_most_a_half(self, model):
        for view, thresholds in model.thresholds_.items():
            cuts = model.decisions_.calibrations[view].probabilities(thresholds[None])[0]
            np.testing.assert_allclose(cuts, cuts[0])
            assert cuts[0] < 0.5 + 1e-9

    def test_cuts_of_other_rules_are_averaged_as_log_odds(self, separate, samples):
        found = fitted(MODELS[2], separate, Decisions(0.2))
        yes, log_odds = found.fuse(samples, "labels"), found.fuse(samples, "scores")
        curves, both = found.decisions_.calibrations, slice(0, 100)
        cut = np.mean([curve.log_odds(np.full((1, 6), 0.2)) for curve in curves.values()], axis=0)
        np.testing.assert_array_equal(yes[both], log_odds[both] > cut)

    def test_rows_of_pandas_are_matched_by_index(self, model, samples):
        frames, names = self.as_pandas(samples)
        for kind in ("probabilities", "labels", "scores"):
            expected = model.fuse(samples, kind, overlap=0.2)
            found = model.fuse(frames, kind, overlap=0.2)
            assert list(found.columns) == model.label_names_
            first = list(dict.fromkeys([*frames["view0"].index, *frames["view1"].index]))
            assert list(found.index) == first
            np.testing.assert_allclose(found.loc[names], expected)

    def test_rows_of_arrays_are_matched_by_position(self, model, samples):
        alone = {view: X[:140] for view, X in samples.items()}
        np.testing.assert_allclose(
            model.fuse(alone, overlap=0.2), model.fuse(samples, overlap=0.2)[:140]
        )
        with pytest.raises(ValueError, match="view 'view1': 50 rows, and 140 of view 'view0'"):
            model.fuse({**alone, "view1": samples["view1"][:50]})

    def test_a_sample_without_values_has_no_answer(self, model, samples):
        views = {view: X[:50].copy() for view, X in samples.items()}
        for X in views.values():
            X[7] = np.nan
        for kind in ("probabilities", "labels", "scores"):
            found = model.fuse(views, kind)
            assert np.isnan(found[7]).all() and not np.isnan(np.delete(found, 7, axis=0)).any()

    def test_overlap_is_learned_once_and_kept_in_a_file(self, model, samples, tmp_path):
        assert model.fusion_overlap_ is None
        few = {view: X[:10] for view, X in samples.items()}
        usual = model.fuse(few)
        np.testing.assert_allclose(usual, model.fuse(few, overlap=USUAL_OVERLAP))
        assert model.fusion_overlap_ is None  # of too few rows, nothing is learned
        found = model.fuse(samples)
        overlap = model.fusion_overlap_
        assert overlap is not None and overlap != USUAL_OVERLAP
        same = {view: np.vstack([X[:40]] * 3) for view, X in samples.items()}
        model.fuse(same)
        assert model.fusion_overlap_ == overlap
        np.testing.assert_allclose(model.fuse(few), found[:10])
        model.save(tmp_path / "model.naim3l")
        loaded = load(tmp_path / "model.naim3l")
        assert loaded.fusion_overlap_ == overlap
        np.testing.assert_allclose(loaded.fuse(few), found[:10])

    def test_without_probabilities_scores_and_margins_are_averaged(self, separate, samples):
        found = fitted(MODELS[2], separate, Decisions("f1", probabilities=False))
        scores = found.view_scores(samples)
        expected = np.nanmean(list(scores.values()), axis=0)
        np.testing.assert_allclose(found.fuse(samples, "scores"), expected)
        margins = [S - found.thresholds_[view] for view, S in scores.items()]
        yes = np.nanmean(margins, axis=0) > 0
        np.testing.assert_array_equal(found.fuse(samples, "labels"), yes)
        with pytest.raises(AttributeError, match=r"PerViewRidge\.fuse needs probabilities"):
            found.fuse(samples)

    def test_wrong_values_are_refused(self, model, samples, separate):
        with pytest.raises(ValueError, match=r"kind must be one of .* got 'votes'"):
            model.fuse(samples, "votes")
        with pytest.raises(ValueError, match=r"decide must be one of .* got 'best'"):
            model.fuse(samples, "labels", decide="best")
        with pytest.raises(ValueError, match="decide must be one of"):
            model.fuse(samples, "labels", decide=0.3)
        with pytest.raises(ValueError, match="overlap must be a number from 0 to 1, 'auto'"):
            model.fuse(samples, overlap=2)
        plain = fitted(MODELS[2], separate, "sign")
        with pytest.raises(ValueError, match="decide='f1' needs scores of held-out entries"):
            plain.fuse(samples, "labels", decide="f1")

    def test_tables_that_cannot_be_fused_are_refused(self, model, samples, wide, dd):
        table, Y = wide
        of_wide = NAIM3L(views=VIEWS, decide="f1", random_state=0).fit(table, Y)
        with pytest.raises(TypeError, match="predictions of a wide table are fused already"):
            of_wide.fuse(table)
        chunks = {view: dd.from_pandas(pd.DataFrame(X), 2) for view, X in samples.items()}
        with pytest.raises(TypeError, match="those of chunks can be fused by"):
            model.fuse(chunks)


class TestSimulatedSamples:
    """Samples of several tables, put together from entries with the same label."""

    def entries(self, rng, sizes=(300, 200), rates=(0.2, 0.5)):
        truths = [(rng.random((n, 2)) < rates).astype(float) for n in sizes]
        log_odds = [Y + rng.normal(size=Y.shape) for Y in truths]
        for L, Y in zip(log_odds, truths, strict=True):
            L[rng.random(L.shape) < 0.1], Y[rng.random(Y.shape) < 0.1] = np.nan, np.nan
        return log_odds, truths

    def test_entries_are_those_of_the_label_and_the_value_in_each_table(self, rng):
        log_odds, truths = self.entries(rng)
        found, truth = simulate_samples(log_odds, truths)
        assert found.shape == (2, *truth.shape)
        for v in range(2):
            for k in range(2):
                for value in (0, 1):
                    given = log_odds[v][truths[v][:, k] == value, k]
                    drawn = found[v, truth[:, k] == value, k]
                    assert np.isin(drawn, given[np.isfinite(given)]).all()

    def test_each_label_has_as_many_samples_as_the_larger_table_and_its_share_of_yes(self, rng):
        log_odds, truths = self.entries(rng)
        truth = simulate_samples(log_odds, truths)[1]
        seen = [np.isfinite(L) & np.isfinite(Y) for L, Y in zip(log_odds, truths, strict=True)]
        n = np.max([of.sum(axis=0) for of in seen], axis=0)
        np.testing.assert_array_equal(np.isfinite(truth).sum(axis=0), n)
        yes = sum((of & (Y == 1)).sum(axis=0) for of, Y in zip(seen, truths, strict=True))
        known = sum(of.sum(axis=0) for of in seen)
        np.testing.assert_array_equal(np.nansum(truth, axis=0), np.round(n * yes / known))

    def test_tables_are_independent_given_the_label(self, rng):
        log_odds, truths = self.entries(rng, sizes=(6000, 9000))
        found, truth = simulate_samples(log_odds, truths)
        assert len(truth) == MOST_SIMULATED
        for k in range(2):
            for value in (0, 1):
                pair = found[:, truth[:, k] == value, k]
                assert abs(np.corrcoef(pair)[0, 1]) < 0.1
            # Without it, they are not, as both depend on it.
            assert np.corrcoef(found[:, :, k])[0, 1] > 0.1

    def test_tables_with_one_value_of_a_label_have_no_part_in_it(self, rng):
        log_odds, truths = self.entries(rng)
        truths[0][:, 1] = np.where(truths[0][:, 1] == 1, np.nan, truths[0][:, 1])
        found, truth = simulate_samples(log_odds, truths)
        assert np.isnan(found[0, :, 1]).all()
        known = ~np.isnan(truth)
        assert np.isfinite(found[1][known]).all() and np.isfinite(found[0][known[:, 0], 0]).all()

    def test_nothing_is_drawn_where_nothing_is_known(self):
        nothing = [np.full((4, 2), np.nan)] * 2
        found, truth = simulate_samples(nothing, nothing)
        assert found.shape == (2, 0, 2) and truth.shape == (0, 2)

    def test_fused_cuts_are_those_of_the_samples(self, separate):
        """Which are drawn independently, so that their evidence counts in full."""
        model = PerViewRidge(1.0, random_state=0, decide="f1")
        problem, scores, _ = model._fit_held_out(separate.views, separate.labels)
        curves = model.decisions_.calibrations
        truth = problem.truth_of(problem.Y != 0)
        pairs = list(zip(curves.values(), problem.row_slices, strict=True))
        log_odds = [curve.log_odds(scores[rows]) for curve, rows in pairs]
        L, Y = simulate_samples(log_odds, [truth[rows] for _, rows in pairs])
        fused = add_evidence(L, np.stack([curve.base for curve, _ in pairs]))
        cuts = model.fit(separate.views, separate.labels).decisions_.fused_cuts
        for rule in LEARNED:
            np.testing.assert_allclose(cuts[rule], fit_cuts(fused, Y, rule))


def test_price_of_a_hand_made_table():
    nan = np.nan
    log_odds = {
        "a": np.array([[1.0, -1.0], [0.5, 2.0], [-1.0, nan]]),
        "b": np.array([[3.0, -3.0], [nan, 0.0]]),
    }
    truths = {
        "a": np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]),
        "b": np.array([[1.0, nan], [1.0, 1.0]]),
    }
    found = _price(log_odds, truths, "half")
    # Known: a 3 and 2 entries, b 1 and 1. Right: a (1.0) and the last of its first label, b (3.0).
    assert found.accuracy == pytest.approx(3 / 7)
    # The more frequent value: a no 2 of 3, either 1 of 2; b yes 1 of 1, yes 1 of 1.
    assert found.guessing == pytest.approx(5 / 7)
    # Called: a 1.0, 0.5 and 2.0, and b 3.0, of which two are among the four positives.
    assert found.f1 == pytest.approx(2 * 2 / (4 + 4))
    nothing = _price({"a": np.full((2, 2), nan)}, {"a": np.full((2, 2), nan)}, "half")
    assert (nothing.accuracy, nothing.guessing, nothing.f1) == (0, 0, 0)


def test_a_price_is_that_of_rows_from_which_the_cut_was_not_learned(rng):
    """Where nothing can be learned, the best cut for the same rows looks better than it is."""
    own, promised, real = [], [], []
    for _ in range(60):
        L, Y = rng.normal(size=(2, 60, 1)), (rng.random((2, 60, 1)) < 0.3).astype(float)
        cut = fit_cuts(L[0], Y[0], "f1")
        own.append(f1_score(Y[0], L[0] > cut))
        real.append(f1_score(Y[1], L[1] > cut))
        promised.append(_price({"a": L[0]}, {"a": Y[0]}, "f1").f1)
    assert np.mean(own) > np.mean(real) + 0.04
    assert np.mean(promised) == pytest.approx(np.mean(real), abs=0.03)


@by_model
def test_prices_are_those_of_held_out_entries(model, separate):
    """Of new rows they are about the same."""
    prices = fitted(model, separate, "half").decisions_.prices
    assert set(prices) == set(LEARNED)
    assert prices["guarded"].accuracy == pytest.approx(prices["half"].accuracy, abs=0.02)
    assert prices["f1"].f1 > prices["half"].f1
    assert len({price.guessing for price in prices.values()}) == 1


class TestHeldOutPredictions:
    @pytest.fixture(params=["separate", "wide"])
    def case(self, request, rng):
        """A problem, its folds, held-out and final scores, and a start."""
        n, samples = 90, None
        Y = np.where(rng.random((n, 3)) < [0.5, 0.3, 0.4], 1, -1)
        labels = [Y, Y if request.param == "wide" else rng.permutation(Y)]
        if request.param == "wide":
            samples = np.tile(np.arange(n), 2)
        problem = Problem([np.ones((n, 1))] * 2, labels, samples=samples)
        fold_of = hold_out_folds(problem, 3, np.random.RandomState(0))
        final = problem.Y + rng.normal(size=problem.Y.shape)
        scores = np.where(fold_of >= 0, final + 0.1 * rng.normal(size=final.shape), np.nan)
        names = ["fused"] if samples is not None else ["a", "b"]
        rules = Decisions("f1")
        return rules, fixed_decisions(rules, names, list("xyz")), problem, (scores, final), fold_of

    def test_decisions_on_a_fold_do_not_depend_on_its_labels(self, case):
        rules, start, problem, given, fold_of = case
        found = held_out_predictions(rules, start, problem, given, fold_of)
        here = fold_of == 1
        flipped = problem.with_labels(np.where(here, -problem.Y, problem.Y))
        flipped.table_rates = problem.table_rates  # which are of all entries
        again = held_out_predictions(rules, start, flipped, given, fold_of)
        names = list(start.thresholds)
        for name, one in found.items():
            other = again[name]
            rows = here[: len(one.scores)] if len(names) == 1 else here[
                problem.row_slices[names.index(name)]
            ]  # fmt: skip
            for part in ("scores", "margins", "probabilities"):
                of_fold = getattr(one, part)[rows]
                assert np.isfinite(of_fold).all()
                np.testing.assert_array_equal(of_fold, getattr(other, part)[rows])
            assert (one.margins[~rows] != other.margins[~rows]).any()

    def test_they_are_those_of_decisions_learned_from_the_other_folds(self, case):
        rules, start, problem, (scores, final), fold_of = case
        found = held_out_predictions(rules, start, problem, (scores, final), fold_of)
        for fold in range(3):
            here = fold_of == fold
            rest = np.where(here, np.nan, scores)
            learned = learn_decisions(rules, start, problem, rest, final)
            if problem.samples is not None:
                S = learned.evidence.fuse(
                    problem.by_view_and_sample(np.where(here, scores, np.nan))
                )
                tables = {"fused": (S, here[:90])}
            else:
                parts = zip(start.thresholds, problem.row_slices, strict=True)
                tables = {name: (scores[rows], here[rows]) for name, rows in parts}
            for name, (S, at) in tables.items():
                P = learned.calibrations[name].probabilities(S)
                np.testing.assert_array_equal(found[name].probabilities[at], P[at])
                margins = S - learned.thresholds[name]
                np.testing.assert_array_equal(found[name].margins[at], margins[at])

    def test_what_is_learned_from_one_fit_is_left_alone_by_the_next(self, case):
        """Several models start with the same decisions."""
        rules, start, problem, (scores, final), fold_of = case
        first = learn_decisions(rules, start, problem, scores, final)
        kept = {rule: {k: t.copy() for k, t in of.items()} for rule, of in first.rules.items()}
        prices = dict(first.prices)
        held_out_predictions(rules, start, problem, (scores - 7, final - 7), fold_of)
        assert start == LearnedDecisions(start.thresholds)
        assert first.prices == prices
        for rule, of in kept.items():
            for name, thresholds in of.items():
                np.testing.assert_array_equal(first.rules[rule][name], thresholds)


def test_evidence_of_shared_columns_is_that_of_the_entries_that_are_drawn(rng):
    truths = [np.where(rng.random((60, 2)) < 0.4, 1.0, 0.0) for _ in range(3)]
    scores = [np.where(rng.random(Y.shape) < 0.3, np.nan, rng.normal(size=Y.shape)) for Y in truths]
    drawn, labels = simulate_samples(scores, truths)
    parts, same = simulate_samples([2 * S + 1 for S in scores], truths)
    assert_array_equal(parts, 2 * drawn + 1)
    assert_array_equal(same, labels)
    parts[0, 0, 0] = np.nan
    one = _of_one(parts)
    assert_array_equal(one[1], parts[1, 1])
    assert one[0, 0] == np.nanmean(parts[:, 0, 0])
