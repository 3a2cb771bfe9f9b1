"""Base of the models that couple views: checkpoints, chunks, and what the coupling adds."""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Matrix
from naim3l._device import CPU, check_device
from naim3l._progress import progress_bar
from naim3l._text import plain
from naim3l._threads import one_blas_thread
from naim3l.decisions.bootstrap_metrics import EvaluatedBlock, evaluate_blocks, guess
from naim3l.decisions.held_out import (
    AUTO,
    LOWER_IS_BETTER,
    Folds,
    choose_metric,
    hidden_metric,
    mean_defined,
)
from naim3l.decisions.learning import (
    LearnedDecisions,
    held_out_predictions,
    learn_decisions,
    scores_by_block,
)
from naim3l.decisions.rules import Decisions
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.ridge import PerViewRidge
from naim3l.files.checkpoint import Checkpoint, check_seed
from naim3l.files.stored import Array, Flag, MapOf, Nested, Number, Plain, Sometimes, Whole
from naim3l.input.sources import any_chunked
from naim3l.input.views import FUSED
from naim3l.problem.cost_model import refuse_chunks
from naim3l.solvers import SolverResult

Path_ = str | os.PathLike[str]
# Ridges from which that of the model without coupling is chosen.
RIDGES = (0.1, 1.0, 10.0, 100.0)
# Terms of the objective: low rank for rows that share a label, high rank for all rows.
VARIANTS = {"full": (True, True), "low-rank": (True, False), "loss": (False, False)}
FACTOR = Interval(Real, 1e-10, 1e10, closed="both")


@dataclass(frozen=True)
class Uncoupled:
    """What ridge regression per view has learned, from the features and folds of another model."""

    ridge: float
    coef: dict[str, Matrix]
    intercept: dict[str, Matrix]
    decisions: LearnedDecisions

    _stored: ClassVar[Mapping[str, Any]] = {
        "ridge": Number(above=0),
        "coef": MapOf(Array("f", "features", "labels"), keys="views"),
        "intercept": MapOf(Array("f", "labels"), keys="views"),
        "decisions": Nested(LearnedDecisions),
    }


