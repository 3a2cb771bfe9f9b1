"""Kernel maps: features whose inner products are, or approximate, values of a kernel (Nystroem).

With landmarks ``L`` and ``K = k(L, L)``, the features of a row ``x`` are ``k(x, L) K^(-1/2)``. A
linear model on these, with all training rows as landmarks, is therefore the kernel model.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import additive_chi2_kernel, euclidean_distances, linear_kernel
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController

from naim3l._arrays import Matrix, as_dense, as_numpy
from naim3l._device import CPU, find_device, is_usable
from naim3l.features.recipes import Recipe
from naim3l.files.stored import Array, Guest, Maybe, Number, OneOf, Plain, Text, Whole

N_LANDMARKS = 300
LANDMARKS = ("kmeans", "leverage", "uniform")
AUTO = "auto"
EQUAL_ROWS = 1e-12  # share of the squares of rows below which their distance is rounding error
MEDIAN_ROWS = 1000  # the median distance is taken over pairs of these
# Rounds of k-means, after which centres hardly move, and number of rows per centre to cluster.
KMEANS_ROUNDS, KMEANS_ROWS = 10, 50
LEAST_SHARE = 1e-10  # of the largest direction of a kernel matrix; others are rounding error
LEAST_VALUE = 1e-50  # smaller values of a kernel, which would vanish when squared, are 0
BLOCK_NUMBERS = 2**27  # of pairs of rows whose columns are compared one by one on a device


@dataclass(frozen=True)
class Comparison:
    """How a kernel compares rows."""

    # Functions of two tables, and of tensors: distances of rows, or inner products if linear.
    on_cpu: Callable[[Any, Any], Any]
    on_device: Callable[[Any, Any], Any]
    gamma: bool = True  # whether values of the kernel are exp(-gamma distance)
    histograms: bool = False  # whether rows are divided by their sum, so must not be negative
    roots: bool = False  # whether square roots are taken after that
    sparse: bool = True  # whether sparse rows are supported


def _chi2(A: Any, B: Any) -> Matrix:
    # scikit-learn requires a writable array, though it does not write to it.
    return -additive_chi2_kernel(A, np.require(B, requirements="W"))


def _device_chi2(A: Any, B: Any) -> Any:
    """``sum (x - y)^2 / (x + y)``."""
    found = A.new_empty((A.shape[0], B.shape[0]))
    step = max(1, BLOCK_NUMBERS // max(1, B.shape[0] * B.shape[1]))
    for start in range(0, A.shape[0], step):
        x = A[start : start + step, None]
        total = x + B
        found[start : start + step] = ((x - B).square() / total.where(total > 0, 1.0)).sum(dim=-1)
    return found


def _device_manhattan(A: Any, B: Any) -> Any:
    import torch

    return torch.cdist(A, B, p=1.0)


def _device_squared(A: Any, B: Any) -> Any:
    squares = A.square().sum(dim=1)[:, None] + B.square().sum(dim=1)
    return (squares - 2 * (A @ B.T)).clamp_(min=0)


_SQUARED = (partial(euclidean_distances, squared=True), _device_squared)
_MANHATTAN = (partial(cdist, metric="cityblock"), _device_manhattan)
KERNELS = {
    "linear": Comparison(
        partial(linear_kernel, dense_output=True), lambda A, B: A @ B.T, gamma=False
    ),
    "rbf": Comparison(*_SQUARED),
    "chi2": Comparison(_chi2, _device_chi2, histograms=True, sparse=False),
    "laplacian": Comparison(*_MANHATTAN, histograms=True, roots=True, sparse=False),
    "hellinger": Comparison(*_SQUARED, histograms=True, roots=True),
}
HISTOGRAM_KERNELS = tuple(name for name, of in KERNELS.items() if of.histograms)


@dataclass(frozen=True)
class Kernel:
    """Features of a view by a kernel, which compares rows with landmarks.

    Exact with all training rows as landmarks, otherwise an approximation (Nystroem).

    Parameters
    ----------
    name : {"rbf", "chi2", "laplacian", "hellinger", "linear"} or callable, default="rbf"
        "rbf" is ``exp(-gamma d)`` with the squared Euclidean distance ``d``. The next three use
        distances between histograms, that is, rows divided by their sum: "chi2"
        ``sum (x - y)^2 / (x + y)``, "laplacian" and "hellinger" the sum of absolute and of squared
        differences of square roots. They are meant for counts; "hellinger" takes a fraction of the
        time, and "laplacian" is the most accurate on histograms of images. A callable is a function
        of two tables of rows that returns the matrix of kernel values.
    n_landmarks : int or None, default=300
        Number of landmarks. None, or a number above that of training rows, uses all of these.
    gamma : "auto" or float, default="auto"
        "auto" is one over the median distance between training rows; `NAIM3LCV` also tries half
        and twice of it.
    landmarks : {"kmeans", "leverage", "uniform"}, default="kmeans"
        Centres of k-means; rows drawn by ridge leverage scores, which prefer rows that are not
        similar to others; or rows drawn uniformly.
    recipe : Recipe, name of one, transformer or None, default="auto"
        What is done to the columns first. "auto" is ``Recipe()``, and for kernels of histograms
        ``Recipe(None)``, which leaves numbers as they are.

    Examples
    --------
    >>> from naim3l import NAIM3L, Kernel
    >>> NAIM3L(features=Kernel("hellinger", n_landmarks=100)).lam
    0.4
    """

    name: Any = "rbf"
    n_landmarks: int | None = N_LANDMARKS
    gamma: Any = AUTO
    landmarks: str = "kmeans"
    recipe: Any = AUTO

    _stored: ClassVar[Mapping[str, Any]] = {
        "name": Text(KERNELS),
        "n_landmarks": Maybe(Whole(1)),
        "gamma": OneOf({"number": Number(above=0), "text": Text((AUTO,))}),
        "landmarks": Text(LANDMARKS),
        "recipe": OneOf({"value": Plain(), "recipe": Recipe, "guest": Guest()}),
    }

    @property
    def _comparison(self) -> Comparison | None:
        """How it compares rows; None for a function of the user."""
        return None if callable(self.name) else KERNELS[self.name]

    def fit(self, rows: Any, *, device: str = CPU) -> "KernelMap":
        """The kernel with landmarks from rows; models do this themselves, after the recipe.

        Parameters
        ----------
        rows : ndarray or sparse array of float, of shape (n_rows, n_columns)
            Training rows, without missing numbers; for kernels of histograms, not negative.
        device : str, default="cpu"
            Where rows are compared, as in :class:`naim3l.NAIM3L`.

        Returns
        -------
        KernelMap
            Its method ``apply`` gives the features of rows.

        Examples
        --------
        >>> import numpy as np
        >>> from naim3l import Kernel
        >>> rows = np.random.default_rng(0).normal(size=(20, 5))
        >>> Kernel("rbf", n_landmarks=4).fit(rows).apply(rows).shape
        (20, 4)
        """
        rng = check_random_state(0)  # the same rows have the same landmarks
        unfitted = KernelMap(self.name, None, np.empty((0, 0)), np.empty((0, 0)), device)
        rows = unfitted.prepare(rows)
        unfitted = replace(unfitted, gamma=self._bandwidth(unfitted, rows, rng))
        root = unfitted.inverse_root(landmarks := self._choose_landmarks(unfitted, rows, rng))
        return replace(unfitted, landmarks=landmarks, normalization=root)

    def _bandwidth(self, unfitted: "KernelMap", rows: Any, rng: Any) -> float | None:
        if self._comparison is None or not self._comparison.gamma:
            return None
        if self.gamma != AUTO:
            return float(self.gamma)
        some = rows[rng.permutation(rows.shape[0])[:MEDIAN_ROWS]]
        distances = unfitted.compare(some, some)[np.triu_indices(some.shape[0], 1)]
        # The distance of equal rows is a rounding error of their squares.
        squares = some.multiply(some) if issparse(some) else some**2
        distances = distances[distances > EQUAL_ROWS * squares.sum(axis=1).max()]
        if not len(distances):
            raise ValueError(
                f"all rows are equal (n_samples = {rows.shape[0]}): no distance to take gamma "
                "from. Leave the view out, or give it a number as gamma."
            )
        return float(1 / np.median(distances))

    def _choose_landmarks(self, unfitted: "KernelMap", rows: Any, rng: Any) -> Any:
        n_rows, n_landmarks = rows.shape[0], self.n_landmarks
        if n_landmarks is None or n_landmarks >= n_rows:
            return as_dense(rows)
        if self.landmarks == "kmeans":
            some = rows[rng.permutation(n_rows)[: KMEANS_ROWS * n_landmarks]]
            return _centres(some, n_landmarks)
        chosen = rng.permutation(n_rows)[:n_landmarks]
        if self.landmarks == "leverage":
            # Scores are estimated from uniform landmarks: exact ones need the kernel of all rows.
            pilot = rows[chosen]
            features = unfitted.values(rows, pilot) @ unfitted.inverse_root(pilot)
            root = np.linalg.cholesky(features.T @ features + np.eye(features.shape[1]))
            scores = np.sum(np.linalg.solve(root, features.T) ** 2, axis=0)
            scores += np.finfo(float).tiny  # rows of zeros must have a positive probability
            chosen = rng.choice(n_rows, n_landmarks, replace=False, p=scores / scores.sum())
        return as_dense(rows[np.sort(chosen)])


@dataclass(frozen=True, eq=False)
class KernelMap:
    """A kernel with its landmarks."""

    name: Annotated[Any, Text(KERNELS)]
    gamma: Annotated[float | None, Maybe(Number(above=0))]  # None if the kernel has none
    # (n_landmarks, n_columns), prepared.
    landmarks: Annotated[Matrix, Array("f", "landmarks", "inputs")]
    # K^(-1/2), up to a rotation, (n_landmarks, n_features).
    normalization: Annotated[Matrix, Array("f", "landmarks", "features")]
    device: Annotated[str, Text()] = CPU  # where rows are compared; on the CPU where it is missing

    @property
    def n_features(self) -> int:
        return int(self.normalization.shape[1])

    def apply(self, rows: Any) -> Matrix:
        """Features of rows (n_rows, n_columns), (n_rows, n_features)."""
        return self.values(self.prepare(rows), self.landmarks) @ self.normalization

    def with_gamma(self, gamma: float) -> "KernelMap":
        """The map with another gamma, and the same landmarks."""
        changed = replace(self, gamma=gamma)
        return replace(changed, normalization=changed.inverse_root(self.landmarks))

    def prepare(self, rows: Any) -> Any:
        """Rows, normalised as the kernel requires."""
        comparison = None if callable(self.name) else KERNELS[self.name]
        if issparse(rows) and (comparison is None or not comparison.sparse):
            raise TypeError(
                f"kernel {self.name!r} does not take sparse tables; use table.toarray(), or "
                "another kernel."
            )
        if comparison is None or not comparison.histograms:
            return rows
        rows = normalize(rows, norm="l1")
        return np.sqrt(rows) if comparison.roots else rows

    def compare(self, A: Any, B: Any) -> Matrix:
        """Distances, or inner products, of two tables of prepared rows, on the device."""
        comparison = KERNELS[self.name]
        if is_usable(self.device):
            return as_numpy(comparison.on_device(_move(A, self.device), _move(B, self.device)))
        return np.asarray(comparison.on_cpu(A, B))

    def values(self, A: Any, B: Any) -> Matrix:
        """Kernel matrix of two tables of prepared rows."""
        if callable(self.name):
            return _checked_values(self.name(A, B), (A.shape[0], B.shape[0]))
        if not KERNELS[self.name].gamma:
            return self.compare(A, B)
        assert self.gamma is not None
        values = np.exp(-self.gamma * self.compare(A, B))
        return np.where(values < LEAST_VALUE, 0, values)

    def inverse_root(self, landmarks: Any) -> Matrix:
        """``K^(-1/2)`` of landmarks, up to a rotation, without directions of rounding error."""
        K = self.values(landmarks, landmarks)
        tolerance = 1e-8 * np.abs(K).max()
        if not np.allclose(K, K.T, atol=tolerance):
            raise ValueError("kernel: the values of rows with each other are not symmetric.")
        if callable(self.name):
            alone = self.values(landmarks[:1], landmarks)
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


@ThreadpoolController().wrap(limits=1, user_api="openmp")  # sums of threads depend on their order
def _centres(rows: Any, n_centres: int) -> Matrix:
    """Centres of k-means of rows in random order."""
    # Starts at the first rows: with many centres, k-means++ takes longer than all rounds.
    start = as_dense(rows[:n_centres])
    means = KMeans(n_centres, init=start, n_init=1, max_iter=KMEANS_ROUNDS)
    with warnings.catch_warnings():
        # The warning is about duplicate rows, whose centres coincide, which is harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(means.fit(rows).cluster_centers_)


def _move(rows: Any, device: str) -> Any:
    import torch

    array = np.ascontiguousarray(as_dense(rows), dtype=np.float64)
    if not array.flags.writeable:  # torch warns of arrays that it could change
        array = array.copy()
    return torch.from_numpy(array).to(find_device(device))
