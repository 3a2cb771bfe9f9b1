"""Thresholds, probabilities and fusion of the estimators, learned on held-out entries."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from naim3l import NAIM3L, NAIM3LCV, evaluate, fuse, load
from naim3l.datasets import make_unpaired
from naim3l.decisions.calibration import calibration_error
from naim3l.decisions.thresholds import LEARNED
from naim3l.estimators import PerViewLogistic, PerViewRidge
from naim3l.metrics import macro_f1

MODELS = [NAIM3L(random_state=0), NAIM3LCV([0.4], [1.0], cv=2, random_state=0),
          PerViewRidge(1.0, random_state=0), PerViewLogistic(1.0, random_state=0)]  # fmt: skip
by_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@pytest.fixture(scope="module")
def drawn():
    """Rare labels: few scores are positive."""
    return make_unpaired(
        (800, 600), n_features=(12, 9), n_labels=6, labels_per_row=0.8, noise=1.0,
        missing_labels=0.3, random_state=0,
    )  # fmt: skip


def half(data, part):
    """Every other row of each view, from the first or the second on."""
    views, labels = ({view: of_view[part::2] for view, of_view in tables.items()}
                     for tables in (data.views, data.labels))  # fmt: skip
    return SimpleNamespace(views=views, labels=labels)


@pytest.fixture(scope="module")
def apart(drawn):
    return half(drawn, 0)


@pytest.fixture(scope="module")
def new(drawn):
    """Rows like those of `apart`, that no fit sees."""
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


VIEWS = {"good": [f"x{j}" for j in range(6)], "bad": [f"x{j}" for j in range(6, 11)]}


def fresh(model, **parameters):
    return type(model)(**{**model.get_params(), **parameters})


@by_model
def test_sign_is_the_default_of_all_but_the_search(model, apart):
    assert model.threshold == ("guarded" if isinstance(model, NAIM3LCV) else "sign")
    fitted = fresh(model, threshold="sign").fit(apart.views, apart.labels)
    scores = fitted.decision_function(apart.views)
    for view, Y in fitted.predict(apart.views).items():
        np.testing.assert_array_equal(Y, scores[view] > 0)
        assert (fitted.thresholds_[view] == 0).all()
    assert not hasattr(fitted, "predict_proba") and fitted.fusion_weights_ is None


@by_model
@pytest.mark.parametrize("first", LEARNED)
def test_the_rule_can_be_changed_after_the_fit(model, apart, first):
    fitted = fresh(model, threshold=first, random_state=0).fit(apart.views, apart.labels)
    assert set(fitted.rules_) == set(LEARNED)
    scores = fitted.decision_function(apart.views)
    for rule in LEARNED:
        other = fresh(model, threshold=rule, random_state=0).fit(apart.views, apart.labels)
        for view, Y in fitted.predict(apart.views, decide=rule).items():
            np.testing.assert_array_equal(Y, other.predict(apart.views)[view])
    for view, Y in fitted.predict(apart.views, decide="sign").items():
        np.testing.assert_array_equal(Y, scores[view] > 0)


def test_a_rule_that_was_not_learned_is_refused(apart):
    fitted = NAIM3L().fit(apart.views, apart.labels)
    with pytest.raises(ValueError, match="decide='f1' needs scores of held-out entries: fit with"):
        fitted.predict(apart.views, decide="f1")
    with pytest.raises(ValueError, match="decide must be one of"):
        fitted.predict(apart.views, decide="best")
    assert set(fitted.predict(apart.views, decide="sign")) == set(apart.views)


@by_model
@pytest.mark.parametrize("rule", ["f1", "cardinality", "half", "guarded", 0.3, {"label2": -0.2}])
def test_predictions_follow_the_thresholds(model, rule, apart):
    fitted = fresh(model, threshold=rule).fit(apart.views, apart.labels)
    plain = fresh(model).fit(apart.views, apart.labels)
    scores = fitted.decision_function(apart.views)
    for view, Y in fitted.predict(apart.views).items():
        np.testing.assert_array_equal(scores[view], plain.decision_function(apart.views)[view])
        np.testing.assert_array_equal(Y, scores[view] > fitted.thresholds_[view])
    if rule == "f1":
        assert any((t != 0).any() for t in fitted.thresholds_.values())


def test_learned_thresholds_help_on_new_rows(apart, new):
    values = {}
    for rule in ("sign", "f1", "cardinality"):
        model = NAIM3L(threshold=rule, random_state=0).fit(apart.views, apart.labels)
        predicted = model.predict(new.views)
        values[rule] = np.mean([macro_f1(new.labels[v], predicted[v], threshold=0.5)
                                for v in predicted])  # fmt: skip
    assert values["f1"] > values["sign"] and values["cardinality"] > values["sign"]


@by_model
def test_probabilities_are_calibrated_and_ordered_as_scores(model, apart, new):
    fitted = fresh(model, calibrate=True).fit(apart.views, apart.labels)
    chances, scores = fitted.predict_proba(new.views), fitted.decision_function(new.views)
    for view, P in chances.items():
        assert P.shape == scores[view].shape and ((P > 0) & (P < 1)).all()
        for k in range(P.shape[1]):
            order = np.argsort(scores[view][:, k])
            assert (np.diff(P[order, k]) >= 0).all()
        assert calibration_error(new.labels[view], P) < 0.05
        rates = np.broadcast_to(fitted.base_rates_, P.shape)
        known = ~np.isnan(new.labels[view])
        losses = [log_loss(new.labels[view][known], p[known]) for p in (P, rates)]
        assert losses[0] < 0.9 * losses[1]  # more than rates are told


def test_wide_form_decides_on_fused_scores(wide):
    table, Y = wide
    model = NAIM3L(views=VIEWS, threshold="f1", calibrate=True, random_state=0).fit(table, Y)
    assert set(model.thresholds_) == {"fused"}
    scores = model.decision_function(table)
    np.testing.assert_array_equal(model.predict(table), scores > model.thresholds_["fused"])
    assert model.predict_proba(table).shape == scores.shape
    frame = model.set_output(transform="pandas").predict_proba(table)
    assert list(frame.columns) == model.label_names_ and frame.index.equals(table.index)


@pytest.mark.parametrize("fusion", ["evidence", "learned"])
def test_fusion_of_evidence_beats_the_mean_where_a_view_is_worse(wide, fusion):
    table, Y = wide
    old, new = slice(0, 180), slice(180, 300)
    models = [
        NAIM3L(views=VIEWS, fusion=f, random_state=0).fit(table[old], Y[old])
        for f in ("mean", fusion)
    ]
    ap = [evaluate(Y[new], model.decision_function(table[new]))["AP"] for model in models]
    assert ap[1] > ap[0]
    weights = models[1].fusion_weights_
    assert set(weights) == set(VIEWS) and weights["good"].shape == (Y.shape[1],)
    assert models[1].fusion_overlap_.shape == (Y.shape[1],)
    if fusion == "evidence":
        assert (weights["good"] == 1).all() and not models[1].fusion_overlap_.any()


def test_a_fit_stopped_before_probabilities_are_learned_says_so(apart, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(NAIM3L, "_solve_loosely", stop)
    model = NAIM3L(calibrate=True, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(apart.views, apart.labels)
    model.decision_function(apart.views)  # is there
    with pytest.raises(NotFittedError, match="stopped before probabilities were learned"):
        model.predict_proba(apart.views)


def test_fused_evidence_can_be_calibrated_saved_and_loaded(wide, tmp_path):
    table, Y = wide
    model = NAIM3L(views=VIEWS, fusion="evidence", calibrate=True, random_state=0).fit(table, Y)
    model.save(tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))


@by_model
def test_base_rates_are_the_shares_of_positives(model, apart):
    fitted = fresh(model).fit(apart.views, apart.labels)
    stacked = np.concatenate(list(apart.labels.values()))
    expected = (np.nansum(stacked, axis=0) + 1) / ((~np.isnan(stacked)).sum(axis=0) + 2)
    np.testing.assert_allclose(fitted.base_rates_, expected)
    assert "base_rates_" in type(model).__doc__


def test_imputed_labels_follow_the_thresholds(apart):
    model = NAIM3L(threshold="f1", random_state=0).fit(apart.views, apart.labels)
    filled, predicted = model.impute_labels(apart.views, apart.labels), model.predict(apart.views)
    for view, Y in apart.labels.items():
        unknown = np.isnan(Y)
        np.testing.assert_array_equal(filled[view][unknown], predicted[view][unknown])


@by_model
@pytest.mark.parametrize("least", [None, 0.8])
def test_imputed_labels_are_the_most_probable_ones(model, least, apart):
    """Whatever the threshold; the calibrated probability of each is at least one half."""
    fitted = fresh(model, threshold="f1", calibrate=True).fit(apart.views, apart.labels)
    filled = fitted.impute_labels(apart.views, apart.labels, min_confidence=least)
    for view, yes in fitted.predict_proba(apart.views).items():
        Y, found = apart.labels[view], filled[view]
        known = ~np.isnan(Y)
        np.testing.assert_array_equal(found[known], Y[known])
        for value, probability in ((1, yes), (0, 1 - yes)):
            assert (probability[~known & (found == value)] >= (least or 0.5)).all()
        probable = np.maximum(yes, 1 - yes) >= (least or 0.5)
        np.testing.assert_array_equal(np.isnan(found), ~known & ~probable)
        assert np.isnan(found).any() == (least is not None)


def test_imputed_labels_of_a_wide_table_keep_its_coding(wide):
    table, Y = wide
    signed = np.where(np.isnan(Y), 0, 2 * np.nan_to_num(Y) - 1).astype(int)
    signed[::3, 0] = 0
    model = NAIM3L(views=VIEWS, calibrate=True, label_coding="signed", random_state=0)
    model.fit(table, signed)
    filled = model.impute_labels(table, signed, min_confidence=0.7)
    yes = model.predict_proba(table)
    expected = np.where(yes >= 0.7, 1, np.where(yes <= 0.3, -1, 0))
    np.testing.assert_array_equal(filled, np.where(signed == 0, expected, signed))


@pytest.mark.parametrize("wrong", [0.4, 1.1, "0.8", True, np.nan])
def test_a_confidence_is_from_one_half_to_one(wrong, apart):
    model = NAIM3L(calibrate=True, random_state=0).fit(apart.views, apart.labels)
    with pytest.raises(ValueError, match=r"min_confidence must be a number from 0.5 to 1, got"):
        model.impute_labels(apart.views, apart.labels, min_confidence=wrong)


def test_same_seed_same_decisions(apart):
    fits = [NAIM3L(threshold="f1", calibrate=True, random_state=s) for s in (1, 1, 2)]
    first, again, other = [m.fit(apart.views, apart.labels).thresholds_["view0"] for m in fits]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"threshold": "best"}, "threshold must be one of"),
        ({"threshold": {"flu": 1.0}}, r"threshold: no labels \['flu'\]"),
        ({"calibrate": "yes"}, "calibrate"),
        ({"fusion": "max"}, "fusion"),
    ],
)
@by_model
def test_wrong_parameters_are_refused_before_the_fit(model, wrong, message, apart):
    with pytest.raises(ValueError, match=message):
        fresh(model, **wrong).fit(apart.views, apart.labels)


def test_without_calibration_the_error_says_what_to_do(apart):
    model = NAIM3L().fit(apart.views, apart.labels)
    with pytest.raises(AttributeError, match=r"NAIM3L.predict_proba needs calibrate=True"):
        model.predict_proba(apart.views)
    with pytest.raises(ValueError, match=r"min_confidence needs calibrate=True"):
        model.impute_labels(apart.views, apart.labels, min_confidence=0.8)


def test_a_view_that_does_not_know_a_label_adds_nothing_to_it(apart):
    """Fused with another view, it leaves that one's probabilities as they are."""
    Y = {view: labels.copy() for view, labels in apart.labels.items()}
    first, second = list(Y)[:2]
    Y[second][:, 1] = np.nan
    model = PerViewRidge(calibrate=True, random_state=0).fit(apart.views, Y)
    rows = min(len(X) for X in apart.views.values())
    new = {view: X[:rows] for view, X in apart.views.items() if view in (first, second)}
    chances = model.set_output(transform="pandas").predict_proba(new)
    np.testing.assert_allclose(chances[second].iloc[:, 1], model.base_rates_[1])
    fused = fuse(chances, base_rates=model.base_rates_)
    np.testing.assert_allclose(fused.iloc[:, 1], chances[first].iloc[:, 1])


def test_base_rates_of_a_wide_table_count_a_row_once(wide):
    table, Y = wide
    model = PerViewRidge(views=VIEWS).fit(table, Y)
    expected = (np.nansum(Y, axis=0) + 1) / ((~np.isnan(Y)).sum(axis=0) + 2)
    np.testing.assert_allclose(model.base_rates_, expected)
