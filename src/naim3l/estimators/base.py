"""One model per view: reading, scores, decisions, imputation, files.

A method adds how a view's features become scores, and how that is learned: linear weights in
`naim3l.estimators.linear`, networks in `naim3l.deep`.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from naim3l._parameters import check_choice
from naim3l.decisions.fusion import Evidence
from naim3l.decisions.rules import (
    Decisions,
    Rules,
    fixed_decisions,
    fuse_views,
    learn_decisions,
)
from naim3l.decisions.thresholds import check_threshold
from naim3l.estimators.calibrated import CalibratedMethod, check_confidence, most_probable
from naim3l.estimators.output import OUTPUTS, contain, refuse_lacking
from naim3l.estimators.schema import (
    PARAMETERS,
    Parameter,
    check_parameters,
    check_views,
    without_effect,
)
from naim3l.features.encoding import ViewFeatures, accepts_missing
from naim3l.features.kernels import KernelMap
from naim3l.features.recipes import MAX_COMPONENTS
from naim3l.files.checkpoint import Checkpoint, remove_checkpoint
from naim3l.files.models import save
from naim3l.input.labels import CODINGS, LabelTable, fill_unknown
from naim3l.input.reader import TableReader
from naim3l.input.tables import Table, warn_of_rows, warn_user
from naim3l.input.views import FUSED, is_apart
from naim3l.metrics import evaluate
from naim3l.problem.assemble import assemble
from naim3l.problem.rows import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class ViewModel(BaseEstimator):
    """Base of the methods that learn one model per view; its fields are the parameters of all.

    A subclass is a dataclass whose fields are its own parameters, and has the two methods below.
    Its ``fit`` calls ``_check_parameters`` and ``_read_training``, learns from the problem it gets
    what ``_score_features`` needs, calls ``_keep_decisions`` once that is there, and ends with
    ``_learn``.

    Tools such as explanations, reports and model files use, besides what users see: ``reader_``
    (form, names; tables and labels checked against the fit), ``features_`` (`ViewFeatures` by
    view), ``evidence_`` (how views are fused) and `view_scores`.
    """

    _schema: ClassVar[Mapping[str, Parameter]] = PARAMETERS  # what the parameters may be

    views: Mapping[str, Any] | None = None
    transformer: Any = "auto"
    n_components: int = MAX_COMPONENTS
    positive_weight: float = 1.0
    label_coding: str = "binary"
    threshold: Any = "sign"
    calibrate: bool = False
    fusion: str = "mean"
    random_state: Any = None

    fit_intercept = False  # a parameter of those models whose problem has one

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is what ``_score_features`` needs."""

    @abstractmethod
    def _score_features(self, view: str, features: Any) -> NDArray[np.floating]:
        """Scores of the rows of one view.

        Parameters
        ----------
        view : str
        features : ndarray or CSR array of shape (n_rows, n_features)
            What the view's transformer makes of them; at least one row.

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
        """

    # What the reader of the fit knows, under the names that scikit-learn has for it.
    views_ = property(attrgetter("reader_.views_"))
    label_names_ = property(attrgetter("reader_.label_names_"))
    classes_ = property(attrgetter("reader_.classes_"))
    n_features_in_ = property(attrgetter("reader_.n_features_in_"))
    feature_names_in_ = property(attrgetter("reader_.feature_names_in_"))

    @property
    def transformers_(self) -> dict[str, Any]:
        return {view: features.transformer for view, features in self.features_.items()}

    def decision_function(self, X: Any) -> Any:
        """Scores, larger where a label is more likely; positive means yes.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit. A mapping may hold some of the views only.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
            Per view for tables apart; for a wide table fused over the views that a row has:
            their mean, or log-odds with ``fusion="evidence"`` or "learned". NaN in a row that
            lacks the view (every view, for a wide table).
        """
        scores = self._scores(X)
        if self.reader_.wide:
            lacking = np.asarray(np.isnan(scores[FUSED]).all(axis=1))
            if lacking.any():
                warn_of_rows(lacking, "have no view at all: their scores are NaN")
        return self._contain(scores, X)

    def view_scores(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """Scores of each view on its own, also those of a wide table, whose views are not fused.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit.

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels)
            NaN in a row that lacks the view.
        """
        check_is_fitted(self)
        return {view: self._score_view(view, t) for view, t in self.reader_.tables(X).items()}

    def predict(self, X: Any) -> Any:
        """Labels in the coding of the fit: yes where the score is above ``thresholds_``, else no.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
            In the form of the fit; each row must have the view (some view, if wide).

        Returns
        -------
        dict of str to ndarray of shape (n_rows, n_labels), or ndarray of that shape
        """
        scores = self._scores(X)
        refuse_lacking(scores)
        decided = {view: self._coded(self._is_yes(view, S)) for view, S in scores.items()}
        return self._contain({view: D.astype(np.int64) for view, D in decided.items()}, X)

    @CalibratedMethod
    def predict_proba(self, X: Any) -> Any:
        """Probability of yes for each label, of the form of `decision_function`'s scores.

        Only with ``calibrate=True``. Probabilities of different labels need not sum to one.
        """
        check_is_fitted(self)
        found = {view: self._probabilities(view, S) for view, S in self._scores(X).items()}
        return self._contain(found, X)

    def impute_labels(self, X: Any, y: Any, min_confidence: float | None = None) -> Any:
        """Label tables with the unknown entries predicted and the known ones untouched.

        With ``calibrate=True``, unknown entries get their most probable value, whatever the
        thresholds. Otherwise they get the decision of `predict`.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
        y : mapping of str to label table, or one label table
            Matching ``X`` row by row.
        min_confidence : float, optional
            Leave an entry unknown if its most probable value has a smaller probability, from 0.5
            to 1. Only with ``calibrate=True``.

        Returns
        -------
        Label tables of the kind of ``y``
            An entry stays unknown in a row that has no features to predict it from.
        """
        check_confidence(min_confidence, self.calibrate)
        filled = {}
        for view, S, labels in self._scores_and_labels(X, y):
            if self.calibrate:
                is_yes = most_probable(self._probabilities(view, S), min_confidence)
            else:
                is_yes = np.where(np.isnan(S), np.nan, self._is_yes(view, S))
            values = self._coded(is_yes)[:, self.reader_.label_positions(labels)]
            filled[view] = fill_unknown(labels, values, self.reader_.label_coding)
        return filled[FUSED] if self.reader_.wide else filled

    def score(self, X: Any, y: Any) -> float:
        """Average precision on the known labels, averaged over views.

        Rows that lack the view are left out. With a single label there are no labels to
        rank: the share of right decisions is returned instead.
        """
        values = []
        for view, S, labels in self._scores_and_labels(X, y):
            signed = self.reader_.signed(labels)
            truth = np.where(signed == 0, np.nan, signed > 0)
            present = ~np.isnan(S).any(axis=1)
            metrics = evaluate(truth[present], S[present], threshold=self.thresholds_[view][0])
            values.append(metrics["1-HL" if S.shape[1] == 1 else "AP"])
        return float(np.mean(values))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; `naim3l.load` reads it.

        Once the file is on disk, the checkpoint of the fit is deleted, if there is one.

        Parameters
        ----------
        path : str or path-like
            Replaced if it exists.
        """
        save(self, path)
        self._remove_checkpoint()

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of scores and predictions, as for scikit-learn's transformers.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is NumPy; data frames carry the label names and, in pandas, the index of
            the rows. None changes nothing.
        """
        if transform is not None:
            check_choice("transform", transform, OUTPUTS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        # Rows that are NaN throughout lack the view; single NaN are for the transformer to take.
        tags.input_tags.allow_nan = not isinstance(self.transformer, Mapping) and accepts_missing(
            self.transformer
        )
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_checkpoint", None)  # of this process: a copy may be saved when others use it
        return state

    def _keep_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        """Leave the checkpoint of a finished fit where it is until the model is saved."""
        self.__dict__.pop("_checkpoint", None)  # that of an earlier fit
        if checkpoint is not None:
            self._checkpoint: tuple[Path, str] = (checkpoint.path, checkpoint.key)

    def _remove_checkpoint(self) -> None:
        if kept := self.__dict__.pop("_checkpoint", None):
            remove_checkpoint(*kept)

    @property
    def fusion_weights_(self) -> dict[str, NDArray[np.float64]] | None:
        if self.evidence_ is None:
            return None
        return dict(zip(self.views_, self.evidence_.weights, strict=True))

    @property
    def fusion_overlap_(self) -> NDArray[np.floating] | None:
        return None if self.evidence_ is None else self.evidence_.overlap

    # Training, in the order in which a subclass needs it.

    def _check_parameters(self, X: Any) -> None:
        """Refuse parameters that no fit can work with; warn of those without effect on ``X``."""
        values = self.get_params(deep=False)
        check_parameters(values, self._schema)
        for message in without_effect(values, wide=not is_apart(X)):
            warn_user(message)

    def _read_training(self, X: Any, y: Any) -> Problem:
        """Tables and labels -> checked views -> features -> the problem of all views."""
        self._forget()
        reader = TableReader(self.views, self.label_coding)
        views = reader.read_training(X, y)
        check_views(self.get_params(deep=False), self._schema, list(views))
        check_threshold(self.threshold, reader.label_names_)
        self.reader_ = reader
        self.features_ = {view: self._make_features(view) for view in views}
        encoded = {view: self._encode(view, views[view].table, fit=True) for view in views}
        problem = assemble(
            views,
            encoded,
            reader.label_names_,
            wide=reader.wide,
            fit_intercept=self.fit_intercept,
            positive_weight=self.positive_weight,
        )
        self.base_rates_ = problem.base_rates
        return problem

    def _forget(self) -> None:
        """A fit that fails leaves no model behind."""
        for name in ("reader_", "features_", "coef_", "intercept_"):
            self.__dict__.pop(name, None)

    def _make_features(self, view: str) -> ViewFeatures:
        kernel_map = self._kernel_map(view)
        return ViewFeatures.make(self.transformer, view, kernel_map, self.n_components)

    def _kernel_map(self, view: str) -> KernelMap | None:
        """Unfitted kernel map of a view, None where its model works on the features themselves."""
        return None

    def _encode(self, view: str, table: Table, *, fit: bool = False) -> tuple[Any, NDArray]:
        features = self.features_[view]
        return features.fit_encode(table) if fit else features.encode(table)

    @property
    def _rules(self) -> Rules:
        return Rules(self.threshold, self.calibrate, self.fusion)

    def _learn(self, problem: Problem, solve: Callable[[Problem], NDArray]) -> None:
        """Thresholds, probabilities and view weights, once the rest of the model is there."""
        if self._rules.learn(self.reader_.wide):
            decisions = self._fixed_decisions()
            rng = check_random_state(self.random_state)
            learn_decisions(decisions, self._rules, problem, solve, rng)
            self._keep_decisions(decisions)

    def _fixed_decisions(self) -> Decisions:
        blocks = [FUSED] if self.reader_.wide else self.views_
        return fixed_decisions(self._rules, blocks, self.label_names_)

    def _keep_decisions(self, decisions: Decisions) -> None:
        self.thresholds_, self.calibration_ = decisions.thresholds, decisions.calibrations
        self.evidence_: Evidence | None = decisions.evidence

    # Prediction.

    def _score_view(self, view: str, table: Table) -> NDArray[np.float64]:
        features, present = self._encode(view, table)
        scores = np.full((table.shape[0], len(self.label_names_)), np.nan)
        if present.any():
            scores[present] = self._score_features(view, features)
            self._check_scores(scores[present], features, table, present)
        return scores

    def _check_scores(self, scores: Any, features: Any, table: Table, present: NDArray) -> None:
        """Refuse scores of rows that have the view, where a method may give some that are NaN."""

    def _scores(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """Scores per view, or under the key FUSED one over the views that a row has."""
        scores = self.view_scores(X)
        if not self.reader_.wide:
            return scores
        return {FUSED: fuse_views(np.stack(list(scores.values())), self.evidence_)}

    def _scores_and_labels(
        self, X: Any, y: Any
    ) -> Iterator[tuple[str, NDArray[np.float64], LabelTable]]:
        """Name, scores and labels of each view; of the whole under FUSED if wide."""
        scores = self._scores(X)
        labels = self.reader_.labels(X, y)
        for view, S in scores.items():
            yield view, S, next(iter(labels.values())) if self.reader_.wide else labels[view]

    def _is_yes(self, block: str, scores: NDArray[np.float64]) -> Any:
        return scores > self.thresholds_[block]

    def _probabilities(self, block: str, scores: NDArray[np.float64]) -> Any:
        if not self.calibration_:
            raise NotFittedError(
                "the fit was stopped before probabilities were learned; fit again, or use "
                "decision_function."
            )
        return self.calibration_[block].probabilities(scores)

    def _coded(self, is_yes: NDArray) -> NDArray[np.float64]:
        """Labels in the coding of the fit: yes where 1, no where 0, NaN where NaN."""
        yes, no, _ = CODINGS[self.reader_.label_coding][0]
        return no + (yes - no) * is_yes

    def _contain(self, values: dict[str, NDArray], X: Any) -> Any:
        """Scores or decisions as users get them."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        return contain(values, X, self.reader_, container)
