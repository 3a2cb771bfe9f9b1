"""Weights of the columns of tables."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from naim3l._arrays import Mask, Matrix
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import model_views
from naim3l.features.encoding import ViewFeatures
from naim3l.features.recipes import FittedRecipe


class ColumnWeights(NamedTuple):
    """Weights of what a view's columns become before principal components; see `top_features`."""

    columns: list[str]
    weights: Matrix  # of the score before rows are normalised to unit length, (n, n_labels)
    length: float  # root mean squared length of training rows before that; 1 without it


class Feature(NamedTuple):
    """A column and its weight for a label, as in `top_features`."""

    view: str
    column: str
    weight: float


def column_weights(model: LinearViewModel, view: str, X: Any = None) -> ColumnWeights:
    """Effect of each column of a view with linear scores, in which columns have unit variance.

    Features are linear in the row x, ``z = x A + b``, and the score is ``z / |z| @ coef_ +
    intercept_``: weights are ``A @ coef_`` times standard deviations, those of the rows of ``X``,
    or without these of the recipe. They are exact for "scale", otherwise by the components that
    were kept, and 1 without a recipe. Directions that PCA dropped have no weight.
    """
    features, W = model.features_[view], model_views.linear_weights(model, view)
    if model.shared_ is not None and view in model.shared_.stackings:
        W = W * model.shared_.stackings[view].factors[0]
    deviation, length = None, 1.0
    if features.recipe is not None:
        W, deviation = _pull_back(features.recipe, W)
        length = float(np.sqrt(features.recipe.variances.sum()))
    if X is not None and (found := _deviations(model, view, X)) is not None:
        deviation = found
    names = feature_names(features, model.names_.column_labels(view), len(W))
    return ColumnWeights(names, W if deviation is None else W * deviation[:, None], length)


def _pull_back(recipe: FittedRecipe, W: Matrix) -> tuple[Matrix, Matrix]:
    """Weights and standard deviations of a recipe's columns, from the weights of its components."""
    deviation = np.sqrt(recipe.variances @ recipe.axes**2)
    W = recipe.axes.T @ W
    if recipe.scale is not None and recipe.deviation is not None:
        W, deviation = W / recipe.scale[:, None], recipe.deviation
    weights, deviations = np.zeros((len(recipe.kept), W.shape[1])), np.zeros(len(recipe.kept))
    weights[recipe.kept], deviations[recipe.kept] = W, deviation
    return weights, deviations


def _deviations(model: LinearViewModel, view: str, X: Any) -> Matrix | None:
    """Standard deviations over rows of what the weights belong to; None without such rows."""
    model_views.check_in_memory(X)
    batch, features = model._batches(X).get(view), model.features_[view]
    if batch is None:
        return None
    rows, present = features.rows(batch)
    if not present.any():
        return None
    if features.recipe is not None and features.recipe.histogram:
        rows = features.recipe.before_axes(rows)
    if sparse.issparse(rows):
        return np.sqrt(mean_variance_axis(rows, axis=0)[1])
    return np.asarray(rows.std(axis=0))


def feature_names(features: ViewFeatures, columns: list[str], n: int) -> list[str]:
    """Names of columns, of the values of text, or of the output of a transformer."""
    names = columns
    if features.plan is not None:
        names = features.plan.encoded_names()
    if features.transformer is not None:
        try:
            names = [str(name) for name in features.transformer.get_feature_names_out(columns)]
        except (AttributeError, ValueError, TypeError):
            names = []
    return names if len(names) == n else [f"feature {j}" for j in range(n)]


def _have_names(features: ViewFeatures, n: int) -> Mask:
    """Mask of the features that are no hashed words of free text, (n,)."""
    texts = None if features.plan is None else features.plan.free_text_of_encoded()
    return np.ones(n, dtype=bool) if texts is None else texts < 0


def top_features(
    model: LinearViewModel, label: str, n: int = 10, X: Any = None
) -> dict[str, list[Feature]]:
    """The columns of all views with the largest positive and negative weights for a label.

    A weight is the change of the score, for rows of the usual length, when the column increases by
    one standard deviation and all others stay the same. It is not the change that accompanies the
    column in the data, where correlated columns change too, nor a test of significance. Each value
    of text has a weight of its own, under the name "column_value"; in the recipe "histogram",
    weights are those of the square roots of the columns' shares of their row sum; and those of a
    view with a transformer belong to its output, named by ``get_feature_names_out``. Columns that
    several tables learn from together have another part in the scores: see `explain_row`.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    label : str
        Name of the label.
    n : int, default=10
        Maximum number of columns in each list.
    X : tables in the form of the fit, optional
        Training tables, from which standard deviations are computed. Without them they come from
        the recipe: exact for "scale", otherwise from the components that were kept, and 1 without
        a recipe.

    Returns
    -------
    dict of str to list of named tuples (view, column, weight)
        Lists "for" and "against", strongest first; weights of "against" are negative. Words of free
        text are left out, because they are known by their hashes alone.
        Views with a kernel are left out; if all views have one, a ValueError is raised.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import top_features
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> for feature in top_features(model, "label0", n=2)["for"]:
    ...     print(feature.view, feature.column, round(feature.weight, 2))
    view0 column 6 0.33
    view0 column 7 0.24
    """
    model_views.check_label(model, label, n)
    return strongest_columns(model, [label], n, X)[label]


def strongest_columns(
    model: LinearViewModel, labels: list[str], n: int, X: Any
) -> dict[str, dict[str, list[Feature]]]:
    """`top_features` of several labels, with weights that are computed once."""
    views = model_views.linear_views(model)
    if not views:
        kernels = model_views.view_kernels(model)
        kinds = ", ".join(f"view {v!r} has kernel {of.name!r}" for v, of in kernels.items())
        raise ValueError(
            f"{kinds}: scores are not linear in the columns, so there are no column weights."
        )
    weights = [(view, column_weights(model, view, X)) for view in views]
    names = [(view, column) for view, of_view in weights for column in of_view.columns]
    stacked = np.concatenate([of_view.weights / of_view.length for _, of_view in weights])
    named = [_have_names(model.features_[view], len(of_view.columns)) for view, of_view in weights]
    found = {}
    for label in labels:
        values = np.where(np.concatenate(named), stacked[:, model.label_names_.index(label)], 0)
        order: list[int] = np.argsort(values, kind="stable").tolist()
        sides = {
            "for": [i for i in order[::-1][:n] if values[i] > 0],
            "against": [i for i in order[:n] if values[i] < 0],
        }
        found[label] = {
            side: [Feature(*names[i], float(values[i])) for i in chosen]
            for side, chosen in sides.items()
        }
    return found
