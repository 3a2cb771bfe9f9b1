"""Choosing a model on observed label entries that were held out of its fit."""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from naim3l.base import LinearViewModel
from naim3l.blocks import one_blas_thread
from naim3l.checkpoint import Checkpoint, fingerprint
from naim3l.estimator import FOLD_MAX_ITER, FOLD_TOL, NAIM3L
from naim3l.forms import choose_form
from naim3l.held_out import deal_entries, hidden_metric
from naim3l.metrics import evaluate
from naim3l.objective import Objective
from naim3l.parameters import check_choice, check_number, check_whole_number
from naim3l.problem import Problem
from naim3l.progress import progress_bar
from naim3l.solvers import SolverResult, solve_fast
from naim3l.solvers.fast import PART
from naim3l.tables import warn_user

Pair = tuple[float, float]  # lam, ridge
LabelArrays = Mapping[str, NDArray[np.floating]]
Model = TypeVar("Model", bound=LinearViewModel)

METRICS = tuple(evaluate([[1, 0]], [[1, 0]]))
LOWER_IS_BETTER = ("coverage", "one-error")
# Path of lam where its length alone is given.
MOST_LAM, LEAST_LAM = 10.0, 0.01
_ALL_UNBOUNDED = (
    "NAIM3LCV: the objective falls without bound at every lam and ridge tried: try smaller lams, "
    "larger ridges, or high_rank=False."
)


