"""Kernel maps: features whose inner products are, or approximate, values of a kernel (Nystroem).

With landmarks ``L`` and ``K = k(L, L)``, the features of a row ``x`` are ``k(x, L) K^(-1/2)``.
Inner products of two rows are then ``k(x, L) K^(-1) k(L, x')``, which equals ``k(x, x')`` for
landmarks. A linear model on these features, with all training rows as landmarks, is therefore the
kernel model: weights ``W`` are dual weights ``A = K^(-1/2) W``, scores are ``k(x, L) A``, and
the squared weights are ``tr(A' K A)``.
"""

import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import additive_chi2_kernel, euclidean_distances, linear_kernel
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from naim3l._arrays import Matrix
from naim3l._parameters import RANGES, check_choice, check_in_range, check_whole_number
from naim3l.features.device_kernels import (
    centres,
    chi2_distances,
    inner_products,
    manhattan_distances,
    squared_distances,
)
from naim3l.problem.on_device import CPU, check_device, is_usable


def _squared_distances(A: Any, B: Any) -> Matrix:
    return np.asarray(euclidean_distances(A, B, squared=True))


def _chi2_distances(A: Any, B: Any) -> Matrix:
    # scikit-learn requires a writable array, though it does not write to it.
    return -additive_chi2_kernel(A, np.require(B, requirements="W"))


def _manhattan_distances(A: Any, B: Any) -> Matrix:
    return np.asarray(cdist(A, B, "cityblock"))


@dataclass(frozen=True)
class Kernel:
    """Definition of a kernel.

    Attributes
    ----------
    distances : callable or None
        Function of two tables of n and m rows that returns their distances (n, m); values of the
        kernel are ``exp(-gamma distance)``. None if they are the inner products of the rows.
    histograms : bool
        Whether rows are divided by their sum first, so that they must not be negative.
    roots : bool
        Whether square roots are taken after that.
    sparse : bool
        Whether sparse rows are supported.
    on_device : callable
        The same distances, or inner products, given a device as well.
    """

    distances: Callable[[Any, Any], Matrix] | None
    on_device: Callable[..., Matrix]
    histograms: bool = False
    roots: bool = False
    sparse: bool = True


KERNELS = {
    "linear": Kernel(None, inner_products),
    "rbf": Kernel(_squared_distances, squared_distances),
    "chi2": Kernel(_chi2_distances, chi2_distances, histograms=True, sparse=False),
    "laplacian": Kernel(
        _manhattan_distances, manhattan_distances, histograms=True, roots=True, sparse=False
    ),
    "hellinger": Kernel(_squared_distances, squared_distances, histograms=True, roots=True),
}
HISTOGRAM_KERNELS = tuple(name for name, kernel in KERNELS.items() if kernel.histograms)
LANDMARKS = ("kmeans", "leverage", "uniform")
N_LANDMARKS = 300
# Rows are equal if their squared distance is below this share of their squares.
EQUAL_ROWS = 1e-12
# The median distance is taken over pairs of this many rows.
MEDIAN_ROWS = 1000
# Rounds of k-means, after which centres hardly move, and number of rows per centre to cluster.
KMEANS_ROUNDS, KMEANS_ROWS = 10, 50
# Directions of the landmarks' kernel matrix below this share of the largest are rounding error.
LEAST_SHARE = 1e-10
# Values of a kernel below this are 0: a centre between distant rows is similar to none of them, and
# a column of numbers that vanish when squared would be refused.
LEAST_VALUE = 1e-50


