"""Scores to probabilities, learned on entries that were held out of the fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit
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
    base : ndarray of shape (n_labels,)
        Log-odds of each label before any score is seen: those of its share of positives.
    own : bool ndarray of shape (n_labels,)
        Where the curve comes from the label's own entries; elsewhere it is the common one, moved
        by how frequent the label is.
    """

    slope: Matrix
    offset: Matrix
    base: Matrix
    own: NDArray[np.bool_]

    def log_odds(self, scores: Matrix) -> Matrix:
        """Log-odds of scores (n_rows, n_labels); NaN where a score is."""
        return self.slope * scores + self.offset

    def probabilities(self, scores: Matrix) -> Matrix:
        """Probabilities of scores (n_rows, n_labels); NaN where a score is."""
        return expit(self.log_odds(scores))


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
    base = logit((n_yes + 1) / (n_yes + n_no + 2))
    own = np.minimum(n_yes, n_no) >= enough
    slope, offset = _common_curve(scores, truth, known, base)
    for k in np.flatnonzero(own):
        rows = known[:, k]
        slope[k], offset[k] = _curve(scores[rows, k][:, None], truth[rows, k])
    return Calibration(slope, offset, base, own)


def _common_curve(
    scores: Matrix, truth: Matrix, known: NDArray[np.bool_], base: Matrix
) -> tuple[Matrix, Matrix]:
    """Slope and offset of every label from the entries of all, (n_labels,) each.

    Scores of rare labels hardly leave -1, so what a score tells depends on how far those of its
    label spread: labels have in common the curve of their standardised scores.
    """
    yes = truth[known]
    if len(np.unique(yes)) < 2:  # nothing to learn from: the frequency is all there is
        return np.zeros(len(base)), base.copy()
    centre, spread = _centre_and_spread(scores, known)
    shift = np.broadcast_to(base, scores.shape)[known]
    standard = ((scores - centre) / spread)[known]
    slope, weight, offset = _curve(np.column_stack([standard, shift]), yes)
    return slope / spread, offset + weight * base - slope * centre / spread


def _centre_and_spread(scores: Matrix, known: NDArray[np.bool_]) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation of each label's known scores; infinite where there is none."""
    count = known.sum(axis=0)
    total = np.where(known, scores, 0).sum(axis=0)
    centre = total / np.maximum(count, 1)
    spread = np.sqrt(np.where(known, (scores - centre) ** 2, 0).sum(axis=0) / np.maximum(count, 1))
    # Scores that do not differ tell nothing: divided by infinity they all become 0.
    rounding = 1e-12 * np.maximum(np.abs(centre), 1)
    return centre, np.where(spread > rounding, spread, np.inf)


def _curve(features: Matrix, yes: Matrix) -> NDArray[np.float64]:
    """Weights of the features, then the offset, of a logistic regression."""
    scale = features.std(axis=0)
    scale[scale == 0] = 1.0
    model = LogisticRegression(C=1 / SHRINKAGE).fit(features / scale, yes > 0)
    return np.append(model.coef_[0] / scale, model.intercept_)


def log_loss(scores: Matrix, truth: Matrix) -> float:
    """Mean log-loss of held-out entries under the curves that suit them best; NaN without any.

    The curves have few parameters beside the entries, so that what is measured is how much scores
    tell of the labels, whatever their scale.

    Parameters
    ----------
    scores, truth
        As in `fit_calibration`.
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    if not known.any():
        return float("nan")
    log_odds = fit_calibration(scores, truth).log_odds(scores)
    return float(-np.mean(log_expit(np.where(truth > 0, log_odds, -log_odds)[known])))


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
