"""How a model was fitted: the choice of its parameters, and convergence."""

from typing import Any

import numpy as np

from naim3l.decisions.held_out import LOWER_IS_BETTER
from naim3l.estimators.linear import LinearViewModel


def describe_choice(model: LinearViewModel) -> dict[str, Any] | None:
    """Held-out metric of every pair of lam and ridge; None where nothing was chosen.

    Returns
    -------
    dict
        "metric", "lower_is_better", "n_folds"; "chosen" with "lam", "ridge", "mean" and "std";
        "curves", a dict for each ridge with lists "lam", "mean" and "std" (over the folds), None
        where the objective is unbounded; "at_edge", which of "lam" and "ridge" are the
        smallest or largest of several values tried; "n_close", the number of other pairs within one
        standard deviation of the chosen one.
    """
    results = getattr(model, "cv_results_", None)
    if results is None:
        return None
    metric = model.metric_
    lams, ridges = np.asarray(results["lam"]), np.asarray(results["ridge"])
    mean, std = results["mean_test_score"], results["std_test_score"]
    chosen = {"lam": float(model.lam_), "ridge": float(model.ridge_)}
    place = int(np.flatnonzero((lams == chosen["lam"]) & (ridges == chosen["ridge"]))[0])
    curves = []
    for ridge in np.unique(ridges):
        at = np.flatnonzero(ridges == ridge)
        at = at[np.argsort(lams[at])]
        curve = {"lam": lams[at], "mean": mean[at], "std": std[at]}
        curves.append({"ridge": float(ridge)} | {k: v.tolist() for k, v in curve.items()})
    close = np.abs(mean - mean[place]) <= std[place]
    return {
        "metric": metric,
        "lower_is_better": metric in LOWER_IS_BETTER,
        "n_folds": int(model.get_params(deep=False)["cv"]),
        "chosen": chosen | {"mean": float(mean[place]), "std": float(std[place])},
        "curves": curves,
        "at_edge": [
            name
            for name, values in (("lam", lams), ("ridge", ridges))
            if len(set(values)) > 1 and chosen[name] in _open_ends(name, values)
        ],
        "n_pairs": len(lams),
        "n_close": int(close.sum()) - 1,
    }


def _open_ends(name: str, values: Any) -> tuple[float, ...]:
    """Ends of the range tried that could be extended; a ridge of 0 cannot."""
    low, high = float(min(values)), float(max(values))
    return (high,) if name == "ridge" and low == 0 else (low, high)


def describe_convergence(model: LinearViewModel) -> dict[str, Any] | None:
    """Convergence of the fit; None for a model that is not fitted iteratively."""
    history = getattr(model, "history_", None)
    if not history:
        return None
    parameters = model.get_params(deep=False)
    return {
        "converged": bool(model.converged_),
        "n_iter": int(model.n_iter_),
        "max_iter": int(parameters["max_iter"]),
        "tol": float(parameters["tol"]),
        "objective": [float(record["objective"]) for record in history],
        "stationarity": [float(record["stationarity"]) for record in history]
        if "stationarity" in history[-1]
        else None,
    }
