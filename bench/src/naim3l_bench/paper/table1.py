"""Table 1: sizes of the datasets, and ranks and singular values of their label matrices.

The paper does not say whether its ranks are those of labels in {0, 1} or in {-1, 1}. On Corel5k
both give 259 for the training rows of every split, and for the test rows {-1, 1} gives one more
than {0, 1}: for the seeds 0 to 99, 248.5 against 247.5 on average, so that 249 can be either. The
coding of the model, {-1, 1}, is the one that is used; ranks are recorded in both.

For the rows that share a label the coding makes no difference: one of their columns is constant,
so the columns of both codings span the same space.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from naim3l_bench.challenge import split_rows
from naim3l_bench.datasets import MultiView
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
            cells = [
                f"{published['avg']:.3f}" if key == "avg" else f"{published[key]:g}"
                for key in ("n", "c", "avg", "train_rank", "test_rank")
            ]
            rows.append([Cell(""), Cell("published"), *(Cell(text, "published") for text in cells)])
    return [ResultTable("Table 1", HEADER, rows, _note(numbers))]


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


TEST_SIZE = 0.3


def label_tasks(plan: Plan, dataset: str) -> list[Task]:
    """A task for each seed of a plan."""
    shared = {"dataset": dataset, "data": plan.sources[dataset].digest}
    return [Task("labels", shared | {"seed": seed}) for seed in plan.seeds]


def compute(sources: Mapping[str, MultiView], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Outcome of a task of kind "labels", whose settings are "dataset", "data" and "seed".

    Returns
    -------
    dict
        "n", "c", "labels_per_row" of all rows; and for "train" and "test", each a dict: "rank"
        by coding, "signed" for {-1, 1} and "binary" for {0, 1}; "singular_values" of the signed
        labels, descending; "sub_ranks", one for each label that a row has, in the order of the
        labels, and their "sub_rank_mean" and "sub_rank_median".
    """
    labels = sources[settings["dataset"]].labels
    train, test = split_rows(labels, test_size=TEST_SIZE, random_state=settings["seed"])
    with threadpool_limits(1, "blas"):  # hundreds of small matrices: threads would only wait
        parts = {"train": describe(labels[train]), "test": describe(labels[test])}
    n, c = labels.shape
    return {"n": n, "c": c, "labels_per_row": float(labels.sum(axis=1).mean()), **parts}


def describe(labels: NDArray[np.integer]) -> dict[str, Any]:
    """Ranks and singular values of labels in {0, 1}, (n_samples, n_labels), and of their parts."""
    signed = np.linalg.svd(2.0 * labels - 1, compute_uv=False)
    parts = sub_ranks(labels)
    return {
        "rank": {"signed": _count_nonzero(signed, labels.shape), "binary": rank(labels)},
        "singular_values": [float(f"{value:.6g}") for value in signed],
        "sub_ranks": parts,
        "sub_rank_mean": float(np.mean(parts)) if parts else 0.0,
        "sub_rank_median": float(np.median(parts)) if parts else 0.0,
    }


def sub_ranks(labels: NDArray[np.integer]) -> list[int]:
    """Ranks of the labels of the rows that have label k, for each label k that some row has."""
    positive = labels > 0
    return [rank(labels[rows]) for rows in positive.T if rows.any()]


def rank(labels: NDArray[np.integer]) -> int:
    """Rank of labels in {0, 1}; empty columns and repeated rows are left out, as they add none."""
    distinct = np.unique(labels[:, labels.any(axis=0)].astype(np.int8), axis=0)
    if distinct.size == 0:
        return 0
    values = np.linalg.svd(distinct.astype(np.float64), compute_uv=False)
    return _count_nonzero(values, distinct.shape)


def _count_nonzero(singular_values: NDArray[np.floating], shape: tuple[int, ...]) -> int:
    """Singular values above rounding error, by the rule of ``numpy.linalg.matrix_rank``."""
    rounding = singular_values.max() * max(shape) * np.finfo(np.float64).eps
    return int((singular_values > rounding).sum())
