"""Beyond the paper: what thresholds, calibration and fusion do to decisions and scores."""

from typing import Any

from naim3l.decisions.thresholds import RULES
from naim3l.experiments.present import Cell, ResultTable, count_seeds, mean_std, spread
from naim3l.experiments.records import Store
from naim3l.experiments.tasks import Plan, Task, usual_lam

TITLE = "Decisions: thresholds, probabilities, fusion"
DECIDED = ("example-F1", "macro-F1", "micro-F1", "1-HL")
SCORED = (
    "calibration error, plain",
    "calibration error, calibrated",
    "log-loss explained, plain",
    "log-loss explained, calibrated",
    "AP, best view",
    "AP, all views fused",
)


def _fits(plan: Plan, dataset: str, protocol: str, rule: str) -> list[Task]:
    parameters = {"lam": usual_lam(dataset), "threshold": rule}
    return plan.fits(dataset, "decisions", parameters, protocol=protocol)


def _groups(plan: Plan) -> list[tuple[str, str, str, list[Task]]]:
    return [
        (dataset, protocol, rule, _fits(plan, dataset, protocol, rule))
        for dataset, protocol in plan.groups()
        for rule in RULES
        if protocol != "fused"  # decisions are taken per view here
    ]


def tasks(plan: Plan) -> list[Task]:
    return [task for *_, fits in _groups(plan) for task in fits]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Spreads, ``{dataset: {protocol: {rule: {number: spread}}}}``; percent, but labels per row."""
    results: dict[str, Any] = {}
    for dataset, protocol, rule, fits in _groups(plan):
        found = [record["numbers"] for record in store.find(fits)]
        if found:
            of_protocol = results.setdefault(dataset, {}).setdefault(protocol, {})
            of_protocol[rule] = {
                name: spread([(1 if "per row" in name else 100) * of[name] for of in found])
                for name in found[0]
            }
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    decided, scored, counts = [], [], []
    for dataset, protocols in numbers.items():
        for protocol, rules in protocols.items():
            for rule, values in rules.items():
                shown = [mean_std(values[name]) for name in ("labels per row", *DECIDED)]
                decided.append([Cell(text) for text in (dataset, protocol, rule, *shown)])
                counts.append(len(values["1-HL"]["values"]))
            first = next(iter(rules.values()))  # scores do not depend on the rule
            shown = [mean_std(first[name]) for name in SCORED]
            scored.append([Cell(text) for text in (dataset, protocol, *shown)])
    note = f"Mean (standard deviation) over {count_seeds(counts)}; percent, except labels per row."
    return [
        ResultTable(
            "Thresholds",
            ["dataset", "protocol", "threshold", "labels per row", *DECIDED],
            decided,
            note + " Per view, averaged over views.",
        ),
        ResultTable(
            "Calibration and fusion",
            ["dataset", "protocol", *SCORED],
            scored,
            note
            + " Calibration error: expected, ten bins, per view; plain uses (score + 1) / 2 as a "
            "probability. Log-loss explained: relative reduction of the log-loss of each label's "
            "base rate, negative where probabilities are worse. Fused: the mean over all views "
            "of a test sample, none hidden.",
        ),
    ]


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    return {}
