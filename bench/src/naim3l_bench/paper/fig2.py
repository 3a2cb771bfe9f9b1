"""Fig. 2: the labels of all rows have high rank, those of rows that share a label low rank."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import COLOURS, GREY, new_figure, styled
from naim3l_bench.paper.published import FIG2
from naim3l_bench.paper.table1 import label_tasks
from naim3l_bench.present import Cell, ResultTable, show_range, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, paper_name

TITLE = "Fig. 2: ranks of the label matrix and of its parts"
PARTS = {"train": "training rows", "test": "test rows"}
# Singular values below this share of the largest are rounding errors of zero.
NOISE = 1e-9
NOTE = (
    "Labels in {-1, 1}, all known. Part k holds the rows with label k; labels without rows "
    "are left out. Mean (smallest–largest) over the seeds; in the figure, the median over the "
    "seeds with a band from the smallest to the largest."
)
PAPER_NOTE = " The paper does not say for which rows and labels it computed the ranks of parts."


def tasks(plan: Plan) -> list[Task]:
    return [task for dataset in plan.sources for task in label_tasks(plan, dataset)]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """By dataset and part: rank, mean and median of the parts' ranks, and the curves.

    A curve is a dict of "low", "middle" and "high", lists over the seeds' sorted values.
    """
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        records = store.find(label_tasks(plan, dataset))
        if records:
            results[dataset] = {
                part: _summarise([record[part] for record in records]) for part in PARTS
            }
    return results


def _summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rank": spread([record["rank"]["signed"] for record in records]),
        "sub_rank_mean": spread([record["sub_rank_mean"] for record in records]),
        "sub_rank_median": spread([record["sub_rank_median"] for record in records]),
        "singular_values": _curve([_denoised(record["singular_values"]) for record in records]),
        "sub_ranks": _curve([sorted(record["sub_ranks"], reverse=True) for record in records]),
    }


def _denoised(values: list[float]) -> list[float]:
    return [value if value > NOISE * values[0] else 0.0 for value in values]


def _curve(rows: list[list[float]]) -> dict[str, list[float]]:
    """Smallest, median and largest value at each place; short rows end in zeros."""
    table = np.zeros((len(rows), max(len(row) for row in rows)))
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return {
        "low": table.min(axis=0).tolist(),
        "middle": np.median(table, axis=0).tolist(),
        "high": table.max(axis=0).tolist(),
    }


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    made = []
    for dataset, parts in numbers.items():
        in_paper = paper_name(dataset) == FIG2["dataset"]
        header = ["", *PARTS.values(), *(["published"] if in_paper else [])]
        published = {
            "rank": f"{FIG2['train_rank']} and {FIG2['test_rank']}",
            "sub_rank_mean": f"about {FIG2['sub_rank_mean']}",
            "sub_rank_median": f"about {FIG2['sub_rank_median']}",
        }
        names = {
            "rank": "rank of all labels",
            "sub_rank_mean": "rank of a part, mean over labels",
            "sub_rank_median": "rank of a part, median over labels",
        }
        rows = []
        for key, name in names.items():
            row = [Cell(name), *(Cell(show_range_of_means(parts[part][key])) for part in PARTS)]
            rows.append([*row, Cell(published[key], "published")] if in_paper else row)
        made.append(ResultTable(f"Fig. 2: {dataset}", header, rows, NOTE + PAPER_NOTE * in_paper))
    return made


def show_range_of_means(values: dict[str, Any]) -> str:
    """As `show_range`, with one decimal for values that are not whole."""
    rounded = [round(value, 1) for value in values["values"]]
    return show_range({"mean": values["mean"], "values": rounded})


@styled
def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """Per dataset: (a) the singular values of the labels, (b) the sorted ranks of the parts."""
    made = {}
    for dataset, parts in numbers.items():
        fig, (left, right) = new_figure(2, 1, 2.3)
        _draw_spectrum(left, parts)
        _draw_parts(right, parts["train"])
        made[f"fig2-{dataset}"] = fig
    return made


def _draw_spectrum(ax: Any, parts: dict[str, Any]) -> None:
    smallest = []
    for (part, name), colour, line in zip(PARTS.items(), COLOURS, ("-", "--"), strict=False):
        curve = {key: np.array(values) for key, values in parts[part]["singular_values"].items()}
        smallest.append(curve["high"][curve["high"] > 0].min())
        place = np.arange(1, len(curve["middle"]) + 1)
        label = f"{name}, rank {show_range(parts[part]['rank'])}"
        ax.plot(place, _positive(curve["middle"]), line, color=colour, label=label)
        ax.fill_between(
            *(place, np.maximum(curve["low"], 1e-3 * smallest[-1]), curve["high"]),
            where=curve["high"] > 0,
            color=colour,
            alpha=0.25,
            linewidth=0,
        )
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.5 * min(smallest))
    ax.set(title="(a) all rows", xlabel="number of the singular value", ylabel="singular value")
    ax.legend(loc="upper right")


def _positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Zeros as NaN, which a logarithmic axis leaves out."""
    return np.where(values > 0, values, np.nan)


def _draw_parts(ax: Any, part: dict[str, Any]) -> None:
    curve = part["sub_ranks"]
    place = np.arange(1, len(curve["middle"]) + 1)
    ax.fill_between(place, curve["low"], curve["high"], color=COLOURS[0], alpha=0.25, linewidth=0)
    ax.plot(place, curve["middle"], color=COLOURS[0], label="rank")
    for key, name, line in (("mean", "mean", "--"), ("median", "median", ":")):
        value = part[f"sub_rank_{key}"]["mean"]
        colour = COLOURS[1] if key == "mean" else GREY
        ax.axhline(value, color=colour, linestyle=line, label=f"{name} {value:.1f}")
    ax.set(
        title="(b) training rows that share a label",
        xlabel="label, by descending rank",
        ylabel="rank of their labels",
    )
    ax.set_ylim(bottom=0)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="best")
