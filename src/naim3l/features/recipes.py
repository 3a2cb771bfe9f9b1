"""Feature recipes per view, made of scikit-learn's parts."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler, normalize
from sklearn.utils import get_tags
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import check_is_fitted, validate_data

from naim3l._parameters import check_choice, check_whole_number
from naim3l.features.kernels import HISTOGRAM_KERNELS, KernelMap
from naim3l.input.tables import Table
from naim3l.input.views import (
    check_finite,
    check_not_empty,
    check_not_negative,
    check_not_tiny,
    present_rows,
    read_numbers,
    warn_of_scales,
)

MAX_COMPONENTS = 50
_NO_NUMBER = re.compile(r"could not convert string to float: (.+)")
# Up to this many columns their covariance is decomposed, beyond it the rows are.
COVARIANCE_COLUMNS = 1000


def _column_ranges(X: Any) -> tuple[NDArray, NDArray]:
    """Least and greatest value of each column."""
    return min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(axis=0), X.max(axis=0))


class DropConstantColumns(SelectorMixin, BaseEstimator):
    """Drop the columns that have one value in all training rows.

    Parameters
    ----------
    only_zero : bool
        Drop those that are zero throughout, keep other constants.
    """

    def __init__(self, only_zero: bool = False):
        self.only_zero = only_zero

    def fit(self, X, y=None):
        check_choice("only_zero", self.only_zero, (True, False))
        X = validate_data(self, X, accept_sparse="csr")
        lowest, highest = _column_ranges(X)
        self.kept_ = (lowest != 0) | (highest != 0) if self.only_zero else lowest < highest
        if not self.kept_.any():
            what = "zero" if self.only_zero else "constant"
            raise ValueError(
                f"every column is {what} in all rows (n_samples = {X.shape[0]}): nothing to learn "
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
    """PCA to at most ``max_components`` dimensions, fewer where the rows span fewer.

    scikit-learn's PCA refuses to keep more components than rows or columns, and its
    automatic choice of algorithm is approximate on wide tables; this one is exact.

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
        if n_rows < 2:
            raise ValueError(f"PCA needs at least 2 rows, got n_samples = {n_rows}.")
        lowest, highest = _column_ranges(X)
        if (lowest == highest).all():
            raise ValueError("all rows are equal: there is no direction in which they differ.")
        # PCA subtracts products of means, which cancel when means are large; sparse rows cannot
        # be centred beforehand without losing their zeros.
        self.offset_ = np.zeros(n_columns) if sparse.issparse(X) else X.mean(axis=0)
        X = self._shift(X)
        n_components = min(self.max_components, n_rows - 1, n_columns)
        solver = "covariance_eigh" if n_columns <= COVARIANCE_COLUMNS else "arpack"
        pca = PCA(n_components, svd_solver=solver, random_state=0)
        self.pca_ = pca.set_output(transform="default").fit(X)
        variance = self.pca_.explained_variance_
        rounding = np.finfo(variance.dtype).eps * max(X.shape) * variance[0]
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


def _scale() -> Pipeline:
    # PCA centres its input, so scaling need not: sparse tables stay sparse until then.
    return make_pipeline(
        DropConstantColumns(), StandardScaler(with_mean=False), LeadingComponents(), Normalizer()
    )


def _paper() -> Pipeline:
    return make_pipeline(DropConstantColumns(only_zero=True), LeadingComponents(), Normalizer())


def _histogram() -> Pipeline:
    return make_pipeline(RootHistogram(), LeadingComponents(), Normalizer())


RECIPES = {"scale": _scale, "paper": _paper, "histogram": _histogram}


def make_transformer(transformer: Any, view: str, kernel_map: KernelMap | None = None) -> Any:
    """Unfitted transformer of one view, or None where its features are used as given.

    Parameters
    ----------
    transformer : str, transformer, None, or mapping view -> one of these
        "auto" is "scale", or None before a kernel that takes histograms as they are.
    view : str
    kernel_map : KernelMap, optional
        What comes after it.
    """
    recipe = _make_recipe(transformer, view, kernel_map)
    if kernel_map is None or recipe is None:
        return recipe if kernel_map is None else kernel_map
    return make_pipeline(recipe, kernel_map)


def _make_recipe(transformer: Any, view: str, kernel_map: KernelMap | None) -> Any:
    if isinstance(transformer, Mapping):
        if view not in transformer:
            raise ValueError(
                f"transformer: no entry for view {view!r}; it has {list(transformer)}. "
                "Give one per view, None for features as they are."
            )
        transformer = transformer[view]
    if isinstance(transformer, str) and transformer == "auto":
        transformer = None if _of_histograms(kernel_map) else "scale"
    if transformer is None:
        return None
    if isinstance(transformer, str) and transformer in RECIPES:
        return RECIPES[transformer]()
    usable = hasattr(transformer, "fit") and hasattr(transformer, "transform")
    if not usable or isinstance(transformer, type):
        raise ValueError(
            f"transformer must be one of {['auto', *sorted(RECIPES)]}, None, a scikit-learn "
            "transformer (an object, not its class), or a mapping of them per view, got "
            f"{transformer!r} for view {view!r}."
        )
    return clone(transformer)


