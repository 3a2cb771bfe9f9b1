"""Metrics of predictions, beside guessing and beside another method."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t
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


def in_folds(n_folds=4, seed=0, **options):
    """A block of entries held out in folds, with another method that is worse."""
    block = random_block(seed, n_rows=80, **options)
    rng = np.random.default_rng((seed, 1))
    folds = np.where(np.isnan(block.truth), np.nan, rng.integers(0, n_folds, block.truth.shape))
    scores = block.model.scores + 0.5 * rng.normal(size=folds.shape)
    return replace(block, folds=folds, uncoupled=Predictions(scores, scores - 0.2))


def values_of_folds(block, predicted):
    """Metrics of each fold by itself."""
    truths = [np.where(block.folds == fold, block.truth, np.nan) for fold in range(4)]
    found = [evaluate(Y, predicted.scores, threshold=0.2) for Y in truths]
    return {name: np.array([of_fold[name] for of_fold in found]) for name in METRICS}


def test_metrics_of_held_out_entries_are_means_over_folds():
    block = replace(in_folds(), boosting=random_block(5, n_rows=80).model)
    found = evaluate_blocks([block], names_of(block))
    metrics = found["blocks"][0]["metrics"]
    for key, method in (("value", "model"), ("uncoupled",) * 2, ("boosting",) * 2):
        expected = values_of_folds(block, getattr(block, method))
        for name in METRICS:
            assert metrics[name][key] == pytest.approx(expected[name].mean()), (key, name)
    for name in METRICS:
        assert metrics[name]["low"] <= metrics[name]["value"] <= metrics[name]["high"]
    label, aucs = found["labels"][2], []
    for fold in range(4):
        here = block.folds[:, 2] == fold
        aucs.append(roc_auc_score(block.truth[here, 2], block.model.scores[here, 2]))
    assert label["auc"] == pytest.approx(np.mean(aucs))
    assert label["yes"] + label["no"] == np.isfinite(block.truth[:, 2]).sum()


def test_the_interval_of_a_gain_covers_the_choice_of_training_rows():
    """Mean and t times the deviation of Nadeau and Bengio, with 1 / (K - 1) for test by train.

    Here it is wider than that of resampled rows, which it always contains.
    """
    block = in_folds()
    model, other = (values_of_folds(block, of) for of in (block.model, block.uncoupled))
    for name, found in first_metrics(block).items():
        gains = model[name] - other[name]
        half = t.ppf(0.975, 3) * np.sqrt((1 / 4 + 1 / 3) * gains.var(ddof=1))
        expected = {"value": gains.mean(), "low": gains.mean() - half, "high": gains.mean() + half}
        assert found["gain"] == pytest.approx(expected), name


def test_the_interval_of_a_gain_by_hand():
    """Gains of two folds, 0.5 and 0: 0.25 and 12.706 sqrt((1 / 2 + 1) 0.125) on either side."""
    truth, own, other = np.ones((4, 1)), np.ones((4, 1)), np.array([[1.0], [-1], [1], [1]])
    guessing, folds = guess(np.array([0.9]), 4), np.array([[0.0], [0], [1], [1]])
    model, uncoupled = (Predictions(scores, scores) for scores in (own, other))
    block = EvaluatedBlock("a", "view", truth, model, guessing, uncoupled, folds=folds)
    gain = first_metrics(block)["1-HL"]["gain"]
    half = 12.7062 * np.sqrt(1.5 * 0.125)
    expected = {"value": 0.25, "low": 0.25 - half, "high": 0.25 + half}
    assert gain == pytest.approx(expected, rel=1e-5)


def test_where_folds_agree_by_chance_the_interval_of_a_gain_is_that_of_resampled_rows():
    small = random_block(n_rows=60, signal=0.7)
    rng = np.random.default_rng(1)
    margins = np.where(rng.random((60, 1)) < 0.1, -1, 1) * small.model.margins
    methods = {"model": small.model.margins, "uncoupled": margins}
    of_methods = {key: Predictions(of := np.tile(M, (5, 1)), of) for key, M in methods.items()}
    folds = np.broadcast_to(np.repeat(np.arange(5.0), 60)[:, None], (300, 5))
    guessing = guess(np.full(5, 0.4), 300)
    block = replace(
        small, truth=np.tile(small.truth, (5, 1)), guessing=guessing, folds=folds, **of_methods
    )
    gain = first_metrics(block)["1-HL"]["gain"]
    known = np.isfinite(block.truth)
    right = [((of.margins > 0) == block.truth) & known for of in of_methods.values()]
    gained = right[0].astype(float) - right[1]
    value = gained.sum() / known.sum()
    by_row = gained.sum(axis=1) - value * known.sum(axis=1)
    deviation = np.sqrt((by_row**2).sum()) / known.sum()
    assert gain["value"] == pytest.approx(value)
    assert (gain["high"] - gain["low"]) / 2 == pytest.approx(1.96 * deviation, rel=0.25)


def test_gains_of_a_fold_are_means_over_the_views():
    blocks = [in_folds(seed=seed, name=name) for seed, name in enumerate("ab")]
    mean, *_ = evaluate_blocks(blocks, names_of(blocks[0]))["blocks"]
    for name in METRICS:
        model, other = (
            np.mean([values_of_folds(of, getattr(of, method))[name] for of in blocks], axis=0)
            for method in ("model", "uncoupled")
        )
        gains = model - other
        half = t.ppf(0.975, 3) * np.sqrt((1 / 4 + 1 / 3) * gains.var(ddof=1))
        assert mean["metrics"][name]["gain"]["value"] == pytest.approx(gains.mean())
        assert mean["metrics"][name]["gain"]["high"] == pytest.approx(gains.mean() + half)


def test_a_metric_that_one_fold_alone_defines_has_a_gain_without_an_interval():
    block = in_folds()
    block.truth[:, 1:][block.folds[:, 1:] > 0] = np.nan  # one label is left, which is not ranked
    alone = first_metrics(block)["AP"]
    expected = values_of_folds(block, block.model)["AP"]
    assert np.isnan(expected[1:]).all() and alone["value"] == pytest.approx(expected[0])
    assert np.isfinite(alone["gain"]["value"])
    assert np.isnan(alone["gain"]["low"]) and np.isnan(alone["gain"]["high"])


@pytest.mark.parametrize(("n_labels", "name"), [(1, "macro-AUC"), (20, "macro-AUC"), (21, "AP")])
def test_the_headline_ranks_rows_of_few_labels_and_labels_of_a_row_of_many(n_labels, name):
    block = random_block(n_labels=n_labels)
    assert evaluate_blocks([block], names_of(block))["blocks"][0]["headline"] == name


def test_rows_of_one_id_are_resampled_together():
    """Copies of rows add nothing to what is known, so that intervals stay as wide."""
    block = random_block(n_rows=60, signal=0.3)
    twice = np.tile(np.arange(60), 2)
    copied = replace(
        block,
        truth=block.truth[twice],
        model=block.model.take(twice),
        guessing=block.guessing.take(twice),
    )
    wanted, alone, grouped = (
        first_metrics(of) for of in (block, copied, replace(copied, groups=twice))
    )
    for name in ("macro-AUC", "AP"):
        for key in ("value", "low", "high"):
            assert grouped[name][key] == pytest.approx(wanted[name][key])
        widths = [of[name]["high"] - of[name]["low"] for of in (alone, wanted)]
        assert widths[0] < 0.9 * widths[1]
