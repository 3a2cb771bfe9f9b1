"""Probabilities from scores, learned from scores that were held out of the fit.

One rule for few known labels and for many. The log-odds of a label in a table are those of its rate
there, and evidence: a slope times the standardised score, less a shift with which probabilities
average to the rate. Slopes are nested, so that labels with few known entries borrow from the table,
and it from all tables, and never negative: higher scores have higher probabilities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar
from scipy.special import expit, log_expit, logit

from naim3l._arrays import Mask, Matrix
from naim3l._threads import blas_threads, thread_map
from naim3l.files.stored import Array

# Precisions of the normal priors that draw a slope towards the common one, and an offset towards 0.
HOLD_SLOPE, HOLD_OFFSET = 20.0, 4.0
# Slopes are never smaller, so that probabilities rank rows as scores do.
LEAST_SLOPE = 0.05
MOST_SLOPE = 100.0  # of standardised scores; entries that can be separated have no best slope
# Standardised scores beyond it count less and less, so that no outlier decides alone.
USUAL = 4.0
# Scores that vary less, relative to their size, are equal.
LEAST_SPREAD = 1e-12
# An increase of the loss by less than this share is a rounding error.
ROUNDING = 1e-12
# Newton steps of a label's curve, the length at which they end, and how often one is halved.
MAX_STEPS, SHORT_STEP, MAX_HALVINGS = 50, 1e-8, 30


@dataclass(frozen=True)
class Calibration:
    """Log-odds ``base + slope * z - shift`` of each label, of standardised scores z.

    Attributes
    ----------
    centre, spread : ndarray of shape (n_labels,)
        Mean and standard deviation of the scores of the training rows.
    slope, shift : ndarray of shape (n_labels,)
        Of the evidence of each label. The slope is 0 where all rows have the same score.
    base : ndarray of shape (n_labels,)
        Log-odds of the rate of each label, to which probabilities of the training rows average.
    own : bool ndarray of shape (n_labels,)
        Whether the slope depends more on the label's own entries than on those of others.
    """

    centre: Annotated[Matrix, Array("f", "labels")]
    spread: Annotated[Matrix, Array("f", "labels", above=0)]
    slope: Annotated[Matrix, Array("f", "labels", low=0)]
    shift: Annotated[Matrix, Array("f", "labels")]
    base: Annotated[Matrix, Array("f", "labels")]
    own: Annotated[Mask, Array("b", "labels")]

    def evidence(self, scores: Matrix) -> Matrix:
        """Log-odds beyond those of the rates, of scores (n_rows, n_labels); NaN stays NaN."""
        return self.slope * compress((scores - self.centre) / self.spread) - self.shift

    def evidence_of(self, part: Matrix, scores: Matrix, share: Matrix) -> Matrix:
        """Evidence that is due to a part of scores, whose variance has a share of theirs."""
        # Of large scores, all parts count less and less alike.
        return self.slopes_at(scores) * part - share * self.shift

    def slopes_at(self, scores: Matrix) -> Matrix:
        """Factors of ``scores - centre`` in the evidence, equal for all but unusual scores."""
        z = (scores - self.centre) / self.spread
        unusual = np.abs(z) > USUAL
        share = np.where(unusual, compress(z) / np.where(unusual, z, 1.0), 1.0)
        return np.asarray(self.slope / self.spread * share)

    def log_odds(self, scores: Matrix) -> Matrix:
        """Log-odds of scores (n_rows, n_labels); NaN where a score is NaN."""
        return self.base + self.evidence(scores)

    def probabilities(self, scores: Matrix) -> Matrix:
        """Probabilities of scores (n_rows, n_labels); NaN where a score is NaN."""
        return expit(self.log_odds(scores))

    def scores_at(self, log_odds: Matrix | float) -> Matrix:
        """Score of each label, (n_labels,), above which its log-odds are larger than these.

        Where all rows have the same score, it is above that score if their log-odds are not larger.
        """
        beyond = log_odds - self.base + self.shift
        rises = self.slope > 0
        standard = _expand(beyond / np.where(rises, self.slope, 1.0))
        apart = np.where(beyond < -ROUNDING, -1.0, 1.0)  # so that no rounding error decides
        return self.centre + self.spread * np.where(rises, standard, beyond + apart)

    def log_odds_at(self, scores: Matrix) -> Matrix:
        """The inverse of `scores_at`: log-odds that are larger above these scores, (n_labels,)."""
        standard = (scores - self.centre) / self.spread
        apart = standard - np.where(standard < 0, -1.0, 1.0)
        beyond = np.where(self.slope > 0, self.slope * compress(standard), apart)
        return self.base + beyond - self.shift


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of a table that calibration learns from."""

    # Of held-out entries by fits without them, on the scale of the final fit; NaN elsewhere.
    scores: Matrix  # (n_rows, n_labels)
    truth: Matrix  # (n_rows, n_labels): 1, 0, NaN = unknown
    final: Matrix  # of training rows by the final fit, (n_final_rows, n_labels)

    @classmethod
    def of_views(cls, problem: Any, scores: Matrix, final: Matrix) -> "list[HeldOutScores]":
        """Of each view, from those of the stacked rows of a problem, (n_rows, n_labels)."""
        truth = problem.truth_of(problem.Y != 0)
        return [cls(scores[rows], truth[rows], final[rows]) for rows in problem.row_slices]

    @property
    def known(self) -> Mask:
        """Entries that are held out and known."""
        return np.isfinite(self.scores) & np.isfinite(self.truth)