def with_last_step(transformer: Any, step: Any) -> Any:
    """A fitted transformer with another last step."""
    if not isinstance(transformer, Pipeline):
        return step
    *first, (name, _) = transformer.steps
    return Pipeline([*first, (name, step)])


def wants_numbers(transformer: Any, view: str) -> bool:
    """Whether a view is read as numbers: for our recipes, and for features used as given.

    Other transformers get the rows in the library they came from, text and all.
    """
    if isinstance(transformer, Mapping):
        transformer = transformer.get(view)
    return transformer is None or isinstance(transformer, str)


def encode(
    table: Table, transformer: Any, *, as_numbers: bool, fit: bool = False
) -> tuple[Any, NDArray[np.bool_]]:
    """Features that the model works on, and the rows that have the view.

    Parameters
    ----------
    table : Table
    transformer : transformer or None
        Fitted here if ``fit``.
    as_numbers : bool
        What ``wants_numbers`` says.
    fit : bool

    Returns
    -------
    features : ndarray or CSR array of shape (n_present, n_features)
    present : ndarray of bool, of shape (n_rows,)
    """
    if as_numbers:
        rows, present = read_numbers(table)
        if _of_histograms(_first_step(transformer)):
            check_not_negative(table, rows, present)
    else:
        present = present_rows(table, allow_missing=accepts_missing(transformer))
        rows = table.take_rows(present)
    if not present.any():
        if fit:
            raise ValueError(f"{table.where}: missing in every row; leave the view out.")
        return np.empty((0, 0)), present
    if fit and as_numbers:
        check_not_tiny(table, rows)
    if transformer is None:
        if fit:
            warn_of_scales(table, rows)
        return rows, present
    try:
        features = transformer.fit_transform(rows) if fit else transformer.transform(rows)
    except (ValueError, TypeError) as error:
        _name_cell(table, str(error))
        if "'y'" in str(error):
            raise ValueError(
                f"{table.where}: {type(transformer).__name__} needs labels, but transformers are "
                "fitted on features alone."
            ) from error
        raise ValueError(f"{table.where}: {error}") from error
    return _check_features(features, table.where, present, fit=fit), present


def _name_cell(table: Table, refusal: str) -> None:
    """Raise an error that names the cell which a transformer refused without saying where."""
    numeric, all_rows = table.numeric_columns(), np.ones(table.shape[0], dtype=bool)
    if "infinity" in refusal and numeric.shape[1]:
        numbers = numeric.numbers()
        check_finite(numeric, np.where(np.isnan(numbers), 0, numbers), all_rows)
    if "NaN" in refusal:
        present_rows(table)
    if "Negative values" in refusal and numeric.shape[1]:
        check_not_negative(numeric, numeric.numbers(), all_rows)
    if written := _NO_NUMBER.search(refusal):
        cells = table.find_cells(written[1])
        # In several columns it may well be allowed in the first.
        if len({j for _, j in cells}) == 1:
            place = f"{table.where}, row {cells[0][0]}, {table.column_label(cells[0][1])}"
            raise ValueError(f"{place}: {written[1]} is not a number, as it was at the fit.")


def _first_step(transformer: Any) -> Any:
    """What sees the rows first, also where pipelines are nested."""
    return _first_step(transformer[0]) if isinstance(transformer, Pipeline) else transformer


def _of_histograms(step: Any) -> bool:
    """Whether a step refuses negative values."""
    of_kernel = isinstance(step, KernelMap) and isinstance(step.kernel, str)
    return isinstance(step, RootHistogram) or (of_kernel and step.kernel in HISTOGRAM_KERNELS)


def _check_features(features: Any, where: str, present: NDArray[np.bool_], *, fit: bool) -> Any:
    """Output of a transformer as numbers, one row for each row that has the view."""
    output = Table(features, f"{where} after its transformer")
    if output.shape[0] != present.sum():
        raise ValueError(f"{output.where}: {output.shape[0]} rows of {present.sum()} are left.")
    check_not_empty(output)
    numbers = output.numbers()
    check_finite(output, numbers, present)
    if fit:
        check_not_tiny(output, numbers)
    return numbers


def accepts_missing(transformer: Any) -> bool:
    """Whether a transformer may be given NaN, by its tags; composites are asked by parts."""
    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if step not in (None, "passthrough")]
        return not steps or accepts_missing(steps[0])
    if isinstance(transformer, ColumnTransformer):
        return True  # NaN may be in the columns of a part that takes them; others will refuse
    if isinstance(transformer, FeatureUnion):
        return all(
            part in ("drop", "passthrough") or accepts_missing(part)
            for _, part in transformer.transformer_list
        )
    if isinstance(transformer, type) or not hasattr(transformer, "__sklearn_tags__"):
        return False
    tags = get_tags(transformer)
    return bool(tags.input_tags.allow_nan or tags.no_validation)
