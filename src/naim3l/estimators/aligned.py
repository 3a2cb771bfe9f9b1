"""Bases of the methods that need aligned rows: one table, whose rows are samples."""

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Mask, Matrix
from naim3l._warnings import warn_user
from naim3l.estimators.base import ADVICE, ViewModel
from naim3l.estimators.linear import FACTOR
from naim3l.files.stored import Array, Flag, MapOf, Number, Plain, Sometimes, Whole
from naim3l.input.views import FUSED, is_separate
from naim3l.problem.aligned_rows import AlignedRows, concatenate_views, spread
from naim3l.problem.rows import Problem
from naim3l.solvers import Record

_SIZES = {"d": "all features", "c": "labels", "v": "views"}


@dataclass
class Learned:
    """What a method has learned.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Arrays by name, which are all that scores of new rows need.
    history : list of dict
        One record per iteration, with "objective"; empty if the method is not iterative.
    converged : bool
        Whether the stopping rule was met.
    interrupted : bool
        Whether the loop was ended by a KeyboardInterrupt.
    """

    arrays: dict[str, NDArray]
    history: list[Record] = field(default_factory=list)
    converged: bool = True
    interrupted: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class AlignedModel(ViewModel):
    """Base of the methods that score a sample from all its views at once.

    A subclass is a dataclass whose fields are its own parameters, and has the two methods and the
    ``_shapes`` below. Learned arrays become attributes: "basis" becomes ``basis_``. They are saved
    with the model, and their shapes are checked when it is loaded.

    Parameters
    ----------
    views, features, positive_weight, decide, random_state
        As in :class:`naim3l.NAIM3L`.
    """

    # Shape of each learned array, one letter for each size: d is the number of features of all
    # views, c that of labels, v that of views; other letters stand for any size, the same wherever
    # they occur. Arrays contain finite floats, except for the masks.
    _shapes: ClassVar[Mapping[str, str]]
    _masks: ClassVar[frozenset[str]] = frozenset()
    _stored = ViewModel._stored | {
        "n_encoded_": MapOf(Whole(1), keys="views"),
        "n_iter_": Sometimes(Whole(0)),
        "converged_": Sometimes(Flag()),
        "objective_": Sometimes(Number(finite=False)),
        "history_": Sometimes(Plain()),
    }
    # Least ``tol`` of fits that only score held-out entries, whose scores are accurate long before
    # the factors are; 0 leaves it as it is.
    _fold_tol: ClassVar[float] = 0.0
    _advice: ClassVar[str] = ADVICE

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        shapes = getattr(cls, "_shapes", {})
        kinds = {name: "b" if name in cls._masks else "f" for name in shapes}
        cls._stored = AlignedModel._stored | {
            f"{name}_": Array(kinds[name], *(_SIZES.get(size, size) for size in shape))
            for name, shape in shapes.items()
        }

    def _check_stored(self) -> None:
        """Refuse features that are not those that the arrays belong to."""
        for view, learned in self.n_encoded_.items():
            n = self.features_[view].n_features(len(self.names_.used[view]))
            if n is not None and n != learned:
                raise ValueError(f"view {view!r}: {n} features, where {learned} were learned from.")

    @abstractmethod
    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        """What is learned from training rows, in arrays named as in ``_shapes``."""

    def _solve_loosely(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        """What is accurate enough to score held-out entries."""
        if not self._fold_tol:
            return self._solve(rows, rng)
        loose = copy(self)
        loose.tol = max(self._values()["tol"], self._fold_tol)
        return loose._solve(rows, rng)

    @abstractmethod
    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        """Scores (n_rows, n_labels) of rows, each of which has at least one view.

        Features are (n_rows, n_features) for each view, with zeros in rows that lack the view;
        ``present`` is (n_views, n_rows).
        """

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "decisions_")

    def _fit(self, X: Any, y: Any) -> None:
        if is_separate(X):
            raise TypeError(
                f"{type(self).__name__} needs aligned rows: one table with a row for each sample, "
                "got a mapping of tables. NAIM3L and PerViewRidge take separate tables; "
                "naim3l.join_views makes one table of tables with the same rows or ids."
            )
        rows = AlignedRows.from_problem(self._read_training(X, y))
        self.n_encoded_ = dict(zip(self.views_, rows.widths, strict=True))
        self._keep_learned(learned := self._solve(rows, check_random_state(self.random_state)))

        def scores_of_fit(part: Problem) -> Matrix:
            rng = check_random_state(self.random_state)
            loose = self._solve_loosely(rows.with_labels(part.Y), rng)
            if loose.interrupted:
                raise KeyboardInterrupt
            return self._score_rows(loose.arrays, rows.features, rows.present)

        final = self._score_rows(learned.arrays, rows.features, rows.present)
        self._learn(rows.as_scores(), scores_of_fit, final)

    def _keep_learned(self, learned: Learned) -> None:
        """Set the attributes of what was learned; then raise the interrupt that ended it."""
        if learned.history or not learned.interrupted:
            for name in self._shapes:
                setattr(self, f"{name}_", learned.arrays[name])
            if learned.history:
                self.history_, self.n_iter_ = learned.history, len(learned.history)
                self.converged_, self.objective_ = learned.converged, self.history_[-1]["objective"]
            self.decisions_ = self._fixed_decisions()
        if learned.interrupted:
            raise KeyboardInterrupt
        options = self._values()
        if not learned.converged and options.get("tol", 0) > 0:
            warn_user(
                f"{type(self).__name__} did not converge in max_iter={options['max_iter']} "
                f"iterations (tol={options['tol']:g}). {self._advice}",
                ConvergenceWarning,
            )

    def _score_features(self, view: str, features: Any) -> Matrix:
        """Scores of rows that have one view only."""
        every = np.ones(features.shape[0], dtype=bool)
        return self._score_encoded(
            {name: (features, every & (name == view)) for name in self.views_}
        )

    def _scores(self, X: Any) -> dict[str, Matrix]:
        """Scores of the rows of a wide table, from all views that a row has, under FUSED."""
        check_is_fitted(self)
        batches = self._batches(X).items()
        return {FUSED: self._score_encoded({v: self.features_[v].encode(of) for v, of in batches})}

    def _score_encoded(self, encoded: Mapping[str, tuple[Any, Mask]]) -> Matrix:
        """Scores of rows, given features and which rows have these, by view."""
        present = np.stack([rows for _, rows in encoded.values()])
        seen = present.any(axis=0)
        scores = np.full((present.shape[1], len(self.label_names_)), np.nan)
        if seen.any():
            blocks = [
                spread(features, rows, self.n_encoded_[view])[seen]
                for view, (features, rows) in encoded.items()
            ]
            arrays = {name: getattr(self, f"{name}_") for name in self._shapes}
            scores[seen] = self._score_rows(arrays, blocks, present[:, seen])
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class ConcatenatedModel(AlignedModel):
    """Base of the methods whose scores are linear in the concatenated features of all views.

    A row that lacks a view has the mean of the training rows that have it. With kernels, features
    of a view represent its kernel, and those of all views the sum of their kernels.

    Parameters
    ----------
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.NAIM3L`.
    """

    _parameter_constraints = AlignedModel._parameter_constraints | {"fit_intercept": ["boolean"]}
    _shapes: ClassVar[Mapping[str, str]] = {"fill": "d", "coef": "dc", "intercept": "c"}

    fit_intercept: bool = True

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        X = concatenate_views(features, present, arrays["fill"])
        return X @ arrays["coef"] + arrays["intercept"]

    def _fused_problem(self, rows: AlignedRows, fill: Matrix) -> Problem:
        """The concatenated features as the only view of a problem."""
        options: Any = {"fit_intercept": self.fit_intercept, "names": ["all views"]}
        weight = rows.positive_weight
        return Problem([rows.concatenated(fill)], [rows.Y], positive_weight=weight, **options)


