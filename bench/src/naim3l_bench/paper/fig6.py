"""Fig. 6: the metrics over lambda, of the model and of its variant without the high-rank term."""

from typing import Any

from naim3l.extend import GREY
from naim3l_bench.paper.comparison import VARIANTS
from naim3l_bench.plots import draw_series, metric_figure
from naim3l_bench.present import METRICS, Cell, ResultTable, count_seeds, mean_std, summarise
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, paper_lam

TITLE = "Fig. 6: how the metrics depend on lambda"
# The paper's grid, and two more where its own lambdas lie.
LAMS = (0.001, 0.01, 0.1, 0.2, 0.4, 1.0, 10.0, 100.0)
# Beyond this lambda all weights vanish and metrics are those of rounding errors: not drawn.
MOST_SHOWN = 10.0
VARIANT_NAMES = {"NAIM3L": "full model", "NAIM3L-II": "without the high-rank term (II)"}


def fits_at(plan: Plan, dataset: str, protocol: str, variant: str, lam: float) -> list[Task]:
    """Fits of a variant at a lambda, all else as in Table 2."""
    parameters = {"lam": lam, "variant": VARIANTS[variant]}
    return plan.fits(dataset, "NAIM3L", parameters, protocol=protocol)


def tasks(plan: Plan) -> list[Task]:
    return [
        task
        for dataset, protocol in plan.groups()
        for variant in VARIANT_NAMES
        for lam in LAMS
        for task in fits_at(plan, dataset, protocol, variant, lam)
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Summaries, ``{dataset: {protocol: {variant: {lam: {metric: spread}}}}}``."""
    results: dict[str, Any] = {}
    for dataset, protocol in plan.groups():
        for variant in VARIANT_NAMES:
            for lam in LAMS:
                records = store.find(fits_at(plan, dataset, protocol, variant, lam))
                summary = summarise(records, protocol)
                if summary is not None:
                    of_protocol = results.setdefault(dataset, {}).setdefault(protocol, {})
                    of_protocol.setdefault(variant, {})[f"{lam:g}"] = summary
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    made = []
    for dataset, of_dataset in numbers.items():
        rows = [
            [Cell(text) for text in (protocol, variant, lam)]
            + [Cell(mean_std(summary[metric])) for metric in METRICS]
            for protocol, variants in of_dataset.items()
            for variant, lams in variants.items()
            for lam, summary in lams.items()
        ]
        header = ["protocol", "variant", "lambda", *METRICS]
        counts = [
            len(summary["AP"]["values"])
            for variants in of_dataset.values()
            for lams in variants.values()
            for summary in lams.values()
        ]
        note = (
            f"Mean (standard deviation) in percent over {count_seeds(counts)}; no ridge. At lambda "
            "100 all weights vanish, so the metrics there reflect rounding errors only."
        )
        made.append(ResultTable(f"Fig. 6: {dataset}", header, rows, note))
    return made


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """A panel per metric, a curve per variant."""
    return {
        f"fig6-{dataset}-{protocol}": _draw(variants, paper_lam(dataset))
        for dataset, of_dataset in numbers.items()
        for protocol, variants in of_dataset.items()
    }


def _draw(variants: dict[str, Any], lam_of_paper: float | None) -> Any:
    def draw(ax: Any, metric: str) -> None:
        for i, (variant, lams) in enumerate(variants.items()):
            shown = {float(lam): of for lam, of in lams.items() if float(lam) <= MOST_SHOWN}
            values = [summary[metric]["values"] for summary in shown.values()]
            draw_series(ax, shown, values, index=i, label=VARIANT_NAMES[variant])
        if lam_of_paper is not None:
            ax.axvline(lam_of_paper, color=GREY, linestyle=":", label="λ of the paper")
        ax.set_xscale("log")

    return metric_figure(draw, "λ")
