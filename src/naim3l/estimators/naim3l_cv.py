"""The choice of `lam` and `ridge` on rows that are held out of the fits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from itertools import groupby
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Mask, Matrix, as_numpy
from naim3l._device import CPU
from naim3l._progress import progress_bar
from naim3l._text import documented
from naim3l._threads import one_blas_thread
from naim3l._warnings import warn_user
from naim3l.decisions import held_out
from naim3l.decisions.held_out import (
    AUTO,
    LOWER_IS_BETTER,
    METRICS,
    Folds,
    best_of_folds,
    few_known,
    mean_defined,
)
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import Decisions
from naim3l.estimators.naim3l import NAIM3L, VARIANTS, CoupledModel, solve_loosely
from naim3l.estimators.training import Alone
from naim3l.features.encoding import FeatureSpec
from naim3l.files.checkpoint import Arrays, Checkpoint, check_seed, kept_in
from naim3l.files.stored import Array, MapOf, Number, Text
from naim3l.input.batches import Batch
from naim3l.problem.cost_model import move_to
from naim3l.problem.rows import Problem
from naim3l.solvers import Record, SolverResult
from naim3l.solvers.fast import STATE
from naim3l.solvers.objective import Objective
from naim3l.solvers.weights import make_weight_step

Pair = tuple[float, float]  # lam, ridge
Gammas = Mapping[str, float | None]  # by view; None if it is not to be chosen
Advance = Callable[..., None]

# Standard errors by which a pair must be worse than another to be clearly worse.
CLEARLY = 2.0
# Bytes of weights that are kept in each fold, those of the best pairs; at least those of one pair.
KEPT_BYTES = 2**27
# Ends of the path of lam if only its length is given.
MOST_LAM, LEAST_LAM = 10.0, 0.01
# Ridges that are tried first, and the largest one that is tried where the largest is best.
RIDGES, MOST_RIDGE = (0.0, 1.0, 10.0), 100.0
_ALL_UNBOUNDED = (
    "NAIM3LCV: the objective falls without bound at every lam and ridge tried: try smaller lams, "
    "larger ridges, or variant='low-rank'."
)
# Multiples of the gamma of kernels that are tried, with the ridges and the accuracy of weights that
# are enough to compare them; the same for all models, so that all choose the same features.
GAMMA_FACTORS, GAMMA_RIDGES, GAMMA_ACCURACY = (0.5, 1.0, 2.0), (1.0, 10.0), 0.01
MOST_LAMS = MOST_FOLDS = 1000  # each of them is a fit


@dataclass
class FoldFits:
    """Fits of some pairs without the entries of a fold."""

    fold: int
    chosen: list[int]  # numbers of the pairs to fit
    # Metric of each pair, negated if higher is better, of all rows and without each block of rows,
    # (n_pairs, 1 + N_BLOCKS). NaN if it is undefined, or the pair was not fitted; infinite if the
    # objective is unbounded below.
    losses: Matrix
    fitted: Mask  # (n_pairs,)
    # Of the pairs that are not clearly worse than the best of the fold, (n_weights, n_labels).
    weights: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def empty(cls, fold: int, chosen: list[int], n_pairs: int) -> Self:
        losses = np.full((n_pairs, 1 + held_out.N_BLOCKS), np.nan)
        return cls(fold, chosen, losses, np.zeros(n_pairs, dtype=bool))

    @property
    def name(self) -> str:
        """Name of these fits in a checkpoint."""
        return f"fold{self.fold}pair{self.chosen[0]}"

    def has_fallen(self, path: Sequence[int]) -> bool:
        """Whether the last pair of a path is clearly worse than the best before it."""
        before = self.losses[path[:-1]]
        if not np.isfinite(before[:, 0]).any():
            return False
        return bool(clearly_worse(self.losses[path[-1:]], before[np.nanargmin(before[:, 0])])[0])

    def forget_worse(self) -> None:
        """Keep only the weights of pairs that may be chosen."""
        close = [pair for pair in close_to_best(self.losses) if pair in self.weights]
        close.sort(key=lambda pair: self.losses[pair, 0])
        n_bytes = max([1, *(W.nbytes for W in self.weights.values())])
        self.weights = {pair: self.weights[pair] for pair in close[: 1 + KEPT_BYTES // n_bytes]}

    @property
    def arrays(self) -> Arrays:
        """What a checkpoint stores."""
        stored: Arrays = {"losses": self.losses, "fitted": self.fitted}
        return stored | {f"weights{pair}": W for pair, W in self.weights.items()}

    def restore(self, stored: Arrays) -> None:
        """Take over what a checkpoint stores."""
        self.losses, self.fitted = stored["losses"], stored["fitted"]
        names = {pair: f"weights{pair}" for pair in self.chosen}
        self.weights = {pair: stored[name] for pair, name in names.items() if name in stored}


@dataclass
class Search:
    """Fits of pairs without each fold, and their metric on its entries."""

    folds: Folds
    n_folds: int  # at least the number of folds that have entries
    pairs: list[Pair]  # sorted by ridge, then by lam
    metric: str
    low_rank: bool = True
    high_rank: bool = True
    exhaustive: bool = False  # whether all pairs are fitted in all folds
    entries: bool = False  # whether single entries are held out, instead of rows
    device: str = CPU
    most_ridge: float = 0.0  # up to which larger ridges are tried, if the largest is best
    site: Alone = field(default_factory=Alone)
    fits: list[FoldFits] = field(default_factory=list)
    start: int | None = None  # pair at whose weights paths begin

    @one_blas_thread  # here, so that threads do not undo each other's limits
    def run(self, n_jobs: int | None, checkpoint: Checkpoint | None, *, shown: bool) -> None:
        """Fit the pairs; folds that are in the checkpoint are not repeated."""
        everyone = list(range(len(self.pairs)))
        with progress_bar("pairs x folds", len(everyone) * self.n_folds, shown=shown) as advance:
            fit = partial(self._fit_folds, n_jobs, checkpoint, advance)
            left = self._fit_close(fit, everyone)
            advance(by=(len(everyone) - len(left)) * (self.n_folds - 1))
            # If all of these turn out to be unbounded below, the others must do.
            others = [pair for pair in everyone if self.bounded[pair] and pair not in left]
            if others and not (self.complete & self.bounded).any():
                fit(range(1, self.n_folds), others)
            while added := self._beyond():
                self.start, n_before = self.best, len(self.pairs)
                self.pairs += added
                self._fit_close(fit, list(range(n_before, len(self.pairs))))

    def _fit_close(self, fit: Callable[..., None], chosen: list[int]) -> list[int]:
        """Fit pairs in the first fold, and those close to the best in the others; the latter."""
        if self.exhaustive:
            fit(range(self.n_folds), chosen)
            return chosen
        fit([0], chosen)
        losses = np.full((len(self.pairs), 1 + held_out.N_BLOCKS), np.nan)
        for fits in self.fits:
            if fits.fold == 0:
                losses[np.flatnonzero(fits.fitted)] = fits.losses[fits.fitted]
        close = [pair for pair in close_to_best(losses) if pair in chosen]
        if close:
            fit(range(1, self.n_folds), close)
        return close

    @property
    def best(self) -> int | None:
        """The pair with the best mean over the folds; None if no pair has one."""
        mean = [mean_defined(of_pair) for of_pair in self.losses.T]
        usable = self.complete & self.bounded & np.isfinite(mean)
        return int(np.argmin(np.where(usable, mean, np.inf))) if usable.any() else None

    def _beyond(self) -> list[Pair]:
        """Ten times the largest ridge, with lams like the best one, if the best pair has it."""
        if self.best is None:
            return []
        lam, ridge = self.pairs[self.best]
        lams, ridges = (sorted({*of}) for of in zip(*self.pairs, strict=True))
        if ridge < ridges[-1] or not 0 < 10 * ridge <= self.most_ridge:
            return []
        at = lams.index(lam)
        return [(near, 10 * ridge) for near in lams[max(0, at - 1) : at + 2]]

    @property
    def losses(self) -> NDArray[np.float64]:
        """Losses (n_folds, n_pairs): NaN where there is none, infinite if unbounded below."""
        found = np.full((self.n_folds, len(self.pairs)), np.nan)
        for fits in self.fits:
            found[fits.fold, np.flatnonzero(fits.fitted)] = fits.losses[fits.fitted, 0]
        return found

    @property
    def simplicity(self) -> NDArray[np.intp]:
        """Rank of each pair, (n_pairs,), from the largest ridge, and of these the smallest lam."""
        lams, ridges = np.transpose(self.pairs)
        return np.argsort(np.lexsort((lams, -ridges)))

    @property
    def complete(self) -> Mask:
        """Whether each pair was fitted in all folds, (n_pairs,)."""
        fitted = np.zeros((self.n_folds, len(self.pairs)), dtype=bool)
        for fits in self.fits:
            fitted[fits.fold, np.flatnonzero(fits.fitted)] = True
        return np.asarray(fitted.all(axis=0))

    @property
    def bounded(self) -> Mask:
        """Whether no fit of a pair was unbounded below, (n_pairs,)."""
        return np.asarray(~np.isinf(self.losses).any(axis=0))

    def weights(self, fold: int, pair: int | None) -> Matrix | None:
        """Weights (n_weights, n_labels) of a pair without a fold; None if they were not kept."""
        for of_fold in self.fits:
            if of_fold.fold == fold and pair in of_fold.weights:
                return of_fold.weights[pair].astype(np.float64)
        return None

    def _fit_folds(
        self, n_jobs: Any, checkpoint: Any, advance: Advance, folds: Any, chosen: list[int]
    ) -> None:
        """Fit pairs in some folds, in threads; folds that the checkpoint has are taken from it."""
        new = [FoldFits.empty(fold, chosen, len(self.pairs)) for fold in folds]
        todo = []
        for fits in new:
            stored = None if checkpoint is None else checkpoint.get(self._section(fits))
            if stored is None:
                todo.append(fits)
            else:
                fits.restore(stored)
                advance(by=len(chosen))
        run = Parallel(n_jobs, prefer="threads", return_as="generator")
        n_threads = self.folds.rows.n_threads // max(1, min(effective_n_jobs(n_jobs), len(todo)))
        fit = partial(self._fit_fold, advance, max(1, n_threads))
        for fits in run(delayed(fit)(fits) for fits in todo):
            if checkpoint is not None:
                checkpoint.put(self._section(fits), fits.arrays)
        self.fits += new

    def _section(self, fits: FoldFits) -> str:
        """Name of fits in a checkpoint, which may have those without rows and without entries."""
        return f"entries {fits.name}" if self.entries else fits.name

    def _fit_fold(self, advance: Advance, n_threads: int, fits: FoldFits) -> FoldFits:
        problem = self.folds.without(fits.fold)
        problem.n_threads = n_threads  # the others are for folds that are fitted at the same time
        form = self.site.in_form(move_to(problem, self.device))
        start: SolverResult | None = None
        for _, path in groupby(fits.chosen, lambda pair: self.pairs[pair][1]):
            # A path starts where that of the smaller ridge did.
            start = self._fit_path(fits, form, list(path), start, advance)
        if not self.site.several:  # all sites keep the same ones, whatever their sizes are
            fits.forget_worse()
        return fits

    def _fit_path(
        self, fits: FoldFits, form: Any, path: list[int], start: Any, advance: Advance
    ) -> SolverResult | None:
        """Fit pairs with the same ridge and increasing lam; the result of the first one."""
        hidden, sign = self.folds.hidden(fits.fold), 1 if self.metric in LOWER_IS_BETTER else -1
        first, last, W = None, start, self.weights(fits.fold, self.start)
        for n, pair in enumerate(path):
            lam, ridge = self.pairs[pair]
            note = f"fold {fits.fold + 1}: lam={lam:.3g} ridge={ridge:.3g}"
            objective = Objective(form, lam, self.low_rank, self.high_rank, ridge)

            def show(record: Record, W: Matrix, note: str = note) -> None:
                advance(f"{note} objective {record['objective']:.6g}", by=0)

            try:
                last = solve_loosely(objective, W=W, warm=last, callback=show)
            except FloatingPointError:  # and a larger lam only adds to the descent
                fits.losses[path[n:]], fits.fitted[path[n:]] = np.inf, True
                advance(note, by=len(path) - n)
                break
            first = first or last
            fits.weights[pair] = last.W.astype(np.float32)
            given = self.folds.rows, hidden, last.W, self.metric
            value = held_out.jackknifed_metric(*given, add_up=self.site.add_up)
            fits.losses[pair], fits.fitted[pair] = sign * value, True
            advance(note)
            if fits.fold == 0 and not self.exhaustive and fits.has_fallen(path[: n + 1]):
                advance(note, by=len(path) - n - 1)
                break
        return first


def clearly_worse(losses: Matrix, best: Matrix) -> Mask:
    """Whether pairs are worse than another by more than ``CLEARLY`` standard errors.

    Losses (n_pairs, 1 + n_blocks) are those on all rows, and without each block of rows; ``best``
    are those of the other pair.
    """
    infinite = np.isinf(losses[:, 0])
    difference = np.where(infinite[:, None], 0, losses) - best
    without = difference[:, 1:]
    spread = np.square(without - without.mean(axis=1, keepdims=True)).mean(axis=1)
    return infinite | (difference[:, 0] > CLEARLY * np.sqrt((without.shape[1] - 1) * spread))


def close_to_best(losses: Matrix) -> list[int]:
    """Numbers of pairs not clearly worse than the best; of all bounded ones if there is no best."""
    finite = np.isfinite(losses[:, 0])
    if not finite.any():
        return np.flatnonzero(~np.isinf(losses[:, 0])).tolist()
    best = losses[np.argmin(np.where(finite, losses[:, 0], np.inf))]
    return np.flatnonzero(finite & ~clearly_worse(losses, best)).tolist()


@documented(metrics=METRICS)
@dataclass(eq=False, repr=False)
class NAIM3LCV(CoupledModel):
    """NAIM3L with ``lam`` and ``ridge`` chosen on rows that are held out of the fits.

    By default it also learns probabilities, and a rule that predicts rare labels more often than
    that of `NAIM3L`, from the folds of the search. The final model is `NAIM3L` with the best pair,
    fitted on all rows.

    The rows of each view are divided into folds, in turn by their rarest known positive, and the
    labels of the rows of each fold are held out in turn. A label's positives in a view are never
    all held out together.

    Pairs that are clearly worse than another in the first fold are dropped: worse by more than two
    standard errors of the difference, estimated by the jackknife over 20 blocks of rows. With each
    ``ridge``, values of ``lam`` are tried there in increasing order until one is clearly worse than
    a smaller one. The other folds fit only pairs that are not clearly worse than the best.

    With fewer than 30 known entries of a label in a table, on average, the best of many pairs would
    be the best by chance. Then the pair with the largest ridge, and of these with the smallest lam,
    is taken among those that are worse by at most a standard error of the difference over folds.

    If the ``gamma`` of a view's kernel is "auto", half and twice of it are tried before, with
    ridge regression on the first fold, which makes ``best_score_`` slightly optimistic.

    Parameters
    ----------
    lams : int or sequence of float, default=10
        Values of ``lam``, or their number; they are then log-spaced from 0.01 to 10.
    ridges : sequence of float or "auto", default="auto"
        Values of ``ridge`` to try, each with every ``lam``. "auto" is 0, 1 and 10, and 100 if 10 is
        the best of these, with the best ``lam`` and its neighbours.
    cv : int, default=5
        Number of folds of rows, at least 2, of the search and of everything that is learned from
        rows that are held out. More folds hold out fewer rows at a time, and take longer.
    metric : "auto" or <metrics>, default="auto"
        A key of the dict that `naim3l.evaluate` returns, averaged over the views in which it is
        defined; for a wide table, that of the mean scores of the views. "coverage" and "one-error"
        are minimised, and metrics that rank the labels of a row, such as "AP", need two labels. Or
        "log-loss" of probabilities that are calibrated on the held-out entries themselves, which is
        best for probabilities. Or "rankings", the geometric mean of "AP" and "macro-AUC". "auto" is
        "macro-AUC" with at most 20 labels, and "rankings" with more; where a fold has too few known
        labels for these, it is "AP" or "log-loss".
    decide : default="guarded"
        The choices of `NAIM3L`, whose default is "sign".
    variant, views, features, positive_weight, fit_intercept, device
        As in `NAIM3L`.
    max_iter, tol
        As in `NAIM3L`, for the final fit; fits within folds are less accurate.
    n_jobs : int, optional
        Number of folds after the first that are computed in parallel; -1 is the number of cores.
    random_state : int, RandomState or None, default=None
        Determines the folds. A fit with a checkpoint needs an integer.
    verbose : int, default=0
        1 shows progress bars on a terminal.

    Attributes
    ----------
    lam_, ridge_, best_score_ : float
        The chosen pair, the first in ``cv_results_`` if several are best, and its mean metric.
    metric_ : str
        The metric by which they were chosen, never "auto".
    cv_results_ : dict of str to ndarray of shape (n_pairs,)
        "lam", "ridge", "mean_test_score", "std_test_score", "rank_test_score" (1 is best) and
        "split0_test_score", ... Folds in which the metric is undefined, or the pair was not
        fitted, have NaN, and are left out of the mean. Pairs that were dropped after the first fold
        rank after the others, then pairs that were not tried, and last those whose objective is
        unbounded below in a fold, which have NaN everywhere.
    coef_, intercept_, gamma_, base_rates_, history_, ...
        All attributes of `NAIM3L`, of the final fit.

    Examples
    --------
    >>> from naim3l import NAIM3LCV, datasets
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=4, noise=0.5, random_state=0)
    >>> model = NAIM3LCV(lams=[0.1, 1.0], ridges=[0.0, 10.0], random_state=0)
    >>> model = model.fit(data.views, data.labels)
    >>> model.lam_, model.ridge_, model.metric_
    (1.0, 10.0, 'macro-AUC')
    >>> model.cv_results_["lam"], model.cv_results_["mean_test_score"].round(3)
    (array([0.1, 1. , 0.1, 1. ]), array([0.868, 0.873, 0.869, 0.874]))
    """

    _parameter_constraints = CoupledModel._parameter_constraints | {
        "lams": [Interval(Integral, 1, MOST_LAMS, closed="both"), "array-like"],
        "ridges": [StrOptions({AUTO}), "array-like"],
        "cv": [Interval(Integral, 2, MOST_FOLDS, closed="both")],
        "metric": [StrOptions({AUTO, *METRICS})],
        "n_jobs": [Integral, None],
    }
    _stored = CoupledModel._stored | {
        "lam_": Number(above=0),
        "best_score_": Number(finite=False),
        "metric_": Text(METRICS),
        "cv_results_": MapOf(Array("fi", "pairs", finite=False), keys=None),
    }
    _exhaustive = False  # True fits every pair in every fold, for benchmarks of the search

    lams: int | Sequence[float] = 10
    ridges: Sequence[float] | str = AUTO
    _: KW_ONLY
    cv: int = N_FOLDS
    metric: str = AUTO
    decide: Any = "guarded"
    n_jobs: int | None = None

    def _fit(self, X: Any, y: Any, checkpoint: Any = None, *, compare: Any = None) -> None:
        decisions = self._check_parameters()
        problem, kept = self._read(X, y, checkpoint, True, decisions)
        entries = compare is not None and compare.entries
        folds = self._hold_out(problem, self.cv, entries=entries)
        self._choose_metric(folds)
        if problem.fold_of is None:  # otherwise refined when it was read
            refined = self._refine_gammas(lambda: self._batches(X), folds)
            if refined is not problem:
                problem, folds = refined, Folds.of(refined, folds.fold_of)
        search = self._search(folds, kept, entries=entries)
        result = self._solve_best(problem.whole, kept)
        self._keep_result(problem, result)
        if compare is not None or decisions._learn:
            chosen = search.pairs.index((self.lam_, self.ridge_))
            of_chosen = self._fits(search, [chosen] * len(folds), kept)
            shared = self._learn_decisions(folds, of_chosen, result.W)
        if compare is not None:
            fits = self._fits(search, self._chosen_without(search), kept)
            self._compare(compare, problem, (folds, fits, shared), result.W)
        self._checkpoint = kept

    def _passes(self, learn: bool) -> dict[str, Any]:
        return {"n_folds": self.cv, "refine": self._refine}

    def _check_parameters(self) -> Decisions:
        decisions = super()._check_parameters()
        for name, values in (("lams", self.lams), ("ridges", self.ridges)):
            if not isinstance(values, Integral | str):
                _check_numbers(name, values, least=1e-10 if name == "lams" else 0.0)
        return decisions

    def _choose_metric(self, folds: Folds) -> None:
        truths = (folds.rows.truth_of(folds.hidden(fold)) for fold in range(self.cv))
        self.metric_ = held_out.choose_metric(self.metric, truths, self._site.add_up)

    def _refine(self, batches: Mapping[str, Batch], folds: Folds) -> None:
        """Choose gammas on a sample of the rows, before all rows are encoded."""
        self._choose_metric(folds)
        self._refine_gammas(lambda: batches, folds)

    def _refine_gammas(self, read: Callable[[], Mapping[str, Batch]], folds: Folds) -> Problem:
        """The problem with the gammas that are best for the first fold; keeps their maps."""
        kernels = {view: FeatureSpec.of(self.features, view).kernel for view in self.views_}
        free = {view for view, kernel in kernels.items() if kernel and kernel.gamma == AUTO}
        problem = folds.rows
        if not free or self._site.several:  # a site keeps the features of its first reading
            return problem
        auto = {view: gamma if view in free else None for view, gamma in self.gamma_.items()}
        batches = read()
        maps = {view: {auto[view]: features} for view, features in self.features_.items()}

        def problem_at(gammas: Gammas) -> Problem:
            """Views whose gamma does not change keep their features."""
            features = list(problem.features)
            for v, (view, batch) in enumerate(batches.items()):
                if (gamma := gammas[view]) is not None and gamma not in maps[view]:
                    maps[view][gamma] = self.features_[view].with_gamma(gamma)
                    features[v] = maps[view][gamma].encode(batch, judge=False)[0]
            advance()
            return problem.with_features(features)

        with progress_bar("bandwidths", len(GAMMA_FACTORS), shown=self.verbose > 0) as advance:
            hidden = folds.hidden(0)
            chosen, found = choose_gammas(auto, problem_at, hidden, self.metric_, self.device)
        self.features_ = {view: maps[view][gamma] for view, gamma in chosen.items()}
        pairs = zip(found, problem.features, strict=True)
        return problem.with_features([old if new is None else new for new, old in pairs])

    def _checkpoint_settings(self) -> dict[str, Any]:
        names = ("cv", "metric", "variant", "positive_weight", "fit_intercept", "_exhaustive")
        settings = {name: getattr(self, name) for name in names}
        grid = {"pairs": self._pairs(), "most_ridge": self._most_ridge}
        return settings | grid | {"random_state": check_seed(self.random_state)}

    def _model(self, lam: float, ridge: float) -> NAIM3L:
        own = {field.name for field in fields(self)} - {"random_state"}
        shared = {f.name: getattr(self, f.name) for f in fields(NAIM3L) if f.name in own}
        model: Any = NAIM3L(lam, ridge=ridge, solver="fast", **shared)
        model._site = self._site
        return model

    def _pairs(self) -> list[Pair]:
        """Pairs (lam, ridge) in the order of the path."""
        lams: Any = self.lams
        if isinstance(lams, Integral):
            lams = np.geomspace(MOST_LAM, LEAST_LAM, lams)
        ridges: Any = RIDGES if isinstance(self.ridges, str) else self.ridges
        lams, ridges = (sorted({float(value) for value in of}) for of in (lams, ridges))
        return [(lam, ridge) for ridge in ridges for lam in lams]

    @property
    def _most_ridge(self) -> float:
        """The largest ridge to try beyond the first ones; 0 if ridges are given."""
        return MOST_RIDGE if isinstance(self.ridges, str) else 0.0

    def _search(self, folds: Folds, checkpoint: Checkpoint | None, *, entries: bool) -> Search:
        """All fits of the search; sets ``cv_results_``."""
        options: dict[str, Any] = {"exhaustive": self._exhaustive, "device": self.device}
        options |= {"entries": entries, "most_ridge": self._most_ridge, "site": self._site}
        terms = VARIANTS[self.variant]
        search = Search(folds, self.cv, self._pairs(), self.metric_, *terms, **options)
        search.run(self.n_jobs, checkpoint, shown=self.verbose > 0)
        self._rank(search)
        return search

    def _rank(self, search: Search) -> None:
        failed = ~search.bounded
        losses = np.where(failed, np.nan, search.losses)
        if failed.all():
            raise FloatingPointError(_ALL_UNBOUNDED)
        if np.isnan(losses).all():
            raise ValueError(
                f"metric {self.metric_!r} is undefined on the held-out entries of all {self.cv} "
                "folds: too few of them are known. Use another metric, or fewer folds."
            )
        mean = np.array([mean_defined(of_pair) for of_pair in losses.T])
        std = np.sqrt([mean_defined(of_pair) for of_pair in np.square(losses - mean).T])
        # Pairs in all folds come first, then those that were dropped, then those without a fit.
        group = np.select([failed, np.isnan(mean), ~search.complete], [3, 2, 1], 0)
        order = np.column_stack([group, np.where(np.isnan(mean), 0, mean)])
        sign = 1 if self.metric_ in LOWER_IS_BETTER else -1
        if (group == 0).any() and few_known(search.folds.rows, self._site.add_up):
            values = np.where(group == 0, sign * losses, np.nan)
            order[best_of_folds(values, self.metric_, search.simplicity), 0] = -1
        place = np.unique(order, axis=0, return_inverse=True)[1].ravel()
        self.cv_results_ = {
            "lam": np.array([lam for lam, _ in search.pairs]),
            "ridge": np.array([ridge for _, ridge in search.pairs]),
            "mean_test_score": sign * mean,
            "std_test_score": std,
            "rank_test_score": 1 + np.searchsorted(np.sort(place), place),
        } | {f"split{fold}_test_score": sign * of_fold for fold, of_fold in enumerate(losses)}

    def _solve_best(self, problem: Any, checkpoint: Checkpoint | None) -> SolverResult:
        """Fit of the best pair on all entries; of the next one if it is unbounded below."""
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
                        checkpoint.discard(STATE)
                        checkpoint.put(mark, {"pair": np.array([self.lam_, self.ridge_])})
            warn_user(
                f"lam={self.lam_:g} with ridge={self.ridge_:g} is best on held-out entries, but "
                "its objective has no lower bound on all entries; the next best pair is used.",
                ConvergenceWarning,
            )
        raise FloatingPointError(_ALL_UNBOUNDED)

    def _fits(self, search: Search, pairs: Sequence[int], checkpoint: Any) -> list[Matrix]:
        """Weights without each fold, of a pair for each; solved again if they were not kept."""
        fits = []
        for fold, pair in enumerate(pairs):
            W = search.weights(fold, pair)
            if W is None:
                solve = self._model(*search.pairs[pair])._solve_loosely
                W = kept_in(checkpoint, solve, f"pair{pair}")(search.folds.without(fold))
            fits.append(W)
        return fits

    def _chosen_without(self, search: Search) -> list[int]:
        """The pair that is best for the other folds, for each fold; of those in all folds."""
        results, candidates = self.cv_results_, np.flatnonzero(search.complete & search.bounded)
        values = np.array([results[f"split{fold}_test_score"] for fold in range(self.cv)])
        others = [np.delete(values[:, candidates], fold, axis=0) for fold in range(self.cv)]
        simplicity = search.simplicity[candidates] if few_known(search.folds.rows) else None
        best = [best_of_folds(of_others, self.metric_, simplicity) for of_others in others]
        return [int(candidates[i]) for i in best[: len(search.folds)]]


def _check_numbers(name: str, values: Any, *, least: float) -> None:
    """Refuse a sequence of anything but numbers from ``least`` to 1e10."""
    if not len(values):
        raise ValueError(f"{name} must be a sequence of at least one number, got {values!r}.")
    for i, value in enumerate(values):
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not least <= value <= 1e10:
            raise ValueError(f"{name}[{i}] must be a number from {least:g} to 1e10, got {value!r}.")


def choose_gammas(
    start: Gammas, problem_at: Callable[[Gammas], Problem], hidden: Mask, metric: str, device: str
) -> tuple[dict[str, float | None], list[Any]]:
    """Best multiple of each view's gamma for ridge regression, and the features of each view there.

    ``problem_at`` gives the problem for gammas by view. A gamma that is None is not chosen, and the
    features of a view that keeps its gamma are None. Without the regulariser views are independent
    of each other, so that one fit for each factor and ridge is enough for all views.
    """
    best, chosen = np.full(len(start), -np.inf), dict(start)
    features: list[Any] = [None] * len(start)
    for factor in GAMMA_FACTORS:
        gammas = {v: None if gamma is None else factor * gamma for v, gamma in start.items()}
        problem = problem_at(gammas)
        values = _best_ridge(problem, hidden, metric, device)
        for j, view in enumerate(start):
            if values[j] > best[j]:
                best[j], chosen[view] = values[j], gammas[view]
                features[j] = None if gammas[view] == start[view] else problem.features[j]
    return chosen, features


def _best_ridge(problem: Problem, hidden: Mask, metric: str, device: str) -> Matrix:
    """Metric of each view for its best ridge; higher is better, and -inf is undefined."""
    rest: Any = move_to(problem.without(hidden), device)
    values = []
    for ridge in GAMMA_RIDGES:
        solve = make_weight_step(rest, ridge, GAMMA_ACCURACY)
        W = as_numpy(solve(rest.targets, 0.0, 0 * rest.targets))
        values.append(held_out.hidden_metrics(problem, hidden, W, metric))
    signed = -np.array(values) if metric in LOWER_IS_BETTER else np.array(values)
    return np.where(np.isnan(signed), -np.inf, signed).max(axis=0)