def linear_arrays(problem: Problem, W: Matrix, fill: Matrix) -> dict[str, Matrix]:
    """Learned arrays of a `ConcatenatedModel`.

    Parameters
    ----------
    problem : Problem
        The concatenated features as its only view.
    W : ndarray of shape (n_weights, n_labels)
        Weights of the problem.
    fill : ndarray of shape (n_features of all views,)
        Features of a missing view.

    Returns
    -------
    dict of str to ndarray
        "fill", "coef" and "intercept".
    """
    [coef], [intercept] = problem.split_weights(W)
    return {"fill": fill, "coef": coef, "intercept": intercept}


@dataclass(eq=False, repr=False)
class FusedRidge(ConcatenatedModel):
    """Ridge regression of each label on the columns of all views, for aligned rows.

    The features of all views are concatenated; a row that lacks a view has the mean of the
    training rows that have it. Labels are independent of each other, as in
    :class:`naim3l.PerViewRidge`.

    Parameters
    ----------
    ridge : float, default=5.0
        Weight of the squared weights; greater than 0. Increase it when few labels are known.
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.NAIM3L`. The kernel of a row is the sum of those of its views.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
        Weights of the features of all views, in the order of ``views_``.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    fill_ : ndarray of shape (n_features,)
        Features of a missing view: the means of the training rows.
    n_encoded_ : dict of str to int
        Number of features of each view, after its transformer.
    gamma_, features_, columns_, decisions_, thresholds_, base_rates_, view_rates_, views_, \
label_names_, classes_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import datasets, evaluate, join_views
    >>> from naim3l.estimators import FusedRidge
    >>> data = datasets.make_unpaired(60, aligned=True, missing_labels=0.3, random_state=0)
    >>> wide, views = join_views(data.views)
    >>> model = FusedRidge(ridge=5.0, views=views).fit(wide, data.labels["view0"])
    >>> metrics = evaluate(data.complete_labels["view0"], model.decision_function(wide))
    >>> round(metrics["AP"], 2)
    0.94
    """

    _parameter_constraints = ConcatenatedModel._parameter_constraints | {"ridge": [FACTOR]}

    ridge: float = 5.0

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        fill = rows.means()
        problem = self._fused_problem(rows, fill)
        return Learned(linear_arrays(problem, problem.ridge_solutions([self.ridge])[0], fill))
