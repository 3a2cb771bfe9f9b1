"""A view's fitted transformer step by step, and what a linear step does to weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from naim3l.base import LinearViewModel
from naim3l.tables import Table
from naim3l.transform import LeadingComponents, RootHistogram
from naim3l.views import present_rows, read_numbers

Matrix = NDArray[np.float64]


def check_view(model: LinearViewModel, view: str) -> None:
    if view not in model.views_:
        raise ValueError(f"no view {view!r}; the model was fitted on {model.views_}.")


def label_index(model: LinearViewModel, label: str) -> int:
    check_is_fitted(model, "coef_")
    if label not in model.label_names_:
        raise ValueError(f"no label {label!r}; the model was fitted on {model.label_names_}.")
    return model.label_names_.index(label)


def fitted_steps(model: LinearViewModel, view: str) -> list[Any]:
    """Fitted steps of a view's transformer, without those that do nothing."""
    transformer = model.transformers_[view]
    parts = (
        [step for _, step in transformer.steps]
        if isinstance(transformer, Pipeline)
        else [transformer]
    )
    return [step for step in parts if step is not None and step != "passthrough"]


def linear_end(model: LinearViewModel, view: str) -> tuple[list[Any], bool]:
    """Steps before the one that makes rows unit length, and whether there is such a one."""
    steps = fitted_steps(model, view)
    normalised = bool(steps) and isinstance(steps[-1], Normalizer) and steps[-1].norm == "l2"
    return (steps[:-1] if normalised else steps), normalised


def is_root_histogram(steps: list[Any]) -> bool:
    """Whether all that is left is the square root of shares, which keeps the columns apart."""
    return len(steps) == 1 and isinstance(steps[0], RootHistogram)


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
    """Rows of a view as its transformer gets them; None where X has none."""
    table = model._known_tables(X).get(view)
    if table is None:
        return None
    if model._as_numbers[view]:
        numbers, present = read_numbers(table)
        return numbers if present.any() else None
    present = present_rows(table, allow_missing=True)
    return table.take_rows(present) if present.any() else None


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
    """Names of the table's columns, or of what the steps make of them."""
    names = column_names(model, view)
    if not is_root_histogram(steps):
        for step in steps:
            try:
                names = [str(name) for name in step.get_feature_names_out(names)]
            except (AttributeError, ValueError, TypeError):
                names = []
    return names if len(names) == n else [f"feature {j}" for j in range(n)]


def column_names(model: LinearViewModel, view: str) -> list[str]:
    if model._wide:
        positions = list(model._view_columns[view])
        names = getattr(model, "feature_names_in_", None)
    else:
        positions = list(range(model.n_features_in_[view]))
        names = getattr(model, "feature_names_in_", {}).get(view)
    return [f"column {j}" if names is None else str(names[j]) for j in positions]
