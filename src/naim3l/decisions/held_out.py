"""Label entries that are held out of fits in turn, their scores, and metrics of the scores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from naim3l._arrays import Mask, Matrix
from naim3l._threads import thread_map
from naim3l.decisions.calibration import LEAST_SPREAD, fit_calibration
from naim3l.decisions.fusion import fuse_arrays
from naim3l.metrics.measures import MEASURES, Measure, ScoredLabels, headline
from naim3l.problem.base import BaseProblem
from naim3l.problem.rows import Problem

AUTO, LOG_LOSS, RANKINGS = "auto", "log-loss", "rankings"
AddUp = Callable[[Matrix], Matrix]  # sums of all sites that take part in a fit
# Blocks of rows that are left out in turn to see how far a metric depends on the rows.
N_BLOCKS = 20
# With fewer known entries than this of a label in a table, on average, parameters are chosen that
# are simple, unless others are clearly better: the best of many would be the best by chance.
FEW_KNOWN = 30


def as_they_are(values: Matrix) -> Matrix:
    """Sums of a single site, where all tables are in one place."""
    return values


def _log_losses(labels: ScoredLabels, weights: Matrix) -> Matrix:
    """Mean log-loss, (n_draws,), under the best calibration curves for the same entries.

    The curves have few parameters, so that it tells how informative scores are on any scale.
    """
    truth = np.where(labels.positive, 1.0, np.where(labels.negative, 0.0, np.nan))
    known = np.isfinite(labels.scores) & np.isfinite(truth)
    log_odds = fit_calibration(labels.scores, truth).log_odds(labels.scores)
    losses = np.zeros(truth.shape)
    losses[known] = -log_expit(np.where(truth > 0, log_odds, -log_odds)[known])
    total, undefined = weights @ known.sum(axis=1), np.full(len(weights), np.nan)
    return np.divide(weights @ losses.sum(axis=1), total, where=total > 0, out=undefined)


def _rankings(labels: ScoredLabels, weights: Matrix) -> Matrix:
    """Geometric mean of AP and macro-AUC, (n_draws,), so that shares of both count alike."""
    return np.sqrt(labels.average_precision(weights) * labels.macro_auc(weights))


# Metrics of held-out entries that `naim3l.evaluate` does not compute.
_MEANING = "mean log-loss under calibration curves fitted to the same entries"
_BOTH = "geometric mean of AP and macro-AUC, which rank the labels of a row and the rows of a label"
METRICS = MEASURES | {
    LOG_LOSS: Measure(
        LOG_LOSS, LOG_LOSS, _MEANING, _log_losses, lower_is_better=True, percent=False
    ),
    RANKINGS: Measure(RANKINGS, RANKINGS, _BOTH, _rankings, ranks_labels=True),
}
LOWER_IS_BETTER = tuple(name for name, measure in METRICS.items() if measure.lower_is_better)
# They rank the labels of a row, so that a single label has no value, or always the same.
OF_RANKS = tuple(name for name, measure in METRICS.items() if measure.ranks_labels)


def choose_metric(metric: str, truths: Iterable[Matrix], add_up: AddUp = as_they_are) -> str:
    """The given metric, or for "auto" one that is defined on the held-out entries of each fold.

    With few labels that is "macro-AUC" if every fold has a label with a positive and a negative.
    With many it is "rankings" if every fold also has a row with both, or "AP" if it has only that:
    AP alone hardly tells parameters apart that rank the rows of a label much better or worse.
    Otherwise it is "log-loss". ``truths`` of shape (n_rows, n_labels) are 1, 0, and NaN where an
    entry is not held out; with ``add_up``, some site has such a label, or row, in every fold.
    """
    truths, allowed = list(truths), [AUTO, *METRICS]
    if metric not in allowed:
        raise ValueError(f"metric must be one of {allowed}, got {metric!r}.")
    if metric in OF_RANKS and truths[0].shape[1] == 1:
        raise ValueError(
            f"metric={metric!r} ranks the labels of a row, and there is only one label; use "
            "metric='log-loss', 'macro-AUC' or 'auto'."
        )
    if metric != AUTO:
        return metric
    both = [
        [((Y == 1).any(axis=axis) & (Y == 0).any(axis=axis)).any() for axis in (0, 1)]
        for Y in truths
    ]
    of_labels, of_rows = np.all(add_up(np.array(both, dtype=float)) > 0, axis=0)
    found = headline(truths[0].shape[1])
    if found == "AP" and of_labels and of_rows:
        return RANKINGS
    return found if (of_rows if found == "AP" else of_labels) else LOG_LOSS


def hold_out_folds(
    problem: Problem, n_folds: int, rng: np.random.RandomState, *, entries: bool = False
) -> NDArray[np.intp]:
    """Fold in which each entry is held out, of the shape of ``problem.Y``; -1 if in none.

    Whole rows are held out: all known entries of a row are in one fold, as those of a new row are
    unknown together. Or, with ``entries``, each entry by itself, as for filling in: the other
    labels of its row train the model. A label's positives in a view are never all held out
    together; if they would be, they are in no fold. If rows of several views are one sample, its
    entries are held out in all of these views together, and so are those of all rows of one id.
    """
    if problem.groups is not None:
        return _deal_groups(problem, n_folds, rng, entries=entries)
    if problem.samples is None:
        tables = [problem.Y[rows] for rows in problem.row_slices]
    else:
        tables = [problem.labels_of_samples]
    deal, turn, found = _deal_entries if entries else _deal_rows, 0, []
    for Y in tables:
        folds, turn = deal(Y, n_folds, turn, rng)
        folds[_never_held_out(Y, folds)] = -1
        found.append(folds)
    stacked = np.concatenate(found)
    return stacked if problem.samples is None else stacked[problem.samples]


def _never_held_out(Y: NDArray[Any], folds: NDArray[np.intp]) -> Mask:
    """Mask of the positives of each label of a table whose positives are all in one fold."""
    positive = Y > 0
    in_one = [len(np.unique(folds[positive[:, k], k])) == 1 for k in range(Y.shape[1])]
    return positive & np.array(in_one, dtype=bool)


def _deal_groups(
    problem: Problem, n_folds: int, rng: np.random.RandomState, *, entries: bool
) -> NDArray[np.intp]:
    """`hold_out_folds`, where what is known of all rows of an id is in one fold.

    Each table deals the ids that no table before it has dealt; an id has a label in a table if one
    of its rows there has it.
    """
    groups, Y, turn = problem.groups, problem.Y, 0
    assert groups is not None
    fold_of = np.full((groups.max() + 1, problem.n_labels), -1)
    for rows in problem.row_slices:
        of_ids = np.full(fold_of.shape, -2, dtype=Y.dtype)
        known = np.where(Y[rows] == 0, -2, Y[rows])
        np.maximum.at(of_ids, groups[rows], known)
        of_ids[(of_ids == -2) | (fold_of >= 0)] = 0
        dealt, turn = (_deal_entries if entries else _deal_rows)(of_ids, n_folds, turn, rng)
        if not entries:
            dealt = np.broadcast_to(dealt.max(axis=1, keepdims=True, initial=-1), dealt.shape)
        fold_of = np.where(fold_of < 0, dealt, fold_of)
    folds = np.where(Y == 0, -1, fold_of[groups])
    never = np.zeros(fold_of.shape, dtype=bool)
    for rows in problem.row_slices:
        of_rows, labels = np.nonzero(_never_held_out(Y[rows], folds[rows]))
        never[groups[rows][of_rows], labels] = True
    return np.where(never[groups], -1, folds)


def _deal_entries(Y: NDArray[Any], n_folds: int, turn: int, rng: Any) -> tuple[NDArray, int]:
    """Folds of the entries of a table: those of each label and value are dealt in turn."""
    folds = np.full(Y.shape, -1)
    for k, column in enumerate(Y.T):
        for value in (1, -1):
            rows = rng.permutation(np.flatnonzero(column == value))
            folds[rows, k] = (turn + np.arange(len(rows))) % n_folds
            turn += len(rows)
    return folds, turn


def _deal_rows(Y: NDArray[Any], n_folds: int, turn: int, rng: Any) -> tuple[NDArray, int]:
    """Folds of the rows of a table: those with the same rarest positive are dealt in turn.

    Rows without a positive are dealt by the rarest of their labels that are known to be no.
    """
    # Values of labels from rare to frequent, all positives before all negatives.
    counts = np.concatenate([(Y > 0).sum(axis=0), len(Y) + (Y < 0).sum(axis=0)])
    rank = np.argsort(np.argsort(counts, kind="stable"))
    both = np.concatenate([Y > 0, Y < 0], axis=1)
    of_row = np.where(both, rank, len(rank)).min(axis=1)
    shuffled = rng.permutation(len(Y))
    rows = shuffled[np.argsort(of_row[shuffled], kind="stable")]
    rows = rows[of_row[rows] < len(rank)]  # those with a known label
    fold_of = np.full(len(Y), -1)
    fold_of[rows] = (turn + np.arange(len(rows))) % n_folds
    return np.where(Y != 0, fold_of[:, None], -1), turn + len(rows)


@dataclass(frozen=True)
class Folds:
    """Entries that are held out in turn, and the problems without them."""

    rows: Problem  # in which entries are scored: all rows, or some if memory does not hold them
    fold_of: NDArray[np.intp]  # fold of each entry, of the shape of ``rows.Y``; -1 if in none
    without: Callable[[int], BaseProblem]  # the problem, of all rows, without a fold's entries

    @classmethod
    def of(cls, problem: Problem, fold_of: NDArray[np.intp]) -> Self:
        """Folds of all rows of a problem, as `hold_out_folds` assigns them."""
        return cls(problem, fold_of, lambda fold: problem.without(fold_of == fold))

    def __len__(self) -> int:
        return int(self.fold_of.max(initial=-1)) + 1

    def hidden(self, fold: int) -> Mask:
        """Mask (n_rows, n_labels) of the entries of a fold."""
        return self.fold_of == fold

    def scores(self, fits: Sequence[Matrix], final: Matrix) -> Matrix:
        """Score of each entry of ``rows`` by the fit without it; NaN if it is in no fold.

        If all known entries of a row are in one fold, its unknown ones also have scores, which are
        those of a new row.

        Scores of each fit are shifted and scaled so that those of all rows of a view have the mean
        and the standard deviation of its ``final`` scores, (n_rows, n_labels). Without this,
        entries of different folds cannot be compared: where a fold has more positives of a label,
        the fit without it has fewer, and lower scores.
        """
        scores, fold_of, unknown = (
            np.full(self.fold_of.shape, np.nan),
            self.fold_of,
            self.rows.Y == 0,
        )
        of_row = fold_of.max(axis=1, keepdims=True, initial=-1)
        whole = (unknown | (fold_of == of_row)).all(axis=1, keepdims=True)
        fold_of = np.where(whole & unknown, of_row, fold_of)
        for fold, W in enumerate(fits):
            S, hidden = self.rows.multiply(W), fold_of == fold
            for rows in self.rows.row_slices:
                here = hidden[rows]
                scores[rows][here] = _on_scale_of(final[rows], S[rows])[here]
        return scores


def _on_scale_of(final: Matrix, S: Matrix) -> Matrix:
    """Scores (n_rows, n_labels) with the mean and the standard deviation of others."""
    if not len(S):
        return S
    mean, spread = S.mean(axis=0), S.std(axis=0)
    varies = spread > LEAST_SPREAD * np.maximum(np.abs(mean), 1)
    scale = np.where(varies, final.std(axis=0) / np.where(varies, spread, 1.0), 1.0)
    return np.asarray(final.mean(axis=0) + scale * (S - mean))


def hidden_metric(problem: Problem, hidden: Mask, W: Matrix, metric: str) -> float:
    """The first value of `jackknifed_metric`."""
    return float(jackknifed_metric(problem, hidden, W, metric, n_blocks=0)[0])


def jackknifed_metric(
    problem: Problem,
    hidden: Mask,
    W: Matrix,
    metric: str,
    *,
    n_blocks: int = N_BLOCKS,
    add_up: AddUp = as_they_are,
) -> Matrix:
    """Metric (a key of `METRICS`) of weights on hidden entries, of all rows and without each block.

    It is that of fused scores if rows of several views are one sample, otherwise the mean over the
    views in which it is defined. The rows that have hidden entries are assigned to the blocks in
    turn, so that the values, (1 + n_blocks,), tell how much a metric depends on the rows.
    """
    tables = _of_tables(problem, hidden, W, metric, n_blocks, fused=problem.samples is not None)
    values, defined = np.array(tables), np.isfinite(tables)
    sums = np.where(defined, values, 0).sum(axis=0), defined.sum(axis=0)
    total, count = add_up(np.array(sums))
    return np.divide(total, count, where=count > 0, out=np.full(len(total), np.nan))


def hidden_metrics(problem: Problem, hidden: Mask, W: Matrix, metric: str) -> list[float]:
    """Metric of weights on the hidden entries of each view."""
    return [float(value) for (value,) in _of_tables(problem, hidden, W, metric, 0, fused=False)]


def _of_tables(
    problem: Problem, hidden: Mask, W: Matrix, metric: str, n_blocks: int, *, fused: bool
) -> list[Matrix]:
    """Metrics (1 + n_blocks,) of each view, or of fused scores alone."""
    truth, scores = problem.truth_of(hidden), problem.multiply(W)
    if fused:
        # All views of a sample have the same labels, so that their mean is the label.
        truth, scores = (fuse_arrays(problem.by_view_and_sample(S)) for S in (truth, scores))
        tables: list[Any] = [~np.isnan(scores).any(axis=1)]
    else:
        tables = problem.row_slices
    return thread_map(
        lambda rows: _measured(truth[rows], scores[rows], metric, n_blocks),
        tables,
        min(problem.n_threads, len(tables)),
    )


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN; NaN if all are."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


def few_known(problem: Any, add_up: AddUp = as_they_are) -> bool:
    """Whether so few entries of each label in each table are known that metrics are chance."""
    known = problem.label_counts[1]
    n_known, n_labels = add_up(np.array([known.sum(), np.count_nonzero(known)], dtype=float))
    return bool(n_known < FEW_KNOWN * n_labels)


def best_of_folds(values: Matrix, metric: str, simplicity: Any = None) -> int:
    """Position of the candidate with the best mean over folds, the first of equals.

    The metric of each fold and candidate, (n_folds, n_candidates), is NaN where it is undefined.
    Given ``simplicity`` (n_candidates,), the candidate with its lowest value is taken instead among
    those that are worse than the best by at most a standard error of the difference.
    """
    losses = values if metric in LOWER_IS_BETTER else -values
    mean = np.array([mean_defined(of_candidate) for of_candidate in losses.T])
    best = int(np.argmin(np.where(np.isnan(mean), np.inf, mean)))
    if simplicity is None or np.isnan(mean[best]):
        return best
    close = np.arange(len(mean)) == best
    for j in np.flatnonzero(np.isfinite(mean)):
        worse = losses[:, j] - losses[:, best]
        worse = worse[np.isfinite(worse)]
        if len(worse) > 1:
            close[j] |= worse.mean() <= worse.std(ddof=1) / len(worse) ** 0.5
    return int(np.argmin(np.where(close, simplicity, np.inf)))


def _measured(truth: Matrix, scores: Matrix, metric: str, n_blocks: int) -> Matrix:
    """A metric of a table's held-out entries, and without each block of rows, (1 + n_blocks,)."""
    weights = np.ones((1 + n_blocks, len(truth)))
    if n_blocks:
        rows = np.flatnonzero(np.isfinite(truth).any(axis=1))
        weights[1 + np.arange(len(rows)) % n_blocks, rows] = 0
    return METRICS[metric].compute(ScoredLabels(truth == 1, truth == 0, scores), weights)
