"""Objects that a model file may contain, and checks of those that could do harm.

The list has the models and transformers of this package, and those transformers of scikit-learn
that compute with NumPy. If code in C uses numbers of the file as positions in memory, they are
checked here; objects that cannot be checked, such as trees, are not on the list.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder

from naim3l.features.cell_encoder import CellEncoder
from naim3l.features.column_kinds import KINDS, TEXT
from naim3l.features.column_uses import ColumnUse
from naim3l.features.kernels import KERNELS, KernelMap, check_kernel
from naim3l.files.models.archive import require

ALIGNED_MODELS = ("naim3l.estimators.fused_ridge.FusedRidge",)
BLEND = "naim3l.estimators.blend.BlendNAIM3L"
MODELS = ("naim3l.estimators.naim3l.NAIM3L", "naim3l.estimators.naim3l_cv.NAIM3LCV",
          "naim3l.estimators.ridge.PerViewRidge", "naim3l.estimators.logistic.PerViewLogistic",
          "naim3l.deep.deep_naim3l.DeepNAIM3L", BLEND, *ALIGNED_MODELS)  # fmt: skip
READER = "naim3l.input.reader.TableReader"
ALLOWED = frozenset({
    *MODELS,
    READER,
    "naim3l.decisions.blending.Blend",
    "naim3l.decisions.calibration.Calibration",
    "naim3l.decisions.fusion.Evidence",
    "naim3l.decisions.rules.Decisions",
    "naim3l.estimators.compared.Uncoupled",
    "naim3l.features.cell_encoder.CellEncoder",
    "naim3l.features.column_uses.ColumnUse",
    "naim3l.features.encoding.ViewFeatures",
    "naim3l.features.kernels.KernelMap",
    "naim3l.features.recipes.DropConstantColumns",
    "naim3l.features.recipes.LeadingComponents",
    "naim3l.features.recipes.RootHistogram",
    "naim3l.input.roles.ViewRoles",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.decomposition._incremental_pca.IncrementalPCA",
    "sklearn.decomposition._pca.PCA",
    "sklearn.decomposition._truncated_svd.TruncatedSVD",
    "sklearn.feature_extraction.text.CountVectorizer",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.feature_extraction.text.TfidfVectorizer",
    "sklearn.feature_selection._variance_threshold.VarianceThreshold",
    "sklearn.impute._base.MissingIndicator",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.kernel_approximation.Nystroem",
    "sklearn.kernel_approximation.RBFSampler",
    "sklearn.pipeline.FeatureUnion",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.Binarizer",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.MinMaxScaler",
    "sklearn.preprocessing._data.Normalizer",
    "sklearn.preprocessing._data.PowerTransformer",
    "sklearn.preprocessing._data.QuantileTransformer",
    "sklearn.preprocessing._data.RobustScaler",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._discretization.KBinsDiscretizer",
    "sklearn.preprocessing._encoders.OneHotEncoder",
    "sklearn.preprocessing._encoders.OrdinalEncoder",
    "sklearn.preprocessing._function_transformer.FunctionTransformer",
    "sklearn.random_projection.GaussianRandomProjection",
    "sklearn.random_projection.SparseRandomProjection",
})  # fmt: skip
# Those that accept any numbers, so that one that fails on zeros is broken.
_OF_NUMBERS = {
    "CellEncoder", "KernelMap", "DropConstantColumns", "LeadingComponents", "RootHistogram",
    "IncrementalPCA", "PCA", "TruncatedSVD", "TfidfTransformer", "VarianceThreshold", "Nystroem",
    "RBFSampler", "Binarizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer", "QuantileTransformer",
    "RobustScaler", "StandardScaler", "KBinsDiscretizer", "GaussianRandomProjection",
    "SparseRandomProjection",
}  # fmt: skip
# Parameters that access files: a folder whose pickles a fit would load, and documents that are
# names of files. In a model file they must have the harmless value.
_HARMLESS = {"memory": None, "input": "content"}
MOST_JOBS = 256  # a transformer would start as many processes


def check_state_names(kind: type, state: Any) -> None:
    """Refuse attributes that would replace methods and settings of their class."""
    fits = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    require(fits, f"{kind.__name__} has no attributes by name.")
    taken = sorted(_names_of_class(kind) & set(state))
    require(not taken, f"{kind.__name__}: {taken} are not for a file to set.")


@cache
def _names_of_class(kind: type) -> frozenset[str]:
    """Names of the attributes of a class, except defaults of its parameters."""
    parameters = set(inspect.signature(kind).parameters)
    return frozenset(
        name
        for name in dir(kind)
        if name not in parameters or hasattr(inspect.getattr_static(kind, name), "__get__")
    )


def check_part(name: str, part: Any) -> None:
    """Refuse an object of the list that could do harm, or that has invalid parameters.

    Parameters
    ----------
    name : str
        Full name of its class.
    part : object
    """
    if name in (*MODELS, READER):  # `check_state` checks them
        return
    if isinstance(part, BaseEstimator) and name.startswith("sklearn."):
        if hasattr(part, "_parameter_constraints"):
            part._validate_params()
        for parameter, value in part.get_params(deep=False).items():
            harmless = parameter not in _HARMLESS or value == _HARMLESS[parameter]
            harmless = harmless and not (parameter == "n_jobs" and (value or 0) > MOST_JOBS)
            if parameter == "dtype" and value is not None:
                harmless = np.dtype(value).kind in "biuf"
            kind = type(part).__name__
            require(harmless, f"{kind} with {parameter}={value!r}, which no model file may have.")
    if "feature_names_in_" in vars(part):
        known = are_names(part.feature_names_in_, getattr(part, "n_features_in_", None))
        require(known, f"{type(part).__name__}: feature_names_in_ are not names of its columns.")
    if name in _CHECKS and any(attribute.endswith("_") for attribute in vars(part)):  # fitted
        _CHECKS[name](part)
    check_shapes(part, _SHAPES.get(name, {}), {"n": getattr(part, "n_features_in_", None)})


def steps_of(transformer: Any) -> Iterator[Any]:
    """Steps of a transformer, also of nested pipelines and unions."""
    if isinstance(transformer, Pipeline | FeatureUnion | ColumnTransformer):
        lists = ("steps", "transformer_list", "transformers_")
        for _, step, *_ in next(getattr(transformer, name) for name in lists
                                if hasattr(transformer, name)):  # fmt: skip
            yield from steps_of(step)
    elif transformer is not None and not isinstance(transformer, str):
        yield transformer


def takes_zeros(step: Any) -> bool:
    """Whether a step of a transformer accepts any numbers."""
    by_user = callable(getattr(step, "kernel", None))
    listed = f"{type(step).__module__}.{type(step).__name__}" in ALLOWED
    return listed and type(step).__name__ in _OF_NUMBERS and not by_user


def are_names(value: Any, count: Any) -> bool:
    """Whether a value is an array of ``count`` strings."""
    array = isinstance(value, np.ndarray) and value.shape == (count,)
    return array and all(isinstance(text, str) for text in value)


def are_uses(value: Any) -> bool:
    """Whether a value is a list of whole `ColumnUse`."""
    if not isinstance(value, list) or not all(isinstance(use, ColumnUse) for use in value):
        return False
    names = {field.name for field in fields(ColumnUse)}
    return all(
        set(vars(use)) == names
        and all(isinstance(vars(use)[name], str) for name in names - {"missing"})
        and isinstance(use.missing, float)
        and 0 <= use.missing <= 1
        for use in value
    )


def _check_one_hot(encoder: Any) -> None:
    """Refuse codes beyond the columns of the categories, which are written without a check."""
    n_columns, widths = len(encoder.categories_), encoder._n_features_outs
    require(encoder.n_features_in_ == n_columns, "OneHotEncoder: columns without categories.")
    dropped = encoder._drop_idx_after_grouping
    none = [None] * n_columns
    grouped, rare, dropped = none, none, none if dropped is None else dropped
    if encoder._infrequent_enabled:
        grouped, rare = encoder._default_to_infrequent_mappings, encoder._infrequent_indices
    parts = [encoder.categories_, grouped, rare, dropped, widths]
    for i, (categories, codes, few, drop, width) in enumerate(zip(*parts, strict=True)):
        n_codes = _count_codes(categories, codes)
        kept = drop is None or (isinstance(drop, int | np.integer) and 0 <= drop < n_codes)
        fits = kept and (few is None) == (codes is None) and width == n_codes - (drop is not None)
        require(fits, f"OneHotEncoder: column {i} has other codes than categories.")


def _count_codes(categories: Any, codes: Any) -> int:
    """Number of codes of a column of an encoder; -1 if some are out of range.

    Parameters
    ----------
    categories : ndarray of shape (n_categories,)
    codes : ndarray of shape (n_categories,), or None
        Codes of the categories, if rare categories share one.
    """
    if not isinstance(categories, np.ndarray) or categories.ndim != 1:
        return -1
    entries = categories.tolist()
    numbers = [entry for entry in entries if isinstance(entry, int | float) and entry == entry]
    # Numbers are found by bisection, which can return positions beyond the end if not sorted.
    if entries[: len(numbers)] != numbers or any(a >= b for a, b in pairwise(numbers)):
        return -1
    if codes is None:
        return len(entries)
    whole = isinstance(codes, np.ndarray) and codes.dtype.kind in "iu"
    fits = whole and codes.shape == categories.shape and codes.min(initial=0) >= 0
    return int(codes.max(initial=-1)) + 1 if fits else -1


def _check_vocabulary(vectorizer: Any) -> None:
    """Refuse a vocabulary whose columns are not numbered from 0."""
    words = vectorizer.vocabulary_
    fits = isinstance(words, dict) and all(type(column) is int for column in words.values())
    require(fits and sorted(words.values()) == list(range(len(words))),
            "the words of a vocabulary are not numbered.")  # fmt: skip


def _check_cell_encoder(encoder: CellEncoder) -> None:
    kinds: Any = encoder.kinds_
    fits = isinstance(kinds, np.ndarray) and kinds.dtype == np.int8
    fits = fits and kinds.shape == (encoder.n_features_in_,)
    fits = fits and bool(((kinds >= 0) & (kinds < len(KINDS))).all())
    require(fits, "CellEncoder: kinds_ are not those of its columns.")
    n_text, one_hot = int((kinds == TEXT).sum()), encoder.encoder_
    fits = isinstance(one_hot, OneHotEncoder) if n_text else one_hot is None
    fits = fits and (one_hot is None or one_hot.n_features_in_ == n_text)
    require(fits, f"CellEncoder: encoder_ is not one of {n_text} columns.")


def _check_kernel_map(kernel_map: KernelMap) -> None:
    check_kernel("kernel", kernel_map.kernel)
    if isinstance(kernel_map.kernel, str) and KERNELS[kernel_map.kernel].distances is not None:
        gamma = kernel_map.gamma_
        known = isinstance(gamma, float) and 0 < gamma < np.inf
        require(known, f"KernelMap: gamma_ is {gamma!r}, no number above 0.")


def check_shapes(part: Any, shapes: Mapping[str, str], known: Mapping[str, Any]) -> None:
    """Refuse arrays that are not finite, or do not have the shape that a fit gives them.

    Parameters
    ----------
    part : object
    shapes : mapping of str to str
        Shapes of attributes, one letter for each size.
    known : mapping of str to int
        Known sizes by letter.
    """
    sizes = dict(known)
    for name, letters in shapes.items():
        array = getattr(part, name, None)
        if array is None:  # not fitted, or not needed
            continue
        fits = isinstance(array, np.ndarray) and array.ndim == len(letters)
        fits = fits and all(
            n == sizes.setdefault(letter, n) for letter, n in zip(letters, array.shape, strict=True)
        )
        fits = fits and array.dtype.kind in "bf"
        fits = fits and (array.dtype.kind == "b" or bool(np.isfinite(array).all()))
        kind = type(part).__name__
        require(fits, f"{kind}: {name} should be finite, of the shape that fitting gives it.")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "naim3l.features.cell_encoder.CellEncoder": _check_cell_encoder,
    "naim3l.features.kernels.KernelMap": _check_kernel_map,
    "sklearn.feature_extraction.text.CountVectorizer": _check_vocabulary,
    "sklearn.feature_extraction.text.TfidfVectorizer": _check_vocabulary,
    "sklearn.preprocessing._encoders.OneHotEncoder": _check_one_hot,
}
# Shapes of fitted arrays, a letter for each size; n is the number of columns.
_COMPONENTS = {"components_": "kn", "mean_": "n", "explained_variance_": "k"}
_SHAPES = {
    "naim3l.features.cell_encoder.CellEncoder": {"means_": "n", "missing_": "n"},
    "naim3l.features.kernels.KernelMap": {"landmarks_": "mn", "normalization_": "mk"},
    "naim3l.features.recipes.DropConstantColumns": {"kept_": "n"},
    "naim3l.features.recipes.LeadingComponents": {"offset_": "n"},
    "sklearn.decomposition._incremental_pca.IncrementalPCA": _COMPONENTS,
    "sklearn.decomposition._pca.PCA": _COMPONENTS,
    "sklearn.decomposition._truncated_svd.TruncatedSVD": {"components_": "kn"},
    "sklearn.feature_extraction.text.TfidfTransformer": {"idf_": "n"},
    "sklearn.kernel_approximation.Nystroem": {"components_": "mn", "normalization_": "mm"},
    "sklearn.kernel_approximation.RBFSampler": {"random_weights_": "nk", "random_offset_": "k"},
    "sklearn.preprocessing._data.MaxAbsScaler": {"scale_": "n"},
    "sklearn.preprocessing._data.MinMaxScaler": {"scale_": "n", "min_": "n"},
    "sklearn.preprocessing._data.PowerTransformer": {"lambdas_": "n"},
    "sklearn.preprocessing._data.QuantileTransformer": {"quantiles_": "qn", "references_": "q"},
    "sklearn.preprocessing._data.RobustScaler": {"scale_": "n", "center_": "n"},
    "sklearn.preprocessing._data.StandardScaler": {"scale_": "n", "mean_": "n", "var_": "n"},
}
