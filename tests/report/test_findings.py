"""What a report says in words."""

import pytest
from rich.cells import cell_len

from naim3l.report.findings import describe_coupling, describe_verdicts, shorten, show_points, title


def block(kind, at_least=0.6, **gain):
    metric = {"gain": gain or None, "low": at_least, "guessing": 0.5}
    return {"kind": kind, "metrics": {"macro-AUC": metric}}


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
    gain = dict(zip(("value", "low", "high"), gain, strict=True))
    assert describe_coupling(block("fused", **gain), "Coupling") == f"Coupling {said}"


def test_no_gain_is_claimed_for_scores_that_may_be_coincidence_nor_for_one_that_rounds_to_0():
    clear = {"value": 0.012, "low": 0.008, "high": 0.016}
    assert "no measurable difference" in describe_coupling(
        block("view", at_least=0.49, **clear), "Coupling"
    )
    tiny = {"value": 3e-4, "low": 1e-4, "high": 4e-4}
    assert "no measurable difference" in describe_coupling(block("view", **tiny), "Coupling")


def test_verdicts_are_counted_beginning_with_the_best():
    words = ["no better than guessing"] * 2 + ["well above guessing"] * 7 + ["too few to tell"] * 3
    said = describe_verdicts([{"verdict": verdict} for verdict in words])
    best, *others = said.rstrip(".").split(", ")
    assert best == "Ranking of rows: 7 of 12 labels well above guessing"
    assert others == ["2 no better than guessing", "3 too few to tell"]
    said = describe_verdicts([{"verdict": "no better than guessing"}])
    assert said.endswith("0 of 1 label well above guessing, 1 no better than guessing.")


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
