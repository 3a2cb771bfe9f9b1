"""Label entries that are held out of fits in turn, their scores, and metrics of the scores."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l._threads import thread_map
from naim3l.decisions.calibration import log_losses
from naim3l.decisions.fusion import fuse_arrays
from naim3l.metrics.measures import MEASURES, Measure, ScoredLabels
from naim3l.problem.base import BaseProblem
from naim3l.problem.rows import Problem


def _log_losses(labels: ScoredLabels, weights: Matrix) -> Matrix:
    truth = np.where(labels.positive, 1.0, np.where(labels.negative, 0.0, np.nan))
    return log_losses(labels.scores, truth, weights)


# The only metric of held-out entries that `naim3l.evaluate` does not compute.
LOG_LOSS = Measure(
    "log-loss",
    "log-loss",
    "mean log-loss under calibration curves fitted to the same entries",
    _log_losses,
    lower_is_better=True,
    percent=False,
)
METRICS = {**MEASURES, LOG_LOSS.name: LOG_LOSS}
LOWER_IS_BETTER = tuple(name for name, measure in METRICS.items() if measure.lower_is_better)
# They rank the labels of a row, so that a single label has no value, or always the same.
OF_RANKS = tuple(name for name, measure in METRICS.items() if measure.ranks_labels)
AUTO = "auto"
# Blocks of rows that are left out in turn to see how far a metric depends on the rows.
N_BLOCKS = 20


def check_metric(metric: str) -> None:
    """Refuse anything but "auto" and the names of metrics of held-out entries."""
    allowed = [AUTO, *METRICS]
    if metric not in allowed:
        raise ValueError(f"metric must be one of {allowed}, got {metric!r}.")


def choose_metric(metric: str, truths: Iterable[Matrix]) -> str:
    """The given metric, or for "auto" one that is defined on all held-out entries.

    Parameters
    ----------
    metric : str
        "auto" is "AP" if every fold has a row with a positive and a negative, otherwise "log-loss".
    truths : iterable of ndarray of shape (n_rows, n_labels)
        Held-out entries of each fold: 1, 0, NaN = not among them.
    """
    truths = list(truths)
    if metric in OF_RANKS and truths[0].shape[1] == 1:
        raise ValueError(
            f"metric={metric!r} ranks the labels of a row, and there is only one label; use "
            "metric='log-loss', 'macro-AUC' or 'auto'."
        )
    if metric != AUTO:
        return metric
    ranked = (((Y == 1).any(axis=1) & (Y == 0).any(axis=1)).any() for Y in truths)
    return "AP" if all(ranked) else LOG_LOSS.name


def shuffled_entries(
    Y: NDArray[Any], values: Sequence[int], rng: np.random.RandomState
) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
    """Label, value and rows, in random order, of the entries of each label with each value."""
    for k, column in enumerate(Y.T):
        for value in values:
            yield k, value, rng.permutation(np.flatnonzero(column == value))


def hold_out_share(
    Y: NDArray[Any], share: float, rng: np.random.RandomState, *, values: Sequence[int] = (1, 0)
) -> NDArray[np.bool_]:
    """Mask of a share of each label's positives and of its negatives, rounded down.

    Labels are 1, 0, and NaN = unknown; ``values`` is the order in which those of a label are drawn.
    """
    held_out = np.zeros(Y.shape, dtype=bool)
    for k, _, rows in shuffled_entries(Y, values, rng):
        held_out[rows[: whole_share(share, rows.size)], k] = True
    return held_out


def whole_share(share: float, count: Any) -> Any:
    """Share of a count (int or int array), rounded down.

    The tiny term makes 0.29 of 100 rows 29, where the bare product is 28.999999999999996.
    """
    return np.floor(share * np.asarray(count) + 1e-9).astype(np.intp)


def hold_out_folds(problem: Problem, n_folds: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Fold in which each entry is held out, of the shape of ``problem.Y``; -1 if in none.

    Positives and negatives of each label in each view are shuffled and assigned to the folds in
    turn, so that their numbers in two folds differ by at most one. A label's only positive in a
    view is in no fold, so that every view has positives outside of every fold. If rows of several
    views are one sample, its entries are held out in all of these views together.
    """
    if problem.samples is None:
        tables = [problem.Y[rows] for rows in problem.row_slices]
    else:
        tables = [problem.labels_of_samples]
    fold_of, turn = [np.full(Y.shape, -1) for Y in tables], 0
    for Y, folds in zip(tables, fold_of, strict=True):
        for k, value, rows in shuffled_entries(Y, (1, -1), rng):
            if value < 0 or len(rows) > 1:
                folds[rows, k] = (turn + np.arange(len(rows))) % n_folds
                turn += len(rows)
    stacked = np.concatenate(fold_of)
    return stacked if problem.samples is None else stacked[problem.samples]


