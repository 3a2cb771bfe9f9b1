"""Ridge regressions of labels with several parameters, and what these reach on held-out folds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from naim3l._arrays import Matrix, eigh
from naim3l._threads import one_blas_thread
from naim3l.decisions import held_out
from naim3l.decisions.held_out import AUTO, Folds, best_of_folds, few_known

# Candidates of the ridge, and of the shrinkage, in multiples of the mean eigenvalue.
RIDGES = (0.1, 1.0, 10.0, 100.0)
SHRINKAGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
MOST_SHRINKAGE = 1e6
Pair = tuple[float, float]  # ridge and shrinkage
NOTHING: Mapping[float, Matrix] = MappingProxyType({})


@dataclass(frozen=True)
class LabelSpace:
    """Directions of the label space, by how much ridge regression explains along them."""

    # Inverse standard deviations of labels, (n_labels,), by which frequent ones do not own it.
    scale: Matrix
    strengths: Matrix  # what ridge regression explains along each, in all views, (n_labels,)
    directions: Matrix  # as columns, (n_labels, n_labels)

    @classmethod
    def of(cls, products: Matrix, rates: Matrix) -> "LabelSpace":
        """From a result of `label_products` and shares of positives (n_labels,)."""
        scale = 1 / np.sqrt(rates * (1 - rates))
        G = scale[:, None] * products * scale
        strengths, directions = eigh((G + G.T) / 2)  # not symmetric with unknown labels
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
    """Ridge regressions without each fold, and what pairs of parameters reach on the folds."""

    folds: Folds
    rates: Matrix
    metric: str
    pairs: list[Pair]
    values: Matrix  # of the metric, (n_folds, n_pairs); NaN where it is undefined
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
        elsewhere: Mapping[float, Matrix] = NOTHING,
    ) -> "RidgeFits":
        """Fits of all pairs, as by `fit_pairs`; ``advance`` is called after each fold."""
        rows, all_hidden = folds.rows, [folds.hidden(fold) for fold in range(len(folds))]
        if all_hidden:
            metric = held_out.choose_metric(metric, map(rows.truth_of, all_hidden))
        fits, values = [], np.empty((len(folds), len(pairs)))
        for fold, hidden in enumerate(all_hidden):
            fits.append(fit_pairs(folds.without(fold), rates, pairs, elsewhere))
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


def fit_pairs(
    problem: Any,
    rates: Matrix,
    pairs: Sequence[Pair],
    elsewhere: Mapping[float, Matrix] = NOTHING,
) -> Callable[[Pair], Matrix]:
    """Weights (n_weights, n_labels) of a problem by pair; ridges are solved for together.

    ``elsewhere`` are results of `label_products` at other sites, by ridge.
    """
    ridges = list(dict.fromkeys(ridge for ridge, _ in pairs))
    solutions = dict(zip(ridges, problem.ridge_solutions(ridges), strict=True))
    spaces = {
        ridge: LabelSpace.of(label_products(problem, W) + elsewhere.get(ridge, 0.0), rates)
        for ridge, W in solutions.items()
    }

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
