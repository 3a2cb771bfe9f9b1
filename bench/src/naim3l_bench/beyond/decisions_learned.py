"""Beyond the paper: what calibration does to scores, and the fusion of complete samples."""

from typing import Any

from naim3l_bench.present import Cell, ResultTable, count_seeds, mean_std, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, usual_lam

TITLE = "Probabilities and fusion of complete samples"
SCORED = (
    "calibration error, plain",
    "calibration error, calibrated",
    "log-loss explained, plain",
    "log-loss explained, calibrated",
    "AP, best view",
    "AP, all views fused",
)


def _groups(plan: Plan) -> list[tuple[str, str, list[Task]]]:
    return [
        (
            dataset,
            protocol,
            plan.fits(dataset, "decisions", {"lam": usual_lam(dataset)}, protocol=protocol),
        )
        for dataset, protocol in plan.groups()
        if protocol != "fused"  # scores are those of views here
    ]


def tasks(plan: Plan) -> list[Task]:
    return [task for *_, fits in _groups(plan) for task in fits]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Spreads in percent, ``{dataset: {protocol: {number: spread}}}``."""
    results: dict[str, Any] = {}
    for dataset, protocol, fits in _groups(plan):
        found = [record["numbers"] for record in store.find(fits)]
        if found:
            results.setdefault(dataset, {})[protocol] = {
                name: spread([100 * of[name] for of in found]) for name in found[0]
            }
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    rows, counts = [], []
    for dataset, protocols in numbers.items():
        for protocol, values in protocols.items():
            shown = [mean_std(values[name]) for name in SCORED]
            rows.append([Cell(text) for text in (dataset, protocol, *shown)])
            counts.append(len(values[SCORED[0]]["values"]))
    note = (
        f"Mean (standard deviation) in percent over {count_seeds(counts)}. Calibration error: "
        "expected, ten bins, per view; plain uses (score + 1) / 2 as a probability. Log-loss "
        "explained: relative reduction of the log-loss of each label's base rate, negative where "
        "probabilities are worse. Fused: the mean over all views of a test sample, none hidden."
    )
    header = ["dataset", "protocol", *SCORED]
    return [ResultTable("Calibration and fusion", header, rows, note)]
