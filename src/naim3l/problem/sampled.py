"""A problem with more rows than memory holds: statistics of all rows, and a sample of them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix
from naim3l.problem.rows import LabelRates, Problem
from naim3l.problem.sampling import RowSample, deal_keys, repeated
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics


class SampledProblem(LabelRates):
    """Statistics of all rows by fold, on which models are fitted, and sampled rows to judge them.

    A label's positives are never all held out: where all of them in a view, or in a wide table,
    are in the same fold, they are in no fold.

    ``statistics`` are of all rows that have a view, with a column of ones if ``fit_intercept``.
    ``samples`` have features without it, signed labels, and results of `fold_keys`; for a wide
    table, whose rows that have any view are counted in ``table_counts``, rows are sampled with all
    of their views.
    ``fold_of`` (n_sampled_rows, n_labels) is the fold of each entry of the sample, -1 if in none.
    """

    def __init__(
        self,
        statistics: Sequence[RowStatistics],
        samples: Sequence[RowSample],
        *,
        names: Sequence[str] | None = None,
        n_folds: int = 0,
        fit_intercept: bool = True,
        positive_weight: float = 1.0,
        table_counts: LabelCounts | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.statistics, self.n_folds = list(statistics), n_folds
        self.fit_intercept, self.positive_weight = fit_intercept, positive_weight
        self.table_counts, self.checkpoint = table_counts, checkpoint  # of a fit to the problem
        numbers = None
        if table_counts is not None:
            samples, numbers = _together(samples)
        X, Y, keys = ([of_view.arrays[i] for of_view in samples] for i in range(3))
        options: Any = {"fit_intercept": fit_intercept, "positive_weight": positive_weight}
        n_samples = sum(map(len, keys)) if numbers is None else len(np.unique(numbers))
        groups = repeated(np.concatenate(keys), n_samples)
        self.sample = Problem(X, Y, **options, samples=numbers, groups=groups, names=names)
        self.sample.base_rates, self.sample.table_rates = self.base_rates, self.table_rates
        self.fold_of = np.concatenate([self._folds_of(v, of) for v, of in enumerate(samples)])

    def settle(self, counts_elsewhere: NDArray[np.intp]) -> None:
        """Learn how often labels are known at other sites."""
        super().settle(counts_elsewhere)
        self.sample.base_rates, self.sample.table_rates = self.base_rates, self.table_rates

    @property
    def n_rows(self) -> int:
        """Number of rows of all views, not only of the sample."""
        return sum(view.n_rows for view in self.statistics)

    @property
    def label_counts(self) -> NDArray[np.intp]:
        wide = self.table_counts
        tables = [view.counts for view in self.statistics] if wide is None else [wide]
        counts = [(of.n_positives.sum(axis=0), of.n_known.sum(axis=0)) for of in tables]
        return np.array(counts).swapaxes(0, 1)

    @cached_property
    def whole(self) -> StatisticsProblem:
        """The problem of all rows and entries."""
        views = [view.view(self.positive_weight) for view in self.statistics]
        return StatisticsProblem(views, fit_intercept=self.fit_intercept)

    def split_weights(self, W: Matrix) -> tuple[list[Matrix], list[Matrix]]:
        """As in `Problem`."""
        return self.whole.split_weights(W)

    def rotated(self) -> "SampledProblem":
        """The problem itself, as its statistics are those of the columns as they are."""
        return self

    def without_fold(self, fold: int) -> StatisticsProblem:
        """The problem of all rows, in which the entries of a fold are unknown."""
        views = [
            view.view(self.positive_weight, without=fold, kept=self._never_held_out(v)[fold])
            for v, view in enumerate(self.statistics)
        ]
        return StatisticsProblem(views, fit_intercept=self.fit_intercept)

    def _never_held_out(self, v: int) -> Mask:
        """Labels of a view whose positives in each fold stay known, (n_folds, n_labels)."""
        return (self.table_counts or self.statistics[v].counts).only

    def _folds_of(self, v: int, sample: RowSample) -> NDArray[np.intp]:
        """Fold of each entry of a view's sampled rows, (n, n_labels)."""
        _, Y, keys = sample.arrays
        dealt = deal_keys(self.n_folds, keys, Y)
        if dealt is None:
            return np.full(Y.shape, -1)
        folds = dealt.astype(np.intp)
        never = self._never_held_out(v)[folds, np.arange(Y.shape[1])]  # of -1: is -1 in any case
        folds[never & (Y > 0)] = -1
        return folds


def _together(samples: Sequence[RowSample]) -> tuple[list[RowSample], NDArray[np.intp]]:
    """Samples of the same rows in all views, and the position of each stacked row among these."""
    highest = min(sample.highest for sample in samples)
    samples = [sample.up_to(highest) for sample in samples]
    rows = np.concatenate([sample.rows for sample in samples])
    return samples, np.unique(rows, return_inverse=True)[1]
