"""Scores to probabilities, learned on entries that were held out of the fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

Matrix = NDArray[np.floating]

# A label needs this many known positives, and negatives, for a curve of its own.
ENOUGH_ENTRIES = 20
# Scores of rare labels can separate the few known entries: some shrinkage keeps slopes finite.
SHRINKAGE = 1.0


@dataclass(frozen=True)
class Calibration:
    """A logistic curve per label: probability ``expit(slope * score + offset)``.

    Attributes
    ----------
    slope, offset : ndarray of shape (n_labels,)
    own : bool ndarray of shape (n_labels,)
        Where the curve comes from the label's own entries; elsewhere it is the common one, moved
        by how frequent the label is.
    """

    slope: Matrix
    offset: Matrix
    own: NDArray[np.bool_]

    def probabilities(self, scores: Matrix) -> Matrix:
        """Probabilities of scores (n_rows, n_labels); NaN where a score is."""
        return expit(self.slope * scores + self.offset)


def fit_calibration(scores: Matrix, truth: Matrix, *, enough: int = ENOUGH_ENTRIES) -> Calibration:
    """Curves that turn scores into probabilities (Platt), per label where it has enough entries.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Of entries that the fit did not see; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    enough : int
        Least number of positives, and of negatives, for a label's own curve.
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    n_yes = (known & (truth == 1)).sum(axis=0)
    n_no = known.sum(axis=0) - n_yes
    # One positive and one negative more keep the frequency of a rare label off 0 and 1.
    frequency = logit((n_yes + 1) / (n_yes + n_no + 2))
    own = np.minimum(n_yes, n_no) >= enough
    slope, offset = _common_curve(scores, truth, known, frequency)
    for k in np.flatnonzero(own):
        rows = known[:, k]
        slope[k], offset[k] = _curve(scores[rows, k][:, None], truth[rows, k])
    return Calibration(slope, offset, own)


def _common_curve(
    scores: Matrix, truth: Matrix, known: NDArray[np.bool_], frequency: Matrix
) -> tuple[Matrix, Matrix]:
    """Slope and offset of every label from the entries of all, (n_labels,) each."""
    yes = truth[known]
    if len(np.unique(yes)) < 2:  # nothing to learn from: the frequency is all there is
        return np.zeros(len(frequency)), frequency.copy()
    shift = np.broadcast_to(frequency, scores.shape)[known]
    slope, weight, offset = _curve(np.column_stack([scores[known], shift]), yes)
    return np.full(len(frequency), slope), offset + weight * frequency


def _curve(features: Matrix, yes: Matrix) -> NDArray[np.float64]:
    """Weights of the features, then the offset, of a logistic regression."""
    scale = features.std(axis=0)
    scale[scale == 0] = 1.0
    model = LogisticRegression(C=1 / SHRINKAGE).fit(features / scale, yes > 0)
    return np.append(model.coef_[0] / scale, model.intercept_)


def calibration_error(truth: Matrix, probabilities: Matrix, *, n_bins: int = 10) -> float:
    """Expected calibration error: how far probabilities are from the shares that are true.

    Known entries are sorted into bins of equal width by their probability; the mean over bins,
    weighted by their entries, of the difference between mean probability and share of positives.

    Parameters
    ----------
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    probabilities : ndarray of shape (n_rows, n_labels)
    n_bins : int
    """
    known = np.isfinite(truth) & np.isfinite(probabilities)
    if not known.any():
        return float("nan")
    p, yes = probabilities[known], truth[known]
    bins = np.minimum((p * n_bins).astype(np.intp), n_bins - 1)
    excess = np.bincount(bins, p - yes, minlength=n_bins)  # of a bin: n (mean p - share true)
    return float(np.abs(excess).sum() / len(p))
