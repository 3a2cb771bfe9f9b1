"""Ridge regression, its shrinkage in a common label space, and blends, beside NAIM3LCV."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from naim3l import NAIM3LCV, LabelSubspaceRidge, PerViewLogistic, evaluate
from naim3l.estimators import BlendNAIM3L
from naim3l_bench.candidates import compare_on_held_out
from naim3l_bench.clock import timed
from naim3l_bench.studies import STRENGTHS, Matrix, Tables, log_loss

MEASURES = ("log-loss", "macro-AUC", "label AP", "AP", "1-RL")
SOFT: dict[str, Any] = {"soft_labels": 1.0}
REFERENCE, LOGISTIC = "NAIM3LCV", "logistic regression per table"
APART = ", tables apart"
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


def fit_logistic(tables: Tables, seed: int) -> PerViewLogistic:
    """Logistic regression per table, with the strength that is best on held-out entries."""
    candidates = [PerViewLogistic(C, decide="sign") for C in STRENGTHS]
    options: dict[str, Any] = {"cv": 3, "metric": "macro-AUC", "random_state": seed}
    best, _ = compare_on_held_out(candidates, tables.X, tables.Y, **options)
    model = PerViewLogistic(STRENGTHS[best], decide="guarded", random_state=seed)
    return model.fit(tables.X, tables.Y)


def _fit(name: str, tables: Tables, seed: int) -> Any:
    if name == LOGISTIC:
        return fit_logistic(tables, seed)
    return METHODS[name](seed).fit(tables.X, tables.Y)


def predict(name: str, tables: Tables, seed: int) -> tuple[dict[str, Matrix], float]:
    """Probabilities of the test rows by a method, and CPU seconds of its fit.

    A name that ends with `APART` is a method that is fitted to each table by itself.
    """
    if not name.endswith(APART):
        model, seconds = timed(_fit, name, tables, seed)
        return model.predict_proba(tables.X_test), seconds
    alone = [predict(name.removesuffix(APART), tables.only(view), seed) for view in tables.X]
    P = {view: of_rows for found, _ in alone for view, of_rows in found.items()}
    return P, sum(seconds for _, seconds in alone)


def measure_methods(tables: Tables, seed: int) -> dict[str, dict[str, float]]:
    """Measures of each method's probabilities on test rows, means over tables, and seconds."""
    found = {}
    for name in METHODS:
        P, seconds = predict(name, tables, seed)
        found[name] = mean_of(measure_tables(tables, P)) | {"seconds": seconds}
    return found


def guess(tables: Tables) -> dict[str, Matrix]:
    """Frequencies of labels in each table, for each of its test rows."""
    P = {}
    for view, Y in tables.Y.items():
        known, yes = np.isfinite(Y).sum(axis=0), np.nansum(Y, axis=0)
        P[view] = np.broadcast_to((yes + 1) / (known + 2), tables.Y_test[view].shape)
    return P


def measure_tables(tables: Tables, P: Mapping[str, Matrix]) -> dict[str, dict[str, float]]:
    """Measures of the probabilities of the test rows of each table."""
    return {view: _measure(tables.Y_test[view], of) for view, of in P.items()}


def mean_of(measured: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Means over tables."""
    return {key: float(np.mean([of[key] for of in measured.values()])) for key in MEASURES}


def _measure(truth: Matrix, P: Matrix) -> dict[str, float]:
    present = np.isfinite(P).all(axis=1)
    metrics = evaluate(truth[present], P[present], threshold=0.5)
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
    runs: Sequence[Mapping[str, Mapping[str, float]]],
    name: str,
    measure: str,
    reference: str = REFERENCE,
) -> tuple[float, float]:
    """Mean over runs of what a method has more than the reference, and its standard error."""
    values = np.array([run[name][measure] - run[reference][measure] for run in runs])
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)