@dataclass(frozen=True)
class Folds:
    """Entries that are held out in turn, and the problems without them.

    Attributes
    ----------
    rows : Problem
        Rows in which held-out entries are scored. If there are more rows than memory holds, these
        are some of them.
    fold_of : ndarray of int, of the shape of ``rows.Y``
        Fold of each entry; -1 if it is in none.
    without : callable
        Function of the number of a fold that returns the problem without its entries, of all rows.
    """

    rows: Problem
    fold_of: NDArray[np.intp]
    without: Callable[[int], BaseProblem]

    @classmethod
    def of(cls, problem: Problem, fold_of: NDArray[np.intp]) -> Self:
        """Folds of all rows of a problem, as `hold_out_folds` assigns them."""
        return cls(problem, fold_of, lambda fold: problem.without(fold_of == fold))

    def __len__(self) -> int:
        return int(self.fold_of.max(initial=-1)) + 1

    def hidden(self, fold: int) -> NDArray[np.bool_]:
        """Mask (n_rows, n_labels) of the entries of a fold."""
        return self.fold_of == fold

    def fits(self, solve: Callable[[Any], Matrix]) -> list[Matrix]:
        """Weights (n_weights, n_labels) that ``solve`` gives for the problem without each fold."""
        return [solve(self.without(fold)) for fold in range(len(self))]

    def scores(self, fits: Sequence[Matrix], *, levelled: bool = False) -> Matrix:
        """Score of each entry of ``rows`` by the fit without it; see `held_out_scores`."""
        return held_out_scores(self.rows, self.fold_of, fits, levelled=levelled)


def held_out_scores(
    problem: Problem, fold_of: NDArray[np.intp], fits: Sequence[Matrix], *, levelled: bool = False
) -> Matrix:
    """Score of each entry by the fit without it, (n_rows, n_labels); NaN if it is in no fold.

    Parameters
    ----------
    problem : Problem
    fold_of : ndarray of int, of the shape of ``problem.Y``
        Result of `hold_out_folds`.
    fits : sequence of ndarray of shape (n_weights, n_labels)
        Results of fits without each fold, as `Folds.fits` gives them.
    levelled : bool
        Whether scores are shifted so that the fits of all folds have the same mean over the rows
        of each view. Without this, entries of different folds cannot be ranked by their scores:
        where a fold has more positives of a label, the fit without it has fewer, and lower scores.
    """
    scores = np.full(problem.Y.shape, np.nan)
    levels = np.zeros((len(fits), *problem.Y.shape[1:], len(problem.row_slices)))
    for fold, W in enumerate(fits):
        S = problem.multiply(W)
        hidden = fold_of == fold
        scores[hidden] = S[hidden]
        levels[fold] = np.stack([S[rows].mean(axis=0) for rows in problem.row_slices], axis=-1)
    if levelled and len(fits):
        shifts = levels.mean(axis=0) - levels  # (n_folds, n_labels, n_views)
        labels = np.arange(problem.n_labels)
        for v, rows in enumerate(problem.row_slices):
            scores[rows] += shifts[fold_of[rows], labels, v]  # of no fold: stays NaN
    return scores


def hidden_metric(problem: Problem, hidden: NDArray[np.bool_], W: Matrix, metric: str) -> float:
    """Metric (a key of `METRICS`) of weights on the hidden entries of a problem that has them all.

    It is that of fused scores if rows of several views are one sample, otherwise the mean over the
    views in which it is defined.
    """
    return float(jackknifed_metric(problem, hidden, W, metric, n_blocks=0)[0])


def jackknifed_metric(
    problem: Problem,
    hidden: NDArray[np.bool_],
    W: Matrix,
    metric: str,
    *,
    n_blocks: int = N_BLOCKS,
) -> NDArray[np.float64]:
    """`hidden_metric`, followed by its values without each of ``n_blocks`` blocks of rows.

    The rows that have hidden entries are assigned to the blocks in turn. Differences between the
    values of two fits tell how much the difference of their metrics depends on the rows.

    Returns
    -------
    ndarray of shape (1 + n_blocks,)
    """
    truth, scores = problem.truth_of(hidden), problem.multiply(W)
    if problem.samples is None:
        tables = [(truth[rows], scores[rows]) for rows in problem.row_slices]
    else:
        # All views of a sample have the same labels, so that their mean is the label.
        truth, scores = (fuse_arrays(problem.by_view_and_sample(S)) for S in (truth, scores))
        seen = ~np.isnan(scores).any(axis=1)
        tables = [(truth[seen], scores[seen])]

    def of_table(table: tuple[Matrix, Matrix]) -> Matrix:
        return measure_draws(*table, metric, _without_blocks(table[0], n_blocks))

    values = thread_map(of_table, tables, min(problem.n_threads, len(tables)))
    return np.array([mean_defined(of_draw) for of_draw in np.transpose(values)])


def _without_blocks(truth: Matrix, n_blocks: int) -> Matrix:
    """Weights of rows, (1 + n_blocks, n_rows): all rows, then those outside of each block."""
    weights = np.ones((1 + n_blocks, len(truth)))
    rows = np.flatnonzero(np.isfinite(truth).any(axis=1))
    if n_blocks:
        weights[1 + np.arange(len(rows)) % n_blocks, rows] = 0
    return weights


def hidden_metrics(
    problem: Problem, hidden: NDArray[np.bool_], W: Matrix, metric: str
) -> list[float]:
    """Metric of weights on the hidden entries of each view; see `hidden_metric`."""
    truth, scores = problem.truth_of(hidden), problem.multiply(W)

    def of_view(rows: slice) -> float:
        return measure(truth[rows], scores[rows], metric)

    return thread_map(of_view, problem.row_slices, min(problem.n_threads, len(problem.row_slices)))


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN; NaN if all are."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


def measure(truth: Matrix, scores: Matrix, metric: str) -> float:
    """A metric of one table (n_rows, n_labels) of held-out entries."""
    return float(measure_draws(truth, scores, metric, np.ones((1, len(truth))))[0])


def measure_draws(truth: Matrix, scores: Matrix, metric: str, weights: Matrix) -> Matrix:
    """A metric of one table (n_rows, n_labels), under weights (n_draws, n_rows) of the rows."""
    return METRICS[metric].compute(ScoredLabels(truth == 1, truth == 0, scores), weights)
