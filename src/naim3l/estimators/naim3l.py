"""NAIM3L: labels learned from tables that cannot be joined."""

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from naim3l._progress import progress_bar
from naim3l.estimators.linear import LinearViewModel
from naim3l.files.checkpoint import Checkpoint, fingerprint, kept_in
from naim3l.input.tables import warn_user
from naim3l.problem.rows import Problem
from naim3l.solvers import SOLVERS, SolverResult, solve_fast
from naim3l.solvers.objective import Objective

# Start weights, and their scores, up to this have squares, and products with features.
LARGEST_WEIGHT, LARGEST_SCORE = 1e100, 1e40
# Inside folds: what held-out entries tell settles long before the weights do.
FOLD_TOL, FOLD_MAX_ITER = 3e-3, 100


@dataclass(eq=False, repr=False)
class NAIM3L(LinearViewModel):
    """Multi-label model of several views whose rows cannot be matched.

    Each view gets a linear model of its own. What couples them is a regulariser on their
    scores: rows that share a label, of whichever view, should have scores of low rank, and
    all rows together scores of high rank. Unknown labels take no part in the loss.

    Parameters
    ----------
    lam : float, default=0.4
        Weight of the regulariser; greater than 0.
    views : mapping of str to columns, optional
        Columns of each view of one wide table: names, positions, a slice or a mask. Columns
        that no view names are ignored. None takes all columns as one view. Leave it out when
        fitting on a mapping of tables.
    transformer : {"auto", "scale", "paper", "histogram"}, transformer, None, or mapping per view, \
default="auto"
        Features of each view, fitted on training rows only. "scale": drop constant columns,
        standardise, PCA, unit length. "paper": the same without standardising,
        dropping all-zero columns only. "histogram": divide by the row's sum, square root,
        PCA, unit length. None: as given. A scikit-learn transformer is cloned for each view
        and sees the view's table as it is. "auto": "scale", or None before a kernel of histograms.
    n_components : int, default=50
        Most principal components that the recipes keep of a view.
    kernel : {"rbf", "chi2", "hellinger", "linear"}, callable, None, or mapping per view, \
default=None
        Kernel between the rows of a view, after its transformer; None is the linear model.
        "hellinger" and "chi2" compare histograms such as counts, see
        `naim3l.features.kernels.KernelMap`.
    n_landmarks : int or None, default=300
        What the kernel compares rows with: that many centres of training rows, or all training
        rows with None, or where there are no more, which is exact and for small data.
    gamma : "auto", float, or mapping per view, default="auto"
        Kernels are ``exp(-gamma distance)``; "auto" is one over the median distance of rows.
    low_rank, high_rank : bool, default=True
        Keep the term. Without both, the model is the masked least-squares fit (the paper's
        variant I); without ``high_rank`` alone it is variant II.
    ridge : float, default=0.0
        Adds ``ridge / 2`` times the squared weights, intercepts excluded.
    positive_weight : float, default=1.0
        What an observed yes counts in the loss, where a no counts 1. More than 1 lifts rare labels.
    fit_intercept : bool, default=True
    label_coding : {"binary", "signed"}, default="binary"
        "binary": 1 yes, 0 no, NaN or null unknown. "signed": 1 yes, -1 no, 0 unknown.
    threshold : {"sign", "f1", "cardinality"}, float, or mapping of label to float, default="sign"
        Score above which `predict` says yes. "sign" is 0, the paper's rule, which with many rare
        labels says no to almost all. "f1" takes the best F1 of each label in each view,
        "cardinality" one value per view with as many yes as are true; both on entries held out
        of the fit in turn.
    calibrate : bool, default=False
        Learn probabilities for `predict_proba`, on held-out entries too: a curve per label, held
        to a common one where few of its entries are known. Either adds three coarse fits.
    fusion : {"mean", "evidence", "learned"}, default="mean"
        How the views of a row of a wide table are fused. "mean" of their scores; "evidence": each
        view calibrated on held-out entries, and what it adds to a label's base rate added up;
        "learned": that with weights per view and group of labels, and with less where views say
        the same twice, as suits held-out entries best. For tables apart, see `naim3l.fuse`.
    solver : {"auto", "fast", "paper"}, default="auto"
        "fast" (which "auto" picks) reaches a stationary point, certifies it, and works on
        statistics of the rows where that is cheaper. "paper" is Algorithm 1 of the paper to the
        letter, for comparison; it can diverge where few rows have an observed positive.
    mu : float, optional
        Penalty of the solver, which changes its path but not where it ends. By default "fast"
        adapts it, and it is 5 for "paper".
    max_iter : int, default=200
    tol : float, default=1e-4
        "fast" stops when the relative residuals of stationarity and feasibility are below it,
        "paper" when weights and auxiliary variables change by less. 0 runs all iterations.
    init : mapping of str to ndarray, optional
        Start weights of each view, (n_features + 1, n_labels) in the transformed space with
        the intercept last, (n_features, n_labels) without intercept. By default "fast" starts
        at a ridge solution, and "paper" at weights drawn uniformly from (-1, 1).
    checkpoint : path, optional
        File to keep the state of a running fit in. A fit of the same data with the same parameters
        that finds it resumes there, and ends at the same weights. A finished fit leaves it, so
        that nothing is lost if the model cannot be saved: `save` deletes it. With many frequent
        labels, whose state would take more than 32 MiB and eight times the weights, it keeps the
        weights alone: a resumed fit is then as good, but not equal to the bit.
    random_state : int, RandomState or None
        Draws the start weights of "paper", and deals the folds of held-out entries.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    coef_ : dict of str to ndarray of shape (n_features, n_labels)
        Weights of each view in its transformed space.
    intercept_ : dict of str to ndarray of shape (n_labels,)
    thresholds_ : dict of str to ndarray of shape (n_labels,)
        By view; of a wide table, under "fused".
    calibration_ : dict of str to Calibration
        With ``calibrate``, the curve of each label, by view or under "fused".
    fusion_weights_ : dict of str to ndarray of shape (n_labels,), or None
        Of a wide table with ``fusion="evidence"`` (then all 1) or "learned".
    fusion_overlap_ : ndarray of shape (n_labels,), or None
        How much its views say the same: what they add is divided by 1 + overlap (n - 1) where a
        row has n of them. 0 with ``fusion="evidence"``.
    base_rates_ : ndarray of shape (n_labels,)
        Share of positives among the known labels of training rows.
    dual_coef_ : dict of str to ndarray of shape (n_landmarks, n_labels)
        Of the views with a kernel: scores are kernel values with the landmarks times these.
    transformers_ : dict of str to fitted transformer or None
    views_ : list of str
    label_names_ : list of str
        From the columns of the label tables, else "label0", "label1", ...
    classes_ : ndarray of shape (n_labels,)
        Names of the labels, in the order of the columns of scores and probabilities. For a wide
        table with labels of one dimension, the two values: no, then yes.
    n_iter_ : int
    converged_ : bool
    stationarity_ : float
        Relative stationarity residual of the weights; NaN for solver "paper".
    objective_ : float
    history_ : list of dict
        One record per iteration: "objective" and its parts "loss", "low_rank", "high_rank",
        "ridge", which add up to it; "change"; "primal_residual"; "dual_residual".
        Solver "fast" adds "stationarity", "feasibility", "concave_gap", "mu", and "outer": whether
        the concave term was linearised anew there. Two fits with the same data, parameters and
        whole ``random_state`` have the same records, to the last bit, on one machine while BLAS
        uses as many threads.
    n_features_in_ : int, or dict of str to int for tables apart
    feature_names_in_ : ndarray of str, or dict of str to ndarray for tables apart
        Only where tables have column names.

    References
    ----------
    X. Li and S. Chen, "A Concise yet Effective Model for Non-Aligned Incomplete Multi-view
    and Missing Multi-label Learning", IEEE TPAMI 44(10), 2022.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(200, n_features=(12, 9), n_labels=5, missing_labels=0.3,
    ...                      random_state=0)
    >>> model = NAIM3L(lam=0.4, tol=0, max_iter=50, random_state=0)
    >>> model = model.fit(data.views, data.labels)
    >>> model.decision_function({"view1": data.views["view1"]})["view1"].shape
    (200, 5)
    """

    lam: float = 0.4
    _: KW_ONLY
    low_rank: bool = True
    high_rank: bool = True
    ridge: float = 0.0
    solver: str = "auto"
    mu: float | None = None
    max_iter: int = 200
    tol: float = 1e-4
    init: Mapping[str, NDArray] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the weights of all views.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
            A table is a NumPy array, SciPy sparse matrix or data frame. A row of a view that
            is entirely NaN lacks the view.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            As many rows as the view's table (as the wide table).

        Returns
        -------
        self
            Fitted. After Ctrl-C the weights of the last whole iteration are kept, too, and
            the interrupt goes on to the caller.
        """
        self._check_parameters(X)
        problem = self._read_training(X, y)
        checkpoint = self._open_checkpoint(problem)
        self._keep_result(problem, self._solve(problem, checkpoint))
        self._learn(problem, kept_in(checkpoint, self._solve_loosely))
        self._keep_checkpoint(checkpoint)
        return self

    def _open_checkpoint(self, problem: Problem) -> Checkpoint | None:
        """The file of ``checkpoint``, opened for this very fit."""
        if self.checkpoint is None:
            return None
        names = ("lam", "low_rank", "high_rank", "ridge", "positive_weight", "fit_intercept", "mu")
        settings = {name: getattr(self, name) for name in names}
        start = [] if self.init is None else [np.asarray(self.init[view]) for view in self.views_]
        return Checkpoint(self.checkpoint, fingerprint([*problem.X, problem.Y, *start], settings))

    def _objective(self, problem: Problem) -> Objective:
        return Objective(
            problem, self.lam, low_rank=self.low_rank, high_rank=self.high_rank, ridge=self.ridge
        )

    def _solve(self, problem: Problem, checkpoint: Checkpoint | None = None) -> SolverResult:
        objective = self._objective(problem)
        W = self._start_weights(problem)
        if W is not None:
            _check_start(problem, W)
        kept: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
        with progress_bar("fit", self.max_iter, shown=self.verbose > 0) as advance:
            result = SOLVERS[self.solver](
                objective,
                W,
                mu=self.mu,
                max_iter=self.max_iter,
                tol=self.tol,
                callback=lambda record, W: advance(f"objective {record['objective']:.6g}"),
                **kept,
            )
        if self.tol > 0 and not result.converged and not result.interrupted:
            warn_user(_not_converged(result, self.max_iter, self.tol), ConvergenceWarning)
        return result

    def _solve_loosely(self, problem: Problem) -> NDArray[np.floating]:
        """Weights good enough to judge held-out entries by."""
        result = solve_fast(self._objective(problem), max_iter=FOLD_MAX_ITER, tol=FOLD_TOL)
        if result.interrupted:
            raise KeyboardInterrupt
        return result.W

    def _start_weights(self, problem: Problem) -> NDArray[np.float64] | None:
        """Stacked start weights, (n_weights, n_labels); None leaves them to the solver."""
        random = check_random_state(self.random_state)  # refuses what is none, with any solver
        if self.init is None and self.solver != "paper":
            return None
        if self.init is None:
            return random.uniform(-1, 1, (problem.n_weights, problem.n_labels))
        if set(self.init) != set(self.views_):
            raise ValueError(
                f"init has views {sorted(self.init, key=str)}, the data {sorted(self.views_)}."
            )
        blocks = []
        for view, weights in zip(self.views_, problem.weight_slices, strict=True):
            try:
                block = np.asarray(self.init[view], dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"init[{view!r}] must be numbers: {error}.") from None
            expected = (weights.stop - weights.start, problem.n_labels)
            if block.shape != expected or not (np.abs(block) <= LARGEST_WEIGHT).all():
                raise ValueError(
                    f"init[{view!r}] must be finite weights of shape {expected} (transformed "
                    f"features{', then the intercept,' if self.fit_intercept else ''} by labels), "
                    f"none beyond {LARGEST_WEIGHT:g}, got shape {block.shape}."
                )
            blocks.append(block)
        return np.concatenate(blocks)


def _check_start(problem: Problem, W: NDArray[np.float64]) -> None:
    """Refuse start weights whose scores are too large to go on from."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.abs(problem.multiply(W)).max()
    if not largest <= LARGEST_SCORE:
        raise ValueError(
            "the start weights (init, or those that solver='paper' draws) have scores up to "
            f"{largest:.3g}, beyond {LARGEST_SCORE:g}; use smaller ones, or transformer='scale'."
        )


def _not_converged(result: SolverResult, max_iter: int, tol: float) -> str:
    last = result.history[-1]
    shown = [
        name for name in ("stationarity", "feasibility", "concave_gap", "change") if name in last
    ]
    reached = ", ".join(f"{name} {last[name]:.1e}" for name in shown)
    advice = "Raise max_iter or tol; history_ shows whether the objective still moves."
    if last["objective"] < 0:
        advice = (
            "Its objective is negative, so the high-rank term outweighs the others and may be "
            "without bound: lower lam, add a ridge, or use high_rank=False."
        )
    return f"NAIM3L did not converge in max_iter={max_iter} iterations (tol={tol:g}): " + (
        f"{reached}. {advice}"
    )
