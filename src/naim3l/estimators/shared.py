"""A model of the columns that several tables share, whose scores every table adds to its own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.utils.extmath import randomized_svd

from naim3l._arrays import Matrix, eigh
from naim3l._threads import one_blas_thread
from naim3l.decisions.calibration import HeldOutScores, held_out_losses
from naim3l.decisions.held_out import Folds
from naim3l.decisions.stacking import Stacking, learn_stackings
from naim3l.features.shared import SharedColumns
from naim3l.files.stored import Array, MapOf, Nested, Number
from naim3l.input.batches import Batch
from naim3l.problem.feature_blocks import append_ones
from naim3l.problem.rows import Problem, SharedRows
from naim3l.problem.sufficient_statistics import RowStatistics, ViewStatistics

# Weight of the squared weights with which shared columns explain scores.
EXPLAINING_RIDGE = 10.0
# Ridges that draw the weights of labels together, with those that draw what they have in common to
# 0. All are tried without bends and products, and with them at this size, which is taken if it
# saves so much log-loss of the held-out entries in all.
PAIRS = [*product((1000.0, 100.0, 10.0, 1.0), (10.0, 1000.0))]
BENT_SIZE, BENDS_COST = 0.3, 2.0
# There are c d^2 sums of c labels and d features. If these are more, or so many features, there are
# no bends and products, and as many leading axes of the numbers as fit.
MOST_AXES, MOST_SUMS = 150, 1_000_000


@dataclass(frozen=True)
class SharedModel:
    """Ridge regression on shared columns, of rows of all views, and its part in their scores."""

    columns: Annotated[SharedColumns, Nested(SharedColumns)]
    ridge: Annotated[float, Number(above=0)]  # with which the weights of labels are drawn together
    coef: Annotated[Matrix, Array("f", "shared features", "labels")]
    mean: Annotated[Matrix, Array("f", "shared features")]  # of the training rows
    level: Annotated[Matrix, Array("f", "labels")]  # scores of a row with these means
    # How scores are added up, by view; not of views in which they do not help.
    stackings: Annotated[dict[str, Stacking], MapOf(Nested(Stacking))]
    # Weights of the features, around their means, with which these explain the scores of a view, of
    # its own columns, too. Of samples in several tables, this part counts once.
    explaining: Annotated[
        dict[str, Matrix], MapOf(Array("f", "with intercept", "labels"), keys="views")
    ]
    # Shares of the variance of the scores that they explain.
    shares: Annotated[dict[str, Matrix], MapOf(Array("f", "labels", low=0, high=1), keys="views")]

    def _check_stored(self) -> None:
        """Refuse weights of other features than those of the columns."""
        if len(self.coef) != self.columns.n_features:
            raise ValueError(f"{len(self.coef)} weights of {self.columns.n_features} features.")

    def _centred(self, view: str, batch: Batch) -> Matrix:
        return self.columns.encode(view, batch) - self.mean

    def combine(self, view: str, batch: Batch, own: Matrix) -> Matrix:
        """Scores (n_rows, n_labels) of the rows of a view, given those of its own columns."""
        if (stacking := self.stackings.get(view)) is None:
            return own
        return stacking.combine(own, self.level + self._centred(view, batch) @ self.coef)

    def common_part(self, view: str, batch: Batch) -> Matrix:
        """The part (n_rows, n_labels) of a view's scores that shared columns explain."""
        features = append_ones(self._centred(view, batch))
        return np.asarray(features @ self.explaining[view])

    def contributions(self, view: str, batch: Batch) -> Matrix:
        """What each shared column adds to the scores of a view, (n_rows, n_columns, n_labels).

        They are differences from an average row of the view, in units of the scores of
        ``decision_function``, and exact: they sum to the change of what `combine` makes of the same
        score of the view's own columns. ``columns.columns`` are the names. A missing number, and a
        column that the view lacks, add nothing. ``batch`` has the columns that the view uses.
        """
        stacking = self.stackings.get(view)
        factors = 0.0 if stacking is None else stacking.factors[1]
        return self.columns.add_up(view, batch, self.coef * factors)

    def common_contributions(self, view: str, batch: Batch) -> Matrix:
        """What each shared column adds to `common_part`, (n_rows, n_columns, n_labels)."""
        return self.columns.add_up(view, batch, self.explaining[view][:-1])


