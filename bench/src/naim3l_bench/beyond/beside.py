"""What a user would try instead, and what a ridge adds: tuned per-view ridge, tuned NAIM3L."""

from typing import Any

from naim3l_bench.paper.comparison import MetricTable, variant_fits
from naim3l_bench.tasks import Plan, Task

RIDGES = [0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0]
TUNED = {"lams": [0.1, 0.2, 0.4, 0.8, 1.6], "ridges": [0.3, 3.0, 10.0]}


def _ridge(plan: Plan, dataset: str, **options: Any) -> list[Task]:
    return plan.fits(dataset, "ridge, tuned", {"ridges": RIDGES, "cv": 3}, **options)


def _tuned(plan: Plan, dataset: str, **options: Any) -> list[Task]:
    return plan.fits(dataset, "NAIM3L, tuned", TUNED, **options)


BESIDE = MetricTable(
    "Baselines: per-view ridge, and NAIM3L with a ridge, tuned on the same folds",
    {},
    {"NAIM3L": variant_fits, "NAIM3L with ridge, tuned": _tuned, "ridge, tuned": _ridge},
)
