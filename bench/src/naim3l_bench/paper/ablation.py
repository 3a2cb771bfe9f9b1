"""What the high-rank term adds: both solvers, lambdas, iterations, cut-off; paired by seed."""

from collections.abc import Mapping
from typing import Any

from naim3l.extend import COLOURS, GREY, new_figure, styled
from naim3l_bench.paper.comparison import VARIANTS, trace_fits, variant_fits
from naim3l_bench.paper.fig6 import LAMS as GRID
from naim3l_bench.paper.fig6 import fits_at
from naim3l_bench.present import (
    METRICS,
    Cell,
    ResultTable,
    mean_std,
    paired_difference,
    summarise_metrics,
)
from naim3l_bench.records import Record, Store
from naim3l_bench.tasks import FEW_SEEDS, PROTOCOLS, Plan, Task, usual_lam

TITLE = "The ablation question: what does the high-rank term add?"
PAIRS = (("NAIM3L", "NAIM3L-II"), ("NAIM3L-II", "NAIM3L-I"))
PAIR = "NAIM3L − NAIM3L-II"
NO_CUTOFF = "NAIM3L, no cut-off"
OWN_LAMBDA = "converged, own lambda (held out)"
WITH_LAMBDA = ("NAIM3L", "NAIM3L-II")  # variant I has none
# Lambdas at which Algorithm 1 is run besides the paper's.
OTHER_LAMS = (0.1,)

Values = dict[str, dict[int, dict[str, float]]]  # variant -> seed -> metrics


def _settings(plan: Plan, dataset: str, protocol: str) -> dict[str, dict[str, list[Task]]]:
    """Tasks by setting and variant; a setting is a lambda and a solver."""
    lam = usual_lam(dataset)
    settings: dict[str, dict[str, list[Task]]] = {}
    few = plan.at_most(FEW_SEEDS)
    for value in (lam, *OTHER_LAMS):
        seeds = plan if value == lam else few
        traced = {
            name: trace_fits(seeds, dataset, protocol, name, lam=value) for name in WITH_LAMBDA
        }
        converged = {name: fits_at(plan, dataset, protocol, name, value) for name in WITH_LAMBDA}
        if value == lam:
            traced[NO_CUTOFF] = trace_fits(few, dataset, protocol, lam=value, cutoff=None)
            traced["NAIM3L-I"] = trace_fits(plan, dataset, protocol, "NAIM3L-I", lam=value)
            converged["NAIM3L-I"] = variant_fits(plan, dataset, "NAIM3L-I", protocol=protocol)
        settings[f"Algorithm 1, lambda {value:g}"] = traced
        settings[f"converged, lambda {value:g}"] = converged
    settings[OWN_LAMBDA] = {
        name: plan.fits(
            dataset,
            "NAIM3L, tuned",
            {"lams": plan.grids.lams, "ridges": [0.0], "variant": VARIANTS[name]},
            protocol=protocol,
        )
        for name in WITH_LAMBDA
    }
    return settings


