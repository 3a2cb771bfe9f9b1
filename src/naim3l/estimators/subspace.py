"""Ridge regression per view, whose predictions are shrunk in a space of labels that views share.

In closed form, most of what coupling adds: views only exchange a sum of label by label.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Matrix
from naim3l._progress import progress_bar
from naim3l._text import documented
from naim3l._threads import one_blas_thread
from naim3l.decisions import held_out
from naim3l.decisions.bridge import learn_bridge
from naim3l.decisions.calibration import HeldOutScores, fit_calibrations
from naim3l.decisions.held_out import AUTO, METRICS, Folds, best_of_folds, few_known
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import RULES
from naim3l.estimators.linear import FACTOR, LinearViewModel
from naim3l.features.encoding import NAMES
from naim3l.files.stored import Number, Sometimes, Text
from naim3l.input.sources import any_chunked
from naim3l.problem.rows import Problem

# Candidates of the ridge, and of the shrinkage, in multiples of the mean eigenvalue.
RIDGES = (0.1, 1.0, 10.0, 100.0)
SHRINKAGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
MOST_SHRINKAGE = 1e6
Pair = tuple[float, float]  # ridge and shrinkage


@dataclass(frozen=True)
class LabelSpace:
    """Directions of the label space, by how much ridge regression explains along them.

    Attributes
    ----------
    scale : ndarray of shape (n_labels,)
        Inverse standard deviations of labels, by which frequent ones do not own the space.
    strengths : ndarray of shape (n_labels,)
        What ridge regression explains along each direction, in all views.
    directions : ndarray of shape (n_labels, n_labels)
        As columns.
    """

    scale: Matrix
    strengths: Matrix
    directions: Matrix

    @classmethod
    def of(cls, products: Matrix, rates: Matrix) -> "LabelSpace":
        """From a result of `label_products` and shares of positives (n_labels,)."""
        scale = 1 / np.sqrt(rates * (1 - rates))
        G = scale[:, None] * products * scale
        strengths, directions = np.linalg.eigh((G + G.T) / 2)  # not symmetric with unknown labels
        return cls(scale, np.maximum(strengths, 0.0), directions)

    def mixing(self, shrinkage: float) -> Matrix:
        """What weights are multiplied by, (n_labels, n_labels); the identity without shrinkage."""
        if not shrinkage:
            return np.eye(len(self.scale))
        least = np.finfo(float).tiny  # where nothing is explained at all
        factors = self.strengths / (self.strengths + shrinkage * self.strengths.mean() + least)
        Q = self.directions
        return self.scale[:, None] * ((Q * factors) @ Q.T) / self.scale


def label_products(problem: Any, W: Matrix) -> Matrix:
    """Sum over views of ``(Y - mean)' XW``, known labels by the scores of ridge regression.

    Of each pair of labels, over the rows in which the first is known; around the mean of the first
    in the view, so that intercepts and shifts of columns do not matter.
    """
    found = np.zeros((problem.n_labels, problem.n_labels))
    for weights in problem.weight_slices:
        targets = problem.targets[weights]
        if problem.fit_intercept:
            known = problem.known_sums[weights]
            targets = targets - known * (targets[-1] / np.maximum(known[-1], 1e-300))
        found += targets.T @ W[weights]
    return found


def mix_labels(problem: Any, W: Matrix, mixing: Matrix, rates: Matrix) -> Matrix:
    """Ridge weights times a matrix of labels; the mean score of each label stays what it was."""
    found = W @ mixing
    if not problem.fit_intercept:
        return found
    for weights in problem.weight_slices:
        known, last = problem.known_sums[weights], weights.stop - 1
        labelled = known[-1] > 0
        # Labels that the view never records get the mean of the rows with any known label.
        of_any = known.sum(axis=1, keepdims=True)
        sums = np.where(labelled, known, of_any)
        means = sums[:-1] / np.maximum(sums[-1], 1e-300)
        level = problem.targets[last] / np.maximum(known[-1], 1e-300)
        level = np.where(labelled, level, 2 * rates - 1)
        found[last] = level - (means * found[weights][:-1]).sum(axis=0)
    return found


@dataclass(frozen=True)
class RidgeFits:
    """Ridge regressions without each fold, and what pairs of parameters reach on the folds.

    Attributes
    ----------
    pairs : list of (float, float)
        Ridge and shrinkage.
    values : ndarray of shape (n_folds, n_pairs)
        The metric; NaN where it is undefined.
    """

    folds: Folds
    rates: Matrix
    metric: str
    pairs: list[Pair]
    values: Matrix
    _fits: list[Callable[[Pair], Matrix]]

    @classmethod
    @one_blas_thread  # many products of small matrices
    def of(
        cls,
        folds: Folds,
        rates: Matrix,
        metric: str,
        pairs: Sequence[Pair],
        advance: Callable[[], Any] = lambda: None,
    ) -> "RidgeFits":
        """Fits of all pairs; ``advance`` is called after each fold."""
        rows, all_hidden = folds.rows, [folds.hidden(fold) for fold in range(len(folds))]
        if all_hidden:
            metric = held_out.choose_metric(metric, map(rows.truth_of, all_hidden))
        fits, values = [], np.empty((len(folds), len(pairs)))
        for fold, hidden in enumerate(all_hidden):
            fits.append(fit_pairs(folds.without(fold), rates, pairs))
            for i, pair in enumerate(pairs):
                values[fold, i] = held_out.hidden_metric(rows, hidden, fits[-1](pair), metric)
            advance()
        return cls(folds, rates, metric, list(pairs), values, fits)

    def best(self, shrinkages: Sequence[float]) -> tuple[Pair, list[Matrix], list[Matrix]]:
        """The best pair with one of the shrinkages, and fits without each fold.

        Fits are first those of this pair, and then of the pair that is best on the other folds.
        """
        used = [i for i, (_, shrinkage) in enumerate(self.pairs) if shrinkage in shrinkages]
        values, pairs = self.values[:, used], [self.pairs[i] for i in used]
        # With few known labels, the largest ridge, then shrinkage, that is not clearly worse.
        simplicity = None
        if few_known(self.folds.rows):
            simplicity = -np.argsort(np.argsort([ridge + 1e-3 * of for ridge, of in pairs]))
        chosen = pairs[best_of_folds(values, self.metric, simplicity)]
        others = [np.delete(values, fold, axis=0) for fold in range(len(values))]
        without = [pairs[best_of_folds(of, self.metric, simplicity)] for of in others]
        fits = self._fits
        alone = [fit(pair) for fit, pair in zip(fits, without, strict=True)]
        return chosen, [fit(chosen) for fit in fits], alone


def fit_pairs(problem: Any, rates: Matrix, pairs: Sequence[Pair]) -> Callable[[Pair], Matrix]:
    """Weights (n_weights, n_labels) of a problem by pair; ridges are solved for together."""
    ridges = list(dict.fromkeys(ridge for ridge, _ in pairs))
    solutions = dict(zip(ridges, problem.ridge_solutions(ridges), strict=True))
    spaces = {r: LabelSpace.of(label_products(problem, W), rates) for r, W in solutions.items()}

    def fit(pair: Pair) -> Matrix:
        ridge, shrinkage = pair
        mixing = spaces[ridge].mixing(shrinkage)
        return mix_labels(problem, solutions[ridge], mixing, rates)

    return fit


def all_pairs(ridge: Any = AUTO, shrinkage: Any = AUTO) -> list[Pair]:
    """Pairs to choose from, of which there is only one if both numbers are given."""
    ridges = RIDGES if ridge == AUTO else (float(ridge),)
    shrinkages = SHRINKAGES if shrinkage == AUTO else (float(shrinkage),)
    return [(ridge, shrinkage) for ridge in ridges for shrinkage in shrinkages]


def fill_probabilities(problem: Problem, scores: Matrix, final: Matrix) -> Matrix:
    """Probability of every entry (n_rows, n_labels) given the known labels of its row.

    ``scores`` are a result of `Folds.scores`, and ``final`` those of all rows by the final fit,
    which stand in where there are none: mostly in rows without known labels, which no fit uses.
    """
    truth = problem.truth_of(problem.Y != 0)
    rates = np.broadcast_to(problem.table_rates, (problem.n_views, problem.n_labels))
    of_views = [[of[rows] for rows in problem.row_slices] for of in (scores, truth, final)]
    curves = fit_calibrations([HeldOutScores(*of) for of in zip(*of_views, strict=True)], rates)
    pairs = [(curve.log_odds(S), Y) for curve, S, Y, _ in zip(curves, *of_views, strict=True)]
    bridge = learn_bridge(pairs, groups=problem.groups_of_views)
    found = np.empty(scores.shape)
    for rows, curve, S, Y, F in zip(problem.row_slices, curves, *of_views, strict=True):
        log_odds = curve.log_odds(np.where(np.isnan(S), F, S))
        found[rows] = expit(log_odds if bridge is None else bridge.log_odds(log_odds, Y))
    return found


def soften(problem: Problem, probabilities: Matrix, weight: float, rows: Any = True) -> Problem:
    """The problem whose unknown entries are probabilities, with a weight in the loss.

    ``rows`` is a mask (n_rows,) of those that are used; the others have no weight.
    """
    unknown = problem.Y == 0
    soft = problem.with_labels(np.where(unknown, 2 * probabilities - 1, problem.Y))
    used = np.broadcast_to(rows, len(problem.Y))[:, None]
    soft.P = used * np.where(unknown, weight, problem.P)
    return soft


@documented(features=NAMES, rules=RULES)
@dataclass(eq=False, repr=False)
class LabelSubspaceRidge(LinearViewModel):
    """Ridge regression per view, shrunk in a space of labels that all views share.

    What ridge regression explains of the labels, in all views together, has strong and weak
    directions in the space of labels; predictions along weak ones are shrunk. Without shrinkage
    this is `PerViewRidge`. It is a closed form, in which views only exchange one matrix of label by
    label, and in most comparisons nearly as good as :class:`naim3l.NAIM3LCV`.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        Weight of the squared weights, greater than 0. "auto" chooses it on held-out rows.
    shrinkage : float or "auto", default="auto"
        Directions that explain as much as ``shrinkage`` times the average one are halved; 0 shrinks
        none. "auto" chooses it together with ``ridge``.
    soft_labels : float, default=0.0
        Weight, up to 1, of unknown training labels, which are filled in with their probabilities
        given the features and the known labels of the row, in a second fit. It needs tables in
        memory.
    metric : str, default="auto"
        By what parameters are chosen, as in :class:`naim3l.NAIM3LCV`.
    views, features, positive_weight, fit_intercept, random_state
        As in :class:`naim3l.NAIM3L`.
    decide : <rules>, float, mapping of label to float, or Decisions, default="guarded"
        As in :class:`naim3l.NAIM3L`.
    verbose : int, default=0
        1 shows progress bars on a terminal.

    Attributes
    ----------
    ridge_, shrinkage_ : float
        The pair that was used.
    metric_ : str
        The metric by which it was chosen, never "auto"; only if held-out rows were needed.
    coef_, intercept_, dual_coef_, gamma_, features_, columns_, decisions_, thresholds_, \
