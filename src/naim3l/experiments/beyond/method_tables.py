"""Tables and diagrams of the comparison of all methods; see `all_methods` for their numbers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from naim3l.experiments.grids import BUDGET
from naim3l.experiments.nemenyi import critical_distance
from naim3l.experiments.paper.fig4 import draw_diagram
from naim3l.experiments.paper.published import TABLE2, TABLE3, TABLE4
from naim3l.experiments.present import METRICS, Cell, ResultTable, count_seeds, mean_std
from naim3l.experiments.rivals import GUESSING, RIVALS, SHARE
from naim3l.experiments.tasks import paper_name
from naim3l.report.plots import new_figure, styled

By = Mapping[str, Any]

PUBLISHED = {"Table 2": (TABLE2, ""), "Table 3": (TABLE3, "-V"), "Table 4": (TABLE4, "-L")}
CONDITIONS = {
    "Table 2": "Half of the views and half of the labels of training rows are missing.",
    "Table 3": "Half of the views of training rows are missing, no labels.",
    "Table 4": "Half of the labels of training rows are missing, no views.",
}
APART, ALIGNED = "not aligned", "aligned"


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
            about = f"{dataset}, protocol {protocol}"
            made += [_published_table(t, dataset, about, of) for t, of in by_table.items()]
            if "Table 2" in by_table:
                by_method = by_table["Table 2"]
                made += [_same_rows_table(about, by_method), _fused_table(about, by_method)]
                made.append(_fits_table(about, by_method))
        made += [
            _ranks_table(protocol, of, test) for of, test in numbers["ranks"][protocol].items()
        ]
    return made


def _published_table(table: str, dataset: str, about: str, by_method: By) -> ResultTable:
    """The paper's figures beside ours, each method measured as in the paper."""
    results, suffix = PUBLISHED[table]
    published = results.get(paper_name(dataset), {})
    header = ["method", "training rows"]
    for metric in METRICS:
        header += [f"{metric}, paper"] * bool(published) + [metric]
    rows = []
    for method, summary in by_method.items():
        scoring = _own(method)
        if scoring is None:
            continue
        name = "" if method == GUESSING else RIVALS[method].published
        of_paper = published.get(name + suffix, {})
        row = [Cell(method), Cell(ALIGNED if _is_aligned(method) else APART)]
        for metric in METRICS:
            if published:
                row.append(Cell(mean_std(of_paper.get(metric)), "published"))
            row.append(Cell(_shown(summary, scoring, metric)))
        row += [Cell(_shown(summary, scoring, "macro-AUC"))]
        row += [Cell(_seconds(summary["fit_seconds"])), Cell(_fits(summary))]
        rows.append(row)
    header += ["macro-AUC", "seconds per fit", "fits"]
    note = _note(by_method, CONDITIONS[table])
    note += (
        " Methods whose training rows are not aligned are measured per view, then averaged over "
        "views; those with aligned rows are measured on one score from all views of a sample. Test "
        "views are complete. Guessing: base rates as scores, or always the more frequent value."
    )
    if published:
        note += (
            " Columns marked paper are its own numbers, not computed here; those of LabelMe are "
            "beside MultiGraph, a reconstruction."
        )
    return ResultTable(f"{table}, fitted by us: {about}", header, rows, note)


def _same_rows_table(about: str, by_method: By) -> ResultTable:
    header = ["method", *METRICS, "macro-AUC"]
    rows = [
        [Cell(method), *_metrics(summary, "per view", header[1:])]
        for method, summary in by_method.items()
        if not _is_aligned(method)
    ]
    cannot = ", ".join(m for m in by_method if _is_aligned(m) and not _by_choice(m))
    note = _note(by_method, "Rows are not aligned, for any method; metrics are per view.")
    if cannot:
        note += f" Need aligned rows, and cannot be fitted to these at all: {cannot}."
    return ResultTable(f"{SAME}: {about}", header, rows, note)


def _fused_table(about: str, by_method: By) -> ResultTable:
    few = ("1-RL", "AP")
    header = ["method", "training rows", *METRICS, "macro-AUC", *(f"half hidden: {m}" for m in few)]
    rows = [
        [
            Cell(method),
            Cell(ALIGNED if _is_aligned(method) else APART),
            *_metrics(summary, "all views", (*METRICS, "macro-AUC")),
            *_metrics(summary, "fused", few),
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
        rows.append([Cell(text) for text in (*texts, _fits(summary) + reasons)])
    note = (
        f"Each method has at most {BUDGET} candidates. They are fitted without {100 * SHARE:g} % "
        "of the known positives and negatives of each label, the same for all candidates, and "
        "compared by AP on these entries. Seconds are medians on one thread; those of the choice "
        "are of all fits before the final one."
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
    if test["left_out"]:
        note += f" Without results on all datasets, and left out: {', '.join(test['left_out'])}."
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


def _fits(summary: By) -> str:
    """Such as "10" or "8, 2 failed, 1 not converged"."""
    parts = [str(summary["n_fits"])]
    parts += [f"{len(summary['failed'])} failed"] * bool(summary["failed"])
    parts += [f"{summary['not_converged']} not converged"] * bool(summary["not_converged"])
    return ", ".join(parts)


def _note(by_method: By, conditions: str) -> str:
    counts = count_seeds(summary["n_fits"] for summary in by_method.values())
    return f"{conditions} Mean (population standard deviation) in percent over {counts}."
