"""Choosing a model on observed label entries that were held out of its fit."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from naim3l._progress import progress_bar
from naim3l.decisions.held_out import (
    AUTO,
    LOWER_IS_BETTER,
    choose_metric,
    hidden_metric,
    hold_out_folds,
)
from naim3l.estimators.bandwidths import choose_gammas
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.naim3l import FOLD_MAX_ITER, FOLD_TOL, NAIM3L
from naim3l.estimators.schema import is_sequence
from naim3l.features.encoding import ViewFeatures
from naim3l.features.kernels import of_view
from naim3l.files.checkpoint import Checkpoint, fingerprint, kept_in
from naim3l.input.tables import Table, warn_user
from naim3l.problem.blocks import one_blas_thread
from naim3l.problem.choice import choose_form
from naim3l.problem.rows import Problem
from naim3l.solvers import SolverResult, solve_fast
from naim3l.solvers.fast import PART
from naim3l.solvers.objective import Objective

Pair = tuple[float, float]  # lam, ridge

# Path of lam where its length alone is given.
MOST_LAM, LEAST_LAM = 10.0, 0.01
_ALL_UNBOUNDED = (
    "NAIM3LCV: the objective falls without bound at every lam and ridge tried: try smaller lams, "
    "larger ridges, or high_rank=False."
)


@dataclass(eq=False, repr=False)
class NAIM3LCV(LinearViewModel):
    """NAIM3L with ``lam`` and ``ridge`` chosen on held-out label entries.

    The observed entries of each label in each view, positives and negatives apart, are dealt into
    folds, and hidden fold by fold; rows stay. A label's only positive in a view is never hidden.
    In each fold, fits go from small to large ``lam``, each taking over the state of the last.
    The model itself is `NAIM3L` with the chosen pair, fitted on all entries.

    Parameters
    ----------
    lams : int or sequence of float, default=10
        Values of ``lam``; a whole number takes that many, log-spaced from 0.01 to 10.
    ridges : sequence of float, default=(0.0, 1.0, 10.0)
        Values of ``ridge`` to try, with every ``lam``.
    cv : int, default=3
        Number of folds, at least 2.
    gamma_factors : sequence of float, default=(0.5, 1.0, 2.0)
        Where a view's ``gamma`` is "auto", multiples of it to try, on the first fold and for ridge
        regression alone, before ``lam`` and ``ridge`` are chosen. ``best_score_`` knows of that
        fold, and is a little too good by it.
    metric : str, default="auto"
        Key of the dict that `naim3l.evaluate` returns, averaged over the views where it is
        defined; of a wide table, of the mean scores of its views. For "coverage" and "one-error"
        lowest is best. Those that rank the labels of a row, such as "AP", need two labels.
        Or "log-loss", of probabilities calibrated on the held-out entries themselves: the choice
        for probabilities, and for fusion by evidence. "auto" is "AP" where every fold has a row
        with labels to rank, else "log-loss", as with a single label.
    views, transformer, n_components, kernel, n_landmarks, gamma, low_rank, high_rank, \
