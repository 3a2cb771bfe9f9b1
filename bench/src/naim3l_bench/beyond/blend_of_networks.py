"""Beyond the paper: a blend of networks, beside networks that are trained on aligned rows."""

from importlib.util import find_spec
from typing import Any

from naim3l_bench.beyond.accuracy import COUNTS
from naim3l_bench.present import METRICS, Cell, ResultTable, count_seeds, mean_std, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, paper_name
from naim3l_bench.trials import FREQUENCY_NAMES

TITLE = "Networks with one head, blended"
# Measured outside of this repository, see docs/research/accuracy.md.
RIVALS = {
    "corel5k": {
        "SCSD, square roots of histograms; aligned": {
            "AP": 47.4,
            "1-RL": 92.5,
            "AUC": 92.7,
            "label AP": 22.2,
        },
        "SCSD and DeepNAIM3L, sum of log-odds; aligned": {
            "AP": 48.9,
            "1-RL": 93.1,
            "AUC": 93.3,
            "label AP": 23.6,
        },
    }
}
COLUMNS = (*METRICS[1:], "label AP", *FREQUENCY_NAMES)


def _fits(plan: Plan, dataset: str) -> list[Task]:
    kernel = "laplacian" if paper_name(dataset) in COUNTS else "rbf"
    parameters = {"kernel": kernel, **plan.grids.blend}
    return plan.fits(dataset, "blend", parameters, protocol="fused", features="raw")


def tasks(plan: Plan) -> list[Task]:
    if find_spec("torch") is None:
        return []
    return [task for dataset in plan.sources for task in _fits(plan, dataset)]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """``{dataset: {member or "blend": {metric: spread}}}``, percent."""
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        found = [record["metrics"]["members"] for record in store.find(_fits(plan, dataset))]
        found = [members for members in found if all(members.values())]
        if found:
            results[dataset] = {
                name: {m: _spread([of[name] for of in found], m) for m in COLUMNS}
                for name in found[0]
            }
    return results


def _spread(measured: list[dict[str, float]], metric: str) -> dict[str, Any] | None:
    """Percent; None of labels that are so frequent, if there are none."""
    values = [100 * metrics[metric] for metrics in measured if metric in metrics]
    return spread(values) if values else None


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    rows, counts = [], []
    for dataset, members in numbers.items():
        for name, values in members.items():
            shown = [mean_std(values[m]) for m in COLUMNS]
            rows.append([Cell(text) for text in (dataset, name, *shown)])
            counts.append(len(values["AP"]["values"]))
        for name, given in RIVALS.get(dataset, {}).items():
            last = [Cell(f"{given[m]:.1f}" if m in given else "–", "published") for m in COLUMNS]
            rows.append([Cell(dataset), Cell(name), *last])
    note = (
        f"Mean (standard deviation) in percent over {count_seeds(counts)}. Half of the test views "
        "are hidden, and the evidence of the others is added up, divided by 1 + (n - 1) / 2 for n "
        "views. Label AP: mean over labels of the average precision of ranking rows, also for "
        "labels with so many known positives in a view. Aligned: trained on matched rows, which "
        "the blend is not; measured outside of this repository on three of the seeds."
    )
    return [ResultTable(TITLE, ["dataset", "model", *COLUMNS], rows, note)]
