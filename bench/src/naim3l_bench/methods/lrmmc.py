"""lrMMC: a low-rank representation of all views, and labels completed with it."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from naim3l.extend import (
    AlignedModel,
    AlignedRows,
    Learned,
    singular_value_threshold,
    trace_norm,
)
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.methods.alternation import Record, alternate
from naim3l_bench.methods.constraints import COUNT, FACTOR, ITERATIONS
from naim3l_bench.methods.shared_space import fold_in, rescale, unit_rows

# Factor between the weights of the trace norm for which labels are completed one after another.
RATIO = 0.25
# Proximal gradient steps of the representation for each update of its maps to the views.
STEPS = 10
# Directions of the representation with a smaller share of its largest singular value are left out.
SMALLEST_SHARE = 1e-6
TINY = 1e-150


@dataclass(eq=False, repr=False)
class LRMMC(AlignedModel):
    """Labels completed together with a low-rank representation of all views, for aligned rows.

    The first stage finds a representation B of the n samples, from which every view is linear: it
    minimises ::

        lam/sqrt(n) |B|_* + 1/n sum_v |X_v - B T_v|^2 + ridge |T|^2

    over the rows that have the view. The second, matrix completion "MC-1", minimises ::

        m |Z|_* + 1/(2 n_x) |Z_B - B|^2 + label_weight/n_y sum P log(1 + exp(-Y Z_Y))

    over ``Z = [Z_Y, Z_B, 1]``, with n_x numbers in ``B`` and n_y known labels. Views are centred
    and scaled to rows of length 1 on average, and B to entries of 1 on average.

    Both objectives are those of the authors' program, where lam is mu times sqrt(n), ridge is eta
    and label_weight is lambda; it concatenates views without the weights of the paper, chooses m on
    validation rows, knows no missing views, and labels its own rows only. Leaving missing rows out
    of the sum, the scales, a fixed m and scores of new rows are ours. A new row has the b that a
    training row with the same views would have, and its scores are the least-squares map of B to
    ``Z_Y``.

    Parameters
    ----------
    lam : float, default=0.01
        Weight of the trace norm of the representation; greater than 0. With larger values it has a
        lower rank.
    ridge : float, default=0.01
        Weight of the squared maps from the representation to the views; greater than 0.
    label_weight : float, default=1.0
        Weight of the labels in the completion, relative to that of the representation.
    shrinkage : float, default=0.1
        Weight of the trace norm in the completion; greater than 0. Each step reduces singular
        values by this share of the largest one that a matrix of noise of the same size would have.
    rank : int, default=100
        Number of columns of B, of which the trace norm leaves fewer; at most that of the features
        is used.
    fill_missing : bool, default=False
        Whether a missing view is replaced by the mean of the training rows that have it, as
        comparisons with this method are likely to have done.
    max_iter : int, default=500
        Maximum number of iterations of each stage. A fit that has not converged by then warns.
    tol : float, default=1e-4
        Relative decrease of the objective at which to stop; 0 runs all iterations.
    views, features, positive_weight, decide
        As in :class:`naim3l.estimators.FusedRidge`.
    random_state : int, RandomState or None, default=None
        Determines the start, and the folds of held-out entries.

    Attributes
    ----------
    basis_ : ndarray of shape (n_features, rank)
        ``T'`` of all views, in the order of ``views_``, along the singular vectors of B.
    penalties_ : ndarray of shape (rank,)
        Weights of the squared representation of a new row.
    coef_ : ndarray of shape (rank, n_labels)
        Weights of the representation.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    filled_ : bool ndarray of shape (n_views,)
        Whether a row that lacks a view has the mean of the training rows there.
    centre_, scale_ : ndarray of shape (n_features,)
        What is subtracted from features, and by what they are then divided.
    history_ : list of dict
        One record per iteration, with the "objective" and the "stage", 1 or 2. The second has
        several weights of the trace norm, "m", and the objective falls for each of them.

    References
    ----------
    M. Liu, Y. Luo, D. Tao, C. Xu and Y. Wen, "Low-Rank Multi-View Learning in Matrix Completion
    for Multi-Label Image Classification", AAAI 2015. A. Goldberg et al., "Transduction with Matrix
    Completion: Three Birds with One Stone", NIPS 2010.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AlignedModel._parameter_constraints,
        **ITERATIONS,
        "lam": [FACTOR],
        "ridge": [FACTOR],  # with 0, the objective has no minimiser
        "label_weight": [FACTOR],
        "shrinkage": [FACTOR],
        "rank": [COUNT],
        "fill_missing": ["boolean"],
    }
    _fold_tol = 1e-3
    _shapes: ClassVar[dict[str, str]] = {
        "basis": "dr",
        "penalties": "r",
        "coef": "rc",
        "intercept": "c",
        "centre": "d",
        "scale": "d",
        "filled": "v",
    }
    _masks = frozenset({"filled"})

    lam: float = 0.01
    _: KW_ONLY
    ridge: float = 0.01
    label_weight: float = 1.0
    shrinkage: float = 0.1
    rank: int = 100
    fill_missing: bool = False
    max_iter: int = 500
    tol: float = 1e-4

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        centre, scale = unit_rows(rows)
        X = rescale(rows.features, rows.present, centre, scale)
        filled = np.full(len(rows.present), self.fill_missing, dtype=bool)
        used = rows.present | filled[:, None]
        views = CommonRepresentation(X, used, self.lam, self.ridge)
        rank = min(self.rank, sum(rows.widths))
        first = _represent(views, rng.uniform(size=(len(rows.Y), rank)), self.max_iter, self.tol)
        if first.interrupted:  # without the second stage there are no scores
            return Learned({}, interrupted=True)
        B = first.arrays.pop("points")
        completion = LabelCompletion(rows.Y, rows.P, B, self.label_weight)
        second = _complete(completion, self.shrinkage, self.max_iter, self.tol)
        coef, intercept = _least_squares(B, second.arrays.pop("scores"))
        return Learned(
            {
                **first.arrays,
                "coef": coef,
                "intercept": intercept,
                "centre": centre,
                "scale": scale,
                "filled": filled,
            },
            first.history + second.history,
            first.converged and second.converged,
            second.interrupted,
        )

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        X = rescale(features, present, arrays["centre"], arrays["scale"])
        used = present | arrays["filled"][:, None]
        B = fold_in(arrays["basis"], X, used, np.diag(arrays["penalties"]))
        return B @ arrays["coef"] + arrays["intercept"]


