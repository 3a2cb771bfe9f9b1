"""Fig. 5: metrics as more and more of the views, or of the labels, are missing."""

from functools import partial
from typing import Any

from naim3l.extend import GREY
from naim3l_bench.paper.comparison import variant_fits
from naim3l_bench.plots import draw_series, metric_figure
from naim3l_bench.present import METRICS, Cell, ResultTable, count_seeds, mean_std, summarise
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task

TITLE = "Fig. 5: from 10 to 90 % of the views or of the labels missing"
RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)
# Label of each point, and its ratios of missing views and labels.
SETTINGS: dict[str, tuple[float, float]] = {"full": (0.0, 0.0)}
SETTINGS |= {f"alpha {ratio:g}": (ratio, 0.5) for ratio in RATIOS}
SETTINGS |= {f"beta {ratio:g}": (0.5, ratio) for ratio in RATIOS}
CURVES = {"alpha": "views missing (α), β = 0.5", "beta": "labels missing (β), α = 0.5"}


def _fits(plan: Plan, dataset: str, protocol: str, setting: str) -> list[Task]:
    alpha, beta = SETTINGS[setting]
    return variant_fits(plan, dataset, protocol=protocol, alpha=alpha, beta=beta)


def tasks(plan: Plan) -> list[Task]:
    return [
        task
        for dataset, protocol in plan.groups()
        for setting in SETTINGS
        for task in _fits(plan, dataset, protocol, setting)
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Summaries, ``{dataset: {protocol: {setting: {metric: spread}}}}``, or why there is none."""
    results: dict[str, Any] = {}
    for dataset, protocol in plan.groups():
        make = partial(_fits, plan, dataset, protocol)
        of_protocol: dict[str, Any] = {}
        for setting in SETTINGS:
            records = [store.get(task) for task in make(setting)]
            done = [record for record in records if record is not None]
            summary = summarise([r for r in done if "impossible" not in r], protocol)
            reasons = [record["impossible"] for record in done if "impossible" in record]
            if summary is not None:
                of_protocol[setting] = summary
            elif reasons:
                of_protocol[setting] = {"impossible": reasons[0]}
        if of_protocol:
            results.setdefault(dataset, {})[protocol] = of_protocol
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    made = []
    for dataset, of_dataset in numbers.items():
        rows, reasons, counts = [], set(), []
        for protocol, settings in of_dataset.items():
            for setting, summary in settings.items():
                if "impossible" in summary:
                    reasons.add(summary["impossible"])
                else:
                    counts.append(len(summary["AP"]["values"]))
                shown = [mean_std(summary.get(metric)) for metric in METRICS]
                rows.append([Cell(text) for text in (protocol, setting, *shown)])
        note = (
            "alpha: share of missing rows in each view, at beta 0.5; beta: share of hidden labels, "
            "at alpha 0.5; full: nothing missing. Mean (standard deviation) in percent over "
            f"{count_seeds(counts)}. With two views alpha 0.49 is used instead of 0.5."
        )
        note += "".join(f" Not possible: {reason}" for reason in sorted(reasons))
        made.append(
            ResultTable(f"Fig. 5: {dataset}", ["protocol", "missing", *METRICS], rows, note)
        )
    return made


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """A panel per metric; one curve over the share of missing views, one over that of labels."""
    return {
        f"fig5-{dataset}-{protocol}": _draw(settings)
        for dataset, of_dataset in numbers.items()
        for protocol, settings in of_dataset.items()
    }


def _draw(settings: dict[str, Any]) -> Any:
    def draw(ax: Any, metric: str) -> None:
        for i, (name, text) in enumerate(CURVES.items()):
            points = {ratio: settings.get(f"{name} {ratio:g}", {}) for ratio in RATIOS}
            known = {
                ratio: summary[metric] for ratio, summary in points.items() if metric in summary
            }
            x = [100 * ratio for ratio in known]
            draw_series(ax, x, [v["values"] for v in known.values()], index=i, label=text)
        if metric in settings.get("full", {}):
            full = settings["full"][metric]["mean"]
            ax.axhline(full, color=GREY, linestyle=":", label="nothing missing")
        ax.set_xticks([100 * ratio for ratio in RATIOS])

    return metric_figure(draw, "share missing (%)")
