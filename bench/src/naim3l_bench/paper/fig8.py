"""Fig. 8: the objective and its convex surrogate along Algorithm 1."""

from typing import Any

import numpy as np

from naim3l.extend import COLOURS, new_figure, styled
from naim3l_bench.paper.comparison import trace_fits
from naim3l_bench.plots import LINES
from naim3l_bench.present import Cell, ResultTable, count_seeds
from naim3l_bench.records import Store
from naim3l_bench.tasks import FEW_SEEDS, Plan, Task

TITLE = "Fig. 8: convergence of the objective and of its surrogate"
SHOWN = (1, 5, 10, 20, 50, 100, 200)
CURVES = {"objective": "objective, Eq. (5)", "surrogate": "surrogate, Eq. (11)"}


def _groups(plan: Plan) -> list[tuple[str, str, list[Task]]]:
    few = plan.at_most(FEW_SEEDS)
    return [
        (dataset, protocol, trace_fits(few, dataset, protocol))
        for dataset, protocol in few.groups()
        if protocol != "fused"  # how scores are fused changes no fit
    ]


def tasks(plan: Plan) -> list[Task]:
    return [task for *_, fits in _groups(plan) for task in fits]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """``{dataset: {protocol: {"objective", "surrogate"}}}``, each a curve per seed."""
    results: dict[str, Any] = {}
    for dataset, protocol, fits in _groups(plan):
        records = store.find(fits)
        if records:
            results.setdefault(dataset, {})[protocol] = {
                name: [record["numbers"][name] for record in records] for name in CURVES
            }
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    rows = []
    for dataset, of_dataset in numbers.items():
        for protocol, curves in of_dataset.items():
            for name, text in CURVES.items():
                mean = np.mean(curves[name], axis=0)
                values = [f"{mean[n - 1]:.1f}" if n <= len(mean) else "–" for n in SHOWN]
                rows.append([Cell(cell) for cell in (dataset, protocol, text, *values)])
    header = ["dataset", "protocol", "function", *(f"iteration {n}" for n in SHOWN)]
    counts = [
        len(curves["objective"])
        for of_dataset in numbers.values()
        for curves in of_dataset.values()
    ]
    note = (
        f"Means over {count_seeds(counts)}; Algorithm 1, mu 5. The surrogate lies above the "
        "objective."
    )
    return [ResultTable("Fig. 8", header, rows, note)]


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        f"fig8-{dataset}-{protocol}": _draw(curves)
        for dataset, of_dataset in numbers.items()
        for protocol, curves in of_dataset.items()
    }


@styled
def _draw(curves: dict[str, Any]) -> Any:
    """Left: all iterations. Right: the excess over the least objective, on a log scale."""
    fig, (left, right) = new_figure(2)
    best = np.min(curves["objective"], axis=1)[:, None]
    for i, (name, text) in enumerate(CURVES.items()):
        values = np.array(curves[name])
        steps = np.arange(1, values.shape[1] + 1)
        for axis, shown in ((left, values), (right, (values - best) / np.abs(best))):
            mean, std = shown.mean(axis=0), shown.std(axis=0)
            # The last of the objective is the best itself: no logarithm.
            drawn = mean > 1e-12
            axis.plot(steps[drawn], mean[drawn], color=COLOURS[i], linestyle=LINES[i], label=text)
            low = np.maximum(mean - std, mean / 10) if axis is right else mean - std
            axis.fill_between(
                steps[drawn], low[drawn], (mean + std)[drawn], color=COLOURS[i], alpha=0.2, lw=0
            )
    left.set(xlabel="iteration", ylabel="value", xscale="log", yscale="log")
    right.set(xlabel="iteration", ylabel="excess over the least objective", yscale="log")
    left.legend()
    return fig
