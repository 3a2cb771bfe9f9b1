"""All numbers of a report, as plain data."""

from dataclasses import asdict
from typing import Any

import numpy as np

from naim3l import __version__
from naim3l._text import plain
from naim3l.decisions.quality import measure
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import (
    check_explained,
    label_cooccurrence,
    label_relations,
    linear_views,
    score_spectrum,
    top_features_of_all,
    view_shares,
)
from naim3l.report.cautions import find_cautions
from naim3l.report.fitting import describe_choice, describe_convergence
from naim3l.report.inputs import count_by_block, describe_data
from naim3l.report.judged import read_blocks

N_PAIRS, N_FEATURES = 20, 3
RELATED = ("together", "apart")
SEEN = "seen in training, optimistic"


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
        that of entries held out in the fit (``compare=True``), or else measured on the known
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
        - "data": sizes, missing ratios and their maps, see `inputs.describe_data`;
        - "choice", "convergence": see `fitting`, or None;
        - "quality": "on" ("test", "held-out", "training", or "given" where not ``fitted``),
          "caveat", and "blocks", see `naim3l.decisions.quality.measure`;
        - "labels": a dict for each label and block, as `measure` returns it, but with known "yes"
          and "no" of the fit, "frequency" of yes among them, and "measured_yes" and "measured_no"
          of what was measured; "threshold", "slope" and "own_curve" of the calibration;
        - "calibration": see `quality.measure_calibration`, for each block that has one;
        - "columns": for each view, what became of its columns (dicts with "name", "kind",
          "missing", "use" and "reason");
        - "cooccurrence": pairs of labels that occur together, or apart, in the labels of ``y``:
          "pairs", those of `naim3l.explain.label_cooccurrence` that can be told from coincidence,
          the strongest 20, and the numbers "n_pairs", "n_related" and "n_too_few" of all pairs;
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
        measured = measure(blocks, model.label_names_)
    counts = count_by_block(model, X, y)
    summary: dict[str, Any] = {
        "version": __version__,
        "model": _describe_model(model),
        "data": describe_data(model, X, y),
        "choice": describe_choice(model),
        "convergence": describe_convergence(model),
        "quality": {
            "on": on,
            "caveat": SEEN if on == "training" else None,
            "blocks": measured["blocks"],
        },
        "labels": [_label_entry(model, entry, counts) for entry in measured["labels"]],
        "calibration": measured["calibration"],
        "columns": {view: list(map(asdict, uses)) for view, uses in model.columns_.items()},
        "cooccurrence": _cooccurrence(model, X, y),
        "relations": _relations(model, X),
        "shares": {view: _mean(share) for view, share in view_shares(model, X).items()},
        "features": _features(model, X),
        "spectrum": score_spectrum(model, X, y),
    }
    summary = plain(summary, other=lambda value: type(value).__name__)
    summary["cautions"] = find_cautions(summary)
    return summary


def _describe_model(model: LinearViewModel) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {
        "class": type(model).__name__,
        "parameters": parameters,
        "lam": getattr(model, "lam_", parameters.get("lam")),
        "ridge": getattr(model, "ridge_", parameters.get("ridge")),
        "label_names": list(model.label_names_),
        "views": list(model.views_),
        "fusion_weights": None
        if model.fusion_weights_ is None
        else {view: float(np.mean(weights)) for view, weights in model.fusion_weights_.items()},
        "fusion_overlap": None
        if model.fusion_overlap_ is None
        else float(np.mean(model.fusion_overlap_)),
    }


def _label_entry(
    model: LinearViewModel, entry: dict[str, Any], counts: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """A measured label, with its numbers at the fit, its threshold and its calibration curve."""
    k, view = model.label_names_.index(entry["label"]), entry["view"]
    known = counts[view][k]
    n = known["yes"] + known["no"]
    curve, at = model.calibration_.get(view), model.thresholds_.get(view)
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