fusion_overlap_, base_rates_, view_rates_, views_, label_names_, classes_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import LabelSubspaceRidge, datasets, evaluate
    >>> data = datasets.make_unpaired(120, n_labels=6, missing_labels=0.5, noise=1, random_state=0)
    >>> model = LabelSubspaceRidge(random_state=0).fit(data.views, data.labels)
    >>> model.ridge_, model.shrinkage_
    (1.0, 1.0)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    0.86
    """

    _parameter_constraints = LinearViewModel._parameter_constraints | {
        "ridge": [StrOptions({AUTO}), FACTOR],
        "shrinkage": [StrOptions({AUTO}), Interval(Real, 0, MOST_SHRINKAGE, closed="both")],
        "soft_labels": [Interval(Real, 0, 1, closed="both")],
        "metric": [StrOptions({AUTO, *METRICS})],
        "verbose": ["verbose"],
    }
    _stored = LinearViewModel._stored | {
        "ridge_": Number(above=0),
        "shrinkage_": Number(0),
        "metric_": Sometimes(Text(METRICS)),
    }

    ridge: float | str = AUTO
    shrinkage: float | str = AUTO
    _: KW_ONLY
    soft_labels: float = 0.0
    metric: str = AUTO
    decide: Any = "guarded"
    verbose: int = 0

    def _fit(self, X: Any, y: Any) -> None:
        decisions = self._check_parameters()
        if self.soft_labels and any_chunked(X):
            raise TypeError("soft_labels needs tables in memory; of chunks, it must be 0.")
        chunks: dict[str, Any] = {"n_folds": N_FOLDS, "open_checkpoint": lambda facts: None}
        problem = self._read_training(X, y, decisions, **chunks).rotated()
        rates, fits = problem.base_rates, list[Matrix]()
        pairs = all_pairs(self.ridge, self.shrinkage)
        pair, folds = pairs[0], self._hold_out(problem, N_FOLDS)
        if len(pairs) > 1 or decisions._learn or self.soft_labels:
            with progress_bar("ridges", N_FOLDS, shown=self.verbose > 0) as advance:
                found = RidgeFits.of(folds, rates, self.metric, pairs, advance)
            if len(pairs) > 1 and np.isnan(found.values).all():
                raise ValueError(
                    f"metric {found.metric!r} is undefined on the held-out rows: too few labels "
                    "are known. Use another metric, or give the ridge and the shrinkage."
                )
            self.metric_ = found.metric
            pair, fits, _ = found.best([shrinkage for _, shrinkage in pairs])
        W = fit_pairs(problem.whole, rates, [pair])(pair)
        if self.soft_labels:
            W, fits = self._fit_softly(problem, folds, fits, W, pair)
        self.ridge_, self.shrinkage_ = pair
        self._keep_weights(problem, W)
        if decisions._learn:
            self._learn_decisions(folds, fits, W)

    def _fit_softly(
        self, problem: Problem, folds: Folds, fits: list[Matrix], W: Matrix, pair: Pair
    ) -> tuple[Matrix, list[Matrix]]:
        """Weights of all rows, and without each fold, with soft labels."""
        rates, fold_of, n_folds = problem.base_rates, folds.fold_of, len(folds)

        def fit(of: Problem) -> Matrix:
            return fit_pairs(of, rates, [pair])(pair)

        def fit_softly(of: Problem, without: list[Matrix], W: Matrix, rows: Any = True) -> Matrix:
            own, final = Folds.of(of, np.where(of.Y == 0, -1, fold_of)), of.multiply(W)
            filled = fill_probabilities(of, own.scores(without, final), final)
            return fit(soften(of, filled, self.soft_labels, rows))

        # A fold is held out of everything that its soft fit learns from: of the fits that score
        # other folds, too.
        both = {
            frozenset(two): fit(problem.without(np.isin(fold_of, two)))
            for two in combinations(range(n_folds), 2)
        }
        of_row, found = fold_of.max(axis=1, initial=-1), list[Matrix]()
        for fold in range(n_folds):
            without = [both.get(frozenset((fold, other)), fits[fold]) for other in range(n_folds)]
            rest = problem.without(fold_of == fold)
            found.append(fit_softly(rest, without, fits[fold], of_row != fold))
        return fit_softly(problem, fits, W), found
