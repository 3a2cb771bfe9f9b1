"""The search of lam and ridge on folds: which pairs are fitted in which folds, and what is kept.

All pairs start in the first fold. Those that are clearly worse there than the best are not fitted
in the other folds, and a path of increasing lam ends once the metric has clearly fallen. Standard
errors of differences between pairs are estimated by the jackknife over blocks of rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix
from naim3l._device import CPU
from naim3l._progress import progress_bar
from naim3l._threads import one_blas_thread
from naim3l.decisions.held_out import LOWER_IS_BETTER, N_BLOCKS, Folds, jackknifed_metric
from naim3l.estimators.naim3l import solve_loosely
from naim3l.files.checkpoint import Arrays, Checkpoint
from naim3l.problem.cost_model import choose_form, move_to
from naim3l.solvers import Record, SolverResult
from naim3l.solvers.objective import Objective

Pair = tuple[float, float]  # lam, ridge
Advance = Callable[..., None]

# Standard errors by which a pair must be worse than another to be clearly worse.
CLEARLY = 2.0
# Bytes of weights that are kept in each fold, those of the best pairs; at least those of one pair.
KEPT_BYTES = 2**27


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
        losses = np.full((n_pairs, 1 + N_BLOCKS), np.nan)
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
    device: str = CPU
    fits: list[FoldFits] = field(default_factory=list)

    @one_blas_thread  # here, so that threads do not undo each other's limits
    def run(self, n_jobs: int | None, checkpoint: Checkpoint | None, *, shown: bool) -> None:
        """Fit the pairs; folds that are in the checkpoint are not repeated."""
        everyone = list(range(len(self.pairs)))
        with progress_bar("pairs x folds", len(everyone) * self.n_folds, shown=shown) as advance:
            fit = partial(self._fit_folds, n_jobs, checkpoint, advance)
            if self.exhaustive:
                fit(range(self.n_folds), everyone)
                return
            fit([0], everyone)
            left = close_to_best(self.fits[0].losses)
            advance(by=(len(everyone) - len(left)) * (self.n_folds - 1))
            # If all of these turn out to be unbounded below, the others must do.
            others = [pair for pair in everyone if self.bounded[pair] and pair not in left]
            for chosen in (left, others):
                if chosen and not (self.complete & self.bounded).any():
                    fit(range(1, self.n_folds), chosen)

    @property
    def losses(self) -> NDArray[np.float64]:
        """Losses (n_folds, n_pairs): NaN where there is none, infinite if unbounded below."""
        found = np.full((self.n_folds, len(self.pairs)), np.nan)
        for of_fold in self.fits:
            found[of_fold.fold, of_fold.fitted] = of_fold.losses[of_fold.fitted, 0]
        return found

    @property
    def complete(self) -> Mask:
        """Whether each pair was fitted in all folds, (n_pairs,)."""
        fitted = np.zeros((self.n_folds, len(self.pairs)), dtype=bool)
        for of_fold in self.fits:
            fitted[of_fold.fold] |= of_fold.fitted
        return np.asarray(fitted.all(axis=0))

    @property
    def bounded(self) -> Mask:
        """Whether no fit of a pair was unbounded below, (n_pairs,)."""
        return np.asarray(~np.isinf(self.losses).any(axis=0))

    def weights(self, fold: int, pair: int) -> Matrix | None:
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
            stored = None if checkpoint is None else checkpoint.get(fits.name)
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
                checkpoint.put(fits.name, fits.arrays)
        self.fits += new

    def _fit_fold(self, advance: Advance, n_threads: int, fits: FoldFits) -> FoldFits:
        problem = self.folds.without(fits.fold)
        problem.n_threads = n_threads  # the others are for folds that are fitted at the same time
        form = choose_form(move_to(problem, self.device))
        start: SolverResult | None = None
        for _, path in groupby(fits.chosen, lambda pair: self.pairs[pair][1]):
            # A path starts where that of the smaller ridge did.
            start = self._fit_path(fits, form, list(path), start, advance)
        fits.forget_worse()
        return fits

    def _fit_path(
        self, fits: FoldFits, form: Any, path: list[int], start: Any, advance: Advance
    ) -> SolverResult | None:
        """Fit pairs with the same ridge and increasing lam; the result of the first one."""
        hidden, sign = self.folds.hidden(fits.fold), 1 if self.metric in LOWER_IS_BETTER else -1
        first, last = None, start
        for n, pair in enumerate(path):
            lam, ridge = self.pairs[pair]
            note = f"fold {fits.fold + 1}: lam={lam:.3g} ridge={ridge:.3g}"
            objective = Objective(form, lam, self.low_rank, self.high_rank, ridge)
            try:
                last = solve_loosely(objective, warm=last, callback=partial(_show, advance, note))
            except FloatingPointError:  # and a larger lam only adds to the descent
                fits.losses[path[n:]], fits.fitted[path[n:]] = np.inf, True
                advance(note, by=len(path) - n)
                break
            first = first or last
            fits.weights[pair] = last.W.astype(np.float32)
            value = jackknifed_metric(self.folds.rows, hidden, last.W, self.metric)
            fits.losses[pair], fits.fitted[pair] = sign * value, True
            advance(note)
            if fits.fold == 0 and not self.exhaustive and fits.has_fallen(path[: n + 1]):
                advance(note, by=len(path) - n - 1)
                break
        return first


def _show(advance: Advance, note: str, record: Record, W: Matrix) -> None:
    """Show that a fit within a fold makes progress."""
    advance(f"{note} objective {record['objective']:.6g}", by=0)


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
    """Numbers of the pairs that are not clearly worse than the best, given their losses.

    All pairs are, except for unbounded ones, if the metric is undefined for each of them.
    """
    finite = np.isfinite(losses[:, 0])
    if not finite.any():
        return np.flatnonzero(~np.isinf(losses[:, 0])).tolist()
    best = losses[np.argmin(np.where(finite, losses[:, 0], np.inf))]
    return np.flatnonzero(finite & ~clearly_worse(losses, best)).tolist()
