"""Tables 2 to 4 with all methods fitted by us, and what the paper does not have beside them.

Every method gets the same splits, missing views and labels, and features, and chooses among as many
candidates in the same way. Methods that need aligned rows know which rows are one sample.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from naim3l_bench.beyond.method_tables import RANKED, draw_ranks, make_tables
from naim3l_bench.nemenyi import nemenyi
from naim3l_bench.present import METRICS, ResultTable, spread
from naim3l_bench.records import Record, Store
from naim3l_bench.rivals import GUESSING, RIVALS, method_name
from naim3l_bench.tasks import FEW_SEEDS, Plan, Task, paper_lam

TITLE = "Comparison of all methods on the same splits"

# Shares of missing views and labels by table of the paper. The methods of Tables 3 and 4 are those
# that the paper has there, and the tuned model.
CHALLENGES: dict[str, dict[str, Any]] = {
    "Table 2": {}, "Table 3": {"beta": 0.0}, "Table 4": {"alpha": 0.0},
}  # fmt: skip
ONLY = {
    "Table 3": ("NAIM3L", "NAIM3L-tuned", "IMVWL"),
    "Table 4": ("NAIM3L", "NAIM3L-tuned", "IMVWL"),
}
MEASURED = (*METRICS, "macro-AUC")
SCORINGS = ("per view", "all views", "fused")


def candidates(plan: Plan, dataset: str, rival: str) -> list[dict[str, Any]]:
    """What a method chooses from; NAIM3L has the paper's lambda where there is one."""
    lam = paper_lam(dataset)
    if rival == "NAIM3L" and lam is not None:
        return [{"lam": lam, "ridge": 0.0}]
    grid = plan.grids.rivals[rival]
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _methods(plan: Plan, table: str) -> list[str]:
    """Names of the methods of a table; guessing is always the first."""
    chosen = [name for name in RIVALS if not plan.methods or name in plan.methods]
    return [GUESSING, *(name for name in chosen if name in ONLY.get(table, chosen))]


def _fits(plan: Plan, dataset: str, protocol: str, table: str, method: str) -> list[Task]:
    parameters = {} if method == GUESSING else {"candidates": candidates(plan, dataset, method)}
    return plan.fits(
        dataset, method_name(method), parameters, protocol=protocol, **CHALLENGES[table]
    )


def _groups(plan: Plan) -> Iterator[tuple[str, str, str, str]]:
    """Dataset, protocol, table and method of all fits.

    Protocol fused differs from clean only in what is measured, which the tables have anyway.
    """
    protocols = dict.fromkeys("clean" if name == "fused" else name for name in plan.protocols)
    for dataset, protocol, table in product(plan.sources, protocols, CHALLENGES):
        for method in _methods(plan, table):
            yield dataset, protocol, table, method


def tasks(plan: Plan) -> list[Task]:
    return [task for group in _groups(plan) for task in _fits(plan, *group)]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """Summaries of all fits, and the tests of their ranks.

    ``{"methods": {protocol: {dataset: {table: {method: summary}}}}, "ranks": {protocol: {table:
    test}}}``. A summary is that of `_summarise`.
    """
    found: dict[str, Any] = {}
    for dataset, protocol, table, method in _groups(plan):
        done = [store.get(task) for task in _fits(plan, dataset, protocol, table, method)]
        records = [record for record in done if record is not None]
        if records:
            by_table = found.setdefault(protocol, {}).setdefault(dataset, {})
            by_table.setdefault(table, {})[method] = _summarise(records)
    ranks = {protocol: rank_methods(by_dataset) for protocol, by_dataset in found.items()}
    return {"methods": found, "ranks": ranks}


