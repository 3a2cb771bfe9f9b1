"""What the numbers of a report say, in words."""

from collections import Counter
from typing import Any

from naim3l.decisions.quality import LEVEL, VERDICTS
from naim3l.report.names import shorten

Summary = dict[str, Any]

HEADLINE = "macro-AUC"
# Name on the page and meaning, by the name in `naim3l.metrics`, in the order of the page.
MEASURES = {
    "macro-AUC": (
        "macro-AUC",
        "how well rows with the label are ranked above rows without it, averaged over labels "
        "(50 % is guessing)",
    ),
    "1-HL": ("right answers", "share of the known yes and no that the model answers correctly"),
    "AP": (
        "average precision",
        "how far up the labels that apply are when a row's labels are sorted by score, averaged "
        "over rows",
    ),
    "1-RL": (
        "pairs in order",
        "of all pairs of a label that applies to a row and one that does not, the share in which "
        "the first has the higher score",
    ),
    "AUC": (
        "adapted AUC (as in the paper)",
        "area under the curve for the top-ranked labels of all rows, as the paper defines it",
    ),
    "macro-F1": (
        "F1 by label",
        "100 % if the model finds every yes of a label and calls nothing else yes, averaged over "
        "labels",
    ),
    "example-F1": ("F1 by row", "the same for the labels of a row, averaged over rows"),
}
MOST_LABELS, LONGEST_NAME = 3, 36
# Decimals of shares that are shown as points with one decimal.
ROUNDED = 3


def main_block(blocks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The block that the page begins with, which is the first, as on the terminal."""
    return blocks[0] if blocks else None


def main_labels(summary: Summary) -> list[dict[str, Any]]:
    """Labels as measured in the main block, one entry each."""
    main = main_block(summary["quality"]["blocks"])
    return [entry for entry in summary["labels"] if main and entry["view"] == main["name"]]


def title(names: list[str]) -> str:
    """The question that a report answers, with the names of the labels."""
    shown = [shorten(name, LONGEST_NAME) for name in names[:MOST_LABELS]]
    n_more = len(names) - len(shown)
    if n_more:
        shown.append(f"{n_more} more label{'' if n_more == 1 else 's'}")
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"How good are the predictions of {listed}?"


def describe_verdicts(labels: list[dict[str, Any]]) -> str:
    """A sentence such as "Ranking of rows: 7 of 12 labels well above guessing, 2 no better ..."."""
    counts = Counter(entry["verdict"] for entry in labels)
    first, *others = VERDICTS
    word = "label" if len(labels) == 1 else "labels"
    said = [f"Ranking of rows: {counts[first]} of {len(labels)} {word} {first}"]
    said += [f"{counts[verdict]} {verdict}" for verdict in others if counts[verdict]]
    return ", ".join(said) + "."


def coupling_gain(block: dict[str, Any] | None) -> dict[str, Any] | None:
    """Gain of the headline over the uncoupled model, None where it is unknown."""
    gain = block["metrics"][HEADLINE]["gain"] if block else None
    return gain if gain and gain["value"] is not None else None


def describe_coupling(block: dict[str, Any] | None, what: str) -> str | None:
    """A sentence on what coupling added to the headline; None where it is unknown.

    Parameters
    ----------
    block : dict or None
        Block of the quality.
    what : str
        Subject of the sentence, such as "Coupling the tables".
    """
    gain = coupling_gain(block)
    if block is None or gain is None:
        return None
    value, low, high = (round(gain[key], ROUNDED) for key in ("value", "low", "high"))
    metric = block["metrics"][HEADLINE]
    # Scores that rank rows no better than by coincidence have gained nothing, however they differ.
    if low > 0 and metric["low"] > metric["guessing"]:
        return f"{what} added {show_points(value)} points of {HEADLINE} on your data {_said(gain)}."
    if high < 0:
        lost = {"value": -value, "low": -high, "high": -low}
        return f"{what} cost {show_points(-value)} points of {HEADLINE} on your data {_said(lost)}."
    return (
        f"{what} added nothing that can be told from chance on your data: {show_points(value)} "
        f"points of {HEADLINE} {_said(gain)}."
    )


def show_points(value: float, *, sign: bool = False) -> str:
    """A difference of two shares in percentage points."""
    text = f"{100 * value:{'+' if sign else ''}.1f}"
    # A minus before a zero would say something that is not known.
    return text.replace("-0.0", "0.0").replace("+0.0", "0.0").replace("-", "−")


def show_range(found: dict[str, Any]) -> str:
    """The interval of a share in percent, such as "71.0 to 75.8 %"."""
    return f"{100 * found['low']:.1f} to {100 * found['high']:.1f}\N{NO-BREAK SPACE}%"


def _said(gain: dict[str, Any]) -> str:
    low, high = show_points(gain["low"]), show_points(gain["high"])
    return f"({100 * LEVEL:.0f} % interval {low} to {high})"
