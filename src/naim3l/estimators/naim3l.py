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
from naim3l.estimators.compared import ComparedModel
from naim3l.estimators.schema import AUTO
from naim3l.estimators.start import check_start, given_weights
from naim3l.files.checkpoint import Checkpoint, fingerprint, kept_in
from naim3l.input.tables import warn_user
from naim3l.problem.boundedness import bounding_ridge
from naim3l.problem.choice import choose_form, move_to
from naim3l.problem.compressed import Form
from naim3l.problem.on_device import CPU
from naim3l.problem.rows import Problem
from naim3l.problem.streamed import all_entries
from naim3l.solvers import SOLVERS, SolverResult, solve_fast
from naim3l.solvers.objective import Objective

# Inside folds: scores of held-out entries are accurate long before the weights are.
FOLD_TOL, FOLD_MAX_ITER = 3e-3, 100


@dataclass(eq=False, repr=False)
class NAIM3L(ComparedModel):
    """Multi-label model of several views whose rows cannot be matched.

    Each view has a linear model of its own. A regulariser couples them: the scores of rows that
    share a label, in all views together, should have low rank, and the scores of all rows high
    rank. Unknown labels are left out of the loss.

    Parameters
    ----------
    lam : float, default=0.4
        Weight of the regulariser; greater than 0. The best value depends on the data: choose it
        with `NAIM3LCV`.
    views : mapping of str to columns, optional
        Columns of each view of one wide table: names, positions, a slice or a mask. Other
        columns are ignored. With None all columns are one view. Leave it out when fitting on a
        mapping of tables.
    transformer : {"auto", "scale", "paper", "histogram"}, transformer, None, or mapping per view, \
default="auto"
        Features of each view, fitted on training rows only. "scale" drops constant columns,
        standardises, applies PCA and normalises rows to unit length. "paper" does the same
        without standardising, and drops only columns of zeros. "histogram", for counts, divides
        by the row's sum, takes square roots, applies PCA and normalises rows. None leaves the
        columns unchanged. A scikit-learn transformer is cloned for each view and receives the
        view's table unchanged. "auto" turns cells of all kinds into numbers, then applies
        "scale": missing numbers are replaced by the mean, dates become days, and each frequent
        value of text becomes a column; ids, free text and columns that are almost empty are set
        aside, see ``columns_``. For a kernel of histograms, "auto" is None without ids.
    n_components : int, default=50
        Maximum number of principal components per view in the recipes "scale", "paper" and
        "histogram". Increase it for wide views with many rows.
    kernel : {"rbf", "chi2", "hellinger", "laplacian", "linear"}, callable, None, or mapping per \
view, default=None
        Kernel between the rows of a view, after its transformer; None is the linear model.
        "hellinger", "chi2" and "laplacian" compare histograms such as counts, see
        `naim3l.features.kernels.KernelMap`.
    n_landmarks : int or None, default=300
        Number of landmarks, with which the kernel compares rows: cluster centres of the training
        rows. With None, or if there are no more training rows, all of them are used, which is
        exact but only suitable for small data.
    gamma : "auto", float, or mapping per view, default="auto"
        Kernels are ``exp(-gamma distance)``; "auto" is one over the median distance of rows.
    low_rank, high_rank : bool, default=True
        Whether the objective has the term. Without both, the model is the masked least-squares
        fit (the paper's variant I); without ``high_rank`` alone it is variant II.
    ridge : float or "auto", default="auto"
        Adds ``ridge / 2`` times the squared weights. Intercepts are excluded, unless their label
        is known in no row of the view. Increase it when few labels are known. "auto" is the
        smallest value for which the high-rank term alone cannot raise the scores of one label in
        one view beyond the size of labels, apart from intercepts; the objective then has a lower
        bound. It is 0 if enough labels are known. With solver "paper", "auto" is 0.
    positive_weight : float, default=1.0
        Weight of an observed yes in the loss, relative to that of a no. Values above 1 raise the
        scores of rare labels.
    fit_intercept : bool, default=True
        Whether each label has an intercept in each view.
    label_coding : {"binary", "signed"}, default="binary"
        "binary": 1 is yes, 0 is no, NaN or null is unknown. "signed": 1 is yes, -1 is no, 0 is
        unknown.
    threshold : {"sign", "guarded", "cardinality", "f1", "half"}, float, or mapping of label to \
float, default="sign"
        Score above which a label is predicted. "sign" is 0, the paper's rule, which predicts
        rare labels almost never. Other rules are learned from entries that are held out of three
        additional coarse fits: "f1" maximises the F1 of each label in each view; "cardinality" is
        one value per view, at which as many labels are predicted as are positive; "half" is the
        score with a probability of one half; "guarded" maximises the F1 over all entries without
        making decisions less accurate than each label's more frequent value. `predict` can use
        another rule with ``decide=``.
    calibrate : bool, default=False
        Whether to learn the probabilities of `predict_proba`, from held-out entries as well: a
        calibration curve per label, shrunk towards a common one if few of its entries are known.
    compare : bool, default=False
        Whether to measure the model on held-out entries, beside guessing by the frequencies of
        the labels and beside ridge regression per view, which does not couple the views.
    fusion : {"mean", "evidence", "learned"}, default="mean"
        How the views of a row of a wide table are fused. "mean" is the mean of their scores.
        "evidence" calibrates each view on held-out entries, and adds up its evidence beyond the
        base rate of a label. "learned" also learns weights per view and group of labels, and how
        much the views overlap. For a mapping of tables, see `naim3l.fuse`.
    solver : {"auto", "fast", "paper"}, default="auto"
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
    checkpoint : path, optional
        File for the state of a running fit. A later fit with the same data and parameters
        resumes there and ends at the same weights. The file remains after the fit, in case the
        model cannot be saved; `save` deletes it. With many frequent labels, whose state would
        take more than 32 MiB and eight times the weights, only the weights are kept: a resumed
        fit is then equally good, but not equal to the last bit.
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
    thresholds_ : dict of str to ndarray of shape (n_labels,)
        Thresholds by view; for a wide table under the key "fused".
    rules_ : dict of str to dict of str to ndarray of shape (n_labels,)
        Thresholds of every learned rule, with the same keys; empty if none was learned.
    calibration_ : dict of str to Calibration
        With ``calibrate``, the curves of the labels by view; for a wide table under "fused".
    fusion_weights_ : dict of str to ndarray of shape (n_labels,), or None
        Weights of the views of a wide table, for ``fusion="evidence"`` (all 1) and "learned".
    fusion_overlap_ : ndarray of shape (n_labels,), or None
        Overlap of the views of a wide table: the evidence of the n views that a row has is
        divided by 1 + overlap (n - 1). 0 for ``fusion="evidence"``.
    base_rates_ : ndarray of shape (n_labels,)
        Share of positives among the known labels of training rows.
    view_rates_ : dict of str to ndarray of shape (n_labels,)
        The same by view, shrunk towards the share in all views; with the keys of ``thresholds_``.
    held_out_ : dict
        With ``compare``, metrics of held-out entries: "blocks", "labels" and "calibration", as
        in the result of `naim3l.report.summarise`.
    uncoupled_ : PerViewRidge
        With ``compare``, the model without coupling, with a ridge chosen on the same folds.
    dual_coef_ : dict of str to ndarray of shape (n_landmarks, n_labels)
        Weights of the kernel values of the landmarks, for views with a kernel.
    gamma_ : dict of str to float or None
        Gamma of the kernel of each view, None for views without one.
    transformers_ : dict of str to fitted transformer or None
        Transformers by view.
    columns_ : dict of str to list of ColumnUse
        What became of each column of a view: its name, kind and share of missing cells, how it
        is used, and why not if it is set aside.
    views_ : list of str
        Names of the views.
    label_names_ : list of str
        Columns of the label tables, or "label0", "label1", ... if they have no names.
    classes_ : ndarray of shape (n_labels,)
        Names of the labels, in the order of the columns of scores and probabilities. For a wide
        table with labels of one dimension, the two values: no, then yes.
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

    lam: float = 0.4
    _: KW_ONLY
    low_rank: bool = True
    high_rank: bool = True
    ridge: float | str = AUTO
    solver: str = "auto"
    mu: float | None = None
    max_iter: int = 200
    tol: float = 1e-4
    init: Mapping[str, NDArray] | None = None
    device: str = CPU
    checkpoint: str | os.PathLike[str] | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the weights of all views.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
            A table is a NumPy array, SciPy sparse matrix or data frame. A row of a view that
            is entirely NaN lacks the view. Tables with more rows than memory holds can be a
            dask.dataframe, a dask.array, or Parquet files (a file, folder, pattern such as
            ``"parts/*.parquet"``, or pyarrow.dataset), which are read in two or three passes.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Labels of the rows of ``X``, in the coding that ``label_coding`` names. For Parquet
            files, names of columns in the same files will do.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. The model has the weights of the last complete iteration.

        Examples
        --------
        >>> import pandas as pd
        >>> from naim3l import NAIM3L
        >>> clinic = pd.DataFrame({"age": [61, 35, 58, 29], "fever": [37.2, 39.1, 36.9, 38.8]})
        >>> lab = pd.DataFrame({"crp": [88.0, 3.0, 95.0, 2.0, 5.0]})
        >>> labels = {
        ...     "clinic": pd.DataFrame({"flu": [0, 1, 0, 1], "gout": [1, 0, None, 0]}),
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
        self._check_parameters(X)
        problem = self._read_training(X, y)
        whole, checkpoint = all_entries(problem), self._checkpoint_of(problem)
        self._keep_result(problem, self._solve(whole, checkpoint))
        self._learn(problem, kept_in(checkpoint, self._solve_loosely))
        self._keep_checkpoint(checkpoint)
        return self

    def _in_span(self) -> bool:
        return self.solver != "paper"  # its random start is not, and without a ridge it remains

    def _has_free_scores(self) -> bool:
        return self.ridge == AUTO and self.high_rank

    def _open_checkpoint(self, data: list[Any], **more: Any) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        names = ("lam", "low_rank", "high_rank", "ridge", "positive_weight", "fit_intercept", "mu")
        settings = {name: getattr(self, name) for name in names} | more
        start = [] if self.init is None else [np.asarray(self.init[view]) for view in self.views_]
        return Checkpoint(self.checkpoint, fingerprint([*data, *start], settings))

    def _objective(self, problem: Form) -> Objective:
        """The objective, in the form that the solver works on."""
        if self.solver == "paper" and not isinstance(problem, Problem):
            raise ValueError(
                "solver='paper' works on rows in memory; tables that are read in parts need "
                "solver='auto'."
            )
        form = problem
        if self.solver != "paper":
            form = choose_form(move_to(problem, self.device))
        terms = {"low_rank": self.low_rank, "high_rank": self.high_rank}
        ridge = self.ridge
        if ridge == AUTO:
            may_fall = self.high_rank and self.solver != "paper"
            ridge = bounding_ridge(problem, self.lam, form) if may_fall else 0.0
        return Objective(form, self.lam, ridge=float(ridge), **terms)

    def _solve(self, problem: Form, checkpoint: Checkpoint | None = None) -> SolverResult:
        objective = self._objective(problem)
        self.ridge_ = objective.ridge
        W = self._start_weights(problem)
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
            advice = self._advice(problem, objective)
            message = _not_converged(result, self.max_iter, self.tol)
            warn_user(f"{message} {advice}", ConvergenceWarning)
        return result

    def _advice(self, problem: Form, objective: Objective) -> str:
        """What to do if a fit has not converged."""
        needed = bounding_ridge(problem, self.lam, objective.problem) if self.high_rank else 0.0
        if objective.ridge >= needed:
            return "Raise max_iter or tol; history_ shows whether the objective still moves."
        return (
            "More iterations will not help: rows without an observed positive are rewarded for "
            f"high rank, and a ridge of {objective.ridge:g} does not limit their scores. Use "
            f"ridge={needed:.2g}{'' if self.solver == 'paper' else ' or ridge=' + repr(AUTO)}, "
            "lower lam, or use high_rank=False."
        )

    def _start_weights(self, problem: Form) -> NDArray[np.floating] | None:
        """Stacked start weights, (n_weights, n_labels), or None for those of the solver."""
        random = check_random_state(self.random_state)  # raises if it is invalid, for any solver
        if self.init is not None:
            return given_weights(problem, self.init, self.views_)
        if self.solver != "paper":
            return None
        W = random.uniform(-1, 1, (problem.n_weights, problem.n_labels))
        check_start(problem, W)
        return W

    def _solve_loosely(self, problem: Form) -> NDArray[np.floating]:
        """Weights that are accurate enough to score held-out entries."""
        result = solve_fast(self._objective(problem), max_iter=FOLD_MAX_ITER, tol=FOLD_TOL)
        if result.interrupted:
            raise KeyboardInterrupt
        return result.W


def _not_converged(result: SolverResult, max_iter: int, tol: float) -> str:
    last = result.history[-1]
    shown = [
        name for name in ("stationarity", "feasibility", "concave_gap", "change") if name in last
    ]
    reached = ", ".join(f"{name} {last[name]:.1e}" for name in shown)
    return f"NAIM3L did not converge in max_iter={max_iter} iterations (tol={tol:g}): {reached}."