class KernelMap(TransformerMixin, BaseEstimator):
    """Nystroem features of a kernel; exact with all training rows as landmarks.

    scikit-learn's Nystroem draws landmarks uniformly and needs a given bandwidth.

    Parameters
    ----------
    kernel : {"rbf", "chi2", "laplacian", "hellinger", "linear"} or callable, default="rbf"
        "rbf" is ``exp(-gamma d)`` with the squared Euclidean distance ``d``. The next three use
        distances between histograms, that is, rows divided by their sum: "chi2"
        ``sum (x - y)^2 / (x + y)``, "laplacian" and "hellinger" the sum of absolute and of squared
        differences of square roots. They are meant for counts; "hellinger" takes a fraction of the
        time, and "laplacian" is the most accurate on histograms of images. A callable is a function
        of two tables of rows that returns the matrix of kernel values.
    n_landmarks : int or None, default=300
        Number of landmarks. None, or a number above that of training rows, uses all of these.
    gamma : "auto" or float, default="auto"
        "auto" is one over the median distance between training rows.
    landmarks : {"kmeans", "leverage", "uniform"}, default="kmeans"
        Centres of k-means; rows drawn by ridge leverage scores, which prefer rows that are not
        similar to others; or rows drawn uniformly.
    random_state : int, RandomState or None, default=0
        Determines the landmarks, and the rows of the median distance.
    device : str, default="cpu"
        Where rows are compared and clustered: "cuda", a GPU, needs the extra ``torch``, and a fit
        is refused without one. A fitted map works on the CPU where it is missing. Callables always
        work on the CPU.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        Landmarks, normalised as the kernel requires.
    normalization_ : ndarray of shape (n_landmarks, n_components)
        ``K^(-1/2)``, up to a rotation.
    gamma_ : float or None
        Gamma of the kernel; None if it has none.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_landmarks: int | None = N_LANDMARKS,
        gamma: Any = "auto",
        landmarks: str = "kmeans",
        random_state: Any = 0,
        device: str = CPU,
    ):
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.gamma = gamma
        self.landmarks = landmarks
        self.random_state = random_state
        self.device = device

    def fit(self, X, y=None):
        check_kernel("kernel", self.kernel)
        check_gamma("gamma", self.gamma)
        check_landmarks("n_landmarks", self.n_landmarks)
        check_choice("landmarks", self.landmarks, LANDMARKS)
        check_device("device", self.device)
        rows = self._prepare(X, reset=True)
        rng = check_random_state(self.random_state)
        self.gamma_ = self._bandwidth(rows, rng)
        self.landmarks_ = self._choose_landmarks(rows, rng)
        self.normalization_ = self._inverse_root(self.landmarks_)
        return self

    def transform(self, X):
        check_is_fitted(self)
        return self._values(self._prepare(X, reset=False), self.landmarks_) @ self.normalization_

    def with_gamma(self, gamma: float) -> "KernelMap":
        """The fitted map with another ``gamma_``, and the same landmarks."""
        check_is_fitted(self)
        other = copy(self)
        other.gamma_ = gamma
        other.normalization_ = other._inverse_root(self.landmarks_)
        return other

    def get_feature_names_out(self, input_features=None):
        check_is_fitted(self)
        return np.array([f"kernel{j}" for j in range(self.normalization_.shape[1])], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.positive_only = self.of_histograms
        return tags

    @property
    def of_histograms(self) -> bool:
        """Whether rows must not be negative."""
        return isinstance(self.kernel, str) and self.kernel in HISTOGRAM_KERNELS

    @property
    def _takes_sparse(self) -> bool:
        return self.kernel in list(KERNELS) and KERNELS[self.kernel].sparse

    @property
    def _distances(self) -> Callable[[Any, Any], Matrix] | None:
        """Distances that gamma multiplies; None if the kernel has no gamma."""
        if callable(self.kernel) or KERNELS[self.kernel].distances is None:
            return None
        return self._comparison

    @property
    def _comparison(self) -> Callable[[Any, Any], Matrix]:
        """Distances, or inner products, of two tables of prepared rows, on the device."""
        kernel = KERNELS[self.kernel]
        if is_usable(self.device):
            return partial(kernel.on_device, device=self.device)
        return kernel.distances or partial(linear_kernel, dense_output=True)

    def _prepare(self, X: Any, *, reset: bool) -> Any:
        """Rows, checked and normalised as the kernel requires."""
        sparse = "csr" if self._takes_sparse else False
        X = validate_data(self, X, reset=reset, accept_sparse=sparse, dtype=np.float64)
        if not self.of_histograms:
            return X
        if (lowest := X.min()) < 0:
            raise ValueError(
                f"Negative values in data: kernel {self.kernel!r} compares histograms, which have "
                f"none, but {lowest:g} occurs."
            )
        X = normalize(X, norm="l1")
        return np.sqrt(X) if KERNELS[self.kernel].roots else X

    def _values(self, A: Any, B: Any) -> Matrix:
        """Kernel matrix of two tables of prepared rows."""
        if callable(self.kernel):
            return _checked_values(self.kernel(A, B), (A.shape[0], B.shape[0]))
        if self._distances is None:
            return np.asarray(self._comparison(A, B))
        assert self.gamma_ is not None
        values = np.exp(-self.gamma_ * self._distances(A, B))
        return np.where(values < LEAST_VALUE, 0, values)

    def _bandwidth(self, rows: Any, rng: np.random.RandomState) -> float | None:
        if self._distances is None:
            return None
        if self.gamma != "auto":
            return float(self.gamma)
        some = rows[rng.permutation(rows.shape[0])[:MEDIAN_ROWS]]
        distances = self._distances(some, some)[np.triu_indices(some.shape[0], 1)]
        # The distance of equal rows is a rounding error of their squares.
        squares = some.multiply(some) if issparse(some) else some**2
        distances = distances[distances > EQUAL_ROWS * squares.sum(axis=1).max()]
        if not len(distances):
            raise ValueError(
                f"all rows are equal (n_samples = {rows.shape[0]}): no distance to take gamma "
                "from. Leave the view out, or give it a number as gamma."
            )
        return float(1 / np.median(distances))

    def _choose_landmarks(self, rows: Any, rng: np.random.RandomState) -> Any:
        n_rows, n_landmarks = rows.shape[0], self.n_landmarks
        if n_landmarks is None or n_landmarks >= n_rows:
            return _dense(rows)
        if self.landmarks == "kmeans":
            some = rows[rng.permutation(n_rows)[: KMEANS_ROWS * n_landmarks]]
            if is_usable(self.device):
                return centres(some, n_landmarks, KMEANS_ROUNDS, self.device)
            return _centres(some, n_landmarks)
        chosen = rng.permutation(n_rows)[:n_landmarks]
        if self.landmarks == "leverage":
            # Scores are estimated from uniform landmarks: exact ones need the kernel of all rows.
            pilot = rows[chosen]
            scores = _leverage(self._values(rows, pilot) @ self._inverse_root(pilot))
            scores += np.finfo(float).tiny  # rows of zeros must have a positive probability
            chosen = rng.choice(n_rows, n_landmarks, replace=False, p=scores / scores.sum())
        return _dense(rows[np.sort(chosen)])

    def _inverse_root(self, landmarks: Any) -> Matrix:
        """``K^(-1/2)`` of landmarks, up to a rotation, without directions of rounding error."""
        K = self._values(landmarks, landmarks)
        tolerance = 1e-8 * np.abs(K).max()
        if not np.allclose(K, K.T, atol=tolerance):
            raise ValueError("kernel: the values of rows with each other are not symmetric.")
        if callable(self.kernel):
            alone = self._values(landmarks[:1], landmarks)
            if not np.allclose(alone, K[:1], atol=tolerance):
                raise ValueError(
                    "kernel: the values of a row change with the other rows that are given; they "
                    "must depend on each pair alone."
                )
        eigenvalues, vectors = np.linalg.eigh(K)
        if eigenvalues[0] < -1e-6 * abs(eigenvalues[-1]) or eigenvalues[-1] <= 0:
            raise ValueError(
                "kernel: its matrix has a negative eigenvalue, or none above 0, so it is not a "
                "kernel of any features."
            )
        kept = eigenvalues > LEAST_SHARE * eigenvalues[-1]
        return np.asarray(vectors[:, kept] / np.sqrt(eigenvalues[kept]))


def _checked_values(values: Any, shape: tuple[int, int]) -> Matrix:
    """The result of a user's kernel, checked to be a matrix of finite numbers."""
    K = np.asarray(values)
    if K.dtype.kind not in "biuf" or K.shape != shape or not np.isfinite(K).all():
        has = f"got shape {K.shape}" if K.shape != shape else f"got {K.dtype}, not all finite"
        raise ValueError(
            f"kernel: a matrix of finite numbers is needed, of shape {shape} for tables of "
            f"{shape[0]} and {shape[1]} rows; {has}."
        )
    return K.astype(np.float64, copy=False)


