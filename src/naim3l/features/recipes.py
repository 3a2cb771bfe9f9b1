"""Feature recipes for views, as pipelines of scikit-learn."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler, normalize
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import check_is_fitted, validate_data

from naim3l._parameters import check_choice, check_whole_number

MAX_COMPONENTS = 50
# PCA decomposes the covariance of up to this many columns, otherwise the rows.
COVARIANCE_COLUMNS = 1000


def _column_ranges(X: Any) -> tuple[NDArray, NDArray]:
    """Smallest and largest value of each column."""
    return min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(axis=0), X.max(axis=0))


class DropConstantColumns(SelectorMixin, BaseEstimator):
    """Drop the columns that are constant in the training rows.

    Parameters
    ----------
    only_zero : bool, default=False
        Drop only columns of zeros, and keep other constants.
    """

    def __init__(self, only_zero: bool = False):
        self.only_zero = only_zero

    def fit(self, X, y=None):
        check_choice("only_zero", self.only_zero, (True, False))
        X = validate_data(self, X, accept_sparse="csr")
        return self.fit_ranges(X.shape[0], *_column_ranges(X))

    def fit_ranges(self, n_rows: int, lowest: NDArray, highest: NDArray) -> Self:
        """`fit` from the number of rows, and the ranges of the columns, each (n_columns,)."""
        self.n_features_in_ = len(lowest)
        self.kept_ = (lowest != 0) | (highest != 0) if self.only_zero else lowest < highest
        if not self.kept_.any():
            what = "zero" if self.only_zero else "constant"
            raise ValueError(
                f"every column is {what} in all rows (n_samples = {n_rows}): nothing to learn "
                "from; leave the view out."
            )
        return self

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.kept_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RootHistogram(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide each row by its sum, then take square roots: counts become comparable.

    Euclidean distances between the results are Hellinger distances between histograms.
    """

    def fit(self, X, y=None):
        self._check(X, reset=True)
        return self

    def transform(self, X):
        check_is_fitted(self)
        return np.sqrt(normalize(self._check(X, reset=False), norm="l1"))

    def _check(self, X, *, reset):
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)
        lowest = X.min()
        if lowest < 0:
            raise ValueError(
                f"Negative values in data: a histogram has none, but {lowest:g} occurs."
            )
        return X

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


class LeadingComponents(TransformerMixin, BaseEstimator):
    """PCA to at most ``max_components`` dimensions, fewer if the rows span fewer.

    scikit-learn's PCA refuses more components than rows or columns, and its automatic choice of
    algorithm is approximate for wide tables; this one is exact.

    Parameters
    ----------
    max_components : int
    """

    def __init__(self, max_components: int = MAX_COMPONENTS):
        self.max_components = max_components

    def fit(self, X, y=None):
        check_whole_number("max_components", self.max_components, at_least=1)
        X = self._check(X, reset=True)
        n_rows, n_columns = X.shape
        n_components = self._most(n_rows, *_column_ranges(X))
        # PCA subtracts products of means, which loses digits if means are large; sparse rows
        # cannot be centred first without losing their zeros.
        self.offset_ = np.zeros(n_columns) if sparse.issparse(X) else X.mean(axis=0)
        X = self._shift(X)
        solver = "covariance_eigh" if n_columns <= COVARIANCE_COLUMNS else "arpack"
        pca = PCA(n_components, svd_solver=solver, random_state=0)
        return self._keep(pca.set_output(transform="default").fit(X))

    def fit_scatter(
        self, n_rows: int, mean: NDArray, scatter: NDArray, lowest: NDArray, highest: NDArray
    ) -> Self:
        """`fit` from the scatter of the rows, (n_columns, n_columns), the sum of their squares.

        The other arrays, (n_columns,), are means and ranges of the columns. The result is that of
        dense rows, except for rounding.
        """
        check_whole_number("max_components", self.max_components, at_least=1)
        n_components, n_columns = self._most(n_rows, lowest, highest), len(mean)
        self.n_features_in_, self.offset_ = n_columns, mean
        last = [n_columns - n_components, n_columns - 1]
        variances, vectors = eigh(scatter / (n_rows - 1), subset_by_index=last)
        variances, total = np.maximum(variances[::-1], 0), scatter.trace() / (n_rows - 1)
        pca = PCA(n_components, svd_solver="covariance_eigh", random_state=0)
        pca.set_output(transform="default")
        pca.mean_, pca.components_ = np.zeros(n_columns), vectors.T[::-1].copy()
        pca.explained_variance_ = variances
        pca.explained_variance_ratio_ = variances / total
        pca.singular_values_ = np.sqrt(variances * (n_rows - 1))
        n_others = n_columns - n_components if n_components < min(n_rows, n_columns) else 0
        pca.noise_variance_ = max(total - variances.sum(), 0) / n_others if n_others else 0.0
        pca.n_components_, pca.n_samples_, pca.n_features_in_ = n_components, n_rows, n_columns
        return self._keep(pca)

    def _most(self, n_rows: int, lowest: NDArray, highest: NDArray) -> int:
        """Largest number of components of rows that differ."""
        if n_rows < 2:
            raise ValueError(f"PCA needs at least 2 rows, got n_samples = {n_rows}.")
        if (lowest == highest).all():
            raise ValueError("all rows are equal: there is no direction in which they differ.")
        return min(self.max_components, n_rows - 1, len(lowest))

    def _keep(self, pca: PCA) -> Self:
        """Keep the components along which rows differ by more than rounding."""
        # The largest entry of each is positive; of equal ones, such as those of two scaled
        # columns, the first, so that rounding does not decide.
        sizes = np.abs(pca.components_)
        largest = (sizes >= (1 - 1e-6) * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
        signs = np.sign(np.take_along_axis(pca.components_, largest[:, None], axis=1))
        pca.components_ = pca.components_ * signs
        self.pca_, variance = pca, pca.explained_variance_
        longest = max(pca.n_samples_, pca.n_features_in_)
        rounding = np.finfo(variance.dtype).eps * longest * variance[0]
        self.n_components_ = int(np.sum(variance > rounding))
        return self

    def transform(self, X):
        check_is_fitted(self)
        X = self._shift(self._check(X, reset=False))
        return self.pca_.transform(X)[:, : self.n_components_]

    def _check(self, X, *, reset):
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)

    def _shift(self, X):
        return X if sparse.issparse(X) and not self.offset_.any() else X - self.offset_

    def get_feature_names_out(self, input_features=None):
        check_is_fitted(self)
        return np.array([f"pca{j}" for j in range(self.n_components_)], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _scale(n_components: int = MAX_COMPONENTS) -> Pipeline:
    return make_pipeline(
        DropConstantColumns(),
        # PCA centres its input, so scaling need not: sparse tables stay sparse until then.
        StandardScaler(with_mean=False),
        LeadingComponents(n_components),
        Normalizer(),
    )


def _paper(n_components: int = MAX_COMPONENTS) -> Pipeline:
    return make_pipeline(
        DropConstantColumns(only_zero=True), LeadingComponents(n_components), Normalizer()
    )


def _histogram(n_components: int = MAX_COMPONENTS) -> Pipeline:
    return make_pipeline(RootHistogram(), LeadingComponents(n_components), Normalizer())


RECIPES = {"scale": _scale, "paper": _paper, "histogram": _histogram}
