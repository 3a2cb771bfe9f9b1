"""Features that experiments compute besides those of naim3l's own recipes and kernels."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import normalize

from naim3l import Kernel, Recipe
from naim3l.extend import HISTOGRAM_KERNELS
from naim3l_bench.arrays import Matrix

# All rows are landmarks of a kernel whose components are computed, unless there are more than this.
MOST_LANDMARKS = 4000


def with_features(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a model, from those of a task, which are values of JSON.

    "kernel" and "n_landmarks" become a `Kernel`, and a recipe with "n_components" a `Recipe`.
    """
    options = dict(parameters)
    if "kernel" in options:
        sizes = {"n_landmarks": options.pop("n_landmarks")} if "n_landmarks" in options else {}
        options["features"] = Kernel(options.pop("kernel"), **sizes)
    if "n_components" in options:
        n_components = options.pop("n_components")
        options["features"] = Recipe(options["features"], n_components, plan=False)
    return options


class _Transformer(TransformerMixin, BaseEstimator):
    """Base of transformers that compute the features of training rows while they are fitted."""

    def fit(self, X: NDArray, y: None = None) -> Self:
        self.fit_transform(X)
        return self


class GivenKernel(_Transformer):
    """Features of a kernel as in a model, but for the gamma, which no search changes.

    Parameters
    ----------
    kernel : Kernel
        With gamma "auto", by which landmarks are drawn, too, and the default recipe.
    gamma : float, optional
        By default one over the median distance between training rows.
    """

    def __init__(self, kernel: Kernel, gamma: float | None = None) -> None:
        self.kernel = kernel
        self.gamma = gamma

    def fit_transform(self, X: NDArray, y: None = None) -> Matrix:
        self.recipe_ = None
        if self.kernel.name not in HISTOGRAM_KERNELS:
            self.recipe_, X = Recipe().fit(X)
        self.map_ = self.kernel.fit(X)
        if self.gamma is not None:
            self.map_ = self.map_.with_gamma(self.gamma)
        self.gamma_ = self.map_.gamma
        return self.map_.apply(X)

    def transform(self, X: NDArray) -> Matrix:
        return self.map_.apply(X if self.recipe_ is None else self.recipe_.apply(X))


class KernelComponents(_Transformer):
    """Leading components of the rows in the space of a kernel (kernel PCA).

    Parameters
    ----------
    name : str
        Name of the kernel.
    n_components : int
    """

    def __init__(self, name: str, n_components: int) -> None:
        self.name = name
        self.n_components = n_components

    def fit_transform(self, X: NDArray, y: None = None) -> Matrix:
        self.map_ = Kernel(self.name, MOST_LANDMARKS).fit(X)
        rows = self.map_.apply(X)
        self.recipe_, _ = Recipe("paper", self.n_components).fit(rows)
        return self.recipe_.components(rows)

    def transform(self, X: NDArray) -> Matrix:
        return self.recipe_.components(self.map_.apply(X))


class FourthRoots(_Transformer):
    """Recipe "histogram" with square roots taken twice.

    Parameters
    ----------
    n_components : int
    """

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def fit_transform(self, X: NDArray, y: None = None) -> Matrix:
        self.recipe_, features = Recipe("histogram", self.n_components).fit(_roots(X))
        return features

    def transform(self, X: NDArray) -> Matrix:
        return self.recipe_.apply(_roots(X))


def _roots(X: NDArray) -> Matrix:
    return np.sqrt(normalize(X, norm="l1"))
