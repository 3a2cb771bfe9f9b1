"""Base of the models that couple views: checkpoints, chunks, and what the coupling adds."""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Matrix
from naim3l._device import CPU, check_device
from naim3l._progress import progress_bar
from naim3l._text import plain
from naim3l._threads import one_blas_thread
from naim3l.decisions.bootstrap_metrics import EvaluatedBlock, evaluate_blocks, guess
from naim3l.decisions.held_out import (
    AUTO,
    LOWER_IS_BETTER,
    Folds,
    choose_metric,
    hidden_metric,
    mean_defined,
)
from naim3l.decisions.learning import (
    N_FOLDS,
    LearnedDecisions,
    Predictions,
    held_out_predictions,
    learn_decisions,
    scores_by_block,
)
from naim3l.decisions.rules import Decisions
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.ridge import PerViewRidge
from naim3l.files.checkpoint import Checkpoint, check_seed
from naim3l.files.stored import Array, Flag, MapOf, Nested, Number, Plain, Sometimes, Whole
from naim3l.input.batches import Batch
from naim3l.input.sources import any_chunked
from naim3l.input.views import FUSED, is_separate
from naim3l.problem.cost_model import refuse_chunks
from naim3l.solvers import SolverResult

Path_ = str | os.PathLike[str]
# Ridges from which that of the model without coupling is chosen.
RIDGES = (0.1, 1.0, 10.0, 100.0)
# Terms of the objective: low rank for rows that share a label, high rank for all rows.
VARIANTS = {"full": (True, True), "low-rank": (True, False), "loss": (False, False)}
FACTOR = Interval(Real, 1e-10, 1e10, closed="both")


@dataclass(frozen=True)
class Uncoupled:
    """What ridge regression per view has learned, from the features and folds of another model.

    Attributes
    ----------
    ridge : float
    coef : dict of str to ndarray of shape (n_features, n_labels)
    intercept : dict of str to ndarray of shape (n_labels,)
    decisions : LearnedDecisions
    """

    ridge: float
    coef: dict[str, Matrix]
    intercept: dict[str, Matrix]
    decisions: LearnedDecisions

    _stored: ClassVar[Mapping[str, Any]] = {
        "ridge": Number(above=0),
        "coef": MapOf(Array("f", "features", "labels"), keys="views"),
        "intercept": MapOf(Array("f", "labels"), keys="views"),
        "decisions": Nested(LearnedDecisions),
    }


