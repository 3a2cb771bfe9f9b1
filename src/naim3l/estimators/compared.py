"""Models that are measured on held-out entries, beside guessing and beside not coupling views."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
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
    Folds,
    choose_metric,
    hidden_metric,
    mean_defined,
)
from naim3l.decisions.quality import measure
from naim3l.decisions.rules import (
    N_FOLDS,
    Decisions,
    held_out_answers,
    learn_decisions,
    scores_by_block,
)
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.parts_of_fit import PartsOfFit
from naim3l.estimators.ridge import PerViewRidge, masked_ridge, masked_ridges
from naim3l.files.checkpoint import Checkpoint
from naim3l.input.tables import Table
from naim3l.input.views import FUSED, is_apart
from naim3l.problem.blocks import one_blas_thread
from naim3l.problem.choice import refuse_parts
from naim3l.problem.rows import Problem
from naim3l.problem.streamed import StreamedProblem, all_entries

# Ridges from which that of the model without coupling is chosen.
RIDGES = (0.1, 1.0, 10.0, 100.0)


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

    def _read_parts(self, X: Any, y: Any) -> StreamedProblem:
        refuse_parts(self.device)
        n_folds = self._n_folds(wide=not is_apart(X))
        return PartsOfFit(self).read(X, y, n_folds=n_folds, free=self._has_free_scores())

    @abstractmethod
    def _open_checkpoint(self, data: list[Any], **more: Any) -> Checkpoint | None:
        """The file of ``checkpoint``, opened for this fit; None without one.

        Parameters
        ----------
        data : list of ndarray or sparse array
        **more : JSON values
            What else must be the same in a fit that resumes.
        """

    def _checkpoint_of(self, problem: Problem | StreamedProblem) -> Checkpoint | None:
        """The checkpoint of the fit to a problem; that of tables in parts is open already."""
        if isinstance(problem, StreamedProblem):
            return problem.checkpoint
        return self._open_checkpoint(problem.identity)

    def _n_folds(self, *, wide: bool) -> int:
        """Number of folds of held-out entries that a fit needs."""
        return N_FOLDS if self.compare or self._rules.learn(wide) else 0

    def _has_free_scores(self) -> bool:
        """Whether the ridge depends on rows in which labels are unknown."""
        return False

    def _refine(self, tables: Mapping[str, Table], folds: Folds) -> None:
        """Choose parameters of features on a sample of the rows, before all rows are encoded."""

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

    def _learn_held_out(
        self, problem: Problem, solve: Callable[[Problem], NDArray]
    ) -> tuple[Folds, list[NDArray[np.floating]]]:
        with progress_bar("held-out folds", N_FOLDS, shown=self.verbose > 0) as advance:

            def solve_fold(rest: Problem) -> NDArray:
                W = solve(rest)
                advance()
                return W

            return super()._learn_held_out(problem, solve_fold)

    def _learn(self, problem: Problem, solve: Callable[[Problem], NDArray]) -> None:
        if not self.compare:
            super()._learn(problem, solve)
            return
        self._compare(problem, *self._learn_held_out(problem, solve))

    def _compare(self, problem: Problem, folds: Folds, fits: list[Matrix]) -> None:
        """Measure the held-out scores beside those of guessing and of not coupling."""
        with progress_bar("without coupling", len(folds) + 1, shown=self.verbose > 0) as advance:
            ridge, chosen, other = choose_ridge(folds, getattr(self, "metric_", AUTO), advance)
            coef, intercept = problem.split_weights(masked_ridge(all_entries(problem), ridge))
            advance()
        start, rows = self._fixed_decisions(), folds.rows
        self.uncoupled_parts_ = Uncoupled(
            ridge,
            dict(zip(self.views_, coef, strict=True)),
            dict(zip(self.views_, intercept, strict=True)),
            learn_decisions(self._rules, start, rows, folds.scores(chosen)),
        )
        truths = scores_by_block(rows, rows.truth_of(folds.fold_of >= 0), None, self._blocks)
        own, rivals = (
            held_out_answers(
                self._rules, start, rows, folds.scores(of, levelled=True), folds.fold_of
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
    folds: Folds, metric: str, advance: Callable[[], Any] = lambda: None
) -> tuple[float, list[Matrix], list[Matrix]]:
    """The ridge that is best for entries that are held out in turn, and fits without each fold.

    Parameters
    ----------
    folds : Folds
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
    rows, all_hidden = folds.rows, [folds.hidden(fold) for fold in range(len(folds))]
    metric = choose_metric(metric, map(rows.truth_of, all_hidden)) if all_hidden else metric
    fits = []
    values = np.empty((len(folds), len(RIDGES)))
    for fold, hidden in enumerate(all_hidden):
        fits.append(masked_ridges(folds.without(fold), RIDGES))
        values[fold] = [hidden_metric(rows, hidden, W, metric) for W in fits[-1]]
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
