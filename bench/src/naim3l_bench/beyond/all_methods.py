"""Tables 2 to 4 with all methods fitted by us, and what the paper does not have beside them.

Every method gets the same splits, missing views and labels, and features, and chooses among as many
candidates in the same way. Methods that need aligned rows know which rows are one sample.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from naim3l.extend import new_figure, styled
from naim3l_bench.paper.fig4 import critical_distance, draw_diagram, nemenyi
from naim3l_bench.paper.published import TABLE2, TABLE3, TABLE4
from naim3l_bench.present import (
    METRICS,
    Cell,
    ResultTable,
    compare,
    count_seeds,
    distance,
    mean_std,
    spread,
)
from naim3l_bench.records import Record, Store
from naim3l_bench.rivals import GUESSING, RIVALS, SHARE, method_name
from naim3l_bench.tasks import BUDGET, FEW_SEEDS, Plan, Task, paper_lam, paper_name

TITLE = "Comparison of all methods on the same splits"

# Shares of missing views and labels by table of the paper. The methods of Tables 3 and 4 are those
# that the paper has there, and the tuned model.
CHALLENGES: dict[str, dict[str, Any]] = {
    "Table 2": {},
    "Table 3": {"beta": 0.0},
    "Table 4": {"alpha": 0.0},
}
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


By = Mapping[str, Any]

PUBLISHED = {"Table 2": (TABLE2, ""), "Table 3": (TABLE3, "-V"), "Table 4": (TABLE4, "-L")}
APART, ALIGNED = "not aligned", "aligned"
# Behind the names of methods with fewer seeds than others.
FEWER = " †"
# Figures that are more standard deviations from the paper's are listed.
FAR = 3.0


def _is_aligned(method: str) -> bool:
    return method != GUESSING and RIVALS[method].aligned


def _by_choice(method: str) -> bool:
    return method != GUESSING and RIVALS[method].by_choice


def _own(method: str) -> str | None:
    """How a method is measured in the paper: per view, or all views of a sample at once."""
    if _by_choice(method):
        return None
    return "all views" if _is_aligned(method) else "per view"


def _ranked(scoring: Callable[[str], str | None]) -> Callable[[str], str | None]:
    return lambda method: None if method == GUESSING else scoring(method)


# Scoring of each method in the tables whose methods are ranked; None if it is not among them.
PAPER, SAME, FUSED = "Table 2, fitted by us", "The same rows, not aligned", "All views of a sample"
RANKED: dict[str, Callable[[str], str | None]] = {
    PAPER: _ranked(_own),
    SAME: _ranked(lambda method: None if _is_aligned(method) else "per view"),
    FUSED: _ranked(lambda method: "all views"),
}


def make_tables(numbers: By) -> list[ResultTable]:
    """All tables, those of each dataset together, then those of the ranks."""
    made = []
    for protocol, by_dataset in numbers["methods"].items():
        for dataset, by_table in by_dataset.items():
            for table, by_method in by_table.items():
                made += _published_tables(table, dataset, protocol, by_method)
            if "Table 2" in by_table:
                about, by_method = f"{dataset}, protocol {protocol}", by_table["Table 2"]
                made += [_same_rows_table(about, by_method), _fused_table(about, by_method)]
                made.append(_fits_table(about, by_method))
        made += [
            _ranks_table(protocol, of, test) for of, test in numbers["ranks"][protocol].items()
        ]
    return made


def _published_tables(table: str, dataset: str, protocol: str, by_method: By) -> list[ResultTable]:
    """The paper's figures beside ours, each method measured as in the paper; and those far apart.

    Only results that were made in the paper's way, with all its views, can agree with it.
    """
    in_paper = paper_name(dataset) in PUBLISHED[table][0]
    comparable = in_paper and protocol == "paper" and dataset == paper_name(dataset)
    rows, far = [], []
    for method, summary in by_method.items():
        scoring = _own(method)
        if scoring is None:
            continue
        of_paper = _of_paper(table, dataset, method)
        row = [_name(method, by_method), Cell(ALIGNED if _is_aligned(method) else APART)]
        for metric in METRICS:
            ours, published = (summary[scoring] or {}).get(metric), of_paper.get(metric)
            cells = _beside(ours, published, marked=comparable)
            row += cells if in_paper else [Cell(mean_std(ours))]
            if comparable and ours and published and distance(ours, published) > FAR:
                far.append([Cell(method), Cell(metric), *cells])
        row += [Cell(_shown(summary, scoring, "macro-AUC"))]
        row += [Cell(_seconds(summary["fit_seconds"])), Cell(_shown_fits(method, by_method))]
        rows.append(row)
    header = ["method", "training rows"]
    for metric in METRICS:
        header += [f"{metric}, paper", metric, f"{metric}, difference"] if in_paper else [metric]
    header += ["macro-AUC", "seconds per fit", "fits"]
    about = f"{dataset}, protocol {protocol}"
    note = _published_note(by_method, in_paper, len(far) if comparable else None)
    made = [ResultTable(f"{table}, fitted by us: {about}", header, rows, note)]
    if far:
        title = f"{table}, more than {FAR:g} standard deviations from the paper: {about}"
        made.append(ResultTable(title, ["method", "metric", "paper", "ours", "difference"], far))
    return made


def _of_paper(table: str, dataset: str, method: str) -> By:
    """The paper's (mean, std) of a method by metric; empty if it has none."""
    results, suffix = PUBLISHED[table]
    name = "" if method == GUESSING else RIVALS[method].published
    return results.get(paper_name(dataset), {}).get(name + suffix, {})


