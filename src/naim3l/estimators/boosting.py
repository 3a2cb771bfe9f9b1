"""PerViewBoosting: gradient boosting of each label in each table, as a model and to compare with.

Trees take the columns as they are: any scale, missing values, and relations that are not linear.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import log_expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils._param_validation import Interval
from threadpoolctl import threadpool_limits

from naim3l._arrays import Matrix, as_dense
from naim3l._device import CPU
from naim3l._progress import progress_bar
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import Decisions
from naim3l.estimators.base import ViewModel
from naim3l.features.encoding import FeatureSpec, ViewFeatures, free_text
from naim3l.features.plan import ViewPlan
from naim3l.files.stored import Array, MapOf, Nested, Whole
from naim3l.input.batches import Batch
from naim3l.problem.rows import Problem

# Comparisons leave boosting out if `boosting_cost` is larger.
MOST_SECONDS = 20
# Numbers of trees that are tried, as shares of the most; without trees, scores are base rates.
SHARES = (0.0, 0.1, 0.3, 1.0)
MOST_TREES, LEARNING_RATE = 100, 0.1
# With 31 leaves and 255 bins, fits to yeast and two other datasets took twice as long and were not
# more accurate.
SETTINGS: dict[str, Any] = {
    "max_leaf_nodes": 15,
    "max_bins": 63,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}
# Rates are at least this far from 0 and 1, so that log-odds are finite.
LEAST_RATE = 1e-6
# Seconds of a fit and its predictions, of each square root of rows, and of that times columns. They
# are close to measured times of 30 to 20,000 rows and 2 to 1000 columns: the number of leaves, and
# of different values that are tried as splits, grows with the rows only as long as these are few.
PER_FIT, PER_ROOT, PER_COLUMN = 0.015, 9e-4, 3.7e-5
# Rows times trees whose leaves are looked up at a time.
MOST_LEAVES = 2**20
LARGEST = float(np.finfo(np.float64).max)
# Fields of the nodes of scikit-learn's trees that predictions need.
FIELDS: dict[str, Any] = {
    **dict.fromkeys(("value", "num_threshold"), np.float64),
    **dict.fromkeys(("left", "right", "feature_idx"), np.int64),
    **dict.fromkeys(("missing_go_to_left", "is_leaf"), np.bool_),
}


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of all labels of a table, as arrays of nodes: those of a tree, its root first.

    A row goes left at a node if its value is not above the threshold, or is missing and missing
    values go left. Leaves are their own children, and only their values count. A score is the sum
    of a label's base and of the values of the leaves that the row ends in, one of each tree.
    """

    n_columns: Annotated[int, Whole(0)]
    base: Annotated[Matrix, Array("f", "labels")]  # (n_labels,)
    # Number of trees of all labels up to each, (n_labels,).
    ends: Annotated[NDArray[np.int64], Array("i", "labels", low=0)]
    roots: Annotated[NDArray[np.int64], Array("i", "trees", low=0)]  # node of each tree, (n_trees,)
    # Of each node, (n_nodes,), as the others.
    column: Annotated[NDArray[np.int64], Array("i", "nodes", low=0)]
    threshold: Annotated[NDArray[np.float64], Array("f", "nodes")]
    missing_left: Annotated[NDArray[np.bool_], Array("b", "nodes")]
    left: Annotated[NDArray[np.int64], Array("i", "nodes")]
    right: Annotated[NDArray[np.int64], Array("i", "nodes")]
    value: Annotated[NDArray[np.float64], Array("f", "nodes")]

    @classmethod
    def of(cls, n_columns: int, base: Matrix, nodes: Sequence[Sequence[NDArray[Any]]]) -> "Trees":
        """The trees of each label, as `nodes_of` gives them."""
        trees = [tree for of_label in nodes for tree in of_label]
        of = {
            name: np.concatenate([np.empty(0, kind), *(tree[name] for tree in trees)]).astype(kind)
            for name, kind in FIELDS.items()
        }
        bounds = np.cumsum([0, *map(len, trees)])
        own, start = np.arange(bounds[-1]), np.repeat(bounds[:-1], np.diff(bounds))
        left, right = (np.where(of["is_leaf"], own, of[side] + start) for side in ("left", "right"))
        # A threshold of infinity only tells missing values from others.
        threshold = np.clip(of["num_threshold"], -LARGEST, LARGEST)
        inner = of["feature_idx"], threshold, of["missing_go_to_left"], left, right
        ends = np.cumsum([len(of_label) for of_label in nodes])
        return cls(n_columns, base, ends, bounds[:-1], *inner, of["value"])

    def scores(self, X: Matrix) -> Matrix:
        """Sums of base and leaves, (n_rows, n_labels), of rows (n_rows, n_columns) with NaN."""
        found = np.tile(self.base, (len(X), 1))
        for k, (start, end) in enumerate(zip([0, *self.ends], self.ends, strict=False)):
            n = max(1, MOST_LEAVES // max(end - start, 1))
            for first in range(0, len(X) if end > start else 0, n):
                leaves = self._leaves(X[first : first + n], self.roots[start:end])
                found[first : first + n, k] += self.value[leaves].sum(axis=1)
        return found

    def _leaves(self, X: Matrix, roots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Node that each row ends in, (n_rows, n_trees)."""
        at, moving = np.tile(roots, len(X)), np.arange(len(X) * len(roots))
        while len(moving):
            node = at[moving]
            x = X[moving // len(roots), self.column[node]]
            goes_left = (x <= self.threshold[node]) | (np.isnan(x) & self.missing_left[node])
            at[moving] = np.where(goes_left, self.left[node], self.right[node])
            moving = moving[at[moving] != node]
        return at.reshape(len(X), len(roots))

    def _check_stored(self) -> None:
        """Refuse trees in which a row would not come to a leaf of the tree that it is in."""
        n, own = len(self.value), np.arange(len(self.value))
        bounds = np.append(self.roots, n)
        if (np.diff(self.ends, prepend=0) < 0).any() or (self.ends[-1:] != len(self.roots)).any():
            raise ValueError(f"labels have up to {self.ends} trees, of {len(self.roots)}.")
        if (bounds[:1] != 0).any() or (np.diff(bounds) < 1).any():
            raise ValueError("trees without nodes, or nodes without a tree.")
        end = np.repeat(bounds[1:], np.diff(bounds))
        leaf = (self.left == own) & (self.right == own)
        first, last = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        inner = (first > own) & (last < end)
        if not (leaf | inner).all():
            raise ValueError("a node of a tree has children that are not behind it in its tree.")
        if (self.column >= self.n_columns).any():
            raise ValueError(f"a node compares column {self.column.max()} of {self.n_columns}.")


def nodes_of(model: HistGradientBoostingClassifier) -> list[NDArray[Any]]:
    """Nodes of the tree of each iteration of a fit of two classes to numbers, with `FIELDS`.

    The only place that reads what scikit-learn keeps private; from version 1.7 it is the same.
    """
    return [tree.nodes for (tree,) in model._predictors]


@dataclass(frozen=True)
class Boosting:
    """Fits to the labels of a table, and the numbers of trees that are tried."""

    max_trees: int = MOST_TREES
    learning_rate: float = LEARNING_RATE
    positive_weight: float = 1.0

    @property
    def tried(self) -> NDArray[np.intp]:
        """Numbers of trees, from none to the most."""
        return np.unique(np.rint(np.multiply(SHARES, self.max_trees)).astype(np.intp))

    def fit(self, X: Matrix, yes: NDArray[np.bool_]) -> tuple[Any, float]:
        """A model of scikit-learn fitted to a copy of rows, and the score that it starts from."""
        # With 20 in each leaf, few rows would not make trees; leaves of one row fit noise.
        leaf = int(np.clip(len(X) // 20, 5, 20))
        given = {"learning_rate": self.learning_rate, "max_iter": self.max_trees}
        model = HistGradientBoostingClassifier(**SETTINGS, **given, min_samples_leaf=leaf)
        weights = np.where(yes, self.positive_weight, 1.0)
        X[:, np.isnan(X).all(axis=0)] = 0  # scikit-learn refuses columns without any value
        model.fit(X, yes, sample_weight=weights)
        return model, float(logit(weights[yes].sum() / weights.sum()))

    def held_out(
        self, X: Matrix, y: NDArray[Any], fold_of: NDArray[np.intp], base: float
    ) -> Matrix:
        """Scores of the rows in a fold by the fit without it, (n_tried, n_rows); NaN elsewhere.

        They are the log-odds ``base`` of the rate, and what the trees add: where a fold has more
        positives, the fit without it has fewer, and would start from lower log-odds.
        """
        stages = np.tile(np.where(fold_of >= 0, base, np.nan), (len(self.tried), 1))
        for held_out, training in _fits(X, y, fold_of):
            model, start = self.fit(X[training], y[training] > 0)
            stages[1:, held_out] += self.staged(model, X[held_out]) - start
        return stages

    def staged(self, model: HistGradientBoostingClassifier, X: Matrix) -> Matrix:
        """Scores of rows by each number of trees that is tried, but none, (n_tried - 1, n_rows)."""
        of_trees = list(model.staged_decision_function(X))
        return np.array([of_trees[n - 1] for n in self.tried[1:]])


def boosted_scores(
    tables: Sequence[Any],
    signed: Sequence[NDArray[Any]],
    folds: Sequence[NDArray[Any]],
    rates: NDArray[np.floating],
    *,
    advance: Callable[[], object] = lambda: None,
) -> list[Matrix]:
    """Log-odds of held-out entries by gradient boosting of each label in each table.

    Each label is fitted without the entries of each fold in turn. For the entries of a fold, all
    labels of a table have the number of trees that has the lowest log-loss on the entries of the
    other folds; no trees, that is the base rates, if there are no others.

    ``tables`` (n_rows_v, n_columns_v), which may be sparse or have NaN, ``signed`` labels (1 = yes,
    -1 = no, 0 = unknown) and the ``folds`` in which entries are held out, -1 if in none, are those
    of each view; ``rates`` (n_labels,) or (n_views, n_labels) are shares of positives. Where the
    entries outside of a fold have only one value, there is no fit, and scores are the log-odds of
    the rate; they are NaN where a label is unknown or in no fold. ``advance`` is called after each
    label of each table.
    """
    found: list[Matrix] = []
    rates_of_views = np.broadcast_to(rates, (len(tables), np.shape(rates)[-1]))
    for table, Y, fold_of, of_view in zip(tables, signed, folds, rates_of_views, strict=True):
        held_out_in, X = np.where(Y != 0, fold_of, -1), as_dense(table)
        base = logit(np.clip(of_view, LEAST_RATE, 1 - LEAST_RATE))
        # Several threads are not faster for small tables, and many times slower on busy cores.
        with threadpool_limits(limits=1, user_api="openmp"):
            stages = []
            for of_label in zip(Y.T, held_out_in.T, base, strict=True):
                stages.append(Boosting().held_out(X, *of_label))
                advance()
        found.append(chosen_stages(np.stack(stages, axis=-1), Y, held_out_in))
    return found


def boosting_cost(tables: Sequence[Any], signed: Sequence[NDArray[Any]], n_folds: int) -> float:
    """Seconds of `boosted_scores` on an idle core; up to twice or half were measured."""
    seconds = 0.0
    for table, Y in zip(tables, signed, strict=True):
        roots = np.sqrt((Y != 0).sum(axis=0) * (1 - 1 / n_folds))
        seconds += n_folds * (PER_FIT + roots * (PER_ROOT + PER_COLUMN * table.shape[1])).sum()
    return float(seconds)


def _fits(
    table: Any, y: NDArray[Any], fold_of: NDArray[Any]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows of each fold of a label, and its training rows, if these have both values."""
    for fold in range(int(fold_of.max(initial=-1)) + 1 if table.shape[1] else 0):
        held_out = np.flatnonzero(fold_of == fold)
        training = np.flatnonzero((y != 0) & (fold_of != fold))
        if len(held_out) and len(np.unique(y[training])) == 2:
            yield held_out, training


def chosen_stages(
    stages: NDArray[np.float64], Y: NDArray[Any], fold_of: NDArray[Any]
) -> NDArray[np.float64]:
    """Scores of each entry by the stage with the lowest log-loss on the entries of other folds.

    A held-out entry has trained the fits without other folds, but no loss of its own counts.
    ``stages`` are (n_tried, n_rows, n_labels).
    """
    scores, losses = stages[0].copy(), _losses(stages, Y, fold_of)
    for fold in range(int(fold_of.max(initial=-1)) + 1):
        own = fold_of == fold
        best = losses[:, ~own].sum(axis=1).argmin()  # the fewest trees of those that are equal
        scores[own] = stages[best, own]
    return scores


def _losses(stages: Matrix, Y: NDArray[Any], fold_of: NDArray[Any]) -> Matrix:
    """Log-loss of each held-out entry by each stage; 0 for others."""
    return np.where((fold_of >= 0) & (Y != 0), -log_expit(Y * stages), 0.0)


def fit_label(
    boosting: Boosting, X: Matrix, y: NDArray[Any], fold_of: NDArray[np.intp], base: float
) -> tuple[list[NDArray[Any]], Matrix]:
    """Nodes of the trees of a label, fitted to all entries; scores of all rows (n_tried, n_rows).

    Rows in a fold are scored by the fit without it, and the others, whose labels are mostly
    unknown, by the final one.
    """
    known, nodes = np.flatnonzero(y), list[NDArray[Any]]()
    with threadpool_limits(limits=1, user_api="openmp"):
        stages, rest = boosting.held_out(X, y, fold_of, base), fold_of < 0
        stages[:, rest] = base
        if X.shape[1] and len(np.unique(y[known])) == 2:
            model, start = boosting.fit(X[known], y[known] > 0)
            nodes = nodes_of(model)
            if rest.any():
                stages[1:, rest] += boosting.staged(model, X[rest]) - start
    return nodes, stages


def tree_rows(features: ViewFeatures, batch: Batch) -> Any:
    """Numbers of the rows of a batch as `TreeSpec` has them, whatever the features are, or sparse.

    They are those before scaling and principal components; but components for views with free text,
    whose terms are too many for trees.
    """
    rows, _ = features.rows(batch, judge=False)
    if features.recipe is None or free_text(features.plan) is None:
        return rows
    return features.recipe.apply(rows)


class TreeSpec(FeatureSpec):
    """Features that are the columns as numbers, except for kernels and views with free text."""

    def fit(self, batch: Batch, plan: ViewPlan | None, device: str = CPU) -> Any:
        given = FeatureSpec(self.recipe, self.kernel, self.transformer)
        if given.recipe is not None and given.kernel is None and free_text(plan) is None:
            given = replace(given, recipe=replace(given.recipe, steps=None))
        return given.fit(batch, plan, device)


@dataclass(eq=False, repr=False)
class PerViewBoosting(ViewModel):
    """Gradient boosting of each label in each view, on the rows in which the label is known.

    Views and labels are independent of each other. Scores are log-odds: those of the label's rate,
    and what the trees of scikit-learn's HistGradientBoostingClassifier add. Their number, the same
    for all labels of a view, has the lowest log-loss on rows that are held out in turn. A label
    that has only one known value in a view, or none, has a constant score there.

    Trees find relations that are not linear and interactions of columns, from some hundred known
    labels. With fewer, or where many columns say a little each, linear methods are more accurate;
    :class:`naim3l.estimators.BlendNAIM3L` blends both.

    Parameters
    ----------
    max_trees : int, default=100
        Largest number of trees of each label; 0, 10 %, 30 % and all of them are tried.
    learning_rate : float, default=0.1
        Factor of each tree. With a smaller one, more trees are needed.
    views, positive_weight, decide, random_state
        As in :class:`naim3l.NAIM3L`.
    features : default="auto"
        As in :class:`naim3l.NAIM3L`, but columns are neither scaled nor replaced by principal
        components, except in views with free text.
    n_jobs : int, optional
        Number of processes that labels are divided among; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    trees_ : dict of str to Trees
        Trees of all labels by view, as arrays.
    n_trees_ : dict of str to int
        Chosen number of trees of each label that could be fitted, by view.
    features_, columns_, decisions_, thresholds_, fusion_overlap_, base_rates_, views_, \
label_names_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.estimators import PerViewBoosting
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> Y = (X[:, :1] * X[:, 1:] > 0).astype(int)  # not linear
    >>> model = PerViewBoosting(random_state=0).fit({"lab": X}, {"lab": Y})
    >>> model.n_trees_, round(model.score({"lab": X}, {"lab": Y}), 2)
    ({'lab': 100}, 1.0)
    """

    _parameter_constraints = ViewModel._parameter_constraints | {
        "max_trees": [Interval(Integral, 1, 10_000, closed="both")],
        "learning_rate": [Interval(Real, 1e-4, 1, closed="both")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _stored = ViewModel._stored | {"trees_": MapOf(Nested(Trees), keys="views")}
    _spec_type = TreeSpec
    _borrows = False

    max_trees: int = MOST_TREES
    learning_rate: float = LEARNING_RATE
    n_jobs: int | None = None
    verbose: int = 0

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trees_")

    @property
    def n_trees_(self) -> dict[str, int]:
        """Chosen number of trees of each label that could be fitted, by view."""
        return {v: int(np.diff(of.ends, prepend=0).max()) for v, of in self.trees_.items()}

    def _fit(self, X: Any, y: Any) -> None:
        problem = self._read_training(X, y)
        folds = self._hold_out(problem, N_FOLDS)
        dealt = folds.fold_of
        # New rows have no known labels: unknown ones are held out with those of their row.
        fold_of = np.where(problem.Y == 0, dealt.max(axis=1, keepdims=True), dealt)
        trees = dict[str, Trees]()
        scores, final = np.empty(fold_of.shape), np.empty(fold_of.shape)
        n_fits = problem.n_views * problem.n_labels
        with progress_bar("boosting", n_fits, shown=self.verbose > 0) as advance:
            for v, (view, rows) in enumerate(zip(self.views_, problem.row_slices, strict=True)):
                given = problem, v, fold_of[rows], advance
                trees[view], scores[rows], final[rows] = self._fit_view(*given)
        self.trees_ = trees
        # From here on the model can predict, even if the rest of the fit is interrupted.
        self.decisions_ = self._fixed_decisions()
        if Decisions.of(self.decide)._learn:
            self._learn_from_scores(folds, np.where(fold_of < 0, np.nan, scores), final)

    def _fit_view(
        self, problem: Problem, v: int, fold_of: NDArray[np.intp], advance: Callable[[], object]
    ) -> tuple[Trees, Matrix, Matrix]:
        """Trees of all labels of a view, and scores of its training rows.

        These are of held-out entries, by numbers of trees that others chose, and of all rows.
        """
        X, Y = problem.features[v], problem.Y[problem.row_slices[v]]
        problem.check_memory(v, 8 * math.prod(X.shape))
        X = as_dense(X).astype(np.float64)
        boosting = Boosting(self.max_trees, self.learning_rate, self.positive_weight)
        base = logit(problem.table_rates[0 if problem.samples is not None else v])
        run, found = Parallel(self.n_jobs, return_as="generator"), []
        labels = zip(Y.T, fold_of.T, base, strict=True)
        for label in run(delayed(fit_label)(boosting, X, *of_label) for of_label in labels):
            found.append(label)
            advance()
        stages = np.stack([of_label for _, of_label in found], axis=-1)
        best = _losses(stages, Y, fold_of).sum(axis=(1, 2)).argmin()
        kept = [nodes[: boosting.tried[best]] for nodes, _ in found]
        trees = Trees.of(X.shape[1], base, kept)
        return trees, chosen_stages(stages, Y, fold_of), stages[best]

    def _score_features(self, view: str, features: Any) -> Matrix:
        return self.trees_[view].scores(as_dense(features))

    def _check_stored(self) -> None:
        """Refuse trees of other columns than those that the view has."""
        for view, trees in self.trees_.items():
            n = self.features_[view].n_features(len(self.names_.used[view]))
            if n not in (None, trees.n_columns):
                raise ValueError(f"view {view!r}: trees of {trees.n_columns} columns, of {n}.")
