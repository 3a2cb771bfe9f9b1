"""Beyond the paper: AP against 1-RL of kernel models, with the regulariser and without.

One parameter moves a model along a curve: ridge regression gains 1-RL and loses AP as its ridge
grows. Tuned models are one point each of such curves; here the curves themselves are compared, so
that a gain cannot be a point further along the same curve.
"""

from collections.abc import Sequence
from typing import Any

from naim3l.extend import COLOURS, MARKERS, new_figure, styled
from naim3l_bench.beyond.accuracy import ALONE, SEARCH, kernel_of
from naim3l_bench.present import Cell, ResultTable, count_seeds, mean_std, spread, summarise_scoring
from naim3l_bench.records import Store
from naim3l_bench.tasks import FEW_SEEDS, Grids, Plan, Task

TITLE = "Frontier: AP against 1-RL, with the regulariser and without"

ALONE_NAME = "ridge, kernel"
# Scores as they are, per view; probabilities per view; and these fused by evidence.
SCORINGS = {
    "per view": "scores per view",
    "calibrated": "probabilities per view",
    "evidence": "fused, half hidden",
}


def curves(dataset: str, grids: Grids) -> dict[str, dict[str, dict[str, Any]]]:
    """Parameters of every fit, ``{curve: {point: parameters}}``."""
    shared = {"search_gamma": False, **SEARCH, **kernel_of(dataset, grids)}
    found = {
        f"NAIM3L, kernel, ridge {ridge:g}": {
            f"lam {lam:g}": {"lams": [lam], "ridges": [ridge], **shared}
            for lam in grids.lams_with_ridge
        }
        for ridge in grids.frontier_ridges
    }
    found[ALONE_NAME] = {
        f"ridge {ridge:g}": {"ridges": [ridge], **ALONE, **shared} for ridge in grids.ridges_alone
    }
    return found


def _fits(plan: Plan, dataset: str, parameters: dict[str, Any]) -> list[Task]:
    return plan.at_most(FEW_SEEDS).fits(
        dataset, "model, tuned", parameters, protocol="clean", features="raw"
    )


def tasks(plan: Plan) -> list[Task]:
    return [
        task
        for dataset in plan.sources
        for points in curves(dataset, plan.grids).values()
        for parameters in points.values()
        for task in _fits(plan, dataset, parameters)
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """``{dataset: {curve: {point: {scoring: {metric: spread} or None, "seconds": spread}}}}``."""
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        for curve, points in curves(dataset, plan.grids).items():
            for point, parameters in points.items():
                records = store.find(_fits(plan, dataset, parameters))
                if records:
                    summary: dict[str, Any] = {"seconds": spread([r["seconds"] for r in records])}
                    summary |= {
                        scoring: summarise_scoring(records, scoring) for scoring in SCORINGS
                    }
                    results.setdefault(dataset, {}).setdefault(curve, {})[point] = summary
    return results


Pairs = Sequence[tuple[float, float]]


def gain_at_equal(pair: tuple[float, float], others: Pairs) -> float | None:
    """How much more the best of the pairs with no less of the first has of the second.

    None where no pair has as much of the first. Nothing is interpolated: each pair is of a
    model that was fitted.
    """
    first, second = pair
    found = [other[1] - second for other in others if other[0] >= first]
    return max(found, default=None)


def best_pairs(pairs: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The pairs than which no other is better in one and no worse in the other."""
    return {
        name: pair
        for name, pair in pairs.items()
        if not any(
            other != pair and other[0] >= pair[0] and other[1] >= pair[1]
            for other in pairs.values()
        )
    }


def _means(points: dict[str, Any], scoring: str) -> dict[str, tuple[float, float]]:
    found = {point: values[scoring] for point, values in points.items() if values[scoring]}
    return {point: (of["1-RL"]["mean"], of["AP"]["mean"]) for point, of in found.items()}


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    found = [
        table
        for dataset, by_curve in numbers.items()
        for table in (_points_table(dataset, by_curve), _gains_table(dataset, by_curve))
    ]
    return found or [ResultTable(TITLE, ["curve"])]


def _points_table(dataset: str, by_curve: dict[str, Any]) -> ResultTable:
    header = ["model", "point", *(f"{s}: {m}" for s in SCORINGS.values() for m in ("1-RL", "AP"))]
    rows, counts = [], []
    for curve, points in by_curve.items():
        for point, values in points.items():
            summaries = [values[scoring] for scoring in SCORINGS]
            texts = [mean_std(s and s[m]) for s in summaries for m in ("1-RL", "AP")]
            rows.append([Cell(text) for text in (curve, point, *texts)])
            counts.append(len(values["seconds"]["values"]))
    note = f"Mean (population standard deviation) in percent over {count_seeds(counts)}."
    return ResultTable(f"Frontier: {dataset}", header, rows, note)


def _gains_table(dataset: str, by_curve: dict[str, Any]) -> ResultTable:
    header = ["scores", "ridge alone", "AP at no less 1-RL", "1-RL at no less AP"]
    rows = []
    for scoring, name in SCORINGS.items():
        ours = [
            pair
            for curve, points in by_curve.items()
            if curve != ALONE_NAME
            for pair in _means(points, scoring).values()
        ]
        for point, pair in best_pairs(_means(by_curve.get(ALONE_NAME, {}), scoring)).items():
            at_loss = gain_at_equal(pair, ours)
            at_precision = gain_at_equal(pair[::-1], [other[::-1] for other in ours])
            texts = [
                f"{gain:+.2f}" if gain is not None else "–" for gain in (at_loss, at_precision)
            ]
            rows.append([Cell(text) for text in (name, point, *texts)])
    note = (
        "Among the NAIM3L models above that are no worse in one metric, the largest gain in the "
        "other, in points of the means; a dash where no model is as good in the first. Ridges that "
        "another ridge beats in both metrics are left out."
    )
    return ResultTable(f"Gains over kernel ridge: {dataset}", header, rows, note)


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """A panel per scoring, a curve per model."""
    return {
        f"frontier-{dataset}": _draw(by_curve)
        for dataset, by_curve in numbers.items()
        if all(_means(points, scoring) for points in by_curve.values() for scoring in SCORINGS)
    }


@styled
def _draw(by_curve: dict[str, Any]) -> Any:
    fig, axes = new_figure(len(SCORINGS), width=2.6)
    for ax, (scoring, name) in zip(axes, SCORINGS.items(), strict=True):
        for i, (curve, points) in enumerate(by_curve.items()):
            x, y = zip(*_means(points, scoring).values(), strict=True)
            ax.plot(x, y, color=COLOURS[i], marker=MARKERS[i], label=curve)
        ax.set(xlabel="1-RL (%)", ylabel="AP (%)", title=name)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return fig
