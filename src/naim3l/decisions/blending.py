"""Weights of unlike models whose scores are blended, learned from held-out entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from naim3l._arrays import Matrix
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.fusion import PULL, label_groups, least_log_loss
from naim3l.files.stored import Array, ListOf, Nested


@dataclass(frozen=True)
class Blend:
    """Log-odds of several models for the rows of one view, as one.

    Attributes
    ----------
    calibrations : list of Calibration, one per model
    weights : ndarray of shape (n_models, n_labels)
        Weights of what the log-odds of each model add to the base rates of the labels.
    """

    calibrations: list[Calibration]
    weights: Matrix

    _stored: ClassVar[Mapping[str, Any]] = {
        "calibrations": ListOf(Nested(Calibration), "members"),
        "weights": Array("f", "members", "labels"),
    }

    def log_odds(self, scores: Matrix) -> Matrix:
        """Log-odds (n_rows, n_labels) of scores (n_models, n_rows, n_labels)."""
        return blend(calibrated(self.calibrations, scores), self.calibrations[0].base, self.weights)


def calibrated(calibrations: list[Calibration], scores: Matrix) -> Matrix:
    """Log-odds of each model, (n_models, n_rows, n_labels), of its scores in the same shape."""
    pairs = zip(calibrations, scores, strict=True)
    return np.stack([calibration.log_odds(S) for calibration, S in pairs])


def blend(log_odds: Matrix, base: Matrix, weights: Matrix) -> Matrix:
    """Base rates and the weighted sum of what each model adds to them, (n_rows, n_labels).

    Parameters
    ----------
    log_odds : ndarray of shape (n_models, n_rows, n_labels)
        Calibrated log-odds; the result is NaN where one of them is.
    base : ndarray of shape (n_labels,)
        Log-odds of the base rates.
    weights : ndarray of shape (n_models, n_labels)
    """
    return np.asarray(base + np.einsum("mrl,ml->rl", log_odds - base, weights))


def blend_weights(log_odds: Matrix, base: Matrix, truth: Matrix, pull: float = PULL) -> Matrix:
    """Weights (n_models, n_labels) with which `blend` has the lowest log-loss.

    There is one non-negative weight per model and group of labels, from rare to frequent, shrunk
    towards equal weights that sum to 1.

    Parameters
    ----------
    log_odds, base
        As in `blend`, for entries that were held out of the fits; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    pull : float
        Strength of the shrinkage, in units of one entry's log-loss.
    """
    n_models, groups = len(log_odds), label_groups(truth)
    weights = np.empty((n_models, truth.shape[1]))
    known = ~np.isnan(truth) & ~np.isnan(log_odds).any(axis=0)
    for group in np.unique(groups):
        of_group = groups == group
        used = known & of_group
        start = np.broadcast_to(base, used.shape)[used]
        evidence = log_odds[:, used] - start
        # All entries have all models, so that there is no overlap to learn.
        one = np.ones(len(start))
        found = least_log_loss(evidence, one, start, truth[used], pull, 1 / n_models)
        weights[:, of_group] = found[:n_models, None]
    return weights
