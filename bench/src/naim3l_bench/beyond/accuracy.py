"""Beyond the paper: features, kernels and networks, with and without the regulariser.

Every model gets raw features, and does all else on training rows. Models are named by what they are
made of, so that what the regulariser adds can be separated from what the features add: each NAIM3L
stands beside ridge and logistic regression on the same features, tuned on the same folds for the
same metric, and calibrated alike. Networks are not tuned; their scores are log-odds, and fused as
they are.
"""

from importlib.util import find_spec
from typing import Any

from naim3l_bench.present import (
    METRICS,
    Cell,
    ResultTable,
    count_seeds,
    mean_std,
    paired_difference,
    spread,
    summarise_scoring,
)
from naim3l_bench.records import Record, Store
from naim3l_bench.tasks import Grids, Plan, Task, paper_lam, paper_name
from naim3l_bench.trials import FREQUENCY_NAMES

TITLE = "Accuracy: what features, kernels, networks and the regulariser add"

# Data that are counts: their rows are compared as histograms.
COUNTS = ("corel5k", "espgame", "iaprtc12", "mirflickr", "pascal07", "arxiv2007")
# One regression per label and view: more than ten minutes a fit where labels are many, so that
# one seed has to do.
COSTLY, MANY_LABELS, COSTLY_SEEDS = "logistic, kernel", 100, 1
# Test metrics settle long before the weights do.
SEARCH = {"cv": 3, "metric": "log-loss", "tol": 1e-3}
ALONE = {"variant": "loss", "lams": [1.0]}
# What is compared: probabilities per view (protocol clean), and fused by evidence (protocol fused,
# but for the mean). The other table has scores as they are.
SCORINGS = {"per view": "calibrated", "fused": "evidence"}
# The best figures published for networks that train on aligned rows, six views, half of the views
# and of the labels missing, half of the test views hidden; their splits and features differ.
PUBLISHED = {"corel5k": {"1-RL": 91.7, "AP": 45.0, "AUC": 91.9}}
PUBLISHED_NAME = "best published, aligned training rows"
# What is added from the second model to the first, with all else the same.
ADDED = {
    "regulariser, to ridge": ("NAIM3L + ridge", "ridge"),
    "regulariser, to ridge on features": ("NAIM3L + ridge, features", "ridge, features"),
    "regulariser, to kernel ridge": ("NAIM3L, kernel", "ridge, kernel"),
    "features": ("NAIM3L + ridge, features", "NAIM3L + ridge"),
    "kernel": ("NAIM3L, kernel", "NAIM3L + ridge, features"),
    "yes counts twice": ("NAIM3L + ridge, features, yes counts twice", "NAIM3L + ridge, features"),
}
ADDED_TO = {
    "calibrated": "per view",
    "evidence": "fused",
    "per view": "scores per view",
    "fused": "mean of scores",
}


def _linear(dataset: str) -> str:
    return "histogram" if paper_name(dataset) in COUNTS else "scale"


def kernel_of(dataset: str, grids: Grids) -> dict[str, Any]:
    """Parameters of a dataset's kernel models that say how rows are compared."""
    name = "hellinger" if paper_name(dataset) in COUNTS else "rbf"
    return {"kernel": name, "n_landmarks": grids.n_landmarks}


def models(dataset: str, grids: Grids) -> dict[str, tuple[str, dict[str, Any]]]:
    """Method and parameters of every row of the table, by its name."""
    lam, kernel = paper_lam(dataset), kernel_of(dataset, grids)
    paper, features = {"features": "paper"}, {"features": _linear(dataset)}
    tuned = {"lams": grids.lams_with_ridge, "ridges": grids.ridges, **SEARCH}
    alone = {"ridges": grids.ridges_alone, **ALONE, **SEARCH}
    lams = grids.lams_without_ridge if lam is None else [lam]
    return {
        "NAIM3L, paper": ("model, tuned", {"lams": lams, "ridges": [0.0], **SEARCH, **paper}),
        "NAIM3L + ridge": ("model, tuned", tuned | paper),
        "NAIM3L + ridge, features": ("model, tuned", tuned | features),
        "NAIM3L + ridge, features, yes counts twice": (
            "model, tuned",
            tuned | features | {"positive_weight": 2.0},
        ),
        "NAIM3L, kernel": ("model, tuned", tuned | {"ridges": grids.kernel_ridges} | kernel),
        "NAIM3L, deep": ("deep", {**grids.deep, **features}),
        "ridge": ("model, tuned", alone | paper),
        "ridge, features": ("model, tuned", alone | features),
        "logistic, features": ("logistic, tuned", {"Cs": grids.Cs, "cv": SEARCH["cv"]} | features),
        "ridge, kernel": ("model, tuned", alone | {"ridges": grids.kernel_ridges_alone} | kernel),
        "logistic, kernel": (
            "logistic, tuned",
            {"Cs": grids.kernel_Cs, "cv": SEARCH["cv"]} | kernel,
        ),
    }


def _fits(plan: Plan, dataset: str, name: str) -> list[Task]:
    if name == COSTLY and plan.sources[dataset].labels.shape[1] > MANY_LABELS:
        plan = plan.at_most(COSTLY_SEEDS)
    method, parameters = models(dataset, plan.grids)[name]
    return plan.fits(dataset, method, parameters, protocol="clean", features="raw")


