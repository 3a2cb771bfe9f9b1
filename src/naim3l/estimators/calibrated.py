"""Methods that need calibrated probabilities, and the most probable labels."""

from collections.abc import Callable
from numbers import Real
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray


class CalibratedMethod:
    """Decorator of a method that a model has only with ``calibrate=True``.

    scikit-learn's ``available_if`` does the same, but its error does not say what to set.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Callable[..., Any]:
        if model is None:
            return self.method
        if not model.calibrate:
            name = f"{type(model).__name__}.{self.method.__name__}"
            raise AttributeError(f"{name} needs calibrate=True when the model is fitted.")
        return MethodType(self.method, model)


def check_confidence(min_confidence: Any, calibrate: bool) -> None:
    """Refuse a least confidence outside [0.5, 1], and any without probabilities."""
    if min_confidence is None:
        return
    if not calibrate:
        raise ValueError("min_confidence needs calibrate=True when the model is fitted.")
    is_number = isinstance(min_confidence, Real) and not isinstance(min_confidence, bool)
    if not (is_number and 0.5 <= min_confidence <= 1):
        raise ValueError(
            f"min_confidence must be a number from 0.5 to 1, got {min_confidence!r}: the more "
            "probable of two values never has a probability below 0.5."
        )


def most_probable(
    probabilities: NDArray[np.float64], min_confidence: float | None = None
) -> NDArray[np.float64]:
    """The more probable of yes and no.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_labels)
        Of yes; NaN where there is none.
    min_confidence : float, optional
        Smallest probability that the more probable value may have.

    Returns
    -------
    ndarray of shape (n_rows, n_labels)
        1 = yes, 0 = no; NaN where there is no probability, or where it is below the smallest.

    Examples
    --------
    >>> import numpy as np
    >>> most_probable(np.array([[0.1, 0.6, 0.9]]), min_confidence=0.8)
    array([[ 0., nan,  1.]])
    """
    confidence = np.maximum(probabilities, 1 - probabilities)
    return np.where(confidence >= (min_confidence or 0), probabilities > 0.5, np.nan)
