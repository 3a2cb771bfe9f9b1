"""Tables 2, 3, 4 and 6, and baselines: metrics of the model and its variants, beside the paper's.

Numbers of such a table are ``{dataset: {protocol: {method: {metric: spread}}}}`` in percent.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from naim3l_bench.paper.published import TABLE2, TABLE3, TABLE4, TABLE6
from naim3l_bench.present import (
    METRICS,
    Cell,
    ResultTable,
    compare,
    count_seeds,
    mean_std,
    summarise,
)
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task, paper_lam, paper_name, usual_lam

Numbers = dict[str, dict[str, dict[str, Any]]]
Published = Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]]
Fits = Callable[..., list[Task]]

# Variants of the model by the names of the paper's ablation.
VARIANTS = {"NAIM3L-I": "loss", "NAIM3L-II": "low-rank", "NAIM3L": "full"}


def variant_fits(plan: Plan, dataset: str, variant: str = "NAIM3L", **options: Any) -> list[Task]:
    """Fits of a variant, at the paper's lambda or, on other data, at one chosen by NAIM3LCV."""
    named = {"variant": VARIANTS[variant]}
    lam = 1.0 if named["variant"] == "loss" else paper_lam(dataset)  # where it has no effect
    if lam is None:
        tuned = {"lams": plan.grids.lams, "ridges": [0.0], **named}
        return plan.fits(dataset, "NAIM3L, tuned", tuned, **options)
    return plan.fits(dataset, "NAIM3L", {"lam": lam, **named}, **options)


class MetricTable:
    """An item of metrics by dataset, protocol and method.

    Parameters
    ----------
    title : str
        Its name, such as "Table 2", and after a colon what it shows.
    published : mapping {dataset: {method: {metric: (mean, std)}}}
    fits : mapping of method to function of plan, dataset and protocol that gives its tasks
    """

    def __init__(self, title: str, published: Published, fits: Mapping[str, Fits]):
        self.TITLE, self.published, self.fits = title, published, fits

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            task
            for dataset, protocol in plan.groups()
            for make in self.fits.values()
            for task in make(plan, dataset, protocol=protocol)
        ]

    def numbers(self, plan: Plan, store: Store) -> Numbers:
        results: Numbers = {}
        for dataset, protocol in plan.groups():
            for method, make in self.fits.items():
                records = store.find(make(plan, dataset, protocol=protocol))
                summary = summarise(records, protocol)
                if summary is not None:
                    results.setdefault(dataset, {}).setdefault(protocol, {})[method] = summary
        return results

    def tables(self, numbers: Numbers) -> list[ResultTable]:
        return comparison_tables(self.TITLE.partition(":")[0], numbers, self.published)


def comparison_tables(title: str, numbers: Numbers, published: Published) -> list[ResultTable]:
    """A table per dataset: published columns, ours, and by how much ours differ."""
    return [
        ResultTable(
            f"{title}: {dataset}",
            _header(by_protocol, published.get(paper_name(dataset), {})),
            list(_rows(dataset, by_protocol, published.get(paper_name(dataset), {}))),
            _note(dataset, by_protocol, paper_name(dataset) in published),
        )
        for dataset, by_protocol in numbers.items()
    ]


def _methods(by_protocol: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(method for methods in by_protocol.values() for method in methods))