def tasks(plan: Plan) -> list[Task]:
    return [
        task
        for dataset in plan.sources
        for name, (method, _) in models(dataset, plan.grids).items()
        if method != "deep" or find_spec("torch")
        for task in _fits(plan, dataset, name)
    ]


def numbers(plan: Plan, store: Store) -> dict[str, Any]:
    """``{dataset: {model: {scoring: {metric: spread}, "seconds": spread, ...}}}``, percent."""
    results: dict[str, Any] = {}
    for dataset in plan.sources:
        for name in models(dataset, plan.grids):
            records = store.find(_fits(plan, dataset, name))
            if records:
                results.setdefault(dataset, {})[name] = _summarise(records)
    return results


def _summarise(records: list[Record]) -> dict[str, Any]:
    summary: dict[str, Any] = {"seconds": spread([record["seconds"] for record in records])}
    summary["seeds"] = [record["settings"]["seed"] for record in records]
    for scoring in ("per view", "calibrated", "fused", "evidence", "rank"):
        summary[scoring] = summarise_scoring(records, scoring)
    groups = [record["metrics"]["label AP"] for record in records]
    for name in FREQUENCY_NAMES:
        of_name = [group[name] for group in groups if group and group[name]["labels"]]
        summary[name] = spread([100 * group["AP"] for group in of_name]) if of_name else None
    return summary


def tables(numbers: dict[str, Any]) -> list[ResultTable]:
    found = [
        table
        for dataset, by_model in numbers.items()
        for table in (
            _metrics_table(dataset, by_model),
            _added_table(dataset, by_model),
            _fusion_table(dataset, by_model),
        )
    ]
    return found or [ResultTable(TITLE, ["model"])]


def _metrics_table(dataset: str, by_model: dict[str, Any]) -> ResultTable:
    header = ["model", *(f"{name}: {m}" for name in SCORINGS for m in METRICS[1:]), "seconds"]
    rows = []
    for name, values in by_model.items():
        shown = [_shown(values[scoring], m) for scoring in SCORINGS.values() for m in METRICS[1:]]
        rows.append([Cell(text) for text in (name, *shown, f"{values['seconds']['mean']:.0f}")])
    published = PUBLISHED.get(dataset)
    if published:
        last = [Cell(f"{published[m]:.1f}", "published") for m in METRICS[1:]]
        rows.append([Cell(PUBLISHED_NAME), *[Cell("–")] * len(last), *last, Cell("–")])
    return ResultTable(f"Accuracy: {dataset}", header, rows, _note(by_model))


def _added_table(dataset: str, by_model: dict[str, Any]) -> ResultTable:
    """Differences on the same splits, which vary less than splits do."""
    header = ["added", *(f"{name}: {m}" for name in ADDED_TO.values() for m in ("1-RL", "AP"))]
    rows = []
    for added, (first, second) in ADDED.items():
        if first in by_model and second in by_model:
            pair = by_model[first], by_model[second]
            texts = [_difference(*pair, scoring, m) for scoring in ADDED_TO for m in ("1-RL", "AP")]
            rows.append([Cell(text) for text in (added, *texts)])
    note = (
        "Mean difference in points over the splits on which both models can be fitted, and its "
        "95 % interval (t). Per view and fused: probabilities; last columns: uncalibrated scores, "
        "for which nothing was tuned."
    )
    return ResultTable(f"Gains: {dataset}", header, rows, note)


def _difference(first: dict[str, Any], second: dict[str, Any], scoring: str, metric: str) -> str:
    if not first[scoring] or not second[scoring]:
        return "–"
    values = [
        dict(zip(of["seeds"], of[scoring][metric]["values"], strict=True)) for of in (first, second)
    ]
    shared = [seed for seed in values[0] if seed in values[1]]
    if len(shared) < 2:
        return "–"
    difference = paired_difference(*([of[seed] for seed in shared] for of in values))
    return f"{difference['mean']:+.2f} ± {difference['margin']:.2f}"


def _fusion_table(dataset: str, by_model: dict[str, Any]) -> ResultTable:
    """AP of every way to fuse, and of labels by how many positives of them are known."""
    ways = {"mean": "fused", "ranks": "rank", "evidence": "evidence"}
    header = [
        "model",
        "AP per view, scores",
        *(f"{m}: {w}" for w in ways for m in ("AP", "1-RL")),
    ]
    header += [f"label AP, {name} positives" for name in FREQUENCY_NAMES]
    rows = []
    for name, values in by_model.items():
        shown = [_shown(values["per view"], "AP")]
        shown += [_shown(values[way], m) for way in ways.values() for m in ("AP", "1-RL")]
        shown += [mean_std(values[group]) for group in FREQUENCY_NAMES]
        rows.append([Cell(text) for text in (name, *shown)])
    note = " Label AP: mean over labels of the average precision of ranking rows, by evidence, "
    note += "grouped by the number of known positives of a label in a view."
    return ResultTable(f"Fusion and rare labels: {dataset}", header, rows, _note(by_model) + note)


def _shown(summary: Any, metric: str) -> str:
    return mean_std(summary and summary[metric])


def _note(by_model: dict[str, Any]) -> str:
    counts = [len(values["seconds"]["values"]) for values in by_model.values()]
    return (
        f"Mean (population standard deviation) in percent over {count_seeds(counts)}; CPU "
        "seconds per fit, with tuning and calibration, on one thread. Scores of networks are "
        "uncalibrated log-odds."
    )
