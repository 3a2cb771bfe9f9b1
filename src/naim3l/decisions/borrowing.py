"""Labels that a table never records, predicted there through the labels that it does record.

Other tables tell how the label goes together with those. How much to believe that is learned from
labels that the table does record, each predicted as if it did not, on rows held out of the fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from naim3l._arrays import Mask, Matrix
from naim3l._text import some
from naim3l.decisions.bridge import LEAST_EXPECTED, shift_of, shift_slopes
from naim3l.decisions.calibration import Calibration, centring_shift
from naim3l.decisions.label_correlation import LabelCorrelation
from naim3l.files.stored import Array, Number
from naim3l.metrics.measures import MEASURES, ScoredLabels

# Rows without correlation that each pair of labels has besides those in which both are known.
HOLD_PAIRS = 10.0
NOISE = 0.3  # variance of standardised probabilities besides that of their correlations
# Precision of the normal prior that draws the strength to 0, and the largest strength.
HOLD_STRENGTH, MOST_STRENGTH = 3.0, 3.0
LEAST_STRENGTH = 1e-3
# Pairs of a table and a label that need to be simulated, and what their gain must exceed: a share,
# and a number of standard errors.
FEWEST_CHECKS, LEAST_GAIN, SURE = 4, 0.001, 2.0
# Known positives, and negatives, that a simulated label needs.
FEWEST_ENTRIES = 5
MOST_THROUGH = 3  # labels that are named as telling about another
N_GROUPS = 5  # of labels, each measured with the strength that the others have


@dataclass(frozen=True)
class LabelTable:
    """Held-out answers of a table, its labels, and which labels it ever records."""

    log_odds: Matrix  # calibrated, of held-out rows, (n_rows, n_labels); NaN elsewhere
    truth: Matrix  # (n_rows, n_labels): 1, 0, NaN = unknown
    base: Matrix  # log-odds of the rate of each label in the table, (n_labels,)
    recorded: Mask  # labels that are known of some row, (n_labels,)

    @property
    def correlation(self) -> LabelCorrelation:
        """Sums of products of standardised labels."""
        return LabelCorrelation.of(_standardised(self.truth, self.base))

    @property
    def evidence(self) -> Matrix:
        """Standardised probabilities; 0 where there are none, and for labels never recorded."""
        z = _standardised(expit(self.log_odds), self.base)
        return np.where(self.recorded & np.isfinite(z), z, 0.0)


def _standardised(values: Matrix, base: Matrix) -> Matrix:
    """Labels, or probabilities, as multiples of the standard deviation of labels of this rate."""
    rate = expit(base)
    return np.asarray((values - rate) / np.sqrt(rate * (1 - rate)))


@dataclass(frozen=True)
class Borrowing:
    """Evidence for labels that a table never records, from the labels that it records."""

    # For each absent label a column, with a weight for each recorded label; others are 0.
    weights: Annotated[Matrix, Array("f", "labels", "labels")]
    absent: Annotated[Mask, Array("b", "labels")]  # labels that the table never records
    # Factor of the evidence; 0 if it has not helped where it could be checked.
    strength: Annotated[float, Number(0, MOST_STRENGTH)]

    @property
    def borrowed(self) -> Mask:
        """Labels (n_labels,) whose probabilities differ between rows."""
        return self.absent & self.weights.any(axis=0) & (self.strength > 0)

    def apply(self, scores: Matrix, curve: Calibration) -> Matrix:
        """Scores (n_rows, n_labels), in which those of absent labels are replaced.

        ``curve`` is the calibration of the table, in which `calibrate` has replaced those of the
        absent labels.
        """
        z = _standardised(curve.probabilities(scores), curve.base)
        expected = np.where(self.absent, 0.0, z) @ self.weights[:, self.absent]
        of_rates = np.broadcast_to(curve.base[self.absent], expected.shape)
        found = scores.copy()
        evidence = shift_of(of_rates, expected)
        found[:, self.absent] = curve.centre[self.absent] + curve.spread[self.absent] * evidence
        return found

    def slopes_at(self, evidence: Matrix, curve: Calibration) -> Matrix:
        """Factors of a row's evidence (n_labels,) for other labels in the scores of absent ones.

        They are (n_labels, n_absent): ``curve.centre + evidence @ slopes`` are the scores of
        `apply`, as the slopes of curves between a rate and a probability, which are positive.
        """
        z = _standardised(expit(curve.base + evidence), curve.base)
        rate, some = expit(curve.base), np.abs(evidence) > LEAST_EXPECTED
        slope = np.where(some, z / np.where(some, evidence, 1.0), np.sqrt(rate * (1 - rate)))
        weights = np.where(self.absent, 0.0, slope)[:, None] * self.weights[:, self.absent]
        beyond = shift_slopes(curve.base[self.absent], evidence @ weights)
        return np.asarray(weights * beyond * curve.spread[self.absent])

    def calibrate(self, curve: Calibration, final: Matrix) -> Calibration:
        """The calibration of the scores of `apply`, given scores (n_rows, n_labels) of all rows."""
        slope = np.where(self.absent, np.where(self.borrowed, self.strength, 0.0), curve.slope)
        curve = replace(curve, slope=slope, own=curve.own & ~self.absent)
        z = (self.apply(final, curve) - curve.centre) / curve.spread
        shift = np.where(self.absent, centring_shift(curve.base, slope * z), curve.shift)
        curve = replace(curve, shift=shift)
        # The scores of absent labels have no scale of their own: 0 is a probability of one half.
        half = np.where(self.absent, curve.scores_at(0.0), 0.0)
        return replace(curve, centre=curve.centre - half)


@dataclass(frozen=True)
class AbsentLabel:
    """A label that a table never records, and where its probabilities there come from.

    Attributes
    ----------
    view, label : str
        The table and the label.
    tables, through : list of str
        Tables that record the label, and recorded labels that tell most about it.
    obstacle : str
        Why its probability is its frequency in every row; "" if it is predicted.
    """

    view: str
    label: str
    tables: list[str]
    through: list[str]
    obstacle: str


def absent_labels(
    borrowing: Mapping[str, Borrowing], obstacle: str, views: Sequence[str], labels: Sequence[str]
) -> list[AbsentLabel]:
    """Every label that a view never records, given why nothing is borrowed at all, or ""."""
    found = []
    for view, of_view in borrowing.items():
        for k in np.flatnonzero(of_view.absent).tolist():
            tables = [v for v in views if v not in borrowing or not borrowing[v].absent[k]]
            strengths = np.abs(of_view.weights[:, k])
            most = np.argsort(-strengths, kind="stable")[:MOST_THROUGH]
            through = [labels[j] for j in most if strengths[j] > 0]
            if not tables:
                here = "no table records it"
            else:
                alone = "" if through else f"no table knows it together with those of {view}"
                here = obstacle or alone
            found.append(AbsentLabel(view, labels[k], tables, through, here))
    return found


def describe_absent(absent: Sequence[AbsentLabel], simulated: "Simulation | None") -> list[str]:
    """Sentences for the user on labels that tables never record."""
    groups: dict[tuple[str, str], list[AbsentLabel]] = {}  # by view and obstacle
    for each in absent:
        groups.setdefault((each.view, each.obstacle), []).append(each)
    found = []
    for (view, obstacle), of_view in groups.items():
        what = some([each.label for each in of_view], 6, str)
        them = "it is" if len(of_view) == 1 else "they are"
        if not of_view[0].tables:
            found.append(
                f"{view} never records {what}, nor does another table: there is nothing to learn "
                "from, and its probability, the same for every row, means nothing."
            )
            continue
        if obstacle:
            found.append(
                f"{view} never records {what}: there {them} given the frequency in other tables, "
                f"the same for every row, because {obstacle}."
            )
            continue
        tables = some(list(dict.fromkeys(t for each in of_view for t in each.tables)), 4, str)
        through = some(list(dict.fromkeys(t for each in of_view for t in each.through)), 4, str)
        found.append(
            f"{view} never records {what}: there {them} predicted through {through}, by how these "
            f"go together in {tables}."
        )
    if simulated is not None and any(not each.obstacle for each in absent):
        found.append(
            f"Checked {simulated.n_checks} times, with a label that a table records, as if it did "
            f"not: log-loss {100 * simulated.gain:.1f} % below that of frequencies (standard error "
            f"{100 * simulated.error:.1f} %), AUC mostly from {100 * simulated.low:.0f} to "
            f"{100 * simulated.high:.0f}."
        )
    return found


@dataclass(frozen=True)
class Simulation:
    """What borrowing reaches for labels that are recorded, as if they were not."""

    # The factor of the evidence with the lowest log-loss.
    strength: Annotated[float, Number(0, MOST_STRENGTH)]
    gain: Annotated[float, Number(-10, 1)]  # share by which it lowers the log-loss of base rates
    error: Annotated[float, Number(0, finite=False)]  # standard error of the gain
    n_checks: Annotated[int, Number(0)]  # pairs of a table and a label that could be simulated
    # The range of AUC in which eight of ten of them lie; NaN without any.
    low: Annotated[float, Number(0, 1, finite=False)]
    high: Annotated[float, Number(0, 1, finite=False)]

    @property
    def obstacle(self) -> str:
        """Why nothing is borrowed, or ""."""
        if self.n_checks < FEWEST_CHECKS:
            return (
                f"only {self.n_checks} times does a table know a label often enough that another "
                f"one records, too, to check what can be borrowed; {FEWEST_CHECKS} are needed"
            )
        if not self.strength:
            return "checked on labels that are recorded, others do not tell about one that is not"
        if self.gain <= max(SURE * self.error, LEAST_GAIN):
            gain, error = 100 * max(self.gain, 0.0), 100 * self.error
            return (
                "checked on labels that are recorded, other labels do not tell enough about one "
                f"that is not (log-loss is lower than that of its frequency by {gain:.1f} %, with "
                f"a standard error of {error:.1f} %)"
            )
        return ""


def learn_borrowing(tables: Sequence[LabelTable]) -> tuple[Simulation, list[Borrowing | None]]:
    """What the simulation says, and for each table that lacks labels how they are predicted."""
    parts = [table.correlation for table in tables]
    total = LabelCorrelation.total(parts)
    simulated = simulate(tables, parts)
    strength = 0.0 if simulated.obstacle else simulated.strength
    found: list[Borrowing | None] = []
    R = total.matrix(HOLD_PAIRS)
    for table in tables:
        absent, recorded = ~table.recorded, np.flatnonzero(table.recorded)
        weights = np.zeros(R.shape)
        system = R[np.ix_(recorded, recorded)] + NOISE * np.eye(len(recorded))
        together = R[np.ix_(recorded, absent)] * (total.counts[np.ix_(recorded, absent)] > 0)
        weights[np.ix_(recorded, absent)] = np.linalg.solve(system, together)
        found.append(Borrowing(weights, absent, strength) if absent.any() else None)
    return simulated, found


def simulate(tables: Sequence[LabelTable], parts: Sequence[LabelCorrelation]) -> Simulation:
    """Each recorded label of each table, predicted as if the table did not record it."""
    total, entries = LabelCorrelation.total(parts), list[tuple[int, Matrix, Matrix, float]]()
    yes = np.array([np.nansum(table.truth, axis=0) for table in tables])
    known = np.array([np.isfinite(table.truth).sum(axis=0) for table in tables])
    for v, table in enumerate(tables):
        elsewhere = (total - parts[v]).matrix(HOLD_PAIRS)
        rates = (yes.sum(axis=0) - yes[v] + 1) / (known.sum(axis=0) - known[v] + 2)
        expected = table.evidence @ _left_out_weights(total, elsewhere, table.recorded)
        seen = np.isfinite(table.log_odds) & np.isfinite(table.truth)
        for k in np.flatnonzero((total.counts - parts[v].counts).diagonal() > 0):
            y = table.truth[seen[:, k], k]
            if min(y.sum(), len(y) - y.sum()) < FEWEST_ENTRIES:
                continue
            base = float(np.log(rates[k] / (1 - rates[k])))
            e = shift_of(np.full(seen[:, k].sum(), base), expected[seen[:, k], k])
            entries.append((int(k), e - e.mean(), y, base))
    return _measured(entries)


def _left_out_weights(total: LabelCorrelation, elsewhere: Matrix, recorded: Mask) -> Matrix:
    """For each recorded label a column of weights of the other recorded ones, (n, n)."""
    J = np.flatnonzero(recorded)
    C = total.matrix(HOLD_PAIRS)[np.ix_(J, J)] + NOISE * np.eye(len(J))
    right = elsewhere[np.ix_(J, J)].copy()
    np.fill_diagonal(right, 0.0)
    # Solutions without row and column k, from the inverse B of the whole matrix.
    B = np.linalg.inv(C)
    solved = B @ right
    solved -= B * (np.diag(solved) / np.diag(B))
    weights = np.zeros((len(recorded), len(recorded)))
    weights[np.ix_(J, J)] = solved
    return weights


def _strength(entries: Sequence[tuple[int, Matrix, Matrix, float]]) -> float:
    """Factor of the evidence with the lowest log-loss, with a prior around 0."""
    if not entries:
        return 0.0

    def loss(strength: float) -> float:
        losses = sum(_loss(of, strength) for of in entries)
        return float(losses + 0.5 * HOLD_STRENGTH * strength**2)

    found = float(minimize_scalar(loss, bounds=(0.0, MOST_STRENGTH), method="bounded").x)
    return found if found > LEAST_STRENGTH else 0.0  # which the search does not reach


def _loss(entry: tuple[int, Matrix, Matrix, float], strength: float) -> float:
    _, e, y, base = entry
    return float(np.logaddexp(0, np.where(y > 0, -1, 1) * (base + strength * e)).sum())


def _measured(entries: Sequence[tuple[int, Matrix, Matrix, float]]) -> Simulation:
    """What the simulated labels, each measured with the strength that others have, tell."""
    nothing = np.array([_loss(of, 0.0) for of in entries])
    reached = np.empty(len(entries))
    for group in range(N_GROUPS):
        strength = _strength([of for of in entries if of[0] % N_GROUPS != group])
        for i, of in enumerate(entries):
            if of[0] % N_GROUPS == group:
                reached[i] = _loss(of, strength)
    total = max(float(nothing.sum()), 1e-300)
    gain = float(nothing.sum() - reached.sum()) / total
    excess = nothing - reached - gain * nothing
    # Checks of a label in several tables may go together.
    labels = np.array([of[0] for of in entries])
    by_label = np.array([excess[labels == k].sum() for k in np.unique(labels)])
    error = max(_error_of_sum(excess), _error_of_sum(by_label)) / total
    aucs = [_auc(e, y) for _, e, y, _ in entries]
    low, high = np.quantile(aucs, (0.1, 0.9)) if aucs else (np.nan, np.nan)
    return Simulation(_strength(entries), gain, error, len(entries), float(low), float(high))


def _error_of_sum(values: Matrix) -> float:
    """Standard error of the sum of values whose expectation is 0."""
    n = len(values)
    return float(np.sqrt(np.sum(values**2) * n / (n - 1))) if n > 1 else np.inf


def _auc(scores: Matrix, y: Matrix) -> float:
    labels = ScoredLabels(y[:, None] == 1, y[:, None] == 0, scores[:, None])
    return float(MEASURES["macro-AUC"].compute(labels, np.ones((1, len(y))))[0])
