"""Thresholds, probabilities and fusion of models, learned on held-out entries."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from naim3l import NAIM3L, NAIM3LCV, Decisions, evaluate, fuse
from naim3l.datasets import make_unpaired
from naim3l.decisions.calibration import calibration_error
from naim3l.decisions.rules import LEARNED
from naim3l.estimators import PerViewLogistic, PerViewRidge
from naim3l.metrics import macro_f1

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
    assert not hasattr(plain, "predict_proba") and plain.fusion_weights_ is None
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
        assert calibration_error(new.labels[view], P) < 0.05
        rates = np.broadcast_to(calibrated.base_rates_, P.shape)
        known = ~np.isnan(new.labels[view])
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


@pytest.mark.parametrize("fusion", ["evidence", "learned"])
def test_fusion_of_evidence_beats_the_mean_where_a_view_is_worse(wide, fusion):
    table, Y = wide
    old, new = slice(0, 180), slice(180, 300)
    models = [
        NAIM3L(views=VIEWS, decide=Decisions("sign", False, how), random_state=0)
        for how in ("mean", fusion)
    ]
    ap = [
        evaluate(Y[new], model.fit(table[old], Y[old]).decision_function(table[new]))["AP"]
        for model in models
    ]
    assert ap[1] > ap[0]
    weights, overlap = models[1].fusion_weights_, models[1].fusion_overlap_
    assert set(weights) == set(VIEWS) and weights["good"].shape == overlap.shape == (Y.shape[1],)
    if fusion == "evidence":
        assert (weights["good"] == 1).all() and not overlap.any()


def test_a_fit_stopped_before_probabilities_are_learned_says_so(separate, monkeypatch):
    def stop(*_):
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
    """Whatever the threshold; the calibrated probability of each is at least one half."""
    calibrated = fitted(model, separate, "f1")
    filled = calibrated.impute_labels(separate.views, separate.labels, min_confidence=least)
    for view, yes in calibrated.predict_proba(separate.views).items():
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


def test_a_view_that_does_not_know_a_label_adds_nothing_to_it(separate):
    """Fused with another view, it leaves that one's probabilities as they are."""
    Y = {view: labels.copy() for view, labels in separate.labels.items()}
    first, second = Y
    Y[second][:, 1] = np.nan
    model = PerViewRidge(decide="half", random_state=0).fit(separate.views, Y)
    new = {view: X[:50] for view, X in separate.views.items()}
    probabilities = model.set_output(transform="pandas").predict_proba(new)
    np.testing.assert_allclose(probabilities[second].iloc[:, 1], model.base_rates_[1])
    fused = fuse(probabilities, base_rates=model.base_rates_)
    np.testing.assert_allclose(fused.iloc[:, 1], probabilities[first].iloc[:, 1])