def _beside(ours: Any, published: Any, *, marked: bool) -> list[Cell]:
    """The paper's figure, ours, and the difference."""
    both = ours is not None and published is not None
    difference = compare(ours, published, marked=marked) if both else Cell("–")
    return [Cell(mean_std(published), "published"), Cell(mean_std(ours)), difference]


def _published_note(by_method: By, in_paper: bool, n_far: int | None) -> str:
    """Note of a table beside the paper's; ``n_far`` is None where they are not comparable."""
    note = _note(by_method, _missing(by_method)) + (
        " Methods whose training rows are not aligned are measured per view, then averaged over "
        "views; those with aligned rows are measured on one score from all views of a sample. Test "
        "views are complete. Guessing: base rates as scores, or always the more frequent value."
    )
    if in_paper:
        note += (
            " Columns marked paper are its own numbers, not computed here; those of LabelMe are "
            "beside MultiGraph, a reconstruction. Difference: ours minus the paper's; sd is the "
            "larger of the two standard deviations over splits, because some of the paper's are "
            "rounded to 0. Means vary less than single splits, so that a difference below 1 sd can "
            "be a real one."
        )
    if n_far is not None:
        listed = f"{n_far} of the figures differ" if n_far != 1 else "1 of the figures differs"
        note += f" {listed} by more than {FAR:g} sd{', see the next table' if n_far else ''}."
    return note


def _same_rows_table(about: str, by_method: By) -> ResultTable:
    measured = (*METRICS, "macro-AUC")
    rows = [
        [
            _name(method, by_method),
            *_metrics(summary, "per view", measured),
            Cell(_shown_fits(method, by_method)),
        ]
        for method, summary in by_method.items()
        if not _is_aligned(method)
    ]
    cannot = ", ".join(m for m in by_method if _is_aligned(m) and not _by_choice(m))
    note = _note(by_method, "Rows are not aligned, for any method; metrics are per view.")
    if cannot:
        note += f" Need aligned rows, and cannot be fitted to these at all: {cannot}."
    return ResultTable(f"{SAME}: {about}", ["method", *measured, "fits"], rows, note)


def _fused_table(about: str, by_method: By) -> ResultTable:
    few = ("1-RL", "AP")
    header = ["method", "training rows", *METRICS, "macro-AUC"]
    header += [*(f"half hidden: {metric}" for metric in few), "fits"]
    rows = [
        [
            _name(method, by_method),
            Cell(ALIGNED if _is_aligned(method) else APART),
            *_metrics(summary, "all views", (*METRICS, "macro-AUC")),
            *_metrics(summary, "fused", few),
            Cell(_shown_fits(method, by_method)),
        ]
        for method, summary in by_method.items()
    ]
    note = _note(by_method, "One score from all views of a test sample, for every method.")
    note += (
        " Scores of methods per view are averaged over the views; those of NAIM3L-evidence are "
        "fused by evidence. Not aligned: which rows are one sample is known in test rows only. "
        "Half hidden: half of the test views are missing, and a sample without a positive counts "
        "with AP 0."
    )
    return ResultTable(f"{FUSED}: {about}", header, rows, note)


