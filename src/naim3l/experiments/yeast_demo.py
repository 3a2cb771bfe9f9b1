"""The demonstration on yeast: the model, its variants and a tuned ridge under all challenges."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from naim3l.datasets import load_yeast
from naim3l.estimators import PerViewRidge
from naim3l.estimators.candidates import best_on_held_out
from naim3l.estimators.naim3l import NAIM3L
from naim3l.experiments.trials import METRICS
from naim3l.metrics import evaluate
from naim3l.missing import make_challenge

LAM = 0.4
# With two views, half of the rows cannot leave both: the first positive of each label stays in
# both, and everyone else in one. This is the most that leaves every split possible.
ALPHA = 0.497
BETA = 0.5
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
LAMS_AND_RIDGES = [(lam, ridge) for lam in (0.1, 0.4, 1.6) for ridge in (0.0, 1.0, 10.0)]

Fit = Callable[[Mapping[str, Any], Mapping[str, Any], int], Any]


def _naim3l(**terms: Any) -> Fit:
    return lambda X, Y, seed: NAIM3L(LAM, ridge=0.0, random_state=seed, **terms).fit(X, Y)


def _tuned_ridge(X: Mapping[str, Any], Y: Mapping[str, Any], seed: int) -> Any:
    return best_on_held_out([PerViewRidge(r) for r in RIDGES], X, Y, random_state=seed)


def _tuned_naim3l(pairs: Sequence[tuple[float, float]]) -> Fit:
    def fit(X: Mapping[str, Any], Y: Mapping[str, Any], seed: int) -> Any:
        candidates = [NAIM3L(lam, ridge=ridge, random_state=seed) for lam, ridge in pairs]
        return best_on_held_out(candidates, X, Y, random_state=seed)

    return fit


def demo_methods(pairs: Sequence[tuple[float, float]] = LAMS_AND_RIDGES) -> dict[str, Fit]:
    """What the demonstration compares, by name; ``pairs`` of lam and ridge are tried in tuning."""
    return {
        "NAIM3L": _naim3l(),
        "NAIM3L-II (low rank only)": _naim3l(high_rank=False),
        "NAIM3L-I (loss only)": _naim3l(low_rank=False, high_rank=False),
        "NAIM3L, lam and ridge tuned": _tuned_naim3l(pairs),
        "per-view ridge, tuned": _tuned_ridge,
    }


METHODS = demo_methods()


def run_demo(
    seeds: Iterable[int],
    *,
    methods: Mapping[str, Fit] = METHODS,
    on_record: Callable[[dict[str, Any]], Any] | None = None,
) -> list[dict[str, Any]]:
    """Metrics of every method on every seed, a record each, in percent.

    Each seed draws a split, hidden labels, removed views and row orders; all methods get the
    same. Metrics are taken per view on complete test views and averaged over views.

    Parameters
    ----------
    seeds : iterable of int
    methods : mapping of str to callable
        Fitted model of training tables, labels and a seed, by name.
    on_record : callable, optional
        Called with each record as soon as it is complete.
    """
    data = load_yeast()
    records = []
    for seed in seeds:
        plan = make_challenge(
            data.labels, len(data.views), alpha=ALPHA, beta=BETA, random_state=seed
        )
        trial = plan.apply(data.views, data.labels)
        for method, fit in methods.items():
            model = fit(trial.X_train, trial.Y_train, seed)
            result = evaluate(trial.Y_test, model.decision_function(trial.X_test))
            record: dict[str, Any] = {"method": method, "seed": seed}
            record |= {name: 100 * result[name] for name in METRICS}
            records.append(record)
            if on_record is not None:
                on_record(record)
    return records


def summarise(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and population standard deviation of each metric of each method over the seeds."""
    by_method: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_method.setdefault(record["method"], []).append(record)
    return {
        method: {
            name: (
                float(np.mean([record[name] for record in group])),
                float(np.std([record[name] for record in group])),
            )
            for name in METRICS
        }
        for method, group in by_method.items()
    }
