"""Table 5 and Fig. 3: ranks and trace norms of the predicted label matrices."""

from typing import Any

import numpy as np

from naim3l.extend import COLOURS, MARKERS, new_figure, styled
from naim3l_bench.paper.comparison import VARIANTS, variant_fits
from naim3l_bench.paper.published import TABLE5
from naim3l_bench.plots import COLUMN_WIDTH
from naim3l_bench.present import Cell, ResultTable, count_seeds, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, paper_name

TITLE = "Table 5 and Fig. 3: ranks and trace norms of predictions"
FULL = "NAIM3L"
NORMS = {
    "trace_norm": "all test rows",
    "label_trace_norm_mean": "rows sharing a label, mean",
    "label_trace_norm_median": "rows sharing a label, median",
}


def tasks(plan: Plan) -> list[Task]:
    return [task for *_, fits in _groups(plan) for task in fits]


def _groups(plan: Plan) -> list[tuple[str, str, str, list[Task]]]:
    """Dataset, protocol, variant and fits; fused scores come from the fits of protocol clean."""
    return [
        (dataset, protocol, variant, variant_fits(plan, dataset, variant, protocol=protocol))
        for dataset, protocol in plan.groups()
        for variant in VARIANTS
        if protocol != "fused"
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for dataset, protocol, variant, fits in _groups(plan):
        spectra = [record["spectrum"] for record in store.find(fits)]
        if spectra:
            blank = {"n_labels": plan.sources[dataset].n_labels, "protocols": {}}
            of_protocol = results.setdefault(dataset, blank)["protocols"].setdefault(protocol, {})
            of_protocol[variant] = {
                name: spread([spectrum[name] for spectrum in spectra]) for name in spectra[0]
            }
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    header = ["dataset", "protocol", "variant", "labels", "rank, published", "rank, ours"]
    header += NORMS.values()
    rows, counts = [], []
    for dataset, of_dataset in numbers.items():
        for protocol, variants in of_dataset["protocols"].items():
            for variant, values in variants.items():
                known = variant == FULL and dataset == paper_name(dataset)
                published = TABLE5.get(dataset) if known else None
                texts = [dataset, protocol, variant, str(of_dataset["n_labels"])]
                rows.append([*(Cell(text) for text in texts), *_cells(values, published)])
                counts.append(len(values["rank"]["values"]))
    note = (
        "Scores of the test rows of all views, stacked; trace norms as mean (standard deviation) "
        f"over {count_seeds(counts)}. The rank counts singular values above rounding error. "
        "It is at most the number of labels and the number of weights, which is 51 per view."
    )
    return [ResultTable("Table 5 and Fig. 3", header, rows, note)]


def _cells(values: dict[str, Any], published: int | None) -> list[Cell]:
    """Published rank, our rank and our trace norms."""
    ranks = values["rank"]["values"]
    ours = f"{min(ranks)}" if min(ranks) == max(ranks) else f"{min(ranks)}–{max(ranks)}"
    mark = ""
    if published is not None:
        mark = "within" if min(ranks) <= published <= max(ranks) else "outside"
    norms = [Cell(f"{values[n]['mean']:.1f} ({values[n]['std']:.1f})") for n in NORMS]
    return [
        Cell("–" if published is None else str(published), "published"),
        Cell(ours, mark),
        *norms,
    ]


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """The three trace norms of each dataset, on a logarithmic axis."""
    shown = {
        dataset: next(iter(of_dataset["protocols"].values()))[FULL]
        for dataset, of_dataset in numbers.items()
        if FULL in next(iter(of_dataset["protocols"].values()))
    }
    return {"fig3": _draw(shown)} if shown else {}


def _range(value: dict[str, Any]) -> tuple[float, float]:
    """How far the least and the greatest value lie from the mean; no less than 0 remains."""
    return value["mean"] - min(value["values"]), max(value["values"]) - value["mean"]


@styled
def _draw(shown: dict[str, Any]) -> Any:
    fig, (ax,) = new_figure(width=COLUMN_WIDTH * (2 if len(shown) > 3 else 1))
    for i, (name, text) in enumerate(NORMS.items()):
        x = [position + (i - 1) * 0.15 for position in range(len(shown))]
        ax.errorbar(
            x,
            [values[name]["mean"] for values in shown.values()],
            np.transpose([_range(values[name]) for values in shown.values()]),
            color=COLOURS[i],
            marker=MARKERS[i],
            linestyle="none",
            label=text,
        )
    ax.set_yscale("log")
    ax.set_xlim(-0.5, len(shown) - 0.5)
    ax.set_xticks(range(len(shown)), list(shown))
    ax.set(xlabel="dataset", ylabel="trace norm (mean, range of seeds)")
    fig.legend(loc="outside upper center", ncols=1 if len(shown) < 4 else 3)
    return fig
