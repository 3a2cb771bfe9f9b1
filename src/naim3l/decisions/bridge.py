"""Probabilities of a row's unknown labels that also use its known ones.

Features leave a residual of every known label: the truth less its probability, in units of the
standard deviation that this probability implies. Residuals of labels that go together are
correlated, and tell about those of the unknown labels. How much to believe them is learned from
known entries that are left out one at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Any

import numpy as np
from scipy.special import expit

from naim3l._arrays import Matrix
from naim3l._threads import blas_threads, thread_map
from naim3l.decisions.label_correlation import Conditional, LabelCorrelation
from naim3l.files.stored import Nested, Number

# Candidates of the variance of residuals besides that of their correlations, and of the strength.
NOISES = (0.1, 0.3, 1.0)
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
# Precision of the normal prior that draws the strength to 0.
HOLD_STRENGTH = 10.0
N_FOLDS = 5
MOST_ROWS = 5000  # of each table, from which strengths are learned
# The least variance of an entry, so that a surprise in a very sure one does not decide alone.
LEAST_VARIANCE = 1e-3
# A probability, or that of the opposite, is divided by no more than this.
MOST_CHANGE = 5.0
# Expected residuals that are smaller are rounding errors.
LEAST_EXPECTED = 1e-9
# Log-odds beyond it have probabilities that floating-point numbers cannot tell from 0.
LARGEST_LOG_ODDS = 700.0


def residuals_of(log_odds: Matrix, truth: Matrix) -> Matrix:
    """What probabilities leave open of known labels, in standard deviations; NaN elsewhere.

    They are (n_rows, n_labels), as are log-odds without the labels of the row, and the truth.
    """
    p = expit(log_odds)
    return np.asarray((truth - p) / np.sqrt(np.maximum(p * (1 - p), LEAST_VARIANCE)))


def shift_of(log_odds: Matrix, expected: Matrix) -> Matrix:
    """What expected residuals add to log-odds, both (n_rows, n_labels)."""
    eta = np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    p, q = expit(eta), expit(-eta)
    change = np.sqrt(np.maximum(p * q, LEAST_VARIANCE)) * expected
    # Both probabilities are computed from the smaller one, which has all its digits.
    yes = np.clip(p + change, p / MOST_CHANGE, 1 - q / MOST_CHANGE)
    no = np.clip(q - change, q / MOST_CHANGE, 1 - p / MOST_CHANGE)
    rare = yes <= no
    smaller = np.where(rare, yes, no)
    reached = np.log(smaller) - np.log1p(-smaller)
    return np.asarray(np.where(rare, reached, -reached) - eta)


def shift_slopes(log_odds: Matrix, expected: Matrix) -> Matrix:
    """Factors of expected residuals in `shift_of`, which are positive."""
    p = expit(np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))
    spread = p * (1 - p)
    # Where little is expected, the derivative, to which the ratio tends.
    tiny = np.finfo(float).tiny
    derivative = np.sqrt(np.maximum(spread, LEAST_VARIANCE)) / np.maximum(spread, tiny)
    some = np.abs(expected) > LEAST_EXPECTED
    return np.where(some, shift_of(log_odds, expected) / np.where(some, expected, 1), derivative)


@dataclass(frozen=True)
class Bridge:
    """What known labels add to the log-odds of the unknown labels of their row.

    Attributes
    ----------
    residuals : LabelCorrelation
        Sums over the rows of all tables of held-out residuals.
    noise : float
        Variance that residuals have besides that of their correlations.
    strength : float
        Factor of what the known labels add; 0 if they have not helped on held-out rows.
    gain : float
        Share by which the log-loss of known entries falls that are left out one at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.extend import learn_bridge
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat((rng.random((200, 1)) < 0.5).astype(float), 2, axis=1)  # two copies
    >>> bridge = learn_bridge([(np.zeros((200, 2)), labels)])
    >>> bridge.log_odds(np.zeros((1, 2)), np.array([[1.0, np.nan]])).round(1)
    array([[0. , 3.8]])
    """

    residuals: Annotated[LabelCorrelation, Nested(LabelCorrelation)]
    noise: Annotated[float, Number(above=0)]
    strength: Annotated[float, Number(0, STRENGTHS[-1])]
    gain: Annotated[float, Number(-1, 1)]

    @cached_property
    def _conditional(self) -> Conditional:
        return Conditional.of(self.residuals.matrix())

    def log_odds(self, log_odds: Matrix, truth: Matrix) -> Matrix:
        """Log-odds (n_rows, n_labels) of unknown labels given the known labels of their row.

        Given are those without the labels of the row, and the truth: 1, 0, NaN = unknown. Those of
        known labels, and of rows without known labels, are unchanged.
        """
        found, open_ = log_odds.copy(), np.isnan(truth)
        rows = np.flatnonzero(open_.any(axis=1) & ~open_.all(axis=1))
        if self.strength and len(rows):
            eta, unknown = log_odds[rows], open_[rows]
            expected = self._conditional.expected(residuals_of(eta, truth[rows]), self.noise)
            eta[unknown] += self.strength * shift_of(eta[unknown], expected[unknown])
            found[rows] = eta
        return found

    def shares(self, log_odds: Matrix, truth: Matrix) -> Matrix:
        """What each known label of one row adds to the log-odds of its unknown ones.

        The expected residual of an unknown label is a sum over the known ones, and so, in
        proportion, is what it adds to the log-odds. The result is (n_known, n_labels), 0 for the
        known labels.
        """
        known = np.flatnonzero(np.isfinite(truth))
        alone = np.repeat(np.where(np.isfinite(truth), 0.0, np.nan)[None], len(known), axis=0)
        alone[np.arange(len(known)), known] = residuals_of(log_odds, truth)[known]
        expected = np.nan_to_num(self._conditional.expected(alone, self.noise))
        return self.strength * shift_slopes(log_odds, expected.sum(axis=0)) * expected

    def left_out(self, log_odds: Matrix, truth: Matrix) -> Matrix:
        """Log-odds of known labels given the other known labels of their row; NaN elsewhere.

        Parameters are those of `log_odds`.
        """
        expected = self._conditional.left_out(residuals_of(log_odds, truth), self.noise)
        return log_odds + self.strength * shift_of(log_odds, expected)


def learn_bridge(
    tables: Sequence[tuple[Matrix, Matrix]], *, disjoint: bool = False, groups: Any = None
) -> Bridge | None:
    """What known labels add, learned from held-out rows.

    For each known entry, correlations are those of the rows in other folds of its table; a sample
    that is in another table would give itself away.

    Parameters
    ----------
    tables : sequence of pairs of ndarray of shape (n_rows, n_labels)
        Held-out log-odds, NaN where there are none, and labels: 1, 0, NaN = unknown.
    disjoint : bool, default=False
        Whether no sample is in two tables, so that those of all tables can be used.
    groups : sequence of ndarray of int, of shape (n_rows,), or None, optional
        By table: the same number for rows of one id, which are in one fold.

    Returns
    -------
    Bridge or None
        None if no two labels are known together.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.extend import learn_bridge
    >>> rng = np.random.default_rng(0)
    >>> labels = (rng.random((200, 2)) < 0.5).astype(float)  # that are independent
    >>> learn_bridge([(np.zeros((200, 2)), labels)]).strength
    0.0
    """
    found = [residuals_of(*table) for table in tables]
    groups = [None] * len(found) if groups is None else groups
    pairs = zip(found, groups, strict=True)
    folds = [(np.arange(len(r)) if of is None else of) % N_FOLDS for r, of in pairs]
    parts = [
        [LabelCorrelation.of(r[fold_of == fold]) for fold in range(N_FOLDS)]
        for r, fold_of in zip(found, folds, strict=True)
    ]
    total = LabelCorrelation.total(part for of_table in parts for part in of_table)
    if not (np.triu(total.counts, 1) > 0).any():
        return None

    wholes = [total if disjoint else LabelCorrelation.total(of_table) for of_table in parts]
    known = [np.flatnonzero(np.isfinite(r).any(axis=1)) for r in found]
    used = [rows[:: max(1, -(-len(rows) // MOST_ROWS))] for rows in known]

    def losses_of(v: int, fold: int) -> Matrix:
        rows = used[v][folds[v][used[v]] == fold]
        others = [of_table[fold] for of_table in parts] if disjoint else [parts[v][fold]]
        rest = wholes[v] - LabelCorrelation.total(others)
        return _losses(rest, found[v][rows], *(of[rows] for of in tables[v]))

    places = product(range(len(tables)), range(N_FOLDS))
    losses = np.sum(thread_map(lambda at: losses_of(*at), places, blas_threads()), axis=0)
    penalised = losses + 0.5 * HOLD_STRENGTH * np.square(STRENGTHS)
    i, j = np.unravel_index(np.argmin(penalised), losses.shape)
    gain = 1 - losses[i, j] / losses[0, 0] if losses[0, 0] > 0 else 0.0
    return Bridge(total, NOISES[i], STRENGTHS[j], float(np.clip(gain, -1, 1)))


def _losses(rest: LabelCorrelation, r: Matrix, log_odds: Matrix, truth: Matrix) -> Matrix:
    """Log-loss of left-out entries by noise and strength, of rows (n_rows, n_labels)."""
    conditional, known = Conditional.of(rest.matrix()), np.isfinite(r)
    eta, sign = log_odds[known], np.where(truth[known] > 0, -1.0, 1.0)
    losses = np.empty((len(NOISES), len(STRENGTHS)))
    for i, noise in enumerate(NOISES):
        shift = shift_of(eta, conditional.left_out(r, noise)[known])
        for j, strength in enumerate(STRENGTHS):
            losses[i, j] = np.logaddexp(0, sign * (eta + strength * shift)).sum()
    return losses