def fit_calibration(scores: Matrix, truth: Matrix, rates: Matrix | None = None) -> Calibration:
    """Calibration of one table by itself, whose held-out scores are those of its rows.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_labels)
        Scores of held-out entries, by fits without them; NaN elsewhere.
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    rates : ndarray of shape (n_labels,), optional
        Share of positives of each label, by default that of the known entries, to which one
        positive and one negative are added.

    Returns
    -------
    Calibration
        A curve per label.
    """
    table = HeldOutScores(scores, truth, scores)
    if rates is None:
        yes, known = (table.known & (truth == 1)).sum(axis=0), table.known.sum(axis=0)
        rates = (yes + 1) / (known + 2)
    return fit_calibrations([table], np.atleast_2d(rates))[0]


def fit_calibrations(tables: Sequence[HeldOutScores], rates: Matrix) -> list[Calibration]:
    """Curves from scores to probabilities for all tables.

    Slopes minimise the log-loss of the held-out entries in three steps, each with a normal prior
    around the last: one slope for all tables, around 0; one for each table; and one for each label
    in it, with an offset that is not used. A label without entries in a table has its slope.
    ``rates`` are shares of positives of each label in each table, (n_tables, n_labels).
    """
    scales, bases = [scale_of(table.final) for table in tables], logit(rates)
    entries = [
        _Entries.of(compress((table.scores - centre) / spread), table.truth, table.known, base)
        for table, (centre, spread), base in zip(tables, scales, bases, strict=True)
    ]
    common = _nested_slope(entries, 0.0)

    def fit(v: int) -> Calibration:
        table, (centre, spread), own, base = tables[v], scales[v], entries[v], bases[v]
        around = np.full(len(base), _nested_slope([own], common))
        slope, offset = _own_curves(own, around, base)
        p = expit(slope[own.labels] * own.standard + offset[own.labels])
        # Fisher information of the slope of each label in its own entries.
        informed = own.sums(own.standard**2 * p * (1 - p)) > HOLD_SLOPE
        slope = np.where(np.isfinite(spread), np.maximum(slope, LEAST_SLOPE), 0.0)
        spread = np.where(np.isfinite(spread), spread, 1.0)
        standard = compress((table.final - centre) / spread)
        shift = centring_shift(base, slope * standard)
        return Calibration(centre, spread, slope, shift, base, informed)

    return thread_map(fit, range(len(tables)), blas_threads())


