"""Scores together with the true labels: a block for each view, and one for fused scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from naim3l._arrays import Matrix
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.rules import fuse_views
from naim3l.estimators.linear import LinearViewModel
from naim3l.input.labels import LabelTable
from naim3l.input.views import FUSED


@dataclass(frozen=True)
class Block:
    """Rows that have a score.

    Attributes
    ----------
    name : str
        Name of the view, or "fused".
    fused : bool
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    scores : ndarray of shape (n_rows, n_labels)
        Where decisions are based on fused scores, those of a view are computed as if rows had no
        other view.
    thresholds : ndarray of shape (n_labels,)
        Where decisions are based on fused scores, the views use the same thresholds.
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
    labels = model.reader_.labels(X, y)
    truth = {view: truth_of(model, table) for view, table in labels.items()}
    scores = model.view_scores(X)
    if not model.reader_.wide:
        blocks = [_block(model, view, view, truth[view], S) for view, S in scores.items()]
        return [block for block in blocks if len(block.scores)]
    stacked = np.stack(list(scores.values()))
    fused = fuse_views(stacked, model.evidence_)
    blocks = [_block(model, FUSED, FUSED, next(iter(truth.values())), fused)]
    for k, view in enumerate(scores):
        alone = np.full_like(stacked, np.nan)
        alone[k] = stacked[k]
        of_view = fuse_views(alone, model.evidence_)
        blocks.append(_block(model, view, FUSED, truth[view], of_view))
    return [block for block in blocks if len(block.scores)]


def truth_of(model: LinearViewModel, labels: LabelTable) -> Matrix:
    """Labels as 1, 0 and NaN, in the order of the model's labels."""
    signed = model.reader_.signed(labels)
    return np.where(signed == 0, np.nan, signed > 0)


def decided_blocks(blocks: list[Block]) -> list[Block]:
    """Blocks on which the model decides: only the fused one, if there is one."""
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
