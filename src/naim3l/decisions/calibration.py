"""Scores to probabilities, learned on entries that were held out of the fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit
from sklearn.linear_model import LogisticRegression

from naim3l._arrays import Matrix

# How firmly a label's curve is held to the one that all labels have in common, as precisions of a
# normal prior on its slope (of standardised scores) and offset.
HOLD_SLOPE, HOLD_OFFSET = 10.0, 1.0
# Frequencies, as log-odds, that differ by less are the same.
LEAST_DIFFERENCE = 1e-9
# A loss that rises by less than this share of itself does not.
ROUNDING = 1e-12
# Newton steps of a label's curve, the length that ends them, and how often one is halved.
MAX_STEPS, SHORT_STEP, MAX_HALVINGS = 50, 1e-8, 30


@dataclass(frozen=True)
class Calibration:
    """A logistic curve per label: probability ``expit(slope * score + offset)``.

    Attributes
    ----------
    slope, offset : ndarray of shape (n_labels,)
    base : ndarray of shape (n_labels,)
        Log-odds of each label before any score is seen: those of its share of positives, in all
        views alike.
    own : bool ndarray of shape (n_labels,)
        Where the label's own entries tell more of the slope than the common curve does.
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


def fit_calibration(scores: Matrix, truth: Matrix, rates: Matrix | None = None) -> Calibration:
    """Curves that turn scores into probabilities (Platt), each label's held to a common one.

    The fewer entries of a label are known, the closer its curve stays to the one of all labels,
    moved by how frequent it is; with many it is the label's own. A label without a positive among
    the entries has the common curve: that its only positive is never held out says nothing of how
    rare it is. Of a label without any entry, scores tell nothing: its probability is its rate.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Of entries that the fit did not see; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rates : ndarray of shape (n_labels,), optional
        Share of positives of each label, over all views; by default that of the known entries.
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    n_yes = (known & (truth == 1)).sum(axis=0)
    n_known = known.sum(axis=0)
    # One positive and one negative more keep the frequency of a rare label off 0 and 1.
    base = logit((n_yes + 1) / (n_known + 2) if rates is None else rates)
    if n_yes.sum() in (0, n_known[n_yes > 0].sum()):  # nothing to learn from but the rate
        return Calibration(np.zeros(len(base)), base.copy(), base, np.zeros(len(base), dtype=bool))
    # Scores of rare labels hardly leave -1, so what a score tells depends on how far those of its
    # label spread: what labels have in common is the curve of standardised scores.
    centre, spread = _centre_and_spread(scores, known)
    standard = np.where(known, (scores - centre) / spread, 0)
    yes = np.where(known, truth, 0)
    telling = known & (n_yes > 0)
    slope, offset = _common_curve(standard, yes, telling, base)
    slope, offset = _own_curves(standard, yes, telling, slope, offset)
    slope, offset = np.where(n_known > 0, slope, 0), np.where(n_known > 0, offset, base)
    told = _information(standard, telling, slope, offset)
    return Calibration(slope / spread, offset - slope * centre / spread, base, told > HOLD_SLOPE)


def _common_curve(
    standard: Matrix, yes: Matrix, known: NDArray[np.bool_], base: Matrix
) -> tuple[Matrix, Matrix]:
    """Slope and offset of every label from the entries of all, (n_labels,) each."""
    shift = np.broadcast_to(base, standard.shape)[known]
    features = standard[known][:, None]
    if np.ptp(shift) <= LEAST_DIFFERENCE:
        # Labels of one frequency teach nothing of it: those that are rarer are less likely by that.
        model = LogisticRegression().fit(features, yes[known] > 0)
        rarer = np.where(np.abs(base - shift[0]) <= LEAST_DIFFERENCE, 0, base - shift[0])
        return np.full(len(base), model.coef_[0, 0]), model.intercept_[0] + rarer
    scale = float(shift.std())
    features = np.column_stack([features, shift / scale])
    model = LogisticRegression().fit(features, yes[known] > 0)
    weight = model.coef_[0, 1] / scale
    return np.full(len(base), model.coef_[0, 0]), model.intercept_[0] + weight * base


def _own_curves(
    standard: Matrix, yes: Matrix, known: NDArray[np.bool_], slope: Matrix, offset: Matrix
) -> tuple[Matrix, Matrix]:
    """Most likely slope and offset of each label, given a normal prior around the common ones.

    Newton's method for all labels at once; the log-loss is convex, and the prior keeps the steps
    finite where a label's entries are separated, or where it has none. A step that would raise the
    loss is halved: one score far from all others is enough for that.
    """

    def loss(a: Matrix, b: Matrix) -> Matrix:
        log_odds = a * standard + b
        entries = known * (np.logaddexp(0, log_odds) - yes * log_odds)
        held = HOLD_SLOPE * (a - slope) ** 2 + HOLD_OFFSET * (b - offset) ** 2
        return np.asarray(entries.sum(axis=0) + 0.5 * held)

    a, b = slope.copy(), offset.copy()
    value = loss(a, b)
    for _ in range(MAX_STEPS):
        p = expit(a * standard + b)
        error, curvature = known * (p - yes), known * p * (1 - p)
        grad_a = (standard * error).sum(axis=0) + HOLD_SLOPE * (a - slope)
        grad_b = error.sum(axis=0) + HOLD_OFFSET * (b - offset)
        h_aa = (standard**2 * curvature).sum(axis=0) + HOLD_SLOPE
        h_ab = (standard * curvature).sum(axis=0)
        h_bb = curvature.sum(axis=0) + HOLD_OFFSET
        determinant = h_aa * h_bb - h_ab**2
        step_a = (h_bb * grad_a - h_ab * grad_b) / determinant
        step_b = (h_aa * grad_b - h_ab * grad_a) / determinant
        if max(np.abs(step_a).max(), np.abs(step_b).max()) < SHORT_STEP:
            break
        share = np.ones_like(a)
        for _ in range(MAX_HALVINGS):
            reached = loss(a - share * step_a, b - share * step_b)
            rises = reached > value + ROUNDING * (1 + value)
            if not rises.any():
                break
            share = np.where(rises, share / 2, share)
        a, b, value = a - share * step_a, b - share * step_b, reached
    return a, b


def _information(
    standard: Matrix, known: NDArray[np.bool_], slope: Matrix, offset: Matrix
) -> Matrix:
    """What the known entries of each label tell of its slope: Fisher information, (n_labels,)."""
    p = expit(slope * standard + offset)
    return np.asarray((known * standard**2 * p * (1 - p)).sum(axis=0))


def _centre_and_spread(scores: Matrix, known: NDArray[np.bool_]) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation of each label's known scores; infinite where there is none."""
    count = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, scores, 0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, (scores - centre) ** 2, 0).sum(axis=0) / count)
    # Scores that do not differ tell nothing: divided by infinity they all become 0.
    rounding = 1e-12 * np.maximum(np.abs(centre), 1)
    return centre, np.where(spread > rounding, spread, np.inf)


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
