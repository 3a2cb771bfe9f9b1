"""Metrics of a model on the terminal, beside guessing and beside not coupling the tables."""

from collections.abc import Mapping
from typing import Any

from naim3l.cli.app import print_table, say

DASH = "–"
# Names on the terminal; the others are those of the paper.
NAMES = {
    "1-HL": "right answers (1-HL)",
    "AUC": "adapted AUC (as in the paper)",
    "coverage": "coverage (less is better)",
    "one-error": "one-error (less is better)",
}
# Not in percent: a number of labels.
COUNTED = "coverage"


def by_name(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics, numbers of rows and calibration by view, and metrics by label, for JSON.

    Parameters
    ----------
    measured : mapping
        Result of `naim3l.decisions.quality.measure`.
    """
    labels: dict[str, dict[str, Any]] = {}
    for entry in measured["labels"]:
        rest = {key: value for key, value in entry.items() if key not in ("label", "view")}
        labels.setdefault(entry["label"], {})[entry["view"]] = rest
    return {
        "views": {block["name"]: block["metrics"] for block in measured["blocks"]},
        "labels": labels,
        "rows": {
            block["name"]: {key: block[key] for key in ("n_rows", "n_entries")}
            for block in measured["blocks"]
        },
        "calibration": {
            curve["name"]: {key: value for key, value in curve.items() if key != "name"}
            for curve in measured["calibration"]
        },
    }


def print_measured(measured: Mapping[str, Any], title: str) -> None:
    """Print the first block beside simpler methods, and what coupling added.

    Parameters
    ----------
    measured : mapping
        Result of `naim3l.decisions.quality.measure`, None for NaN.
    title : str
        Title of the table.
    """
    from naim3l.report.findings import HEADLINE, describe_coupling

    block = measured["blocks"][0]
    header = ["measure", "model", "guessing", "uncoupled", "coupling added"]
    rows = [
        [
            NAMES.get(name, name),
            *(show(metric[key], name) for key in ("value", "guessing", "uncoupled")),
            _gain(metric["gain"], name),
        ]
        for name, metric in block["metrics"].items()
    ]
    print_table(title, header, rows)
    say(
        f"In percent, coverage in labels. {HEADLINE} is how well rows with a label are ranked "
        "above rows without it. Uncoupled is ridge regression of each table alone."
    )
    n_views = sum(each["kind"] == "view" for each in measured["blocks"])
    n_labels = len(_first_labels(measured))
    what = "tables" if n_views > 1 else "labels"
    sentence = describe_coupling(block, f"Coupling the {what}")
    if sentence and n_views * n_labels > 1:  # otherwise there is nothing to couple
        say(sentence)


def print_views(measured: Mapping[str, Any]) -> None:
    """Print the metrics of all blocks, if there are several."""
    blocks = measured["blocks"]
    if len(blocks) < 2:
        return
    rows = [
        [NAMES.get(name, name), *(show(block["metrics"][name]["value"], name) for block in blocks)]
        for name in blocks[0]["metrics"]
    ]
    print_table("By table", ["measure", *(block["name"] for block in blocks)], rows)


def print_labels(measured: Mapping[str, Any]) -> None:
    """Print a line for each label, with a verdict on it, and count the verdicts."""
    rows = [
        [
            entry["label"],
            *(str(entry[key]) for key in ("yes", "no")),
            *(show(entry[key]) for key in ("auc", "f1", "right", "right_guessing")),
            entry["verdict"],
        ]
        for entry in _first_labels(measured)
    ]
    header = ["label", "yes", "no", "AUC", "F1", "right", "guessing", "verdict"]
    print_table("Labels: how rows are ranked (AUC, verdict), and right answers", header, rows)
    say(verdicts_in_words(measured))


def verdicts_in_words(measured: Mapping[str, Any]) -> str:
    """How many labels have which verdict in the first block."""
    from naim3l.report.findings import describe_verdicts

    return describe_verdicts(_first_labels(measured))


def _first_labels(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Labels as measured in the first block, one entry each."""
    first = measured["blocks"][0]["name"]
    return [entry for entry in measured["labels"] if entry["view"] == first]


def show(value: float | None, metric: str = "") -> str:
    """A metric in percent, or a dash where it is undefined."""
    if value is None:
        return DASH
    return f"{value:.2f}" if metric == COUNTED else f"{100 * value:.1f}"


def _gain(gain: Mapping[str, float | None] | None, metric: str) -> str:
    """Such as "+1.2 (0.8 to 1.6)"."""
    if gain is None or gain["value"] is None:
        return DASH
    scale, digits = (1, 2) if metric == COUNTED else (100, 1)
    # Adding 0 makes a rounded -0.0 a plain zero.
    value, low, high = (
        round(scale * (gain[key] or 0.0), digits) + 0.0 for key in ("value", "low", "high")
    )
    return f"{value:+.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
