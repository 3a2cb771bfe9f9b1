"""Views of a fitted model as explanations see them: kernels, linear weights, known labels."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l.estimators.linear import LinearViewModel
from naim3l.features.kernels import KernelMap
from naim3l.input.labels import LabelledRows
from naim3l.input.sources import MemoryTable, any_chunked, open_tables

LINEAR = "linear"


def check_explained(model: Any) -> None:
    """Refuse models that are not fitted, and those without linear or kernel weights per view.

    Parameters
    ----------
    model : estimator
        Model to check.

    Raises
    ------
    ValueError
        It does not have linear or kernel weights of each view: a network, or a method that needs
        aligned rows.
    NotFittedError
        It is not fitted.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.explain import check_explained
    >>> check_explained(NAIM3L())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    sklearn.exceptions.NotFittedError: This NAIM3L instance is not fitted yet...
    """
    if not isinstance(model, LinearViewModel):
        raise ValueError(
            f"{type(model).__name__} has no readable weights per view: explanations and reports "
            "are only available for linear models of each view, with or without kernels."
        )
    check_is_fitted(model, "coef_")


def label_index(model: LinearViewModel, label: str) -> int:
    """Position of a label."""
    check_explained(model)
    if label not in model.label_names_:
        raise ValueError(f"no label {label!r}; the model was fitted on {model.label_names_}.")
    return model.label_names_.index(label)


def check_count(n: Any) -> None:
    """Refuse a number of results that is not a whole number from 1 up."""
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
    """Labels as 1, 0 and NaN of each separate table, or of the wide table under the name "X".

    Parameters
    ----------
    model : fitted model
    X, y : tables and label tables in the form of the fit

    Returns
    -------
    dict of str to ndarray of shape (n_rows, n_labels)
        In the order of the model's labels.
    """
    check_in_memory(X)
    model.names_.check_form(X)
    found = {}
    for name, table in open_tables(X, y).items():
        assert isinstance(table, MemoryTable) and table.labels is not None
        rows = LabelledRows.of(table.labels, table.words, one_column=table.one_column)
        signed = rows.signed[:, np.argsort(model.names_.label_positions(rows.labels))]
        found[name] = np.where(signed == 0, np.nan, signed > 0)
    return found


class ViewKernel(NamedTuple):
    """Kernel of a view.

    Attributes
    ----------
    name : str
        Name of the kernel, with brackets if it is a function of the user.
    gamma : float or None
        Gamma of the kernel, None if it has none.

    Examples
    --------
    >>> from naim3l.explain import ViewKernel
    >>> ViewKernel("rbf", 0.5).name
    'rbf'
    """

    name: str
    gamma: float | None


def view_kernels(model: LinearViewModel) -> dict[str, ViewKernel]:
    """Kernel of each view; "linear" if scores are linear in the transformed features.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.

    Returns
    -------
    dict of str to ViewKernel
        Kernels by view.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.explain import view_kernels
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L(features={"view0": "rbf", "view1": "auto"}).fit(data.views, data.labels)
    >>> {view: kernel.name for view, kernel in view_kernels(model).items()}
    {'view0': 'rbf', 'view1': 'linear'}
    """
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
    """Views whose weights belong to columns, or to the output of a transformer.

    These are all views except those with a nonlinear kernel.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.

    Returns
    -------
    list of str
        Names of the views.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.explain import linear_views
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L(features={"view0": "rbf", "view1": "auto"}).fit(data.views, data.labels)
    >>> linear_views(model)
    ['view1']
    """
    return [view for view, kernel in view_kernels(model).items() if kernel.name == LINEAR]


def linear_weights(model: LinearViewModel, view: str) -> Matrix:
    """Weights (n_features, n_labels) of what a linear view's kernel, if it has one, receives."""
    W = np.asarray(model.coef_[view], dtype=np.float64)
    kernel = model.features_[view].kernel
    # Features of a linear kernel are x L' N, with landmarks L and their normalization N.
    return W if kernel is None else np.asarray(kernel.landmarks.T @ (kernel.normalization @ W))


def landmark_features(kernel: KernelMap) -> Matrix:
    """Features (n_landmarks, n_components) of the landmarks themselves.

    With ``K = V E V'`` and the normalization ``N = V E^(-1/2)`` they are ``K N = V E^(1/2)``: the
    columns of N divided by their squared lengths.
    """
    N = np.asarray(kernel.normalization, dtype=np.float64)
    return N / np.sum(N**2, axis=0)
