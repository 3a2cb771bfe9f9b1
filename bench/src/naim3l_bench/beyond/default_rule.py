"""Beyond the paper: which rule of decision suits which purpose, beside guessing."""

from typing import Any

from naim3l_bench.fits import MEASURES, PER_ROW
from naim3l_bench.present import Cell, ResultTable, count_seeds, mean_std, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task

TITLE = "Rules of decision, beside guessing"


def _fits(plan: Plan, dataset: str) -> list[Task]:
    grids = plan.grids
    parameters = {"lams": list(grids.lams_with_ridge), "ridges": list(grids.ridges)}
    return plan.fits(dataset, "rules", parameters, protocol="clean")


def tasks(plan: Plan) -> list[Task]:
    return [task for dataset in plan.sources for task in _fits(plan, dataset)]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Spreads, ``{dataset: {rule: {measure: spread}}}``; percent, but labels per row."""
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        found = [record["numbers"] for record in store.find(_fits(plan, dataset))]
        if found:
            results[dataset] = {
                rule: {name: _spread(name, [of[rule][name] for of in found]) for name in measured}
                for rule, measured in found[0].items()
            }
    return results


def _spread(name: str, values: list[float]) -> dict[str, Any]:
    return spread(values if name == PER_ROW else [100 * value for value in values])


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    rows, counts = [], []
    for dataset, rules in numbers.items():
        for rule, values in rules.items():
            shown = [mean_std(values[name]) for name in (PER_ROW, *MEASURES)]
            rows.append([Cell(text) for text in (dataset, rule, *shown)])
            counts.append(len(values["1-HL"]["values"]))
    note = (
        f"Mean (standard deviation) over {count_seeds(counts)}; percent, except labels per row. "
        "Per view, averaged over views; protocol clean, lam and ridge chosen on held-out entries. "
        "1-HL is the share of right decisions. The first two rows of each dataset are guesses."
    )
    header = ["dataset", "rule", PER_ROW, *MEASURES]
    return [ResultTable("Rules", header, rows, note)]
