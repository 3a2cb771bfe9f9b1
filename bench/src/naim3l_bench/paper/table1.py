"""Table 1: sizes of the datasets and ranks of their label matrices."""

from typing import Any

from naim3l_bench.label_ranks import label_tasks
from naim3l_bench.paper.published import TABLE1
from naim3l_bench.present import Cell, ResultTable, show_range, spread
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, paper_name

TITLE = "Table 1: the datasets and the ranks of their labels"
HEADER = ["dataset", "", "n", "c", "labels per row", "rank, training rows", "rank, test rows"]
NOTE = (
    "Ranks of the labels in {{-1, 1}}: mean (smallest–largest) over {seeds} random splits into "
    "70 % and 30 %. The paper does not say for which split and coding it computed the ranks; "
    "with labels in {{0, 1}} the ranks of training and test rows are: {binary}."
)


def tasks(plan: Plan) -> list[Task]:
    return [task for dataset in plan.sources for task in label_tasks(plan, dataset)]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Sizes and ranks, ``{dataset: {"n", "c", "avg", "ranks": {part: {coding: spread}}}}``."""
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        records = store.find(label_tasks(plan, dataset))
        if records:
            first = records[0]
            results[dataset] = {
                "n": first["n"],
                "c": first["c"],
                "avg": first["labels_per_row"],
                "ranks": {
                    part: {
                        coding: spread([record[part]["rank"][coding] for record in records])
                        for coding in ("signed", "binary")
                    }
                    for part in ("train", "test")
                },
            }
    return results


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    if not numbers:
        return []
    rows = []
    for dataset, ours in numbers.items():
        published = TABLE1.get(paper_name(dataset))
        rows.append(_our_row(dataset, ours, published))
        if published is not None:
            cells = [f"{published['avg']:.3f}" if key == "avg" else f"{published[key]:g}"
                     for key in ("n", "c", "avg", "train_rank", "test_rank")]  # fmt: skip
            rows.append([Cell(""), Cell("published"), *(Cell(text, "published") for text in cells)])
    return [ResultTable("Table 1", HEADER, rows, _note(numbers))]


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    return {}


def _our_row(dataset: str, ours: dict[str, Any], published: dict[str, Any] | None) -> list[Cell]:
    """Marked by whether the published value is equal, or for ranks in the range of ours."""
    train, test = (ours["ranks"][part]["signed"] for part in ("train", "test"))
    cells = {
        "n": (str(ours["n"]), [ours["n"]]),
        "c": (str(ours["c"]), [ours["c"]]),
        "avg": (f"{ours['avg']:.3f}", [round(ours["avg"], 3)]),
        "train_rank": (show_range(train), train["values"]),
        "test_rank": (show_range(test), test["values"]),
    }
    row = [Cell(dataset), Cell("ours")]
    for key, (text, values) in cells.items():
        mark = ""
        if published is not None:
            mark = "within" if min(values) <= published[key] <= max(values) else "outside"
        row.append(Cell(text, mark))
    return row


def _note(numbers: dict[str, Any]) -> str:
    counts = {len(ours["ranks"]["test"]["signed"]["values"]) for ours in numbers.values()}
    binary = "; ".join(
        f"{dataset} {show_range(ours['ranks']['train']['binary'])} and "
        f"{show_range(ours['ranks']['test']['binary'])}"
        for dataset, ours in numbers.items()
    )
    seeds = "–".join(str(count) for count in sorted({min(counts), max(counts)}))
    return NOTE.format(seeds=seeds, binary=binary)
