"""Checks of complete labels, shares and masks."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from naim3l._arrays import Mask


def round_down(ratio: float) -> float:
    """Ratio rounded down to four digits, so that the value in an error is itself allowed."""
    return float(np.floor(ratio * 1e4 + 1e-9) / 1e4)


def check_labels(Y: ArrayLike) -> Mask:
    """Mask of the positives, (n_samples, n_labels); raises unless all entries are 0 or 1."""
    table = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"Y has shape {table.shape}; (n_samples, n_labels), not empty, is needed.")
    if table.dtype.kind in "biuf":
        valid = (table == 0) | (table == 1)
    else:  # text or nullable columns; comparisons with pandas.NA fail
        valid = np.vectorize(lambda y: isinstance(y, Real | np.bool_) and y in (0, 1))(table)
    if not valid.all():
        i, k = np.argwhere(~valid)[0]
        raise ValueError(f"Y holds {table[i, k]!r} in row {i}, column {k}; only 0 or 1 is allowed.")
    return table.astype(bool)


def check_ratio(name: str, value: float) -> float:
    if not (isinstance(value, Real) and 0 <= value <= 1):  # NaN fails the comparison too
        raise ValueError(f"{name}={value!r}; a number from 0 to 1 is needed.")
    return float(value)


def check_observed(observed: ArrayLike | None, n_samples: int, n_views: int) -> Mask:
    """Mask of the views that exist, (n_samples, n_views); every row needs one."""
    if not isinstance(n_views, Integral) or n_views < 1:
        raise ValueError(f"n_views={n_views!r}; a whole number of 1 or more is needed.")
    mask = np.ones((n_samples, n_views)) if observed is None else np.asarray(observed)
    shape = (n_samples, n_views)
    if mask.shape != shape or mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise ValueError(f"observed has shape {mask.shape}; 0 and 1 in {shape} are needed.")
    empty = np.flatnonzero(~mask.any(axis=1))
    if empty.size:
        raise ValueError(f"observed has no view in row {empty[0]}; every row needs one.")
    return mask.astype(bool)
