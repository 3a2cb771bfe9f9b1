"""Base of the models per view: parameters, training, predictions and model files."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from numbers import Real
from types import MethodType
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l._device import CPU
from naim3l._origin import Origin
from naim3l._progress import progress_bar
from naim3l._text import documented, plain
from naim3l._warnings import warn_user
from naim3l.decisions.borrowing import AbsentLabel
from naim3l.decisions.fusion import AUTO as OVERLAP
from naim3l.decisions.fusion import check_overlap, fuse_views, stack_views
from naim3l.decisions.held_out import Folds, hold_out_folds
from naim3l.decisions.learning import (
    N_FOLDS,
    LearnedDecisions,
    SharedParts,
    fixed_decisions,
    learn_decisions,
    learn_rules,
)
from naim3l.decisions.rules import RULES, Decisions
from naim3l.estimators.chunked import lazily, scores_of_chunks
from naim3l.estimators.saved import PARAMETER, save, storable
from naim3l.estimators.shared import SharedFit, SharedModel
from naim3l.estimators.training import Alone, read_training
from naim3l.features.encoding import FeatureSpec, ViewFeatures, accepts_missing
from naim3l.features.kernels import AUTO, KernelMap
from naim3l.features.survey import TEXT
from naim3l.files.stored import Array, MapOf, Maybe, Nested, Plain, Sometimes, Text
from naim3l.input.batches import Batch
from naim3l.input.labels import LabelledRows, fill_unknown
from naim3l.input.sources import MemoryTable, any_chunked, open_tables, with_columns
from naim3l.input.views import FUSED, WIDE_TABLE, TableNames, rows_without_view
from naim3l.metrics import evaluate

# What to do about a fit that has not converged.
ADVICE = "Raise max_iter or tol; history_ shows whether the objective still moves."
KINDS = ("probabilities", "labels", "scores")
# Containers that results may have; "default" is NumPy.
OUTPUTS = ("default", "pandas", "polars")
_NOT_LEARNED = (
    "the fit was stopped before probabilities were learned; fit again, or use decision_function."
)
_NEEDS = 'needs probabilities: fit the model with decide="guarded", or another learned rule.'


class WithProbabilities:
    """Decorator of a method that a model has only if it learns probabilities.

    scikit-learn's ``available_if`` does the same, but its error does not say what to set.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Callable[..., Any]:
        if model is None:
            return self.method
        if not model.has_probabilities:
            raise AttributeError(f"{type(model).__name__}.{self.method.__name__} {_NEEDS}")
        return MethodType(self.method, model)


