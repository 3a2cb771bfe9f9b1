"""One score of a view from two: that of its own columns, and that of columns shared by views.

Each has a weight, with which held-out entries have the lowest log-loss: the same for all views and
labels first, then one for each view, and one for each label in it, drawn towards the last. A weight
is never negative, and 0 where a score says nothing that the other does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import expit, log_expit

from naim3l._arrays import Mask, Matrix
from naim3l.decisions.calibration import (
    HOLD_SLOPE,
    HeldOutScores,
    compress,
    minimise,
    scale_of,
)
from naim3l.files.stored import Array

# Precision of the normal priors that draw the weights of a label towards those of all labels.
HOLD_LABEL = 40.0
Entries = tuple[Matrix, Matrix, Matrix, Mask]  # see `stacking_weights`


@dataclass(frozen=True)
class Stacking:
    """How the two scores of a view, its own and the shared one, are added up."""

    weights: Annotated[Matrix, Array("f", 2, "labels", low=0)]  # of standardised scores
    # Of the scores as they are, with which their sum has the size of a single score.
    factors: Annotated[Matrix, Array("f", 2, "labels", low=0)]
    centre: Annotated[Matrix, Array("f", 2, "labels")]  # means of the scores of the training rows
    level: Annotated[Matrix, Array("f", "labels")]  # score of a row with these means

    def combine(self, own: Matrix, shared: Matrix) -> Matrix:
        """The score (n_rows, n_labels) of both scores."""
        parts = self.factors * (np.stack([own, shared], axis=1) - self.centre)
        return self.level + parts.sum(axis=1)


def learn_stackings(
    pairs: Sequence[tuple[HeldOutScores, HeldOutScores]], bases: Matrix
) -> list[Stacking | None]:
    """How the own and the shared scores of each view are added up; None if the latter do not help.

    Weights minimise the log-loss of the held-out entries in three steps, each with a normal prior
    around the last: two weights for all views, around 0; two for each view; and two for each label
    in it. ``bases`` are log-odds of the rate of each label in each view, (n_views, n_labels).
    """
    given: list[Any] = [_entries(*pair, base) for pair, base in zip(pairs, bases, strict=True)]
    # As if all labels were one.
    every = [tuple(of.reshape(*of.shape[:-2], -1, 1) for of in entries) for entries in given]
    together: Any = [np.concatenate(of, axis=-2) for of in zip(*every, strict=True)]
    common = stacking_weights(together, np.zeros((2, 1)), HOLD_SLOPE)
    of_views = [stacking_weights(of, common, HOLD_SLOPE) for of in every]
    return [
        # Shared scores that are all equal have an infinite spread, and say nothing.
        _stacking(*pair, entries, of)
        if of[1] > 0 and np.isfinite(scale_of(pair[1].final)[1]).any()
        else None
        for pair, entries, of in zip(pairs, given, of_views, strict=True)
    ]


def _entries(own: HeldOutScores, shared: HeldOutScores, base: Matrix) -> Entries:
    """Standardised scores of held-out entries, and what they are compared with."""
    used = own.known & shared.known
    scaled = [(of, *scale_of(of.final)) for of in (own, shared)]
    z = np.stack([compress((of.scores - centre) / spread) for of, centre, spread in scaled])
    return np.where(used, z, 0.0), np.broadcast_to(base, used.shape), own.truth, used


def _stacking(own: HeldOutScores, shared: HeldOutScores, entries: Entries, of: Matrix) -> Stacking:
    """The stacking of a view, whose labels' weights are drawn towards those of the view, (2, 1)."""
    scales = [scale_of(table.final) for table in (own, shared)]
    weights = stacking_weights(entries, np.repeat(of, own.final.shape[1], axis=1), HOLD_LABEL)
    # Without a weight, the own score stays as it is.
    weights = np.where(weights.any(axis=0), weights, [[1.0], [0.0]])
    centre = np.stack([of for of, _ in scales])
    # Scores that are all equal have an infinite spread, and say nothing.
    spread = np.stack([np.where(np.isfinite(of), of, 0.0) for _, of in scales])
    # So that one score alone would be left as it is.
    size = (weights * spread).sum(axis=0) / (weights**2).sum(axis=0)
    factors = size * weights / np.where(spread > 0, spread, np.inf)
    level = (weights * centre).sum(axis=0) / weights.sum(axis=0)
    return Stacking(weights, factors, centre, level)


def stacking_weights(entries: Entries, around: Matrix, hold: float) -> Matrix:
    """Weights (n, n_labels), at least 0, with the lowest log-loss of ``starts + weights * z``.

    A normal prior of precision ``hold`` draws them towards ``around``. Entries are ``z``, of shape
    (n, n_rows, n_labels); and starts, the truth, and a mask of those that are used, (n_rows,
    n_labels); others have 0 in ``z``.
    """
    z, starts, truth, used = entries
    yes = truth > 0

    def loss(w: Matrix) -> Matrix:
        log_odds = starts + (w[:, None] * z).sum(axis=0)
        own = -np.where(used, log_expit(np.where(yes, log_odds, -log_odds)), 0.0).sum(axis=0)
        return np.asarray(own + hold / 2 * ((w - around) ** 2).sum(axis=0))

    def derivatives(w: Matrix) -> tuple[Matrix, Matrix]:
        p = expit(starts + (w[:, None] * z).sum(axis=0))
        H = np.einsum("irk,jrk,rk->kij", z, z, p * (1 - p)) + hold * np.eye(len(z))
        return (z * (p - yes)).sum(axis=1) + hold * (w - around), H

    return minimise(around, loss, derivatives, least=0.0)
