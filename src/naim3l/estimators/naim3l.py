"""NAIM3L: labels learned from tables that cannot be joined. And the base of its search."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Matrix
from naim3l._device import CPU, check_device
from naim3l._progress import progress_bar
from naim3l._text import documented
from naim3l._warnings import warn_user
from naim3l.decisions.held_out import Folds
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import RULES, Decisions
from naim3l.estimators.base import ADVICE
from naim3l.estimators.collected import LearnsFromStatistics
from naim3l.estimators.comparison import HELD_OUT, Comparison, Uncoupled, compare_models
from naim3l.estimators.linear import FACTOR, LinearViewModel, PerViewRidge
from naim3l.features.encoding import NAMES
from naim3l.files.checkpoint import Checkpoint, check_seed, kept_in
from naim3l.files.stored import Flag, Nested, Number, Plain, Sometimes, Whole
from naim3l.input.sources import any_chunked
from naim3l.problem.boundedness import unlimited_scores
from naim3l.problem.cost_model import move_to, refuse_chunks
from naim3l.solvers import SOLVERS, Record, SolverResult, solve_fast, start_again
from naim3l.solvers.objective import Objective

Path_ = str | os.PathLike[str]
# Terms of the objective: low rank for rows that share a label, high rank for all rows.
VARIANTS = {"full": (True, True), "low-rank": (True, False), "loss": (False, False)}
AUTO = "auto"  # the ridge that bounds the objective, or the metric that is defined
# Inside folds: scores of held-out entries are accurate long before the weights are.
FOLD_TOL, FOLD_MAX_ITER = 3e-3, 100
# Squares of larger start weights, or of their scores, could overflow.
LARGEST_WEIGHT, LARGEST_SCORE = 1e100, 1e40


@dataclass(kw_only=True, eq=False, repr=False)
class CoupledModel(LearnsFromStatistics, LinearViewModel):
    """Base of the methods that couple views, and can tell what the coupling adds."""

    _parameter_constraints = LinearViewModel._parameter_constraints | {
        "variant": [StrOptions(set(VARIANTS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str],
        "verbose": ["verbose"],
    }
    _stored = LinearViewModel._stored | {
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
        >>> model.set_output(transform="pandas").predict({"lab": lab[:2]})["lab"]
           flu  gout
        0    0     1
        1    1     0
        """
        self._fit(X, y, checkpoint)
        return self

    def compare(
        self,
        X: Any,
        y: Any,
        *,
        by: str = "rows",
        boosting: bool | str = False,
        checkpoint: Path_ | None = None,
    ) -> dict[str, Any]:
        """Fit the model, and measure it on held-out rows beside simpler methods.

        These are guessing by the frequencies of the labels; ridge regression per view, which does
        not couple the views; and :class:`naim3l.LabelSubspaceRidge`, the simplest coupling. The
        same folds serve for the decisions of the model, so that this takes little longer than
        `fit`.

        Parameters
        ----------
        X, y, checkpoint
            As for `fit`; or `Statistics` and None, as for `fit_statistics`.
        by : {"rows", "entries"}, default="rows"
            What is held out. Whole rows measure predictions of new rows. Single entries measure how
            well unknown labels of known rows are filled in: the other labels of the row then train
            the model, which flatters predictions of new rows.
        boosting : bool or "auto", default=False
            Whether to measure gradient boosting of each label and view, too, by which much better
            predictions would show that the columns need a model that is not linear. "auto" does
            so unless it would take more than about 20 seconds.

        Returns
        -------
        dict
            Metrics of held-out entries, "blocks", "labels" and "calibration", as in the result of
            `naim3l.report.summarise`; ``by``; and "boosting", why it was not measured, or "". They
            are also kept as ``held_out_``.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> data = datasets.make_unpaired(90, n_features=(9, 8), noise=1, random_state=0)
        >>> found = NAIM3L(random_state=0).compare(data.views, data.labels)
        >>> sorted(found["blocks"][0]["metrics"]["AP"])
        ['boosting', 'gain', 'guessing', 'high', 'low', 'shared', 'subspace', 'uncoupled', 'value']
        """
        if by not in HELD_OUT:
            raise ValueError(f"by must be one of {list(HELD_OUT)}, got {by!r}.")
        if boosting not in (True, False, AUTO):
            raise ValueError(f"boosting must be True, False or {AUTO!r}, got {boosting!r}.")
        if by == "entries" and any_chunked(X):
            raise ValueError("by='entries' needs tables in memory; of chunks, rows are held out.")
        self._fit(X, y, checkpoint, compare=Comparison(by == "entries", boosting, X))
        return self.held_out_

    @abstractmethod
    def _fit(self, X: Any, y: Any, checkpoint: Any = None, *, compare: Any = None) -> None:
        """Fit the model, and measure it if it is to be compared, see `Comparison`."""

    @abstractmethod
    def _checkpoint_settings(self) -> dict[str, Any]:
        """Values of JSON that must be the same in a fit that resumes."""

    def _read(self, X: Any, y: Any, path: Any, learn: bool, decisions: Any) -> tuple[Any, Any]:
        """The problem of all views, and the checkpoint of the fit; None without one."""
        chunks = self._passes(learn) | {"open_checkpoint": partial(self._open_chunked, path)}
        problem = self._read_training(X, y, decisions, **chunks)
        # Weights of solver "paper" start at random, not in the span of a view's rows.
        if getattr(self, "solver", None) != "paper":
            problem = problem.rotated()
        kept = getattr(problem, "checkpoint", None)  # of chunks, which is open since the first pass
        if path is not None and kept is None:
            kept = Checkpoint(path, problem.identity, self._checkpoint_settings())
        return problem, kept

    def _check_parameters(self) -> Decisions:
        decisions = super()._check_parameters()
        check_device("device", self.device)
        return decisions

    def _open_chunked(self, path: Path_ | None, facts: list[Any]) -> Checkpoint | None:
        """The checkpoint of a fit to chunks, which depends on where the data are."""
        refuse_chunks(self.device)
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
            result.W = self._site.complete(result.W, self.ridge_)
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
        model.decisions_, model.shared_ = parts.decisions, parts.shared
        return model

    def _compare(
        self, asked: Comparison, problem: Any, held_out: tuple[Folds, Any, Any], W: Matrix
    ) -> None:
        """Measure held-out scores, as of `_learn_held_out`, beside those of simpler methods."""
        found = compare_models(self, asked, problem, *held_out, W)
        self.held_out_: dict[str, Any] = found[0]
        self.uncoupled_parts_ = found[1]