class ViewPredictor(BaseEstimator):
    """What a fitted model computes, whatever ``_fit`` of a subclass has learned."""

    _stored: ClassVar[dict[str, Any]] = {
        "parameters": MapOf(PARAMETER),
        "names_": Nested(TableNames),
        "decisions_": Nested(LearnedDecisions),
        "base_rates_": Array("f", "labels", above=0, below=1),
        "view_rates_": MapOf(Array("f", "labels", above=0, below=1)),
        "roles_": Plain(),
        "titles_": Sometimes(MapOf(Text())),
        "made_": Sometimes(MapOf(Text())),
        "shared_": Maybe(Nested(SharedModel)),
        "_sklearn_output_config": Sometimes(MapOf(Text(OUTPUTS))),
    }

    decide: Any
    names_: TableNames
    features_: dict[str, ViewFeatures]
    decisions_: LearnedDecisions
    roles_: dict[str, Any]  # of the columns of files, by view
    titles_: Mapping[str, str] = {}  # of labels and columns, by their names
    made_: Mapping[str, str] = {}  # "date" and "version" of the fit
    shared_: SharedModel | None  # of columns that several tables have

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Whether everything that ``_score_features`` needs has been learned."""

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Learn everything from tables and labels."""

    @abstractmethod
    def _score_features(self, view: str, features: Any) -> Matrix:
        """Scores (n_rows, n_labels) of at least one row, given its features."""

    # What the fit has learned.

    views_ = property(lambda self: self.names_.views)
    label_names_ = property(lambda self: self.names_.labels)
    classes_ = property(lambda self: self.names_.classes_)
    n_features_in_ = property(lambda self: self.names_.n_features_in_)
    feature_names_in_ = property(lambda self: self.names_.feature_names_in_)
    thresholds_ = property(lambda self: self.decisions_.thresholds)
    # Whether `predict_proba` is available.
    has_probabilities = property(lambda self: Decisions.of(self.decide).probabilities)

    @property
    def columns_(self) -> dict[str, list[Any]]:
        """How each column of a view with a plan is used; those that are dropped come last."""
        found = {}
        for view, features in self.features_.items():
            plan, recipe = features.plan, features.recipe
            if plan is not None:
                columns = plan.columns
                if recipe is not None:
                    kept = set(plan.source_of_encoded()[recipe.kept])  # the others are constant
                    columns = [
                        column if j in kept else replace(column, constant=True)
                        for j, column in enumerate(columns)
                    ]
                found[view] = [*columns, *plan.dropped]
        return found

    @property
    def kernel_maps_(self) -> dict[str, KernelMap]:
        """Fitted kernel maps of the views with a kernel."""
        maps = {view: features.kernel for view, features in self.features_.items()}
        return {view: kernel for view, kernel in maps.items() if kernel is not None}

    @property
    def gamma_(self) -> dict[str, float | None]:
        """Gamma of the kernel of each view, None for views without one."""
        maps = self.kernel_maps_
        return {view: maps[view].gamma if view in maps else None for view in self.views_}

    @property
    def fusion_overlap_(self) -> float | None:
        """How much of what a view says the others say, too; None if it is not known."""
        evidence = self.decisions_.evidence
        return self.decisions_.overlap if evidence is None else evidence.overlap

    @property
    def absent_labels_(self) -> list[AbsentLabel]:
        """Labels that views never record, and where their probabilities come from."""
        return self.decisions_.absent_labels(self.views_, self.label_names_)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to tables and their labels.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
            As for :meth:`naim3l.NAIM3L.fit`, in memory. Methods that need aligned rows take one
            wide table, with a row for each sample; ``views`` names the columns of each view.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Labels of the rows of ``X``, as for :meth:`naim3l.NAIM3L.fit`.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. An iterative method keeps the result of the last iteration.

        Examples
        --------
        >>> from naim3l import PerViewRidge, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = PerViewRidge().fit(data.views, data.labels)
        >>> {view: weights.shape for view, weights in model.coef_.items()}
        {'view0': (8, 3), 'view1': (8, 3)}
        """
        self._fit(X, y)
        return self

    # Predictions.

    @lazily
    def decision_function(self, X: Any) -> Any:
        """Scores of the labels, which are larger for labels that are more likely.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping. For a wide table, scores are fused over the views that a row
            has: their mean, or log-odds with fusion by evidence. Scores are NaN in a row that
            lacks the view, or, in a wide table, every view. For tables that are read in chunks
            (dask collections, files) all methods return dask data frames or arrays.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> NAIM3L().fit(data.views, data.labels).decision_function(data.views)["view1"][0].round(2)
        array([ 1.05,  0.74, -0.65])
        """
        scores = self._scores(X)
        if self.names_.wide:
            lacking = np.flatnonzero(np.isnan(scores[FUSED]).all(axis=1)).tolist()
            if lacking:
                warn_user(f"{rows_without_view(len(lacking), lacking)}: their scores are NaN.")
        return self._contain(scores, X)

    @lazily
    def view_scores(self, X: Any) -> dict[str, Matrix]:
        """Scores of each view by itself, before those of a wide table are fused.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels)
            NumPy arrays, regardless of `set_output`; NaN in a row that lacks the view.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets, join_views
        >>> data = datasets.make_unpaired(60, n_labels=3, aligned=True, random_state=0)
        >>> wide, views = join_views(data.views)
        >>> model = NAIM3L(views=views).fit(wide, data.labels["view0"])
        >>> {view: scores[0].round(2) for view, scores in model.view_scores(wide).items()}
        {'view0': array([0.52, 0.82, 0.5 ]), 'view1': array([0.49, 0.82, 0.53])}
        """
        check_is_fitted(self)
        return self.decisions_.borrow(self._view_scores(X))

    @documented(rules=RULES)
    @lazily
    def predict(self, X: Any, decide: str | None = None, known: Any = None) -> Any:
        """Predicted labels: 1 where the score is above the threshold of the label, else 0.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.
        decide : <rules>, optional
            Rule to use instead of that of the fit. All but "sign" need a model that has learned
            probabilities or a rule.
        known : mapping of str to label table, or one label table, optional
            As for `predict_proba`: known labels are returned, and others are decided on given
            these, by the probability at the threshold.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping. Whole numbers; if a row lacks the view, or, in a wide table,
            every view, a warning names it, and the labels are floats, which are NaN in such rows
            where they are not known.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> NAIM3L().fit(data.views, data.labels).predict(data.views)["view1"][0]
        array([1, 1, 0])
        """
        found = self._decisions(X, decide, known)
        for view, of_view in found.items():
            lacking = np.flatnonzero(np.isnan(of_view).any(axis=1)).tolist()
            if not lacking:
                found[view] = of_view.astype(np.int64)
                continue
            name, table = (WIDE_TABLE, X) if self.names_.wide else (f"view {view!r}", X[view])
            origin = table.origin if isinstance(table, Batch) else Origin(name)
            warn_user(
                f"{origin.place(lacking[0])}: all values are missing, so there is nothing to "
                f"predict from ({len(lacking)} such rows); labels of such rows are NaN."
            )
        return self._contain(found, X)

    def _decisions(self, X: Any, decide: str | None, known: Any) -> dict[str, Matrix]:
        """Decisions of `predict`; NaN in rows that lack the view, except for known labels."""
        check_is_fitted(self)
        at, found = self.decisions_.thresholds_of(decide), {}
        if known is None:
            for view, S in self._scores(X).items():
                found[view] = np.where(np.isnan(S), np.nan, at[view] < S)
            return found
        for view, P, truth in self._given_known(X, known, "predict"):
            cut = expit(self.decisions_.calibrations[view].log_odds_at(at[view]))
            likely = np.where(np.isnan(P), np.nan, cut < P)
            found[view] = np.where(np.isnan(truth), likely, truth)
        return found

    @WithProbabilities
    @lazily
    def predict_proba(self, X: Any, known: Any = None) -> Any:
        """Probabilities of the labels, for models with a learned rule.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping need not have all views.
        known : mapping of str to label table, or one label table, optional
            Labels of the rows of ``X``, as for the fit, as far as they are known: the others get
            their probabilities given these. Known ones have 1 or 0, and rows without any known
            label the same probabilities as without ``known``. Tables must be in memory.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping. Each entry is the probability that the row has the label, so
            the probabilities of different labels need not sum to one. NaN where
            `decision_function` returns NaN. For one label that was given as a vector, the two
            columns of scikit-learn: the probabilities of no and of yes.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L(decide="guarded", random_state=0).fit(data.views, data.labels)
        >>> model.predict_proba(data.views)["view1"][0].round(2)
        array([0.97, 0.9 , 0.16])
        """
        if known is None:
            found = {view: self._probabilities(view, S) for view, S in self._scores(X).items()}
        else:
            given = self._given_known(X, known, "predict_proba")
            found = {view: np.where(np.isnan(Y), P, Y) for view, P, Y in given}
        if self.names_.wide and self.names_.one_column:
            yes = found[FUSED]
            return self._contain({FUSED: np.hstack([1 - yes, yes])}, X, ["0", "1"])
        return self._contain(found, X)

    def fuse(
        self,
        X: Any,
        kind: str = "probabilities",
        *,
        decide: str | None = None,
        overlap: float | str = OVERLAP,
    ) -> Any:
        """Predictions of samples that are in several separate tables, one row for each.

        Rows of pandas tables are matched by index; rows of others by position. What the views say
        about a label beyond its rate is added up, and yes and no are decided on the result. A
        sample in one table gets the answer of that table. Without probabilities, scores and their
        margins above thresholds are averaged.

        Parameters
        ----------
        X : mapping of str to table
            Tables of some views, in memory. A row of arrays that is NaN lacks the view.
        kind : {"probabilities", "labels", "scores"}, default="probabilities"
            What to return; scores are log-odds if the model has probabilities.
        decide : str, optional
            For labels: rule to use instead of that of the fit, as for `predict`.
        overlap : float from 0 to 1, "auto" or "pairs", default="auto"
            How much of what a view says the others say, too, see `naim3l.fuse`. "auto" is learned
            from the first tables with at least 20 samples in two views, whose labels need not be
            known, and then kept as ``fusion_overlap_``, also in a file; before, it is 0.1. "pairs"
            is learned from these tables alone.

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_labels)
            A table of pandas for tables of pandas, with the samples in the order of their first
            occurrence. Labels of a sample without any value are missing.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_labels=3, aligned=True, random_state=0)
        >>> labels = {view: Y for view, Y in data.labels.items()}
        >>> model = NAIM3L(decide="guarded", random_state=0).fit(data.views, labels)
        >>> model.fuse(data.views, "labels")[0]
        array([1., 1., 1.])
        """
        check_is_fitted(self)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {list(KINDS)}, got {kind!r}.")
        check_overlap(overlap)
        self.decisions_.thresholds_of(decide)  # refuses an unknown rule
        if kind == "probabilities" and not self.has_probabilities:
            raise AttributeError(f"{type(self).__name__}.fuse {_NEEDS}")
        if self.has_probabilities and not self.decisions_.calibrations:
            raise NotFittedError(_NOT_LEARNED)
        if self.names_.wide or any_chunked(X):
            raise TypeError(
                "fuse takes separate tables in memory: predictions of a wide table are fused "
                "already, and those of chunks can be fused by naim3l.fuse."
            )
        scores = self.view_scores(X)
        stacked, _, contain = stack_views(self._with_index(scores, X))
        rule = Decisions.of(self.decide).rule if decide is None else decide
        by_view, shared = dict(zip(scores, stacked, strict=True)), self._shared_parts(X, scores)
        found = self.decisions_.fuse_separate(by_view, rule, overlap, shared)
        if kind == "labels":
            return contain(np.where(np.isnan(found.margins), np.nan, found.margins > 0))
        if kind == "scores":
            return contain(found.scores)
        assert found.probabilities is not None
        return contain(found.probabilities)

    def _with_index(self, scores: Mapping[str, Matrix], X: Any) -> dict[str, Any]:
        """Scores by view, as data frames for tables of pandas, by whose index rows are matched."""
        found: dict[str, Any] = {}
        for view, S in scores.items():
            table = X[view].data if isinstance(X[view], Batch) else X[view]
            found[view] = self._frame(S, table) if hasattr(table, "iloc") else S
        return found

    def _shared_parts(self, X: Any, scores: Mapping[str, Matrix]) -> SharedParts:
        """Parts of scores (n_samples, n_labels) that are due to shared columns, and shares."""
        if self.shared_ is None:
            return {}
        model, parts = self.shared_, dict[str, Matrix]()
        for view, batch in self._batches(X).items():
            # Where there is no score, there is no part, of which means over rows could be taken.
            parts[view] = model.common_part(view, batch) + 0 * scores[view]
        stacked = stack_views(self._with_index(parts, X))[0]
        return {v: (part, model.shares[v]) for v, part in zip(parts, stacked, strict=True)}

    @lazily
    def impute_labels(self, X: Any, y: Any, min_confidence: float | None = None) -> Any:
        """Label tables with predictions in place of unknown entries.

        With probabilities, an unknown entry gets its most probable value, whatever the thresholds,
        given the features and the known labels of its row. Otherwise it gets the decision of
        `predict`.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit.
        y : mapping of str to label table, or one label table
            Labels of the rows of ``X``. For files, names of columns of the same files.
        min_confidence : float, optional
            Smallest probability, from 0.5 to 1, of a value that is filled in; other entries stay
            unknown. Only with probabilities.

        Returns
        -------
        label tables of the type of ``y``
            Known entries are unchanged, and others are written as these are. An unknown entry
            stays unknown in a row without features.

        Examples
        --------
        >>> import numpy as np
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels)
        >>> labels = {"view1": np.array([[1, np.nan, 0], [np.nan, 1, np.nan]])}
        >>> model.impute_labels({"view1": data.views["view1"][:2]}, labels)["view1"]
        array([[1., 1., 0.],
               [1., 1., 1.]])
        """
        check_is_fitted(self)
        check_confidence(min_confidence, self.has_probabilities)
        filled = {}
        for block, S, truth, rows in self._scores_and_truth(X, y):
            if self.has_probabilities:
                values = most_probable(self._probabilities(block, S, truth), min_confidence)
            else:
                values = np.where(np.isnan(S), np.nan, self.thresholds_[block] < S)
            values = values[:, self.names_.label_positions(rows.labels)]
            filled[block] = fill_unknown(rows, np.asarray(values, dtype=np.float64))
        return filled[FUSED] if self.names_.wide else filled

    @WithProbabilities
    def check_labels(self, X: Any, y: Any) -> Any:
        """Probability of the value that each known label has, which is low for wrong entries.

        It is the probability given the features of the row and its other known labels.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit, in memory. A model is less surprised by rows that it was fitted
            to than by others, but not so much that wrong entries would not stand out.
        y : mapping of str to label table, or one label table
            Labels of the rows of ``X``.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            By view for a mapping; NaN where a label is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> labels = {view: Y.copy() for view, Y in data.labels.items()}
        >>> labels["view1"][7, 0] = 1 - labels["view1"][7, 0]  # a wrong entry
        >>> model = NAIM3L(decide="guarded", random_state=0).fit(data.views, labels)
        >>> np.argmin(model.check_labels(data.views, labels)["view1"][:, 0])
        np.int64(7)
        """
        check_is_fitted(self)
        _refuse_chunks(X, "check_labels")
        found = {}
        for view, S, truth, _ in self._scores_and_truth(X, y):
            yes = self._probabilities(view, S, truth, left_out=True)
            found[view] = np.where(truth == 1, yes, np.where(truth == 0, 1 - yes, np.nan))
        return self._contain(found, X)

    def score(self, X: Any, y: Any) -> float:
        """Average precision on the known labels, averaged over views.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. Rows that lack the view are left out.
        y : mapping of str to label table, or one label table
            Labels of the rows of ``X``. For tables that are read in chunks, scores and labels of
            all rows must fit in memory.

        Returns
        -------
        float
            From 0 to 1, larger is better. A single label leaves nothing to rank, so that the
            share of correct decisions is returned instead.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> NAIM3L().fit(data.views, data.labels).score(data.views, data.labels)
        1.0
        """
        values = []
        for block, S, truth, _ in self._scores_and_truth(X, y):
            present = ~np.isnan(S).any(axis=1)
            metrics = evaluate(truth[present], S[present], threshold=self.thresholds_[block][0])
            values.append(metrics["1-HL" if S.shape[1] == 1 else "AP"])
        return float(np.mean(values))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of scores and predictions, as for scikit-learn's transformers.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "default" is NumPy. Data frames have the label names as columns and, in pandas, the
            index of the rows. None changes nothing.

        Returns
        -------
        self
            The same model.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = NAIM3L().fit(data.views, data.labels).set_output(transform="pandas")
        >>> model.predict({"view1": data.views["view1"][:2]})["view1"]
           label0  label1  label2
        0       1       1       0
        1       1       1       1
        """
        if transform is not None:
            if transform not in OUTPUTS:
                raise ValueError(f"transform must be one of {list(OUTPUTS)}, got {transform!r}.")
            self._sklearn_output_config = {"transform": transform}
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, completely or not at all; `naim3l.load` reads it.

        The checkpoint of the fit, if there is one, is deleted once the file is on disk.

        Parameters
        ----------
        path : str or path-like
            File to write, such as "model.naim3l". An existing file is replaced.

        Raises
        ------
        TypeError
            The model has a part that could not be loaded again, such as a kernel that is a
            function. The message names it.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets, load
        >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> NAIM3L().fit(data.views, data.labels).save("model.naim3l")
        >>> load("model.naim3l").score(data.views, data.labels)
        1.0
        """
        check_is_fitted(self)
        save(self, path)
        if (checkpoint := self.__dict__.pop("_checkpoint", None)) is not None:
            checkpoint.remove()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags

    def _to_stored(self) -> dict[str, Any]:
        """Parameters and learned attributes, for a model file."""
        values = {name: getattr(self, name) for name in self._stored if hasattr(self, name)}
        values |= {name: plain(values[name]) for name in values.keys() & {"history_", "held_out_"}}
        parameters = {name: storable(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(parameters.get("random_state", 0), int):
            parameters |= {"random_state": None}  # a generator has nothing to do with the fit
        return values | {"parameters": parameters}

    @classmethod
    def _from_stored(cls, values: dict[str, Any]) -> Self:
        """The model, from values that have been checked."""
        parameters = values.pop("parameters")
        if isinstance(parameters.get("views"), dict):
            parameters["views"] = {
                view: slice(*of["slice"]) if isinstance(of, dict) else of
                for view, of in parameters["views"].items()
            }
        model = cls(**parameters)
        for name, value in values.items():
            setattr(model, name, value)
        return model

    def _forget(self) -> None:
        """Delete everything that an earlier fit has learned."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.pop("_checkpoint", None)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_checkpoint", None)  # when a copy is saved, another process may use the file
        return state

    def _batches(self, X: Any) -> dict[str, Batch]:
        """Batch of each view for prediction, checked against the training data."""
        self.names_.check_form(X)
        tables = open_tables(self._with_columns(X), None, labelled=False)
        return {
            view: batch
            for name, table in tables.items()
            for view, batch in self.names_.split(name, table.features).items()
        }

    def _with_columns(self, X: Any) -> Any:
        """Tables in which paths are replaced by files with the columns that are used."""
        columns = (column for of_view in self.columns_.values() for column in of_view)
        text = {column.name for column in columns if column.kind == TEXT}
        return with_columns(X, self.names_.needed_columns(), text)

    def _view_scores(self, X: Any) -> dict[str, Matrix]:
        found = {}
        for view, batch in self._batches(X).items():
            features, present = self.features_[view].encode(batch)
            found[view] = scores = np.full((len(batch), len(self.label_names_)), np.nan)
            if present.any():
                scores[present] = self._score_features(view, features)
                self._check_scores(view, scores[present], features, batch, present)
            if self.shared_ is not None:
                found[view] = self.shared_.combine(view, batch, scores)
        return found

    def _check_scores(
        self, view: str, scores: Matrix, features: Any, batch: Batch, present: NDArray
    ) -> None:
        """Refuse scores that are NaN in rows that have the view, if the method can have some."""

    def _scores(self, X: Any) -> dict[str, Matrix]:
        """Scores by view; for a wide table under FUSED, over the views that a row has."""
        scores = self.view_scores(X)
        if not self.names_.wide:
            return scores
        return {FUSED: fuse_views(np.stack(list(scores.values())), self.decisions_.evidence)}

    def _labelled(self, X: Any, y: Any) -> Iterator[tuple[str, LabelledRows]]:
        """Name and labels of each table in memory."""
        for name, table in open_tables(self._with_columns(X), y).items():
            assert isinstance(table, MemoryTable) and table.labels is not None
            yield name, LabelledRows.of(table.labels, table.words, one_column=table.one_column)

    def _scores_and_truth(
        self, X: Any, y: Any
    ) -> Iterator[tuple[str, Matrix, Matrix, LabelledRows]]:
        """Name, scores and labels of each view, or of a wide table, whose name is FUSED.

        Labels are in the order of the fit, 1, 0, NaN = unknown, and then as they were given.
        """
        if any_chunked(X):
            found = scores_of_chunks(self, X, y)
        else:
            scores, wide = self._scores(X), self.names_.wide
            blocks = ((FUSED if wide else name, rows) for name, rows in self._labelled(X, y))
            found = ((block, scores[block], rows) for block, rows in blocks)
        for block, S, rows in found:
            yield block, S, self.names_.truth_of(rows), rows

    def _given_known(self, X: Any, known: Any, method: str) -> Iterator[tuple[str, Matrix, Matrix]]:
        """Name, probabilities given known labels, and these labels: 1, 0, NaN = unknown."""
        if not self.has_probabilities:
            raise ValueError(f"known {_NEEDS}")
        _refuse_chunks(X, f"{method} with known=")
        for block, S, truth, _ in self._scores_and_truth(X, known):
            yield block, self._probabilities(block, S, truth), truth

    def _probabilities(
        self, block: str, scores: Matrix, truth: Matrix | None = None, *, left_out: bool = False
    ) -> Matrix:
        """Probabilities (n_rows, n_labels), of unknown labels given the known ones.

        With ``left_out``, those of known labels given the other known ones.
        """
        decisions = self.decisions_
        if not decisions.calibrations:
            raise NotFittedError(_NOT_LEARNED)
        log_odds = decisions.calibrations[block].log_odds(scores)
        if truth is not None and decisions.bridge is not None:
            bridge = decisions.bridge
            log_odds = (bridge.left_out if left_out else bridge.log_odds)(log_odds, truth)
        return np.asarray(expit(log_odds))

    def _contain(self, values: dict[str, NDArray], X: Any, columns: list[str] | None = None) -> Any:
        """Arrays or data frames by view, or a single one for a wide table, see `set_output`."""
        container: Any = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        wide = self.names_.wide
        if container == "default":
            flat = wide and self.names_.one_column and values[FUSED].shape[1] == 1
            return (values[FUSED].ravel() if flat else values[FUSED]) if wide else values
        frames = {}
        for view, array in values.items():
            like = X if wide else X[view]
            frames[view] = self._frame(array, like, container, columns)
        return frames[FUSED] if wide else frames

    def _frame(
        self, values: Matrix, like: Any, container: str = "pandas", columns: Any = None
    ) -> Any:
        """Data frame of values, in pandas with the index of the table that they belong to."""
        names = columns or list(self.label_names_)
        backend: Any = container
        frame: Any = nw.from_numpy(values, names, backend=backend).to_native()
        is_indexed = isinstance(like, Batch) or hasattr(like, "iloc")
        if container == "pandas" and is_indexed and like.index is not None:
            frame.index = like.index
        return frame


