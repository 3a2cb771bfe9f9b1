"""Probabilities from scores, learned from entries that were held out of the fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from naim3l._arrays import Mask, Matrix
from naim3l.files.stored import Array

# Precisions of the normal prior that shrinks the slope (of standardised scores) and the offset of
# a label's curve towards the common curve.
HOLD_SLOPE, HOLD_OFFSET = 10.0, 1.0
# Frequencies, as log-odds, that differ by less are considered equal.
LEAST_DIFFERENCE = 1e-9
# An increase of the loss by less than this share is a rounding error.
ROUNDING = 1e-12
# Newton steps of a label's curve, the length at which they end, and how often one is halved.
MAX_STEPS, SHORT_STEP, MAX_HALVINGS = 50, 1e-8, 30
N_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """A logistic curve per label: probability ``expit(slope * score + offset)``.

    Attributes
    ----------
    slope, offset : ndarray of shape (n_labels,)
        Of the curve of each label.
    base : ndarray of shape (n_labels,)
        Prior log-odds of each label, of its share of positives; the same in all views.
    own : bool ndarray of shape (n_labels,)
        Whether the slope depends more on the label's own entries than on the common curve.
    """

    slope: Matrix
    offset: Matrix
    base: Matrix
    own: Mask

    _stored: ClassVar[Mapping[str, Any]] = {
        **{name: Array("f", "labels") for name in ("slope", "offset", "base")},
        "own": Array("b", "labels"),
    }

    def log_odds(self, scores: Matrix) -> Matrix:
        """Log-odds of scores (n_rows, n_labels); NaN where a score is NaN."""
        return self.slope * scores + self.offset

    def probabilities(self, scores: Matrix) -> Matrix:
        """Probabilities of scores (n_rows, n_labels); NaN where a score is NaN."""
        return expit(self.log_odds(scores))


def fit_calibration(scores: Matrix, truth: Matrix, rates: Matrix | None = None) -> Calibration:
    """Curves from scores to probabilities (Platt scaling), shrunk towards a common curve.

    The fewer entries of a label are known, the closer its curve is to the common curve of all
    labels, shifted by the frequency of the label. A label without a positive among the entries has
    the common curve, because its only positive is never held out, however frequent it is. A label
    without entries has its rate as probability.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Scores of held-out entries, by fits without them; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rates : ndarray of shape (n_labels,), optional
        Share of positives of each label, over all views; by default that of the known entries.

    Returns
    -------
    Calibration
        A curve per label.
    """
    known = np.isfinite(scores) & np.isfinite(truth)
    n_yes = (known & (truth == 1)).sum(axis=0)
    n_known = known.sum(axis=0)
    # One additional positive and negative avoid frequencies of 0 and 1.
    base = logit((n_yes + 1) / (n_known + 2) if rates is None else rates)
    if n_yes.sum() in (0, n_known[n_yes > 0].sum()):  # only the rate can be learned
        return Calibration(np.zeros(len(base)), base.copy(), base, np.zeros(len(base), dtype=bool))
    # Scores of rare labels hardly differ from -1, so the same score means different things for
    # different labels: the common curve is one of standardised scores.
    count = np.maximum(n_known, 1)
    centre = np.where(known, scores, 0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, (scores - centre) ** 2, 0).sum(axis=0) / count)
    # Equal scores carry no information: divided by infinity they all become 0.
    spread = np.where(spread > 1e-12 * np.maximum(np.abs(centre), 1), spread, np.inf)
    entries = _Entries.of((scores - centre) / spread, truth, known & (n_yes > 0))
    slope, offset = _own_curves(entries, *_common_curve(entries, base))
    slope, offset = np.where(n_known > 0, slope, 0), np.where(n_known > 0, offset, base)
    # Fisher information of the slope of each label in its known entries.
    p = expit(slope[entries.labels] * entries.standard + offset[entries.labels])
    own = entries.sums(entries.standard**2 * p * (1 - p)) > HOLD_SLOPE
    return Calibration(slope / spread, offset - slope * centre / spread, base, own)


@dataclass(frozen=True)
class _Entries:
    """Known entries, sorted by label: standardised scores, and 1 or 0; (n_entries,) each."""

    standard: Matrix
    yes: Matrix
    labels: NDArray[np.intp]
    n_labels: int
    present: NDArray[np.intp]  # labels that have entries
    starts: NDArray[np.intp]  # the first entry of each of these

    @classmethod
    def of(cls, standard: Matrix, truth: Matrix, used: Mask) -> "_Entries":
        """Entries of a mask (n_rows, n_labels)."""
        labels, rows = np.nonzero(used.T)
        starts = np.unique(labels, return_index=True)
        return cls(standard[rows, labels], truth[rows, labels], labels, used.shape[1], *starts)

    def sums(self, values: Matrix) -> Matrix:
        """Sums of values (n_entries,) by label, (n_labels,)."""
        totals = np.zeros(self.n_labels)
        totals[self.present] = np.add.reduceat(values, self.starts)
        return totals


def _common_curve(entries: _Entries, base: Matrix) -> tuple[Matrix, Matrix]:
    """Slope and offset of every label, (n_labels,) each, from the entries of all labels."""
    shift, features = base[entries.labels], entries.standard[:, None]
    # With three parameters at most, steps of Newton's method are cheap, and few are needed.
    model = LogisticRegression(solver="newton-cholesky", tol=1e-8)
    if np.ptp(shift) <= LEAST_DIFFERENCE:
        # All labels with entries are equally frequent, so the effect of frequency is unknown:
        # log-odds of other labels are shifted by the difference.
        model.fit(features, entries.yes > 0)
        rarer = np.where(np.abs(base - shift[0]) <= LEAST_DIFFERENCE, 0, base - shift[0])
    else:
        scale = float(shift.std())
        model.fit(np.column_stack([features, shift / scale]), entries.yes > 0)
        rarer = model.coef_[0, 1] / scale * base
    return np.full(len(base), model.coef_[0, 0]), model.intercept_[0] + rarer


def _own_curves(entries: _Entries, slope: Matrix, offset: Matrix) -> tuple[Matrix, Matrix]:
    """Most likely slope and offset of each label, with a normal prior around the common ones.

    Newton's method for all labels at once. The log-loss is convex, and the prior keeps steps
    finite if the entries of a label are separable or absent. A step that would increase the loss,
    for which one extreme score is enough, is halved.
    """
    standard, yes, labels = entries.standard, entries.yes, entries.labels

    def loss(a: Matrix, b: Matrix) -> Matrix:
        log_odds = a[labels] * standard + b[labels]
        # -log of the probability of the truth; a positive has the sign of its log-odds reversed.
        against = np.where(yes > 0, -log_odds, log_odds)
        # log(1 + exp), in a form that is several times as fast as logaddexp and as exact.
        own = entries.sums(np.maximum(against, 0) + np.log1p(np.exp(-np.abs(against))))
        return own + 0.5 * (HOLD_SLOPE * (a - slope) ** 2 + HOLD_OFFSET * (b - offset) ** 2)

    a, b = slope.copy(), offset.copy()
    value = loss(a, b)
    for _ in range(MAX_STEPS):
        p = expit(a[labels] * standard + b[labels])
        error, curvature = p - yes, p * (1 - p)
        weighted = standard * curvature
        grad_a = entries.sums(standard * error) + HOLD_SLOPE * (a - slope)
        grad_b = entries.sums(error) + HOLD_OFFSET * (b - offset)
        h_aa = entries.sums(standard * weighted) + HOLD_SLOPE
        h_ab = entries.sums(weighted)
        h_bb = entries.sums(curvature) + HOLD_OFFSET
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


def calibration_error(truth: Matrix, probabilities: Matrix) -> float:
    """Expected calibration error: how far probabilities are from observed frequencies.

    Known entries are sorted into ten bins of equal width by their probability. The error is the
    mean over bins, weighted by their numbers of entries, of the absolute difference between the
    mean probability and the share of positives.

    Parameters
    ----------
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    probabilities : ndarray of shape (n_rows, n_labels)
        Probabilities of yes.

    Returns
    -------
    float
        From 0 to 1; NaN without entries.
    """
    known = np.isfinite(truth) & np.isfinite(probabilities)
    if not known.any():
        return float("nan")
    p, yes = probabilities[known], truth[known]
    bins = np.minimum((p * N_BINS).astype(np.intp), N_BINS - 1)
    excess = np.bincount(bins, p - yes, minlength=N_BINS)  # of a bin: n (mean p - share true)
    return float(np.abs(excess).sum() / len(p))
