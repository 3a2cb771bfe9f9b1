"""Allowed values of parameters that several methods have."""

from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval

# Weights of one term of an objective: beyond these, others are lost to rounding errors.
FACTOR = Interval(Real, 1e-10, 1e10, closed="both")
FACTOR_OR_ZERO = Interval(Real, 0, 1e10, closed="both")
COUNT = Interval(Integral, 1, None, closed="left")
ITERATIONS: dict[str, Any] = {
    "max_iter": [COUNT],
    "tol": [Interval(Real, 0, None, closed="left")],
}
