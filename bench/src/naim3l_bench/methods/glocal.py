"""GLOCAL: labels of few latent labels, with global and local correlations, for aligned rows."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from naim3l.extend import AlignedRows, ConcatenatedModel, Learned, Problem, linear_arrays
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, FACTOR_OR_ZERO, ITERATIONS


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
    views, features, positive_weight, fit_intercept, decide
        As in :class:`naim3l.estimators.FusedRidge`.
    random_state : int, RandomState or None, default=None
        Determines the start, the clusters, and the folds of held-out entries.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
        Weights ``WU'`` of the features of all views, in the order of ``views_``.
    intercept_, fill_, n_encoded_
        As in :class:`naim3l.estimators.FusedRidge`.

    References
    ----------
    Y. Zhu, J. T. Kwok and Z.-H. Zhou, "Multi-Label Learning with Global and Local Label
    Correlation", IEEE TKDE 30(6), 2018.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ConcatenatedModel._parameter_constraints,
        **ITERATIONS,
        "lam": [FACTOR],
        "lam1": [FACTOR_OR_ZERO],
        "lam2": [FACTOR_OR_ZERO],
        "ridge": [FACTOR],  # with 0, factors need not be unique
        "rank": [COUNT],
        "n_clusters": [COUNT],
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

    def _scaled(self, problem: Problem, rank: int, n_clusters: int) -> "Weights":
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


def _start(problem: Problem, rank: int, n_clusters: int, rng: np.random.RandomState) -> "Factors":
    """Random U and Z, zero weights, and any V, which is updated first."""
    n_labels = problem.n_labels
    Z: Matrix = rng.normal(size=(n_clusters, n_labels, rank))
    return Factors(
        U=rng.uniform(size=(n_labels, rank)),
        V=np.zeros((problem.n_rows, rank)),
        W=np.zeros((problem.n_weights, rank)),
        Z=Z / np.linalg.norm(Z, axis=2, keepdims=True),
    )


# Numbers in the matrices of all pairs of latent labels that are in memory at a time.
PAIR_NUMBERS = 2**22
# A system is solved to this accuracy, or for this many steps, each of which lowers the objective.
CG_TOL, CG_STEPS = 1e-8, 100
ROUNDING = 1e-13


@dataclass(frozen=True)
class Factors:
    """Variables of the objective.

    Attributes
    ----------
    U : ndarray of shape (n_labels, rank)
        Labels as combinations of latent labels.
    V : ndarray of shape (n_samples, rank)
        Latent labels of the samples.
    W : ndarray of shape (n_features, rank)
        Weights of the features for the latent labels.
    Z : ndarray of shape (n_clusters, n_labels, correlation_rank)
        Rows of length 1; ``Z_q Z_q'`` is the Laplacian of the labels in cluster q.
    """

    U: Matrix
    V: Matrix
    W: Matrix
    Z: Matrix


@dataclass(frozen=True)
class Weights:
    """Factors of the terms of the objective; see `LabelCorrelations`."""

    latent: float
    local: float
    overall: float
    V: float
    U: float
    W: float


class LabelCorrelations:
    """Objective of factors of labels, with label correlations in clusters of the samples.

    ::

        1/2 sum P * (VU' - Y)^2 + latent/2 |V - XW|^2
        + sum_q [overall n_q/n / 2 |F Z_q|^2 + local/2 |F_q Z_q|^2]        F = XWU', F_q in cluster
        + 1/2 (weights.V |V|^2 + weights.U |U|^2 + weights.W |W|^2)

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_labels)
        1 = yes, -1 = no, 0 = unknown.
    P : ndarray of shape (n_samples, n_labels)
        Weight of each entry in the loss, 0 if it is unknown.
    clusters : bool ndarray of shape (n_clusters, n_samples)
        Which samples each cluster consists of.
    weights : Weights
    """

    def __init__(self, X: Matrix, Y: Matrix, P: Matrix, clusters: Mask, weights: Weights) -> None:
        self.X, self.Y, self.P, self.weights = X, Y, P, weights
        gram = X.T @ X
        # Terms of both kinds of correlations share one matrix of features in each cluster.
        self._grams = np.stack(
            [
                weights.overall * rows.mean() * gram + weights.local * (X[rows].T @ X[rows])
                for rows in clusters
            ]
        )
        diagonal = np.diag_indices_from(gram)
        self._W_system = weights.latent * gram
        self._W_system[diagonal] += weights.W
        # Only a preconditioner, which rounding errors must not make indefinite.
        near = self._W_system.copy()
        near[diagonal] += ROUNDING * np.trace(near)
        self._W_factor = linalg.cho_factor(near)

    def objective(self, at: Factors) -> float:
        """Value of the objective."""
        of, XW = self.weights, self.X @ at.W
        value = np.sum(self.P * (at.V @ at.U.T - self.Y) ** 2)
        value += of.latent * np.sum((at.V - XW) ** 2)
        value += of.V * np.sum(at.V**2) + of.U * np.sum(at.U**2) + of.W * np.sum(at.W**2)
        for C, Z_q in zip(self._latent_grams(at.W), at.Z, strict=True):
            UZ = at.U.T @ Z_q
            value += np.vdot(UZ, C @ UZ)
        return 0.5 * float(value)

    def solve_V(self, at: Factors) -> Matrix:
        """The best V: a system of size rank for each sample."""
        target = (self.P * self.Y) @ at.U + self.weights.latent * (self.X @ at.W)
        V, ridge = np.empty_like(at.V), self.weights.latent + self.weights.V
        for rows, systems in _pair_sums(self.P, at.U):
            systems += ridge * np.eye(at.U.shape[1])
            V[rows] = np.linalg.solve(systems, target[rows, :, None])[:, :, 0]
        return V

    def solve_U(self, at: Factors) -> Matrix:
        """The best U, by conjugate gradients; without correlations, labels would be separate."""
        rank = at.V.shape[1]
        systems = np.concatenate([part for _, part in _pair_sums(self.P.T, at.V)])
        systems += self.weights.U * np.eye(rank)
        inverses, latent_grams = np.linalg.inv(systems), self._latent_grams(at.W)

        def multiply(U: Matrix) -> Matrix:
            product = (systems @ U[:, :, None])[:, :, 0]
            for C, Z_q in zip(latent_grams, at.Z, strict=True):
                product += Z_q @ (Z_q.T @ U) @ C
            return product

        def precondition(U: Matrix) -> Matrix:
            return (inverses @ U[:, :, None])[:, :, 0]

        return _conjugate_gradients(multiply, (self.P * self.Y).T @ at.V, at.U, precondition)

    def solve_W(self, at: Factors) -> Matrix:
        """The best W, by conjugate gradients; without correlations, it would be a ridge fit."""
        correlations = [UZ @ UZ.T for UZ in (at.U.T @ Z_q for Z_q in at.Z)]

        def multiply(W: Matrix) -> Matrix:
            product = self._W_system @ W
            for gram, B in zip(self._grams, correlations, strict=True):
                product += gram @ W @ B
            return product

        def precondition(W: Matrix) -> Matrix:
            return linalg.cho_solve(self._W_factor, W)

        target = self.weights.latent * (self.X.T @ at.V)
        return _conjugate_gradients(multiply, target, at.W, precondition)

    def solve_Z(self, at: Factors) -> Matrix:
        """A better Z: each row in turn becomes the best one of length 1, given the others."""
        Z = at.Z.copy()
        for C, Z_q in zip(self._latent_grams(at.W), Z, strict=True):
            UC = at.U @ C
            own, sums = np.einsum("lk,lk->l", UC, at.U), UC.T @ Z_q
            for k, row in enumerate(at.U):
                # The term is linear in the row, because its length is fixed.
                slope = row @ sums - own[k] * Z_q[k]
                length = np.linalg.norm(slope)
                if length > 0:
                    better = -slope / length
                    sums += np.outer(UC[k], better - Z_q[k])
                    Z_q[k] = better
        return Z

    def _latent_grams(self, W: Matrix) -> Matrix:
        """Matrices (n_clusters, rank, rank) of the latent labels in the correlation terms."""
        return W.T @ self._grams @ W


def _pair_sums(P: Matrix, A: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """``A' diag(p) A`` for the rows p of ``P``, some rows at a time.

    Parameters
    ----------
    P : ndarray of shape (m, n)
    A : ndarray of shape (n, rank)

    Yields
    ------
    rows : slice
    sums : ndarray of shape (n_rows, rank, rank)
    """
    rank = A.shape[1]
    step = max(1, PAIR_NUMBERS // rank**2)
    for start in range(0, len(P), step):
        rows, sums = slice(start, start + step), None
        for at in range(0, len(A), step):
            part = A[at : at + step]
            pairs = (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
            added = P[rows, at : at + step] @ pairs
            sums = added if sums is None else sums + added
        assert sums is not None
        yield rows, sums.reshape(-1, rank, rank)


def _conjugate_gradients(
    multiply: Callable[[Matrix], Matrix],
    target: Matrix,
    start: Matrix,
    precondition: Callable[[Matrix], Matrix],
) -> Matrix:
    """Solution of a positive definite system whose unknowns are a matrix."""
    shape, size = target.shape, target.size

    def of_vectors(function: Callable[[Matrix], Matrix]) -> LinearOperator:
        return LinearOperator(
            (size, size), lambda x: function(x.reshape(shape)).ravel(), dtype=target.dtype
        )

    found, _ = cg(
        of_vectors(multiply),
        target.ravel(),
        start.ravel(),
        rtol=CG_TOL,
        maxiter=CG_STEPS,
        M=of_vectors(precondition),
    )
    return found.reshape(shape)
