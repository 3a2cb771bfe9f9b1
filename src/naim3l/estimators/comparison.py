"""What a coupled model is compared with on held-out rows: guessing, ridges, boosting."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from naim3l._arrays import Matrix
from naim3l._progress import progress_bar
from naim3l._text import plain
from naim3l.decisions import learning
from naim3l.decisions.bootstrap_metrics import EvaluatedBlock, evaluate_blocks, guess
from naim3l.decisions.held_out import AUTO, Folds
from naim3l.decisions.learning import LearnedDecisions, Predictions
from naim3l.decisions.rules import Decisions
from naim3l.estimators.boosting import (
    MOST_SECONDS,
    boosted_scores,
    boosting_cost,
    tree_rows,
)
from naim3l.estimators.ridge_fits import SHRINKAGES, RidgeFits, all_pairs, fit_pairs
from naim3l.estimators.shared import SharedFit, SharedModel
from naim3l.files.stored import Array, MapOf, Maybe, Nested, Number
from naim3l.input.sources import any_chunked
from naim3l.input.views import FUSED

# What is held out: whole rows, as new rows are, or single entries, as for filling in.
HELD_OUT = ("rows", "entries")
# Why boosting is not measured if nobody wants it.
NOT_ASKED = "not asked for"


@dataclass(frozen=True)
class Comparison:
    """What `naim3l.NAIM3L.compare` is asked for, and the tables that it was given."""

    entries: bool
    boosting: bool | str
    X: Any


@dataclass(frozen=True)
class Uncoupled:
    """What ridge regression per view has learned, from the features and folds of another model."""

    ridge: Annotated[float, Number(above=0)]
    coef: Annotated[dict[str, Matrix], MapOf(Array("f", "features", "labels"), keys="views")]
    intercept: Annotated[dict[str, Matrix], MapOf(Array("f", "labels"), keys="views")]
    decisions: Annotated[LearnedDecisions, Nested(LearnedDecisions)]
    shared: Annotated[SharedModel | None, Maybe(Nested(SharedModel))] = None


def compare_models(
    model: Any,
    asked: Comparison,
    problem: Any,
    folds: Folds,
    fits: list[Matrix],
    common: SharedFit | None,
    W: Matrix,
) -> tuple[dict[str, Any], Uncoupled]:
    """Metrics of held-out labels beside those of simpler methods, and the model without coupling.

    ``fits`` are weights without each fold, with parameters that are best for the other folds, and
    ``W`` those of the final fit. Where views share columns, all methods add the scores of these, of
    the ``common`` fit, to their own.
    """
    rows, rates = folds.rows, problem.base_rates
    with progress_bar("without coupling", len(folds) + 1, shown=model.verbose > 0) as advance:
        metric = getattr(model, "metric_", AUTO)
        found = RidgeFits.of(folds, rates, metric, all_pairs(), advance)
        ridge, chosen, other = found.best([0.0])
        shared, _, of_shared = found.best(SHRINKAGES)
        fit = fit_pairs(problem.whole, rates, [ridge, shared])
        ridge_W = fit(ridge)
        advance()
    finals = [rows.multiply(of) for of in (W, ridge_W, fit(shared))]
    boosted, skipped = _boosted(model, asked, folds)
    rules, start = Decisions.of(model.decide), model._fixed_decisions()
    learn = partial(learning.learn_decisions, rules, start, rows, borrow=False)
    scores, final, of_columns = folds.scores(chosen, finals[1]), finals[1], None
    if common is not None:
        of_columns, scores, final = common.learn(model.views_, scores, final)
    decisions = learn(scores, final)
    coef, intercept = (
        dict(zip(model.views_, of, strict=True)) for of in problem.split_weights(ridge_W)
    )
    uncoupled = Uncoupled(ridge[0], coef, intercept, decisions, of_columns)
    predict = partial(learning.held_out_predictions, rules, start, rows, fold_of=folds.fold_of)
    of_methods = zip((fits, other, of_shared), finals, strict=True)
    scored = [(folds.scores(of_method, final), final) for of_method, final in of_methods]
    scored += [] if boosted is None else [(boosted, boosted)]  # trees have no final fit
    predicted = {}
    for name, held_out in zip(("model", "uncoupled", "subspace", "boosting"), scored, strict=False):
        if common is not None:
            if name == "model":
                predicted["apart"] = predict(held_out)
            held_out = common.nest(*held_out, folds.fold_of)
        predicted[name] = predict(held_out)
    measured = evaluate_blocks(_blocks(model, folds, predicted), model.label_names_)
    names = [] if rows.shared is None else rows.shared.columns.columns
    # Why boosting is not measured, and columns that views share.
    about = {"by": HELD_OUT[asked.entries], "boosting": skipped, "shared": names}
    return plain(measured | about), uncoupled


def _blocks(model: Any, folds: Folds, predicted: Mapping[str, dict[str, Predictions]]) -> Any:
    """Blocks of held-out labels; the first one even if it has none, and no others do."""
    names, rows = model.names_.blocks, folds.rows
    truths = learning.scores_by_block(rows, rows.truth_of(folds.fold_of >= 0), None, names)
    fold_of = np.where(folds.fold_of < 0, np.nan, folds.fold_of)
    of_folds = learning.scores_by_block(rows, fold_of, None, names)
    found = []
    for name, groups in zip(names, rows.groups_of_blocks, strict=True):
        seen = np.asarray(np.isfinite(truths[name]).any(axis=1))  # with a held-out entry
        of_methods = {method: of[name].take(seen) for method, of in predicted.items()}
        guessing = guess(model.view_rates_[name], int(seen.sum()))
        kind = "fused" if name == FUSED else "view"
        given: dict[str, Any] = {"guessing": guessing, "folds": of_folds[name][seen], **of_methods}
        given["groups"] = None if groups is None else groups[seen]
        found.append(EvaluatedBlock(name, kind, truths[name][seen], **given))
    return [block for block in found if len(block.truth)] or found[:1]


def _boosted(model: Any, asked: Comparison, folds: Folds) -> tuple[Any, str]:
    """Held-out log-odds of boosting, stacked, or None; and why it is not measured."""
    if not asked.boosting:
        return None, NOT_ASKED
    if any_chunked(asked.X):
        return None, "not measured on tables that are read in chunks"
    tables = []
    for view, batch in model._batches(asked.X).items():
        tables.append(tree_rows(model.features_[view], batch))
    problem = folds.rows
    signed, fold_of = (
        [of[rows] for rows in problem.row_slices] for of in (problem.Y, folds.fold_of)
    )
    seconds = boosting_cost(tables, signed, len(folds))
    if asked.boosting == AUTO and seconds > MOST_SECONDS:
        return None, f"not measured: it would take about {seconds:.0f} seconds"
    with progress_bar(
        "boosting", problem.n_labels * len(tables), shown=model.verbose > 0
    ) as advance:
        found = boosted_scores(tables, signed, fold_of, problem.view_rates, advance=advance)
    return np.concatenate(found), ""