def _fits_table(about: str, by_method: By) -> ResultTable:
    """What was chosen, what it took, and what went wrong."""
    header = ["method", "candidates", "chosen", "seconds per fit", "seconds of choice", "fits"]
    rows = []
    for method, summary in by_method.items():
        if method == GUESSING:
            continue
        chosen = "; ".join(
            f"{parameters} ({count}x)" for parameters, count in summary["chosen"].items()
        )
        texts = [method, str(summary["candidates"]), chosen or "–"]
        texts += [_seconds(summary[name]) for name in ("fit_seconds", "choice_seconds")]
        reasons = "".join(f"; {reason.rstrip('.')}" for reason in sorted({*summary["failed"]}))
        rows.append([Cell(text) for text in (*texts, _shown_fits(method, by_method) + reasons)])
    note = (
        f"Each method has at most {BUDGET} candidates. They are fitted without {100 * SHARE:g} % "
        "of the known positives and negatives of each label, the same for all candidates, and "
        "compared by AP on these entries. All other parameters have their defaults. CPU "
        "seconds are medians on one thread; those of the choice are of all fits before the final "
        "one."
    )
    return ResultTable(f"Chosen parameters: {about}", header, rows, note)


def _ranks_table(protocol: str, table: str, test: By) -> ResultTable:
    header = ["method", "average rank", f"better than (CD = {test['distance']:.2f})"]
    rows = []
    for method, rank in test["ranks"].items():
        worse = [other for better, other in test["different"] if better == method]
        rows.append([Cell(text) for text in (method, f"{rank:.2f}", ", ".join(worse) or "–")])
    n_methods, n_blocks = len(test["ranks"]), test["n_blocks"]
    n_datasets = n_blocks // len(METRICS)
    note = (
        f"Rank 1 is best. Nemenyi test at the level 0.05, of {n_blocks} results: the four metrics "
        "of each dataset. As these are not independent, the test finds too many differences; with "
        f"one result for each dataset ({n_datasets}), CD would be "
        f"{critical_distance(n_methods, n_datasets):.2f}."
    )
    seeds = ", ".join(f"{dataset} {n}" for dataset, n in test["seeds"].items())
    note += f" Results are means over the seeds that all of these methods have: {seeds}."
    if test["left_out"]:
        note += (
            f" Left out, for lack of results on a dataset: {', '.join(test['left_out'])}. Methods "
            f"need {FEW_SEEDS} seeds in common with the others, or all seeds if there are fewer."
        )
    return ResultTable(f"Ranks: {table}, protocol {protocol}", header, rows, note)


@styled
def draw_ranks(tests: By) -> Any:
    """Critical-distance diagrams, one below the other."""
    most = max(len(test["ranks"]) for test in tests.values())
    fig, axes = new_figure(1, len(tests), 0.9 + 0.13 * most, width=5.0)
    for ax, (table, test) in zip(axes, tests.items(), strict=True):
        ax.set_title(table)
        draw_diagram(ax, test)
    return fig


def _metrics(summary: By, scoring: str, names: Iterable[str]) -> list[Cell]:
    return [Cell(_shown(summary, scoring, name)) for name in names]


def _shown(summary: By, scoring: str, metric: str) -> str:
    return mean_std(summary[scoring] and summary[scoring][metric])


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _most_fits(by_method: By) -> int:
    return max(summary["n_fits"] for summary in by_method.values())


def _name(method: str, by_method: By) -> Cell:
    fewer = by_method[method]["n_fits"] < _most_fits(by_method)
    return Cell(method + FEWER * fewer)


def _shown_fits(method: str, by_method: By) -> str:
    """Such as "10" or "8 of 10, 2 failed, 1 not converged"."""
    summary, most = by_method[method], _most_fits(by_method)
    fewer = summary["n_fits"] < most
    parts = [f"{summary['n_fits']}" + f" of {most}" * fewer]
    parts += [f"{len(summary['failed'])} failed"] * bool(summary["failed"])
    parts += [f"{summary['not_converged']} not converged"] * bool(summary["not_converged"])
    return ", ".join(parts)


def _note(by_method: By, conditions: str) -> str:
    counts = [summary["n_fits"] for summary in by_method.values()]
    note = f"{conditions} Mean (population standard deviation) in percent over "
    note += f"{count_seeds(counts)}."
    if min(counts) < max(counts):
        note += (
            f"{FEWER} Fewer seeds than other methods: the mean is over fewer splits, and must not "
            "be compared with theirs directly. Ranks are of the same seeds for all methods."
        )
    return note


def _missing(by_method: By) -> str:
    """What the training rows of a table lack, such as "50 % of the rows of each view"."""
    alpha, beta = (next(iter(by_method.values()))[name] for name in ("alpha", "beta"))
    views = f"{100 * alpha:g} % of the rows of each view" if alpha else "no views"
    labels = f"{100 * beta:g} % of the positives and of the negatives of each label"
    return f"Missing in training: {views}, {labels if beta else 'no labels'}."
