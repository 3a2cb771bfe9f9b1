"""What the columns of one row add to its scores: exactly in linear views, estimated in others.

Features of a view, up to its kernel, are sums over columns: of each column its distance from the
mean of the training rows, times the axes of the recipe, divided by the length of the row, which
counts as a constant. Weights make of them sums of scores. In kernels and networks, a column is
moved from the mean to its value in several random orders, and adds what that changes on average,
as in sampled Shapley values; these add up to the score, too. Columns that tables share have parts
in both scores of a view, its own and the shared one, which are added up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Matrix, as_dense
from naim3l.decisions.borrowing import Borrowing
from naim3l.decisions.calibration import Calibration
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain.column_weights import feature_names
from naim3l.explain.model_views import linear_views, linear_weights
from naim3l.features.cells import spelled_number
from naim3l.features.encoding import ViewFeatures
from naim3l.features.plan import ColumnPlan
from naim3l.features.survey import NUMBER
from naim3l.input.batches import Batch, is_unknown

# Orders in which columns are moved, half of them the others reversed; and the seed of these.
N_ORDERS, SEED = 20, 0


@dataclass(frozen=True)
class Contributions:
    """Scores of a row in a view, or its log-odds, as sums over the columns of its table."""

    columns: list[str]  # names
    values: list[
        Any
    ]  # their cells: None if missing, a list of those of several rows if they differ
    parts: Matrix  # what each column adds, (n_columns, n_labels)
    start: Matrix  # the score of a row whose columns all have their means, (n_labels,)
    exact: bool  # whether scores are linear in the columns, so that parts are not estimated

    @property
    def scores(self) -> Matrix:
        """Scores (n_labels,), the sums of all parts."""
        return np.asarray(self.start + self.parts.sum(axis=0))

    def moved(self, factor: Matrix | float, shift: Matrix | float) -> "Contributions":
        """Those of scores that are multiplied by a factor, and then shifted, (n_labels,) each."""
        return replace(self, parts=self.parts * factor, start=self.start * factor + shift)

    def evidence(self, curve: Calibration) -> "Contributions":
        """Those of the evidence of a curve; what it compresses is compressed in proportion."""
        slope = curve.slopes_at(self.scores)
        return self.moved(slope, -slope * curve.centre - curve.shift)

    def borrowed(self, borrowing: Borrowing, curve: Calibration) -> "Contributions":
        """Those of scores in which those of labels that the table never records are replaced."""
        evidence, absent = self.evidence(curve), borrowing.absent
        slopes = borrowing.slopes_at(evidence.scores, curve)
        parts, start = self.parts.copy(), self.start.copy()
        parts[:, absent] = evidence.parts @ slopes
        start[absent] = curve.centre[absent] + evidence.start @ slopes
        return replace(self, parts=parts, start=start)

    def with_columns(self, names: Sequence[str], added: Matrix, scores: Matrix) -> "Contributions":
        """Those of other scores, (n_labels,), with (n_names, n_labels) added to some columns."""
        parts, place = self.parts.copy(), {name: i for i, name in enumerate(self.columns)}
        for name, of_column in zip(names, added, strict=True):
            if name in place:
                parts[place[name]] += of_column
        return replace(self, parts=parts, start=scores - parts.sum(axis=0))

    @classmethod
    def total(cls, several: "Sequence[Contributions]", start: Matrix) -> "Contributions":
        """The sum of several of one row, whose columns may differ, and of a common start."""
        columns = list(dict.fromkeys(name for of in several for name in of.columns))
        place, cells = {name: i for i, name in enumerate(columns)}, dict[str, Any]()
        parts = np.zeros((len(columns), len(start)))
        for of in several:
            np.add.at(parts, [place[name] for name in of.columns], of.parts)
            start = start + of.start
            cells |= dict(zip(of.columns, of.values, strict=True))
        exact = all(of.exact for of in several)
        return cls(columns, [cells[name] for name in columns], parts, start, exact)

    @classmethod
    def mean(cls, rows: "Sequence[Contributions]") -> "Contributions":
        """The mean over rows of one table."""
        cells = [
            list(dict.fromkeys(each)) for each in zip(*(of.values for of in rows), strict=True)
        ]
        parts = [of.moved(1 / len(rows), 0.0) for of in rows]
        found = cls.total(parts, np.zeros(len(rows[0].start)))
        return replace(found, values=[each if len(each) > 1 else each[0] for each in cells])


def column_contributions(model: Any, view: str, X: Any) -> Contributions | None:
    """What the columns of a view add to the scores of a row, before any calibration.

    Those that tables share are among them. Tables ``X`` have one row each; the result is None if
    the row lacks the view.
    """
    if hasattr(model, "members_"):
        return _of_blend(model, view, X)
    batch = model._batches(X).get(view)
    own = None if batch is None else _of_own_columns(model, view, batch)
    shared = model.shared_
    if own is None or shared is None or view not in shared.stackings:
        return own
    scores = shared.combine(view, batch, own.scores[None])[0]
    own, added = (
        own.moved(shared.stackings[view].factors[0], 0.0),
        shared.contributions(view, batch),
    )
    return own.with_columns(shared.columns.columns, added[0], scores)


def common_contributions(model: Any, view: str, X: Any, own: Contributions) -> Contributions:
    """As ``own``, of scores, of the part of them that columns which tables share explain."""
    shared, batch = model.shared_, model._batches(X)[view]
    added, part = shared.common_contributions(view, batch), shared.common_part(view, batch)
    return own.moved(0.0, 0.0).with_columns(shared.columns.columns, added[0], part[0])


def _of_own_columns(model: Any, view: str, batch: Batch) -> Contributions | None:
    """What columns add to the score of a view's own model; None if the row lacks the view."""
    features = model.features_[view]
    rows, present = features.rows(batch, judge=False)
    if not present.any():
        return None
    steps, axes, start = _steps(features, rows)
    columns, values = _named(model, view, batch, steps)
    if isinstance(model, LinearViewModel) and view in linear_views(model):
        W = linear_weights(model, view)
        parts = steps @ (W if axes is None else axes @ W)
        return Contributions(columns, values, parts, start @ W + model.intercept_[view], True)
    moves = np.asarray(steps.toarray() if axes is None else steps @ axes)

    def score(rows: Matrix) -> Matrix:
        return np.asarray(model._score_features(view, _after(features, rows)), dtype=np.float64)

    parts = estimate_parts(moves, start, score)
    whole = model._score_features(view, features.encode(batch, judge=False)[0])[0]
    return Contributions(columns, values, parts, whole - parts.sum(axis=0), False)


