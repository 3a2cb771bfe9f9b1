"""Metrics of predictions, beside guessing and beside another method."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from naim3l import evaluate
from naim3l.decisions.bootstrap_metrics import (
    MEAN,
    NO_BETTER,
    SHOWN,
    SOMEWHAT,
    TOO_FEW,
    WELL,
    EvaluatedBlock,
    evaluate_blocks,
    guess,
    judge_auc,
)
from naim3l.decisions.learning import Predictions

METRICS = [measure.name for measure in SHOWN]


def random_block(seed=0, n_rows=40, n_labels=5, threshold=0.2, name="a", signal=1.0, **more):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, size=(n_rows, n_labels)).astype(float)
    scores = rng.normal(size=truth.shape).round(1) + signal * truth
    truth[rng.random(truth.shape) < 0.3] = np.nan
    model = Predictions(scores, scores - threshold)
    return EvaluatedBlock(name, "view", truth, model, guess(np.full(n_labels, 0.4), n_rows), **more)


def names_of(block):
    return [f"label{k}" for k in range(block.truth.shape[1])]


def first_metrics(*blocks):
    return evaluate_blocks(blocks, names_of(blocks[0]))["blocks"][0]["metrics"]


def values(*blocks):
    return {name: found["value"] for name, found in first_metrics(*blocks).items()}


def test_metrics_are_those_of_evaluate():
    block = random_block()
    expected = evaluate(block.truth, block.model.scores, threshold=0.2)
    assert values(block) == pytest.approx({name: expected[name] for name in METRICS})


def test_margins_decide_and_scores_rank():
    block = random_block(n_labels=2)
    margins = np.tile([1.0, -1.0], (40, 1))
    found = values(replace(block, model=Predictions(block.model.scores, margins)))
    expected = evaluate(block.truth, margins)
    for name in ("1-HL", "macro-F1", "micro-F1", "example-F1"):
        assert found[name] == pytest.approx(expected[name])
    assert found["AP"] == pytest.approx(evaluate(block.truth, block.model.scores)["AP"])


def test_entries_without_a_score_may_be_nan_where_the_label_is_unknown():
    block = random_block()
    scores = np.where(np.isnan(block.truth), np.nan, block.model.scores)
    assert values(replace(block, model=Predictions(scores, scores - 0.2))) == values(block)


def test_intervals_are_as_wide_as_chance_is():
    rng = np.random.default_rng(0)
    scores = np.where(rng.random((400, 1)) < 0.7, 1.0, -1.0)
    block = EvaluatedBlock(
        "a", "view", np.ones((400, 1)), Predictions(scores, scores), guess(np.array([0.9]), 400)
    )
    found = first_metrics(block)
    share = found["1-HL"]
    deviation = np.sqrt(share["value"] * (1 - share["value"]) / 400)
    assert (share["high"] - share["low"]) / 2 == pytest.approx(1.96 * deviation, rel=0.2)
    assert share["guessing"] == 1
    assert np.isnan(found["AP"]["value"])  # one label cannot be ranked


def test_guessing_ranks_by_frequency_and_decides_for_the_more_frequent_value():
    block = random_block(seed=1, n_labels=3)
    rates = np.array([0.2, 0.7, 0.4])
    found = first_metrics(replace(block, guessing=guess(rates, 40)))
    expected = evaluate(block.truth, np.tile(rates, (40, 1)), threshold=0.5)
    for name in METRICS:
        assert found[name]["guessing"] == pytest.approx(expected[name])
    known = ~np.isnan(block.truth)
    right = (block.truth == (rates > 0.5))[known].mean()
    assert found["1-HL"]["guessing"] == pytest.approx(right)
    assert found["macro-AUC"]["guessing"] == 0.5


def test_the_same_predictions_without_coupling_leave_no_gain():
    block = random_block()
    same = random_block(uncoupled=block.model)
    for found in first_metrics(same).values():
        assert found["uncoupled"] == found["value"]
        assert found["gain"] == {"value": 0, "low": 0, "high": 0}
    assert all(found["gain"] is None for found in first_metrics(block).values())


def test_the_interval_of_a_gain_is_that_of_a_paired_difference():
    """Two methods that agree but for a few rows: their values vary far more than the gain does."""
    block = random_block(n_rows=300, signal=0.7)
    margins = block.model.margins.copy()
    margins[:20] *= -1
    found = first_metrics(replace(block, uncoupled=Predictions(block.model.scores, margins)))[
        "1-HL"
    ]
    own, other = block.model.margins > 0, margins > 0
    known = ~np.isnan(block.truth)
    expected = ((own == block.truth)[known].mean()) - ((other == block.truth)[known].mean())
    assert found["gain"]["value"] == pytest.approx(expected)
    assert found["gain"]["low"] <= expected <= found["gain"]["high"]
    assert found["gain"]["high"] - found["gain"]["low"] < (found["high"] - found["low"]) / 2
    # A row counts by the weight of its entries, so that its difference is a ratio of sums.
    gained = ((own == block.truth).astype(float) - (other == block.truth)) * known
    by_row = gained.sum(axis=1) - expected * known.sum(axis=1)
    deviation = np.sqrt((by_row**2).sum()) / known.sum()
    assert (found["gain"]["high"] - found["gain"]["low"]) / 2 == pytest.approx(
        1.96 * deviation, rel=0.25
    )


def test_views_have_a_mean_unless_fused_scores_decide():
    first, second = random_block(0, name="a"), random_block(1, n_rows=30, name="b")
    found = evaluate_blocks([first, second], names_of(first))["blocks"]
    assert [(b["name"], b["kind"]) for b in found] == [(MEAN, "mean"), ("a", "view"), ("b", "view")]
    assert found[0]["n_rows"] == 70
    for name in METRICS:
        of_views = [block["metrics"][name]["value"] for block in found[1:]]
        assert found[0]["metrics"][name]["value"] == pytest.approx(np.mean(of_views))
    aside = [random_block(seed, name=name, decided=False) for seed, name in enumerate("ab")]
    found = evaluate_blocks([random_block(name="fused"), *aside], names_of(first))
    assert [block["name"] for block in found["blocks"]] == ["fused", "a", "b"]
    assert {label["view"] for label in found["labels"]} == {"fused"}


def test_labels_are_measured_by_view_and_together():
    blocks = [random_block(0, name="a"), random_block(1, n_rows=30, name="b")]
    found = evaluate_blocks(blocks, names_of(blocks[0]))["labels"]
    assert [entry["view"] for entry in found[:3]] == [MEAN, "a", "b"]
    for k in range(5):
        together, *single = found[3 * k : 3 * k + 3]
        for entry, block in zip(single, blocks, strict=True):
            truth, scores = block.truth[:, k], block.model.scores[:, k]
            known = ~np.isnan(truth)
            decided = block.model.margins[known, k] > 0
            assert entry["label"] == f"label{k}"
            assert entry["auc"] == pytest.approx(roc_auc_score(truth[known], scores[known]))
            precision = average_precision_score(truth[known], scores[known])
            assert entry["average_precision"] == pytest.approx(precision)
            assert entry["f1"] == pytest.approx(f1_score(truth[known], decided))
            assert entry["accuracy"] == pytest.approx((truth[known] == decided).mean())
            assert entry["accuracy_guessing"] == pytest.approx((truth[known] == 0).mean())
            assert entry["auc_low"] < entry["auc"] < entry["auc_high"]
        assert together["yes"] == sum(entry["yes"] for entry in single)
        assert together["auc"] == pytest.approx(np.mean([entry["auc"] for entry in single]))
        width = together["auc_high"] - together["auc_low"]
        assert width < max(entry["auc_high"] - entry["auc_low"] for entry in single)


def test_verdicts_on_labels():
    assert judge_auc(0.72, 0.9, 20) == WELL
    assert judge_auc(0.53, 0.7, 20) == SOMEWHAT
    assert judge_auc(0.42, 0.6, 20) == NO_BETTER
    assert judge_auc(0.42, 0.9, 20) == TOO_FEW
    assert judge_auc(0.9, 1.0, 9) == judge_auc(np.nan, np.nan, 90) == TOO_FEW


def test_a_view_in_which_a_metric_is_undefined_has_no_part_in_the_mean():
    blocks = [random_block(0, name="a"), random_block(1, name="b")]
    blocks[1].truth[:, 1:] = np.nan  # one label cannot be ranked
    mean, first, second = evaluate_blocks(blocks, names_of(blocks[0]))["blocks"]
    assert np.isnan(second["metrics"]["AP"]["value"])
    for key in ("value", "low", "high", "guessing"):
        assert mean["metrics"]["AP"][key] == first["metrics"]["AP"][key]
    assert mean["metrics"]["1-HL"]["value"] != first["metrics"]["1-HL"]["value"]


def test_labels_that_scores_rank_by_chance_are_seldom_judged_better_than_guessing():
    block = random_block(n_rows=150, n_labels=200, signal=0.0)
    found = evaluate_blocks([block], names_of(block))["labels"]
    better = np.mean([entry["verdict"] in (WELL, SOMEWHAT) for entry in found])
    assert better < 0.06  # half of the five in a hundred, and what chance adds


def test_without_any_known_entry_nothing_is_defined():
    empty = Predictions(np.empty((0, 2)), np.empty((0, 2)))
    block = EvaluatedBlock("a", "view", np.empty((0, 2)), empty, guess(np.array([0.5, 0.5]), 0))
    found = evaluate_blocks([block], ["x", "y"])
    assert all(np.isnan(metric["value"]) for metric in found["blocks"][0]["metrics"].values())
    assert [label["verdict"] for label in found["labels"]] == [TOO_FEW, TOO_FEW]