@dataclass(frozen=True)
class SharedFit:
    """Ridge regression on shared columns: of all rows, and without each fold.

    Scores are (n_rows, n_labels): of held-out entries with the parameters that are best for all
    folds; ``nested`` with those that are best for the other folds; and ``final`` of the fit to all
    rows.
    """

    problem: Problem  # of the views' own columns, whose rows are scored
    shared: SharedRows
    ridge: float
    weights: Matrix  # (n_features + 1, n_labels)
    mean: Matrix
    scores: Matrix
    nested: Matrix
    final: Matrix

    @classmethod
    @one_blas_thread  # many products of small matrices
    def of(cls, folds: Folds) -> "SharedFit":
        """Fits to the shared columns of the rows of some folds, with the least log-loss."""
        own, shared, fold_of = folds.rows, folds.rows.shared, folds.fold_of
        assert shared is not None
        axes = _axes(shared, own.n_labels)
        used = shared if axes is None else replace(shared, X=shared.X @ axes)
        whole, *sums = _sums_by_fold(folds, used)
        fits, *without = [_fit_all(own, used, view) for view in (whole, *sums)]
        rows = Folds.of(Problem([used.X], [own.Y]), fold_of)
        finals = [rows.rows.multiply(W) for W in fits]
        known = fold_of >= 0
        truth, base = own.truth_of(known), logit(own.base_rates)
        losses = np.zeros((len(folds), len(fits)))
        for i, final in enumerate(finals):
            held_out = rows.scores([of_fold[i] for of_fold in without], final)
            found = held_out_losses(HeldOutScores(held_out, truth, final), base)
            losses[:, i] = np.bincount(fold_of[known], found[known], len(folds))
        price = np.repeat([0.0, BENDS_COST], len(PAIRS))[: len(fits)]
        best = int(np.argmin(losses.sum(axis=0) + price))
        final = finals[best]
        alone = [int(np.argmin(total + price)) for total in losses.sum(axis=0) - losses]
        scores = rows.scores([of_fold[best] for of_fold in without], final)
        nested = rows.scores([of[i] for of, i in zip(without, alone, strict=True)], final)
        ridge, _ = PAIRS[best % len(PAIRS)]
        W, mean = fits[best], whole.gram[-1, :-1] / whole.gram[-1, -1]
        if axes is not None:
            W, mean = np.vstack([axes @ W[:-1], W[-1:]]), shared.X.mean(axis=0)
        return cls(own, shared, ridge, W, mean, scores, nested, final)

    def learn(
        self, views: Sequence[str], scores: Matrix, final: Matrix
    ) -> tuple[SharedModel, Matrix, Matrix]:
        """The model, and the views' held-out and final scores with the shared ones added."""
        found = self._stackings(scores, final)
        level = self.weights[-1] + self.mean @ self.weights[:-1]
        stackings = {v: of for v, of in zip(views, found, strict=True) if of is not None}
        scores, final = self._add(found, scores, self.scores), self._add(found, final, self.final)
        features = append_ones(self.shared.X - self.mean)
        explained = [_explain(features[rows], final[rows]) for rows in self.problem.row_slices]
        explaining, shares = (
            dict(zip(views, of, strict=True)) for of in zip(*explained, strict=True)
        )
        about = self.shared.columns, self.ridge, self.weights[:-1], self.mean, level
        return SharedModel(*about, stackings, explaining, shares), scores, final

    def parts(self, model: SharedModel) -> dict[str, tuple[Matrix, Matrix]]:
        """Parts of the scores of the rows that shared columns explain, and their shares."""
        features, rows_of = append_ones(self.shared.X - self.mean), self.problem.row_slices
        return {
            view: (features[rows] @ weights, model.shares[view])
            for rows, (view, weights) in zip(rows_of, model.explaining.items(), strict=True)
        }

    def nest(
        self, scores: Matrix, final: Matrix, fold_of: NDArray[np.intp]
    ) -> tuple[Matrix, Matrix]:
        """As `learn`, for a measurement: what is added in a fold is learned from the others."""
        both = self._stackings(scores, final, self.nested)
        found, final_sum = self._add(both, scores, self.nested), self._add(both, final, self.final)
        for fold in range(fold_of.max(initial=-1) + 1):
            here = fold_of == fold
            others = self._stackings(np.where(here, np.nan, scores), final, self.nested)
            found[here] = self._add(others, scores, self.nested)[here]
        return found, final_sum

    def _stackings(
        self, scores: Matrix, final: Matrix, shared: Matrix | None = None
    ) -> list[Stacking | None]:
        """How the scores of each view are added up."""
        problem, shared = self.problem, self.scores if shared is None else shared
        given = (scores, final), (shared, self.final)
        both = [HeldOutScores.of_views(problem, *of) for of in given]
        return learn_stackings(list(zip(*both, strict=True)), logit(problem.table_rates))

    def _add(self, found: Sequence[Stacking | None], own: Matrix, shared: Matrix) -> Matrix:
        parts = [
            own[rows] if stacking is None else stacking.combine(own[rows], shared[rows])
            for rows, stacking in zip(self.problem.row_slices, found, strict=True)
        ]
        return np.concatenate(parts)