def _of_blend(model: Any, view: str, X: Any) -> Contributions | None:
    """The weighted sum of what columns add to the log-odds of the members of a blend."""
    blend, found = model.blends_[view], list[Contributions]()
    members = zip(model.members_.values(), blend.calibrations, blend.weights, strict=True)
    base = blend.calibrations[0].base
    for member, curve, weight in members:
        own = column_contributions(member, view, X)
        if own is None:
            return None
        found.append(own.evidence(curve).moved(1.0, curve.base - base).moved(weight, 0.0))
    return Contributions.total(found, base)


def _steps(features: ViewFeatures, rows: Any) -> tuple[Any, Matrix | None, Matrix]:
    """How the features of a row add up, which are ``start + (steps @ axes).sum(axis=0)``.

    ``steps`` is sparse, (n_columns, n_numbers), with the distance of each number from its mean;
    ``axes`` are (n_numbers, n_features), None for the numbers themselves; ``start`` (n_features,).
    """
    source = None if features.plan is None else features.plan.source_of_encoded()
    n_columns = rows.shape[1] if features.plan is None else len(features.plan.columns)
    source = np.arange(n_columns) if source is None else source
    recipe, axes = features.recipe, None
    start: Matrix
    if recipe is not None:
        source = source[recipe.kept]
        distance = as_dense(recipe.before_axes(rows))[0] - recipe.offset - recipe.mean
        length = float(np.linalg.norm(distance @ recipe.axes.T)) or 1.0
        axes, start = recipe.axes.T / length, np.zeros(len(recipe.axes))
    else:
        row = as_dense(rows if features.kernel is None else features.kernel.prepare(rows))[0]
        start = _usual(features, len(row))
        distance = row - start
    at = np.flatnonzero(distance)
    shape = n_columns, len(distance)
    return sparse.csr_array((distance[at], (source[at], at)), shape=shape), axes, start


def _usual(features: ViewFeatures, n: int) -> Matrix:
    """Numbers with which others are compared where no recipe has means: of landmarks, or 0."""
    if features.kernel is not None:
        landmarks = features.kernel.landmarks
        return np.asarray(landmarks.mean(axis=0), dtype=np.float64).ravel()
    means = np.zeros(n)
    if features.plan is not None:
        means[: len(features.plan.means)] = features.plan.means
    return means


def _after(features: ViewFeatures, rows: Matrix) -> Matrix:
    """What the model takes of features before the kernel, of which some have been moved."""
    kernel = features.kernel
    if kernel is None:
        return rows
    if features.recipe is not None:
        return kernel.apply(rows)
    return np.asarray(kernel.values(rows, kernel.landmarks) @ kernel.normalization)


def _named(model: Any, view: str, batch: Batch, steps: Any) -> tuple[list[str], list[Any]]:
    """Names of the columns that parts belong to, and their cells."""
    features, names = model.features_[view], model.names_.column_labels(view)
    if features.transformer is not None:
        return feature_names(features, names, steps.shape[0]), [None] * steps.shape[0]
    plans = [None] * len(names) if features.plan is None else features.plan.columns
    return names, [_value(batch, j, plan) for j, plan in enumerate(plans)]


def _value(batch: Batch, j: int, plan: ColumnPlan | None) -> Any:
    """Cell of the only row; numbers that are written as text are numbers, None is missing."""
    cell = batch.data[0, j] if batch.frame is None else batch.cells(j)[0]
    if isinstance(cell, str) and plan is not None and plan.kind == NUMBER:
        return spelled_number(cell, plan.decimal)
    return None if is_unknown(cell) else cell


def estimate_parts(
    moves: Matrix, start: Matrix, score: Callable[[Matrix], Matrix]
) -> NDArray[np.float64]:
    """What each move adds to a score on average over random orders, (n_moves, n_labels).

    The sum is the score after all moves less that of the features before, ``start``. Moves, of
    shape (n_moves, n_features), that do not change the features add nothing. ``score`` gives
    (n_rows, n_labels) of features (n_rows, n_features).
    """
    used, rng = np.flatnonzero(moves.any(axis=1)), np.random.default_rng(SEED)
    found = np.zeros((len(moves), score(start[None]).shape[1]))
    for _ in range(N_ORDERS // 2):
        order = rng.permutation(used)
        for each in (order, order[::-1]):
            path = start + np.cumsum(np.vstack([np.zeros_like(start), moves[each]]), axis=0)
            found[each] += np.diff(score(path), axis=0)
    return found / N_ORDERS
