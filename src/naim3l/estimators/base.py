"""Base of the models per view: parameters, training and model files.

A method adds how features of a view become scores, and how that is learned: linear weights in
`naim3l.estimators.linear`, networks in `naim3l.deep`.
"""

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from naim3l.decisions.held_out import Folds, hold_out_folds
from naim3l.decisions.rules import (
    N_FOLDS,
    Decisions,
    Rules,
    fixed_decisions,
    learn_decisions,
    rates_by_block,
)
from naim3l.decisions.thresholds import check_threshold
from naim3l.estimators.prediction import ViewPredictor
from naim3l.estimators.schema import (
    PARAMETERS,
    Parameter,
    check_parameters,
    check_views,
    without_effect,
)
from naim3l.features.column_uses import ColumnUse
from naim3l.features.encoding import ViewFeatures, accepts_missing, is_automatic
from naim3l.features.kernels import KernelMap
from naim3l.features.recipes import MAX_COMPONENTS
from naim3l.features.survey import TableSurvey
from naim3l.features.unused_columns import set_aside
from naim3l.files.checkpoint import Checkpoint, remove_checkpoint
from naim3l.files.models import save
from naim3l.input.partitions import any_partitioned
from naim3l.input.reader import TableReader
from naim3l.input.tables import Table, warn_user
from naim3l.input.views import FUSED, is_apart
from naim3l.problem.assemble import assemble
from naim3l.problem.blocks import blas_threads, thread_map
from naim3l.problem.on_device import CPU
from naim3l.problem.rows import Problem
from naim3l.problem.streamed import StreamedProblem


