"""What a report says in words."""

import numpy as np
import pytest
from rich.cells import cell_len

from naim3l.decisions.bootstrap_metrics import NO_BETTER, TOO_FEW, WELL
from naim3l.report.findings import (
    _of_probabilities,
    describe_answers,
    describe_coupling,
    describe_found,
    describe_verdicts,
    shorten,
    show_points,
    title,
)

NAMES = ("value", "low", "high")


def block(kind, at_least=0.6, headline="macro-AUC", others=(), **gain):
    """A block whose headline has this gain; those of other measures are tuples."""
    metrics = {
        name: {"gain": dict(zip(NAMES, of, strict=True))} for name, of in dict(others).items()
    }
    metrics[headline] = {"gain": gain or None, "low": at_least, "guessing": 0.5}
    return {"kind": kind, "headline": headline, "metrics": metrics}


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (
            (0.012, 0.008, 0.016),
            "added 1.2 points of macro-AUC on your data (95 % interval 0.8 to 1.6).",
        ),
        (
            (-0.001, -0.005, 0.003),
            "made no measurable difference: −0.1 points of macro-AUC on your data (95 % interval "
            "−0.5 to 0.3).",
        ),
        (
            (-0.03, -0.04, -0.02),
            "cost 3.0 points of macro-AUC on your data (95 % interval 2.0 to 4.0).",
        ),
    ],
)
def test_gain_of_coupling_in_a_sentence(gain, said):
    gain = dict(zip(NAMES, gain, strict=True))
    assert describe_coupling(block("fused", **gain), "Coupling") == f"Coupling {said}"
    of_rows = describe_coupling(block("fused", headline="AP", **gain), "Coupling")
    assert of_rows == f"Coupling {said}".replace("macro-AUC", "AP")


def test_gains_that_are_not_known():
    assert describe_coupling(None, "Coupling") is None
    assert describe_coupling(block("view"), "Coupling") is None
    one_fold = describe_coupling(block("view", value=0.1, low=None, high=None), "Coupling")
    assert one_fold == "Coupling: one fold is too few to tell what it added."


def test_the_measures_that_clearly_gained_and_lost_most_are_named():
    none = {"value": 0.0, "low": -0.01, "high": 0.01}
    unclear = {"1-HL": (0.09, -0.001, 0.2), "micro-F1": (-0.09, -0.2, 0.001)}
    more = {"AP": (0.02, 0.01, 0.03), "1-RL": (0.03, 0.02, 0.04)}
    less = {"macro-F1": (-0.01, -0.02, -0.005), "example-F1": (-0.04, -0.05, -0.03)}

    def second_sentence(*others):
        found = block("view", others={k: v for of in others for k, v in of.items()}, **none)
        first, _, rest = describe_coupling(found, "Coupling").partition("1.0). ")
        assert "no measurable difference" in first
        return rest

    gained = "most gained pairs in order +3.0 (2.0 to 4.0)"
    lost = "most lost F1 by row −4.0 (−5.0 to −3.0)"
    assert second_sentence(unclear, more, less) == f"Of the other measures, {gained}, {lost}."
    assert second_sentence(more) == f"Of the other measures, {gained}."
    assert second_sentence(less, unclear) == f"Of the other measures, {lost}."
    # Neither what is shown as 0.0, nor coverage and one-error, of which less is better.
    assert not second_sentence(unclear, {"AP": (3e-4, 1e-4, 4e-4), "one-error": (0.1, 0.05, 0.2)})


def answers(right, guessed, f1, guessed_f1=0.0):
    metrics = {"1-HL": {"value": right, "guessing": guessed}}
    return {"metrics": metrics | {"micro-F1": {"value": f1, "guessing": guessed_f1}}}


def test_yes_and_no_stand_beside_the_more_frequent_values():
    assert describe_answers(None) is None and describe_answers(answers(None, None, None)) is None
    said = "Yes and no: 81.0 % of the entries are right"
    beside = "each label's more frequent value is right in"
    assert describe_answers(answers(0.81, 0.638, 0.7)) == f"{said}; {beside} 63.8 %."
    assert describe_answers(answers(0.81, 0.81, None)) == f"{said}; {beside} 81.0 %."
    # What is shown as equal is not called less.
    assert describe_answers(answers(0.80999, 0.81001, 0.7)) == f"{said}; {beside} 81.0 %."
    less = f"{said}, which is less than by guessing: {beside} 85.0 %."
    why = "In return, the rule finds more of the yes (F1 60.0); another rule decides otherwise."
    assert describe_answers(answers(0.81, 0.85, 0.6)) == f"{less} {why}"
    # Nothing is found in return if guessing finds as much, or nothing is known of it.
    assert describe_answers(answers(0.81, 0.85, 0.6, 0.6)) == less
    assert describe_answers(answers(0.81, 0.85, None)) == less


