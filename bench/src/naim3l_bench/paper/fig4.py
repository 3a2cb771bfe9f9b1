"""Fig. 4: Nemenyi tests of the published tables of results, and with our results in them.

See Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import studentized_range

from naim3l.extend import COLOURS, new_figure, styled
from naim3l_bench.paper.comparison import METRIC_TABLES
from naim3l_bench.paper.published import FIG4, TABLE2, TABLE6, Results
from naim3l_bench.present import METRICS, Cell, ResultTable
from naim3l_bench.records import Store
from naim3l_bench.tasks import PROTOCOLS, Plan, Task, paper_name

TITLE = "Fig. 4: Nemenyi tests of Tables 2 and 6"
OURS = "NAIM3L"
PROTOCOL = "paper"
TESTS: dict[str, tuple[str, Results, Any]] = {
    "table2": ("Table 2", TABLE2, METRIC_TABLES["table2"]),
    "table6": ("Table 6", TABLE6, METRIC_TABLES["table6"]),
}


def tasks(plan: Plan) -> list[Task]:
    """Tasks of the two tables on the paper's datasets, under the paper's protocol."""
    if PROTOCOL not in plan.protocols:
        return []
    features = PROTOCOLS[PROTOCOL][0]
    return [
        task
        for _, published, item in TESTS.values()
        for task in item.tasks(plan)
        if paper_name(task.settings["dataset"]) in published
        and task.settings["features"] == features
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """By table: the test of "published" figures, and of those with "ours" where we have any."""
    results: dict[str, Any] = {}
    for key, (_, published, item) in TESTS.items():
        results[key] = {"published": nemenyi(scores(published, {}))}
        ours = find_ours(item.numbers(plan, store), published)
        if ours:
            test = nemenyi(scores(published, ours))
            results[key]["ours"] = test | {"replaced": sorted(ours)}
    return results


def find_ours(found: Mapping[str, Any], published: Results) -> dict[str, dict[str, Any]]:
    """Our means by dataset of the paper, method and metric.

    Only datasets on which all methods that are ours have results; of two variants of a dataset,
    the one with all views.
    """
    summaries: dict[str, dict[str, Any]] = {}
    for dataset in sorted(found, key=len, reverse=True):  # a plain name overwrites its variants
        if paper_name(dataset) in published and PROTOCOL in found[dataset]:
            summaries[paper_name(dataset)] = found[dataset][PROTOCOL]
    methods = [name for name in next(iter(published.values())) if name.startswith(OURS)]
    return {
        dataset: {
            method: {metric: summary[method][metric]["mean"] for metric in METRICS}
            for method in methods
        }
        for dataset, summary in summaries.items()
        if all(method in summary for method in methods)
    }


def scores(published: Results, ours: Mapping[str, Any]) -> dict[str, list[float]]:
    """Scores by method, 4 per dataset; ours, to the published two digits, instead of theirs."""
    columns: dict[str, list[float]] = {}
    for dataset, methods in published.items():
        for method, values in methods.items():
            own = ours.get(dataset, {}).get(method)
            columns.setdefault(method, []).extend(
                values[metric][0] if own is None else round(own[metric], 2) for metric in METRICS
            )
    return columns


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    made = []
    for key, tests in numbers.items():
        for source, test in tests.items():
            note = _note(test)
            if source == "published":
                note += " " + _verdict(key, test)
            made.append(
                ResultTable(f"Fig. 4, {_name(key, source, test)}", _header(test), _rows(test), note)
            )
    return made


def _name(key: str, source: str, test: dict[str, Any]) -> str:
    title = TESTS[key][0]
    if source == "published":
        return f"{title} as published"
    count = len(METRICS) * len(test["replaced"])
    datasets = ", ".join(test["replaced"])
    return f"{title} with ours in {count} of {test['n_blocks']} results ({datasets})"


def _header(test: dict[str, Any]) -> list[str]:
    return [
        "method",
        "average rank",
        f"behind {OURS}",
        "p",
        f"differ (CD = {test['distance']:.2f})",
        f"by the printed formula ({test['printed_distance']:.2f})",
    ]


def _rows(test: dict[str, Any]) -> list[list[Cell]]:
    rows = []
    for method, rank in test["ranks"].items():
        cells = [method, f"{rank:.3f}"]
        if method == OURS:
            cells += [""] * 4
        else:
            cells += [f"{rank - test['ranks'][OURS]:+.3f}", f"{test['p'][OURS][method]:.2g}"]
            cells += [
                "yes" if _has_pair(test[pairs], method) else "no"
                for pairs in ("different", "printed_different")
            ]
        rows.append([Cell(text) for text in cells])
    return rows


def _has_pair(pairs: list[list[str]], method: str) -> bool:
    return [OURS, method] in pairs or [method, OURS] in pairs


def _note(test: dict[str, Any]) -> str:
    n_methods, n_blocks = len(test["ranks"]), test["n_blocks"]
    n_datasets = n_blocks // len(METRICS)
    few = critical_distance(n_methods, n_datasets)
    return (
        f"Rank 1 is best; level 0.05, q = {test['q']:.3f}, CD = q sqrt(k(k+1)/(6N)) with "
        f"k = {n_methods}, N = {n_blocks}. Pairs that differ: {_show(test['different'])}. "
        f"The four metrics of a dataset are not independent; with N = {n_datasets}, CD is "
        f"{few:.2f} and the pairs that differ are: {_show(different(test['ranks'], few))}."
    )


def _verdict(key: str, test: dict[str, Any]) -> str:
    """What the missing 6 changes, beside what the paper concludes."""
    worse = {method for method in test["ranks"] if [OURS, method] in test["different"]}
    agrees = worse == set(FIG4[key]["worse"])
    return (
        f"The distance as printed in the paper lacks the 6 and is {test['printed_distance']:.2f}; "
        f"with it, pairs that differ: {_show(test['printed_different'])}. The paper concludes that "
        f"{OURS} is better than {', '.join(FIG4[key]['worse'])}, which is "
        f"{'exactly' if agrees else 'not'} what the correct distance gives: the error is "
        f"{'in the printed formula only' if agrees else 'in its conclusions too'}."
    )


def _show(pairs: list[list[str]]) -> str:
    return ", ".join(f"{a} – {b}" for a, b in pairs) or "none"


@styled
def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """Critical-distance diagrams of both tables: one figure as published, one with ours."""
    made = {}
    for source in ("published", "ours"):
        tests = {key: both[source] for key, both in numbers.items() if source in both}
        if tests:
            fig, axes = new_figure(len(tests), 1, 1.8)
            for i, (ax, (key, test)) in enumerate(zip(axes, tests.items(), strict=True)):
                what = "as published"
                if source == "ours":
                    count = len(METRICS) * len(test["replaced"])
                    what = f"{count} of {test['n_blocks']} results ours"
                ax.set_title(f"({'ab'[i]}) {TESTS[key][0]}, {what}")
                draw_diagram(ax, test)
            made[f"fig4-{source}"] = fig
    return made


def draw_diagram(ax: Any, test: Mapping[str, Any]) -> None:
    """Average ranks on an axis, thick bars over methods that do not differ, and the distance.

    The better half of the methods is named on the left, the other on the right.
    """
    ranks = test["ranks"]
    n_left = (len(ranks) + 1) // 2
    bars = len(test["groups"]) > 0
    floor = 0.5 + 0.5 * len(test["groups"])  # names begin above the bars
    top = floor + n_left + 0.7
    low, high = 1.0, float(len(ranks))
    ax.set(xlim=(low - 0.1, high + 0.1), ylim=(0, top + 0.4), yticks=[])
    ax.set_xticks(range(1, len(ranks) + 1))
    ax.set_xlabel("average rank (1 is best)" + "\nbars: no significant difference" * bars)
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    for i, (method, rank) in enumerate(ranks.items()):
        left = i < n_left
        y = floor + (i if left else len(ranks) - 1 - i)
        edge, side = (low - 0.1, "right") if left else (high + 0.1, "left")
        colour = COLOURS[0] if method == OURS else "black"
        ax.plot([rank, rank, edge], [0, y, y], color=colour, linewidth=0.8, clip_on=False)
        ax.annotate(
            f"{method} {rank:.2f}",
            (edge, y),
            ((-2 if left else 2), 0),
            textcoords="offset points",
            ha=side,
            va="center",
            color=colour,
            annotation_clip=False,
        )
    for i, group in enumerate(test["groups"]):
        ends = [ranks[group[0]] - 0.03, ranks[group[-1]] + 0.03]
        ax.plot(ends, [0.4 + 0.5 * i] * 2, color=COLOURS[1], linewidth=2.5, solid_capstyle="butt")
    ends = [low, low + test["distance"]]
    ax.plot(ends, [top] * 2, "|-", color="black", linewidth=1.0, markersize=5)
    ax.annotate(
        f"CD = {test['distance']:.2f}",
        (ends[1], top),
        (4, 0),
        textcoords="offset points",
        va="center",
    )


ALPHA = 0.05  # level of significance


# scikit-posthocs has p-values and groups but no critical values or distances, so these are here.
def critical_value(n_methods: int) -> float:
    """Studentized range of infinitely many degrees of freedom over the root of 2.

    Examples
    --------
    >>> round(critical_value(2), 3)
    1.96
    """
    return float(studentized_range.ppf(1 - ALPHA, n_methods, np.inf) / sqrt(2))


def critical_distance(n_methods: int, n_blocks: int) -> float:
    """Difference of average ranks from which on two methods differ significantly."""
    return critical_value(n_methods) * sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def printed_distance(n_methods: int, n_blocks: int) -> float:
    """The distance as the paper prints it, without the 6: too large by its root."""
    return sqrt(6) * critical_distance(n_methods, n_blocks)


def different(ranks: Mapping[str, float], distance: float) -> list[list[str]]:
    """Pairs [better, worse] whose ranks, ascending, are at least a distance apart."""
    return [[a, b] for a, b in combinations(ranks, 2) if ranks[b] - ranks[a] >= distance]


def nemenyi(scores: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Nemenyi test of methods on the same blocks, at the level 0.05.

    Parameters
    ----------
    scores : mapping of method to its n_blocks scores, or DataFrame with a column per method
        Higher is better.

    Returns
    -------
    dict
        "ranks": average rank by method, best first; "n_blocks"; "q" and "distance", critical
        value and distance, and "printed_distance"; "p": p-values by method and method;
        "different" and "printed_different": pairs [better, worse] at least a distance apart;
        "groups": largest sets of two or more methods that do not differ.
    """
    import pandas as pd
    from scikit_posthocs import compact_letter_display, posthoc_nemenyi_friedman

    table = pd.DataFrame({method: np.asarray(scores[method], dtype=float) for method in scores})
    if table.shape[1] < 2 or table.empty or table.isna().any(axis=None):
        raise ValueError(
            f"scores has {table.shape[0]} blocks of {table.shape[1]} methods; two methods or more "
            "are needed, with a number in each of one block or more."
        )
    n_blocks, n_methods = table.shape
    mean_ranks = table.rank(axis=1, ascending=False).mean()
    ranks = mean_ranks.sort_values(kind="stable").to_dict()
    distance = critical_distance(n_methods, n_blocks)
    printed = printed_distance(n_methods, n_blocks)
    p_values = posthoc_nemenyi_friedman(table).loc[list(ranks), list(ranks)]
    letters = compact_letter_display(p_values, alpha=ALPHA)  # methods that share one do not differ
    groups = [[m for m in ranks if a in letters[m]] for a in sorted({*"".join(letters)} - {" "})]
    return {
        "ranks": ranks,
        "n_blocks": n_blocks,
        "q": critical_value(n_methods),
        "distance": distance,
        "printed_distance": printed,
        "p": p_values.to_dict(),
        "different": different(ranks, distance),
        "printed_different": different(ranks, printed),
        "groups": [group for group in groups if len(group) > 1],
    }
