"""All numbers of a report, as plain data."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from naim3l import __version__
from naim3l._arrays import Mask, Matrix
from naim3l._text import plain
from naim3l.decisions.bootstrap_metrics import MEAN, evaluate_blocks
from naim3l.decisions.borrowing import describe_absent
from naim3l.decisions.held_out import LOWER_IS_BETTER, mean_defined
from naim3l.decisions.rates import list_cuts, measure_rates
from naim3l.decisions.rules import Decisions
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.training import today
from naim3l.explain import informing_labels
from naim3l.explain.column_weights import strongest_columns
from naim3l.explain.model_views import check_explained, linear_views, read_truth, view_kernels
from naim3l.features.kernels import Kernel
from naim3l.features.recipes import Recipe
from naim3l.input.views import FUSED, WIDE_TABLE
from naim3l.report.evaluated_blocks import read_blocks
from naim3l.report.findings import find_cautions
from naim3l.report.label_pairs import compare_pairs
from naim3l.report.titles import titles_of_model, with_titles

N_PAIRS, N_FEATURES = 20, 3
MAP_ROWS = 60  # groups of rows that are drawn, at most


def summarise(
    model: LinearViewModel,
    X: Any,
    y: Any,
    *,
    test: Any = None,
    fitted: bool = True,
    titles: Mapping[str, str] | None = None,
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
        that of entries held out by `compare`, or else of the training entries.
    fitted : bool, default=True
        False if ``X`` and ``y`` are not the tables of the fit; they may contain only some of its
        views. Quality is then measured on them, and nothing is reported about the training rows.
    titles : mapping of str to str, optional
        Titles of labels and columns, by their names, which the page shows. By default those that
        the model has from ``naim3l fit``, if any.

    Returns
    -------
    dict
        Plain data that can be stored as JSON, with None for NaN:

        - "version" and "date" of the report, "made" (those of the fit), "titles" of names;
        - "model" (class, parameters, the lam and ridge used, weights of fused views);
        - "data": sizes, shares of missing entries, known yes and no of each label, and "maps",
          shares of unknown labels and lacking views by group of rows;
        - "choice": held-out metric of every pair of lam and ridge; None without a choice;
        - "convergence": objective and stationarity after each iteration; None without iterations;
        - "quality": "on" ("test", "held-out", "training", or "given" where not ``fitted``),
          "by" ("rows" or "entries", if they were held out), "caveat", and "blocks", with metrics
          and intervals of each view and of fused scores;
        - "labels": for each label and block its metrics, known "yes" and "no" of the fit and
          "frequency" of yes, "measured_yes" and "measured_no", "threshold" and calibration,
          "rates" (sensitivity, specificity and predictive values at the cut, with intervals), and
          what several "cuts" find and miss of 1,000 rows;
        - "calibration": probabilities and shares of yes in bins, for each block that has some;
        - "columns": for each view with a plan, how its columns are used, with the "reason" if not;
        - "cooccurrence": the 20 clearest "pairs" of labels that are yes together more or less often
          than coincidence explains, with their "lift" and its interval, and numbers of pairs;
        - "bridge": what known labels of a row say about its others: by which share that lowers
          the log-loss of held-out labels ("gain"), and the clearest "pairs" of
          `naim3l.explain.informing_labels`; None without probabilities;
        - "absent": labels that a view never records, and how they are predicted there;
        - "shares": mean share of each view in the variance of scores; "features": columns with the
          largest positive and negative weights for each label, in views without a kernel;
        - "cautions": what to be careful about, as dicts with "rule", "sentence", and "note" if a
          reader can do nothing about it now.

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
    caveat = "seen in training, optimistic" if on == "training" else None
    truth = read_truth(model, X, y)
    # Those of all tables belong to the mean over views, and to fused predictions.
    together = _count(np.concatenate(list(truth.values())))
    counts = {table: _count(labels) for table, labels in truth.items()}
    counts |= {MEAN: together, FUSED: together}
    summary: dict[str, Any] = {
        "version": __version__,
        "date": today(),
        "made": dict(model.made_),
        "titles": dict(model.titles_ if titles is None else titles_of_model(model, titles)),
        "model": _describe_model(model),
        "data": _describe_data(model, X, truth),
        "choice": _describe_choice(model),
        "convergence": _describe_convergence(model),
        "quality": {
            "on": on,
            "by": measured.get("by"),
            "shared": measured.get("shared", []),
            "caveat": caveat,
            "blocks": measured["blocks"],
        },
        "labels": [_label_entry(model, entry, counts) for entry in measured["labels"]],
        "calibration": measured["calibration"],
        "columns": {view: _columns(plans) for view, plans in model.columns_.items()},
        "cooccurrence": _cooccurrence(model, truth),
        "bridge": _bridge(model),
        "shares": {view: mean_defined(share) for view, share in view_shares(model, X).items()},
        "features": _features(model, X) if linear_views(model) else [],
    }
    summary["absent"] = _absent(model, summary["titles"])
    summary = plain(summary)
    return summary | {"cautions": find_cautions(summary)}


def _describe_model(model: LinearViewModel) -> dict[str, Any]:
    parameters, decisions = model.get_params(deep=False), Decisions.of(model.decide)
    return {
        "class": type(model).__name__,
        "parameters": plain(parameters, other=_show_object),
        "rule": decisions.rule,
        "fusion": decisions.fusion,
        "lam": getattr(model, "lam_", parameters.get("lam")),
        "ridge": getattr(model, "ridge_", parameters.get("ridge")),
        "label_names": list(model.label_names_),
        "views": list(model.views_),
        "fusion_overlap": model.fusion_overlap_,
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


def _label_entry(model: Any, entry: dict[str, Any], counts: dict[str, Any]) -> dict[str, Any]:
    """A measured label, with its numbers at the fit, its threshold and its calibration curve."""
    k, view = model.label_names_.index(entry["label"]), entry["view"]
    yes, no = (counts[view][k][word] for word in ("yes", "no"))
    curve, at = model.decisions_.calibrations.get(view), model.thresholds_.get(view)
    known = {"yes": yes, "no": no, "frequency": yes / (yes + no) if yes + no else None}
    measured = {"measured_yes": entry["yes"], "measured_no": entry["no"]}
    measured |= {"rates": measure_rates(entry), "cuts": list_cuts(entry)}
    return {
        **(entry | known | measured),
        "threshold": None if at is None else at[k],
        "slope": None if curve is None else curve.slope[k],
        "own_curve": None if curve is None else curve.own[k],
    }


def _cooccurrence(model: LinearViewModel, truth: dict[str, Matrix]) -> dict[str, Any]:
    pairs = compare_pairs(np.concatenate(list(truth.values())), model.label_names_)
    related = [pair for pair in pairs if pair.verdict in ("together", "apart")]
    return {
        "pairs": [pair._asdict() for pair in related[:N_PAIRS]],
        "n_pairs": len(pairs),
        "n_related": len(related),
        "n_too_few": sum(pair.verdict == "too few" for pair in pairs),
    }


def _bridge(model: LinearViewModel) -> dict[str, Any] | None:
    bridge, pairs = model.decisions_.bridge, informing_labels(model)
    clear = [pair._asdict() for pair in pairs if pair.low > 0 or pair.high < 0]
    if bridge is None:
        return None
    return {"gain": bridge.gain, "n_pairs": len(pairs), "pairs": clear[:N_PAIRS]}


def _absent(model: LinearViewModel, titles: Mapping[str, str]) -> dict[str, Any]:
    absent, simulated = model.absent_labels_, model.decisions_.simulation
    shown = with_titles(absent, titles)
    return {
        "labels": [vars(each) for each in absent],
        "simulation": None if simulated is None else vars(simulated),
        "sentences": describe_absent(shown, simulated),
        "unusable": describe_absent([of for of in shown if of.obstacle or not of.tables], None),
    }


def view_shares(model: LinearViewModel, X: Any) -> dict[str, Matrix]:
    """Share of each view in the variance of the scores, (n_labels,); NaN where they are constant.

    Where the views of a wide table are fused by evidence, it is the variance of the log-odds that
    the view contributes.
    """
    evidence, variances = model.decisions_.evidence, {}
    for view, S in model.view_scores(X).items():
        present = S[~np.isnan(S).any(axis=1)]
        differ = (present != present[:1]).any(axis=0)  # the mean of equal scores is rounded
        variances[view] = (
            np.where(differ, present.var(axis=0), 0.0) if len(present) else 0.0 * differ
        )
        if evidence is not None:
            curve = evidence.calibrations[model.views_.index(view)]
            variances[view] = variances[view] * (curve.slope / curve.spread) ** 2
    total = np.sum(list(variances.values()), axis=0)
    divisor = np.where(total > 0, total, np.nan)
    return {view: variance / divisor for view, variance in variances.items()}


def _features(model: LinearViewModel, X: Any) -> list[dict[str, Any]]:
    return [
        {"label": label} | {side: [f._asdict() for f in found] for side, found in sides.items()}
        for label, sides in strongest_columns(model, model.label_names_, N_FEATURES, X).items()
    ]


def _describe_data(model: LinearViewModel, X: Any, truth: dict[str, Matrix]) -> dict[str, Any]:
    """Sizes and missing ratios of tables whose labels are ``truth``, see `read_truth`."""
    scores, wide = model.view_scores(X), model.names_.wide
    present = {view: np.asarray(~np.isnan(S).any(axis=1)) for view, S in scores.items()}
    groups = {view: (truth[view], {view: present[view]}) for view in scores if not wide}
    if wide:  # all views are drawn next to the one label table
        groups = {"all views": (truth[WIDE_TABLE], present)}
    stacked = np.concatenate([labels for labels, _ in groups.values()])
    counts = zip(model.label_names_, _count(stacked), strict=True)
    return {
        "form": "wide" if wide else "separate",
        "n_rows": len(stacked),
        "n_labels": stacked.shape[1],
        "unknown": float(np.isnan(stacked).mean()),
        "lacking": float(1 - np.mean(np.concatenate(list(present.values())))),
        "views": [_describe_view(model, view, has, truth) for view, has in present.items()],
        "labels": [{"label": name} | count for name, count in counts],
        "maps": [_map(name, labels, has) for name, (labels, has) in groups.items()],
    }


def _count(truth: Matrix) -> list[dict[str, Any]]:
    """Numbers of known yes and no, and the share of unknown entries, for each label."""
    yes, no = (truth == 1).sum(axis=0), (truth == 0).sum(axis=0)
    counts = zip(yes, no, np.isnan(truth).mean(axis=0), strict=True)
    return [dict(zip(("yes", "no", "unknown"), of_label, strict=True)) for of_label in counts]


def _describe_view(model: Any, view: str, present: Mask, truth: Any) -> dict[str, Any]:
    known, kernel = truth[model.names_.table_of(view)][present], view_kernels(model)[view]
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


def _columns(plans: list[Any]) -> list[dict[str, Any]]:
    return [
        {"name": column.name, "kind": column.kind, "missing": column.missing}
        | {"use": "dropped" if column.constant else column.use}
        | {"reason": column.dropped or ("constant" if column.constant else "")}
        for column in plans
    ]


def _map(name: str, truth: Matrix, present: dict[str, Mask]) -> dict[str, Any]:
    groups = np.array_split(np.arange(len(truth)), min(MAP_ROWS, len(truth)))
    return {
        "name": name,
        "n_rows": len(truth),
        "unknown": [np.isnan(truth[rows]).mean(axis=0).round(3).tolist() for rows in groups],
        "lacking": {
            view: [round(1 - has[rows].mean(), 3) for rows in groups]
            for view, has in present.items()
        },
    }


def _describe_choice(model: LinearViewModel) -> dict[str, Any] | None:
    """Held-out metric of every pair of lam and ridge; None where nothing was chosen."""
    results = getattr(model, "cv_results_", None)
    if results is None:
        return None
    tried = {name: np.asarray(results[name]) for name in ("lam", "ridge")}
    mean, std = results["mean_test_score"], results["std_test_score"]
    chosen = {"lam": float(model.lam_), "ridge": float(model.ridge_)}
    (place,) = np.flatnonzero(np.all([tried[name] == chosen[name] for name in tried], axis=0))[:1]
    curves = []
    for ridge in np.unique(tried["ridge"]):
        at = np.flatnonzero(tried["ridge"] == ridge)
        at = at[np.argsort(tried["lam"][at])]
        curve = {"lam": tried["lam"], "mean": mean, "std": std}
        curves.append({"ridge": ridge} | {key: values[at] for key, values in curve.items()})
    return {
        "metric": model.metric_,
        "lower_is_better": model.metric_ in LOWER_IS_BETTER,
        "n_folds": int(model.get_params(deep=False)["cv"]),
        "chosen": chosen | {"mean": float(mean[place]), "std": float(std[place])},
        "curves": curves,
        # Ends of the range tried that could be extended; a ridge of 0 cannot.
        "at_edge": [
            name
            for name, values in tried.items()
            if min(values) < max(values)
            and (chosen[name] == max(values) or chosen[name] == min(values) > 0)
        ],
        "n_pairs": len(mean),
        "n_close": int((np.abs(mean - mean[place]) <= std[place]).sum()) - 1,
    }


def _describe_convergence(model: LinearViewModel) -> dict[str, Any] | None:
    """Convergence of the fit; None for a model that is not fitted iteratively."""
    history = getattr(model, "history_", None)
    if not history:
        return None
    parameters = model.get_params(deep=False)
    fit: dict[str, Any] = {"converged": bool(model.converged_), "n_iter": int(model.n_iter_)}
    fit |= {"max_iter": int(parameters["max_iter"]), "tol": float(parameters["tol"])}
    return fit | {
        name: [float(record[name]) for record in history] if name in history[-1] else None
        for name in ("objective", "stationarity")
    }