@dataclass(kw_only=True, eq=False, repr=False)
class CoupledModel(LinearViewModel):
    """Base of the methods that couple views, and can tell what the coupling adds.

    `compare` sets ``held_out_`` and what `uncoupled_` needs.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearViewModel._parameter_constraints,
        "variant": [StrOptions(set(VARIANTS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str],
        "verbose": ["verbose"],
    }
    _stored: ClassVar[Mapping[str, Any]] = {
        **LinearViewModel._stored,
        "n_iter_": Whole(0),
        "converged_": Flag(),
        "stationarity_": Number(finite=False),
        "objective_": Number(finite=False),
        "history_": Plain(),
        "ridge_": Number(0),
        "uncoupled_parts_": Sometimes(Nested(Uncoupled)),
        "held_out_": Sometimes(Plain()),
    }

    variant: str = "full"
    max_iter: int = 200
    tol: float = 1e-4
    device: str = CPU
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, *, checkpoint: Path_ | None = None) -> Self:
        self._fit(X, y, checkpoint, compare=False)
        return self

    def compare(self, X: Any, y: Any, *, checkpoint: Path_ | None = None) -> dict[str, Any]:
        """Fit the model, and measure it on held-out entries beside simpler methods.

        These are guessing by the frequencies of the labels, and ridge regression per view, which
        does not couple the views. The same folds serve for the decisions of the model, so that
        this takes little longer than `fit`.

        Parameters
        ----------
        X, y, checkpoint
            As for `fit`.

        Returns
        -------
        dict
            Metrics of held-out entries, "blocks", "labels" and "calibration", as in the result of
            `naim3l.report.summarise`; also kept as ``held_out_``.

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(90, n_features=(9, 8), n_labels=4, noise=0.5, random_state=0)
        >>> found = NAIM3L(random_state=0).compare(data.views, data.labels)
        >>> metric = found["blocks"][0]["metrics"]["AP"]
        >>> sorted(metric)
        ['gain', 'guessing', 'high', 'low', 'uncoupled', 'value']
        """
        self._fit(X, y, checkpoint, compare=True)
        return self.held_out_

    @abstractmethod
    def _fit(self, X: Any, y: Any, checkpoint: Path_ | None, *, compare: bool) -> None:
        """Fit the model, and measure it if it is to be compared."""

    @abstractmethod
    def _checkpoint_settings(self) -> dict[str, Any]:
        """Values of JSON that must be the same in a fit that resumes."""

    def _read(self, X: Any, y: Any, path: Path_ | None, n_folds: int) -> tuple[Any, Any]:
        """The problem of all views, and the checkpoint of the fit; None without one."""
        self._check_parameters()
        check_device("device", self.device)
        if any_chunked(X):
            refuse_chunks(self.device)
        problem = self._read_training(
            X,
            y,
            n_folds=n_folds,
            free=self._has_free_scores(),
            refine=self._refine,
            open_checkpoint=partial(self._open_chunked, path),
        )
        if path is None:
            return problem, None
        if any_chunked(X):
            return problem, problem.checkpoint
        return problem, Checkpoint(path, problem.identity, self._checkpoint_settings())

    def _open_chunked(self, path: Path_ | None, facts: list[Any]) -> Checkpoint | None:
        """The checkpoint of a fit to chunks, which depends on where the data are."""
        if path is None:
            return None
        check_seed(self.random_state)
        hidden = ("verbose", "n_jobs")
        values = {name: repr(v) for name, v in self._values().items() if name not in hidden}
        settings = self._checkpoint_settings() | {"facts": facts, "parameters": values}
        return Checkpoint(path, [], settings)

    def _n_folds(self, X: Any, *, compare: bool) -> int:
        """Number of folds of held-out entries that a fit needs."""
        learns = Decisions.of(self.decide).learn(not is_separate(X))
        return N_FOLDS if compare or learns else 0

    def _has_free_scores(self) -> bool:
        """Whether the ridge depends on rows in which labels are unknown."""
        return False

    def _refine(self, batches: Mapping[str, Batch], folds: Folds) -> None:
        """Choose parameters of features on a sample of the rows, before all rows are encoded."""

    def _keep_result(self, problem: Any, result: SolverResult) -> None:
        """Set the attributes that an iterative solver determines; then raise its interrupt."""
        if result.history:  # otherwise it was interrupted in the first iteration
            self._keep_weights(problem, result.W)
            self.n_iter_ = result.n_iter
            self.converged_ = result.converged
            self.stationarity_ = result.stationarity
            self.objective_ = result.history[-1]["objective"]
            self.history_ = result.history
        if result.interrupted:
            raise KeyboardInterrupt

    @property
    def uncoupled_(self) -> PerViewRidge:
        """The same model without coupling, fitted to the same rows, after `compare`."""
        if not hasattr(self, "uncoupled_parts_"):
            raise AttributeError(f"{type(self).__name__}.uncoupled_ needs a fit by compare().")
        parts = self.uncoupled_parts_
        shared = {f.name: getattr(self, f.name) for f in fields(PerViewRidge) if f.name != "ridge"}
        model = PerViewRidge(parts.ridge, **shared)
        for name in ("names_", "features_", "roles_", "base_rates_", "view_rates_"):
            setattr(model, name, getattr(self, name))
        model.coef_, model.intercept_ = parts.coef, parts.intercept
        model.decisions_ = parts.decisions
        return model

    def _learn_held_out(
        self, problem: Any, solve: Callable[[Any], Matrix]
    ) -> tuple[Folds, list[Matrix]]:
        with progress_bar("held-out folds", N_FOLDS, shown=self.verbose > 0) as advance:

            def solve_fold(rest: Any) -> Matrix:
                W = solve(rest)
                advance()
                return W

            return super()._learn_held_out(problem, solve_fold)

    def _compare(self, problem: Any, folds: Folds, fits: list[Matrix]) -> None:
        """Measure the held-out scores beside those of guessing and of not coupling."""
        with progress_bar("without coupling", len(folds) + 1, shown=self.verbose > 0) as advance:
            ridge, chosen, other = choose_ridge(folds, getattr(self, "metric_", AUTO), advance)
            W = problem.whole.ridge_solutions([ridge])[0]
            coef, intercept = problem.split_weights(W)
            advance()
        rules, start, rows = Decisions.of(self.decide), self._fixed_decisions(), folds.rows
        self.uncoupled_parts_ = Uncoupled(
            ridge,
            dict(zip(self.views_, coef, strict=True)),
            dict(zip(self.views_, intercept, strict=True)),
            learn_decisions(rules, start, rows, folds.scores(chosen)),
        )
        names = self.names_.blocks
        truths = scores_by_block(rows, rows.truth_of(folds.fold_of >= 0), None, names)
        own, rivals = (
            held_out_predictions(rules, start, rows, folds.scores(of, levelled=True), folds.fold_of)
            for of in (fits, other)
        )
        blocks = [
            _block(name, truths[name], own[name], self.view_rates_[name], rivals[name])
            for name in names
        ]
        blocks = [block for block in blocks if len(block.truth)] or blocks[:1]
        self.held_out_: dict[str, Any] = plain(evaluate_blocks(blocks, self.label_names_))


def _block(
    name: str, truth: Matrix, own: Predictions, rates: Matrix, rival: Predictions
) -> EvaluatedBlock:
    """Held-out entries of a view; rows without one are left out."""
    rows = np.asarray(np.isfinite(truth).any(axis=1))
    kind = "fused" if name == FUSED else "view"
    guessing = guess(rates, int(rows.sum()))
    return EvaluatedBlock(name, kind, truth[rows], own.take(rows), guessing, rival.take(rows))


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
        fits.append(folds.without(fold).ridge_solutions(RIDGES))
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
