"""What the numbers of a report say, in words."""

import unicodedata
from collections import Counter
from typing import Any

from naim3l._text import visible
from naim3l.decisions.bootstrap_metrics import LEVEL, SHOWN, VERDICTS

Summary = dict[str, Any]

HEADLINE = "macro-AUC"
# Metrics on the page, in its order.
MEASURES = {each.name: each for each in SHOWN if each.percent and not each.lower_is_better}
MOST_LABELS, LONGEST_NAME = 3, 36
# Decimals of shares that are shown as points with one decimal.
ROUNDED = 3


def text_width(text: str) -> int:
    """Width in columns of a terminal: East Asian characters take two, combining ones none."""
    return sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1
        for c in text
    )


def shorten(name: str, most: int) -> str:
    """A name at most this wide, with control characters escaped and the end cut where needed.

    Examples
    --------
    >>> shorten("systolic blood pressure", 12)
    'systolic bl…'
    """
    name = visible(name)
    if text_width(name) <= most:
        return name
    while text_width(name) > most - 1:
        name = name[:-1]
    return f"{name.rstrip()}…"


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
    parts = [f"Ranking of rows: {counts[first]} of {len(labels)} {word} {first}"]
    parts += [f"{counts[verdict]} {verdict}" for verdict in others if counts[verdict]]
    return ", ".join(parts) + "."


def coupling_gain(block: dict[str, Any] | None) -> dict[str, Any] | None:
    """Gain of the headline over the uncoupled model, None where it is unknown."""
    gain = block["metrics"][HEADLINE]["gain"] if block else None
    return gain if gain and gain["value"] is not None else None


def describe_coupling(block: dict[str, Any] | None, what: str) -> str | None:
    """A sentence on what coupling added to the headline; None where it is unknown.

    Its subject is ``what``, such as "Coupling the tables".
    """
    gain = coupling_gain(block)
    if block is None or gain is None:
        return None
    value, low, high = (round(gain[key], ROUNDED) for key in ("value", "low", "high"))
    metric = block["metrics"][HEADLINE]
    # Scores that rank rows no better than by coincidence have gained nothing, however they differ.
    if low > 0 and metric["low"] > metric["guessing"]:
        return f"{what} added {_points_of(value, low, high)}."
    if high < 0:
        return f"{what} cost {_points_of(-value, -high, -low)}."
    return f"{what} made no measurable difference: {_points_of(value, low, high)}."


def _points_of(value: float, low: float, high: float) -> str:
    interval = f"{100 * LEVEL:.0f} % interval {show_points(low)} to {show_points(high)}"
    return f"{show_points(value)} points of {HEADLINE} on your data ({interval})"


def show_points(value: float, *, sign: bool = False) -> str:
    """A difference of two shares in percentage points."""
    text = f"{100 * value:{'+' if sign else ''}.1f}"
    # A minus before a zero would say something that is not known.
    return text.replace("-0.0", "0.0").replace("+0.0", "0.0").replace("-", "−")


def show_range(found: dict[str, Any]) -> str:
    """The interval of a share in percent, such as "71.0 to 75.8 %"."""
    return f"{100 * found['low']:.1f} to {100 * found['high']:.1f}\N{NO-BREAK SPACE}%"