def _header(by_protocol: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    header = ["protocol", "metric", *(f"{method}, published" for method in published)]
    for method in _methods(by_protocol):
        header += [f"{method}, ours"] + (["difference"] if method in published else [])
    return header


def _rows(
    dataset: str, by_protocol: Mapping[str, Any], published: Mapping[str, Any]
) -> Iterator[list[Cell]]:
    for protocol, methods in by_protocol.items():
        for metric in METRICS:
            row = [Cell(protocol), Cell(metric)]
            row += [_published(values[metric], protocol) for values in published.values()]
            for method in _methods(by_protocol):
                ours = methods.get(method, {}).get(metric)
                row.append(Cell(mean_std(ours)))
                if method in published:
                    # Only what was made in the paper's way, with all its views, can agree with it.
                    marked = protocol == "paper" and dataset == paper_name(dataset)
                    row.append(_difference(ours, published[method][metric], protocol, marked))
            yield row


def _published(value: tuple[float, float], protocol: str) -> Cell:
    # The paper's figures are per view: not what fused scores are to be held against.
    return Cell("–" if protocol == "fused" else mean_std(value), "published")


def _difference(ours: Any, published: tuple[float, float], protocol: str, marked: bool) -> Cell:
    if ours is None or protocol == "fused":
        return Cell("–")
    return compare(ours, published, marked=marked)


def _note(dataset: str, by_protocol: Mapping[str, Any], in_paper: bool) -> str:
    counts = [
        len(summary["AP"]["values"])
        for methods in by_protocol.values()
        for summary in methods.values()
    ]
    note = f"Mean (population standard deviation) in percent over {count_seeds(counts)}."
    if in_paper:
        note += (
            " Columns marked published are the paper's own numbers, not computed here. sd: "
            "the larger of the two standard deviations. Protocol fused is not comparable with the "
            "paper."
        )
    if dataset != paper_name(dataset):
        note += " Our data have fewer views than the paper's."
    return note


METRIC_TABLES = {
    "table2": MetricTable(
        "Table 2: half of the views and half of the labels missing, rows not aligned",
        TABLE2,
        {"NAIM3L": variant_fits},
    ),
    "table3": MetricTable(
        "Table 3: half of the views missing, labels complete, rows aligned",
        TABLE3,
        {"NAIM3L-V": partial(variant_fits, beta=0.0, aligned=True)},
    ),
    "table4": MetricTable(
        "Table 4: half of the labels missing, views complete, rows aligned",
        TABLE4,
        {"NAIM3L-L": partial(variant_fits, alpha=0.0, aligned=True)},
    ),
    "table6": MetricTable(
        "Table 6: what the two terms of the regulariser add",
        TABLE6,
        {name: partial(variant_fits, variant=name) for name in VARIANTS},
    ),
}


# Those of the paper: the penalty of ADMM, and eigenvalues that count as zero.
MU, CUTOFF = 5.0, 0.005


def trace_fits(
    plan: Plan,
    dataset: str,
    protocol: str,
    variant: str = "NAIM3L",
    *,
    lam: float | None = None,
    mu: float = MU,
    cutoff: float | None = CUTOFF,
) -> list[Task]:
    """Runs of Algorithm 1, by default with the paper's lambda, mu and cut-off."""
    if lam is None:
        lam = usual_lam(dataset)
    parameters: dict[str, Any] = {
        "lam": lam,
        "mu": mu,
        "max_iter": plan.grids.checkpoints[-1],
        "tol": 0.0,
        "eigenvalue_cutoff": cutoff,
        "at": plan.grids.checkpoints,
        "variant": VARIANTS[variant],
    }
    return plan.fits(dataset, "Algorithm 1", parameters, protocol=protocol)


RIDGES = [0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0]
TUNED = {"lams": [0.1, 0.2, 0.4, 0.8, 1.6], "ridges": [0.3, 3.0, 10.0]}


def _tuned_ridge(plan: Plan, dataset: str, **options: Any) -> list[Task]:
    return plan.fits(dataset, "ridge, tuned", {"ridges": RIDGES, "cv": 3}, **options)


def _tuned_naim3l(plan: Plan, dataset: str, **options: Any) -> list[Task]:
    return plan.fits(dataset, "NAIM3L, tuned", TUNED, **options)


BESIDE = MetricTable(
    "Baselines: per-view ridge, and NAIM3L with a ridge, tuned on the same folds",
    {},
    {
        "NAIM3L": variant_fits,
        "NAIM3L with ridge, tuned": _tuned_naim3l,
        "ridge, tuned": _tuned_ridge,
    },
)