def tasks(plan: Plan) -> list[Task]:
    return [
        task
        for dataset, protocol in plan.groups()
        for variants in _settings(plan, dataset, protocol).values()
        for fits in variants.values()
        for task in fits
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """``{dataset: {protocol: {"settings", "paired", "chosen"}}}``."""
    results: dict[str, Any] = {}
    for dataset, protocol in plan.groups():
        found: dict[str, Values] = {}
        chosen: dict[str, Any] = {}
        unfinished = 0
        for setting, variants in _settings(plan, dataset, protocol).items():
            for name, fits in variants.items():
                records = store.find(fits)
                for label, by_seed in _by_setting(plan, setting, records, protocol).items():
                    found.setdefault(label, {})[name] = by_seed
                if setting == OWN_LAMBDA and records:
                    chosen[name] = [record["numbers"]["lam"] for record in records]
                unfinished += sum(
                    not record["numbers"]["converged"]
                    for record in records
                    if setting.startswith("converged")
                )
        if found:
            results.setdefault(dataset, {})[protocol] = {
                "settings": {label: _summaries(values) for label, values in found.items()},
                "paired": {label: _paired(values) for label, values in found.items()},
                "chosen": chosen,
                "unfinished": unfinished,
                "best": _best_on_grid(plan, store, dataset, protocol),
            }
    return results


def _by_setting(plan: Plan, setting: str, records: list[Record], protocol: str) -> Values:
    """Metrics by seed; of runs of Algorithm 1 after each number of iterations."""
    scoring = PROTOCOLS[protocol][1]
    measured = [r for r in records if r["metrics"][scoring]]  # fused scores may be impossible
    if not measured:
        return {}
    if not setting.startswith("Algorithm 1"):
        return {setting: {r["settings"]["seed"]: r["metrics"][scoring] for r in measured}}
    return {
        f"{setting}, {n} iterations": {
            r["settings"]["seed"]: r["numbers"]["path"][str(n)][scoring] for r in measured
        }
        for n in plan.grids.checkpoints
    }


def _summaries(values: Values) -> dict[str, Any]:
    return {name: summarise_metrics(list(by_seed.values())) for name, by_seed in values.items()}


def _paired(values: Values) -> dict[str, Any]:
    """Differences between variants, seed by seed, in percentage points."""
    compared = {}
    pairs = [pair for pair in (*PAIRS, ("NAIM3L", NO_CUTOFF)) if set(pair) <= set(values)]
    for first, second in pairs:
        seeds = sorted(set(values[first]) & set(values[second]))
        if len(seeds) < 2:  # one difference has no spread
            continue
        compared[f"{first} − {second}"] = {
            metric: paired_difference(
                [100 * values[first][seed][metric] for seed in seeds],
                [100 * values[second][seed][metric] for seed in seeds],
            )
            for metric in METRICS
        }
    return compared


def _best_on_grid(plan: Plan, store: Store, dataset: str, protocol: str) -> dict[str, Any]:
    """Per variant and metric, the lambda of Fig. 6 with the best mean on the test rows."""
    best: dict[str, Any] = {}
    for name in WITH_LAMBDA:
        by_lam: dict[float, Any] = {}
        for lam in GRID:
            records = store.find(fits_at(plan, dataset, protocol, name, lam))
            metrics = [record["metrics"][PROTOCOLS[protocol][1]] for record in records]
            if len(metrics) == plan.repeats and all(metrics):  # else seeds would differ
                by_lam[lam] = summarise_metrics(metrics)
        for metric in METRICS if len(by_lam) > 1 else ():
            lam = max(by_lam, key=lambda lam: by_lam[lam][metric]["mean"])
            best.setdefault(metric, {})[name] = {"lam": lam, **by_lam[lam][metric]}
    return best


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    made = []
    for dataset, of_dataset in numbers.items():
        for protocol, found in of_dataset.items():
            where = f"{dataset}, protocol {protocol}"
            made.append(_metrics_table(where, found["settings"], found["unfinished"]))
            made.append(_paired_table(where, found["paired"]))
            if found["best"]:
                made.append(_best_table(where, found["best"], found["chosen"]))
    return made


def _metrics_table(where: str, settings: Mapping[str, Any], unfinished: int) -> ResultTable:
    rows = [
        [Cell(text) for text in (setting, name, str(len(summary["AP"]["values"])))]
        + [Cell(mean_std(summary[metric])) for metric in METRICS]
        for setting, variants in settings.items()
        for name, summary in variants.items()
    ]
    note = (
        "Algorithm 1 from a random start, mu 5, eigenvalues below 0.005 counted as zero unless "
        "stated otherwise; converged: solver fast, no cut-off, to a certified stationary point"
        + (f" except in {unfinished} fits, stopped after 200 iterations. " if unfinished else ". ")
        + "Mean (standard deviation) in percent."
    )
    return ResultTable(f"Variants: {where}", ["setting", "variant", "seeds", *METRICS], rows, note)


def _paired_table(where: str, paired: Mapping[str, Any]) -> ResultTable:
    rows = []
    for setting, pairs in paired.items():
        for pair, metrics in pairs.items():
            row = [setting, pair, str(metrics["AP"]["n"])]
            for metric in METRICS:
                value = metrics[metric]
                row.append(
                    f"{value['mean']:+.2f} ± {value['margin']:.2f} (p {value['t_test']:.1g}, "
                    f"{value['wilcoxon']:.1g})"
                )
            rows.append([Cell(text) for text in row])
    note = (
        "Mean difference in percentage points ± half of its 95 % "
        "interval (p of the paired t test, of Wilcoxon's signed-rank test)."
    )
    header = ["setting", "pair", "seeds", *METRICS]
    return ResultTable(f"Paired differences: {where}", header, rows, note)


def _best_table(where: str, best: Mapping[str, Any], chosen: Mapping[str, Any]) -> ResultTable:
    rows = [
        [Cell(metric)]
        + [Cell(f"{mean_std(by_name[name])} at {by_name[name]['lam']:g}") for name in WITH_LAMBDA]
        for metric, by_name in best.items()
    ]
    note = "The lambda is the best of Fig. 6's grid on the test rows themselves: an upper bound."
    if chosen:
        shown = (f"{name} {sorted(set(lams))}" for name, lams in chosen.items())
        note += f" Chosen on held-out entries of the training rows: {', '.join(shown)}."
    return ResultTable(f"Best lambda per metric: {where}", ["metric", *WITH_LAMBDA], rows, note)


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """Difference between the full model and variant II along Algorithm 1 and at its limit."""
    return {
        f"ablation-{dataset}-{protocol}": _draw(found["paired"])
        for dataset, of_dataset in numbers.items()
        for protocol, found in of_dataset.items()
        if any(PAIR in pairs for pairs in found["paired"].values())
    }


@styled
def _draw(paired: Mapping[str, Any]) -> Any:
    shown = {setting: pairs[PAIR] for setting, pairs in paired.items() if PAIR in pairs}
    fig, axes = new_figure(len(METRICS) - 1, 1, 0.5 + 0.22 * len(shown), width=2.4)
    for ax, metric in zip(axes, METRICS[1:], strict=True):  # 1-HL does not move
        values = [differences[metric] for differences in shown.values()]
        for i, value in enumerate(values):
            ax.errorbar(
                value["mean"], -i, xerr=value["margin"], marker="o", color=COLOURS[0], capsize=2
            )
        ax.axvline(0, color=GREY, linestyle=":")
        ax.set_yticks([-i for i in range(len(shown))], list(shown) if ax is axes[0] else [])
        ax.set(xlabel=f"{metric}, full − II (points)")
    return fig