def _dense(rows: Any) -> Matrix:
    # Model files cannot contain sparse arrays, and landmarks are few.
    return rows.toarray() if issparse(rows) else rows


@ThreadpoolController().wrap(limits=1, user_api="openmp")  # sums of threads depend on their order
def _centres(rows: Any, n_centres: int) -> Matrix:
    """Centres of k-means of rows in random order."""
    # Starts at the first rows: with many centres, k-means++ takes longer than all rounds.
    start = _dense(rows[:n_centres])
    means = KMeans(n_centres, init=start, n_init=1, max_iter=KMEANS_ROUNDS)
    with warnings.catch_warnings():
        # The warning is about duplicate rows, whose centres coincide, which is harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(means.fit(rows).cluster_centers_)


def _leverage(features: Matrix) -> Matrix:
    """Ridge leverage score of each row, with a ridge of one: how much it differs from others."""
    gram = features.T @ features
    root = np.linalg.cholesky(gram + np.eye(len(gram)))
    return np.sum(np.linalg.solve(root, features.T) ** 2, axis=0)


def check_kernel(name: str, kernel: Any) -> None:
    """Refuse anything but the name of a kernel or a function."""
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in KERNELS):
        raise ValueError(
            f"{name} must be one of {list(KERNELS)} or (in Python) a function, got {kernel!r}."
        )


def check_gamma(name: str, gamma: Any) -> None:
    if isinstance(gamma, str) and gamma == "auto":
        return
    try:
        check_in_range(name, gamma, of="gamma")
    except ValueError:
        allowed = RANGES["gamma"]
        raise ValueError(
            f"{name} must be 'auto' or a finite number > 0, from {allowed.least:g} to "
            f"{allowed.most:g}, got {gamma!r}."
        ) from None


def check_landmarks(name: str, n_landmarks: Any) -> None:
    if n_landmarks is None:
        return
    try:
        check_whole_number(name, n_landmarks, at_least=1)
    except ValueError:
        raise ValueError(
            f"{name} must be a whole number >= 1, or None (in Python) for all training rows, got "
            f"{n_landmarks!r}."
        ) from None


def of_view(name: str, value: Any, view: str) -> Any:
    """Value of a parameter for a view, from a mapping of views to values or from one value."""
    if not isinstance(value, Mapping):
        return value
    if view not in value:
        raise ValueError(f"{name}: no entry for view {view!r}; it has {list(value)}.")
    return value[view]