def held_out_losses(table: HeldOutScores, base: Matrix) -> Matrix:
    """Log-loss of each held-out entry, (n_rows, n_labels), with one slope for all; 0 elsewhere.

    ``base`` are log-odds of the rate of each label, (n_labels,).
    """
    centre, spread = scale_of(table.final)
    z = compress((table.scores - centre) / spread)
    slope = _nested_slope([_Entries.of(z, table.truth, table.known, base)], 0.0)
    log_odds = base + slope * z
    losses = -log_expit(np.where(table.truth > 0, log_odds, -log_odds))
    return np.where(table.known, losses, 0.0)


def compress(z: Matrix) -> Matrix:
    """Standardised scores, of which those beyond the usual grow like a logarithm."""
    beyond = np.maximum(np.abs(z) - USUAL, 0.0)
    return np.clip(z, -USUAL, USUAL) + np.sign(z) * np.log1p(beyond)


def _expand(z: Matrix) -> Matrix:
    """The inverse of `compress`; numbers that no score reaches become very large ones."""
    beyond = np.clip(np.abs(z) - USUAL, 0.0, 300.0)
    return np.clip(z, -USUAL, USUAL) + np.sign(z) * np.expm1(beyond)


def scale_of(scores: Matrix) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation of each label's scores; infinite if they are all equal."""
    known = np.isfinite(scores)
    count = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, scores, 0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, (scores - centre) ** 2, 0).sum(axis=0) / count)
    least = LEAST_SPREAD * np.maximum(np.abs(centre), 1)
    return centre, np.where(spread > least, spread, np.inf)


@dataclass(frozen=True)
class _Entries:
    """Held-out entries, sorted by label: standardised scores, and 1 or 0; (n_entries,) each."""

    standard: Matrix
    yes: Matrix
    labels: NDArray[np.intp]
    base: Matrix  # log-odds of the rate of each label, (n_labels,)
    present: NDArray[np.intp]  # labels that have entries
    starts: NDArray[np.intp]  # the first entry of each of these

    @classmethod
    def of(cls, standard: Matrix, truth: Matrix, used: Mask, base: Matrix) -> "_Entries":
        """Entries of a mask (n_rows, n_labels)."""
        labels, rows = np.nonzero(used.T)
        starts = np.unique(labels, return_index=True)
        return cls(standard[rows, labels], truth[rows, labels], labels, base, *starts)

    def sums(self, values: Matrix) -> Matrix:
        """Sums of values (n_entries,) by label, (n_labels,)."""
        totals = np.zeros(len(self.base))
        if len(values):
            totals[self.present] = np.add.reduceat(values, self.starts)
        return totals


def _nested_slope(tables: Sequence[_Entries], around: float) -> float:
    """The slope of all entries of some tables, at least 0, with a prior around another."""
    standard, yes = (np.concatenate([getattr(t, of) for t in tables]) for of in ("standard", "yes"))
    start = np.concatenate([of.base[of.labels] for of in tables])

    def gradient(slope: float) -> float:
        wrong = expit(start + slope * standard) - yes
        return float(standard @ wrong) + HOLD_SLOPE * (slope - around)

    if gradient(0.0) >= 0:
        return 0.0
    if gradient(MOST_SLOPE) <= 0:
        return MOST_SLOPE
    return float(root_scalar(gradient, bracket=(0.0, MOST_SLOPE), method="toms748").root)


