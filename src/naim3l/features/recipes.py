"""Feature recipes for views, as pipelines of scikit-learn."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler, normalize
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import check_is_fitted, validate_data

from naim3l._parameters import check_choice, check_whole_number
from naim3l.features.leading_axes import CentredRows, axes_of_scatter, centred_rows, leading_axes

MAX_COMPONENTS = 50


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

    def _transform(self, X):
        if isinstance(X, np.ndarray):  # three times as fast as indexing by the mask
            return np.take(X, np.flatnonzero(self.kept_), axis=1)
        return super()._transform(X)

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
        self._fit_rows(X)
        return self

    def fit_transform(self, X, y=None):
        rows = self._fit_rows(X)  # which are centred already, and may be sparse
        return rows.multiply(self.pca_.components_[: self.n_components_].T)

    def _fit_rows(self, X: Any) -> CentredRows:
        """Fit; the rows minus their mean."""
        check_whole_number("max_components", self.max_components, at_least=1)
        X = self._check(X, reset=True)
        n_components = self._most(X.shape[0], *_column_ranges(X))
        rows = centred_rows(X, n_components)
        # Sparse rows cannot be centred before PCA without losing their zeros.
        self.offset_ = np.zeros_like(rows.mean) if sparse.issparse(X) else rows.mean
        squares, axes = leading_axes(rows, n_components)
        self._keep(squares, axes, rows.total, len(rows), rows.mean - self.offset_)
        return rows

    def fit_scatter(
        self, n_rows: int, mean: NDArray, scatter: NDArray, lowest: NDArray, highest: NDArray
    ) -> Self:
        """`fit` from the scatter of the rows, (n_columns, n_columns), the sum of their squares.

        The other arrays, (n_columns,), are means and ranges of the columns. The result is that of
        dense rows, except for rounding.
        """
        check_whole_number("max_components", self.max_components, at_least=1)
        self.n_features_in_, self.offset_ = len(mean), mean
        squares, axes = axes_of_scatter(scatter, self._most(n_rows, lowest, highest))
        return self._keep(squares, axes, scatter.trace(), n_rows, np.zeros_like(mean))

    def _most(self, n_rows: int, lowest: NDArray, highest: NDArray) -> int:
        """Largest number of components of rows that differ."""
        if n_rows < 2:
            raise ValueError(f"PCA needs at least 2 rows, got n_samples = {n_rows}.")
        if (lowest == highest).all():
            raise ValueError("all rows are equal: there is no direction in which they differ.")
        return min(self.max_components, n_rows - 1, len(lowest))

    def _keep(
        self, squares: NDArray, axes: NDArray, total: float, n_rows: int, mean: NDArray
    ) -> Self:
        """Keep the components along which rows differ by more than rounding.

        Parameters
        ----------
        squares : ndarray of shape (n_components,)
            Sums of the squares of the rows along the axes; all columns together have ``total``.
        axes : ndarray of shape (n_components, n_columns)
        total : float
        n_rows : int
        mean : ndarray of shape (n_columns,)
            What remains to be subtracted from rows minus ``offset_``.
        """
        # The largest entry of each is positive; of equal ones, such as those of two scaled
        # columns, the first, so that rounding does not decide.
        sizes = np.abs(axes)
        largest = (sizes >= (1 - 1e-6) * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
        signs = np.sign(np.take_along_axis(axes, largest[:, None], axis=1))
        (n_components, n_columns), variances = axes.shape, squares / (n_rows - 1)
        self.pca_ = pca = PCA(n_components, svd_solver="covariance_eigh", random_state=0)
        pca.set_output(transform="default")
        pca.mean_, pca.components_, pca.explained_variance_ = mean, axes * signs, variances
        pca.explained_variance_ratio_, pca.singular_values_ = squares / total, np.sqrt(squares)
        n_others = n_columns - n_components if n_components < min(n_rows, n_columns) else 0
        rest = max(total - squares.sum(), 0) / (n_rows - 1)
        pca.noise_variance_ = rest / n_others if n_others else 0.0
        pca.n_components_, pca.n_samples_, pca.n_features_in_ = n_components, n_rows, n_columns
        rounding = np.finfo(np.float64).eps * max(n_rows, n_columns) * variances[0]
        self.n_components_ = int(np.sum(variances > rounding))
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
