"""Models that are measured on held-out entries, beside guessing and beside not coupling views."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l._progress import progress_bar
from naim3l._text import plain
from naim3l.decisions.contenders import Answers, Judged, guess
from naim3l.decisions.held_out import (
    AUTO,
    LOWER_IS_BETTER,
    choose_metric,
    held_out_scores,
    hidden_metric,
    mean_defined,
)
from naim3l.decisions.quality import measure
from naim3l.decisions.rules import (
    Decisions,
    held_out_answers,
    learn_decisions,
    scores_by_block,
)
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.ridge import PerViewRidge, masked_ridge, masked_ridges
from naim3l.input.views import FUSED
from naim3l.problem.blocks import one_blas_thread
from naim3l.problem.rows import Problem

# Ridges from which that of the model without coupling is chosen.
RIDGES = (0.1, 1.0, 10.0, 100.0)
# From the fold of each entry and the fits without each fold to such fits whose parameters were
# chosen without the fold as well.
Refit = Callable[[NDArray[np.intp], list[Matrix]], list[Matrix]]


@dataclass(frozen=True)
class Uncoupled:
    """What ridge regression per view has learned, from the features and folds of another model.

    Attributes
    ----------
    ridge : float
    coef : dict of str to ndarray of shape (n_features, n_labels)
    intercept : dict of str to ndarray of shape (n_labels,)
    decisions : Decisions
    """

    ridge: float
    coef: dict[str, Matrix]
    intercept: dict[str, Matrix]
    decisions: Decisions


@dataclass(kw_only=True, eq=False, repr=False)
class ComparedModel(LinearViewModel):
    """Base of the methods that couple views, and can tell what the coupling adds.

    With ``compare``, the fit sets ``held_out_`` and what `uncoupled_` needs.
    """

    compare: bool = False
    verbose: int = 0

    @property
    def uncoupled_(self) -> PerViewRidge:
        """The same model without coupling, fitted to the same rows; needs ``compare=True``."""
        if not hasattr(self, "uncoupled_parts_"):
            name = type(self).__name__
            raise AttributeError(f"{name}.uncoupled_ needs compare=True when the model is fitted.")
        parts = self.uncoupled_parts_
        shared = {f.name: getattr(self, f.name) for f in fields(PerViewRidge) if f.name != "ridge"}
        model = PerViewRidge(parts.ridge, **shared)
        for name in ("reader_", "features_", "roles_", "aside_", "base_rates_", "view_rates_"):
            setattr(model, name, getattr(self, name))
        model.coef_, model.intercept_ = parts.coef, parts.intercept
        model._keep_decisions(parts.decisions)
        return model

    def _learn(
        self,
        problem: Problem,
        solve: Callable[[Problem], NDArray],
        refit: Refit = lambda fold_of, fits: fits,
    ) -> None:
        if not self.compare:
            super()._learn(problem, solve)
            return
        fold_of, fits = self._learn_held_out(problem, solve)
        self._compare(problem, fold_of, refit(fold_of, fits))

    def _compare(self, problem: Problem, fold_of: NDArray[np.intp], fits: list[Matrix]) -> None:
        """Measure the held-out scores beside those of guessing and of not coupling."""
        n_folds = fold_of.max() + 1
        with progress_bar("without coupling", n_folds + 1, shown=self.verbose > 0) as advance:
            ridge, chosen, other = choose_ridge(
                problem, fold_of, getattr(self, "metric_", AUTO), advance
            )
            coef, intercept = problem.split_weights(masked_ridge(problem, ridge))
            advance()
        start = self._fixed_decisions()
        scores = held_out_scores(problem, fold_of, chosen)
        self.uncoupled_parts_ = Uncoupled(
            ridge,
            dict(zip(self.views_, coef, strict=True)),
            dict(zip(self.views_, intercept, strict=True)),
            learn_decisions(self._rules, start, problem, scores),
        )
        truths = scores_by_block(problem, problem.truth_of(fold_of >= 0), None, self._blocks)
        own, rivals = (
            held_out_answers(
                self._rules,
                start,
                problem,
                held_out_scores(problem, fold_of, of, levelled=True),
                fold_of,
            )
            for of in (fits, other)
        )
        blocks = [
            _block(name, truths[name], own[name], self.view_rates_[name], rivals[name])
            for name in self._blocks
        ]
        blocks = [block for block in blocks if len(block.truth)] or blocks[:1]
        self.held_out_: dict[str, Any] = plain(measure(blocks, self.label_names_))


def _block(name: str, truth: Matrix, own: Answers, rates: Matrix, rival: Answers) -> Judged:
    """Held-out entries of a view; rows without one are left out."""
    rows = np.asarray(np.isfinite(truth).any(axis=1))
    kind = "fused" if name == FUSED else "view"
    guessing = guess(rates, int(rows.sum()))
    return Judged(name, kind, truth[rows], own.take(rows), guessing, rival.take(rows))


@one_blas_thread  # many products of small matrices
def choose_ridge(
    problem: Problem,
    fold_of: NDArray[np.intp],
    metric: str,
    advance: Callable[[], Any] = lambda: None,
) -> tuple[float, list[Matrix], list[Matrix]]:
    """The ridge that is best for entries that are held out in turn, and fits without each fold.

    Parameters
    ----------
    problem : Problem
    fold_of : ndarray of int, of shape (n_rows, n_labels)
        Result of `hold_out_folds`.
    metric : str
        As of `NAIM3LCV`.
    advance : callable
        Called after each fold.

    Returns
    -------
    ridge : float
    chosen : list of ndarray of shape (n_weights, n_labels)
        Fits without each fold, with this ridge.
    chosen_without : list of ndarray of shape (n_weights, n_labels)
        Fits without each fold, with the ridge that is best for the other folds.
    """
    folds = [fold_of == fold for fold in range(fold_of.max() + 1)]
    metric = choose_metric(metric, map(problem.truth_of, folds)) if folds else metric
    fits = []
    values = np.empty((len(folds), len(RIDGES)))
    for fold, hidden in enumerate(folds):
        fits.append(masked_ridges(problem.without(hidden), RIDGES))
        values[fold] = [hidden_metric(problem, hidden, W, metric) for W in fits[-1]]
        advance()
    best = best_of_folds(values, metric)
    without = [best_of_folds(np.delete(values, fold, axis=0), metric) for fold in range(len(folds))]
    return (
        RIDGES[best],
        [of_fold[best] for of_fold in fits],
        [of_fold[i] for of_fold, i in zip(fits, without, strict=True)],
    )


def best_of_folds(values: Matrix, metric: str) -> int:
    """Position of the candidate with the best mean over folds, the first of equals.

    Parameters
    ----------
    values : ndarray of shape (n_folds, n_candidates)
        Metric on each fold, NaN where it is undefined.
    metric : str
    """
    mean = np.array([mean_defined(of_candidate) for of_candidate in values.T])
    losses = mean if metric in LOWER_IS_BETTER else -mean
    return int(np.argmin(np.where(np.isnan(mean), np.inf, losses)))