def _represent(views: "CommonRepresentation", B: Matrix, max_iter: int, tol: float) -> Learned:
    """First stage, from a start: "points" B, "basis" T' and "penalties" along singular vectors."""
    T = views.solve_T(B)

    def update() -> Record:
        nonlocal B, T
        new = views.solve_T(B)
        B, T = views.shrink_B(B, new, STEPS), new
        return {"objective": views.objective(B, T), "stage": 1.0}

    learned = alternate(update, max_iter, tol)
    squares, vectors = np.linalg.eigh(B.T @ B)
    sigma = np.sqrt(squares.clip(0))
    kept = sigma >= SMALLEST_SHARE * sigma[-1]
    sigma, vectors = np.maximum(sigma[kept], TINY), vectors[:, kept]
    # Entries of 1 on average.
    factor = np.sqrt(len(B) * len(sigma)) / np.linalg.norm(sigma)
    learned.arrays = {
        "points": factor * (B @ vectors),
        "basis": np.hstack(T).T @ vectors / factor,
        # At the minimum, the trace norm is as a row's squares with these weights.
        "penalties": len(B) * views.trace_weight / (2 * sigma * factor**2),
    }
    return learned


def _complete(
    completion: "LabelCompletion", shrinkage: float, max_iter: int, tol: float
) -> Learned:
    """Second stage: the completed "scores" of all samples and labels."""
    Z, sigma = completion.start()
    learned = Learned({})
    least = shrinkage * np.sqrt(Z.shape).sum()
    for threshold in _path(RATIO * sigma, least):
        weight = threshold / completion.step
        value = completion.objective(Z, weight)

        def update(weight: float = weight) -> Record:
            nonlocal Z, value
            new = completion.shrink(Z, weight)
            # The column of ones is outside of the step's guarantee.
            if (objective := completion.objective(new, weight)) <= value:
                Z, value = new, objective
            return {"objective": value, "stage": 2.0, "m": weight}

        part = alternate(update, max_iter, tol)
        learned = Learned({}, learned.history + part.history, part.converged, part.interrupted)
        if part.interrupted:
            break
    learned.arrays = {"scores": Z[:, : completion.Y.shape[1]]}
    return learned


def _path(first: float, last: float) -> list[float]:
    """Falling values, each a fixed share of the one before, down to the last."""
    n_larger = max(int(np.ceil(np.log(last / first) / np.log(RATIO))), 0)
    return [*(first * RATIO ** np.arange(n_larger)), last]


def _least_squares(B: Matrix, scores: Matrix) -> tuple[Matrix, Matrix]:
    """Coefficients (rank, n_labels) and intercepts (n_labels,) of scores that are linear in B."""
    means = B.mean(axis=0)
    coef = np.linalg.lstsq(B - means, scores - scores.mean(axis=0), rcond=None)[0]
    return coef, scores.mean(axis=0) - means @ coef