@dataclass(kw_only=True, eq=False, repr=False)
class ViewModel(ViewPredictor):
    """Base of the methods that learn one model per view; its fields are their common parameters.

    A subclass is a dataclass whose fields are its own parameters. Its ``_fit`` calls
    ``_read_training``, learns from the problem what ``_score_features`` needs, sets ``decisions_``
    as soon as that is known, and ends with ``_learn``.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "views": [Mapping, None],
        "features": "no_validation",  # checked by `FeatureSpec.of`
        "positive_weight": [Interval(Real, 1e-6, 1e6, closed="both")],
        "decide": "no_validation",  # checked by `Decisions.of`
        "random_state": ["random_state"],
    }
    _stored = ViewPredictor._stored | {"features_": MapOf(Nested(ViewFeatures), keys="views")}

    views: Mapping[str, Any] | None = None
    features: Any = AUTO
    positive_weight: float = 1.0
    decide: Any = "sign"
    random_state: Any = None

    _spec_type: ClassVar[Any] = FeatureSpec
    _site: ClassVar[Any] = Alone()
    _held_out: ClassVar[Any] = None  # a list while held-out scores are wanted
    _borrows: ClassVar[bool] = True  # whether tables tell each other about labels that they lack

    # Parameters of some of the models; the others have these values.
    fit_intercept, device, verbose = False, CPU, 0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # A row of NaN lacks the view; other NaN are allowed if the features accept them.
        with suppress(TypeError, ValueError):  # of features that a fit refuses
            spec = FeatureSpec.of(self.features, FUSED)
            tags.input_tags.allow_nan = spec.has_plan or accepts_missing(spec.transformer)
        return tags

    # Training, in the order in which a subclass needs it.

    def _values(self) -> dict[str, Any]:
        """Values of all parameters, including those that a subclass's ``__init__`` lacks."""
        hidden = {field.name: getattr(self, field.name) for field in fields(self)}
        return hidden | self.get_params(deep=False)

    def _check_parameters(self) -> Decisions:
        """Refuse parameters that are not allowed; how scores become answers."""
        self._validate_params()
        return Decisions.of(self.decide)

    def _read_training(
        self, X: Any, y: Any, decisions: Decisions | None = None, **chunks: Any
    ) -> Any:
        """The problem of all views, see `read_training`; after an error no model is left behind.

        The parameters are checked first, unless ``decisions`` tell that they were.
        """
        decisions = decisions or self._check_parameters()
        self._forget()
        try:
            problem = read_training(self, X, y, **chunks)
            if isinstance(decisions.rule, Mapping):  # which may name unknown labels
                Decisions.of(decisions, self.label_names_)
            return problem
        except BaseException:
            self._forget()
            raise

    def _learn(self, problem: Any, solve: Callable[[Any], Matrix], W: Matrix) -> None:
        """Learn thresholds and probabilities, after the weights ``W`` of the model."""
        if Decisions.of(self.decide)._learn:
            self._learn_held_out(problem, solve, W)

    def _learn_held_out(
        self, problem: Any, solve: Callable[[Any], Matrix], W: Matrix, *, entries: bool = False
    ) -> tuple[Folds, list[Matrix], SharedFit | None]:
        """Learn decisions; the folds, the fits without each, and that to shared columns."""
        folds, fits = self._hold_out(problem, N_FOLDS, entries=entries), list[Matrix]()
        with progress_bar("held-out folds", N_FOLDS, shown=self.verbose > 0) as advance:
            for fold in range(len(folds)):
                fits.append(solve(folds.without(fold)))
                advance()
        return folds, fits, self._learn_decisions(folds, fits, W)

    def _learn_decisions(self, folds: Folds, fits: list[Matrix], W: Matrix) -> SharedFit | None:
        """Learn decisions from the fits without each fold, and the weights of the final one."""
        final = folds.rows.multiply(W)
        return self._learn_from_scores(folds, folds.scores(fits, final), final)

    def _learn_from_scores(self, folds: Folds, scores: Matrix, final: Matrix) -> SharedFit | None:
        """Learn decisions from scores of held-out entries, NaN elsewhere, and those of all rows.

        Returns the fit to columns that views share, which does not depend on the scores.
        """
        rows, parts = folds.rows, None
        shared = None if rows.shared is None else SharedFit.of(folds)
        if shared is not None:
            self.shared_, scores, final = shared.learn(self.views_, scores, final)
            parts = shared.parts(self.shared_)
        rules, start = Decisions.of(self.decide), self._fixed_decisions()
        given = rules, start, rows, scores, final
        if self._held_out is not None:  # for a blend, which decides on several tables and labels
            self._held_out.append((rows, scores, final))
            self.decisions_, *_ = learn_rules(*given)
        else:
            self.decisions_ = learn_decisions(*given, borrow=self._borrows, shared=parts)
        return shared

    def _fit_held_out(self, X: Any, y: Any) -> tuple[Any, Matrix, Matrix]:
        """Fit with a learned rule; the rows, the scores of their held-out entries, and of all."""
        self.__dict__["_held_out"] = found = list[Any]()
        try:
            self.fit(X, y)
        finally:
            del self.__dict__["_held_out"]
        return found[-1]

    def _hold_out(self, problem: Any, n_folds: int, *, entries: bool = False) -> Folds:
        if problem.fold_of is not None:  # dealt when it was read
            return Folds(problem.sample, problem.fold_of, problem.without_fold)
        rng = check_random_state(self.random_state)
        return Folds.of(problem, hold_out_folds(problem, n_folds, rng, entries=entries))

    def _fixed_decisions(self) -> LearnedDecisions:
        return fixed_decisions(Decisions.of(self.decide), self.names_.blocks, self.label_names_)


def _refuse_chunks(X: Any, what: str) -> None:
    if any_chunked(X):
        raise TypeError(
            f"{what} needs tables in memory; impute_labels also takes tables in chunks."
        )


def check_confidence(min_confidence: Any, has_probabilities: bool) -> None:
    """Refuse a least confidence outside [0.5, 1], and any without probabilities."""
    if min_confidence is None:
        return
    if not has_probabilities:
        raise ValueError(f"min_confidence {_NEEDS}")
    is_number = isinstance(min_confidence, Real) and not isinstance(min_confidence, bool)
    if not (is_number and 0.5 <= min_confidence <= 1):
        raise ValueError(
            f"min_confidence must be a number from 0.5 to 1, got {min_confidence!r}: the more "
            "probable of two values never has a probability below 0.5."
        )


def most_probable(probabilities: Matrix, min_confidence: float | None = None) -> Matrix:
    """1 where yes is more probable, 0 where no is, NaN below the least confidence."""
    confidence = np.maximum(probabilities, 1 - probabilities)
    return np.where(confidence >= (min_confidence or 0), probabilities > 0.5, np.nan)
