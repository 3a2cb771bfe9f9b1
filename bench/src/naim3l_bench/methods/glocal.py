"""GLOCAL: labels of few latent labels, with global and local correlations, for aligned rows."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from naim3l.extend import (
    PARAMETERS,
    AlignedRows,
    ConcatenatedModel,
    Learned,
    Problem,
    in_range,
    linear_arrays,
    whole_number,
)
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.correlations import Factors, LabelCorrelations, Weights


@dataclass(eq=False, repr=False)
class GLOCAL(ConcatenatedModel):
    """Few latent labels with correlations overall and in clusters of rows, for aligned rows.

    The features of all views are concatenated; a row that lacks a view has the mean of the
    training rows that have it. Labels are combinations U of latent labels V, which are linear in
    the features, so that scores are ``F = XWU'``. With ``L_q = Z_q Z_q'`` and rows of ``Z_q`` of
    length 1, in clusters q of the n rows, the fit minimises ::

        1/2 |P * (VU' - Y)|^2 + a lam/2 |V - XW|^2
        + sum_q [b lam2 n_q/n / 2 tr(F L_q F') + c lam1/2 tr(F_q L_q F_q')]
        + ridge/2 (d |V|^2 + e |U|^2 + f |W|^2)

    Objective and the scales a to f, which adapt the parameters to the size of the data, are those
    of the authors' program, as are the defaults for one of their datasets, except that of
    ``ridge`` (0.125 there). Its updates by gradient descent are replaced by exact ones of V, U and
    W in turn, and of Z row by row, so that the objective never rises; its first rounds without
    correlations are left out. An intercept is a further feature, whose weights are penalised as
    well. How views are concatenated and filled follows later comparisons.

    Parameters
    ----------
    lam : float, default=1.0
        Weight of the distance of the latent labels from those that features predict.
    lam1 : float, default=1e-5
        Weight of the label correlations in clusters; 0 leaves them out. By default both kinds of
        correlations change scores very little.
    lam2 : float, default=1e-3
        Weight of the label correlations over all rows; 0 leaves them out.
    ridge : float, default=0.25
        Weight of the squared factors; greater than 0. Increase it when few labels are known.
    rank : int, default=20
        Number of latent labels, and of columns of ``Z_q``; at most that of the labels is used.
        Increase it if there are many labels.
    n_clusters : int, default=3
        Number of clusters of rows, found by k-means.
    max_iter : int, default=100
        Maximum number of iterations. A fit that has not converged by then warns.
    tol : float, default=1e-3
        Relative decrease of the objective at which to stop; 0 runs all iterations.
    views, transformer, n_components, kernel, n_landmarks, gamma, positive_weight, \
fit_intercept, label_coding, threshold, calibrate
        As in :class:`naim3l.estimators.FusedRidge`.
    random_state : int, RandomState or None, default=None
        Determines the start, the clusters, and the folds of held-out entries.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
        Weights ``WU'`` of the features of all views, in the order of ``views_``.
    intercept_, fill_, n_encoded_
        As in :class:`naim3l.estimators.FusedRidge`.
    history_ : list of dict
        One record per iteration, with the "objective".
    gamma_, thresholds_, rules_, calibration_, base_rates_, view_rates_, transformers_, views_, \
label_names_, classes_, n_iter_, converged_, objective_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    References
    ----------
    Y. Zhu, J. T. Kwok and Z.-H. Zhou, "Multi-Label Learning with Global and Local Label
    Correlation", IEEE TKDE 30(6), 2018.

    Examples
    --------
    >>> from naim3l import evaluate, join_views
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l_bench.methods import GLOCAL
    >>> data = make_unpaired(
    ...     60, n_features=(9, 8), n_labels=4, aligned=True, missing_labels=0.3, random_state=0
    ... )
    >>> wide, views = join_views(data.views)
    >>> model = GLOCAL(views=views, random_state=0).fit(wide, data.labels["view0"])
    >>> metrics = evaluate(data.complete_labels["view0"], model.decision_function(wide))
    >>> round(metrics["AP"], 2)
    0.99
    """

    _schema = PARAMETERS | {
        "ridge": in_range("ridge"),  # with 0, factors need not be unique
        "lam1": in_range("lam", or_zero=True),
        "lam2": in_range("lam", or_zero=True),
        "rank": whole_number(at_least=1),
        "n_clusters": whole_number(at_least=1),
    }

    lam: float = 1.0
    _: KW_ONLY
    lam1: float = 1e-5
    lam2: float = 1e-3
    ridge: float = 0.25
    rank: int = 20
    n_clusters: int = 3
    max_iter: int = 100
    tol: float = 1e-3

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        fill = rows.means()
        problem = self._fused_problem(rows, fill)
        [X], clusters = problem.X, _clusters(problem, self.n_clusters, rng)
        rank = min(self.rank, problem.n_labels)
        weights = self._scaled(problem, rank, len(clusters))
        objective = LabelCorrelations(X, problem.Y, problem.P, clusters, weights)
        at = _start(problem, rank, len(clusters), rng)

        def update() -> Record:
            nonlocal at
            at = replace(at, V=objective.solve_V(at))
            at = replace(at, U=objective.solve_U(at))
            at = replace(at, W=objective.solve_W(at))
            at = replace(at, Z=objective.solve_Z(at))
            return {"objective": objective.objective(at)}

        learned = alternate(update, self.max_iter, self.tol)
        learned.arrays = linear_arrays(problem, at.W @ at.U.T, fill)
        return learned

    def _scaled(self, problem: Problem, rank: int, n_clusters: int) -> Weights:
        """Factors of the terms for data of this size."""
        (n_rows, n_labels), n_known = problem.Y.shape, float((problem.Y != 0).sum())
        return Weights(
            latent=self.lam * n_known / (rank * n_rows),
            local=self.lam1 * n_known * (n_clusters / n_rows) ** 2,
            overall=self.lam2 * n_known / n_rows**2,
            V=self.ridge * n_known / (n_rows * rank),
            U=self.ridge * n_known / (n_labels * rank),
            W=self.ridge * n_known / (problem.n_weights * rank),
        )


def _clusters(problem: Problem, n_clusters: int, rng: np.random.RandomState) -> Mask:
    """Clusters of the rows, (n_clusters, n_rows)."""
    [X] = problem.features
    n_clusters = min(n_clusters, len(X))
    with warnings.catch_warnings():  # of equal rows, which leave clusters empty
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = KMeans(n_clusters, n_init=1, random_state=rng).fit_predict(X)
    return np.arange(n_clusters)[:, None] == labels


def _start(problem: Problem, rank: int, n_clusters: int, rng: np.random.RandomState) -> Factors:
    """Random U and Z, zero weights, and any V, which is updated first."""
    n_labels = problem.n_labels
    Z: Matrix = rng.normal(size=(n_clusters, n_labels, rank))
    return Factors(
        U=rng.uniform(size=(n_labels, rank)),
        V=np.zeros((problem.n_rows, rank)),
        W=np.zeros((problem.n_weights, rank)),
        Z=Z / np.linalg.norm(Z, axis=2, keepdims=True),
    )
