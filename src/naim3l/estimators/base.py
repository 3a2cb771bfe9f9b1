"""One model per view: scores, decisions, imputation, files.

What a method adds is how a view's features become scores, and how that is learned: linear
weights here, found as in ``estimator.NAIM3L``; networks in ``naim3l.deep``.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from naim3l._parameters import check_choice, check_in_range
from naim3l.decisions.rules import (
    Decisions,
    Rules,
    fixed_decisions,
    fuse_views,
    learn_decisions,
)
from naim3l.estimators.reading import ViewReader, warn_rows
from naim3l.features.kernels import KernelMap
from naim3l.features.recipes import accepts_missing
from naim3l.files.checkpoint import Checkpoint, remove_checkpoint
from naim3l.files.models import save
from naim3l.input.labels import CODINGS, LabelTable, fill_unknown
from naim3l.input.tables import Table
from naim3l.input.views import FUSED
from naim3l.metrics import evaluate
from naim3l.problem.rows import Problem
from naim3l.solvers import SolverResult

OUTPUTS = ("default", "pandas", "polars")


def _calibrated(model: Any) -> bool:
    if not model.calibrate:
        raise AttributeError("predict_proba needs calibrate=True when the model is fitted.")
    return True


class ViewModel(ViewReader):
    """Base of the methods that learn one model per view.

    A subclass has the parameters here and in `ViewReader`, and the two methods below. Its ``fit``
    calls ``_read_training``, learns from the problem it gets what ``_score_features`` needs,
    calls ``_keep_decisions`` once that is there, and ends with ``_learn``.
    """

    calibrate: bool
    fusion: str
    random_state: Any
    # Path and key of the checkpoint that the fit has left.
    _checkpoint: tuple[Path, str] | None = None

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
        check_is_fitted(self)
        tables = self._known_tables(X)
        scores = self._scores(tables)
        if self._wide:
            lacking = np.asarray(np.isnan(scores[FUSED]).all(axis=1))
            if lacking.any():
                warn_rows(lacking, "have no view at all: their scores are NaN")
        return self._contain(scores, X, tables)

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
        check_is_fitted(self)
        tables = self._known_tables(X)
        scores = self._scores(tables)
        for view, S in scores.items():
            lacking = np.flatnonzero(np.isnan(S).any(axis=1))
            if len(lacking):
                where = "X" if self._wide else f"view {view!r}"
                raise ValueError(
                    f"{where}, row {lacking[0]}: all values are missing, so there is nothing to "
                    f"predict from ({len(lacking)} such rows); drop these rows first."
                )
        decisions = {view: self._decide(view, S).astype(np.int64) for view, S in scores.items()}
        return self._contain(decisions, X, tables)

    @available_if(_calibrated)
    def predict_proba(self, X: Any) -> Any:
        """Probability of yes for each label, of the form of `decision_function`'s scores.

        Only with ``calibrate=True``. Labels are apart: their probabilities add up to nothing.
        """
        check_is_fitted(self)
        if not self.calibration_:
            raise NotFittedError(
                "the fit was stopped before probabilities were learned; fit again, or use "
                "decision_function."
            )
        tables = self._known_tables(X)
        scores = self._scores(tables)
        chances = {view: self.calibration_[view].probabilities(S) for view, S in scores.items()}
        return self._contain(chances, X, tables)

    def impute_labels(self, X: Any, y: Any) -> Any:
        """Label tables with the unknown entries predicted and the known ones untouched.

        Parameters
        ----------
        X : mapping of str to table, or one wide table
        y : mapping of str to label table, or one label table
            Matching ``X`` row by row.

        Returns
        -------
        Label tables of the kind of ``y``
            An entry stays unknown in a row that has no features to predict it from.
        """
        filled = {}
        for view, S, labels in self._scores_and_labels(X, y):
            values = np.where(np.isnan(S), np.nan, self._decide(view, S))
            values = values[:, self._label_positions(labels)]
            filled[view] = fill_unknown(labels, values, self._coding)
        return filled[FUSED] if self._wide else filled

    def score(self, X: Any, y: Any) -> float:
        """Average precision on the known labels, averaged over views.

        Rows that lack the view are left out. With a single label there are no labels to
        rank: the share of right decisions is returned instead.
        """
        values = []
        for _, S, labels in self._scores_and_labels(X, y):
            signed = labels.signed[:, np.argsort(self._label_positions(labels))]
            truth = np.where(signed == 0, np.nan, signed > 0)
            present = ~np.isnan(S).any(axis=1)
            metrics = evaluate(truth[present], S[present])
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
        if "_checkpoint" in vars(self):  # that of an earlier fit
            del self._checkpoint
        if checkpoint is not None:
            self._checkpoint = (checkpoint.path, checkpoint.key)

    def _remove_checkpoint(self) -> None:
        if self._checkpoint is not None:
            remove_checkpoint(*self._checkpoint)
            del self._checkpoint

    # Training, in the order in which a subclass needs it.

    def _check_form_parameters(self) -> None:
        self._check_kernel_parameters()
        check_in_range("positive_weight", self.positive_weight)
        check_choice("fit_intercept", self.fit_intercept, (True, False))
        check_choice("label_coding", self.label_coding, CODINGS)
        self._rules.check()

    @property
    def _rules(self) -> Rules:
        return Rules(self.threshold, self.calibrate, self.fusion)

    def _learn(self, problem: Problem, solve: Callable[[Problem], NDArray]) -> None:
        """Thresholds, probabilities and view weights, once the rest of the model is there."""
        if self._rules.learn(self._wide):
            decisions = self._fixed_decisions()
            rng = check_random_state(self.random_state)
            learn_decisions(decisions, self._rules, problem, solve, rng)
            self._keep_decisions(decisions)

    def _fixed_decisions(self) -> Decisions:
        blocks = [FUSED] if self._wide else self.views_
        return fixed_decisions(self._rules, blocks, self.label_names_)

    def _keep_decisions(self, decisions: Decisions) -> None:
        self.thresholds_, self.calibration_ = decisions.thresholds, decisions.calibrations
        evidence = self._evidence = decisions.evidence
        self.fusion_weights_ = self.fusion_overlap_ = None
        if evidence is not None:
            self.fusion_weights_ = dict(zip(self.views_, evidence.weights, strict=True))
            self.fusion_overlap_ = evidence.overlap

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

    def _scores(self, tables: dict[str, Table]) -> dict[str, NDArray[np.float64]]:
        """Scores per view, or under the key FUSED one over the views that a row has."""
        scores = {view: self._score_view(view, table) for view, table in tables.items()}
        if not self._wide:
            return scores
        return {FUSED: fuse_views(np.stack(list(scores.values())), self._evidence)}

    def _scores_and_labels(
        self, X: Any, y: Any
    ) -> Iterator[tuple[str, NDArray[np.float64], LabelTable]]:
        """Name, scores and labels of each view; of the whole under FUSED if wide."""
        check_is_fitted(self)
        tables = self._known_tables(X)
        labels = self._read_labels(X, y, tables)
        for view, S in self._scores(tables).items():
            yield view, S, next(iter(labels.values())) if self._wide else labels[view]

    def _decide(self, block: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        yes, no, _ = CODINGS[self._coding][0]
        return np.where(scores > self.thresholds_[block], yes, no)

    def _contain(self, values: dict[str, NDArray], X: Any, tables: dict[str, Table]) -> Any:
        """Scores or decisions as users get them: in the configured container, or bare if wide."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        if container == "default":
            if self._wide:
                return values[FUSED].ravel() if self._one_column else values[FUSED]
            return values
        frames = {}
        for view, array in values.items():
            frame = nw.from_numpy(array, list(self.label_names_), backend=container).to_native()
            like = X if self._wide else tables[view].data
            if container == "pandas" and hasattr(like, "iloc"):
                frame.index = like.index
            frames[view] = frame
        return frames[FUSED] if self._wide else frames