@dataclass(kw_only=True, eq=False, repr=False)
class ViewModel(ViewPredictor):
    """Base of the methods that learn one model per view; its fields are their common parameters.

    A subclass is a dataclass whose fields are its own parameters. Its ``fit`` calls
    ``_check_parameters`` and ``_read_training``, learns from the resulting problem what
    ``_score_features`` needs, calls ``_keep_decisions`` as soon as that is known, and ends with
    ``_learn``. Explanations, reports and model files use, in addition to the public attributes,
    ``reader_``, ``features_``, ``evidence_``, ``aside_`` (`ColumnUse` of columns that are not
    features, by view), ``roles_`` (`ViewRoles` of views that were read from files) and
    `view_scores`.
    """

    _schema: ClassVar[Mapping[str, Parameter]] = PARAMETERS  # allowed values of the parameters

    views: Mapping[str, Any] | None = None
    transformer: Any = "auto"
    n_components: int = MAX_COMPONENTS
    positive_weight: float = 1.0
    label_coding: str = "binary"
    threshold: Any = "sign"
    calibrate: bool = False
    random_state: Any = None

    _held_out: ClassVar[Any] = None  # a list while held-out scores are wanted

    # Parameters of some of the models; the others have these values.
    fit_intercept = False
    fusion = "mean"
    device = CPU

    @property
    def kernel_maps_(self) -> dict[str, KernelMap]:
        """Fitted kernel maps of the views with a kernel."""
        maps = {view: features.kernel_map for view, features in self.features_.items()}
        return {view: kernel_map for view, kernel_map in maps.items() if kernel_map is not None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, completely or not at all; `naim3l.load` reads it.

        The checkpoint of the fit, if there is one, is deleted once the file is on disk.

        Parameters
        ----------
        path : str or path-like
            File to write, such as "model.skops". An existing file is replaced.

        Raises
        ------
        TypeError
            The model has a part that could not be loaded again, such as a transformer with a
            lambda function. The message names it.

        Examples
        --------
        >>> import naim3l
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = naim3l.NAIM3L().fit(data.views, data.labels)
        >>> model.save("model.skops")
        >>> naim3l.load("model.skops").score(data.views, data.labels)
        1.0
        """
        save(self, path)
        self._remove_checkpoint()

    @property
    def columns_(self) -> dict[str, list[ColumnUse]]:
        """What became of each column, by view; those that are set aside come last."""
        return {
            view: self.features_[view].uses(self.reader_.column_labels(view)) + self.aside_[view]
            for view in self.views_
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        # A row of NaN lacks the view; other NaN are allowed if the transformer accepts them.
        one = not isinstance(self.transformer, Mapping)
        tags.input_tags.allow_nan = one and accepts_missing(self.transformer)
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_checkpoint", None)  # when a copy is saved, another process may use the file
        return state

    def _keep_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        """Leave the checkpoint of a finished fit where it is until the model is saved."""
        if checkpoint is not None:
            self._checkpoint: tuple[Path, str] = (checkpoint.path, checkpoint.key)

    def _remove_checkpoint(self) -> None:
        if kept := self.__dict__.pop("_checkpoint", None):
            remove_checkpoint(*kept)

    # Training, in the order in which a subclass needs it.

    def _check_parameters(self, X: Any) -> None:
        """Refuse parameters that are not allowed; warn of those that have no effect on ``X``."""
        values = self._values()
        check_parameters(values, self._schema)
        for message in without_effect(values, wide=not is_apart(X)):
            warn_user(message)

    def _values(self) -> dict[str, Any]:
        """Values of all parameters, including those that a subclass's ``__init__`` lacks."""
        hidden = {field.name: getattr(self, field.name) for field in fields(self)}
        return hidden | self.get_params(deep=False)

    def _read_training(self, X: Any, y: Any) -> Any:
        """The problem of all views; after an error, no model is left behind."""
        self._forget()
        try:
            return self._read_parts(X, y) if any_partitioned(X) else self._read(X, y)
        except BaseException:
            self._forget()
            raise

    def _read(self, X: Any, y: Any) -> Problem:
        """The problem of all views: tables and labels, checked and turned into features."""
        reader = TableReader(self.views, self.label_coding, type(self).__name__)
        self.aside_: dict[str, list[ColumnUse]] = {}
        views = reader.read_training(X, y, self._set_aside)
        check_views(self._values(), self._schema, list(views))
        check_threshold(self.threshold, reader.label_names_)
        self.reader_, self.roles_ = reader, dict[str, Any]()
        self.features_ = {view: self._make_features(view) for view in views}
        problem = assemble(
            views,
            self._fit_features({view: of_view.table for view, of_view in views.items()}),
            reader.label_names_,
            wide=reader.wide,
            fit_intercept=self.fit_intercept,
            positive_weight=self.positive_weight,
        )
        self.base_rates_ = problem.base_rates
        self.view_rates_ = rates_by_block(problem, self._blocks)
        return problem

    def _fit_features(self, tables: Mapping[str, Table]) -> dict[str, tuple[Any, NDArray]]:
        """Features of all views and the masks of their rows; recipes are fitted in threads."""
        fit = partial(self._encode, fit=True)
        if all(features.is_recipe for features in self.features_.values()):
            n_threads = min(blas_threads(), len(tables))
            # The largest first, so that threads end together.
            views = sorted(tables, key=lambda view: -math.prod(tables[view].shape))
            found = thread_map(lambda view: fit(view, tables[view]), views, n_threads)
            by_view = dict(zip(views, found, strict=True))
            return {view: by_view[view] for view in tables}
        return {view: fit(view, table) for view, table in tables.items()}

    def _read_parts(self, X: Any, y: Any) -> StreamedProblem:
        """The problem of tables that are read in parts, with a sample of its rows."""
        raise TypeError(
            f"{type(self).__name__} takes tables in memory; NAIM3L and NAIM3LCV also take tables "
            "that are read in parts, such as dask data frames and Parquet files."
        )

    def _set_aside(self, view: str, table: Table) -> Collection[int]:
        """Positions of the columns of a view that are not features."""
        unused = set_aside(TableSurvey.of(table)) if is_automatic(self.transformer, view) else {}
        self.aside_[view] = list(unused.values())
        return unused

    def _forget(self) -> None:
        """Delete everything that an earlier fit has learned."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.pop("_checkpoint", None)

    def _make_features(self, view: str) -> ViewFeatures:
        kernel_map = self._kernel_map(view)
        return ViewFeatures.make(self.transformer, view, kernel_map, self.n_components)

    def _kernel_map(self, view: str) -> KernelMap | None:
        """Unfitted kernel map of a view, None if its scores are linear in the features."""
        return None

    @property
    def _rules(self) -> Rules:
        return Rules(self.threshold, self.calibrate, self.fusion)

    def _learn(self, problem: Problem, solve: Callable[[Problem], NDArray]) -> None:
        """Learn thresholds, probabilities and view weights, after the rest of the model."""
        if self._rules.learn(self.reader_.wide):
            self._learn_held_out(problem, solve)

    def _learn_held_out(
        self, problem: Problem, solve: Callable[[Problem], NDArray]
    ) -> tuple[Folds, list[NDArray[np.floating]]]:
        """Learn decisions; the folds, and the fits without each."""
        folds = self._hold_out(problem, N_FOLDS)
        fits = folds.fits(solve)
        self._learn_decisions(folds, fits)
        return folds, fits

    def _learn_decisions(self, folds: Folds, fits: list[NDArray[np.floating]]) -> None:
        """Learn decisions from the fits without each fold."""
        if self._held_out is not None:  # entries of different folds are compared
            self._held_out.append((folds.rows, folds.scores(fits, levelled=True)))
        start, scores = self._fixed_decisions(), folds.scores(fits)
        self._keep_decisions(learn_decisions(self._rules, start, folds.rows, scores))

    def _fit_held_out(self, X: Any, y: Any) -> tuple[Problem, NDArray[np.floating]]:
        """Fit with ``calibrate=True``; the rows, and the scores of their held-out entries."""
        self.__dict__["_held_out"] = found = list[tuple[Problem, NDArray[np.floating]]]()
        try:
            self.fit(X, y)
        finally:
            del self.__dict__["_held_out"]
        return found[-1]

    def _hold_out(self, problem: Problem | StreamedProblem, n_folds: int) -> Folds:
        if isinstance(problem, StreamedProblem):  # dealt when it was read
            return Folds(problem.sample, problem.fold_of, problem.without_fold)
        rng = check_random_state(self.random_state)
        return Folds.of(problem, hold_out_folds(problem, n_folds, rng))

    def _fixed_decisions(self) -> Decisions:
        return fixed_decisions(self._rules, self._blocks, self.label_names_)

    @property
    def _blocks(self) -> list[str]:
        """Names of the tables of scores: the views, or all views of a wide table together."""
        return [FUSED] if self.reader_.wide else self.views_

    def _keep_decisions(self, decisions: Decisions) -> None:
        self.thresholds_, self.rules_ = decisions.thresholds, decisions.rules
        self.calibration_ = decisions.calibrations
        self.evidence_ = decisions.evidence