@dataclass(kw_only=True, eq=False, repr=False)
class CoupledModel(LinearViewModel):
    """Base of the methods that couple views, and can tell what the coupling adds."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearViewModel._parameter_constraints,
        "variant": [StrOptions(set(VARIANTS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str],
        "verbose": ["verbose"],
    }
    _stored: ClassVar[Mapping[str, Any]] = {
        **LinearViewModel._stored,
        "n_iter_": Whole(0),
        "converged_": Flag(),
        "stationarity_": Number(finite=False),
        "objective_": Number(finite=False),
        "history_": Plain(),
        "ridge_": Number(0),
        "uncoupled_parts_": Sometimes(Nested(Uncoupled)),
        "held_out_": Sometimes(Plain()),
    }

    variant: str = "full"
    max_iter: int = 200
    tol: float = 1e-4
    device: str = CPU
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, *, checkpoint: Path_ | None = None) -> Self:
        """Fit the weights of all views; `NAIM3LCV` first chooses ``lam`` and ``ridge``.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
            A table is a NumPy array, SciPy sparse matrix or data frame. A row of a view that
            is entirely NaN lacks the view. Tables with more rows than memory holds can be a
            dask.dataframe, a dask.array, or files (a Parquet file, a folder, or a pattern such as
            ``"visits/*.parquet"``, or pyarrow.dataset), which are read in two or three passes.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Labels of the rows of ``X``: 1, yes or True; 0, no or False; NaN, null or a word such as
            unknown. `naim3l.decode_labels` converts others. A label that a table lacks is unknown
            there. For files, names of columns in the same files will do.
        checkpoint : path, optional
            File for the state of the fit, with solver "fast", and for the finished folds of a
            search. A later fit with the same data and parameters resumes there and ends at the same
            weights. The file remains after the fit, in case the model cannot be saved; `save`
            deletes it. With many frequent labels, whose state would take more than 32 MiB and eight
            times the weights, only the weights are kept: a resumed fit is then equally good, but
            not equal to the last bit.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        FloatingPointError
            The objective is unbounded below, in a search for all pairs.
        KeyboardInterrupt
            After Ctrl-C. The model has the weights of the last complete iteration.

        Examples
        --------
        >>> import pandas as pd
        >>> from naim3l import NAIM3L
        >>> clinic = pd.DataFrame({"age": [61, 35, 58, 29], "fever": [37.2, 39.1, 36.9, 38.8]})
        >>> lab = pd.DataFrame({"crp": [88.0, 3.0, 95.0, 2.0, 5.0]})
        >>> labels = {
        ...     "clinic": pd.DataFrame({"flu": ["n", "y", "n", "y"], "gout": [1, 0, None, 0]}),
        ...     "lab": pd.DataFrame({"flu": [None, 1, 0, 1, 1], "gout": [1, 0, 1, None, 0]}),
        ... }
        >>> model = NAIM3L().fit({"clinic": clinic, "lab": lab}, labels)
        >>> model.set_output(transform="pandas").predict({"lab": lab})["lab"]
           flu  gout
        0    0     1
        1    1     0
        2    0     1
        3    1     0
        4    1     0
        """
        self._fit(X, y, checkpoint, compare=False)
        return self

    def compare(self, X: Any, y: Any, *, checkpoint: Path_ | None = None) -> dict[str, Any]:
        """Fit the model, and measure it on held-out entries beside simpler methods.

        These are guessing by the frequencies of the labels, and ridge regression per view, which
        does not couple the views. The same folds serve for the decisions of the model, so that
        this takes little longer than `fit`.

        Parameters
        ----------
        X, y, checkpoint
            As for `fit`.

        Returns
        -------
        dict
            Metrics of held-out entries, "blocks", "labels" and "calibration", as in the result of
            `naim3l.report.summarise`; also kept as ``held_out_``.

        Examples
        --------
        >>> from naim3l import NAIM3L
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(90, n_features=(9, 8), n_labels=4, noise=0.5, random_state=0)
        >>> found = NAIM3L(random_state=0).compare(data.views, data.labels)
        >>> metric = found["blocks"][0]["metrics"]["AP"]
        >>> sorted(metric)
        ['gain', 'guessing', 'high', 'low', 'uncoupled', 'value']
        """
        self._fit(X, y, checkpoint, compare=True)
        return self.held_out_

    @abstractmethod
    def _fit(self, X: Any, y: Any, checkpoint: Path_ | None, *, compare: bool) -> None:
        """Fit the model, and measure it if it is to be compared."""

    @abstractmethod
    def _checkpoint_settings(self) -> dict[str, Any]:
        """Values of JSON that must be the same in a fit that resumes."""

    def _read(
        self, X: Any, y: Any, path: Path_ | None, n_folds: int, **chunks: Any
    ) -> tuple[Any, Any]:
        """The problem of all views, and the checkpoint of the fit; None without one."""
        self._check_parameters()
        check_device("device", self.device)
        chunked = any_chunked(X)
        if chunked:
            refuse_chunks(self.device)
        chunks |= {"n_folds": n_folds, "open_checkpoint": partial(self._open_chunked, path)}
        problem = self._read_training(X, y, **chunks)
        if path is None or chunked:
            return problem, problem.checkpoint if chunked else None
        return problem, Checkpoint(path, problem.identity, self._checkpoint_settings())

    def _open_chunked(self, path: Path_ | None, facts: list[Any]) -> Checkpoint | None:
        """The checkpoint of a fit to chunks, which depends on where the data are."""
        if path is None:
            return None
        check_seed(self.random_state)
        hidden = ("verbose", "n_jobs")
        values = {name: repr(v) for name, v in self._values().items() if name not in hidden}
        settings = self._checkpoint_settings() | {"facts": facts, "parameters": values}
        return Checkpoint(path, [], settings)

    def _keep_result(self, problem: Any, result: SolverResult) -> None:
        """Set the attributes that an iterative solver determines; then raise its interrupt."""
        if result.history:  # otherwise it was interrupted in the first iteration
            self._keep_weights(problem, result.W)
            self.n_iter_, self.converged_ = result.n_iter, result.converged
            self.stationarity_, self.history_ = result.stationarity, result.history
            self.objective_ = result.history[-1]["objective"]
        if result.interrupted:
            raise KeyboardInterrupt

    @property
    def uncoupled_(self) -> PerViewRidge:
        """The same model without coupling, fitted to the same rows, after `compare`."""
        if not hasattr(self, "uncoupled_parts_"):
            raise AttributeError(f"{type(self).__name__}.uncoupled_ needs a fit by compare().")
        parts = self.uncoupled_parts_
        shared = {f.name: getattr(self, f.name) for f in fields(PerViewRidge) if f.name != "ridge"}
        model = PerViewRidge(parts.ridge, **shared)
        for name in ("names_", "features_", "roles_", "base_rates_", "view_rates_"):
            setattr(model, name, getattr(self, name))
        model.coef_, model.intercept_ = parts.coef, parts.intercept
        model.decisions_ = parts.decisions
        return model

    def _compare(self, problem: Any, folds: Folds, fits: list[Matrix]) -> None:
        """Measure the held-out scores beside those of guessing and of not coupling."""
        with progress_bar("without coupling", len(folds) + 1, shown=self.verbose > 0) as advance:
            ridge, chosen, other = choose_ridge(folds, getattr(self, "metric_", AUTO), advance)
            W = problem.whole.ridge_solutions([ridge])[0]
            coef, intercept = problem.split_weights(W)
            advance()
        rules, start, rows = Decisions.of(self.decide), self._fixed_decisions(), folds.rows
        self.uncoupled_parts_ = Uncoupled(
            ridge,
            dict(zip(self.views_, coef, strict=True)),
            dict(zip(self.views_, intercept, strict=True)),
            learn_decisions(rules, start, rows, folds.scores(chosen)),
        )
        names, known = self.names_.blocks, rows.truth_of(folds.fold_of >= 0)
        truths = scores_by_block(rows, known, None, names)
        own, rivals = (
            held_out_predictions(rules, start, rows, folds.scores(of, levelled=True), folds.fold_of)
            for of in (fits, other)
        )
        blocks = []
        for name in names:
            seen = np.isfinite(truths[name]).any(axis=1)  # rows with a held-out entry
            guessing = guess(self.view_rates_[name], int(seen.sum()))
            models = own[name].take(seen), guessing, rivals[name].take(seen)
            kind = "fused" if name == FUSED else "view"
            blocks.append(EvaluatedBlock(name, kind, truths[name][seen], *models))
        blocks = [block for block in blocks if len(block.truth)] or blocks[:1]
        self.held_out_: dict[str, Any] = plain(evaluate_blocks(blocks, self.label_names_))


@one_blas_thread  # many products of small matrices
def choose_ridge(
    folds: Folds, metric: str, advance: Callable[[], Any] = lambda: None
) -> tuple[float, list[Matrix], list[Matrix]]:
    """The ridge that is best for entries that are held out in turn, and fits without each fold.

    Fits (n_weights, n_labels) are first with this ridge, and then with the ridge that is best for
    the other folds. ``advance`` is called after each fold.
    """
    rows, all_hidden = folds.rows, [folds.hidden(fold) for fold in range(len(folds))]
    metric = choose_metric(metric, map(rows.truth_of, all_hidden)) if all_hidden else metric
    fits, values = [], np.empty((len(folds), len(RIDGES)))
    for fold, hidden in enumerate(all_hidden):
        fits.append(folds.without(fold).ridge_solutions(RIDGES))
        values[fold] = [hidden_metric(rows, hidden, W, metric) for W in fits[-1]]
        advance()
    best = best_of_folds(values, metric)
    without = [best_of_folds(np.delete(values, fold, axis=0), metric) for fold in range(len(folds))]
    return (
        RIDGES[best],
        [of_fold[best] for of_fold in fits],
        [of_fold[i] for of_fold, i in zip(fits, without, strict=True)],
    )


def best_of_folds(values: Matrix, metric: str) -> int:
    """Position of the candidate with the best mean over folds, the first of equals.

    The metric of each fold and candidate, (n_folds, n_candidates), is NaN where it is undefined.
    """
    mean = np.array([mean_defined(of_candidate) for of_candidate in values.T])
    losses = mean if metric in LOWER_IS_BETTER else -mean
    return int(np.argmin(np.where(np.isnan(mean), np.inf, losses)))
