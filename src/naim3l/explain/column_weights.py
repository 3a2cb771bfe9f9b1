"""Weights of the columns of tables."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from naim3l._arrays import Mask, Matrix
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import model_views
from naim3l.features.encoding import ViewFeatures
from naim3l.features.recipes import FittedRecipe
from naim3l.features.survey import TEXT


@dataclass(frozen=True)
class FeatureWeights:
    """Weights of a view's columns, as returned by `feature_weights`.

    Attributes
    ----------
    columns, labels : list of str
        Names of the rows and columns of ``weights``.
    weights : ndarray of shape (n_columns, n_labels)
        Change of a label's score, before rows are normalised to unit length, when a column
        increases by one standard deviation.
    kind : {"columns", "roots", "features"}
        What the weights belong to: columns of the table; square roots of their shares of the row
        sum; or features made of the columns, such as one for each value of text.
    length : float
        Root mean squared length of training rows before they are normalised to unit length; 1
        where they are not normalised. ``weights / length`` is in units of the score.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import feature_weights
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> found = feature_weights(model, "view1")
    >>> found.kind, found.weights.shape, found.columns[0]
    ('columns', (8, 3), 'column 0')
    """

    columns: list[str]
    labels: list[str]
    weights: Matrix
    kind: str
    length: float

    def to_frame(self) -> Any:
        """The weights as a pandas DataFrame, with a row per table column and a column per label.

        Returns
        -------
        DataFrame of shape (n_columns, n_labels)
            ``weights``, with columns and labels as names.

        Examples
        --------
        >>> from naim3l.explain import FeatureWeights
        >>> FeatureWeights(["age", "fever"], ["flu"], [[0.2], [-0.4]], "columns", 1.0).to_frame()
               flu
        age    0.2
        fever -0.4
        """
        import pandas as pd

        return pd.DataFrame(self.weights, index=self.columns, columns=self.labels)


class Feature(NamedTuple):
    """A column and its weight for a label, as in `top_features`."""

    view: str
    column: str
    weight: float


def feature_weights(model: LinearViewModel, view: str, X: Any = None) -> FeatureWeights:
    """Effect of each column of a view on the score of each label.

    The score of a row x is ``z / |z| @ coef_ + intercept_`` with features z of x. In the recipes
    "scale" and "paper", z is linear in x, ``z = x A + b``. The weight of column j is row j of
    ``A @ coef_`` times the standard deviation of the column: the change of the score before
    division by ``|z|`` when the column increases by one standard deviation and all others stay the
    same. It is neither the change of the score itself, because the division is nonlinear, nor the
    change that accompanies the column in the data, where correlated columns change too, nor a test
    of significance. Directions that PCA dropped have no weight.

    In the recipe "histogram" the weights are those of the square roots of the columns' shares of
    their row sum, which describe the effect of a column only locally. Each value of text has a
    weight of its own, under the name "column_value". The weights of a view with a transformer
    belong to its output, named by ``get_feature_names_out``, or "feature 0", "feature 1", ... if it
    returns no names. Words of free text are hashed, so that their weights are those of "column_term
    17" and the like. A view with a kernel, except the kernel "linear", has no column weights,
    because its scores are sums of similarities to landmarks: it raises a ValueError.

    Columns that several tables learn from together, see ``shared_`` of a model, have another part
    in the scores, which is not linear and not in these weights: ``shared_.contributions`` gives it
    for each row, and `explain_row` the sum of both.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    view : str
        Name of the view.
    X : tables in the form of the fit, optional
        Training tables, from which standard deviations are computed. Without them they come from
        the recipe: exact for "scale", otherwise from the variance that the kept components have in
        each column, and 1 without a recipe.

    Returns
    -------
    FeatureWeights
        Weights, and the names and meaning of their rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from naim3l import NAIM3L
    >>> from naim3l.explain import feature_weights
    >>> X = pd.DataFrame({"age": [61, 35, 58, 29], "fever": [37.2, 39.1, 36.9, 38.8]})
    >>> y = pd.DataFrame({"flu": [0, 1, 0, 1]})
    >>> model = NAIM3L().fit({"clinic": X}, {"clinic": y})
    >>> feature_weights(model, "clinic").to_frame().round(2)
            flu
    age   -0.75
    fever  0.76
    """
    model_views.check_explained(model)
    if view not in model.views_:
        raise ValueError(f"no view {view!r}; the model was fitted on {model.views_}.")
    if view not in model_views.linear_views(model):
        raise ValueError(_no_columns([view], model))
    features, W = model.features_[view], model_views.linear_weights(model, view)
    if model.shared_ is not None and view in model.shared_.stackings:
        W = W * model.shared_.stackings[view].factors[0]
    deviation, length = None, 1.0
    if features.recipe is not None:
        W, deviation = _pull_back(features.recipe, W)
        length = float(np.sqrt(features.recipe.variances.sum()))
    if X is not None and (found := _deviations(model, view, X)) is not None:
        deviation = found
    return FeatureWeights(
        feature_names(features, model.names_.column_labels(view), len(W)),
        list(model.label_names_),
        W if deviation is None else W * deviation[:, None],
        _kind(features),
        length,
    )


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
    if not sparse.issparse(rows):
        return np.asarray(rows.std(axis=0))
    mean = np.asarray(rows.mean(axis=0)).ravel()
    squares = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
    return np.sqrt(np.maximum(squares - mean**2, 0))


def _kind(features: ViewFeatures) -> str:
    if features.recipe is not None and features.recipe.histogram:
        return "roots"
    words = features.plan is not None and any(c.kind == TEXT for c in features.plan.columns)
    return "features" if words or features.transformer is not None else "columns"


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

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    label : str
        Name of the label.
    n : int, default=10
        Maximum number of columns in each list.
    X : tables in the form of the fit, optional
        As for `feature_weights`.

    Returns
    -------
    dict of str to list of named tuples (view, column, weight)
        Lists "for" and "against", strongest first. Weights are those of `feature_weights` divided
        by ``length``, so that they can be compared between views; those of "against" are negative.
        Words of free text are left out, because they are known by their hashes alone.
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
        raise ValueError(_no_columns(model.views_, model))
    weights = [(view, feature_weights(model, view, X)) for view in views]
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


def _no_columns(views: list[str], model: LinearViewModel) -> str:
    kernels = model_views.view_kernels(model)
    named = ", ".join(f"view {view!r} has kernel {kernels[view].name!r}" for view in views)
    return f"{named}: scores are not linear in the columns, so there are no column weights."