positive_weight, fit_intercept, label_coding, threshold, calibrate, fusion
        As in `NAIM3L`.
    max_iter, tol
        Of the final fit, as in `NAIM3L`; those inside the folds are looser.
    n_jobs : int, optional
        Folds at a time, in threads; -1 takes all cores.
    checkpoint : path, optional
        As in `NAIM3L`; keeps finished folds, and the state of the final fit. Needs a whole number
        as ``random_state``.
    random_state : int, RandomState or None
        Deals the folds.
    verbose : int, default=0
        1 shows progress bars on a terminal.

    Attributes
    ----------
    lam_, ridge_, best_score_ : float
        The chosen pair, of equals the first in ``cv_results_``, and its mean metric.
    metric_ : str
        What they were chosen by; tells what "auto" has come to.
    gamma_ : dict of str to float or None
        Gamma of each view's kernel, None where it has none.
    cv_results_ : dict of str to ndarray of shape (n_pairs,)
        "lam", "ridge", "mean_test_score", "std_test_score", "rank_test_score" (1 is best) and
        "split0_test_score", ...; NaN, and left out of the mean, where a fold has no value. NaN
        throughout, and ranked last, is a pair whose objective falls without bound in some fold.
    coef_, intercept_, base_rates_, history_, ...
        All that `NAIM3L` has, of the final fit.

    Examples
    --------
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.estimators.naim3l_cv import NAIM3LCV
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
    >>> model = NAIM3LCV((1.0, 0.1), (1.0,), random_state=0).fit(data.views, data.labels)
    >>> model.cv_results_["lam"].tolist()
    [0.1, 1.0]
    """

    lams: int | Sequence[float] = 10
    ridges: Sequence[float] = (0.0, 1.0, 10.0)
    _: KW_ONLY
    cv: int = 3
    gamma_factors: Sequence[float] = (0.5, 1.0, 2.0)
    metric: str = AUTO
    threshold: Any = "guarded"
    low_rank: bool = True
    high_rank: bool = True
    max_iter: int = 200
    tol: float = 1e-4
    n_jobs: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the pair and fit the weights; ``X`` and ``y`` as for `NAIM3L.fit`."""
        self._check_parameters(X)
        pairs = self._pairs()
        problem, fold_of = self._hold_out_training(X, y)
        checkpoint = self._open_checkpoint(problem, pairs)
        self._rank(pairs, self._score_folds(problem, fold_of, pairs, checkpoint))
        self._keep_result(problem, self._solve_best(problem, checkpoint))
        chosen = self._model(self.lam_, self.ridge_)
        self._learn(problem, kept_in(checkpoint, chosen._solve_loosely))
        self._keep_checkpoint(checkpoint)
        return self

    def _hold_out_training(self, X: Any, y: Any) -> tuple[Problem, NDArray[np.intp]]:
        """The problem, its gammas refined, and the fold of each entry; chooses the metric."""
        problem = self._read_training(X, y)
        fold_of = hold_out_folds(problem, self.cv, check_random_state(self.random_state))
        folds = (problem.truth_of(fold_of == fold) for fold in range(self.cv))
        self.metric_ = choose_metric(self.metric, folds)
        return self._refine_gammas(X, problem, fold_of == 0), fold_of

    def _refine_gammas(self, X: Any, problem: Problem, hidden: NDArray[np.bool_]) -> Problem:
        """The problem with the gammas that suit hidden entries best; keeps their maps."""
        auto = self._free_gammas()
        factors = _distinct(self.gamma_factors)
        if any(auto.values()) and factors != [1.0]:
            tables = self.reader_.tables(X)
            lowest = self.metric_ in LOWER_IS_BETTER
            with progress_bar("bandwidths", len(factors), shown=self.verbose > 0) as advance:

                def problem_at(gammas: Mapping[str, float | None]) -> Problem:
                    advance()
                    return self._encode_anew(problem, tables, self._features_at(gammas))

                chosen = choose_gammas(
                    auto, factors, problem_at, hidden, self.metric_, lowest=lowest
                )
            features = self._features_at(chosen)
            problem = self._encode_anew(problem, tables, features)
            self.features_ = features
        return problem

    def _free_gammas(self) -> dict[str, float | None]:
        """Gamma of each view whose kernel leaves it to the data, None elsewhere."""
        free = {
            view: of_view("kernel", self.kernel, view) is not None
            and of_view("gamma", self.gamma, view) == "auto"
            for view in self.views_
        }
        return {view: gamma if free[view] else None for view, gamma in self.gamma_.items()}

    def _features_at(self, gammas: Mapping[str, float | None]) -> dict[str, ViewFeatures]:
        """Features of all views, fitted, with other gammas in their kernels."""
        return {
            view: features if (gamma := gammas[view]) is None else features.with_gamma(gamma)
            for view, features in self.features_.items()
        }

    def _encode_anew(
        self, problem: Problem, tables: dict[str, Table], features: dict[str, ViewFeatures]
    ) -> Problem:
        """The problem with new features of those views that are encoded in another way."""
        return problem.with_features(
            [
                X if features[view] is self.features_[view] else features[view].encode(table)[0]
                for (view, table), X in zip(tables.items(), problem.features, strict=True)
            ]
        )

    def _open_checkpoint(self, problem: Problem, pairs: list[Pair]) -> Checkpoint | None:
        """The file of ``checkpoint``, opened for this very search."""
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                "checkpoint= needs a whole number as random_state: with "
                f"{self.random_state!r} the folds of a fit that goes on would be others."
            )
        names = ("cv", "metric_", "low_rank", "high_rank", "positive_weight", "fit_intercept")
        settings = {name: getattr(self, name) for name in names}
        settings |= {"pairs": pairs, "random_state": int(self.random_state)}
        samples = [] if problem.samples is None else [problem.samples]
        return Checkpoint(self.checkpoint, fingerprint([*problem.X, problem.Y, *samples], settings))

    def _model(self, lam: float, ridge: float) -> NAIM3L:
        shared = self.get_params(deep=False)
        for name in (
            "lams",
            "ridges",
            "cv",
            "gamma_factors",
            "metric",
            "n_jobs",
            "checkpoint",
            "random_state",
        ):
            del shared[name]
        return NAIM3L(lam, ridge=ridge, solver="fast", **shared)

    def _pairs(self) -> list[Pair]:
        """Pairs (lam, ridge) in the order of the path."""
        lams: Any = self.lams
        if not is_sequence(lams):
            lams = np.geomspace(MOST_LAM, LEAST_LAM, lams)
        return [(lam, ridge) for ridge in _distinct(self.ridges) for lam in _distinct(lams)]

    @one_blas_thread  # here, so that threads do not undo each other's limits
    def _score_folds(
        self,
        problem: Problem,
        fold_of: NDArray[np.intp],
        pairs: list[Pair],
        checkpoint: Checkpoint | None,
    ) -> NDArray:
        """Metric of each pair in each fold, (cv, n_pairs); folds of a checkpoint are taken over."""
        scores, todo = np.empty((self.cv, len(pairs))), []
        for fold in range(self.cv):
            stored = None if checkpoint is None else checkpoint.get(f"fold{fold}")
            if stored is None:
                todo.append(fold)
            else:
                scores[fold] = stored["scores"]
        work = (delayed(self._score_path)(problem, fold_of == fold, pairs) for fold in todo)
        with progress_bar("folds", len(todo), shown=self.verbose > 0) as advance:
            run = Parallel(self.n_jobs, prefer="threads", return_as="generator")
            for fold, of_fold in zip(todo, run(work), strict=True):
                scores[fold] = of_fold
                if checkpoint is not None:
                    checkpoint.put(f"fold{fold}", {"scores": scores[fold]})
                advance()
        return scores

    def _score_path(self, problem: Problem, hidden: NDArray, pairs: list[Pair]) -> list[float]:
        """Metric on the hidden entries of fits to the others, for each pair in turn."""
        form = choose_form(problem.without(hidden))
        values, warm = [], dict[float, SolverResult]()
        for lam, ridge in pairs:
            objective = Objective(form, lam, self.low_rank, self.high_rank, ridge)
            try:
                result = solve_fast(
                    objective, warm=warm.get(ridge), max_iter=FOLD_MAX_ITER, tol=FOLD_TOL
                )
            except FloatingPointError:  # without bound: not a pair to choose, nor to go on from
                values.append(-np.inf)
                warm = {}
                continue
            if result.interrupted:
                raise KeyboardInterrupt
            warm = {ridge: result}
            values.append(hidden_metric(problem, hidden, result.W, self.metric_))
        return values

    def _rank(self, pairs: list[Pair], scores: NDArray) -> None:
        """Fill ``cv_results_``; -inf marks the folds in which a fit had no lower bound."""
        failed = np.isneginf(scores).any(axis=0)
        scores = np.where(failed, np.nan, scores)
        defined = ~np.isnan(scores)
        if failed.all():
            raise FloatingPointError(_ALL_UNBOUNDED)
        if not (defined.any(axis=0) | failed).all():
            raise ValueError(
                f"metric {self.metric_!r} is undefined on the held-out entries of all {self.cv} "
                "folds: too few of them are known. Take another metric, or fewer folds."
            )
        mean = np.full(len(pairs), np.nan)
        std = mean.copy()
        mean[~failed] = np.mean(scores[:, ~failed], axis=0, where=defined[:, ~failed])
        std[~failed] = np.std(scores[:, ~failed], axis=0, where=defined[:, ~failed])
        losses = mean if self.metric_ in LOWER_IS_BETTER else -mean
        losses = np.where(failed, np.inf, losses)
        self.cv_results_ = {
            "lam": np.array([lam for lam, _ in pairs]),
            "ridge": np.array([ridge for _, ridge in pairs]),
            "mean_test_score": mean,
            "std_test_score": std,
            "rank_test_score": 1 + np.searchsorted(np.sort(losses), losses),
        } | {f"split{fold}_test_score": of_fold for fold, of_fold in enumerate(scores)}

    def _solve_best(self, problem: Problem, checkpoint: Checkpoint | None) -> SolverResult:
        """Fit of the best pair on all entries; of the next where that one has no lower bound."""
        results = self.cv_results_
        for best in np.argsort(results["rank_test_score"], kind="stable"):
            if np.isnan(results["mean_test_score"][best]):
                break
            self.lam_, self.ridge_ = float(results["lam"][best]), float(results["ridge"][best])
            self.best_score_ = float(results["mean_test_score"][best])
            # The solver's part of a checkpoint is that of the first pair not marked so.
            mark = f"unbounded{best}"
            if checkpoint is None or checkpoint.get(mark) is None:
                try:
                    return self._model(self.lam_, self.ridge_)._solve(problem, checkpoint)
                except FloatingPointError:
                    if checkpoint is not None:
                        checkpoint.discard(PART)
                        checkpoint.put(mark, {"pair": np.array([self.lam_, self.ridge_])})
            warn_user(
                f"lam={self.lam_:g} with ridge={self.ridge_:g} is best on held-out entries, "
                "but without a lower bound on all of them; the next best is taken.",
                ConvergenceWarning,
            )
        raise FloatingPointError(_ALL_UNBOUNDED)


def _distinct(values: Any) -> list[float]:
    return sorted({float(value) for value in values})
