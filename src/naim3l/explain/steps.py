"""The steps of a view's fitted transformer, and the effect of linear steps on weights."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from naim3l._arrays import Matrix
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain.kernel_views import is_linear
from naim3l.features.cell_encoder import CellEncoder
from naim3l.features.kernels import KernelMap
from naim3l.features.recipes import LeadingComponents, RootHistogram
from naim3l.input.tables import Table


def fitted_steps(model: LinearViewModel, view: str) -> list[Any]:
    """Fitted steps of a view's transformer, except those that do nothing."""
    return [
        step for step in _unfold(model.transformers_[view]) if step not in (None, "passthrough")
    ]


def _unfold(transformer: Any) -> list[Any]:
    """Steps of a pipeline and of nested pipelines."""
    if not isinstance(transformer, Pipeline):
        return [transformer]
    return [step for _, part in transformer.steps for step in _unfold(part)]


def linear_end(model: LinearViewModel, view: str) -> tuple[Matrix, list[Any], bool]:
    """The point from which a view's scores are linear, up to the normalisation of rows.

    Returns
    -------
    W : ndarray of shape (n_features, n_labels)
        Weights of the output of the steps, before rows are normalised.
    steps : list of fitted transformers
        The steps before rows are normalised to unit length, without a linear kernel at the end.
    normalised : bool
        Whether rows are normalised.
    """
    steps = fitted_steps(model, view)
    W = np.asarray(model.coef_[view], dtype=np.float64)
    if steps and isinstance(steps[-1], KernelMap) and is_linear(steps[-1]):
        # Features are x L' N, with landmarks L and their normalization N.
        W = np.asarray(steps[-1].landmarks_.T @ (steps[-1].normalization_ @ W))
        steps = steps[:-1]
    normalised = bool(steps) and isinstance(steps[-1], Normalizer) and steps[-1].norm == "l2"
    return W, (steps[:-1] if normalised else steps), normalised


def is_root_histogram(steps: list[Any]) -> bool:
    """Whether the only step is the square root of shares, which keeps columns separate."""
    return len(steps) == 1 and isinstance(steps[0], RootHistogram)


def keep_columns(steps: list[Any]) -> bool:
    """Whether the steps do no more than fill in missing cells of columns."""
    return not steps or (
        len(steps) == 1 and isinstance(steps[0], CellEncoder) and steps[0].encoder_ is None
    )


def pull_back(step: Any, W: Matrix, deviation: Matrix | None) -> Any:
    """Weights and deviations of a step's input columns from those of its output, or None."""
    if isinstance(step, LeadingComponents):
        components = step.pca_.components_[: step.n_components_]
        return components.T @ W, np.sqrt(component_variances(step) @ components**2)
    if isinstance(step, StandardScaler):
        if step.scale_ is None:
            return W, deviation
        return W / step.scale_[:, None], np.sqrt(step.var_)
    if isinstance(step, SelectorMixin):
        support = step.get_support()
        spread = np.zeros((len(support), W.shape[1]))
        spread[support] = W
        if deviation is None:
            return spread, None
        kept = np.zeros(len(support))
        kept[support] = deviation
        return spread, kept
    return None


def component_variances(step: LeadingComponents) -> Matrix:
    """Variances of the kept components over the training rows."""
    n = step.pca_.n_samples_
    return step.pca_.explained_variance_[: step.n_components_] * (n - 1) / n


def rows_of_view(model: LinearViewModel, view: str, X: Any) -> Any:
    """Rows of a view as its transformer receives them; None if X has none."""
    table = model.reader_.tables(X).get(view)
    if table is None:
        return None
    rows, present = model.features_[view].rows(table)
    return rows if present.any() else None


def transformed(rows: Any, steps: list[Any]) -> Any:
    for step in steps:
        rows = step.transform(rows)
    return Table(rows, "features").numbers()


def mean_squares(numbers: Any) -> Matrix:
    squares = numbers.multiply(numbers) if sparse.issparse(numbers) else numbers**2
    return np.asarray(squares.mean(axis=0)).ravel()


def column_deviations(numbers: Any) -> Matrix:
    mean = np.asarray(numbers.mean(axis=0)).ravel()
    if sparse.issparse(numbers):
        return np.sqrt(np.maximum(mean_squares(numbers) - mean**2, 0))
    return np.asarray(numbers.std(axis=0))


def names_after(model: LinearViewModel, view: str, steps: list[Any], n: int) -> list[str]:
    """Names of the table's columns, or of the output of the steps."""
    names = model.reader_.column_labels(view)
    if not is_root_histogram(steps):
        for step in steps:
            try:
                names = [str(name) for name in step.get_feature_names_out(names)]
            except (AttributeError, ValueError, TypeError):
                names = []
    return names if len(names) == n else [f"feature {j}" for j in range(n)]
