"""Entries of the labels held out of a fit in turn, and what the fit says of them."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l._parameters import check_choice
from naim3l.decisions.calibration import log_loss
from naim3l.decisions.fusion import fuse_arrays
from naim3l.metrics import evaluate
from naim3l.problem.rows import Problem

# The one metric of held-out entries that `naim3l.evaluate` does not have.
LOG_LOSS = "log-loss"
METRICS = (*evaluate([[1, 0]], [[1, 0]]), LOG_LOSS)
LOWER_IS_BETTER = ("coverage", "one-error", LOG_LOSS)
# They rank the labels of a row, so that one label alone has no value, or always the same.
OF_RANKS = ("1-RL", "AP", "AUC", "coverage", "one-error")
AUTO = "auto"


def check_metric(metric: str) -> None:
    """Refuse what is not the name of a metric of held-out entries, nor "auto"."""
    check_choice("metric", metric, (AUTO, *METRICS))


def choose_metric(metric: str, truths: Iterable[Matrix]) -> str:
    """The metric that is asked for, or one that is defined on all held-out entries.

    Parameters
    ----------
    metric : str
        "auto" is "AP" if some row of every fold has a positive and a negative, else "log-loss".
    truths : iterable of ndarray of shape (n_rows, n_labels)
        Held-out entries of each fold: 1, 0, NaN = not among them.
    """
    truths = list(truths)
    if metric in OF_RANKS and truths[0].shape[1] == 1:
        raise ValueError(
            f"metric={metric!r} ranks the labels of a row, and there is only one label; take "
            "metric='log-loss' or 'macro-AUC', or leave it to 'auto'."
        )
    if metric != AUTO:
        return metric
    ranked = (((Y == 1).any(axis=1) & (Y == 0).any(axis=1)).any() for Y in truths)
    return "AP" if all(ranked) else LOG_LOSS


def deal_entries(problem: Problem, n_folds: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Fold of each entry, of the shape of ``problem.Y``; -1 where it is in none.

    Positives and negatives of each label in each view are shuffled and dealt in turn, so that
    their numbers in two folds differ by one at most. A label's only positive in a view is in
    none, so every view has positives outside of every fold. Where the rows of several views
    are one sample, its entries are dealt once, and hidden in all of them together.
    """
    if problem.samples is None:
        fold_of = np.full(problem.Y.shape, -1)
        turn = 0
        for rows in problem.row_slices:
            turn = _deal(problem.Y[rows], fold_of[rows], n_folds, turn, rng)
        return fold_of
    Y = labels_of_samples(problem)
    fold_of = np.full(Y.shape, -1)
    _deal(Y, fold_of, n_folds, 0, rng)
    return fold_of[problem.samples]


def _deal(
    Y: Matrix, fold_of: NDArray[np.intp], n_folds: int, turn: int, rng: np.random.RandomState
) -> int:
    """Deal the entries of one table in place; whose turn it is after that."""
    for known, fold in zip(Y.T, fold_of.T, strict=True):
        for value in (1, -1):
            entries = rng.permutation(np.flatnonzero(known == value))
            if value < 0 or len(entries) > 1:
                fold[entries] = (turn + np.arange(len(entries))) % n_folds
                turn += len(entries)
    return turn


def labels_of_samples(problem: Problem) -> Matrix:
    """Signed labels of each sample, (n_samples, n_labels), where samples are known."""
    assert problem.samples is not None
    Y = np.zeros((problem.samples.max() + 1, problem.n_labels))
    Y[problem.samples] = problem.Y
    return Y


def base_rates(problem: Problem) -> NDArray[np.float64]:
    """Share of positives among the known labels, (n_labels,); a sample counts once.

    One positive and one negative more keep it off 0 and 1.
    """
    Y = problem.Y if problem.samples is None else labels_of_samples(problem)
    return np.asarray(((Y > 0).sum(axis=0) + 1) / ((Y != 0).sum(axis=0) + 2))


def by_view_and_sample(problem: Problem, S: Matrix) -> Matrix:
    """Stacked rows as (n_views, n_samples, n_labels), NaN where a sample lacks the view."""
    assert problem.samples is not None
    table = np.full((len(problem.X), problem.samples.max() + 1, problem.n_labels), np.nan)
    for v, rows in enumerate(problem.row_slices):
        table[v, problem.samples[rows]] = S[rows]
    return table


def held_out_scores(
    problem: Problem, fold_of: NDArray[np.intp], solve: Callable[[Problem], Matrix]
) -> Matrix:
    """Score of each entry by a fit that did not see it, (n_rows, n_labels); NaN in no fold.

    Parameters
    ----------
    problem : Problem
    fold_of : ndarray of int, of the shape of ``problem.Y``
        What `deal_entries` returns.
    solve : callable
        Weights (n_weights, n_labels) that fit a problem.
    """
    scores = np.full(problem.Y.shape, np.nan)
    for fold in range(fold_of.max() + 1):
        hidden = fold_of == fold
        W = solve(problem.with_labels(np.where(hidden, 0, problem.Y)))
        scores[hidden] = problem.multiply(W)[hidden]
    return scores


def hidden_metric(problem: Problem, hidden: NDArray[np.bool_], W: Matrix, metric: str) -> float:
    """Metric of weights on the hidden entries.

    On fused scores where the rows of several views are one sample; else on each view, averaged
    over the views where it is defined.

    Parameters
    ----------
    problem : Problem
        With all entries known.
    hidden : bool ndarray of the shape of ``problem.Y``
    W : ndarray of shape (n_weights, n_labels)
    metric : str
        "log-loss", or a key of the dict that `naim3l.evaluate` returns.
    """
    if problem.samples is not None:
        truth, scores = hidden_truth(problem, hidden), problem.multiply(W)
        # All views of a sample carry the same labels, so any of them will do.
        known = np.full((problem.samples.max() + 1, problem.n_labels), np.nan)
        known[problem.samples] = truth
        fused = fuse_arrays(by_view_and_sample(problem, scores))
        seen = ~np.isnan(fused).any(axis=1)
        return measure(known[seen], fused[seen], metric)
    return mean_defined(hidden_metrics(problem, hidden, W, metric))


def hidden_metrics(
    problem: Problem, hidden: NDArray[np.bool_], W: Matrix, metric: str
) -> list[float]:
    """Metric of weights on the hidden entries of each view; see `hidden_metric`."""
    truth, scores = hidden_truth(problem, hidden), problem.multiply(W)
    return [measure(truth[rows], scores[rows], metric) for rows in problem.row_slices]


def hidden_truth(problem: Problem, hidden: NDArray[np.bool_]) -> Matrix:
    """Hidden entries as 1 and 0, NaN elsewhere; of the shape of ``problem.Y``."""
    return np.where(hidden, problem.Y > 0, np.nan)


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN; NaN where all are."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


def measure(truth: Matrix, scores: Matrix, metric: str) -> float:
    """A metric of one table (n_rows, n_labels) of held-out entries."""
    return log_loss(scores, truth) if metric == LOG_LOSS else evaluate(truth, scores)[metric]
