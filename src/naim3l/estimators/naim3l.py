"""NAIM3L: labels learned from tables that cannot be joined."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Matrix
from naim3l._device import CPU
from naim3l._progress import progress_bar
from naim3l._text import documented
from naim3l._warnings import warn_user
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import RULES, Decisions
from naim3l.estimators.coupled import FACTOR, VARIANTS, CoupledModel, Path_
from naim3l.features.encoding import NAMES
from naim3l.files.checkpoint import Checkpoint, kept_in
from naim3l.input.views import is_separate
from naim3l.problem.cost_model import choose_form, move_to
from naim3l.solvers import SOLVERS, Record, SolverResult, solve_fast
from naim3l.solvers.objective import Objective

# The ridge that bounds the objective.
AUTO = "auto"
# Inside folds: scores of held-out entries are accurate long before the weights are.
FOLD_TOL, FOLD_MAX_ITER = 3e-3, 100
# Squares of larger start weights, or of their scores, could overflow.
LARGEST_WEIGHT, LARGEST_SCORE = 1e100, 1e40


@documented(features=NAMES, rules=RULES, solvers=SOLVERS, variants=VARIANTS)
@dataclass(eq=False, repr=False)
class NAIM3L(CoupledModel):
    """Multi-label model of several views whose rows cannot be matched.

    By default a label is predicted where its score is above 0 (``decide="sign"``), which costs
    nothing and gives no probabilities; `NAIM3LCV` learns a rule and probabilities by default.

    Each view has a linear model of its own. A regulariser couples them: the scores of rows that
    share a label, in all views together, should have low rank, and the scores of all rows high
    rank. Unknown labels are left out of the loss.

    Parameters
    ----------
    lam : float, default=0.4
        Weight of the regulariser; greater than 0. The best value depends on the data: choose it
        with `NAIM3LCV`.
    ridge : float or "auto", default="auto"
        Adds ``ridge / 2`` times the squared weights. Intercepts are excluded, unless their label
        is known in no row of the view. Increase it when few labels are known. "auto" is the
        smallest value for which the high-rank term alone cannot raise the scores of one label in
        one view beyond the size of labels, apart from intercepts; the objective then has a lower
        bound. It is 0 if enough labels are known. With solver "paper", "auto" is 0.
    variant : <variants>, default="full"
        Terms of the objective. "low-rank" leaves out the high-rank term (the paper's variant II),
        "loss" both, which is the masked least-squares fit (variant I).
    views : mapping of str to columns, optional
        Columns of each view of one wide table: names, positions, a slice or a mask. Other
        columns are ignored. With None all columns are one view. Leave it out when fitting on a
        mapping of tables.
    features : <features>, Recipe, Kernel, transformer, None, or mapping per view, default="auto"
        How the columns of each view become features, fitted on training rows only. "auto" is
        ``Recipe()``: cells of all kinds become numbers, which are scaled, reduced by PCA and
        normalised to rows of unit length. "scale", "paper" and "histogram" are the steps of a
        `Recipe` without that: all columns must be numbers. The names of kernels stand for a
        `Kernel`. None leaves the columns unchanged. A scikit-learn transformer is cloned for each
        view and receives the view's table unchanged.
    positive_weight : float, default=1.0
        Weight of an observed yes in the loss, relative to that of a no. Values above 1 raise the
        scores of rare labels.
    fit_intercept : bool, default=True
        Whether each label has an intercept in each view.
    decide : <rules>, float, mapping of label to float, or Decisions, default="sign"
        When a label is predicted. A learned rule comes with probabilities, and needs three
        additional coarse fits, from which entries are held out; see `Decisions`. `predict` can
        use another rule with ``decide=``.
    solver : <solvers>, default="auto"
        "fast", which is the choice of "auto", converges to a stationary point, verifies it, and
        works on statistics of the rows if that is cheaper. "paper" is exactly Algorithm 1 of the
        paper, for comparison; it can diverge if few rows have an observed positive.
    mu : float, optional
        Penalty parameter of the solver. It affects the path of the iterations, but not the
        stationary points. By default it is adapted by "fast", and 5 for "paper".
    max_iter : int, default=200
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=1e-4
        "fast" stops when the relative residuals of stationarity and feasibility are below it,
        "paper" when weights and auxiliary variables change by less. 0 runs all iterations.
    init : mapping of str to ndarray, optional
        Start weights of each view, (n_features + 1, n_labels) in the transformed space with
        the intercept last, (n_features, n_labels) without intercept. "fast" uses the component
        in the span of a view's rows if there are many more columns than rows. By default "fast"
        starts at a ridge solution, and "paper" at weights drawn uniformly from (-1, 1).
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
        How each column of a view is used: its name, kind and share of missing cells, and why not
        if it is dropped.
    decisions_ : LearnedDecisions
        Thresholds, thresholds of every learned rule, calibration curves, and how views of a wide
        table are fused.
    thresholds_ : dict of str to ndarray of shape (n_labels,)
        Thresholds by view; for a wide table under the key "fused".
    fusion_weights_ : dict of str to ndarray of shape (n_labels,), or None
        Weights of the views of a wide table, for fusion by evidence.
    fusion_overlap_ : ndarray of shape (n_labels,), or None
        Overlap of the views of a wide table: the evidence of the n views that a row has is
        divided by 1 + overlap (n - 1). 0 unless it is learned.
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
        Names of the labels, in the order of the columns of scores and probabilities. For a wide
        table with labels of one dimension, the two values: 0, then 1.
    ridge_ : float
        The ridge that was used.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the solver reached ``tol``.
    stationarity_ : float
        Relative stationarity residual of the weights; NaN for solver "paper".
    objective_ : float
        Value of the objective at the weights.
    history_ : list of dict
        One record per iteration: "objective" and its parts "loss", "low_rank", "high_rank" and
        "ridge", which add up to it; "change", "primal_residual" and "dual_residual". Solver
        "fast" adds "stationarity", "feasibility", "concave_gap", "mu", and "outer", whether it
        computed the objective and accepted the weights; elsewhere the objective is the last one
        that was accepted. Fits with the same data, parameters and integer ``random_state`` have
        identical records on the same machine with the same number of BLAS threads.
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

    >>> from naim3l import NAIM3L, evaluate
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(
    ...     200, n_features=(12, 9), n_labels=5, missing_labels=0.3, random_state=0
    ... )
    >>> model = NAIM3L(lam=0.4).fit(data.views, data.labels)
    >>> model.converged_
    True
    >>> model.predict({"view1": data.views["view1"][:3]})["view1"]
    array([[1, 0, 1, 0, 0],
           [0, 1, 0, 1, 0],
           [1, 0, 1, 0, 0]])
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    0.99
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CoupledModel._parameter_constraints,
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

    def _fit(self, X: Any, y: Any, checkpoint: Path_ | None, *, compare: bool) -> None:
        learn = compare or Decisions.of(self.decide).learn(not is_separate(X))
        free = self.ridge == AUTO and self.variant == "full"  # checked later
        problem, kept = self._read(X, y, checkpoint, N_FOLDS if learn else 0, free=free)
        self._keep_result(problem, self._solve(problem.whole, kept))
        if learn:
            held_out = self._learn_held_out(problem, kept_in(kept, self._solve_loosely))
            if compare:
                self._compare(problem, *held_out)
        self._checkpoint = kept

    def _check_parameters(self) -> Decisions:
        decisions = super()._check_parameters()
        if self.solver == "paper":
            if self.positive_weight != 1:
                raise ValueError("positive_weight needs solver='fast'; Algorithm 1 has no weights.")
            if self.device != CPU:
                raise ValueError("device needs solver='fast'; Algorithm 1 works on the CPU.")
        return decisions

    @property
    def _in_span(self) -> bool:
        return self.solver != "paper"  # its random start is not, and without a ridge it remains

    def _checkpoint_settings(self) -> dict[str, Any]:
        if self.solver == "paper":
            raise ValueError("checkpoint needs solver='fast'; 'paper' keeps no state.")
        names = ("lam", "variant", "ridge", "positive_weight", "fit_intercept", "mu")
        settings = {name: getattr(self, name) for name in names}
        given = {} if self.init is None else self.init
        start = {view: np.asarray(given[view]).tolist() for view in self.views_ if given}
        return settings | {"init": start or None}

    def _objective(self, problem: Any) -> Objective:
        """The objective, in the form that the solver works on."""
        low_rank, high_rank = VARIANTS[self.variant]
        ridge, paper = self.ridge, self.solver == "paper"
        form = problem.as_rows() if paper else choose_form(move_to(problem, self.device))
        if ridge == AUTO:
            ridge = form.bounding_ridge(self.lam) if high_rank and not paper else 0.0
        return Objective(form, self.lam, low_rank, high_rank, float(ridge))

    def _solve(self, problem: Any, checkpoint: Checkpoint | None = None) -> SolverResult:
        objective = self._objective(problem)
        self.ridge_ = objective.ridge
        options: dict[str, Any] = {"mu": self.mu, "max_iter": self.max_iter, "tol": self.tol}
        if checkpoint is not None:
            options["checkpoint"] = checkpoint
        start = self._start_weights(problem)
        with progress_bar("fit", self.max_iter, shown=self.verbose > 0) as advance:
            options["callback"] = lambda record, W: advance(f"objective {record['objective']:.6g}")
            result = SOLVERS[self.solver](objective, start, **options)
        if self.tol > 0 and not result.converged and not result.interrupted:
            warn_user(self._not_converged(objective, result.history[-1]), ConvergenceWarning)
        return result

    def _not_converged(self, objective: Objective, last: Record) -> str:
        """What a fit has reached that has not converged, and what to do."""
        parts = ("stationarity", "feasibility", "concave_gap", "change")
        reached = ", ".join(f"{name} {last[name]:.1e}" for name in parts if name in last)
        message = (
            f"NAIM3L did not converge in max_iter={self.max_iter} iterations (tol={self.tol:g}): "
            f"{reached}. "
        )
        high_rank = VARIANTS[self.variant][1]
        needed = objective.problem.bounding_ridge(self.lam) if high_rank else 0.0
        if objective.ridge >= needed:
            return (
                f"{message}Raise max_iter or tol; history_ shows whether the objective still moves."
            )
        return (
            f"{message}More iterations will not help: rows without an observed positive are "
            f"rewarded for high rank, and a ridge of {objective.ridge:g} does not limit their "
            f"scores. Use ridge={needed:.2g}"
            f"{'' if self.solver == 'paper' else ' or ridge=' + repr(AUTO)}, lower lam, or use "
            'variant="low-rank".'
        )

    def _start_weights(self, problem: Any) -> Matrix | None:
        """Stacked start weights, (n_weights, n_labels), or None for those of the solver."""
        random = check_random_state(self.random_state)  # raises if it is invalid, for any solver
        if self.init is not None:
            W = given_weights(problem, self.init, self.views_)
        elif self.solver == "paper":
            W = random.uniform(-1, 1, (problem.n_weights, problem.n_labels))
        else:
            return None
        largest = problem.largest_score(W)
        if not largest <= LARGEST_SCORE:
            raise ValueError(
                "the start weights (init, or those that solver='paper' draws) have scores up to "
                f"{largest:.3g}, beyond {LARGEST_SCORE:g}; use smaller ones, or "
                "features='scale'."
            )
        return W

    def _solve_loosely(self, problem: Any) -> Matrix:
        return solve_loosely(self._objective(problem)).W


def solve_loosely(objective: Objective, **options: Any) -> SolverResult:
    """A result that is accurate enough to score held-out entries."""
    result = solve_fast(objective, max_iter=FOLD_MAX_ITER, tol=FOLD_TOL, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def given_weights(problem: Any, init: Mapping[str, NDArray], views: Sequence[str]) -> Matrix:
    """Stacked start weights (n_weights, n_labels) from those of each view, checked."""
    if set(init) != set(views):
        raise ValueError(f"init has views {sorted(init, key=str)}, the data {sorted(views)}.")
    blocks = []
    for v, view in enumerate(views):
        try:
            block = np.asarray(init[view], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"init[{view!r}] must be numbers: {error}.") from None
        expected = (problem.n_columns(v) + problem.fit_intercept, problem.n_labels)
        if block.shape != expected or not (np.abs(block) <= LARGEST_WEIGHT).all():
            raise ValueError(
                f"init[{view!r}] must be finite weights of shape {expected} (transformed "
                f"features{', then the intercept,' if problem.fit_intercept else ''} by labels), "
                f"none beyond {LARGEST_WEIGHT:g}, got shape {block.shape}."
            )
        blocks.append(block)
    return problem.stack_weights(blocks)
