"""Views of a fitted model as explanations see them: kernels, linear weights, known labels."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l.estimators.aligned import AlignedModel
from naim3l.estimators.base import ViewPredictor
from naim3l.estimators.linear import LinearViewModel
from naim3l.input.sources import any_chunked

LINEAR = "linear"


def check_explained(model: Any) -> None:
    """Refuse models that are not fitted, and those without linear or kernel weights per view."""
    if not isinstance(model, LinearViewModel):
        alone = isinstance(model, ViewPredictor) and not isinstance(model, AlignedModel)
        rows = " explain_row, or naim3l explain, explains its rows one by one." if alone else ""
        raise ValueError(
            f"{type(model).__name__} has no readable weights per view: explanations and reports "
            "are only available for linear models of each view, such as NAIM3L, with or without "
            f"kernels.{rows}"
        )
    check_is_fitted(model, "coef_")


def check_label(model: LinearViewModel, label: str, n: Any) -> None:
    """Refuse a label that the model lacks, and less than one result about it."""
    check_explained(model)
    if label not in model.label_names_:
        raise ValueError(f"no label {label!r}; the model was fitted on {model.label_names_}.")
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a whole number >= 1, got {n!r}.")


def check_in_memory(X: Any) -> None:
    """Refuse tables that are read in chunks."""
    if any_chunked(X):
        raise TypeError(
            "explanations and reports need rows in memory, and X is read in chunks; give a sample "
            "of its rows."
        )


def read_truth(model: LinearViewModel, X: Any, y: Any) -> dict[str, Matrix]:
    """Labels as 1, 0, NaN of separate tables, or of the wide table named "X", (n_rows, n_labels).

    They are in the order of the model's labels.
    """
    check_in_memory(X)
    model.names_.check_form(X)
    return {name: model.names_.truth_of(rows) for name, rows in model._labelled(X, y)}


class ViewKernel(NamedTuple):
    """Kernel of a view: its name, with brackets if it is a function of the user, and its gamma."""

    name: str
    gamma: float | None


def view_kernels(model: LinearViewModel) -> dict[str, ViewKernel]:
    """Kernel of each view; "linear" if scores are linear in the transformed features."""
    check_explained(model)
    found = {}
    for view in model.views_:
        kernel = model.features_[view].kernel
        name = LINEAR if kernel is None else kernel.name
        if callable(name):
            name = f"{getattr(name, '__name__', type(name).__name__)}()"
        found[view] = ViewKernel(name, None if kernel is None else kernel.gamma)
    return found


def linear_views(model: LinearViewModel) -> list[str]:
    """Views whose weights belong to columns, or to a transformer's output: not those of kernels."""
    return [view for view, kernel in view_kernels(model).items() if kernel.name == LINEAR]


def linear_weights(model: LinearViewModel, view: str) -> Matrix:
    """Weights (n_features, n_labels) of what a linear view's kernel, if it has one, receives."""
    W = np.asarray(model.coef_[view], dtype=np.float64)
    kernel = model.features_[view].kernel
    # Features of a linear kernel are x L' N, with landmarks L and their normalization N.
    return W if kernel is None else np.asarray(kernel.landmarks.T @ (kernel.normalization @ W))