@dataclass(frozen=True)
class CommonRepresentation:
    """First stage of `LRMMC`: views as products of a matrix of low rank and a map to each view.

    Attributes
    ----------
    features : list of ndarray, each of shape (n_samples, n_features_v)
        ``X_v``, zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_samples)
    lam, ridge : float
    """

    features: list[Matrix]
    present: Mask
    lam: float
    ridge: float

    def objective(self, B: Matrix, T: list[Matrix]) -> float:
        """Value at ``B`` (n_samples, rank) and ``T_v`` (rank, n_features_v) of all views."""
        loss, _ = self.loss_and_gradient(B, T)
        penalty = sum(float(np.vdot(T_v, T_v)) for T_v in T)
        return self.trace_weight * float(trace_norm(B)) + loss + self.ridge * penalty

    @property
    def trace_weight(self) -> float:
        """Factor of the trace norm, which grows like the root of the number of samples."""
        return self.lam / np.sqrt(self.present.shape[1])

    def loss_and_gradient(self, B: Matrix, T: list[Matrix]) -> tuple[float, Matrix]:
        """The squared residuals of present rows over n, and their gradient in ``B``."""
        n_samples, loss, gradient = len(B), 0.0, np.zeros_like(B)
        for X_v, has_view, T_v in zip(self.features, self.present, T, strict=True):
            residual = (B @ T_v - X_v) * has_view[:, None]
            loss += float(np.vdot(residual, residual)) / n_samples
            gradient += (2 / n_samples) * (residual @ T_v.T)
        return loss, gradient

    def solve_T(self, B: Matrix) -> list[Matrix]:
        """The minimiser over ``T`` for fixed ``B``."""
        ridge = self.ridge * len(B) * np.eye(B.shape[1])
        T = []
        for X_v, has_view in zip(self.features, self.present, strict=True):
            B_v = B[has_view]
            T.append(np.linalg.solve(B_v.T @ B_v + ridge, B_v.T @ X_v[has_view]))
        return T

    def shrink_B(self, B: Matrix, T: list[Matrix], n_steps: int) -> Matrix:
        """``B`` after proximal gradient steps for fixed ``T``; none raises the objective."""
        curvature = 2 / len(B) * np.linalg.eigvalsh(sum(T_v @ T_v.T for T_v in T))[-1]
        if curvature <= 0:
            return np.zeros_like(B)
        for _ in range(n_steps):
            _, gradient = self.loss_and_gradient(B, T)
            B = singular_value_threshold(B - gradient / curvature, self.trace_weight / curvature)
        return B


@dataclass(frozen=True)
class LabelCompletion:
    """Second stage of `LRMMC`: a low-rank matrix close to labels, representation and ones.

    Attributes
    ----------
    Y, P : ndarray of shape (n_samples, n_labels)
        Signed labels, 0 where unknown, and their weights.
    B : ndarray of shape (n_samples, rank)
    label_weight : float
    """

    Y: Matrix
    P: Matrix
    B: Matrix
    label_weight: float

    def start(self) -> tuple[Matrix, float]:
        """``[Y, B, 1]``, (n_samples, n_labels + rank + 1), in rank 1, and its singular value."""
        Z = np.hstack([self.Y, self.B, np.ones((len(self.B), 1))])
        squares, vectors = np.linalg.eigh(Z.T @ Z)
        nearest = np.outer(Z @ vectors[:, -1], vectors[:, -1])
        nearest[:, -1] = 1
        return nearest, float(np.sqrt(squares[-1]))

    @property
    def step(self) -> float:
        """Step length at which the loss is majorised."""
        of_labels = 3.8 * self._n_known / (self.label_weight * max(self.P.max(), 1e-300))
        return float(min(of_labels, self.B.size))

    @property
    def _n_known(self) -> int:
        return max(int(np.count_nonzero(self.Y)), 1)

    def loss_and_gradient(self, Z: Matrix) -> tuple[float, Matrix]:
        """The objective without its first term, and its gradient in ``Z``."""
        c = self.Y.shape[1]
        margin = self.Y * Z[:, :c]
        residual = Z[:, c:-1] - self.B
        by_label = self.label_weight / self._n_known * self.P
        loss = float(np.vdot(by_label, np.logaddexp(0, -margin)))
        loss += float(np.vdot(residual, residual)) / (2 * self.B.size)
        of_ones = np.zeros((len(Z), 1))
        gradient = [-by_label * self.Y * expit(-margin), residual / self.B.size, of_ones]
        return loss, np.hstack(gradient)

    def objective(self, Z: Matrix, lam: float) -> float:
        return lam * float(trace_norm(Z)) + self.loss_and_gradient(Z)[0]

    def shrink(self, Z: Matrix, lam: float) -> Matrix:
        """A proximal gradient step, after which the last column is set to 1 again."""
        _, gradient = self.loss_and_gradient(Z)
        Z = singular_value_threshold(Z - self.step * gradient, self.step * lam)
        Z[:, -1] = 1
        return Z