@documented(features=NAMES, rules=RULES, solvers=SOLVERS, variants=VARIANTS)
@dataclass(eq=False, repr=False)
class NAIM3L(CoupledModel):
    """Multi-label model of several views whose rows cannot be matched.

    Each view has a linear model of its own. A regulariser couples them: the scores of rows that
    share a label, in all views together, should have low rank, and the scores of all rows high
    rank. Unknown labels are left out of the loss. By default a label is predicted where its score
    is above 0, without probabilities; `NAIM3LCV` learns a rule and probabilities by default.

    Parameters
    ----------
    lam : float, default=0.4
        Weight of the regulariser; greater than 0. `NAIM3LCV` chooses it for the data.
    ridge : float or "auto", default="auto"
        Adds ``ridge / 2`` times the squared weights, without intercepts of labels that are known in
        the view. Increase it when few labels are known. "auto" is the smallest value for which the
        objective has a lower bound by a sufficient condition: the high-rank term alone cannot raise
        the root mean square of the scores of one label in one view beyond the size of labels. It is
        0 if enough labels are known, and with solver "paper". It does not limit scores of single
        rows: those of a row that is nearly alone in a column can be many times as large where its
        labels are unknown; a larger ridge limits them. 0 is refused where nothing else limits
        the scores of a label.
    variant : <variants>, default="full"
        Terms of the objective. "low-rank" leaves out the high-rank term (the paper's variant II),
        "loss" both, which is the masked least-squares fit (variant I).
    views : mapping of str to columns, optional
        Columns of each view of one wide table: names, positions, a slice or a mask. Others are
        ignored. With None all columns are one view. Not for a mapping of tables.
    features : <features>, Recipe, Kernel, transformer, None, or mapping per view, default="auto"
        How the columns of each view become features, fitted on training rows only. "auto" is
        ``Recipe()``: cells of all kinds become numbers, which are scaled, reduced by PCA and
        normalised to rows of unit length. "scale", "paper" and "histogram" are steps of a `Recipe`
        for columns that are all numbers. The names of kernels stand for a `Kernel`. None leaves
        columns unchanged. A scikit-learn transformer is cloned for each view and gets its table.
    positive_weight : float, default=1.0
        Weight of an observed yes in the loss, relative to that of a no. More than 1 raises the
        scores of rare labels.
    fit_intercept : bool, default=True
        Whether each label has an intercept in each view.
    decide : <rules>, float, mapping of label to float, or Decisions, default="sign"
        When a label is predicted. A learned rule comes with probabilities, and needs five
        additional coarse fits, from which entries are held out; see `Decisions`.
    solver : <solvers>, default="auto"
        "fast", which is the choice of "auto", converges to a stationary point, verifies it, and
        works on statistics of the rows if that is cheaper. "paper" is exactly Algorithm 1 of the
        paper, for comparison; it can diverge if few rows have an observed positive.
    mu : float, optional
        Penalty parameter of the solver, which affects the path of iterations, not the stationary
        points. By default it is adapted by "fast", and 5 for "paper".
    max_iter : int, default=200
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=1e-4
        "fast" stops when the relative residuals of stationarity and feasibility are below it,
        "paper" when weights and auxiliary variables change by less. 0 runs all iterations.
    init : mapping of str to ndarray, optional
        Start weights of each view, (n_features + 1, n_labels) in the transformed space with the
        intercept last, or without it. "fast" uses the component in the span of a view's rows if
        there are many more columns than rows, and starts by default at a ridge solution; "paper"
        starts at weights drawn uniformly from (-1, 1).
    device : str, default="cpu"
        Where the solver works, and kernels compare rows. "cuda", a GPU, needs the extra
        ``torch``, tables in memory and solver "fast"; "auto" is "cuda" if there is one. Weights
        are those of the CPU up to ``tol``.
    random_state : int, RandomState or None, default=None
        Determines the start weights of "paper" and the folds of held-out entries.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    coef_ : dict of str to ndarray of shape (n_features, n_labels)
        Weights of each view in its transformed space.
    intercept_ : dict of str to ndarray of shape (n_labels,)
        Intercepts of each view.
    features_ : dict of str to ViewFeatures
        Plan, recipe, kernel or transformer of each view, as they were fitted.
    columns_ : dict of str to list of ColumnPlan
        Name, kind and share of missing cells of each column, and why it is dropped if it is.
    decisions_ : LearnedDecisions
        Thresholds of every learned rule, calibration curves, and how views are fused.
    thresholds_ : dict of str to ndarray of shape (n_labels,)
        Thresholds by view; for a wide table under the key "fused".
    shared_ : SharedModel or None
        What separate tables learn together from columns that several of them have, such as age
        and sex; None if there are none, or without a learned rule. `Recipe` keeps columns apart.
    fusion_overlap_ : float or None
        Overlap of views: the evidence of the n views that a row has is divided by
        1 + overlap (n - 1). For separate tables it is learned by `fuse`.
    base_rates_ : ndarray of shape (n_labels,)
        Share of positives among the known labels of training rows.
    view_rates_ : dict of str to ndarray of shape (n_labels,)
        The same by view, shrunk towards the share in all views; with the keys of ``thresholds_``.
    held_out_ : dict
        After `compare`, metrics of held-out entries.
    uncoupled_ : PerViewRidge
        After `compare`, the model without coupling, with a ridge chosen on the same folds.
    dual_coef_ : dict of str to ndarray of shape (n_landmarks, n_labels)
        Weights of the kernel values of the landmarks, for views with a kernel.
    gamma_ : dict of str to float or None
        Gamma of the kernel of each view, None for views without one.
    views_ : list of str
        Names of the views.
    label_names_ : list of str
        Columns of the label tables, or "label0", "label1", ... if they have no names.
    classes_ : ndarray of shape (n_labels,)
        Names of the labels, in the order of the columns of scores; 0 and 1 for a wide table with
        labels of one dimension.
    ridge_ : float
        The ridge that was used.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the solver reached ``tol``: then the weights are a critical point of the objective,
        up to ``tol``, and not always its minimum, as the objective is not convex. Where the
        high-rank term is more than half of all other terms, "fast" starts from several points and
        keeps the lowest.
    stationarity_ : float
        Relative stationarity residual of the weights; NaN for solver "paper".
    objective_ : float
        Value of the objective at the weights.
    history_ : list of dict
        One record per iteration: "objective" and its parts "loss", "low_rank", "high_rank" and
        "ridge"; "change", "primal_residual" and "dual_residual". Solver "fast" adds
        "stationarity", "feasibility", "concave_gap", "mu", and "outer", whether it accepted the
        weights; elsewhere the objective is the last one that was accepted. Fits with the same data,
        parameters and integer ``random_state`` have identical records on the same machine with the
        same number of BLAS threads.
    n_features_in_ : int, or dict of str to int for a mapping of tables
        Number of columns.
    feature_names_in_ : ndarray of str, or dict of str to ndarray for a mapping of tables
        Column names, if the tables have some.

    References
    ----------
    X. Li and S. Chen, "A Concise yet Effective Model for Non-Aligned Incomplete Multi-view
    and Missing Multi-label Learning", IEEE TPAMI 44(10), 2022.

    Examples
    --------
    Two tables of different rows, with the same labels, of which 30 % are unknown:

    >>> from naim3l import NAIM3L, datasets, evaluate
    >>> data = datasets.make_unpaired(200, n_labels=5, missing_labels=0.3, random_state=0)
    >>> model = NAIM3L(lam=0.4).fit(data.views, data.labels)
    >>> model.converged_
    True
    >>> model.predict(data.views)["view1"][0]
    array([1, 0, 1, 0, 0])
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    0.99
    """

    _parameter_constraints = CoupledModel._parameter_constraints | {
        "lam": [FACTOR],
        "ridge": [StrOptions({AUTO}), Interval(Real, 0, 1e10, closed="both")],
        "solver": [StrOptions(set(SOLVERS))],
        "mu": [FACTOR, None],
        "init": [Mapping, None],
    }

    lam: float = 0.4
    _: KW_ONLY
    ridge: float | str = AUTO
    solver: str = "auto"
    mu: float | None = None
    init: Mapping[str, NDArray] | None = None

    def _fit(self, X: Any, y: Any, checkpoint: Any = None, *, compare: Any = None) -> None:
        decisions = self._check_parameters()
        learn = compare is not None or decisions._learn
        problem, kept = self._read(X, y, checkpoint, learn, decisions)
        result = self._solve(problem.whole, kept)
        self._keep_result(problem, result)
        if learn:
            solve, entries = kept_in(kept, self._solve_loosely), compare and compare.entries
            found = self._learn_held_out(problem, solve, result.W, entries=bool(entries))
            if compare is not None:
                self._compare(compare, problem, found, result.W)
        self._checkpoint = kept

    def _passes(self, learn: bool) -> dict[str, Any]:
        free = self.ridge == AUTO and self.variant == "full"
        return {"n_folds": N_FOLDS if learn else 0, "free": free}

    def _check_parameters(self) -> Decisions:
        if self.solver == "paper" and self.positive_weight != 1:
            raise ValueError("positive_weight needs solver='fast'; Algorithm 1 has no weights.")
        if self.solver == "paper" and self.device != CPU:
            raise ValueError("device needs solver='fast'; Algorithm 1 works on the CPU.")
        return super()._check_parameters()

    def _checkpoint_settings(self) -> dict[str, Any]:
        if self.solver == "paper":
            raise ValueError("checkpoint needs solver='fast'; 'paper' keeps no state.")
        names = ("lam", "variant", "ridge", "positive_weight", "fit_intercept", "mu")
        settings = {name: getattr(self, name) for name in names}
        start = self.init and {view: np.asarray(self.init[view]).tolist() for view in self.views_}
        return settings | {"init": start}

    def _objective(self, problem: Any) -> Objective:
        """The objective, in the form that the solver works on."""
        low_rank, high_rank = VARIANTS[self.variant]
        ridge, paper = self.ridge, self.solver == "paper"
        form = problem.as_rows() if paper else self._site.in_form(move_to(problem, self.device))
        if ridge == AUTO:
            ridge = form.bounding_ridge(self.lam) if high_rank and not paper else 0.0
        return Objective(form, float(self.lam), low_rank, high_rank, float(ridge))

    def _solve(self, problem: Any, checkpoint: Checkpoint | None = None) -> SolverResult:
        objective = self._objective(problem)
        if self.solver != "paper":
            self._refuse_unlimited(objective)
        self.ridge_ = objective.ridge
        # Numbers of NumPy would be of their precision, and no JSON for a checkpoint.
        mu = None if self.mu is None else float(self.mu)
        options: dict[str, Any] = {"mu": mu, "max_iter": self.max_iter, "tol": self.tol}
        if checkpoint is not None:
            options["checkpoint"] = checkpoint
        start = self._start_weights(problem)
        with progress_bar("fit", self.max_iter, shown=self.verbose > 0) as advance:
            options["callback"] = lambda record, W: advance(f"objective {record['objective']:.6g}")
            solve: Any = SOLVERS[self.solver]
            result = solve(objective, start, **options)
            if start is None:
                options.pop("checkpoint", None)
                result = start_again(objective, result, **options)
        if self.tol > 0 and not result.converged and not result.interrupted:
            warn_user(self._not_converged(objective, result.history[-1]), ConvergenceWarning)
        return result

    def _refuse_unlimited(self, objective: Objective) -> None:
        """Raise where it is clear before the fit that the objective falls without bound."""
        bounded = self.ridge == AUTO or objective.ridge > 0 or not objective.high_rank
        if bounded or not objective.problem.knows_free_rows:
            return
        found, of = unlimited_scores(objective.problem.rows or objective.problem), "a label"
        if any(objective.problem.add_up(found is not None)):  # at all sites at once
            if found is not None:
                view, label = self.views_[found[0]], self.label_names_[found[1]]
                of = f"label {label!r} in view {view!r}"
            needed = objective.problem.bounding_ridge(self.lam)
            raise FloatingPointError(
                "The objective falls without bound: with ridge=0, nothing limits the scores of "
                f"{of} in rows in which it is unknown and no label is positive, and these are "
                f"rewarded for high rank. Use ridge={needed:.2g} or ridge={AUTO!r}, or use "
                'variant="low-rank".'
            )

    def _not_converged(self, objective: Objective, last: Record) -> str:
        """What a fit has reached that has not converged, and what to do."""
        parts = ("stationarity", "feasibility", "concave_gap", "change")
        reached = ", ".join(f"{name} {last[name]:.1e}" for name in parts if name in last)
        message = (
            f"NAIM3L did not converge in max_iter={self.max_iter} iterations (tol={self.tol:g}): "
            f"{reached}. "
        )
        known = objective.high_rank and objective.problem.knows_free_rows
        needed = objective.problem.bounding_ridge(self.lam) if known else 0.0
        if objective.ridge >= needed:
            return f"{message}{ADVICE}"
        auto = "" if self.solver == "paper" else f" or ridge={AUTO!r}"
        return message + (
            "More iterations will not help: rows without an observed positive are rewarded for "
            f"high rank, and a ridge of {objective.ridge:g} does not limit their scores. Use "
            f'ridge={needed:.2g}{auto}, lower lam, or use variant="low-rank".'
        )

    def _start_weights(self, problem: Any) -> Matrix | None:
        """Stacked start weights, (n_weights, n_labels), or None for those of the solver."""
        random = check_random_state(self.random_state)  # raises if it is invalid, for any solver
        if self.init is not None:
            W = problem.stack_weights(list(self._given_weights(problem, self.init)))
        elif self.solver == "paper":
            W = random.uniform(-1, 1, (problem.n_weights, problem.n_labels))
        else:
            return None
        largest = problem.largest_score(W)
        if not largest <= LARGEST_SCORE:
            raise ValueError(
                "the start weights (init, or those that solver='paper' draws) have scores up to "
                f"{largest:.3g}, beyond {LARGEST_SCORE:g}; use smaller ones, or features='scale'."
            )
        return W

    def _given_weights(self, problem: Any, init: Mapping[str, Any]) -> Iterator[Matrix]:
        """Start weights of each view, checked."""
        if set(init) != set(self.views_):
            raise ValueError(
                f"init has views {sorted(init, key=str)}, the data {sorted(self.views_)}."
            )
        for v, view in enumerate(self.views_):
            try:
                block = np.asarray(init[view], dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"init[{view!r}] must be numbers: {error}.") from None
            expected = (problem.n_columns(v) + problem.fit_intercept, problem.n_labels)
            if block.shape != expected or not (np.abs(block) <= LARGEST_WEIGHT).all():
                intercept = ", then the intercept," if problem.fit_intercept else ""
                raise ValueError(
                    f"init[{view!r}] must be finite weights of shape {expected} (transformed "
                    f"features{intercept} by labels), none beyond {LARGEST_WEIGHT:g}, got shape "
                    f"{block.shape}."
                )
            yield block

    def _solve_loosely(self, problem: Any) -> Matrix:
        return solve_loosely(self._objective(problem)).W


def solve_loosely(objective: Objective, **options: Any) -> SolverResult:
    """A result that is accurate enough to score held-out entries."""
    result = solve_fast(objective, max_iter=FOLD_MAX_ITER, tol=FOLD_TOL, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    return result