def test_no_gain_is_claimed_for_scores_that_may_be_coincidence_nor_for_one_that_rounds_to_0():
    clear = {"value": 0.012, "low": 0.008, "high": 0.016}
    assert "no measurable difference" in describe_coupling(
        block("view", at_least=0.49, **clear), "Coupling"
    )
    tiny = {"value": 3e-4, "low": 1e-4, "high": 4e-4}
    assert "no measurable difference" in describe_coupling(block("view", **tiny), "Coupling")


def test_verdicts_are_counted_beginning_with_the_best():
    words = [NO_BETTER] * 2 + [WELL] * 7 + [TOO_FEW] * 3
    said = describe_verdicts([{"verdict": verdict} for verdict in words])
    best, *others = said.rstrip(".").split(", ")
    assert best == "Rows: 7 of 12 labels ranked well"
    assert others == ["2 ranked no better than guessing", "3 too few to tell"]
    said = describe_verdicts([{"verdict": NO_BETTER}])
    assert said.endswith("0 of 1 label ranked well, 1 ranked no better than guessing.")


def entry(label, yes, called, found, **more):
    return {"label": label, "yes": yes, "called": called, "found": found} | more


def test_what_is_found_over_all_labels_and_of_the_worst():
    flu, gout, rare = entry("flu", 40, 30, 20), entry("gout", 60, 10, 5), entry("rare", 2, 0, 0)
    said = describe_found([flu, gout, rare], {"gout": "Gout of a joint"})
    first = "Of 100 yes, 25 are found, and of 100 that are predicted, 62 are right."
    assert said == f"{first} Least is found of Gout of a joint: 8 of 100."
    assert describe_found([flu, rare], {}).endswith("67 are right.")
    assert describe_found([entry("flu", 9, 0, 0)], {}) == "Of 100 yes, 0 are found."
    assert describe_found([entry("flu", 0, 3, 0)], {}) is None
    # Those of a summary have the yes of the fit, too.
    assert "50 are found" in describe_found([entry("flu", 80, 20, 20, measured_yes=40)], {})


def of_probabilities(*bins, views=("a", "b"), kind="fused", name="fused"):
    """Cautions about a calibration curve of bins (n, probability, share)."""
    keys = ("n", "probability", "share")
    curve = {
        "name": name,
        "error": sum(n * abs(p - s) for n, p, s in bins) / sum(b[0] for b in bins),
    }
    curve |= {"bins": [dict(zip(keys, of, strict=True)) for of in (*bins, (0, None, None))]}
    found = _of_probabilities({
        "calibration": [curve], "model": {"views": views}, "data": {"form": "separate"},
        "quality": {"blocks": [{"kind": kind}]},
    })  # fmt: skip
    return {rule: said for rule, said in found.items() if said}


def test_probabilities_far_from_the_shares_of_yes_are_reported():
    (said,) = of_probabilities((500, 0.1, 0.1), (500, 0.8, 0.6))["probabilities-off"]
    assert said.startswith(
        "The probabilities of fused are 10 points from the shares of yes, and on average 10 "
        "points too high: use them to rank rows, not as they are, or fuse with another overlap"
    )
    (said,) = of_probabilities((500, 0.3, 0.4), name="lab", kind="view")["probabilities-off"]
    assert "10 points too low" in said and "overlap" not in said
    assert not of_probabilities((500, 0.1, 0.12), (500, 0.8, 0.79))


def test_what_noise_alone_gives_is_no_fault_of_probabilities():
    """Of shares drawn from right probabilities, few are reported, however few entries there are."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(200):
        p = np.array([0.1, 0.5, 0.9])
        bins = [(20, q, rng.binomial(20, q) / 20) for q in p]
        found += bool(of_probabilities(*bins))
    assert found < 20


def test_fused_answers_that_nothing_measures_are_noted():
    fine = (500, 0.5, 0.5)
    assert set(of_probabilities(fine, kind="view")) == {"fused-unmeasured"}
    assert not of_probabilities(fine, kind="view", views=["a"]) and not of_probabilities(fine)


def test_titles_name_a_few_labels():
    assert title(["flu"]) == "How good are the predictions of flu?"
    assert title(["a", "b"]) == "How good are the predictions of a and b?"
    assert title(["a", "b", "c", "d"]).endswith("of a, b, c and 1 more label?")
    assert title(list("abcdef")).endswith("of a, b, c and 3 more labels?")
    assert len(title(["x" * 500] * 9)) < 200


def test_differences_in_points():
    assert show_points(-0.0123) == "−1.2" and show_points(0.0123, sign=True) == "+1.2"
    assert show_points(-0.0001) == show_points(0.0001, sign=True) == "0.0"


@pytest.mark.parametrize(
    "name", ["short", "x" * 60, "发热和咳嗽持续超过三天", "e\u0301" * 30, "\x1b" * 9]
)
def test_names_are_shortened_to_a_width(name):
    found = shorten(name, 12)
    assert cell_len(found) <= 12 and found.isprintable()
    assert found == name or found.endswith("…")