def _own_curves(entries: _Entries, slope: Matrix, offset: Matrix) -> Matrix:
    """Most likely slope and offset of each label, with a normal prior around the given ones.

    The prior keeps steps finite if the entries of a label are separable or absent.
    """
    standard, yes, labels = entries.standard, entries.yes, entries.labels
    around, hold = np.stack([slope, offset]), np.array([[HOLD_SLOPE], [HOLD_OFFSET]])

    def loss(curve: Matrix) -> Matrix:
        log_odds = curve[0][labels] * standard + curve[1][labels]
        # -log of the probability of the truth; a positive has the sign of its log-odds reversed.
        against = np.where(yes > 0, -log_odds, log_odds)
        # log(1 + exp), in a form that is several times as fast as logaddexp and as exact.
        own = entries.sums(np.maximum(against, 0) + np.log1p(np.exp(-np.abs(against))))
        return np.asarray(own + 0.5 * (hold * (curve - around) ** 2).sum(axis=0))

    def derivatives(curve: Matrix) -> tuple[Matrix, Matrix]:
        p = expit(curve[0][labels] * standard + curve[1][labels])
        error, curvature = p - yes, p * (1 - p)
        sums = [entries.sums(of * curvature) for of in (standard**2, standard, 1.0)]
        gradient = np.stack([entries.sums(standard * error), entries.sums(error)])
        H = np.array([sums[:2], sums[1:]]).transpose(2, 0, 1) + np.diag(hold[:, 0])
        return gradient + hold * (curve - around), H

    return minimise(around, loss, derivatives)


def minimise(
    start: Matrix,
    loss: Callable[[Matrix], Matrix],
    derivatives: Callable[[Matrix], tuple[Matrix, Matrix]],
    least: float = -np.inf,
) -> Matrix:
    """Parameters (n_parameters, n_labels) with the lowest convex loss of each label, (n_labels,).

    Newton's method for all labels at once. ``derivatives`` are gradients, (n_parameters, n_labels),
    and matrices, (n_labels, n_parameters, n_parameters). Parameters at ``least`` stay there as long
    as they would fall. A step that would increase a loss, for which one extreme score is enough, is
    halved.
    """
    w, value = start, loss(start)
    for _ in range(MAX_STEPS):
        gradient, H = derivatives(w)
        free = ((w > least) | (gradient < 0)).T
        H = np.where(free[:, :, None] & free[:, None], H, np.eye(len(w)))
        step = np.linalg.solve(H, np.where(free, gradient.T, 0.0)[:, :, None])[:, :, 0].T
        if np.abs(step).max(initial=0.0) < SHORT_STEP:
            break
        share = np.ones(w.shape[1])
        for _ in range(MAX_HALVINGS):
            tried = np.maximum(w - share * step, least)
            reached = loss(tried)
            rises = reached > value + ROUNDING * (1 + value)
            if not rises.any():
                break
            share = np.where(rises, share / 2, share)
        w, value = tried, reached
    return w


def centring_shift(base: Matrix, evidence: Matrix) -> Matrix:
    """Shift of each label, (n_labels,), with which probabilities of the rows average to its rate.

    The mean of ``expit(base + evidence - shift)`` falls with the shift, and is above the rate at
    the smallest evidence and below it at the largest, between which Newton's method is kept.
    """
    rate, known = expit(base), np.isfinite(evidence)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, evidence, 0.0)
    low = np.where(known, evidence, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, evidence, -np.inf).max(axis=0, initial=-np.inf)
    low, high = (np.where(np.isfinite(end), end, 0.0) for end in (low, high))
    shift = filled.sum(axis=0) / count
    for _ in range(MAX_STEPS):
        p = expit(base + filled - shift)
        above = np.where(known, p, 0).sum(axis=0) / count - rate
        above = np.where(known.any(axis=0), above, 0.0)
        low, high = np.where(above > 0, shift, low), np.where(above > 0, high, shift)
        falls = np.where(known, p * (1 - p), 0).sum(axis=0) / count
        step = above / np.maximum(falls, 1e-300)
        tried = shift + step
        tried = np.where((tried < low) | (tried > high), (low + high) / 2, tried)
        done = np.abs(tried - shift).max() < SHORT_STEP
        shift = tried
        if done:
            break
    return shift
