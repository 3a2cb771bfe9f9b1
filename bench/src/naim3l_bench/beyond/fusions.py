"""Beyond the paper: ways to fuse the views of a sample, where samples are known.

Rows are aligned here, in training as well. Half of the rows of every view, and half of the labels,
are still missing.
"""

from typing import Any

from naim3l_bench.present import METRICS, Cell, ResultTable, count_seeds, mean_std, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, usual_lam

TITLE = "Fusion: mean, ranks, evidence, overlap"
WAYS = ("best view alone", "mean", "ranks", "evidence", "overlap learned")
RIDGE = 1.0


def _fits(plan: Plan, dataset: str) -> list[Task]:
    parameters = {"lam": usual_lam(dataset), "ridge": RIDGE}
    return plan.fits(dataset, "fusions", parameters, protocol="clean", aligned=True)


def tasks(plan: Plan) -> list[Task]:
    return [task for dataset in plan.sources for task in _fits(plan, dataset)]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Spreads in percent, ``{dataset: {test views: {way: {metric: spread}}}}``."""
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        found = [record["numbers"] for record in store.find(_fits(plan, dataset))]
        for shown in ("all views", "half hidden"):
            measured = [of[shown] for of in found if shown in of]
            if measured:
                results.setdefault(dataset, {})[shown] = {
                    way: {
                        m: spread([100 * of[way][m] for of in measured]) for m in measured[0][way]
                    }
                    for way in WAYS
                }
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    rows, counts = [], []
    for dataset, by_shown in numbers.items():
        for shown, by_way in by_shown.items():
            for way, values in by_way.items():
                texts = [mean_std(values.get(m)) for m in (*METRICS[1:], "explained")]
                rows.append([Cell(text) for text in (dataset, shown, way, *texts)])
                counts.append(len(values["AP"]["values"]))
    note = (
        f"Mean (population standard deviation) in percent over {count_seeds(counts)}. Training "
        f"rows are aligned, ridge {RIDGE:g}; calibration and the overlap are learned "
        "on held-out training rows. Evidence: added up as if views were independent. The best view "
        "alone has the highest AP on the test rows. "
        "Log-loss explained: relative reduction of the log-loss of each label's base rate."
    )
    header = ["dataset", "test views", "fusion", *METRICS[1:], "log-loss explained"]
    return [ResultTable("Fusion", header, rows, note)]
