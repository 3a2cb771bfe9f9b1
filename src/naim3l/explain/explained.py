"""Checks that a model, view or label can be explained."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from naim3l.estimators.linear import LinearViewModel


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


def check_view(model: LinearViewModel, view: str) -> None:
    if view not in model.views_:
        raise ValueError(f"no view {view!r}; the model was fitted on {model.views_}.")


def label_index(model: LinearViewModel, label: str) -> int:
    check_explained(model)
    if label not in model.label_names_:
        raise ValueError(f"no label {label!r}; the model was fitted on {model.label_names_}.")
    return model.label_names_.index(label)
