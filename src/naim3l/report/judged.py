"""Scores beside what is true: a block for each view, and one for fused scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from naim3l._arrays import Matrix
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.rules import fuse_views
from naim3l.estimators.base import LinearViewModel
from naim3l.input.labels import LabelTable
from naim3l.input.views import FUSED


@dataclass(frozen=True)
class Block:
    """Rows that have a score.

    Attributes
    ----------
    name : str
        Of the view, or "fused".
    fused : bool
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    scores : ndarray of shape (n_rows, n_labels)
        Where decisions are made on fused scores, a view's are those of rows that have it alone.
    thresholds : ndarray of shape (n_labels,)
        Where decisions are made on fused scores, the views' are judged by the same thresholds.
    calibration : Calibration or None
    """

    name: str
    fused: bool
    truth: Matrix
    scores: Matrix
    thresholds: Matrix
    calibration: Calibration | None


def read_blocks(model: LinearViewModel, X: Any, y: Any) -> list[Block]:
    """Blocks of tables and labels in the form of the fit; the fused one, if any, comes first."""
    tables = model._known_tables(X)
    labels = model._read_labels(X, y, tables)
    truth = {view: truth_of(model, table) for view, table in labels.items()}
    scores = {view: model._score_view(view, table) for view, table in tables.items()}
    if not model._wide:
        blocks = [_block(model, view, view, truth[view], S) for view, S in scores.items()]
        return [block for block in blocks if len(block.scores)]
    stacked = np.stack(list(scores.values()))
    fused = fuse_views(stacked, model._evidence)
    blocks = [_block(model, FUSED, FUSED, next(iter(truth.values())), fused)]
    for k, view in enumerate(scores):
        alone = np.full_like(stacked, np.nan)
        alone[k] = stacked[k]
        of_view = fuse_views(alone, model._evidence)
        blocks.append(_block(model, view, FUSED, truth[view], of_view))
    return [block for block in blocks if len(block.scores)]


def truth_of(model: LinearViewModel, labels: LabelTable) -> Matrix:
    """Labels as 1, 0 and NaN, in the order of the model's."""
    signed = labels.signed[:, np.argsort(model._label_positions(labels))]
    return np.where(signed == 0, np.nan, signed > 0)


def decided_blocks(blocks: list[Block]) -> list[Block]:
    """Those on which the model decides: the fused one alone where there is one."""
    return [block for block in blocks if block.fused] or blocks


def _block(model: LinearViewModel, name: str, decided: str, truth: Matrix, scores: Matrix) -> Block:
    present = ~np.isnan(scores).any(axis=1)
    return Block(
        name,
        name == FUSED,
        truth[present],
        scores[present],
        np.asarray(model.thresholds_[decided], dtype=np.float64),
        model.calibration_.get(decided) if decided == name else None,
    )