def _explain(features: Matrix, scores: Matrix) -> tuple[Matrix, Matrix]:
    """Weights with which features, the last of which is 1, explain scores, and the shares of these.

    What is explained has the mean 0. Few rows are not explained by chance, due to a small ridge.
    """
    centre = features.mean(axis=0)
    F, S = features - centre, scores - scores.mean(axis=0)
    if F.shape[0] < F.shape[1]:
        W = F.T @ np.linalg.solve(F @ F.T + EXPLAINING_RIDGE * np.eye(len(F)), S)
    else:
        W = np.linalg.solve(F.T @ F + EXPLAINING_RIDGE * np.eye(F.shape[1]), F.T @ S)
    explained, total = (F @ W).var(axis=0), S.var(axis=0)
    W[-1] = -centre @ W
    return W, np.clip(explained / np.where(total > 0, total, 1.0), 0.0, 1.0)


def _axes(shared: SharedRows, n_labels: int) -> Matrix | None:
    """Leading axes (n_features, n_axes) of the numbers, if sums over all features are too large.

    Sums of chunks, which are refused if memory does not hold them, are not reduced.
    """
    most = max(1, min(MOST_AXES, math.isqrt(MOST_SUMS // n_labels)))
    if shared.statistics is not None or shared.X.shape[1] <= most:
        return None
    n_features, n = shared.X.shape[1], len(shared.columns.numbers)
    if n <= most:
        return np.eye(n_features, n)
    Z = shared.X[:, :n] - shared.X[:, :n].mean(axis=0)
    found = np.zeros((n_features, min(most, *Z.shape)))
    found[:n] = randomized_svd(Z, found.shape[1], random_state=0)[2].T
    return found


def _sums_by_fold(folds: Folds, shared: SharedRows) -> Iterator[ViewStatistics]:
    """Sums over the stacked rows of shared columns: of all entries, and without each fold."""
    own, n = folds.rows, len(folds)
    sums, weight = shared.statistics, own.positive_weight
    if sums is None:
        # Entries that are in no fold are in one that is never left out.
        cells = np.where(folds.fold_of < 0, n, folds.fold_of)
        sums = RowStatistics.of(shared.X, own.Y, cells, n_folds=n + 1, fit_intercept=True)
    yield sums.view(weight)
    for fold in range(n):
        yield sums.view(weight, without=fold, kept=sums.counts.only[fold])


def _fit_all(problem: Problem, shared: SharedRows, sums: ViewStatistics) -> list[Matrix]:
    """Weights (n_features + 1, n_labels) with each of the candidates."""
    spread = np.sqrt(problem.base_rates * (1 - problem.base_rates))
    straight = np.arange(shared.X.shape[1]) < len(shared.columns.numbers)
    return [
        W
        for bent in (False, True)[: 2 - straight.all()]
        for W in common_ridges(sums, spread, np.where(straight, 1.0, BENT_SIZE * bent), PAIRS)
    ]


def common_ridges(
    sums: ViewStatistics, spread: Matrix, sizes: Matrix, pairs: Sequence[tuple[float, float]]
) -> list[Matrix]:
    """Weights (n_features + 1, n_labels) for pairs of ``ridge`` and ``hold``; intercepts are last.

    Many labels depend on a column such as age alike: most diseases are more frequent in old people.
    So the weights of each label are drawn towards common ones, which are learned from all labels.
    Over all ``w_k`` and ``m`` they minimise ``sum_k |X_k w_k - y_k|^2 + ridge |w_k - m|^2``, summed
    over labels, and ``hold |m|^2``. There, labels are divided by their ``spread`` (n_labels,), and
    features are multiplied by their ``sizes`` (n_features,): a size of 0 leaves one out. Rows and
    labels are those around their means, of the rows in which a label is known.
    """
    total = np.maximum(sums.known_grams[:, -1, -1], 1.0)
    x_mean = sums.known_grams[:, -1, :-1] / total[:, None]
    y_mean = sums.targets[-1] / total
    grams = sums.known_grams[:, :-1, :-1] - np.einsum("k,ki,kj->kij", total, x_mean, x_mean)
    right = (sums.targets[:-1].T - x_mean * sums.targets[-1][:, None]) * sizes / spread[:, None]
    squares, Q = eigh(grams * sizes * sizes[:, None])
    squares, along = np.maximum(squares, 0.0), np.einsum("kij,ki->kj", Q, right)
    found = []
    for ridge, hold in pairs:
        # The share of each direction of a label's features that its entries leave open.
        left = ridge / (squares + ridge)
        whole = np.einsum("kij,kj,klj->il", Q, left * squares, Q) + hold * np.eye(len(sizes))
        common = np.linalg.solve(whole, np.einsum("kij,kj->i", Q, left * along))
        solved = (along + ridge * np.einsum("kij,i->kj", Q, common)) / (squares + ridge)
        coef = sizes * np.einsum("kij,kj->ki", Q, solved) * spread[:, None]
        found.append(np.vstack([coef.T, y_mean - (x_mean * coef).sum(axis=1)]))
    return found