def hold_out_entries(
    labels: LabelArrays, share: float = 0.2, *, random_state: Any = None
) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Observed label entries divided in two: those to fit on, and those held out.

    Entries, not rows, are drawn, positives and negatives of each label alike, so that a rare
    label is neither lost to the fit nor to the test.

    Parameters
    ----------
    labels : mapping of str to ndarray of shape (n_rows, n_labels)
        1 / 0 / NaN = unknown.
    share : float
        Of the observed entries of each label in each view, rounded down.
    random_state : int, RandomState or None

    Returns
    -------
    kept, held_out : dict of str to ndarray
        Label tables of the same shapes; each observed entry is known in exactly one of them.
    """
    rng = check_random_state(random_state)
    kept, held_out = {}, {}
    for view, Y in labels.items():
        hidden = np.zeros(Y.shape, dtype=bool)
        for k in range(Y.shape[1]):
            for value in (0, 1):
                rows = rng.permutation(np.flatnonzero(Y[:, k] == value))
                hidden[rows[: int(share * len(rows) + 1e-9)], k] = True
        kept[view] = np.where(hidden, np.nan, Y)
        held_out[view] = np.where(hidden, Y, np.nan)
    return kept, held_out


def best_on_held_out(
    candidates: Sequence[Model],
    X: Mapping[str, Any],
    labels: LabelArrays,
    *,
    share: float = 0.2,
    metric: str = "AP",
    random_state: Any = None,
) -> Model:
    """The candidate with the highest metric on held-out entries, fitted again on all of them.

    Parameters
    ----------
    candidates : sequence of unfitted models
    X : mapping of str to table
    labels : mapping of str to ndarray, 1 / 0 / NaN = unknown
    share, random_state
        See `hold_out_entries`.
    metric : str
        Key of the dict that `naim3l.evaluate` returns. For "coverage" and "one-error" the lowest
        value is taken, for others the highest.
    """
    check_choice("metric", metric, METRICS)
    kept, held_out = hold_out_entries(labels, share, random_state=random_state)
    values = [
        evaluate(held_out, clone(model).fit(X, kept).decision_function(X))[metric]
        for model in candidates
    ]
    if np.isnan(values).all():
        raise ValueError(
            f"metric {metric!r} is undefined on the held-out entries: too few entries, or labels. "
            "Take another metric or a larger share."
        )
    best = np.nanargmin(values) if metric in LOWER_IS_BETTER else np.nanargmax(values)
    return clone(candidates[int(best)]).fit(X, labels)


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
    metric : str, default="AP"
        Key of the dict that `naim3l.evaluate` returns, averaged over the views where it is
        defined ("AP" never is with one label). For "coverage" and "one-error" lowest is best.
    views, transformer, low_rank, high_rank, fit_intercept, label_coding, threshold, calibrate, \
fusion
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
    cv_results_ : dict of str to ndarray of shape (n_pairs,)
        "lam", "ridge", "mean_test_score", "std_test_score", "rank_test_score" (1 is best) and
        "split0_test_score", ...; NaN, and left out of the mean, where a fold has no value. NaN
        throughout, and ranked last, is a pair whose objective falls without bound in some fold.
    coef_, intercept_, history_, ...
        All that `NAIM3L` has, of the final fit.

    Examples
    --------
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.selection import NAIM3LCV
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
    >>> model = NAIM3LCV((1.0, 0.1), (1.0,), random_state=0).fit(data.views, data.labels)
    >>> model.cv_results_["lam"].tolist()
    [0.1, 1.0]
    """

    def __init__(
        self,
        lams: int | Sequence[float] = 10,
        ridges: Sequence[float] = (0.0, 1.0, 10.0),
        *,
        cv: int = 3,
        metric: str = "AP",
        views: Mapping[str, Any] | None = None,
        transformer: Any = "scale",
        low_rank: bool = True,
        high_rank: bool = True,
        fit_intercept: bool = True,
        label_coding: str = "binary",
        threshold: Any = "sign",
        calibrate: bool = False,
        fusion: str = "mean",
        max_iter: int = 200,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.lams = lams
        self.ridges = ridges
        self.cv = cv
        self.metric = metric
        self.views = views
        self.transformer = transformer
        self.low_rank = low_rank
        self.high_rank = high_rank
        self.fit_intercept = fit_intercept
        self.label_coding = label_coding
        self.threshold = threshold
        self.calibrate = calibrate
        self.fusion = fusion
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the pair and fit the weights; ``X`` and ``y`` as for `NAIM3L.fit`."""
        pairs = self._check_parameters()
        problem = self._read_training(X, y)
        checkpoint = self._open_checkpoint(problem, pairs)
        self._rank(pairs, self._score_folds(problem, pairs, checkpoint))
        self._keep_result(problem, self._solve_best(problem, checkpoint))
        self._learn(problem, self._model(self.lam_, self.ridge_)._solve_loosely)
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def _open_checkpoint(self, problem: Problem, pairs: list[Pair]) -> Checkpoint | None:
        """The file of ``checkpoint``, opened for this very search."""
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                "checkpoint= needs a whole number as random_state: with "
                f"{self.random_state!r} the folds of a fit that goes on would be others."
            )
        names = ("cv", "metric", "low_rank", "high_rank", "fit_intercept")
        settings = {name: getattr(self, name) for name in names}
        settings |= {"pairs": pairs, "random_state": int(self.random_state)}
        samples = [] if problem.samples is None else [problem.samples]
        return Checkpoint(self.checkpoint, fingerprint([*problem.X, problem.Y, *samples], settings))

    def _model(self, lam: float, ridge: float) -> NAIM3L:
        shared = self.get_params(deep=False)
        for name in ("lams", "ridges", "cv", "metric", "n_jobs", "checkpoint", "random_state"):
            del shared[name]
        return NAIM3L(lam, ridge=ridge, solver="fast", **shared)

    def _check_parameters(self) -> list[Pair]:
        """Pairs (lam, ridge) in the order of the path."""
        if isinstance(self.lams, Sequence | np.ndarray):
            lams = _read_values("lams", self.lams)
        else:
            check_whole_number("lams", self.lams, at_least=1)
            lams = np.geomspace(MOST_LAM, LEAST_LAM, self.lams).tolist()
        ridges = _read_values("ridges", self.ridges, or_equal=True)
        check_whole_number("cv", self.cv, at_least=2)
        check_choice("metric", self.metric, METRICS)
        if self.n_jobs is not None and self.n_jobs != -1:
            check_whole_number("n_jobs", self.n_jobs, at_least=1)
        self._model(lams[0], ridges[0])._check_parameters()
        return [(lam, ridge) for ridge in sorted(ridges) for lam in sorted(lams)]

    @one_blas_thread  # here, so that threads do not undo each other's limits
    def _score_folds(
        self, problem: Problem, pairs: list[Pair], checkpoint: Checkpoint | None
    ) -> NDArray:
        """Metric of each pair in each fold, (cv, n_pairs); folds of a checkpoint are taken over."""
        fold_of = deal_entries(problem, self.cv, check_random_state(self.random_state))
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
        form = choose_form(problem.with_labels(np.where(hidden, 0, problem.Y)))
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
            values.append(hidden_metric(problem, hidden, result.W, self.metric))
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
                f"metric {self.metric!r} is undefined on the held-out entries of all {self.cv} "
                "folds: too few entries, or labels. Take another metric or fewer folds."
            )
        mean = np.full(len(pairs), np.nan)
        std = mean.copy()
        mean[~failed] = np.mean(scores[:, ~failed], axis=0, where=defined[:, ~failed])
        std[~failed] = np.std(scores[:, ~failed], axis=0, where=defined[:, ~failed])
        losses = mean if self.metric in LOWER_IS_BETTER else -mean
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
            try:
                return self._model(self.lam_, self.ridge_)._solve(problem, checkpoint)
            except FloatingPointError:
                if checkpoint is not None:
                    checkpoint.discard(PART)
                warn_user(
                    f"lam={self.lam_:g} with ridge={self.ridge_:g} is best on held-out entries, "
                    "but without a lower bound on all of them; the next best is taken.",
                    ConvergenceWarning,
                )
        raise FloatingPointError(_ALL_UNBOUNDED)


def _read_values(name: str, values: Any, *, or_equal: bool = False) -> list[float]:
    """Distinct numbers above 0, or also equal to it."""
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str) or not len(values):
        raise ValueError(f"{name} must be a sequence of at least one number, got {values!r}.")
    for i, value in enumerate(values):
        check_number(f"{name}[{i}]", value, above=0, or_equal=or_equal)
    return sorted({float(value) for value in values})