class LinearViewModel(ViewModel):
    """Base of the methods that learn one linear model per view.

    ``fit`` of a subclass finds stacked weights for the problem, hands them to ``_keep_weights``,
    and ends with ``_learn``.
    """

    coef_: dict[str, NDArray[np.floating]]
    intercept_: dict[str, NDArray[np.floating]]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    @property
    def dual_coef_(self) -> dict[str, NDArray[np.floating]]:
        """Weights (n_landmarks, n_labels) of the views with a kernel: on its values, not features.

        Scores are ``k(x, landmarks) @ dual_coef_[view] + intercept_[view]``.
        """
        return {
            view: kernel_map.normalization_ @ self.coef_[view]
            for view, kernel_map in self._kernel_maps().items()
        }

    def _kernel_maps(self) -> dict[str, KernelMap]:
        """Fitted kernel maps of those views that have one."""
        last = {
            view: transformer[-1] if isinstance(transformer, Pipeline) else transformer
            for view, transformer in self.transformers_.items()
        }
        return {view: step for view, step in last.items() if isinstance(step, KernelMap)}

    def _gammas(self) -> dict[str, float | None]:
        """Gamma of each view's kernel, None where it has none."""
        maps = self._kernel_maps()
        return {view: maps[view].gamma_ if view in maps else None for view in self.views_}

    def _score_features(self, view: str, features: Any) -> NDArray[np.floating]:
        return features @ self.coef_[view] + self.intercept_[view]

    def _keep_weights(self, problem: Problem, W: NDArray[np.floating]) -> None:
        coefficients, intercepts = problem.split_weights(W)
        self.coef_ = dict(zip(self.views_, coefficients, strict=True))
        self.intercept_ = dict(zip(self.views_, intercepts, strict=True))
        # Whatever interrupts the fit from here on, the model can decide.
        self._keep_decisions(self._fixed_decisions())

    def _keep_result(self, problem: Problem, result: SolverResult) -> None:
        """What an iterative solver found; an interrupt goes on after that."""
        if result.history:  # else interrupted before the first iteration ended
            self._keep_weights(problem, result.W)
            self.n_iter_ = result.n_iter
            self.converged_ = result.converged
            self.stationarity_ = result.stationarity
            self.objective_ = result.history[-1]["objective"]
            self.history_ = result.history
        if result.interrupted:
            raise KeyboardInterrupt
