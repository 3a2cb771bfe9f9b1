"""Ridge regression, its shrinkage in a common label space, and blends, beside NAIM3LCV."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from naim3l import NAIM3LCV, LabelSubspaceRidge, evaluate
from naim3l.estimators import BlendNAIM3L
from naim3l_bench.absent import STUDIES, Tables
from naim3l_bench.studies import Matrix, log_loss

__all__ = ["MEASURES", "METHODS", "REFERENCE", "STUDIES", "differences", "measure_methods"]

MEASURES = ("log-loss", "macro-AUC", "label AP", "AP", "1-RL")
SOFT: dict[str, Any] = {"soft_labels": 1.0}
REFERENCE = "NAIM3LCV"
# By name, a function of the random state.
METHODS: dict[str, Any] = {
    "ridge per table": lambda seed: LabelSubspaceRidge(shrinkage=0.0, random_state=seed),
    "label subspace": lambda seed: LabelSubspaceRidge(random_state=seed),
    "label subspace, soft": lambda seed: LabelSubspaceRidge(random_state=seed, **SOFT),
    REFERENCE: lambda seed: NAIM3LCV(random_state=seed),
    "half and half": lambda seed: _blend(seed, {}, "equal"),
    "half and half, soft": lambda seed: _blend(seed, SOFT, "equal"),
    "learned weights, soft": lambda seed: _blend(seed, SOFT, "learned"),
}


def _blend(seed: int, options: dict[str, Any], weights: str) -> BlendNAIM3L:
    members = [("naim3l", NAIM3LCV()), ("subspace", LabelSubspaceRidge(**options))]
    return BlendNAIM3L(members, weights=weights, decide="guarded", random_state=seed)


def measure_methods(tables: Tables, seed: int) -> dict[str, dict[str, float]]:
    """Measures of each method's probabilities on test rows, means over tables, and seconds."""
    found = {}
    for name, make in METHODS.items():
        start = time.perf_counter()
        model = make(seed).fit(tables.X, tables.Y)
        seconds = time.perf_counter() - start
        P = model.predict_proba(tables.X_test)
        of_tables = [_measure(tables.Y_test[view], of) for view, of in P.items()]
        found[name] = {key: float(np.mean([of[key] for of in of_tables])) for key in MEASURES}
        found[name]["seconds"] = seconds
    return found


def _measure(truth: Matrix, P: Matrix) -> dict[str, float]:
    present = np.isfinite(P).all(axis=1)
    metrics = evaluate(truth[present], P[present])
    found = {key: 100 * metrics[key] for key in ("macro-AUC", "AP", "1-RL")}
    return found | {"log-loss": log_loss(truth, P), "label AP": label_ap(truth, P)}


def label_ap(truth: Matrix, P: Matrix) -> float:
    """Average precision of the rows of each label that has both values, mean in percent."""
    found = []
    for y, p in zip(truth.T, P.T, strict=True):
        used = np.isfinite(y) & np.isfinite(p)
        if len(np.unique(y[used])) == 2:
            found.append(average_precision_score(y[used], p[used]))
    return 100 * float(np.mean(found))


def differences(
    runs: Sequence[Mapping[str, Mapping[str, float]]], name: str, measure: str
) -> tuple[float, float]:
    """Mean over runs of what a method has more than the reference, and its standard error."""
    values = np.array([run[name][measure] - run[REFERENCE][measure] for run in runs])
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)
