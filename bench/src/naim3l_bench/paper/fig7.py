"""Fig. 7: the penalty mu of Algorithm 1 changes how fast it converges, not where to."""

from typing import Any

from naim3l.extend import COLOURS, new_figure, styled
from naim3l_bench.paper.comparison import trace_fits
from naim3l_bench.plots import LINES, draw_series
from naim3l_bench.present import METRICS, Cell, ResultTable, count_seeds, mean_std, summarise
from naim3l_bench.records import Store
from naim3l_bench.tasks import FEW_SEEDS, Plan, Task

TITLE = "Fig. 7: the penalty mu of Algorithm 1"
MUS = (1.0, 2.0, 5.0, 10.0, 20.0)


def _groups(plan: Plan) -> list[tuple[str, str, float, list[Task]]]:
    few = plan.at_most(FEW_SEEDS)
    return [
        (dataset, protocol, mu, trace_fits(few, dataset, protocol, mu=mu))
        for dataset, protocol in few.groups()
        for mu in MUS
    ]


def tasks(plan: Plan) -> list[Task]:
    return [task for *_, fits in _groups(plan) for task in fits]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """``{dataset: {protocol: {mu: {"metrics", "objective", "failed", "n_iter"}}}}``.

    Objectives are those of the first seed, None where it failed or is missing.
    """
    results: dict[str, Any] = {}
    for dataset, protocol, mu, fits in _groups(plan):
        done = [record for record in map(store.get, fits) if record is not None]
        if done:
            good = [record for record in done if "impossible" not in record]
            results.setdefault(dataset, {}).setdefault(protocol, {})[f"{mu:g}"] = {
                "metrics": summarise(good, protocol),
                "objective": _first_objective(store, fits[0]),
                "failed": [record["impossible"] for record in done if "impossible" in record],
                "n_iter": plan.grids.checkpoints[-1],
            }
    return results


def _first_objective(store: Store, task: Task) -> list[float] | None:
    found = store.find([task])
    return found[0]["numbers"]["objective"] if found else None


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    made = []
    for dataset, of_dataset in numbers.items():
        rows, failures, counts, n_iter = [], set(), [], 0
        for protocol, mus in of_dataset.items():
            for mu, values in mus.items():
                metrics = values["metrics"] or {}
                failures |= set(values["failed"])
                counts += [len(metrics["AP"]["values"])] if metrics else []
                objective = values["objective"]
                last = "–" if objective is None else f"{objective[-1]:.1f}"
                n_iter = values["n_iter"]
                row = [protocol, mu, *(mean_std(metrics.get(name)) for name in METRICS), last]
                rows.append([Cell(text) for text in row])
        header = ["protocol", "mu", *METRICS, "last objective, seed 0"]
        note = (
            f"Algorithm 1, {n_iter} iterations; mean (standard deviation) in percent over "
            f"{count_seeds(counts)}."
        )
        note += "".join(f" {failure}" for failure in sorted(failures))
        made.append(ResultTable(f"Fig. 7: {dataset}", header, rows, note))
    return made


def figures(numbers: dict[str, Any]) -> dict[str, Any]:
    """Left: metrics over mu. Right: objective over iterations, a curve per mu."""
    return {
        f"fig7-{dataset}-{protocol}": _draw(mus)
        for dataset, of_dataset in numbers.items()
        for protocol, mus in of_dataset.items()
        if any(values["objective"] for values in mus.values())
    }


@styled
def _draw(mus: dict[str, Any]) -> Any:
    fig, (left, right) = new_figure(2)
    good = {mu: values for mu, values in mus.items() if values["metrics"]}
    x = [float(mu) for mu in good]
    for i, metric in enumerate(METRICS):
        values = [values["metrics"][metric]["values"] for values in good.values()]
        draw_series(left, x, values, index=i, label=metric)
    left.set_xscale("log")
    left.set_xticks(x, list(good))
    left.minorticks_off()
    left.set(xlabel="μ", ylabel="metric (%)", ylim=(0, 102))
    left.legend(ncols=2, loc="lower right")
    for i, (mu, of_mu) in enumerate(good.items()):
        curve = of_mu["objective"] or []
        look: Any = {"color": COLOURS[i], "linestyle": LINES[i], "label": f"μ = {mu}"}
        right.plot(range(1, len(curve) + 1), curve, **look)
    right.set(xlabel="iteration", ylabel="objective", xscale="log", yscale="log")
    right.legend()
    return fig
