"""Predictions for tables with known labels: a block for each view, and one for fused scores."""

from dataclasses import replace
from typing import Any

import numpy as np

from naim3l._arrays import Matrix
from naim3l.decisions.bootstrap_metrics import EvaluatedBlock, guess
from naim3l.decisions.fusion import AUTO, fuse_views, stack_views
from naim3l.decisions.learning import Predictions
from naim3l.decisions.rules import Decisions
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain.model_views import read_truth
from naim3l.input.batches import Batch, id_groups
from naim3l.input.views import FUSED, WIDE_TABLE

ENOUGH_SHARED = 20  # rows in several tables, so that results begin with them


def read_blocks(model: LinearViewModel, X: Any, y: Any) -> list[EvaluatedBlock]:
    """Blocks of tables and labels in the form of the fit.

    Those of separate tables are the views, and fused predictions of the ids that are in several
    views, of pandas frames with named indexes. With enough of them, these lead. Those of a wide
    table are the fused predictions, on which the model decides, and then the views, as if rows had
    no other view.
    """
    truth, uncoupled = read_truth(model, X, y), getattr(model, "uncoupled_", None)
    models = [model] if uncoupled is None else [model, uncoupled]
    blocks = (_wide_blocks if model.names_.wide else _view_blocks)(models, X, truth)
    known = [block for block in blocks if np.isfinite(block.truth).any()]
    return known or [block for block in blocks if len(block.truth)]


def _view_blocks(models: list[Any], X: Any, truth: dict[str, Matrix]) -> list[EvaluatedBlock]:
    model, blocks = models[0], []
    tables = {view: batch.data for view, batch in model._batches(X).items()}
    scores = [each.view_scores(X) for each in models]
    for view in scores[0]:
        pairs = zip(models, scores, strict=True)
        predicted = [_predictions(each, S[view], view) for each, S in pairs]
        rates = model.view_rates_[view]
        groups = id_groups([tables[view]])
        blocks.append(_block(view, "view", truth[view], predicted, rates, groups=groups))
    ids = {view: table.index for view, table in tables.items() if _has_ids(table)}
    return blocks + (_fused_blocks(models, scores, truth, ids) if len(ids) > 1 else [])


def _has_ids(table: Any) -> bool:
    """Whether rows have ids, which identify samples: a named index of pandas."""
    index: Any = getattr(table, "index", None)
    return getattr(index, "name", None) is not None and not index.hasnans


def _fused_blocks(
    models: list[Any], scores: list[dict[str, Matrix]], truth: dict[str, Matrix], ids: Any
) -> list[EvaluatedBlock]:
    """Block of the ids that are in several views; none if no id is.

    An id has a label if one of its rows has it.
    """
    import pandas as pd

    def table(values: Matrix, view: str) -> Any:
        present = ~np.isnan(scores[0][view]).any(axis=1)
        return pd.DataFrame(values[present], index=ids[view][present])

    tables = [table(truth[view], view).groupby(level=0, sort=False).max() for view in ids]
    known = pd.concat(tables)
    if known.index.is_unique:
        return []
    shared = known.index[known.index.duplicated()].unique()
    known, predicted = known.groupby(level=0, sort=False).max().loc[shared], []
    for model, of_model in zip(models, scores, strict=True):
        stacked, _, contain = stack_views({view: table(of_model[view], view) for view in ids})
        rule, by_view = Decisions.of(model.decide).rule, dict(zip(ids, stacked, strict=True))
        fused = model.decisions_.fuse_separate(by_view, rule, AUTO)
        order = contain(fused.scores).index.get_indexer(known.index)
        predicted.append(fused.take(order))
    block = _block(FUSED, "fused", known.to_numpy(), predicted, models[0].base_rates_)
    n_known = np.isfinite(block.truth).any(axis=1).sum()
    return [replace(block, leads=bool(n_known >= ENOUGH_SHARED))]


def _wide_blocks(models: list[Any], X: Any, truth: dict[str, Matrix]) -> list[EvaluatedBlock]:
    stacked = [np.stack(list(each.view_scores(X).values())) for each in models]
    rates, groups = models[0].view_rates_[FUSED], id_groups([X.data if isinstance(X, Batch) else X])

    def block(name: str, kind: str, shown: slice) -> EvaluatedBlock:
        predicted = []
        for model, scores in zip(models, stacked, strict=True):
            alone = np.full_like(scores, np.nan)
            alone[shown] = scores[shown]
            fused = fuse_views(alone, model.decisions_.evidence)
            predicted.append(_predictions(model, fused, FUSED))
        given = name, kind, truth[WIDE_TABLE], predicted, rates
        return _block(*given, decided=kind == "fused", groups=groups)

    of_views = [block(view, "view", slice(k, k + 1)) for k, view in enumerate(models[0].views_)]
    return [block(FUSED, "fused", slice(None)), *of_views]


def _predictions(model: LinearViewModel, scores: Matrix, block: str) -> Predictions:
    curve = model.decisions_.calibrations.get(block)
    return Predictions.of(scores, model.thresholds_[block], curve)


def _block(
    name: str,
    kind: str,
    truth: Matrix,
    predicted: Any,
    rates: Matrix,
    *,
    decided: bool = True,
    groups: Any = None,
) -> EvaluatedBlock:
    """Block of the rows that have a score, whose ids are the only one of ``groups``, if given."""
    present = np.asarray(~np.isnan(predicted[0].scores).any(axis=1))
    model, uncoupled, *_ = [*(each.take(present) for each in predicted), None]
    guessing = guess(rates, int(present.sum()))
    found = EvaluatedBlock(name, kind, truth[present], model, guessing, uncoupled, decided=decided)
    return found if groups is None else replace(found, groups=groups[0][present])
