"""All numbers of a report, as plain data."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l import __version__
from naim3l._arrays import Matrix
from naim3l._text import plain
from naim3l.decisions.bootstrap_metrics import MEAN, evaluate_blocks
from naim3l.decisions.held_out import LOWER_IS_BETTER
from naim3l.decisions.rules import Decisions
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import (
    check_explained,
    label_cooccurrence,
    label_relations,
    linear_views,
    score_spectrum,
    top_features_of_all,
    view_kernels,
    view_shares,
)
from naim3l.explain.model_views import read_truth
from naim3l.features.kernels import Kernel
from naim3l.features.recipes import Recipe
from naim3l.input.views import FUSED, WIDE_TABLE
from naim3l.report.cautions import find_cautions
from naim3l.report.evaluated_blocks import read_blocks

N_PAIRS, N_FEATURES = 20, 3
RELATED = ("together", "apart")
SEEN = "seen in training, optimistic"
# Rows are drawn in at most this many groups.
MAP_ROWS = 60


def summarise(
    model: LinearViewModel,
    X: Any,
    y: Any,
    *,
    test: tuple[Any, Any] | None = None,
    fitted: bool = True,
) -> dict[str, Any]:
    """Data, parameters, quality and cautions of a fitted model, as plain data.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    X : mapping of str to table, or one wide table
        Tables of the fit.
    y : mapping of str to label table, or one label table
        Labels of the rows of ``X``.
    test : tuple (X, y), optional
        Tables and labels that the model has not seen, in the same form. Without them, quality is
        that of entries held out by `compare`, or else measured on the known
        training entries, and the summary says so.
    fitted : bool, default=True
        False if ``X`` and ``y`` are not the tables of the fit; they may contain only some of its
        views. Quality is then measured on them, and nothing is reported about the training rows.

    Returns
    -------
    dict
        Plain data that can be stored as JSON, with None for NaN:

        - "version", "model" (class, parameters, the lam and ridge used, and for evidence fusion the
          means over labels of the view weights and of the overlap);
        - "data": sizes, missing ratios and their maps, see `describe_data`;
        - "choice", "convergence": see `describe_choice` and `describe_convergence`, or None;
        - "quality": "on" ("test", "held-out", "training", or "given" where not ``fitted``),
          "caveat", and "blocks", see `evaluate_blocks` in
          `naim3l.decisions.bootstrap_metrics`;
        - "labels": a dict for each label and block, as `evaluate_blocks` returns it, but with
          known "yes" and "no" of the fit, "frequency" of yes among them, and "measured_yes" and
          "measured_no" of what was measured; "threshold", "slope" and "own_curve" of the
          calibration;
        - "calibration": see `measure_calibration` there, for each block that has one;
        - "columns": for each view with a plan, how its columns are used (dicts with "name", "kind",
          "missing", "use", and "reason" if they are not used);
        - "cooccurrence": pairs of labels that occur together, or apart, in the labels of ``y``:
          "pairs", the strongest 20 of `naim3l.explain.label_cooccurrence` that are unlikely to be
          a coincidence, and the numbers "n_pairs", "n_related" and "n_too_few" of all pairs;
        - "relations": the pairs of labels whose scores are most alike; "shares": mean share of each
          view in the variance of scores; "features": columns with the largest positive and negative
          weights for each label, in views without a kernel; empty if all views have one;
        - "spectrum": see `naim3l.explain.score_spectrum`;
        - "cautions": see `cautions.find_cautions`.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.report import summarise
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> summary = summarise(model, data.views, data.labels)
    >>> summary["convergence"]["converged"], summary["quality"]["on"]
    (True, 'training')
    >>> [round(label["f1"], 2) for label in summary["labels"] if label["view"] == "view1"]
    [0.98, 0.96, 0.97]
    """
    check_explained(model)
    if test is not None and not fitted:
        raise ValueError("test= is for reports with the tables of the fit; give one of the two.")
    on = "test" if test is not None else "training" if fitted else "given"
    if on == "training" and hasattr(model, "held_out_"):
        on, measured = "held-out", model.held_out_
    else:
        blocks = read_blocks(model, *((X, y) if test is None else test))
        measured = evaluate_blocks(blocks, model.label_names_)
    truth = read_truth(model, X, y)
    counts = count_by_block(model, truth)
    summary: dict[str, Any] = {
        "version": __version__,
        "model": _describe_model(model),
        "data": describe_data(model, X, truth),
        "choice": describe_choice(model),
        "convergence": describe_convergence(model),
        "quality": {
            "on": on,
            "caveat": SEEN if on == "training" else None,
            "blocks": measured["blocks"],
        },
        "labels": [_label_entry(model, entry, counts) for entry in measured["labels"]],
        "calibration": measured["calibration"],
        "columns": _columns(model),
        "cooccurrence": _cooccurrence(model, X, y),
        "relations": _relations(model, X),
        "shares": {view: _mean(share) for view, share in view_shares(model, X).items()},
        "features": _features(model, X),
        "spectrum": score_spectrum(model, X, y),
    }
    summary = plain(summary)
    summary["cautions"] = find_cautions(summary)
    return summary


def _describe_model(model: LinearViewModel) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    decisions, weights = Decisions.of(model.decide), model.fusion_weights_
    overlap = model.fusion_overlap_
    return {
        "class": type(model).__name__,
        "parameters": plain(parameters, other=_show_object),
        "rule": decisions.rule,
        "fusion": decisions.fusion,
        "lam": getattr(model, "lam_", parameters.get("lam")),
        "ridge": getattr(model, "ridge_", parameters.get("ridge")),
        "label_names": list(model.label_names_),
        "views": list(model.views_),
        "fusion_weights": weights and {view: float(np.mean(of)) for view, of in weights.items()},
        "fusion_overlap": None if overlap is None else float(np.mean(overlap)),
    }


def _show_object(value: Any) -> str:
    """A parameter that is an object: its class, and for our own the values that are not usual."""
    if not isinstance(value, Recipe | Kernel | Decisions):
        return f"{value.__name__}()" if hasattr(value, "__name__") else type(value).__name__
    first, *others = fields(value)
    shown = [repr(plain(getattr(value, first.name), other=_show_object))]
    for field in others:
        if (given := getattr(value, field.name)) != field.default:
            shown.append(f"{field.name}={plain(given, other=_show_object)!r}")
    return f"{type(value).__name__}({', '.join(shown)})"


def _label_entry(
    model: LinearViewModel, entry: dict[str, Any], counts: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """A measured label, with its numbers at the fit, its threshold and its calibration curve."""
    k, view = model.label_names_.index(entry["label"]), entry["view"]
    known = counts[view][k]
    n = known["yes"] + known["no"]
    curve, at = model.decisions_.calibrations.get(view), model.thresholds_.get(view)
    return {
        **entry,
        "yes": known["yes"],
        "no": known["no"],
        "frequency": known["yes"] / n if n else None,
        "measured_yes": entry["yes"],
        "measured_no": entry["no"],
        "threshold": None if at is None else float(at[k]),
        "slope": None if curve is None else float(curve.slope[k]),
        "own_curve": None if curve is None else bool(curve.own[k]),
    }


def _cooccurrence(model: LinearViewModel, X: Any, y: Any) -> dict[str, Any]:
    pairs = label_cooccurrence(model, X, y)
    related = [pair for pair in pairs if pair.verdict in RELATED]
    return {
        "pairs": [pair._asdict() for pair in related[:N_PAIRS]],
        "n_pairs": len(pairs),
        "n_related": len(related),
        "n_too_few": sum(pair.verdict == "too few" for pair in pairs),
    }


def _relations(model: LinearViewModel, X: Any) -> list[dict[str, Any]]:
    cosines = label_relations(model, X)
    first, second = np.triu_indices(len(cosines), 1)
    values = cosines[first, second]
    names = model.label_names_
    return [
        {"first": names[first[i]], "second": names[second[i]], "cosine": float(values[i])}
        for i in np.argsort(-np.abs(values), kind="stable")[:N_PAIRS]
    ]


def _features(model: LinearViewModel, X: Any) -> list[dict[str, Any]]:
    if not linear_views(model):
        return []
    return [
        {"label": label} | {side: [f._asdict() for f in found] for side, found in sides.items()}
        for label, sides in top_features_of_all(model, N_FEATURES, X).items()
    ]


def _mean(shares: np.ndarray) -> float:
    known = shares[~np.isnan(shares)]
    return float(known.mean()) if len(known) else float("nan")


def describe_data(model: LinearViewModel, X: Any, truth: dict[str, Matrix]) -> dict[str, Any]:
    """Sizes and missing ratios of tables whose labels are ``truth``, see `read_truth`.

    Returns
    -------
    dict
        "form" ("separate" or "wide"), "n_rows" and "unknown" (share of label entries) over all
        tables, "views" (a dict for each), "labels" (numbers of known yes and no, and share of
        unknown entries, over all tables), and "maps", one for each label table: "name", "n_rows",
        "unknown" (shares by group of rows and label) and "lacking" (for each view, the share of
        rows without it in each group).
    """
    scores = model.view_scores(X)
    present = {view: np.asarray(~np.isnan(S).any(axis=1)) for view, S in scores.items()}
    # A wide table has one label table, and all of its views are drawn next to it.
    wide = model.names_.wide
    if wide:
        groups = {"all views": (truth[WIDE_TABLE], present)}
    else:
        groups = {view: (truth[view], {view: present[view]}) for view in scores}
    stacked = np.concatenate([labels for labels, _ in groups.values()])
    return {
        "form": "wide" if wide else "separate",
        "n_rows": len(stacked),
        "n_labels": stacked.shape[1],
        "unknown": float(np.isnan(stacked).mean()),
        "lacking": float(1 - np.mean(np.concatenate(list(present.values())))),
        "views": [
            _describe_view(model, view, present[view], truth[model.names_.table_of(view)])
            for view in scores
        ],
        "labels": [
            {"label": name} | count
            for name, count in zip(model.label_names_, count_entries(stacked), strict=True)
        ],
        "maps": [_map(name, labels, has) for name, (labels, has) in groups.items()],
    }


def count_entries(truth: Matrix) -> list[dict[str, Any]]:
    """Numbers of known yes and no, and the share of unknown entries, for each label."""
    yes, no = (truth == 1).sum(axis=0), (truth == 0).sum(axis=0)
    unknown = np.isnan(truth).mean(axis=0)
    return [
        {"yes": int(y), "no": int(n), "unknown": float(u)}
        for y, n, u in zip(yes, no, unknown, strict=True)
    ]


def count_by_block(
    model: LinearViewModel, truth: dict[str, Matrix]
) -> dict[str, list[dict[str, Any]]]:
    """`count_entries` for the rows of each view, and of all views together.

    The latter are those of the mean over views, and of fused predictions.
    """
    together = count_entries(np.concatenate(list(truth.values())))
    if model.names_.wide:
        return {FUSED: together}
    counts = {view: count_entries(labels) for view, labels in truth.items()}
    return counts | {MEAN: together, FUSED: together}


def _describe_view(
    model: LinearViewModel, view: str, present: NDArray[np.bool_], truth: Matrix
) -> dict[str, Any]:
    known, kernel = truth[present], view_kernels(model)[view]
    return {
        "name": view,
        "n_rows": len(present),
        "n_present": int(present.sum()),
        "lacking": float(1 - present.mean()),
        "n_columns": len(model.names_.used[view]),
        "n_features": int(model.coef_[view].shape[0]),
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "unknown": float(np.isnan(known).mean()) if known.size else None,
        "dropped": _dropped(model, view),
    }


def _dropped(model: LinearViewModel, view: str) -> list[str]:
    """Columns that the view's recipe dropped because they are constant."""
    if view in model.columns_:
        return [column.name for column in model.columns_[view] if column.constant]
    recipe, names = model.features_[view].recipe, model.names_.column_labels(view)
    return [] if recipe is None else [names[j] for j in np.flatnonzero(~recipe.kept)]


def _columns(model: LinearViewModel) -> dict[str, list[dict[str, Any]]]:
    return {
        view: [
            {
                "name": column.name,
                "kind": column.kind,
                "missing": column.missing,
                "use": "dropped" if column.constant else column.use,
                "reason": column.dropped or ("constant" if column.constant else ""),
            }
            for column in columns
        ]
        for view, columns in model.columns_.items()
    }


def _map(name: str, truth: Matrix, present: dict[str, NDArray[np.bool_]]) -> dict[str, Any]:
    groups = np.array_split(np.arange(len(truth)), min(MAP_ROWS, len(truth)))
    return {
        "name": name,
        "n_rows": len(truth),
        "unknown": [np.isnan(truth[rows]).mean(axis=0).round(3).tolist() for rows in groups],
        "lacking": {
            view: [round(float(1 - has[rows].mean()), 3) for rows in groups]
            for view, has in present.items()
        },
    }


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