def _summarise(records: Sequence[Record]) -> dict[str, Any]:
    """Spreads in percent by way of scoring and metric, and how the fits went.

    "alpha" and "beta" are the shares of missing views and labels; "fit_seconds" and
    "choice_seconds" are medians; "chosen" counts the choices, most frequent first; "failed" has
    the reasons.
    """
    settings = records[0]["settings"]
    done = [record for record in records if "impossible" not in record]
    told = [record["numbers"] for record in done if record["numbers"]]
    chosen = Counter(_shown_parameters(of["chosen"]) for of in told)
    summary: dict[str, Any] = {
        "alpha": settings["alpha"],
        "beta": settings["beta"],
        "n_fits": len(done),
        "failed": [record["impossible"] for record in records if "impossible" in record],
        "not_converged": sum(not of["converged"] for of in told),
        "chosen": dict(chosen.most_common()),
        "candidates": len(settings["parameters"].get("candidates", [])),
    }
    for name in ("fit_seconds", "choice_seconds"):
        summary[name] = float(np.median([of[name] for of in told])) if told else None
    for scoring in SCORINGS:
        summary[scoring] = _spreads(done, scoring)
    return summary


def _spreads(records: Sequence[Record], scoring: str) -> dict[str, Any] | None:
    """Spreads by metric, and the "seeds" of their values; None where nothing was scored so."""
    kept = {
        record["settings"]["seed"]: metrics
        for record in records
        if (metrics := record["metrics"].get(scoring))
    }
    if not kept:
        return None
    by_metric = {name: spread([100 * of[name] for of in kept.values()]) for name in MEASURED}
    return {"seeds": list(kept), **by_metric}


def _shown_parameters(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in parameters.items())


def rank_methods(by_dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Nemenyi tests of the tables, with the four metrics of every dataset as blocks.

    All methods are ranked by means over the same seeds, whose numbers are under "seeds" by
    dataset. Methods that `_rankable` leaves out on a dataset are named under "left_out".
    """
    summaries = {name: by_table.get("Table 2", {}) for name, by_table in by_dataset.items()}
    methods = list(dict.fromkeys(name for of in summaries.values() for name in of))
    tests = {}
    for table, scoring_of in RANKED.items():
        scorings = {method: s for method in methods if (s := scoring_of(method)) is not None}
        found = {
            name: {m: by_method.get(m, {}).get(s) or {"seeds": []} for m, s in scorings.items()}
            for name, by_method in summaries.items()
        }
        kept = set.intersection(*(_rankable(of) for of in found.values()))
        ranked = [method for method in scorings if method in kept]
        if len(ranked) > 1:
            common = {
                name: set.intersection(*({*of[method]["seeds"]} for method in ranked))
                for name, of in found.items()
            }
            scores = {method: _block_means(method, found, common) for method in ranked}
            tests[table] = nemenyi(scores) | {
                "seeds": {name: len(seeds) for name, seeds in common.items()},
                "left_out": [method for method in scorings if method not in kept],
            }
    return tests


def _rankable(by_method: Mapping[str, Any]) -> set[str]:
    """Methods that have ``FEW_SEEDS`` seeds in common, or all seeds if there are fewer.

    Methods with more seeds come first, so that those with too few are left out.
    """
    seeds = {method: {*of["seeds"]} for method, of in by_method.items()}
    common = set[int]().union(*seeds.values())
    needed = max(min(FEW_SEEDS, len(common)), 1)
    kept = set()
    for method in sorted(seeds, key=lambda method: len(seeds[method]), reverse=True):
        if len(common & seeds[method]) >= needed:
            kept.add(method)
            common &= seeds[method]
    return kept


def _block_means(
    method: str, found: Mapping[str, Any], common: Mapping[str, set[int]]
) -> list[float]:
    """Means of a method over the common seeds, by dataset and metric."""
    means = []
    for name, seeds in common.items():
        spreads = found[name][method]
        used = [seed in seeds for seed in spreads["seeds"]]
        means += [float(np.mean(spreads[metric]["values"], where=used)) for metric in METRICS]
    return means


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    return make_tables(numbers) or [ResultTable(TITLE, ["method"])]


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        f"compare-ranks-{protocol}": draw_ranks(tests)
        for protocol, tests in numbers["ranks"].items()
        if tests
    }
